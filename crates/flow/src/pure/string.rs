//! The text of values, and functions of strings. Lengths and indexes count Unicode scalar values.

use std::sync::Arc;

use crate::library::Method;
use crate::value::{LanguageError, Value};

use super::arguments::{get, must_be, string, string_or, whole};
use super::list::{place, range};
use super::{Cost, DOUBLE_TEXT, VALUE_UNITS, json, limited, number, room_for};

/// `${value}` and `String(value)`.
pub fn text(value: &Value, cost: &mut Cost) -> Result<Arc<str>, LanguageError> {
    let text: Arc<str> = match value {
        Value::Str(text) => Arc::clone(text),
        Value::Null => "null".into(),
        Value::Bool(true) => "true".into(),
        Value::Bool(false) => "false".into(),
        Value::Float(_) => {
            cost.add(DOUBLE_TEXT);
            number::text(value).into()
        }
        Value::Int(_) => number::text(value).into(),
        Value::List(_) | Value::Object(_) | Value::Promise(_) | Value::Payload(_) => {
            return json::write(value, cost).map(Arc::from);
        }
    };
    cost.touch(text.len());
    Ok(text)
}

/// Appends the text of a value.
pub(super) fn append_text(value: &Value, to: &mut String) -> Result<(), LanguageError> {
    match value {
        Value::Str(text) => to.push_str(text),
        other => to.push_str(&text(other, &mut Cost::default())?),
    }
    Ok(())
}

/// A method of a string; `None` if strings have no such method.
pub(super) fn method(
    method: Method,
    receiver: &Arc<str>,
    arguments: &[Value],
    cost: &mut Cost,
) -> Option<Result<Value, LanguageError>> {
    let result = match method {
        Method::At
        | Method::Slice
        | Method::Includes
        | Method::IndexOf
        | Method::StartsWith
        | Method::EndsWith
        | Method::Split
        | Method::Trim
        | Method::ToUpperCase
        | Method::ToLowerCase
        | Method::Replace
        | Method::ReplaceAll
        | Method::PadStart
        | Method::PadEnd
        | Method::Repeat => string_method(method, receiver, arguments),
        _ => return None,
    };
    // What is looked for counts too: it is read once, and compared with what is there.
    let wanted: usize = arguments.iter().map(|value| if let Value::Str(text) = value { text.len() } else { 0 }).sum();
    let made = match &result {
        Ok(Value::Str(text)) => text.len(),
        Ok(Value::List(list)) => list.items().len() * VALUE_UNITS,
        _ => 0,
    };
    cost.touch(receiver.len() + wanted + made);
    Some(result.and_then(limited))
}

fn string_method(method: Method, receiver: &Arc<str>, arguments: &[Value]) -> Result<Value, LanguageError> {
    let name = method.signature().name;
    let first = get(arguments, 0);
    let wanted = || string(name, "the text", first);
    Ok(match method {
        Method::At => {
            let at = place(whole(name, "the index", first)?, count(receiver));
            let found = at.and_then(|at| receiver.chars().nth(at));
            found.map_or(Value::Null, |character| Value::text(character.to_string()))
        }
        Method::Slice => {
            let (from, to) = range(name, arguments, count(receiver))?;
            Value::text(slice(receiver, from, to))
        }
        Method::Includes => Value::Bool(receiver.contains(&**wanted()?)),
        Method::IndexOf => {
            let found = receiver.find(&**wanted()?);
            Value::Int(found.map_or(-1, |byte| count(&receiver[..byte]) as i64))
        }
        Method::StartsWith => Value::Bool(receiver.starts_with(&**wanted()?)),
        Method::EndsWith => Value::Bool(receiver.ends_with(&**wanted()?)),
        Method::Split => {
            let separator = string(name, "the separator", first)?;
            if separator.is_empty() {
                room_for(count(receiver).saturating_mul(4))?;
                Value::list(receiver.chars().map(|character| Value::text(character.to_string())).collect())
            } else {
                room_for(receiver.matches(&**separator).count().saturating_mul(3))?;
                Value::list(receiver.split(&**separator).map(Value::text).collect())
            }
        }
        Method::Trim => Value::text(receiver.trim()),
        Method::ToUpperCase => Value::text(receiver.to_uppercase()),
        Method::ToLowerCase => Value::text(receiver.to_lowercase()),
        Method::Replace | Method::ReplaceAll => {
            let from = wanted()?;
            let to = string(name, "the replacement", get(arguments, 1))?;
            if method == Method::Replace {
                Value::text(receiver.replacen(&**from, to, 1))
            } else {
                let found = receiver.matches(&**from).count();
                room_for(
                    found.saturating_mul(to.len()).saturating_add(receiver.len()).saturating_sub(found * from.len()),
                )?;
                Value::text(receiver.replace(&**from, to))
            }
        }
        Method::PadStart => Value::text([&*padding(name, receiver, arguments)?, &**receiver].concat()),
        Method::PadEnd => Value::text([&**receiver, &*padding(name, receiver, arguments)?].concat()),
        _ => {
            let times = usize::try_from(whole(name, "the number", first)?)
                .map_err(|_| must_be(name, "the number", "at least 0"))?;
            room_for(times.saturating_mul(receiver.len()))?;
            Value::text(receiver.repeat(times))
        }
    })
}

fn count(text: &str) -> usize {
    text.chars().count()
}

/// The characters from one index to another.
fn slice(text: &str, from: usize, to: usize) -> &str {
    let mut places = text.char_indices().map(|(byte, _)| byte).chain([text.len()]);
    let begin = places.nth(from).unwrap_or(text.len());
    let end = if to > from { places.nth(to - from - 1).unwrap_or(text.len()) } else { begin };
    &text[begin..end]
}

/// What `padStart` and `padEnd` add.
fn padding(name: &str, receiver: &str, arguments: &[Value]) -> Result<String, LanguageError> {
    let length = usize::try_from(whole(name, "the length", get(arguments, 0))?).unwrap_or(0);
    let fill = string_or(name, "the fill", get(arguments, 1), " ")?;
    let missing = length.saturating_sub(count(receiver));
    if fill.is_empty() {
        return Ok(String::new());
    }
    room_for(missing)?;
    let padding: String = fill.chars().cycle().take(missing).collect();
    Ok(padding)
}
