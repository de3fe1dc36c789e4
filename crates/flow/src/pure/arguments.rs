//! Checks of arguments. Errors are `ArgumentError`s that begin with the name of the function.

use std::rc::Rc;
use std::sync::Arc;

use crate::value::{LanguageError, List, Object, Value};

/// `⟨function⟩: ⟨what⟩ must be ⟨wanted⟩`.
pub(super) fn must_be(function: &str, what: &str, wanted: &str) -> LanguageError {
    LanguageError::argument(format!("{function}: {what} must be {wanted}"))
}

/// The argument at this place; null if it was left out.
pub(super) fn get(arguments: &[Value], place: usize) -> &Value {
    arguments.get(place).unwrap_or(&Value::Null)
}

pub(super) fn string<'a>(function: &str, what: &str, value: &'a Value) -> Result<&'a Arc<str>, LanguageError> {
    match value {
        Value::Str(text) => Ok(text),
        _ => Err(must_be(function, what, "a string")),
    }
}

/// Like [`string`], with a default for null.
pub(super) fn string_or<'a>(
    function: &str,
    what: &str,
    value: &'a Value,
    or: &'a str,
) -> Result<&'a str, LanguageError> {
    match value {
        Value::Null => Ok(or),
        value => string(function, what, value).map(|text| &**text),
    }
}

pub(super) fn list<'a>(function: &str, what: &str, value: &'a Value) -> Result<&'a Rc<List>, LanguageError> {
    match value {
        Value::List(list) => Ok(list),
        _ => Err(must_be(function, what, "a list")),
    }
}

pub(super) fn object<'a>(function: &str, what: &str, value: &'a Value) -> Result<&'a Rc<Object>, LanguageError> {
    match value {
        Value::Object(object) => Ok(object),
        _ => Err(must_be(function, what, "an object")),
    }
}

pub(super) fn whole(function: &str, what: &str, value: &Value) -> Result<i64, LanguageError> {
    match value {
        Value::Int(number) => Ok(*number),
        _ => Err(must_be(function, what, "a whole number")),
    }
}

/// Like [`whole`], with a default for null.
pub(super) fn whole_or(function: &str, what: &str, value: &Value, or: i64) -> Result<i64, LanguageError> {
    if matches!(value, Value::Null) { Ok(or) } else { whole(function, what, value) }
}

/// A whole number in a range, with a default for null.
pub(super) fn within(
    function: &str,
    what: &str,
    value: &Value,
    (least, most): (i64, i64),
    or: i64,
) -> Result<usize, LanguageError> {
    let number = whole_or(function, what, value, or)?;
    if (least..=most).contains(&number) {
        Ok(usize::try_from(number).unwrap_or(0))
    } else {
        Err(must_be(function, what, &format!("a whole number from {least} to {most}")))
    }
}
