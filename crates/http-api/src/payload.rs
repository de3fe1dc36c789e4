//! The short form of payloads: JSON stands for itself, instead of metadata and bytes in Base64.
//!
//! Written and read as Temporal's `common/v1/payload_json.go` does it, including its habits: an empty array inside a
//! payload becomes `null`, and numbers pass through floating point on their way out.

use std::collections::BTreeMap;

use prost::Message;
use segno_proto::common::Payload;

use super::{
    dynamic::{Content, Dynamic, Scalar},
    json::{self, Node, Value, Writer},
    scalars,
};

const ENCODING: &str = "encoding";
const BINARY_NULL: &str = "binary/null";
const JSON_PLAIN: &str = "json/plain";
const JSON_PROTOBUF: &str = "json/protobuf";
const MESSAGE_TYPE: &str = "messageType";
/// Where the short form of a protobuf message has its type.
const MESSAGE_TYPE_MEMBER: &str = "_protoMessageType";
/// Base64 of `binary/null`.
const BINARY_NULL_BASE64: &str = "YmluYXJ5L251bGw=";

/// What the short form of a payload shows.
pub(super) enum ShortForm {
    Null,
    Json(Node),
    /// A protobuf message, by its type.
    Protobuf(Vec<(String, Node)>, String),
}

/// The short form of an encoded payload, if it has one.
pub(super) fn short(bytes: &[u8]) -> Option<ShortForm> {
    let payload = Payload::decode(bytes).ok()?;
    let metadata = |name: &str| payload.metadata.get(name).and_then(|value| std::str::from_utf8(value).ok());
    let read = || json::parse(&payload.data).ok().flatten();
    match metadata(ENCODING)? {
        BINARY_NULL => Some(ShortForm::Null),
        JSON_PLAIN if payload.metadata.len() == 1 => match read()? {
            Node { value: Value::Null, .. } => Some(ShortForm::Null),
            node => Some(ShortForm::Json(node)),
        },
        JSON_PROTOBUF if payload.metadata.len() == 2 => {
            let kind = metadata(MESSAGE_TYPE).filter(|kind| !kind.is_empty())?;
            let Value::Object(members) = read()?.value else { return None };
            let members = members.into_iter().map(|member| (member.name, member.value)).collect();
            Some(ShortForm::Protobuf(members, kind.to_owned()))
        }
        _ => None,
    }
}

impl ShortForm {
    /// Writes it as a value.
    pub(super) fn write(&self, writer: &mut Writer) {
        match self {
            Self::Null => {
                writer.open('{');
                writer.name("metadata");
                writer.open('{');
                writer.name(ENCODING);
                writer.string(BINARY_NULL_BASE64);
                writer.close('}');
                writer.close('}');
            }
            Self::Json(node) => write(node, writer),
            Self::Protobuf(members, kind) => {
                let mut sorted: BTreeMap<&str, Option<&Node>> =
                    members.iter().map(|(name, value)| (name.as_str(), Some(value))).collect();
                sorted.insert(MESSAGE_TYPE_MEMBER, None);
                writer.open('{');
                for (name, value) in sorted {
                    writer.name(name);
                    match value {
                        Some(value) => write(value, writer),
                        None => writer.string(kind),
                    }
                }
                writer.close('}');
            }
        }
    }
}

fn write(node: &Node, writer: &mut Writer) {
    match &node.value {
        Value::Null => writer.raw("null"),
        Value::Bool(truth) => writer.raw(if *truth { "true" } else { "false" }),
        Value::Number(number) => writer.raw(&json::float(number.parse().unwrap_or_default())),
        Value::String(text) => writer.string(text),
        Value::Array(items) if items.is_empty() => writer.raw("null"),
        Value::Array(items) => {
            writer.open('[');
            for item in items {
                writer.item();
                write(item, writer);
            }
            writer.close(']');
        }
        Value::Object(members) => {
            let sorted: BTreeMap<&str, &Node> =
                members.iter().map(|member| (member.name.as_str(), &member.value)).collect();
            writer.open('{');
            for (name, value) in sorted {
                writer.name(name);
                write(value, writer);
            }
            writer.close('}');
        }
    }
}

/// A payload from JSON: from its full form if it has that, else from its short form.
pub(super) fn read(node: &Node) -> Dynamic {
    match &node.value {
        Value::Null => payload(&[(ENCODING, BINARY_NULL.as_bytes())], None),
        Value::Object(members) => {
            let members: BTreeMap<&str, &Node> =
                members.iter().map(|member| (member.name.as_str(), &member.value)).collect();
            if let Some(payload) = full(&members) {
                return payload;
            }
            match members.get(MESSAGE_TYPE_MEMBER).map(|kind| &kind.value) {
                Some(Value::String(kind)) => {
                    let rest = members.iter().filter(|(name, _)| **name != MESSAGE_TYPE_MEMBER);
                    let metadata = [(ENCODING, JSON_PROTOBUF.as_bytes()), (MESSAGE_TYPE, kind.as_bytes())];
                    payload(&metadata, Some(&object_text(rest.map(|(name, value)| (*name, *value)))))
                }
                _ => payload(&[(ENCODING, JSON_PLAIN.as_bytes())], Some(&text(node))),
            }
        }
        _ => payload(&[(ENCODING, JSON_PLAIN.as_bytes())], Some(&text(node))),
    }
}

