//! Equality, order and conditions.

use std::cmp::Ordering;
use std::rc::Rc;
use std::sync::Arc;

use crate::value::{LanguageError, Value};

use super::{Cost, FIELD, number};

/// `left == right`.
#[must_use]
pub fn equal(left: &Value, right: &Value, cost: &mut Cost) -> bool {
    let mut units = 0;
    let result = equal_counting(left, right, &mut units);
    cost.touch(units);
    result
}

fn equal_counting(left: &Value, right: &Value, units: &mut usize) -> bool {
    *units += 1;
    match (left, right) {
        (Value::Null, Value::Null) => true,
        (Value::Bool(a), Value::Bool(b)) => a == b,
        (Value::Int(_) | Value::Float(_), Value::Int(_) | Value::Float(_)) => {
            number::order(left, right) == Some(Ordering::Equal)
        }
        (Value::Str(a), Value::Str(b)) => {
            *units += a.len().min(b.len());
            a == b
        }
        // Values without a NaN: what is shared is equal.
        (Value::List(a), Value::List(b)) => {
            Rc::ptr_eq(a, b)
                || a.items().len() == b.items().len()
                    && a.items().iter().zip(b.items()).all(|(a, b)| equal_counting(a, b, units))
        }
        (Value::Object(a), Value::Object(b)) => {
            Rc::ptr_eq(a, b)
                || a.len() == b.len()
                    && a.iter().all(|(key, a)| {
                        *units += 2 * FIELD + key.len();
                        b.get(key).is_some_and(|b| equal_counting(a, b, units))
                    })
        }
        (Value::Promise(a), Value::Promise(b)) => a.number == b.number,
        (Value::Promise(promise), Value::Str(text)) | (Value::Str(text), Value::Promise(promise)) => {
            promise.id == *text
        }
        (Value::Payload(a), Value::Payload(b)) => {
            *units += a.size().min(b.size());
            Arc::ptr_eq(a, b) || a == b
        }
        _ => false,
    }
}

/// The order of two numbers or two strings.
pub fn order(left: &Value, right: &Value, cost: &mut Cost) -> Result<Ordering, LanguageError> {
    if let (Value::Str(a), Value::Str(b)) = (left, right) {
        cost.touch(a.len().min(b.len()));
        // UTF-8 sorts as its scalar values do.
        return Ok(a.cmp(b));
    }
    number::order(left, right).ok_or_else(|| {
        LanguageError::type_error(format!("cannot compare {} and {}", left.type_name(), right.type_name()))
    })
}

/// Whether a value counts as true where a condition stands.
pub fn condition(value: &Value) -> Result<bool, LanguageError> {
    let example = match value {
        Value::Bool(value) => return Ok(*value),
        Value::Null => return Ok(false),
        Value::Object(_) => return Ok(true),
        Value::Int(_) | Value::Float(_) => "x != 0",
        Value::Str(_) => "s != \"\"",
        Value::List(_) => "list.length > 0",
        Value::Promise(_) => "await it",
        Value::Payload(_) => "x != null",
    };
    Err(LanguageError::type_error(format!(
        "a {} is not a condition; compare it, for example {example}",
        value.type_name()
    )))
}
