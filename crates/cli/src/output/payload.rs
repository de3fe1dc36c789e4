//! Payloads as text and as JSON, and the way back: JSON from the command line as a payload.

use bytes::Bytes;
use segno_proto::common::{Payload, Payloads};
use segno_proto_json::base64;

use super::Json;

const ENCODING: &str = "encoding";
const JSON_PLAIN: &str = "json/plain";

fn encoding(payload: &Payload) -> &str {
    payload.metadata.get(ENCODING).and_then(|name| std::str::from_utf8(name).ok()).unwrap_or("")
}

/// The JSON inside a payload, as its writer wrote it.
pub fn json_of(payload: &Payload) -> Option<Json> {
    match encoding(payload) {
        JSON_PLAIN | "json/protobuf" => {
            let text = std::str::from_utf8(&payload.data).ok()?;
            serde_json::from_str::<serde_json::Value>(text).ok()?;
            Some(Json::Raw(text.trim().to_owned()))
        }
        "binary/null" => Some(Json::Null),
        _ => None,
    }
}

/// What a person wants to see: JSON, readable bytes, else their number.
pub fn text(payload: &Payload) -> String {
    if let Some(json) = json_of(payload) {
        return json.to_string();
    }
    let size = payload.data.len();
    match (encoding(payload), std::str::from_utf8(&payload.data)) {
        ("binary/plain" | JSON_PLAIN, Ok(text)) => text.to_owned(),
        ("binary/plain" | "", _) => format!("<{size} bytes>"),
        (encoding, _) => format!("<{size} bytes, {encoding}>"),
    }
}

/// All payloads as texts.
pub fn texts(payloads: Option<&Payloads>) -> Vec<String> {
    payloads.map(|payloads| payloads.payloads.iter().map(text).collect()).unwrap_or_default()
}

/// A payload as JSON: what is in it if that is JSON, else metadata and bytes as protobuf's JSON has them.
pub fn json(payload: &Payload) -> Json {
    json_of(payload).unwrap_or_else(|| raw(payload))
}

/// A payload with its metadata and bytes.
pub fn raw(payload: &Payload) -> Json {
    let metadata = payload.metadata.iter().map(|(key, value)| (key.clone(), Json::String(base64(value))));
    let mut json = Json::object([("metadata", Json::Object(metadata.collect()))]);
    if !payload.data.is_empty() {
        json.push("data", Json::String(base64(&payload.data)));
    }
    json
}

/// JSON as a payload.
pub fn of_json(text: &str) -> Payload {
    Payload {
        metadata: [(ENCODING.to_owned(), Bytes::from_static(JSON_PLAIN.as_bytes()))].into(),
        data: text.to_owned().into(),
        ..Default::default()
    }
}

/// Arguments as payloads; none at all if there are none.
pub fn of_arguments(arguments: &[String]) -> Option<Payloads> {
    let payloads: Vec<_> = arguments.iter().map(|text| of_json(text)).collect();
    (!payloads.is_empty()).then_some(Payloads { payloads })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payload(encoding: &str, data: &[u8]) -> Payload {
        Payload {
            metadata: [(ENCODING.to_owned(), encoding.to_owned().into())].into(),
            data: data.to_vec().into(),
            ..Default::default()
        }
    }

    #[test]
    fn shown_as_what_they_are() {
        assert_eq!(text(&payload("json/plain", b"{\"b\": 1, \"a\": 2}")), "{\"b\": 1, \"a\": 2}");
        assert_eq!(text(&payload("json/plain", b"not json")), "not json");
        assert_eq!(text(&payload("binary/plain", "grüße".as_bytes())), "grüße");
        assert_eq!(text(&payload("binary/plain", b"\xff\xfe")), "<2 bytes>");
        assert_eq!(text(&payload("binary/null", b"")), "null");
        assert_eq!(text(&payload("binary/encrypted", b"abc")), "<3 bytes, binary/encrypted>");
    }

    #[test]
    fn as_json() {
        assert_eq!(json(&payload("json/plain", b"12345678901234567890")).to_string(), "12345678901234567890");
        assert_eq!(json(&payload("binary/null", b"")), Json::Null);
        let bytes = r#"{"metadata":{"encoding":"YmluYXJ5L3BsYWlu"},"data":"YQ=="}"#;
        assert_eq!(json(&payload("binary/plain", b"a")).to_string(), bytes);
    }

    #[test]
    fn arguments_become_payloads() {
        assert_eq!(of_arguments(&[]), None);
        let made = of_arguments(&["1".to_owned(), "\"x\"".to_owned()]).expect("two");
        assert_eq!(texts(Some(&made)), ["1", "\"x\""]);
    }
}
