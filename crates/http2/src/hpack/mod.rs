//! HPACK (RFC 7541): how HTTP/2 packs the fields of headers. Here is the side that reads.
//!
//! Both sides of a connection keep the same table of recent fields, and a block says "the one with this number" for
//! what repeats. So each block must be decoded, in order, even if nobody wants its fields any more; and after an error
//! the tables differ, which is the end of the connection.
//!
//! What holds: no input panics; fields are given as slices of the block, of the table or of a buffer that is kept, so
//! that nothing is allocated once these have grown to what a connection needs.

mod huffman;
mod table;
#[cfg(test)]
mod tests;

use std::fmt;

use table::{FIELD_OVERHEAD_BYTES, Table};

/// No number in a block is larger. It is far more than any length or index can be, and far from overflowing.
const INTEGER_MAX: u64 = 1 << 28;

/// Why a block of headers could not be read. Always the end of the connection (COMPRESSION_ERROR).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HpackError {
    /// The block ends within a field.
    Truncated,
    /// A number is larger than anything can be.
    Integer,
    /// Huffman code with an end in it, or with wrong padding.
    Huffman,
    /// No field has this index.
    Index,
    /// The size of the table is to be more than allowed, or to change after the first field.
    TableSize,
    /// The fields are more than the receiver takes.
    ListTooLarge,
}

impl fmt::Display for HpackError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Truncated => "headers end within a field",
            Self::Integer => "a number in headers is too large",
            Self::Huffman => "Huffman code in headers is malformed",
            Self::Index => "headers refer to a field that is not there",
            Self::TableSize => "headers change the size of the table to more than allowed, or too late",
            Self::ListTooLarge => "headers are too large",
        })
    }
}

impl std::error::Error for HpackError {}

/// Reads the blocks of one connection.
#[derive(Debug)]
pub struct Decoder {
    table: Table,
    /// The last name and the last value that could not be given as they were. They become no larger than the largest block makes
    /// them, which whoever collects blocks limits.
    name: Vec<u8>,
    value: Vec<u8>,
}

impl Decoder {
    /// A decoder with an empty table.
    ///
    /// `table_bytes_max`: what our SETTINGS_HEADER_TABLE_SIZE says (4096). With less, a peer that sends headers before
    /// it has seen our settings may count on 4096, and its first blocks may be misread.
    pub fn new(table_bytes_max: usize) -> Self {
        Self { table: Table::new(table_bytes_max), name: Vec::new(), value: Vec::new() }
    }

    /// Gives every field in order to `field(name, value)`.
    ///
    /// The sum of name, value and 32 over the fields may not exceed `list_bytes_max`. The field that exceeds it is not
    /// given and ends the decoding; the table has every field before it. After an error nothing more can be decoded.
    pub fn decode(
        &mut self,
        block: &[u8],
        list_bytes_max: usize,
        field: &mut impl FnMut(&[u8], &[u8]),
    ) -> Result<(), HpackError> {
        let mut rest = block;
        let mut list_bytes_left = list_bytes_max;
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
                count(&mut list_bytes_left, name, value)?;
                field(name, value);
            } else if is_table_size(first) {
                return Err(HpackError::TableSize);
            } else {
                self.literal(first, &mut rest, &mut list_bytes_left, field)?;
            }
        }
        Ok(())
    }

    /// A field whose value is in the block, and perhaps its name.
    fn literal(
        &mut self,
        first: u8,
        rest: &mut &[u8],
        list_bytes_left: &mut usize,
        field: &mut impl FnMut(&[u8], &[u8]),
    ) -> Result<(), HpackError> {
        // Whether it is "without indexing" or "never indexed" is the same to whoever does not forward it.
        let inserted = first & 0b0100_0000 != 0;
        let index = integer(rest, if inserted { 6 } else { 4 })?;
        let name = if index == 0 {
            text(rest, &mut self.name)?
        } else {
            // A copy, because inserting the field may evict the one that has the name.
            self.name.clear();
            self.name.extend_from_slice(self.table.get(index).ok_or(HpackError::Index)?.0);
            &self.name
        };
        let value = text(rest, &mut self.value)?;
        count(list_bytes_left, name, value)?;
        field(name, value);
        if inserted {
            self.table.insert(name, value);
        }
        Ok(())
    }
}

/// Whether this is the first byte of an update of the table's size.
#[inline]
fn is_table_size(first: u8) -> bool {
    first >> 5 == 0b001
}

/// Takes the size of a field off what is left for the list.
#[inline]
fn count(list_bytes_left: &mut usize, name: &[u8], value: &[u8]) -> Result<(), HpackError> {
    let bytes = name.len() + value.len() + FIELD_OVERHEAD_BYTES;
    *list_bytes_left = list_bytes_left.checked_sub(bytes).ok_or(HpackError::ListTooLarge)?;
    Ok(())
}

/// A number that begins with the last `prefix_bits` of the first byte (section 5.1).
#[inline]
fn integer(rest: &mut &[u8], prefix_bits: u32) -> Result<usize, HpackError> {
    let (first, after) = rest.split_first().ok_or(HpackError::Truncated)?;
    *rest = after;
    let prefix_max = (1_u8 << prefix_bits) - 1;
    let prefix = first & prefix_max;
    if prefix < prefix_max { Ok(usize::from(prefix)) } else { long_integer(rest, u64::from(prefix)) }
}

/// The rest of a number that does not fit its first byte: 7 bits per byte, the lowest first.
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

/// A name or a value (section 5.2): as it is in the block, or in `decoded` if it was Huffman coded.
#[inline]
fn text<'a, 'block: 'a>(rest: &mut &'block [u8], decoded: &'a mut Vec<u8>) -> Result<&'a [u8], HpackError> {
    let first = rest.first().ok_or(HpackError::Truncated)?;
    let is_coded = first & 0x80 != 0;
    let length = integer(rest, 7)?;
    let (text, after) = rest.split_at_checked(length).ok_or(HpackError::Truncated)?;
    *rest = after;
    if !is_coded {
        return Ok(text);
    }
    decoded.clear();
    huffman::decode(text, decoded)?;
    Ok(decoded)
}
