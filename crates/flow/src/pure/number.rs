//! Numbers: exact integers of 64 bits and finite doubles, as one type.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt::Write as _;

use crate::hir::Binary;
use crate::value::{Kind, LanguageError, Value};

use super::{Cost, compare, limited, room_for};

/// What an operator with two operands gives.
pub fn binary(operator: Binary, left: &Value, right: &Value, cost: &mut Cost) -> Result<Value, LanguageError> {
    match operator {
        Binary::Add => add(left, right, cost),
        Binary::Subtract | Binary::Multiply | Binary::Divide | Binary::Remainder => arithmetic(operator, left, right),
        Binary::Equal => Ok(Value::Bool(compare::equal(left, right, cost))),
        Binary::NotEqual => Ok(Value::Bool(!compare::equal(left, right, cost))),
        Binary::Less => Ok(Value::Bool(compare::order(left, right, cost)? == Ordering::Less)),
        Binary::LessOrEqual => Ok(Value::Bool(compare::order(left, right, cost)? != Ordering::Greater)),
        Binary::Greater => Ok(Value::Bool(compare::order(left, right, cost)? == Ordering::Greater)),
        Binary::GreaterOrEqual => Ok(Value::Bool(compare::order(left, right, cost)? != Ordering::Less)),
        Binary::In => match (left, right) {
            (Value::Str(key), Value::Object(object)) => {
                cost.add(super::key_units(object, key));
                Ok(Value::Bool(object.get(key).is_some()))
            }
            (left, right) => Err(LanguageError::type_error(format!(
                "in takes a string and an object, not {} and {}",
                left.type_name(),
                right.type_name()
            ))),
        },
    }
}

/// `-x`.
pub fn negate(value: &Value) -> Result<Value, LanguageError> {
    match value {
        Value::Int(number) => {
            number.checked_neg().map(Value::Int).ok_or_else(|| out_of_range("0", "-", &number.to_string()))
        }
        Value::Float(number) => Ok(Value::Float(-number)),
        other => Err(takes_numbers("-", other)),
    }
}

fn add(left: &Value, right: &Value, cost: &mut Cost) -> Result<Value, LanguageError> {
    let is_text = |value: &Value| matches!(value, Value::Str(_));
    let joins = |value: &Value| matches!(value, Value::Int(_) | Value::Float(_) | Value::Bool(_) | Value::Str(_));
    match (left, right) {
        (Value::Int(_) | Value::Float(_), Value::Int(_) | Value::Float(_)) => arithmetic(Binary::Add, left, right),
        (left, right) if (is_text(left) && joins(right)) || (joins(left) && is_text(right)) => {
            let (left, right) = (part(left, cost)?, part(right, cost)?);
            room_for(left.len() + right.len())?;
            cost.copy(left.len() + right.len());
            limited(Value::text([&*left, &*right].concat()))
        }
        (left, right) => {
            Err(LanguageError::type_error(format!("cannot add {} and {}", left.type_name(), right.type_name())))
        }
    }
}

/// What a value adds to a text.
fn part<'a>(value: &'a Value, cost: &mut Cost) -> Result<Cow<'a, str>, LanguageError> {
    match value {
        Value::Str(text) => Ok(Cow::Borrowed(text)),
        value => super::text(value, cost).map(|text| Cow::Owned(text.to_string())),
    }
}

const fn symbol(operator: Binary) -> &'static str {
    match operator {
        Binary::Add => "+",
        Binary::Subtract => "-",
        Binary::Multiply => "*",
        Binary::Divide => "/",
        Binary::Remainder => "%",
        Binary::Equal => "==",
        Binary::NotEqual => "!=",
        Binary::Less => "<",
        Binary::LessOrEqual => "<=",
        Binary::Greater => ">",
        Binary::GreaterOrEqual => ">=",
        Binary::In => "in",
    }
}

fn takes_numbers(operator: &str, value: &Value) -> LanguageError {
    LanguageError::type_error(format!("{operator} takes numbers, not {}", value.type_name()))
}

fn out_of_range(left: &str, operator: &str, right: &str) -> LanguageError {
    LanguageError::new(Kind::Number, format!("{left} {operator} {right} is out of range"))
}

fn division_by_zero() -> LanguageError {
    LanguageError::new(Kind::Number, "division by zero")
}

fn arithmetic(operator: Binary, left: &Value, right: &Value) -> Result<Value, LanguageError> {
    if let (Value::Int(a), Value::Int(b)) = (left, right) {
        return integers(operator, *a, *b);
    }
    let a = double(left).ok_or_else(|| takes_numbers(symbol(operator), left))?;
    let b = double(right).ok_or_else(|| takes_numbers(symbol(operator), right))?;
    let result = match operator {
        Binary::Subtract => a - b,
        Binary::Multiply => a * b,
        Binary::Divide | Binary::Remainder if b == 0.0 => return Err(division_by_zero()),
        Binary::Divide => a / b,
        Binary::Remainder => a % b,
        _ => a + b,
    };
    Value::float(result).ok_or_else(|| out_of_range(&text(left), symbol(operator), &text(right)))
}