/// The full form: metadata and data, or metadata alone for nothing.
fn full(members: &BTreeMap<&str, &Node>) -> Option<Dynamic> {
    let Value::Object(metadata) = &members.get("metadata")?.value else { return None };
    let encoding = metadata.iter().rfind(|member| member.name == ENCODING)?;
    let Some(data) = members.get("data") else {
        let is_null = encoding.value.value == Value::String(BINARY_NULL_BASE64.to_owned());
        return is_null.then(|| payload(&[(ENCODING, BINARY_NULL.as_bytes())], None));
    };
    if members.len() != 2 {
        return None;
    }
    let bytes = |value: &Value| match value {
        Value::String(text) => scalars::base64(text),
        _ => None,
    };
    let data = bytes(&data.value)?;
    let mut decoded = BTreeMap::new();
    for member in metadata {
        decoded.insert(member.name.as_str(), bytes(&member.value.value)?);
    }
    let metadata: Vec<(&str, &[u8])> = decoded.iter().map(|(name, value)| (*name, value.as_slice())).collect();
    Some(payload_of(&metadata, data))
}

fn payload(metadata: &[(&str, &[u8])], data: Option<&str>) -> Dynamic {
    payload_of(metadata, data.unwrap_or_default().as_bytes().to_vec())
}

fn payload_of(metadata: &[(&str, &[u8])], data: Vec<u8>) -> Dynamic {
    let mut message = Dynamic::default();
    for (name, value) in metadata {
        let mut entry = Dynamic::default();
        entry.set(1, Content::text(name));
        entry.set(2, Content::Scalar(Scalar::Bytes(value.to_vec())));
        message.push(1, Content::Message(entry));
    }
    if !data.is_empty() {
        message.set(2, Content::Scalar(Scalar::Bytes(data)));
    }
    message
}

/// JSON as Go's `encoding/json` writes what it has read.
fn text(node: &Node) -> String {
    match &node.value {
        Value::Null => "null".to_owned(),
        Value::Bool(truth) => truth.to_string(),
        Value::Number(number) => match scalars::integer(number) {
            Some(whole) => whole.to_string(),
            None => json::float(number.parse().unwrap_or_default()),
        },
        Value::String(text) => quoted(text),
        Value::Array(items) if items.is_empty() => "null".to_owned(),
        Value::Array(items) => format!("[{}]", items.iter().map(text).collect::<Vec<_>>().join(",")),
        Value::Object(members) => {
            let sorted: BTreeMap<&str, &Node> =
                members.iter().map(|member| (member.name.as_str(), &member.value)).collect();
            object_text(sorted.into_iter())
        }
    }
}

/// Members that are sorted already.
fn object_text<'a>(members: impl Iterator<Item = (&'a str, &'a Node)>) -> String {
    let members: Vec<String> = members.map(|(name, value)| format!("{}:{}", quoted(name), text(value))).collect();
    format!("{{{}}}", members.join(","))
}

fn quoted(text: &str) -> String {
    let mut out = String::new();
    json::quote(text, true, &mut out);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn there(json: &str) -> Payload {
        let node = json::parse(json.as_bytes()).expect("JSON").expect("a value");
        Payload::decode(read(&node).encode().as_slice()).expect("a payload")
    }

    fn and_back(payload: &Payload) -> Option<String> {
        let mut writer = Writer::new(false);
        short(&payload.encode_to_vec())?.write(&mut writer);
        Some(writer.finish())
    }

    #[test]
    fn json_stands_for_itself() {
        let payload = there(r#"{"z":[],"b":{"c":null,"a":[1,2.50,"<é>"]}}"#);
        assert_eq!(payload.data, r#"{"b":{"a":[1,2.5,"\u003cé\u003e"],"c":null},"z":null}"#);
        assert_eq!(payload.metadata.len(), 1);
        assert_eq!(and_back(&payload).as_deref(), Some(r#"{"b":{"a":[1,2.5,"<é>"],"c":null},"z":null}"#));
    }

    #[test]
    fn nothing_has_a_form_of_its_own() {
        let payload = there("null");
        assert_eq!(payload.metadata.get(ENCODING).map(|value| &value[..]), Some(BINARY_NULL.as_bytes()));
        let shown = r#"{"metadata":{"encoding":"YmluYXJ5L251bGw="}}"#;
        assert_eq!(and_back(&payload).as_deref(), Some(shown));
        assert_eq!(there(shown), payload);
    }

    #[test]
    fn the_full_form_is_recognised() {
        let payload = there(r#"{"metadata":{"encoding":"anNvbi9wbGFpbg==","x":"eQ=="},"data":"ImEi"}"#);
        assert_eq!((payload.data.as_ref(), payload.metadata.len()), (&br#""a""#[..], 2));
        // More metadata than the encoding: there is no short form.
        assert_eq!(and_back(&payload), None);
        let plain = there(r#"{"metadata":{"encoding":"json/plain"},"data":"not Base64!"}"#);
        assert_eq!(plain.data, r#"{"data":"not Base64!","metadata":{"encoding":"json/plain"}}"#);
    }

    #[test]
    fn protobuf_has_its_type_among_the_members() {
        let payload = there(r#"{"_protoMessageType":"a.B","x":1}"#);
        assert_eq!(payload.data, r#"{"x":1}"#);
        assert_eq!(and_back(&payload).as_deref(), Some(r#"{"_protoMessageType":"a.B","x":1}"#));
    }
}
