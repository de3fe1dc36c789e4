//! Durations: seconds as a number, or text such as `"1h30m"`.

use crate::value::{LanguageError, Value};

use super::json::quote;
use super::number;

/// 100 years, in milliseconds.
pub const MAX: i64 = 36_525 * DAY;

const DAY: i64 = 86_400_000;

/// Units with their milliseconds, in falling order.
const UNITS: [(&str, i64); 6] = [("w", 7 * DAY), ("d", DAY), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// A duration in milliseconds. `function` begins the message of an error.
pub fn parse(value: &Value, function: &str) -> Result<i64, LanguageError> {
    let milliseconds = parse_signed(value, function)?;
    if milliseconds < 0 {
        return Err(LanguageError::argument(format!("{function}: a duration must not be negative")));
    }
    Ok(milliseconds)
}

/// Like [`parse`]; a number may be negative.
pub(super) fn parse_signed(value: &Value, function: &str) -> Result<i64, LanguageError> {
    let wrong = |why: String| Err(LanguageError::argument(format!("{function}: {why}")));
    let milliseconds = match value {
        Value::Int(seconds) => seconds.checked_mul(1_000),
        Value::Float(_) => {
            number::double(value).map(|seconds| seconds * 1_000.0).filter(|ms| ms.abs() < 1e15).map(round)
        }
        Value::Str(text) => match parse_text(text) {
            Some(milliseconds) => Some(milliseconds),
            None => return wrong(format!("{} is not a duration", quote(text))),
        },
        other => {
            return wrong(format!("a duration must be a number of seconds or a string, not {}", other.type_name()));
        }
    };
    match milliseconds {
        Some(milliseconds) if milliseconds.abs() <= MAX => Ok(milliseconds),
        _ => wrong("a duration has at most 100 years".to_owned()),
    }
}

#[expect(clippy::cast_possible_truncation, reason = "less than 10^15")]
fn round(milliseconds: f64) -> i64 {
    milliseconds.round() as i64
}

/// Reads text such as `1h30m`: numbers with units, each unit once, in falling order. `None` if it is no duration, or one
/// of more than 100 years.
#[must_use]
pub fn parse_text(text: &str) -> Option<i64> {
    let mut rest = text;
    let mut total: i64 = 0;
    let mut units = UNITS.as_slice();
    while !rest.is_empty() || total == 0 && units.len() == UNITS.len() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (amount, tail) = rest.split_at(digits);
        let letters = tail.bytes().take_while(u8::is_ascii_alphabetic).count();
        let (unit, tail) = tail.split_at(letters);
        let place = units.iter().position(|(name, _)| *name == unit)?;
        let amount: i64 = amount.parse().ok()?;
        total = total.checked_add(amount.checked_mul(units[place].1)?)?;
        units = &units[place + 1..];
        rest = tail;
    }
    (total <= MAX).then_some(total)
}

/// A duration in its largest units: `2d`, `1h30m`.
#[must_use]
pub fn show(milliseconds: i64) -> String {
    let mut rest = milliseconds.max(0);
    if rest == 0 {
        return "0s".to_owned();
    }
    let mut text = String::new();
    for (unit, size) in UNITS {
        if rest >= size {
            text.push_str(&format!("{}{unit}", rest / size));
            rest %= size;
        }
    }
    text
}
