//! Single values between JSON, text and fields.

use base64::{
    Engine,
    alphabet::{STANDARD, URL_SAFE},
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig, general_purpose},
};
use prost_reflect::{EnumDescriptor, Kind, Value};

use crate::{Node, NodeValue};

/// Base64 with padding (RFC 4648, section 4).
pub fn base64(bytes: &[u8]) -> String {
    general_purpose::STANDARD.encode(bytes)
}

/// Bytes from Base64, of the standard alphabet or that for URLs, with padding or without.
pub fn from_base64(text: &str) -> Option<Vec<u8>> {
    let alphabet = if text.contains(['-', '_']) { URL_SAFE } else { STANDARD };
    let is_whole = text.len().is_multiple_of(4);
    let padding = if is_whole { DecodePaddingMode::RequireCanonical } else { DecodePaddingMode::RequireNone };
    let config = GeneralPurposeConfig::new().with_decode_padding_mode(padding).with_decode_allow_trailing_bits(true);
    GeneralPurpose::new(&alphabet, config).decode(text).ok()
}

/// A whole number, however it is written (`100`, `1e2`, `1.0`).
pub fn integer(text: &str) -> Option<i64> {
    text.parse().ok().or_else(|| {
        let number: f64 = text.parse().ok()?;
        (number.fract() == 0.0 && number.abs() < 2_f64.powi(63)).then_some(number as i64)
    })
}

fn unsigned(text: &str) -> Option<u64> {
    text.parse().ok().or_else(|| integer(text)?.try_into().ok())
}

/// A whole number of a field.
pub fn whole(kind: &Kind, text: &str) -> Option<Value> {
    Some(match kind {
        Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => Value::I32(integer(text)?.try_into().ok()?),
        Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => Value::I64(integer(text)?),
        Kind::Uint32 | Kind::Fixed32 => Value::U32(unsigned(text)?.try_into().ok()?),
        Kind::Uint64 | Kind::Fixed64 => Value::U64(unsigned(text)?),
        _ => return None,
    })
}

/// The value of a field from JSON; `None` if it does not fit.
pub(crate) fn from_json(kind: &Kind, node: &Node) -> Option<Value> {
    let text = || if let NodeValue::String(text) = &node.value { Some(text.as_str()) } else { None };
    // Numbers may be strings, which keeps all digits of large ones.
    let number = || match &node.value {
        NodeValue::Number(text) => Some(text.as_str()),
        _ => text().filter(|text| text.trim() == *text),
    };
    Some(match kind {
        Kind::Bool => match node.value {
            NodeValue::Bool(truth) => Value::Bool(truth),
            _ => return None,
        },
        Kind::String => Value::String(text()?.to_owned()),
        Kind::Bytes => Value::Bytes(from_base64(text()?)?.into()),
        Kind::Enum(kind) => Value::EnumNumber(match &node.value {
            NodeValue::String(name) => enum_number(kind, name)?,
            NodeValue::Number(text) => integer(text)?.try_into().ok()?,
            _ => return None,
        }),
        Kind::Float | Kind::Double => {
            let number = match number()? {
                "NaN" => f64::NAN,
                "Infinity" => f64::INFINITY,
                "-Infinity" => f64::NEG_INFINITY,
                text => text.parse().ok().filter(|number: &f64| number.is_finite())?,
            };
            if *kind == Kind::Float { Value::F32(number as f32) } else { Value::F64(number) }
        }
        kind => whole(kind, number()?)?,
    })
}

/// The number of a value by its name, or by the short name that older clients use (`AllowDuplicate`).
fn enum_number(kind: &EnumDescriptor, name: &str) -> Option<i32> {
    let short = || kind.get_value_by_name(&screaming_snake_case(&format!("{}_{name}", kind.name())));
    kind.get_value_by_name(name).or_else(short).map(|value| value.number())
}

/// `QueryRejectCondition_None` as `QUERY_REJECT_CONDITION_NONE`.
fn screaming_snake_case(name: &str) -> String {
    let letters: Vec<char> = name.chars().collect();
    let mut text = String::with_capacity(name.len() + 8);
    for (at, letter) in letters.iter().enumerate() {
        let before = at.checked_sub(1).map(|before| letters[before]);
        let starts = match before {
            Some(before) if letter.is_ascii_uppercase() => {
                let next_is_lower = letters.get(at + 1).is_some_and(char::is_ascii_lowercase);
                before.is_ascii_lowercase() || before.is_ascii_digit() || (before.is_ascii_uppercase() && next_is_lower)
            }
            _ => false,
        };
        if starts {
            text.push('_');
        }
        text.push(letter.to_ascii_uppercase());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_goes_both_ways() {
        for (bytes, text) in
            [(&b""[..], ""), (b"a", "YQ=="), (b"ab", "YWI="), (b"abc", "YWJj"), (&[0xfb, 0xff], "+/8=")]
        {
            assert_eq!(base64(bytes), text);
            assert_eq!(from_base64(text).as_deref(), Some(bytes));
            assert_eq!(from_base64(text.trim_end_matches('=')).as_deref(), Some(bytes));
        }
        assert_eq!(from_base64("-_8").as_deref(), Some(&[0xfb, 0xff][..]));
        for bad in ["a", "!aaa", "YQ=", "-/8="] {
            assert_eq!(from_base64(bad), None, "{bad}");
        }
    }

    #[test]
    fn whole_numbers_have_bounds() {
        assert_eq!(integer("1e2"), Some(100));
        assert_eq!(integer("1.5"), None);
        assert_eq!(whole(&Kind::Int32, "2147483648"), None);
        assert_eq!(whole(&Kind::Sint64, "-1"), Some(Value::I64(-1)));
        assert_eq!(whole(&Kind::Uint64, "18446744073709551615"), Some(Value::U64(u64::MAX)));
    }

    #[test]
    fn names_change_their_case() {
        let name = "WorkflowIdReusePolicy_AllowDuplicate";
        assert_eq!(screaming_snake_case(name), "WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE");
    }
}
