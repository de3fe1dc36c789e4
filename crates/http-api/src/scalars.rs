//! Single values between JSON, text and the wire.

use prost_types::field_descriptor_proto::Type;

use super::{
    dynamic::Scalar,
    json::{Node, Value},
    schema::{Enum, Field, Schema},
};

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Base64 with padding (RFC 4648, section 4).
pub(super) fn to_base64(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let group = chunk.iter().fold(0_u32, |group, byte| group << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for place in 0..4 {
            match place <= chunk.len() {
                true => text.push(char::from(ALPHABET[(group >> (18 - 6 * place)) as usize & 63])),
                false => text.push('='),
            }
        }
    }
    text
}

/// Bytes from Base64, of the standard alphabet or that for URLs, with padding or without.
pub(super) fn base64(text: &str) -> Option<Vec<u8>> {
    let padding = text.bytes().rev().take_while(|byte| *byte == b'=').count();
    let digits = &text.as_bytes()[..text.len() - padding];
    if padding > 2 || digits.len() % 4 == 1 || (padding > 0 && !text.len().is_multiple_of(4)) {
        return None;
    }
    let for_urls = text.contains(['-', '_']);
    let mut bytes = Vec::with_capacity(digits.len() / 4 * 3 + 2);
    let (mut bits, mut count) = (0_u32, 0);
    for digit in digits {
        let value = match digit {
            b'A'..=b'Z' => digit - b'A',
            b'a'..=b'z' => digit - b'a' + 26,
            b'0'..=b'9' => digit - b'0' + 52,
            b'+' if !for_urls => 62,
            b'/' if !for_urls => 63,
            b'-' if for_urls => 62,
            b'_' if for_urls => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(value);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
            bits &= (1 << count) - 1;
        }
    }
    Some(bytes)
}

/// A whole number, however it is written (`100`, `1e2`, `1.0`).
pub(super) fn integer(text: &str) -> Option<i64> {
    text.parse().ok().or_else(|| {
        let number: f64 = text.parse().ok()?;
        (number.fract() == 0.0 && number.abs() < 2_f64.powi(63)).then_some(number as i64)
    })
}

fn unsigned(text: &str) -> Option<u64> {
    text.parse().ok().or_else(|| integer(text).and_then(|number| u64::try_from(number).ok()))
}

/// The value of a field from JSON; `None` if it does not fit.
pub(super) fn from_json(field: &Field, node: &Node) -> Option<Scalar> {
    // Numbers may be strings, which keeps all digits of large ones.
    let number = || match &node.value {
        Value::Number(text) => Some(text.as_str()),
        Value::String(text) if text.trim() == text => Some(text.as_str()),
        _ => None,
    };
    match field.kind {
        Type::Bool => match node.value {
            Value::Bool(truth) => Some(Scalar::Varint(u64::from(truth))),
            _ => None,
        },
        Type::String => match &node.value {
            Value::String(text) => Some(Scalar::Bytes(text.as_bytes().to_vec())),
            _ => None,
        },
        Type::Bytes => match &node.value {
            Value::String(text) => base64(text).map(Scalar::Bytes),
            _ => None,
        },
        Type::Enum => {
            let kind = Schema::get().enum_of(field)?;
            match &node.value {
                Value::String(name) => kind.number(name).map(|number| Scalar::Varint(i64::from(number) as u64)),
                Value::Number(text) => signed(integer(text)?, 32).map(|number| Scalar::Varint(number as u64)),
                _ => None,
            }
        }
        Type::Float | Type::Double => {
            let number = match number()? {
                "NaN" => f64::NAN,
                "Infinity" => f64::INFINITY,
                "-Infinity" => f64::NEG_INFINITY,
                text => text.parse().ok().filter(|number: &f64| number.is_finite())?,
            };
            Some(float(field.kind, number))
        }
        kind => whole(kind, number()?),
    }
}

fn float(kind: Type, number: f64) -> Scalar {
    match kind {
        Type::Float => Scalar::Fixed32((number as f32).to_le_bytes()),
        _ => Scalar::Fixed64(number.to_le_bytes()),
    }
}

/// A number if it has at most so many bits.
fn signed(number: i64, bits: u32) -> Option<i64> {
    if bits == 32 { i32::try_from(number).ok().map(i64::from) } else { Some(number) }
}

