//! A simple encoder with a dynamic table and a Huffman code made of single bits, as the other side in tests.

use super::super::huffman::SYMBOLS;
use super::super::table::STATIC;
use super::Field;

/// A byte's code and how many bits it has. Each code is the one before plus 1, with zeros appended to its length.
pub fn code(byte: u8) -> (u32, u32) {
    let (mut code, mut bits) = (0, 0);
    for (row_bits, symbols) in SYMBOLS {
        for symbol in symbols {
            code <<= row_bits - bits;
            bits = row_bits;
            if *symbol == byte {
                return (code, bits);
            }
            code += 1;
        }
    }
    panic!("no code for {byte}");
}

/// The bits of a text, first one first, without padding.
pub fn huffman_bits(text: &[u8]) -> Vec<bool> {
    let bits_of = |byte: &u8| {
        let (code, bits) = code(*byte);
        (0..bits).rev().map(move |bit| code >> bit & 1 == 1)
    };
    text.iter().flat_map(bits_of).collect()
}

/// Bits as bytes, the last one filled with ones.
pub fn packed(bits: &[bool]) -> Vec<u8> {
    let byte = |bits: &[bool]| (0..8).fold(0, |byte, at| byte << 1 | u8::from(bits.get(at).copied().unwrap_or(true)));
    bits.chunks(8).map(byte).collect()
}

pub fn integer(block: &mut Vec<u8>, kind: u8, prefix_bits: u32, mut number: usize) {
    let prefix_max = (1 << prefix_bits) - 1;
    if number < prefix_max {
        return block.push(kind | number as u8);
    }
    block.push(kind | prefix_max as u8);
    number -= prefix_max;
    while number >= 0x80 {
        block.push(0x80 | (number % 0x80) as u8);
        number /= 0x80;
    }
    block.push(number as u8);
}

pub fn text(block: &mut Vec<u8>, text: &[u8], is_coded: bool) {
    let coded = if is_coded { packed(&huffman_bits(text)) } else { text.to_vec() };
    integer(block, if is_coded { 0x80 } else { 0 }, 7, coded.len());
    block.extend(coded);
}

/// How a field with its value in the block is written.
#[derive(Clone, Copy, Debug)]
pub enum Literal {
    Inserted,
    Plain,
    Never,
}

/// Writes blocks and keeps the table that the decoder must have afterwards.
pub struct Encoder {
    /// Newest first.
    pub fields: Vec<Field>,
    pub bytes_limit: usize,
}

impl Encoder {
    /// How many fields have an index; the last one is the highest.
    pub fn indexes(&self) -> usize {
        STATIC.len() + self.fields.len()
    }

    /// The field with an index, from 1.
    pub fn get(&self, index: usize) -> Field {
        match STATIC.get(index - 1) {
            Some((name, value)) => (name.as_bytes().to_vec(), value.as_bytes().to_vec()),
            None => self.fields[index - 1 - STATIC.len()].clone(),
        }
    }

    pub fn bytes(&self) -> usize {
        self.fields.iter().map(|(name, value)| name.len() + value.len() + 32).sum()
    }

    pub fn resize(&mut self, block: &mut Vec<u8>, bytes_limit: usize) {
        integer(block, 0b0010_0000, 5, bytes_limit);
        self.bytes_limit = bytes_limit;
        self.evict();
    }

    pub fn indexed(&mut self, block: &mut Vec<u8>, index: usize) {
        integer(block, 0b1000_0000, 7, index);
    }

    /// `name_index` 0 for a name in the block. `is_coded`: whether name and value are Huffman coded.
    pub fn literal(
        &mut self,
        block: &mut Vec<u8>,
        kind: Literal,
        name_index: usize,
        field: &Field,
        is_coded: (bool, bool),
    ) {
        match kind {
            Literal::Inserted => integer(block, 0b0100_0000, 6, name_index),
            Literal::Plain => integer(block, 0b0000_0000, 4, name_index),
            Literal::Never => integer(block, 0b0001_0000, 4, name_index),
        }
        if name_index == 0 {
            text(block, &field.0, is_coded.0);
        }
        text(block, &field.1, is_coded.1);
        if matches!(kind, Literal::Inserted) {
            self.fields.insert(0, field.clone());
            self.evict();
        }
    }

    /// Oldest first, in the end the newest itself.
    fn evict(&mut self) {
        while self.bytes() > self.bytes_limit {
            self.fields.pop();
        }
    }
}
