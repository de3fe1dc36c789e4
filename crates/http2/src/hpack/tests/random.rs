//! Random bytes give fields or an error; output of an encoder is decoded to the same fields; both dynamic tables stay
//! equal.

use super::super::huffman;
use super::super::{Decoder, HpackError};
use super::encoder::{self, Encoder, Literal};
use super::{Field, Random, decode};

#[test]
fn any_bytes_are_fields_or_an_error() {
    for seed in 0..20_000 {
        let mut random = Random(seed);
        let mut decoder = Decoder::new([0, 100, 4096][random.below(3)]);
        let list_bytes_max = random.below(2_000);
        // After an error no block would come; that the decoder is still in order shows that it never was not.
        for _ in 0..4 {
            let mut list_bytes = 0;
            let block = random.bytes(100);
            let outcome = decoder.decode(&block, list_bytes_max, &mut |name, value| {
                list_bytes += name.len() + value.len() + 32;
            });
            assert!(list_bytes <= list_bytes_max, "seed {seed}: {outcome:?}");
            assert!(decoder.table.bytes() <= 4096, "seed {seed}");
        }
    }
}

#[test]
fn a_block_with_a_few_wrong_bytes_is_fields_or_an_error() {
    for seed in 0..2_000 {
        let mut random = Random(seed);
        let mut encoder = Encoder { fields: Vec::new(), bytes_limit: 300 };
        let mut decoder = Decoder::new(300);
        for _ in 0..10 {
            let (mut block, _) = block(&mut random, &mut encoder, 300);
            for _ in 0..random.below(3).min(block.len()) {
                let at = random.below(block.len());
                block[at] = random.next() as u8;
            }
            block.truncate(if random.chance(4) { random.below(block.len() + 1) } else { block.len() });
            let _ = decode(&mut decoder, &block);
            assert!(decoder.table.bytes() <= 300, "seed {seed}");
        }
    }
}

#[test]
fn what_an_encoder_writes_is_read_back() {
    for seed in 0..600 {
        let mut random = Random(seed);
        let table_bytes_max = [0, 33, 100, 256, 1_000, 4_096][random.below(6)];
        let mut encoder = Encoder { fields: Vec::new(), bytes_limit: table_bytes_max };
        let mut decoder = Decoder::new(table_bytes_max);
        for _ in 0..30 {
            let (block, fields) = block(&mut random, &mut encoder, table_bytes_max);
            assert_eq!(decode(&mut decoder, &block), Ok(fields), "seed {seed}");
            check_tables(&encoder, &decoder, seed);
            assert!(decoder.table.buffer_bytes() <= 3 * table_bytes_max, "seed {seed}");
        }
    }
}

fn check_tables(encoder: &Encoder, decoder: &Decoder, seed: u64) {
    assert_eq!(encoder.bytes(), decoder.table.bytes(), "seed {seed}");
    for index in 1..=encoder.indexes() {
        let (name, value) = encoder.get(index);
        assert_eq!(decoder.table.get(index), Some((name.as_slice(), value.as_slice())), "seed {seed}");
    }
    assert_eq!(decoder.table.get(encoder.indexes() + 1), None, "seed {seed}");
}

/// A block and its fields.
fn block(random: &mut Random, encoder: &mut Encoder, table_bytes_max: usize) -> (Vec<u8>, Vec<Field>) {
    let (mut block, mut fields) = (Vec::new(), Vec::new());
    while random.chance(6) {
        // Smaller, then back to all of it, is what a peer does; anything allowed may come.
        let bytes_limit = if random.chance(2) { table_bytes_max } else { random.below(table_bytes_max + 1) };
        encoder.resize(&mut block, bytes_limit);
    }
    for _ in 0..random.below(8) {
        let index = if random.chance(3) { random.below(61) + 1 } else { random.below(encoder.indexes()) + 1 };
        if random.chance(3) {
            fields.push(encoder.get(index));
            encoder.indexed(&mut block, index);
            continue;
        }
        let kind = [Literal::Inserted, Literal::Inserted, Literal::Plain, Literal::Never][random.below(4)];
        let name_index = if random.chance(2) { index } else { 0 };
        let name = if name_index == 0 { text(random) } else { encoder.get(index).0 };
        let field = (name, text(random));
        encoder.literal(&mut block, kind, name_index, &field, (random.chance(2), random.chance(2)));
        fields.push(field);
    }
    (block, fields)
}

