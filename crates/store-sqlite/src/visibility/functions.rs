//! SQL functions for filters: checksums, attributes of a JSON column, words of texts, patterns, items of lists.
//!
//! SQLite's own JSON functions do not return every number and text exactly as it was written, and its LIKE ignores
//! case.

use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::types::{Value as Sql, ValueRef};
use rusqlite::{Connection, Error, ErrorCode, ffi};
use segno_store::visibility::{Value, words};
use serde_json::Value as Json;

use crate::checksum;

/// Makes the functions known to a connection.
pub(crate) fn register(connection: &Connection) -> rusqlite::Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC | FunctionFlags::SQLITE_INNOCUOUS;
    // The checksum of a row, from its other columns.
    connection.create_scalar_function("row_checksum", -1, flags, |context| {
        Ok(checksum::of_values((0..context.len()).map(|place| context.get_raw(place))))
    })?;
    // True if the first argument is the checksum of the others; otherwise the statement fails, because of the damage.
    connection.create_scalar_function("is_intact", -1, flags, |context| {
        let sum = checksum::of_values((1..context.len()).map(|place| context.get_raw(place)));
        if context.get_raw(0) == ValueRef::Integer(sum.into()) {
            return Ok(true);
        }
        // Only without a text of its own does the code reach the caller.
        Err(Error::SqliteFailure(
            ffi::Error { code: ErrorCode::DatabaseCorrupt, extended_code: ffi::SQLITE_CORRUPT },
            None,
        ))
    })?;
    // The value of an attribute; null if there is none.
    connection.create_scalar_function("attribute_value", 2, flags, |context| {
        Ok(attribute(context)?.map_or(Sql::Null, |json| from_json(&json)))
    })?;
    // Whether an item of a list fits: 0 if there is no list.
    connection.create_scalar_function("list_fits", 4, flags, |context| {
        let (test, wanted) = (text(context, 2)?.unwrap_or_default(), text(context, 3)?.unwrap_or_default());
        let items = match attribute(context)? {
            Some(Json::Array(items)) => items,
            _ => Vec::new(),
        };
        Ok(items.iter().filter_map(Json::as_str).any(|item| match test {
            "=" => item == wanted,
            "<" => item < wanted,
            "<=" => item <= wanted,
            ">" => item > wanted,
            ">=" => item >= wanted,
            "prefix" => item.starts_with(wanted),
            _ => words::fits(item, wanted),
        }))
    })?;
    // Whether a text has a word; null if there is no text.
    connection.create_scalar_function("has_word", 2, flags, |context| {
        Ok(text(context, 0)?.map(|found| words::contains_word(found, text_or_empty(context, 1))))
    })?;
    // Whether a text fits a pattern; null if there is no text.
    connection.create_scalar_function("fits", 2, flags, |context| {
        Ok(text(context, 0)?.map(|found| words::fits(found, text_or_empty(context, 1))))
    })
}

/// A value as SQL knows it. Lists become bytes that are ordered as the lists are.
pub(super) fn to_sql(value: &Value) -> Sql {
    match value {
        Value::Text(text) => Sql::Text(text.clone()),
        Value::Int(number) => Sql::Integer(*number),
        Value::Double(number) => Sql::Real(*number),
        Value::Bool(truth) => Sql::Integer((*truth).into()),
        Value::List(items) => Sql::Blob(items.iter().flat_map(|item| item_bytes(item)).collect()),
    }
}

/// The list whose bytes [`to_sql`] gives.
pub(super) fn list_from(mut bytes: &[u8]) -> Option<Vec<String>> {
    let (mut items, mut item) = (Vec::new(), Vec::new());
    while let Some((byte, rest)) = bytes.split_first() {
        bytes = rest;
        if *byte != 0 {
            item.push(*byte);
            continue;
        }
        let (second, rest) = bytes.split_first()?;
        bytes = rest;
        match *second {
            END => items.push(String::from_utf8(std::mem::take(&mut item)).ok()?),
            _ => item.push(0),
        }
    }
    Some(items)
}

/// After a zero byte: the end of an item. It is smaller than what stands for a zero byte inside.
const END: u8 = 1;
const ZERO: u8 = 255;

fn item_bytes(item: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(item.len() + 2);
    for byte in item.bytes() {
        bytes.push(byte);
        if byte == 0 {
            bytes.push(ZERO);
        }
    }
    bytes.extend([0, END]);
    bytes
}

/// The attribute that the first two arguments name: all attributes of a run, and a number.
fn attribute(context: &Context<'_>) -> rusqlite::Result<Option<Json>> {
    let Some(attributes) = text(context, 0)? else { return Ok(None) };
    let number: i64 = context.get(1)?;
    // Inside of texts every quote has a backslash before it, so this is a key and nothing else.
    let key = format!("\"{number}\":");
    let Some(at) = attributes.find(&key) else { return Ok(None) };
    let value = serde_json::Deserializer::from_str(&attributes[at + key.len()..]).into_iter().next();
    value.transpose().map_err(|error| Error::UserFunctionError(Box::new(error)))
}

fn from_json(json: &Json) -> Sql {
    match json {
        Json::Null | Json::Object(_) => Sql::Null,
        Json::Bool(truth) => Sql::Integer((*truth).into()),
        Json::String(text) => Sql::Text(text.clone()),
        Json::Number(number) => {
            number.as_i64().map_or_else(|| number.as_f64().map_or(Sql::Null, Sql::Real), Sql::Integer)
        }
        Json::Array(items) => Sql::Blob(items.iter().filter_map(Json::as_str).flat_map(item_bytes).collect()),
    }
}

fn text<'a>(context: &'a Context<'_>, place: usize) -> rusqlite::Result<Option<&'a str>> {
    match context.get_raw(place) {
        ValueRef::Null => Ok(None),
        value => value.as_str().map(Some).map_err(|error| Error::UserFunctionError(Box::new(error))),
    }
}

fn text_or_empty<'a>(context: &'a Context<'_>, place: usize) -> &'a str {
    context.get_raw(place).as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_keep_their_order_as_bytes() {
        let lists: [&[&str]; 8] = [&[], &[""], &["", "a"], &["a"], &["a", ""], &["a", "b"], &["a\0"], &["ab"]];
        let list = |items: &[&str]| Value::List(items.iter().map(|item| (*item).to_owned()).collect());
        let bytes = |items: &[&str]| match to_sql(&list(items)) {
            Sql::Blob(bytes) => bytes,
            other => panic!("{other:?}"),
        };
        for pair in lists.windows(2) {
            assert!(bytes(pair[0]) < bytes(pair[1]), "{pair:?}");
        }
        for items in lists {
            assert_eq!(list_from(&bytes(items)).map(Value::List), Some(list(items)));
        }
    }
}
