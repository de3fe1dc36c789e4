//! The Huffman code of header text (RFC 7541, section 5.2 and appendix B).
//!
//! The code is canonical: codes of one length are consecutive numbers in the order of their symbols, and continue where
//! the next shorter ones ended. So a list of the symbols by length defines the code, and the tables are derived at
//! compile time.
//!
//! Most symbols of names and values have at most 8 bits; these are found by one table look-up with the next 8 bits.
//! Others are found by comparing with the end of the codes of each length.

use super::HpackError;

/// The symbols by the bits of their code, in the order of their codes. After the last one comes the end of the text
/// (EOS), 30 ones, which may only appear as padding and never in full.
pub(super) const SYMBOLS: [(u32, &[u8]); 21] = [
    (5, b"012aceiost"),
    (6, b" %-./3456789=A_bdfghlmnpru"),
    (7, b":BCDEFGHIJKLMNOPQRSTUVWYjkqvwxyz"),
    (8, b"&*,;XZ"),
    (10, b"!\"()?"),
    (11, b"'+|"),
    (12, b"#>"),
    (13, b"\x00$@[]~"),
    (14, b"^}"),
    (15, b"<`{"),
    (19, b"\\\xc3\xd0"),
    (20, b"\x80\x82\x83\xa2\xb8\xc2\xe0\xe2"),
    (21, b"\x99\xa1\xa7\xac\xb0\xb1\xb3\xd1\xd8\xd9\xe3\xe5\xe6"),
    (22, b"\x81\x84\x85\x86\x88\x92\x9a\x9c\xa0\xa3\xa4\xa9\xaa\xad\xb2\xb5\xb9\xba\xbb\xbd\xbe\xc4\xc6\xe4\xe8\xe9"),
    (
        23,
        b"\x01\x87\x89\x8a\x8b\x8c\x8d\x8f\x93\x95\x96\x97\x98\x9b\x9d\x9e\xa5\xa6\xa8\xae\xaf\xb4\xb6\xb7\xbc\xbf\xc5\
          \xe7\xef",
    ),
    (24, b"\x09\x8e\x90\x91\x94\x9f\xab\xce\xd7\xe1\xec\xed"),
    (25, b"\xc7\xcf\xea\xeb"),
    (26, b"\xc0\xc1\xc8\xc9\xca\xcd\xd2\xd5\xda\xdb\xee\xf0\xf2\xf3\xff"),
    (27, b"\xcb\xcc\xd3\xd4\xd6\xdd\xde\xdf\xf1\xf4\xf5\xf6\xf7\xf8\xfa\xfb\xfc\xfd\xfe"),
    (
        28,
        b"\x02\x03\x04\x05\x06\x07\x08\x0b\x0c\x0e\x0f\x10\x11\x12\x13\x14\x15\x17\x18\x19\x1a\x1b\x1c\x1d\x1e\x1f\x7f\
          \xdc\xf9",
    ),
    (30, b"\x0a\x0d\x16"),
];

/// Bits of the longest code.
const CODE_BITS_MAX: u32 = 30;

/// Bits of the shortest code.
const CODE_BITS_MIN: usize = 5;

/// How many of [`SYMBOLS`]' rows have codes of at most 8 bits.
const SHORT_ROWS: usize = 4;

/// Symbol and bits of the code by the next 8 bits; no bits where the code is longer than 8.
static SHORT: [(u8, u8); 256] = short();

/// Where the codes of each row of [`SYMBOLS`] end: the first number above them, aligned to the left of 32 bits.
static ENDS: [u32; SYMBOLS.len()] = ends();

// One code is left over, which is the one of EOS.
const _: () = assert!(ends()[SYMBOLS.len() - 1] == u32::MAX - 0b11);

const fn ends() -> [u32; SYMBOLS.len()] {
    let mut ends = [0; SYMBOLS.len()];
    let (mut end, mut row) = (0, 0);
    while row < SYMBOLS.len() {
        let (bits, symbols) = SYMBOLS[row];
        end += (symbols.len() as u32) << (32 - bits);
        ends[row] = end;
        row += 1;
    }
    ends
}

const fn short() -> [(u8, u8); 256] {
    let mut short = [(0, 0); 256];
    let (mut next, mut row) = (0, 0);
    while row < SHORT_ROWS {
        let (bits, symbols) = SYMBOLS[row];
        let mut rank = 0;
        while rank < symbols.len() {
            // A code shorter than 8 bits is there once for everything that can follow it.
            let end = next + (1 << (8 - bits));
            while next < end {
                short[next] = (symbols[rank], bits as u8);
                next += 1;
            }
            rank += 1;
        }
        row += 1;
    }
    short
}

/// Appends to `text` what `coded` says.
pub(super) fn decode(mut coded: &[u8], text: &mut Vec<u8>) -> Result<(), HpackError> {
    // Room for the longest text there can be: a byte at a time is written without asking for more.
    let mut length = text.len();
    text.resize(length + coded.len() * 8 / CODE_BITS_MIN, 0);
    // What is not decoded yet, aligned to the left, and how many bits of it count.
    let (mut window, mut bits) = (0_u64, 0_u32);
    while !coded.is_empty() {
        refill(&mut coded, &mut window, &mut bits);
        while bits >= CODE_BITS_MAX {
            let (symbol, taken) = first(window)?;
            text[length] = symbol;
            length += 1;
            window <<= taken;
            bits -= taken;
        }
    }
    while bits > 0 {
        // As if padding never ended. No code of at most 7 bits is all ones, so that padding is not taken for a symbol.
        let padded = window | (u64::MAX >> bits);
        if bits < 8 && padded == u64::MAX {
            break;
        }
        let (symbol, taken) = first(padded)?;
        bits = bits.checked_sub(taken).ok_or(HpackError::Huffman)?;
        text[length] = symbol;
        length += 1;
        window <<= taken;
    }
    text.truncate(length);
    Ok(())
}

/// Takes as many whole bytes as have room. Called with bytes left and room for one at least.
#[inline]
fn refill(coded: &mut &[u8], window: &mut u64, bits: &mut u32) {
    if let Some(word) = coded.first_chunk::<8>() {
        // Bits of a byte that has no room as a whole come along. They do no harm: the same bits are set again later.
        *window |= u64::from_be_bytes(*word) >> *bits;
        let bytes = (63 - *bits) / 8;
        *coded = &coded[bytes as usize..];
        *bits += bytes * 8;
        return;
    }
    while *bits <= 56
        && let Some((byte, rest)) = coded.split_first()
    {
        *window |= u64::from(*byte) << (56 - *bits);
        *bits += 8;
        *coded = rest;
    }
}

/// The symbol whose code the window begins with, and the bits of its code.
#[inline]
fn first(window: u64) -> Result<(u8, u32), HpackError> {
    let (symbol, bits) = SHORT[(window >> 56) as usize];
    if bits > 0 { Ok((symbol, u32::from(bits))) } else { first_long((window >> 32) as u32) }
}

fn first_long(window: u32) -> Result<(u8, u32), HpackError> {
    let rows = SYMBOLS.iter().zip(&ENDS).skip(SHORT_ROWS);
    for ((bits, symbols), end) in rows {
        if window < *end {
            // Counted from the last one of the row, whose code is just below the end.
            let rank_from_last = (end - 1 - window) >> (32 - bits);
            return Ok((symbols[symbols.len() - 1 - rank_from_last as usize], *bits));
        }
    }
    Err(HpackError::Huffman)
}