fn integers(operator: Binary, a: i64, b: i64) -> Result<Value, LanguageError> {
    let result = match operator {
        Binary::Subtract => a.checked_sub(b),
        Binary::Multiply => a.checked_mul(b),
        Binary::Divide | Binary::Remainder if b == 0 => return Err(division_by_zero()),
        Binary::Divide => match (a.checked_rem(b), a.checked_div(b)) {
            (Some(0), Some(quotient)) => Some(quotient),
            // Not even, or -2^63 / -1, which only a double can hold.
            _ => return Ok(Value::float(a as f64 / b as f64).unwrap_or(Value::Int(0))),
        },
        Binary::Remainder => Some(a.wrapping_rem(b)),
        _ => a.checked_add(b),
    };
    result.map(Value::Int).ok_or_else(|| out_of_range(&a.to_string(), symbol(operator), &b.to_string()))
}

/// A number as a double; `None` for anything else.
#[must_use]
pub fn double(value: &Value) -> Option<f64> {
    match value {
        Value::Int(number) => Some(*number as f64),
        Value::Float(number) => Some(*number),
        _ => None,
    }
}

/// The exact integer that this double is, if it is whole and fits into 64 bits, else the double. `None` for NaN and
/// infinities.
#[must_use]
pub fn exact(number: f64) -> Option<Value> {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    if number.trunc() == number && (-LIMIT..LIMIT).contains(&number) {
        #[expect(clippy::cast_possible_truncation, reason = "whole and in range")]
        Some(Value::Int(number as i64))
    } else {
        Value::float(number)
    }
}

/// Compares two numbers as the exact numbers they are; `None` if one of them is no number.
#[must_use]
pub fn order(left: &Value, right: &Value) -> Option<Ordering> {
    match (left, right) {
        (Value::Int(a), Value::Int(b)) => Some(a.cmp(b)),
        (Value::Float(a), Value::Float(b)) => a.partial_cmp(b),
        (Value::Int(a), Value::Float(b)) => Some(order_mixed(*a, *b)),
        (Value::Float(a), Value::Int(b)) => Some(order_mixed(*b, *a).reverse()),
        _ => None,
    }
}

fn order_mixed(integer: i64, double: f64) -> Ordering {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    if double >= LIMIT {
        Ordering::Less
    } else if double < -LIMIT {
        Ordering::Greater
    } else {
        #[expect(clippy::cast_possible_truncation, reason = "in range; the fraction is looked at below")]
        let whole = double.trunc() as i64;
        integer.cmp(&whole).then_with(|| 0.0.partial_cmp(&double.fract()).unwrap_or(Ordering::Equal))
    }
}

/// The text of a number; empty for anything else.
#[must_use]
pub fn text(value: &Value) -> String {
    match value {
        Value::Int(number) => number.to_string(),
        Value::Float(number) => double_text(*number),
        _ => String::new(),
    }
}

/// The shortest text that reads back the same, written as JavaScript does, except that whole numbers beyond 2^53 always
/// have an exponent: without one they would read back as integers.
#[must_use]
pub fn double_text(number: f64) -> String {
    // `-1.25e-7`: the shortest digits and the exponent.
    let shortest = format!("{number:e}");
    let (mantissa, exponent) = shortest.split_once('e').unwrap_or((&shortest, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let (sign, mantissa) = mantissa.strip_prefix('-').map_or(("", mantissa), |rest| ("-", rest));
    let digits = mantissa.replace('.', "");
    let is_whole = number.trunc() == number;
    if !is_whole && (0..21).contains(&exponent) {
        let (whole, fraction) = digits.split_at((exponent as usize + 1).min(digits.len()));
        format!("{sign}{whole}.{fraction}")
    } else if !is_whole && (-6..0).contains(&exponent) {
        let zeros = "0".repeat((-exponent - 1) as usize);
        format!("{sign}0.{zeros}{digits}")
    } else {
        let (first, rest) = digits.split_at(1.min(digits.len()));
        let point = if rest.is_empty() { "" } else { "." };
        let plus = if exponent < 0 { "" } else { "+" };
        format!("{sign}{first}{point}{rest}e{plus}{exponent}")
    }
}

/// A number with this many digits after the point, from its exact value, halves away from zero.
#[must_use]
pub fn fixed(value: &Value, digits: usize) -> String {
    let number = match value {
        Value::Float(number) => *number,
        other => {
            let mut text = text(other);
            if digits > 0 {
                let _ = write!(text, ".{}", "0".repeat(digits));
            }
            return text;
        }
    };
    // No double has more than 1,074 digits after the point, so this is its exact value.
    let exact = format!("{:.1074}", number.abs());
    let (whole, fraction) = exact.split_once('.').unwrap_or((&exact, ""));
    let rounds_up = fraction.as_bytes().get(digits).is_some_and(|digit| *digit >= b'5');
    let kept: String = fraction.chars().take(digits).collect();
    let mut all: Vec<u8> = whole.bytes().chain(kept.bytes()).collect();
    if rounds_up {
        let mut place = all.len();
        loop {
            if place == 0 {
                all.insert(0, b'1');
                break;
            }
            place -= 1;
            if all[place] == b'9' {
                all[place] = b'0';
            } else {
                all[place] += 1;
                break;
            }
        }
    }
    let mut text: String = all.iter().map(|digit| char::from(*digit)).collect();
    if digits > 0 {
        text.insert(text.len() - kept.len(), '.');
    }
    // There is no negative zero.
    if number < 0.0 && all.iter().any(|digit| *digit != b'0') {
        text.insert(0, '-');
    }
    text
}
