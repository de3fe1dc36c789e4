//! Messages of the protocol as payloads: input and result of the operations that the server itself carries out.

use prost::Message;
use segno_proto::common::Payload;
use segno_proto_json::{Reading, descriptor, from_json, parse};

const ENCODING: &str = "encoding";
const BINARY: &str = "binary/protobuf";

/// Why a payload is not a message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotMessage {
    /// It has no metadata.
    #[error("metadata is not set")]
    NoMetadata,
    /// Its encoding is none that messages have.
    #[error("unable to decode: {0:?} is not the encoding of a message")]
    Encoding(String),
    /// Its bytes are no such message. Temporal's text has that space.
    #[error("unable to decode: proto:\u{a0}cannot parse invalid wire-format data")]
    Bytes,
    /// Its JSON is no such message.
    #[error("unable to decode: {0}")]
    Json(String),
}

/// The payload that is a message with this full name.
pub fn message_payload(name: &str, message: &impl Message) -> Payload {
    let metadata = [(ENCODING, BINARY), ("messageType", name)];
    let metadata = metadata.map(|(key, value)| (key.to_owned(), value.to_owned().into()));
    Payload { metadata: metadata.into(), data: message.encode_to_vec().into(), ..Default::default() }
}

/// The message with this full name that a payload is, whatever message it says it is; `None` if it is no value.
pub fn read_message<M: Message + Default>(name: &str, payload: &Payload) -> Result<Option<M>, NotMessage> {
    let encoding = payload.metadata.get(ENCODING).ok_or(NotMessage::NoMetadata)?;
    let decode = |bytes: &[u8]| M::decode(bytes).map_err(|_| NotMessage::Bytes);
    match std::str::from_utf8(encoding).unwrap_or_default() {
        BINARY => decode(&payload.data).map(Some),
        "json/protobuf" => decode(&binary(name, &payload.data).map_err(NotMessage::Json)?).map(Some),
        "binary/null" => Ok(None),
        other => Err(NotMessage::Encoding(other.to_owned())),
    }
}

fn binary(name: &str, json: &[u8]) -> Result<Vec<u8>, String> {
    let kind = descriptor(name).ok_or_else(|| format!("{name} is no message"))?;
    let reading = Reading { skips_unknown: true, ..Reading::default() };
    let node = parse(json)?.ok_or("unexpected end of JSON input")?;
    Ok(from_json(kind, &node, json, reading)?.encode_to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: &str = "temporal.api.common.v1.WorkflowType";

    fn payload(encoding: &str, data: &'static [u8]) -> Payload {
        let metadata = [(ENCODING.to_owned(), encoding.to_owned().into())];
        Payload { metadata: metadata.into(), data: data.into(), ..Default::default() }
    }

    fn read(payload: &Payload) -> Result<Option<String>, NotMessage> {
        let read: Result<Option<segno_proto::common::WorkflowType>, _> = read_message(NAME, payload);
        read.map(|found| found.map(|kind| kind.name))
    }

    #[test]
    fn a_message_comes_back() {
        let written = message_payload(NAME, &segno_proto::common::WorkflowType { name: "wt".to_owned() });
        assert_eq!(read(&written), Ok(Some("wt".to_owned())));
        assert_eq!(read(&payload("json/protobuf", br#"{"name":"wt","later":1}"#)), Ok(Some("wt".to_owned())));
        assert_eq!(read(&payload("binary/null", b"")), Ok(None));
    }

    #[test]
    fn other_payloads_are_none() {
        assert_eq!(read(&Payload::default()), Err(NotMessage::NoMetadata));
        assert_eq!(read(&payload(BINARY, b"\xff\xff\xff")), Err(NotMessage::Bytes));
        assert_eq!(read(&payload("json/plain", b"{}")), Err(NotMessage::Encoding("json/plain".to_owned())));
        assert!(matches!(read(&payload("json/protobuf", b"{")), Err(NotMessage::Json(_))));
    }
}
