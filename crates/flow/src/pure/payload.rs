//! Conversion of payloads to values and back, and functions of `Payload`.

use std::sync::Arc;

use crate::interface::Payload;
use crate::library::Function;
use crate::value::{Kind, LanguageError, Value};

use super::arguments::{must_be, string};
use super::{Cost, base64, json, limited};

/// Bytes that a payload may have.
pub const BYTES_MAX: usize = 2 << 20;
/// Most that the protocol adds to a payload or a field of it.
const FRAME: usize = 16;

/// The encoding that the metadata names; empty if it names none.
#[must_use]
pub fn encoding(payload: &Payload) -> &[u8] {
    payload.metadata.iter().find(|(name, _)| name == "encoding").map_or(&[], |(_, value)| value)
}

/// A payload with this encoding.
#[must_use]
pub fn encoded(encoding: &str, data: Vec<u8>) -> Payload {
    Payload { metadata: vec![("encoding".to_owned(), encoding.as_bytes().to_vec())], data }
}

/// The value of a payload. One in an encoding that the server does not read is a value as it is. The error says why a
/// payload with JSON cannot be read.
pub fn read(payload: &Payload) -> Result<Value, String> {
    match encoding(payload) {
        b"json/plain" => json::parse(&payload.data),
        b"binary/null" => Ok(Value::Null),
        _ => Ok(Value::Payload(Arc::new(payload.clone()))),
    }
}

/// The value of an argument: the payload as it is if it cannot be read.
#[must_use]
pub fn argument(payload: Payload) -> Value {
    match encoding(&payload) {
        b"json/plain" => json::parse(&payload.data).unwrap_or_else(|_| Value::Payload(Arc::new(payload))),
        b"binary/null" => Value::Null,
        _ => Value::Payload(Arc::new(payload)),
    }
}

/// What is sent for a value.
pub fn write(value: &Value) -> Result<Payload, LanguageError> {
    write_counting(value, &mut Cost::default())
}

/// What is sent for a value, and what making it costs.
pub fn write_counting(value: &Value, cost: &mut Cost) -> Result<Payload, LanguageError> {
    let payload = match value {
        Value::Null => encoded("binary/null", Vec::new()),
        Value::Payload(payload) => {
            cost.touch(payload.size());
            Payload::clone(payload)
        }
        value => encoded("json/plain", json::write(value, cost)?.into_bytes()),
    };
    if payload.data.len() > BYTES_MAX {
        return Err(too_large(payload.data.len()));
    }
    Ok(payload)
}

/// Refuses payloads that are together more than the server takes in one place.
pub fn check_total<'p>(payloads: impl Iterator<Item = &'p Payload>) -> Result<(), LanguageError> {
    let size = |payload: &Payload| {
        let metadata: usize = payload.metadata.iter().map(|(key, value)| key.len() + value.len() + FRAME).sum();
        payload.data.len() + metadata + FRAME
    };
    let total: usize = payloads.map(size).sum();
    if total > BYTES_MAX { Err(too_large(total)) } else { Ok(()) }
}

/// Says that a payload has too many bytes.
pub(super) fn too_large(count: usize) -> LanguageError {
    LanguageError::new(Kind::Payload, format!("{count} bytes are more than a payload may have ({BYTES_MAX})"))
}

/// The value of several payloads: none is null, one its value, several a list. As [`argument`].
#[must_use]
pub fn values(payloads: &[Payload]) -> Value {
    match payloads {
        [] => Value::Null,
        [only] => argument(only.clone()),
        several => Value::list(several.iter().cloned().map(argument).collect()),
    }
}

/// As [`values`], for results: the error says why one cannot be read.
pub fn result(payloads: &[Payload]) -> Result<Value, String> {
    match payloads {
        [] => Ok(Value::Null),
        [only] => read(only),
        several => several.iter().map(read).collect::<Result<_, _>>().map(Value::list),
    }
}

pub(super) fn call(function: Function, argument: &Value, cost: &mut Cost) -> Result<Value, LanguageError> {
    let name = function.signature().name;
    if function == Function::PayloadBytes {
        let text = string(name, "the argument", argument)?;
        cost.touch(text.len());
        let bytes = base64::decode(text).ok_or_else(|| LanguageError::argument(format!("{name}: not base 64")))?;
        return limited(Value::Payload(Arc::new(encoded("binary/plain", bytes))));
    }
    let Value::Payload(payload) = argument else {
        return Err(must_be(name, "the argument", "a payload"));
    };
    cost.touch(payload.size());
    let fails = |why: &str| LanguageError::argument(format!("{name}: {why}"));
    let value = match function {
        Function::PayloadEncoding => Value::text(String::from_utf8_lossy(encoding(payload))),
        Function::PayloadJson => json::parse_counting(&payload.data, cost).map_err(|why| fails(&why))?,
        Function::PayloadText => {
            Value::text(str::from_utf8(&payload.data).map_err(|_| fails("the bytes are not UTF-8"))?)
        }
        _ => Value::text(base64::encode(&payload.data)),
    };
    limited(value)
}