/// Mostly what names and values look like; sometimes any bytes, or more of them than a number's first byte can say.
fn text(random: &mut Random) -> Vec<u8> {
    let length_max = if random.chance(10) { 400 } else { 20 };
    let bytes = random.bytes(length_max);
    if random.chance(4) { bytes } else { bytes.into_iter().map(|byte| b' ' + byte % 95).collect() }
}

#[test]
fn huffman_code_is_read_as_bit_by_bit() {
    let codes: Vec<_> = (0..=255).map(encoder::code).collect();
    for seed in 0..5_000 {
        let mut random = Random(seed);
        let mut coded = random.bytes(12);
        if random.chance(2) {
            coded.extend(encoder::packed(&encoder::huffman_bits(&text(&mut random))));
        }
        if random.chance(2) {
            // Long codes begin with ones.
            let at = random.below(coded.len() + 1);
            coded.splice(at..at, [0xff, 0xff]);
        }
        let mut text = b"before".to_vec();
        let outcome = huffman::decode(&coded, &mut text).map(|()| text.split_off(6));
        assert_eq!(outcome, bit_by_bit(&coded, &codes), "seed {seed}: {coded:02x?}");
    }
}

#[test]
fn huffman_code_of_every_byte() {
    for byte in 0..=255 {
        for length in 1..40 {
            let text = vec![byte; length];
            let mut decoded = Vec::new();
            assert_eq!(huffman::decode(&encoder::packed(&encoder::huffman_bits(&text)), &mut decoded), Ok(()));
            assert_eq!(decoded, text);
        }
    }
}

fn bit_by_bit(coded: &[u8], codes: &[(u32, u32)]) -> Result<Vec<u8>, HpackError> {
    let (mut text, mut code, mut bits) = (Vec::new(), 0_u32, 0);
    for bit in coded.iter().flat_map(|byte| (0..8).rev().map(move |bit| u32::from(byte >> bit & 1))) {
        (code, bits) = (code << 1 | bit, bits + 1);
        if let Some(byte) = codes.iter().position(|known| *known == (code, bits)) {
            text.push(byte as u8);
            (code, bits) = (0, 0);
        }
        if bits == 30 {
            return Err(HpackError::Huffman);
        }
    }
    if bits < 8 && code == (1 << bits) - 1 { Ok(text) } else { Err(HpackError::Huffman) }
}

#[test]
fn long_values_that_repeat_are_decoded_as_if_for_the_first_time() {
    let mut decoder = Decoder::new(4_096);
    let one = b"Bearer segno_0123456789abcdefghijklmnopqrstuvwxyz".to_vec();
    let other = b"Bearer segno_0123456789abcdefghijklmnopqrstuvwxy!".to_vec();
    let coded = |value: &[u8]| {
        // Never indexed, a name of one byte.
        let mut block = vec![0b0001_0000, 1, b'a'];
        let value = encoder::packed(&encoder::huffman_bits(value));
        encoder::integer(&mut block, 0x80, 7, value.len());
        block.extend(value);
        block
    };
    for value in [&one, &one, &other, &one, &one] {
        assert_eq!(decode(&mut decoder, &coded(value)), Ok(vec![(b"a".to_vec(), value.clone())]));
    }
    // One that ends in the middle of a symbol, and then the same again: an error both times.
    let mut wrong = coded(&one);
    *wrong.last_mut().unwrap() = 0;
    for _ in 0..2 {
        assert_eq!(decode(&mut Decoder::new(4_096), &wrong), Err(HpackError::Huffman));
        assert_eq!(decode(&mut decoder, &wrong), Err(HpackError::Huffman));
    }
    assert_eq!(decode(&mut decoder, &coded(&one)), Ok(vec![(b"a".to_vec(), one)]));
}
