//! HPACK (RFC 7541), header compression for HTTP/2: the decoder.
//!
//! Both sides of a connection keep the same dynamic table of recent fields, and a header block refers to entries by
//! index. So each block must be decoded, in order, even if its fields are not needed; and after an error the tables
//! differ, which is a connection error.
//!
//! What holds: no input panics; fields are given as slices of the block, of the table or of a reused buffer, so that
//! nothing is allocated once these have grown to what a connection needs. Decoding stops when a list is twice as large
//! as allowed: a block of a few bytes cannot stand for megabytes.

mod huffman;
mod table;
#[cfg(test)]
mod tests;

use std::fmt;

use table::{FIELD_OVERHEAD_BYTES, Table};

/// No integer in a block is larger. It is far more than any length or index can be, and far from overflowing.
const INTEGER_MAX: u64 = 1 << 28;
/// Larger buffers are not kept between blocks.
const KEPT_BYTES: usize = 4 * 1024;

/// Why a header block could not be decoded. Always a connection error, because the dynamic tables differ from
/// now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HpackError {
    /// The block ends within a field.
    Truncated,
    /// An integer is larger than any length or index can be.
    Integer,
    /// Huffman code with EOS in it, or with wrong padding.
    Huffman,
    /// No field has this index.
    Index,
    /// A dynamic table size update to more than allowed, or after the first field.
    TableSize,
    /// The list is more than twice as large as allowed (ENHANCE_YOUR_CALM).
    ListTooLarge,
}

/// Whether all fields of a block were given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum HeaderList {
    /// All of them.
    Complete,
    /// The list is larger than allowed. Fields from the first that exceeds the limit on were decoded for the dynamic
    /// table, but not given.
    TooLarge,
}

impl fmt::Display for HpackError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Truncated => "a header block ends within a field",
            Self::Integer => "an integer in a header block is too large",
            Self::Huffman => "Huffman code in a header block is malformed",
            Self::Index => "a header block has an index that no field has",
            Self::TableSize => "a dynamic table size update is larger than allowed, or comes after a field",
            Self::ListTooLarge => "a header list is much too large",
        })
    }
}

impl std::error::Error for HpackError {}

/// Decodes the header blocks of one connection.
#[derive(Debug)]
pub struct Decoder {
    table: Table,
    /// The last name and the last value that were Huffman coded, or copied from the table.
    name: Vec<u8>,
    value: Vec<u8>,
    long: [LongValue; LONG_VALUES],
}

/// A long value that was Huffman coded. Paths and secrets are not in the table, so that a client sends them in full with every
/// request, and they are the same few again and again.
#[derive(Debug, Default)]
struct LongValue {
    coded: Vec<u8>,
    text: Vec<u8>,
}

/// Bytes of coded values that are kept: shorter ones are decoded as quickly.
const LONG_BYTES: std::ops::RangeInclusive<usize> = 24..=512;
/// How many are kept, each at the place that its last bytes say.
const LONG_VALUES: usize = 8;

impl LongValue {
    fn place(coded: &[u8]) -> usize {
        let last = coded.last_chunk::<4>().map_or(0, |last| u32::from_le_bytes(*last));
        // The highest bits of a product with an odd number depend on all bits of the other factor.
        (last.wrapping_mul(0x9e37_79b1) >> 29) as usize % LONG_VALUES
    }

    fn decode(&mut self, coded: &[u8]) -> Result<&[u8], HpackError> {
        if self.coded != coded {
            // What is not decoded to its end is nothing that was decoded.
            self.coded.clear();
            self.text.clear();
            huffman::decode(coded, &mut self.text)?;
            self.coded.extend_from_slice(coded);
        }
        Ok(&self.text)
    }
}

impl Decoder {
    /// A decoder with an empty table.
    ///
    /// `table_bytes_max`: what our SETTINGS_HEADER_TABLE_SIZE says (4096). With less, a peer that sends headers before
    /// it has seen our settings may count on 4096, and its first blocks may be misread.
    pub fn new(table_bytes_max: usize) -> Self {
        Self { table: Table::new(table_bytes_max), name: Vec::new(), value: Vec::new(), long: Default::default() }
    }

