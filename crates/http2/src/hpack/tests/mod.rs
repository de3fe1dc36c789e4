//! Tests of the decoder, and what they share: an encoder, fields written as text, a seeded random number generator.

mod encoder;
mod malformed;
mod random;
mod rfc;

use super::{Decoder, HeaderList, HpackError};

/// More than any list here.
const LIST_BYTES_MAX: usize = 1 << 20;

type Field = (Vec<u8>, Vec<u8>);

/// All fields of a block.
fn decode(decoder: &mut Decoder, block: &[u8]) -> Result<Vec<Field>, HpackError> {
    let mut fields = Vec::new();
    let list =
        decoder.decode(block, LIST_BYTES_MAX, &mut |name, value| fields.push((name.to_vec(), value.to_vec())))?;
    assert_eq!(list, HeaderList::Complete);
    Ok(fields)
}

/// Fields as one writes them, a line each.
fn lines(fields: &[Field]) -> Vec<String> {
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    fields.iter().map(|(name, value)| format!("{}: {}", text(name), text(value))).collect()
}

/// Bytes as the RFC writes them.
fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

/// Numbers that only look like chance (SplitMix64): a seed repeats exactly.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    fn chance(&mut self, of: usize) -> bool {
        self.below(of) == 0
    }

    fn bytes(&mut self, length_max: usize) -> Vec<u8> {
        (0..self.below(length_max + 1)).map(|_| self.next() as u8).collect()
    }
}