/// A whole number of a field.
fn whole(kind: Type, text: &str) -> Option<Scalar> {
    let zigzag = |number: i64| ((number << 1) ^ (number >> 63)) as u64;
    Some(match kind {
        Type::Int32 => Scalar::Varint(signed(integer(text)?, 32)? as u64),
        Type::Int64 => Scalar::Varint(integer(text)? as u64),
        Type::Sint32 => Scalar::Varint(zigzag(signed(integer(text)?, 32)?)),
        Type::Sint64 => Scalar::Varint(zigzag(integer(text)?)),
        Type::Uint32 => Scalar::Varint(u64::from(u32::try_from(unsigned(text)?).ok()?)),
        Type::Uint64 => Scalar::Varint(unsigned(text)?),
        Type::Sfixed32 => Scalar::Fixed32(i32::try_from(integer(text)?).ok()?.to_le_bytes()),
        Type::Fixed32 => Scalar::Fixed32(u32::try_from(unsigned(text)?).ok()?.to_le_bytes()),
        Type::Sfixed64 => Scalar::Fixed64(integer(text)?.to_le_bytes()),
        Type::Fixed64 => Scalar::Fixed64(unsigned(text)?.to_le_bytes()),
        _ => return None,
    })
}

/// The value of a field from a path or a query; the error is Go's.
pub(super) fn from_text(field: &Field, text: &str) -> Result<Scalar, String> {
    let go = |function: &str, is_number: bool| {
        let why = if is_number { "value out of range" } else { "invalid syntax" };
        format!("strconv.{function}: parsing {text:?}: {why}")
    };
    let is_number = {
        let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
        !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
    };
    match field.kind {
        Type::String => Ok(Scalar::Bytes(text.as_bytes().to_vec())),
        Type::Bytes => base64(text).map(Scalar::Bytes).ok_or_else(|| "illegal base64 data at input byte 0".to_owned()),
        Type::Bool => match text {
            "1" | "t" | "T" | "TRUE" | "true" | "True" => Ok(Scalar::Varint(1)),
            "0" | "f" | "F" | "FALSE" | "false" | "False" => Ok(Scalar::Varint(0)),
            _ => Err(go("ParseBool", false)),
        },
        Type::Enum => {
            let kind = Schema::get().enum_of(field);
            let number = kind.and_then(|kind| known(kind, text));
            let number = number.ok_or_else(|| format!("{text:?} is not a valid value"))?;
            Ok(Scalar::Varint(i64::from(number) as u64))
        }
        Type::Float | Type::Double => match text.parse::<f64>() {
            Ok(number) => Ok(float(field.kind, number)),
            Err(_) => Err(go("ParseFloat", false)),
        },
        kind => {
            let is_unsigned = matches!(kind, Type::Uint32 | Type::Uint64 | Type::Fixed32 | Type::Fixed64);
            let function = if is_unsigned { "ParseUint" } else { "ParseInt" };
            // Here `1e2` is no number.
            let digits = text.strip_prefix('+').unwrap_or(text);
            is_number.then(|| whole(kind, digits)).flatten().ok_or_else(|| go(function, is_number))
        }
    }
}

fn known(kind: &Enum, text: &str) -> Option<i32> {
    let by_number = || text.parse().ok().filter(|number| kind.names.contains_key(number));
    kind.numbers.get(text).copied().or_else(by_number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_goes_both_ways() {
        for (bytes, text) in
            [(&b""[..], ""), (b"a", "YQ=="), (b"ab", "YWI="), (b"abc", "YWJj"), (&[0xfb, 0xff], "+/8=")]
        {
            assert_eq!(to_base64(bytes), text);
            assert_eq!(base64(text).as_deref(), Some(bytes));
            assert_eq!(base64(text.trim_end_matches('=')).as_deref(), Some(bytes));
        }
        assert_eq!(base64("-_8").as_deref(), Some(&[0xfb, 0xff][..]));
        assert_eq!([base64("a"), base64("!aaa"), base64("YQ="), base64("-/8=")], [None, None, None, None]);
    }

    #[test]
    fn whole_numbers_have_bounds() {
        assert_eq!(integer("1e2"), Some(100));
        assert_eq!(integer("1.5"), None);
        assert_eq!(whole(Type::Int32, "2147483648"), None);
        assert_eq!(whole(Type::Int32, "-1"), Some(Scalar::Varint(u64::MAX)));
        assert_eq!(whole(Type::Sint64, "-1"), Some(Scalar::Varint(1)));
        assert_eq!(whole(Type::Uint64, "18446744073709551615"), Some(Scalar::Varint(u64::MAX)));
    }
}
