//! Dispatches calls of library functions to their modules.

use std::sync::Arc;

use crate::library::{Function, Method};
use crate::value::{LanguageError, Value};

use super::arguments::{get, must_be, string, within};
use super::{Cost, json, limited, list, math, number, object, payload, string, text, time};

/// Units of a function of `Time`: calendars and zones take about this long.
const TIME: usize = 320;

/// Calls a function without effects that needs neither a callback nor the run.
pub fn call(function: Function, arguments: &[Value], cost: &mut Cost) -> Result<Value, LanguageError> {
    let name = function.signature().name;
    let first = get(arguments, 0);
    match function {
        Function::TimeParse
        | Function::TimeAdd
        | Function::TimeDiff
        | Function::TimeParts
        | Function::TimeFrom
        | Function::TimeSeconds
        | Function::TimeFromSeconds => {
            cost.touch(TIME);
            time::call(function, arguments)
        }
        Function::MathAbs
        | Function::MathCeil
        | Function::MathFloor
        | Function::MathTrunc
        | Function::MathSign
        | Function::MathSqrt
        | Function::MathPow
        | Function::MathMin
        | Function::MathMax
        | Function::MathRound => {
            cost.touch(0);
            math::call(function, arguments, cost)
        }
        Function::JsonParse => {
            let source = string(name, "the text", first)?;
            let value = json::parse_counting(source.as_bytes(), cost);
            limited(value.map_err(|why| LanguageError::argument(format!("{name}: {why}")))?)
        }
        Function::JsonStringify => {
            let indent = within(name, "the indent", get(arguments, 1), (0, 10), 0)?;
            limited(Value::text(json::write_indented(first, indent, cost)?))
        }
        Function::Number => {
            let source = string(name, "the text", first)?;
            cost.touch(source.len());
            json::number(source.trim())
                .ok_or_else(|| LanguageError::argument(format!("{name}: {} is not a number", json::quote(source))))
        }
        Function::String => Ok(Value::Str(text(first, cost)?)),
        Function::ObjectKeys
        | Function::ObjectValues
        | Function::ObjectEntries
        | Function::ObjectFromEntries
        | Function::ObjectPick
        | Function::ObjectOmit => object::call(function, arguments, cost),
        Function::ListRange => list::range_of(arguments, cost),
        Function::PayloadEncoding
        | Function::PayloadJson
        | Function::PayloadText
        | Function::PayloadBase64
        | Function::PayloadBytes => payload::call(function, first, cost),
        // The others need the run; the machine does not ask for them here.
        _ => Err(LanguageError::argument(format!("{name}: not available here"))),
    }
}

/// Calls a method that takes no function and does not change its receiver.
pub fn method(method: Method, receiver: &Value, arguments: &[Value], cost: &mut Cost) -> Result<Value, LanguageError> {
    let result = match receiver {
        Value::List(items) => list::method(method, items, arguments, cost),
        Value::Str(text) => string::method(method, text, arguments, cost),
        Value::Int(_) | Value::Float(_) if method == Method::ToFixed => {
            cost.touch(1_000);
            let name = method.signature().name;
            let digits = within(name, "digits", get(arguments, 0), (0, 100), 0);
            Some(digits.map(|digits| Value::text(number::fixed(receiver, digits))))
        }
        _ => None,
    };
    result.unwrap_or_else(|| Err(no_method(method, receiver)))
}

/// Calls a method that changes its receiver: `push`, `pop`, `shift`, `unshift`.
pub fn change(
    method: Method,
    target: &mut Value,
    arguments: Vec<Value>,
    cost: &mut Cost,
) -> Result<Value, LanguageError> {
    match target {
        Value::List(items) if method.changes_receiver() => list::change(method, items, arguments, cost),
        other => Err(no_method(method, other)),
    }
}

/// The error of a method that values of this type do not have.
#[must_use]
pub fn no_method(method: Method, receiver: &Value) -> LanguageError {
    let name = method.signature().name;
    match receiver {
        Value::Null => LanguageError::type_error(format!("cannot read \"{name}\" of null")),
        Value::Promise(_) => LanguageError::type_error("this is a promise; await it first"),
        other => LanguageError::type_error(format!("a {} has no function \"{name}\"", other.type_name())),
    }
}

/// A name or id of at most 1,000 bytes that is not empty. `what` is the argument's name in the message: `the name`.
pub fn name(function: &str, what: &str, value: &Value) -> Result<Arc<str>, LanguageError> {
    let text = string(function, what, value)?;
    match text.len() {
        0 => Err(LanguageError::argument(format!("{function}: {what} must not be empty"))),
        1..=1_000 => Ok(Arc::clone(text)),
        _ => Err(must_be(function, what, "of at most 1000 bytes")),
    }
}
