//! Converters between JSON and other encodings of values and failures.
//!
//! Workflows, tasks and clients use JSON internally; a [`DataConverter`] converts payloads where they leave and enter
//! the process, in front of the codecs. So it applies to the client, its workers, memos, heartbeats and markers alike,
//! and replay does not depend on it.

use segno_proto::{common::Payload, failure::Failure};
use serde_json::Value;

use super::{ConversionError, ENCODING, decode_payload, encode_json};

/// How values become payloads: [`ClientBuilder::converter`](crate::ClientBuilder::converter). Workers have the converter
/// of their client.
///
/// It does not get values that the SDK sends without JSON: `()`, which is no payload, `None`, which is `binary/null`, and
/// [`Bytes`](super::Bytes), which is `binary/plain`; nor for search attributes, which servers must be able to read. A value
/// is what JSON can say: a number has 64 bits, and bytes other than [`Bytes`](super::Bytes) are a list of numbers.
///
/// Values in an encoding of one's own, here JSON in reverse:
///
/// ```
/// use segno_sdk::converter::{ConversionError, DataConverter};
/// use segno_sdk::raw::Payload;
/// use segno_sdk::prelude::*;
///
/// struct Reversed;
///
/// impl DataConverter for Reversed {
///     fn encode(&self, value: &Value) -> Result<Option<Payload>, ConversionError> {
///         let data: Vec<u8> = value.to_string().into_bytes().into_iter().rev().collect();
///         let metadata = [("encoding".to_string(), "json/reversed".into())].into();
///         Ok(Some(Payload { metadata, data: data.into(), ..Default::default() }))
///     }
///
///     fn decode(&self, payload: &Payload) -> Result<Option<Value>, ConversionError> {
///         if payload.metadata.get("encoding").is_none_or(|encoding| encoding.as_ref() != b"json/reversed") {
///             return Ok(None); // not one of ours
///         }
///         let text: Vec<u8> = payload.data.iter().rev().copied().collect();
///         serde_json::from_slice(&text).map(Some).map_err(|error| ConversionError(error.to_string()))
///     }
/// }
///
/// let builder = Client::builder().converter(Reversed);
/// # let _ = builder;
/// ```
pub trait DataConverter: Send + Sync + 'static {
    /// A value as a payload. `None`: as JSON.
    fn encode(&self, value: &Value) -> Result<Option<Payload>, ConversionError>;

    /// The value in a payload. `None`: it is not one that [`encode`](Self::encode) made, and stays as it is.
    fn decode(&self, payload: &Payload) -> Result<Option<Value>, ConversionError>;
}

/// How failures look to others: [`ClientBuilder::failure_converter`](crate::ClientBuilder::failure_converter).
///
/// Both methods see one failure at a time; its cause is a failure of its own. What
/// [`encode`](Self::encode) took out, [`decode`](Self::decode) should be able to put back: workflows that are
/// replayed see failures as they come from the server.
pub trait FailureConverter: Send + Sync + 'static {
    /// Changes a failure that is sent.
    fn encode(&self, failure: &mut Failure) -> Result<(), ConversionError> {
        let _ = failure;
        Ok(())
    }

    /// Changes a failure that has come.
    fn decode(&self, failure: &mut Failure) -> Result<(), ConversionError> {
        let _ = failure;
        Ok(())
    }
}

/// A payload of the SDK's own, as the converter has it.
pub(super) fn outgoing(converter: &dyn DataConverter, payload: Payload) -> Result<Payload, ConversionError> {
    if payload.metadata.get(ENCODING).is_none_or(|encoding| encoding.as_ref() != super::JSON) {
        return Ok(payload);
    }
    let value: Value = decode_payload(&payload)?;
    Ok(converter.encode(&value)?.unwrap_or(payload))
}

/// The reverse.
pub(super) fn incoming(converter: &dyn DataConverter, payload: Payload) -> Result<Payload, ConversionError> {
    match converter.decode(&payload)? {
        Some(value) => encode_json(&value),
        None => Ok(payload),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::Bytes;
    use segno_proto::failure as wire;
    use serde_json::json;

    use super::*;
    use crate::converter::{Bytes as Plain, codec::Codecs, decode, encode};

    /// Text in capital letters, everything else as JSON.
    struct Loud;

    impl DataConverter for Loud {
        fn encode(&self, value: &Value) -> Result<Option<Payload>, ConversionError> {
            let Some(text) = value.as_str() else { return Ok(None) };
            let metadata = [(ENCODING.to_owned(), Bytes::from_static(b"text/loud"))].into();
            Ok(Some(Payload { metadata, data: text.to_uppercase().into(), ..Default::default() }))
        }

        fn decode(&self, payload: &Payload) -> Result<Option<Value>, ConversionError> {
            match payload.metadata.get(ENCODING).map(Bytes::as_ref) {
                Some(b"text/loud") => Ok(Some(String::from_utf8_lossy(&payload.data).to_lowercase().into())),
                _ => Ok(None),
            }
        }
    }

    impl FailureConverter for Loud {
        fn encode(&self, failure: &mut wire::Failure) -> Result<(), ConversionError> {
            failure.message.insert(0, '!');
            Ok(())
        }

        fn decode(&self, failure: &mut wire::Failure) -> Result<(), ConversionError> {
            failure.message.remove(0);
            Ok(())
        }
    }

    fn loud() -> Codecs {
        let mut codecs = Codecs::default();
        codecs.convert(Arc::new(Loud));
        codecs.convert_failures(Arc::new(Loud));
        codecs
    }

    #[tokio::test]
    async fn values_take_the_form_of_the_converter_and_come_back() {
        let codecs = loud();
        let sent = codecs.encode(encode(&("tea", 2, None::<u8>), 3).unwrap()).await.unwrap();
        let encodings: Vec<&[u8]> = sent.iter().map(|payload| payload.metadata[ENCODING].as_ref()).collect();
        assert_eq!(encodings, [b"text/loud".as_slice(), b"json/plain", b"binary/null"]);
        assert_eq!(sent[0].data, "TEA");
        let came = codecs.decode(sent).await.unwrap();
        assert_eq!(decode::<(String, u8, Option<u8>)>(&came, 3).unwrap(), ("tea".to_owned(), 2, None));
        let bytes = codecs.encode(encode(&Plain::from_static(b"raw"), 1).unwrap()).await.unwrap();
        assert_eq!(bytes[0].metadata[ENCODING], "binary/plain");
    }

    #[tokio::test]
    async fn every_failure_of_a_chain_passes_the_failure_converter() {
        let codecs = loud();
        let failure: crate::Failure = crate::Failure::new("outer")
            .caused_by(crate::Failure::application("Inner", "inner").details(&json!("cold")))
            .into();
        let sent = codecs.encode_failure(failure.to_wire()).await.unwrap();
        assert_eq!(sent.message, "!outer");
        assert_eq!(sent.cause.as_ref().unwrap().message, "!inner");
        let came = crate::Failure::from_wire(codecs.decode_failure(sent).await.unwrap());
        assert_eq!(came.message(), "outer");
        assert_eq!(came.cause().unwrap().details::<String>().unwrap(), "cold");
    }
}
