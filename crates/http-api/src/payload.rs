//! The short form of payloads: JSON stands for itself, instead of metadata and bytes in Base64.
//!
//! Written and read as Temporal's `common/v1/payload_json.go` does it, including its habits: an empty array inside a
//! payload becomes `null`, and numbers pass through floating point on their way out.

use std::collections::BTreeMap;

use bytes::Bytes;
use segno_proto::common::Payload;
use segno_proto_json::{Json, Node, NodeValue, float, from_base64, integer, parse};

const ENCODING: &str = "encoding";
const BINARY_NULL: &str = "binary/null";
const JSON_PLAIN: &str = "json/plain";
const JSON_PROTOBUF: &str = "json/protobuf";
const MESSAGE_TYPE: &str = "messageType";
/// Where the short form of a protobuf message has its type.
const MESSAGE_TYPE_MEMBER: &str = "_protoMessageType";
/// Base64 of `binary/null`.
const BINARY_NULL_BASE64: &str = "YmluYXJ5L251bGw=";

/// The short form of a payload, if it has one.
pub(super) fn short(payload: &Payload) -> Option<Json> {
    let metadata = |name: &str| payload.metadata.get(name).and_then(|value| std::str::from_utf8(value).ok());
    let read = || parse(&payload.data).ok().flatten();
    let null = || Json::object([("metadata", Json::object([(ENCODING, Json::text(BINARY_NULL_BASE64))]))]);
    match metadata(ENCODING)? {
        BINARY_NULL => Some(null()),
        JSON_PLAIN if payload.metadata.len() == 1 => match read()? {
            Node { value: NodeValue::Null, .. } => Some(null()),
            node => Some(json(&node, floating)),
        },
        JSON_PROTOBUF if payload.metadata.len() == 2 => {
            let kind = metadata(MESSAGE_TYPE).filter(|kind| !kind.is_empty())?;
            let Json::Object(mut members) = json(&read()?, floating) else { return None };
            members.retain(|(name, _)| name != MESSAGE_TYPE_MEMBER);
            members.push((MESSAGE_TYPE_MEMBER.to_owned(), Json::text(kind)));
            members.sort_by(|(one, _), (other, _)| one.cmp(other));
            Some(Json::Object(members))
        }
        _ => None,
    }
}

/// JSON as Go's `encoding/json` writes what it has read: members sorted, an empty array as `null`.
fn json(node: &Node, number: fn(&str) -> String) -> Json {
    match &node.value {
        NodeValue::Null => Json::Null,
        NodeValue::Bool(truth) => Json::Bool(*truth),
        NodeValue::Number(text) => Json::Raw(number(text)),
        NodeValue::String(text) => Json::text(text),
        NodeValue::Array(items) if items.is_empty() => Json::Null,
        NodeValue::Array(items) => Json::Array(items.iter().map(|item| json(item, number)).collect()),
        NodeValue::Object(members) => {
            let sorted: BTreeMap<_, _> = members.iter().map(|member| (&member.name, &member.value)).collect();
            Json::Object(sorted.into_iter().map(|(name, value)| (name.clone(), json(value, number))).collect())
        }
    }
}

fn floating(number: &str) -> String {
    float(number.parse().unwrap_or_default())
}

fn exact(number: &str) -> String {
    integer(number).map_or_else(|| floating(number), |whole| whole.to_string())
}

/// A payload from JSON: from its full form if it has that, else from its short form.
pub(super) fn read(node: &Node) -> Payload {
    let NodeValue::Object(members) = &node.value else {
        return match node.value {
            NodeValue::Null => payload([(ENCODING, BINARY_NULL)], String::new()),
            _ => payload([(ENCODING, JSON_PLAIN)], text(json(node, exact))),
        };
    };
    let members: BTreeMap<&str, &NodeValue> =
        members.iter().map(|member| (member.name.as_str(), &member.value.value)).collect();
    if let Some(payload) = full(&members) {
        return payload;
    }
    let mut shown = json(node, exact);
    match (members.get(MESSAGE_TYPE_MEMBER), &mut shown) {
        (Some(NodeValue::String(kind)), Json::Object(members)) => {
            members.retain(|(name, _)| name != MESSAGE_TYPE_MEMBER);
            payload([(ENCODING, JSON_PROTOBUF), (MESSAGE_TYPE, kind)], text(shown))
        }
        _ => payload([(ENCODING, JSON_PLAIN)], text(shown)),
    }
}

/// The full form: metadata and data, or metadata alone for nothing.
fn full(members: &BTreeMap<&str, &NodeValue>) -> Option<Payload> {
    let NodeValue::Object(metadata) = members.get("metadata")? else { return None };
    let encoding = metadata.iter().rfind(|member| member.name == ENCODING)?;
    let Some(data) = members.get("data") else {
        let is_null = encoding.value.value == NodeValue::String(BINARY_NULL_BASE64.to_owned());
        return is_null.then(|| payload([(ENCODING, BINARY_NULL)], String::new()));
    };
    if members.len() != 2 {
        return None;
    }
    let bytes = |value: &NodeValue| match value {
        NodeValue::String(text) => from_base64(text).map(Bytes::from),
        _ => None,
    };
    let data = bytes(data)?;
    let metadata = metadata.iter().map(|member| Some((member.name.clone(), bytes(&member.value.value)?)));
    Some(Payload { metadata: metadata.collect::<Option<_>>()?, data, ..Default::default() })
}

fn payload<const N: usize>(metadata: [(&str, &str); N], data: String) -> Payload {
    let metadata = metadata.map(|(name, value)| (name.to_owned(), value.to_owned().into())).into();
    Payload { metadata, data: data.into(), ..Default::default() }
}

/// Go's `encoding/json` also escapes what HTML would take for its own.
fn text(json: Json) -> String {
    json.print(false, |letter| matches!(letter, '<' | '>' | '&' | '\u{2028}' | '\u{2029}'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn there(json: &str) -> Payload {
        read(&parse(json.as_bytes()).expect("JSON").expect("a value"))
    }

    fn and_back(payload: &Payload) -> Option<String> {
        Some(short(payload)?.print(false, |_| false))
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
