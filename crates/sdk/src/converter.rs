//! Values on the wire: JSON in payloads, as in Temporal's SDKs.
//!
//! `()` is no payload, `None` is `binary/null`, [`Bytes`] is `binary/plain`, everything else is `json/plain`. A
//! [`DataConverter`] changes the encoding of values, a [`FailureConverter`] that of failures, and a
//! [`PayloadCodec`](codec::PayloadCodec) encrypts or compresses their output. All three are set for a client, and its
//! workers use them as well.

mod arguments;
mod binary;
pub mod codec;
mod data;

use std::any::Any;

use bytes::Bytes as Data;
use segno_proto::common::{Payload, Payloads};
use serde::{Serialize, de::DeserializeOwned};

pub use arguments::Arguments;
pub use binary::Bytes;
pub use data::{DataConverter, FailureConverter};

/// The key under which a payload says how it is encoded.
pub(crate) const ENCODING: &str = "encoding";
const JSON: &[u8] = b"json/plain";
const NULL: &[u8] = b"binary/null";
const PLAIN: &[u8] = b"binary/plain";

/// In the place of a number of arguments: however many payloads there are, as one list.
pub const ALL_PAYLOADS: usize = usize::MAX;

/// A value that cannot be sent, or that is not what was expected.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct ConversionError(pub String);

fn payload(encoding: &'static [u8], data: impl Into<Data>) -> Payload {
    let metadata = [(ENCODING.to_owned(), Data::from_static(encoding))].into();
    Payload { metadata, data: data.into(), ..Default::default() }
}

/// One value as one payload.
pub fn encode_json<T: Serialize + ?Sized>(value: &T) -> Result<Payload, ConversionError> {
    let text =
        serde_json::to_vec(value).map_err(|error| ConversionError(format!("a value cannot be sent: {error}")))?;
    Ok(if text == b"null" { payload(NULL, Data::new()) } else { payload(JSON, text) })
}

/// A value as `arguments` payloads: none for `()`, one usually, one per element for a tuple of several arguments.
pub fn encode<T: Serialize + 'static>(value: &T, arguments: usize) -> Result<Vec<Payload>, ConversionError> {
    let any = value as &dyn Any;
    if any.is::<()>() {
        return Ok(Vec::new());
    }
    if let Some(bytes) = any.downcast_ref::<Bytes>() {
        return Ok(vec![payload(PLAIN, bytes.clone())]);
    }
    if arguments < 2 {
        return Ok(vec![encode_json(value)?]);
    }
    let text =
        serde_json::to_string(value).map_err(|error| ConversionError(format!("a value cannot be sent: {error}")))?;
    let elements: Vec<&serde_json::value::RawValue> =
        serde_json::from_str(&text).map_err(|error| ConversionError(format!("arguments must be a tuple: {error}")))?;
    Ok(elements
        .into_iter()
        .map(|element| match element.get() {
            "null" => payload(NULL, Data::new()),
            text => payload(JSON, Data::copy_from_slice(text.as_bytes())),
        })
        .collect())
}

/// The JSON text in a payload.
fn json_text(payload: &Payload) -> Result<&[u8], ConversionError> {
    let encoding = payload.metadata.get(ENCODING).map(Data::as_ref).unwrap_or_default();
    match encoding {
        b"json/plain" | b"json/protobuf" => Ok(&payload.data),
        b"binary/null" => Ok(b"null"),
        other => Err(ConversionError(format!(
            "a payload with the encoding {:?} is not JSON; read it with a raw variant or a codec",
            String::from_utf8_lossy(other)
        ))),
    }
}

/// One value from one payload.
pub fn decode_payload<T: DeserializeOwned>(payload: &Payload) -> Result<T, ConversionError> {
    let text = json_text(payload)?;
    serde_json::from_slice(text).map_err(|error| {
        let kind = std::any::type_name::<T>();
        ConversionError(format!("{kind} cannot be read from {}: {error}", short(text)))
    })
}

/// A value from payloads: the reverse of [`encode`]. Payloads that are too many are ignored, as in Temporal's SDKs.
///
/// A tuple may come as one payload per element or as one list, whichever its sender took it for.
pub fn decode<T: DeserializeOwned + 'static>(payloads: &[Payload], arguments: usize) -> Result<T, ConversionError> {
    let kind = std::any::TypeId::of::<T>();
    if kind == std::any::TypeId::of::<()>() {
        return same_type(());
    }
    if kind == std::any::TypeId::of::<Bytes>() {
        return same_type(Bytes::from(payloads.first().map(|payload| payload.data.clone()).unwrap_or_default()));
    }
    if arguments < 2 {
        return match payloads.first() {
            Some(payload) => decode_payload(payload).or_else(|error| {
                if payloads.len() > 1 { decode_list(payloads, payloads.len()).map_err(|_| error) } else { Err(error) }
            }),
            // An argument that may be missing.
            None => serde_json::from_slice(b"null").map_err(|_| {
                ConversionError(format!("{} expected, but there is no payload", std::any::type_name::<T>()))
            }),
        };
    }
    if arguments == ALL_PAYLOADS {
        return decode_list(payloads, payloads.len());
    }
    decode_list(payloads, arguments).or_else(|error| match payloads {
        [only] => decode_payload(only).map_err(|_| error),
        _ => Err(error),
    })
}

/// A list from its elements; those that are missing are `null`.
pub(crate) fn decode_list<T: DeserializeOwned>(payloads: &[Payload], count: usize) -> Result<T, ConversionError> {
    let mut text = vec![b'['];
    for index in 0..count {
        if index > 0 {
            text.push(b',');
        }
        text.extend_from_slice(payloads.get(index).map_or(Ok(&b"null"[..]), json_text)?);
    }
    text.push(b']');
    serde_json::from_slice(&text).map_err(|error| {
        let kind = std::any::type_name::<T>();
        ConversionError(format!("{kind} cannot be read from {}: {error}", short(&text)))
    })
}

fn same_type<T: 'static, V: 'static>(value: V) -> Result<T, ConversionError> {
    let boxed: Box<dyn Any> = Box::new(value);
    boxed.downcast::<T>().map(|value| *value).map_err(|_| ConversionError("types differ".to_owned()))
}

fn short(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    match text.char_indices().nth(80) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.into_owned(),
    }
}

/// The list that the wire has for arguments and results; absent if there is none.
pub(crate) fn list(payloads: Vec<Payload>) -> Option<Payloads> {
    (!payloads.is_empty()).then_some(Payloads { payloads })
}

/// The payloads of a list from the wire.
pub(crate) fn items(payloads: &Option<Payloads>) -> &[Payload] {
    payloads.as_ref().map(|payloads| payloads.payloads.as_slice()).unwrap_or_default()
}