    /// Gives the fields in order to `field(name, value)`.
    ///
    /// The sum of name, value and 32 over the fields may not exceed `list_bytes_max`. From the field that exceeds it on
    /// none is given, but the dynamic table has all of them. At twice the limit decoding ends with an error. After an
    /// error nothing more can be decoded.
    pub fn decode(
        &mut self,
        block: &[u8],
        list_bytes_max: usize,
        field: &mut impl FnMut(&[u8], &[u8]),
    ) -> Result<HeaderList, HpackError> {
        let mut rest = block;
        let mut list = ListSize { bytes: 0, bytes_max: list_bytes_max };
        while let Some(&first) = rest.first()
            && is_table_size(first)
        {
            let bytes_limit = integer(&mut rest, 5)?;
            if !self.table.resize(bytes_limit) {
                return Err(HpackError::TableSize);
            }
        }
        while let Some(&first) = rest.first() {
            if first & 0b1000_0000 != 0 {
                let index = integer(&mut rest, 7)?;
                let (name, value) = self.table.get(index).ok_or(HpackError::Index)?;
                if list.add(name, value)? {
                    field(name, value);
                }
            } else if is_table_size(first) {
                return Err(HpackError::TableSize);
            } else {
                self.literal(first, &mut rest, &mut list, field)?;
            }
        }
        for buffer in [&mut self.name, &mut self.value] {
            if buffer.capacity() > KEPT_BYTES {
                *buffer = Vec::new();
            }
        }
        Ok(if list.fits() { HeaderList::Complete } else { HeaderList::TooLarge })
    }

    /// A field whose value is in the block, and perhaps its name.
    fn literal(
        &mut self,
        first: u8,
        rest: &mut &[u8],
        list: &mut ListSize,
        field: &mut impl FnMut(&[u8], &[u8]),
    ) -> Result<(), HpackError> {
        // "Without indexing" and "never indexed" differ only for intermediaries.
        let inserted = first & 0b0100_0000 != 0;
        let index = integer(rest, if inserted { 6 } else { 4 })?;
        let name = if index == 0 {
            match literal_string(rest)? {
                (text, false) => text,
                (coded, true) => decoded(coded, &mut self.name)?,
            }
        } else {
            // A copy, because inserting the field may evict the one that has the name.
            self.name.clear();
            self.name.extend_from_slice(self.table.get(index).ok_or(HpackError::Index)?.0);
            &self.name
        };
        let value = match literal_string(rest)? {
            (text, false) => text,
            (coded, true) if LONG_BYTES.contains(&coded.len()) => self.long[LongValue::place(coded)].decode(coded)?,
            (coded, true) => decoded(coded, &mut self.value)?,
        };
        if list.add(name, value)? {
            field(name, value);
        }
        if inserted {
            self.table.insert(name, value);
        }
        Ok(())
    }
}

/// Whether this is the first byte of a dynamic table size update.
#[inline]
fn is_table_size(first: u8) -> bool {
    first >> 5 == 0b001
}

/// The size of a header list so far.
struct ListSize {
    bytes: usize,
    bytes_max: usize,
}

impl ListSize {
    /// Adds a field; true if the list is not larger than allowed.
    #[inline]
    fn add(&mut self, name: &[u8], value: &[u8]) -> Result<bool, HpackError> {
        self.bytes += name.len() + value.len() + FIELD_OVERHEAD_BYTES;
        if self.bytes > 2 * self.bytes_max { Err(HpackError::ListTooLarge) } else { Ok(self.fits()) }
    }

    fn fits(&self) -> bool {
        self.bytes <= self.bytes_max
    }
}

/// An integer whose prefix is the last `prefix_bits` of the first byte (section 5.1).
#[inline]
fn integer(rest: &mut &[u8], prefix_bits: u32) -> Result<usize, HpackError> {
    let (first, after) = rest.split_first().ok_or(HpackError::Truncated)?;
    *rest = after;
    let prefix_max = (1_u8 << prefix_bits) - 1;
    let prefix = first & prefix_max;
    if prefix < prefix_max { Ok(usize::from(prefix)) } else { long_integer(rest, u64::from(prefix)) }
}

/// The rest of an integer that does not fit its prefix: 7 bits per byte, least significant first.
fn long_integer(rest: &mut &[u8], prefix: u64) -> Result<usize, HpackError> {
    let mut number = prefix;
    for shift in [0, 7, 14, 21, 28] {
        let (byte, after) = rest.split_first().ok_or(HpackError::Truncated)?;
        *rest = after;
        number += u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return if number <= INTEGER_MAX { Ok(number as usize) } else { Err(HpackError::Integer) };
        }
    }
    Err(HpackError::Integer)
}

/// A string literal (section 5.2), and whether it is Huffman coded.
#[inline]
fn literal_string<'block>(rest: &mut &'block [u8]) -> Result<(&'block [u8], bool), HpackError> {
    let first = rest.first().ok_or(HpackError::Truncated)?;
    let is_coded = first & 0x80 != 0;
    let length = integer(rest, 7)?;
    let (string, after) = rest.split_at_checked(length).ok_or(HpackError::Truncated)?;
    *rest = after;
    Ok((string, is_coded))
}

#[inline]
fn decoded<'a>(coded: &[u8], text: &'a mut Vec<u8>) -> Result<&'a [u8], HpackError> {
    text.clear();
    huffman::decode(coded, text)?;
    Ok(text)
}
