//! Header blocks that must be refused, each for its reason, and valid ones that look malformed.

use super::super::{Decoder, HpackError};
use super::encoder::{self, Encoder, Literal};
use super::{decode, hex, lines};

fn refused(block: &str) -> HpackError {
    decode(&mut Decoder::new(4096), &hex(block)).unwrap_err()
}

fn accepted(block: &str) -> Vec<String> {
    lines(&decode(&mut Decoder::new(4096), &hex(block)).unwrap())
}

#[test]
fn a_block_that_ends_within_a_field() {
    let whole = hex("8287 85 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65");
    for end in 4..whole.len() {
        assert_eq!(decode(&mut Decoder::new(4096), &whole[..end]), Err(HpackError::Truncated), "{end}");
    }
    assert_eq!(refused("ff"), HpackError::Truncated);
    assert_eq!(refused("3f ff"), HpackError::Truncated);
    assert_eq!(refused("41 8c f1"), HpackError::Truncated);
    assert_eq!(accepted(""), [""; 0]);
}

#[test]
fn numbers_that_are_too_large() {
    assert_eq!(refused("ff ff ff ff ff 7f"), HpackError::Integer);
    assert_eq!(refused("ff ff ff ff ff ff 00"), HpackError::Integer);
    assert_eq!(refused("ff 80 80 80 80 80 00"), HpackError::Integer);
    assert_eq!(refused("00 7f 82 ff ff 7f"), HpackError::Integer);
    // 2^28 itself is a number, only that no text has so many bytes.
    assert_eq!(refused("00 7f 81 ff ff 7f"), HpackError::Truncated);
    // Zeros in front of a number are no error, as long as they are few.
    assert_eq!(accepted("0f 80 80 80 80 00 01 61"), ["accept-charset: a"]);
}

#[test]
fn indexes_of_nothing() {
    assert_eq!(refused("80"), HpackError::Index);
    assert_eq!(refused("be"), HpackError::Index);
    assert_eq!(refused("7e 00"), HpackError::Index);
    assert_eq!(refused("40 01 61 01 62 bf"), HpackError::Index);
    assert_eq!(accepted("40 01 61 01 62 be bd"), ["a: b", "a: b", "www-authenticate: "]);
}

#[test]
fn sizes_of_the_table() {
    assert_eq!(refused("3f e2 1f"), HpackError::TableSize);
    assert_eq!(refused("82 20"), HpackError::TableSize);
    assert_eq!(refused("3f e2 1f 82"), HpackError::TableSize);
    assert_eq!(accepted("20 3f e1 1f 82"), [":method: GET"]);
    // Nothing fits; that is no error, but the field is not there afterwards.
    assert_eq!(accepted("20 40 01 61 01 62"), ["a: b"]);
    assert_eq!(refused("20 40 01 61 01 62 be"), HpackError::Index);
    // Until the peer says otherwise it is what HTTP/2 begins with, even if more is allowed.
    let mut decoder = Decoder::new(1 << 16);
    let mut block = hex("40 01 61");
    encoder::text(&mut block, &[b'b'; 4096], false);
    decode(&mut decoder, &block).unwrap();
    assert_eq!(decoder.table.bytes(), 0);
    assert!(decode(&mut decoder, &[hex("3f e1 ff 03"), block].concat()).is_ok());
    assert_eq!(decoder.table.bytes(), 4096 + 33);
}

#[test]
fn huffman_code_with_wrong_ends() {
    // "0" and three ones; three bits that are not ones; eight bits of padding; the end of the text as a symbol.
    assert_eq!(accepted("00 01 61 81 07"), ["a: 0"]);
    assert_eq!(refused("00 01 61 81 03"), HpackError::Huffman);
    assert_eq!(refused("00 01 61 81 ff"), HpackError::Huffman);
    assert_eq!(refused("00 01 61 82 07 ff"), HpackError::Huffman);
    assert_eq!(refused("00 01 61 84 ff ff ff ff"), HpackError::Huffman);
    assert_eq!(refused("00 01 61 85 07 ff ff ff ff"), HpackError::Huffman);
    assert_eq!(refused("00 01 61 8c ff ff ff ff ff ff ff ff ff ff ff ff"), HpackError::Huffman);
    assert_eq!(refused("00 01 61 81 fe"), HpackError::Huffman);
    assert_eq!(accepted("00 80 80"), [": "]);
}

#[test]
fn a_name_of_a_field_that_makes_room_for_its_successor() {
    let mut decoder = Decoder::new(80);
    let mut encoder = Encoder { fields: Vec::new(), bytes_limit: 80 };
    let mut block = Vec::new();
    let name = b"name".to_vec();
    encoder.literal(&mut block, Literal::Inserted, 0, &(name.clone(), b"first".to_vec()), (false, false));
    encoder.literal(&mut block, Literal::Inserted, 62, &(name.clone(), [b's'; 40].to_vec()), (true, true));
    encoder.indexed(&mut block, 62);
    let fields = decode(&mut decoder, &block).unwrap();
    let second = format!("name: {}", "s".repeat(40));
    assert_eq!(lines(&fields), ["name: first", &second, &second]);
    assert_eq!((decoder.table.bytes(), encoder.fields.len()), (76, 1));
    // Too large for the table: it is given, and the table is empty.
    let mut block = Vec::new();
    encoder.literal(&mut block, Literal::Inserted, 62, &(name, [b't'; 60].to_vec()), (true, false));
    assert_eq!(lines(&decode(&mut decoder, &block).unwrap()), [format!("name: {}", "t".repeat(60))]);
    assert_eq!((decoder.table.bytes(), encoder.fields.len()), (0, 0));
    assert_eq!(decode(&mut decoder, &[0x80 | 62]), Err(HpackError::Index));
}

#[test]
fn a_list_that_is_too_large() {
    // 42, 34 and 42 bytes.
    let block = hex("82 40 01 61 01 62 82");
    use super::super::HeaderList::{Complete, TooLarge};
    for (list_bytes_max, given, outcome, table) in [
        (118, 3, Ok(Complete), 34),
        (117, 2, Ok(TooLarge), 34),
        (75, 1, Ok(TooLarge), 34),
        (59, 1, Ok(TooLarge), 34),
        (58, 1, Err(HpackError::ListTooLarge), 34),
        (30, 0, Err(HpackError::ListTooLarge), 0),
    ] {
        let (mut decoder, mut fields) = (Decoder::new(4096), 0);
        assert_eq!(decoder.decode(&block, list_bytes_max, &mut |_, _| fields += 1), outcome);
        assert_eq!(fields, given, "{list_bytes_max}");
        assert_eq!(decoder.table.bytes(), table, "{list_bytes_max}");
    }
}

#[test]
fn references_of_a_byte_do_not_become_megabytes() {
    let mut decoder = Decoder::new(4096);
    let mut entry = hex("40 01 61");
    encoder::text(&mut entry, &[b'b'; 4000], false);
    decode(&mut decoder, &entry).unwrap();
    let mut given = 0;
    let outcome = decoder.decode(&[0xbe; 16_000], 64 * 1024, &mut |name, value| given += name.len() + value.len());
    assert_eq!(outcome, Err(HpackError::ListTooLarge));
    assert!(given <= 64 * 1024, "{given}");
}
