//! Messages from JSON. What does not fit is refused with the texts of Temporal's server, which name line and column.

use std::collections::HashMap;

use prost_reflect::{DynamicMessage, FieldDescriptor, Kind, MessageDescriptor, ReflectMessage, Value, prost::Message};
use prost_types::{Duration, FieldMask, Timestamp};
use segno_proto::common::{Payload, Payloads};

use crate::{
    Node, NodeValue, PAYLOAD, PAYLOADS,
    scalars::{self, whole},
};

/// Longest span, ten thousand years.
const DURATION_SECONDS_MAX: i64 = 315_576_000_000;
/// Deepest nesting of messages.
const DEPTH_MAX: usize = 100;

/// The names that JSON may have besides the fields of a message.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reading {
    /// Reads a payload that may be in a form of its own.
    pub payload: Option<fn(&Node) -> Payload>,
    /// Skips fields that the message does not have, as they would be on the wire.
    pub skips_unknown: bool,
}

/// Reads a message from a part of a text.
pub fn from_json(
    message: MessageDescriptor,
    node: &Node,
    text: &[u8],
    reading: Reading,
) -> Result<DynamicMessage, String> {
    Decoder { text, reading, depth: 0 }.message(message, node)
}

struct Decoder<'a> {
    text: &'a [u8],
    reading: Reading,
    depth: usize,
}

impl Decoder<'_> {
    fn message(&mut self, message: MessageDescriptor, node: &Node) -> Result<DynamicMessage, String> {
        if self.depth > DEPTH_MAX {
            return Err("exceeded max recursion depth".to_owned());
        }
        self.depth += 1;
        let mut read = DynamicMessage::new(message);
        let done = self.merge(&mut read, node);
        self.depth -= 1;
        done.map(|()| read)
    }

    fn merge(&mut self, read: &mut DynamicMessage, node: &Node) -> Result<(), String> {
        let message = read.descriptor();
        if let Some(special) = self.special(&message, node) {
            return read.merge(&*special?).map_err(|error| error.to_string());
        }
        if message.full_name().starts_with("google.protobuf.") && message.name().ends_with("Value") {
            return message.get_field(1).map_or(Ok(()), |field| self.field(read, &field, node));
        }
        let NodeValue::Object(members) = &node.value else { return Err(self.unexpected(node)) };
        let mut seen = Vec::new();
        for member in members {
            let raw = self.raw(member.start, member.end);
            let named = message.get_field_by_json_name(&member.name);
            let Some(field) = named.or_else(|| message.get_field_by_name(&member.name)) else {
                if self.reading.skips_unknown {
                    continue;
                }
                return Err(self.error(member.start, &format!("unknown field {raw}")));
            };
            if seen.contains(&field.number()) {
                return Err(self.error(member.start, &format!("duplicate field {raw}")));
            }
            seen.push(field.number());
            if member.value.value == NodeValue::Null {
                continue;
            }
            if let Some(oneof) = field.containing_oneof().filter(|oneof| !oneof.is_synthetic())
                && oneof.fields().any(|other| read.has_field(&other))
            {
                let text = format!("error parsing {raw}, oneof {} is already set", oneof.full_name());
                return Err(self.error(member.start, &text));
            }
            self.field(read, &field, &member.value)?;
        }
        Ok(())
    }

    fn field(&mut self, read: &mut DynamicMessage, field: &FieldDescriptor, node: &Node) -> Result<(), String> {
        let value = match (field.kind(), &node.value) {
            (Kind::Message(entry), NodeValue::Object(members)) if field.is_map() => {
                let mut entries = HashMap::new();
                for member in members {
                    let kind = entry.map_entry_key_field().kind();
                    let key = match kind {
                        Kind::String => Some(Value::String(member.name.clone())),
                        Kind::Bool => member.name.parse().ok().map(Value::Bool),
                        _ => whole(&kind, &member.name),
                    };
                    let raw = || self.raw(member.start, member.end);
                    let key = key.and_then(Value::into_map_key).ok_or_else(|| {
                        self.error(member.start, &format!("invalid value for {kind:?} key: {}", raw()))
                    })?;
                    if entries.contains_key(&key) {
                        return Err(self.error(member.start, &format!("duplicate map key {}", raw())));
                    }
                    entries.insert(key, self.one(entry.map_entry_value_field().kind(), &member.value)?);
                }
                Value::Map(entries)
            }
            (kind, NodeValue::Array(items)) if field.is_list() => {
                Value::List(items.iter().map(|item| self.one(kind.clone(), item)).collect::<Result<_, _>>()?)
            }
            _ if field.is_map() || field.is_list() => return Err(self.unexpected(node)),
            (kind, _) => self.one(kind, node)?,
        };
        read.try_set_field(field, value).map_err(|error| error.to_string())
    }

    fn one(&mut self, kind: Kind, node: &Node) -> Result<Value, String> {
        if let Kind::Message(message) = kind {
            return self.message(message, node).map(Value::Message);
        }
        scalars::from_json(&kind, node).ok_or_else(|| {
            let name = if matches!(kind, Kind::Enum(_)) { "enum".to_owned() } else { format!("{kind:?}") };
            self.error(node.start, &format!("invalid value for {name} type: {}", self.raw_of(node)))
        })
    }

    /// The encoded form of messages that JSON has another form for.
    fn special(&self, message: &MessageDescriptor, node: &Node) -> Option<Result<Vec<u8>, String>> {
        let text = || match &node.value {
            NodeValue::String(text) => Ok(text.as_str()),
            _ => Err(self.unexpected(node)),
        };
        let invalid =
            || self.error(node.start, &format!("invalid {} value {}", message.full_name(), self.raw_of(node)));
        Some(match (message.full_name(), self.reading.payload) {
            (PAYLOAD, Some(read)) => Ok(read(node).encode_to_vec()),
            (PAYLOADS, Some(read)) => match &node.value {
                NodeValue::Null => Ok(Vec::new()),
                NodeValue::Array(items) => Ok(Payloads { payloads: items.iter().map(read).collect() }.encode_to_vec()),
                _ => return None,
            },
            ("google.protobuf.Timestamp", _) => {
                text().and_then(|text| text.parse().map_err(|_| invalid()).map(|time: Timestamp| time.encode_to_vec()))
            }
            ("google.protobuf.Duration", _) => text().and_then(|text| {
                let span = span(text).ok_or_else(invalid)?;
                if span.seconds.abs() > DURATION_SECONDS_MAX {
                    let text = format!("google.protobuf.Duration value out of range: {}", self.raw_of(node));
                    return Err(self.error(node.start, &text));
                }
                Ok(span.encode_to_vec())
            }),
            ("google.protobuf.FieldMask", _) => text().and_then(|text| {
                let mut paths = Vec::new();
                for path in text.trim().split(',').filter(|_| !text.trim().is_empty()) {
                    if path.contains('_') || path.is_empty() {
                        let text = format!("google.protobuf.FieldMask.paths contains invalid path: {path:?}");
                        return Err(self.error(node.start, &text));
                    }
                    paths.push(snake_case(path));
                }
                Ok(FieldMask { paths }.encode_to_vec())
            }),
            _ => return None,
        })
    }

    fn raw(&self, start: usize, end: usize) -> String {
        String::from_utf8_lossy(&self.text[start..end]).into_owned()
    }

    /// A value as it is written; of an object or an array its bracket.
    fn raw_of(&self, node: &Node) -> String {
        match node.value {
            NodeValue::Object(_) => "{".to_owned(),
            NodeValue::Array(_) => "[".to_owned(),
            _ => self.raw(node.start, node.end),
        }
    }

    fn position(&self, at: usize) -> String {
        let before = String::from_utf8_lossy(&self.text[..at]).into_owned();
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        format!("(line {line}:{column})")
    }

    fn error(&self, at: usize, text: &str) -> String {
        format!("{}: {text}", self.position(at))
    }

    fn unexpected(&self, node: &Node) -> String {
        format!("syntax error {}: unexpected token {}", self.position(node.start), self.raw_of(node))
    }
}

/// A span such as `1.5s`.
pub fn span(text: &str) -> Option<Duration> {
    let number = text.strip_suffix('s')?;
    let is_negative = number.starts_with('-');
    let number = number.strip_prefix(['-', '+']).unwrap_or(number);
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    let are_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if (whole.is_empty() && part.is_empty()) || part.len() > 9 || !are_digits(whole) || !are_digits(part) {
        return None;
    }
    let seconds: i64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let nanos: i32 = format!("{part:0<9}").parse().ok()?;
    Some(if is_negative { Duration { seconds: -seconds, nanos: -nanos } } else { Duration { seconds, nanos } })
}

/// `pageSize` as `page_size`.
fn snake_case(name: &str) -> String {
    let mut text = String::with_capacity(name.len() + 4);
    for letter in name.chars() {
        if letter.is_ascii_uppercase() {
            text.push('_');
        }
        text.push(letter.to_ascii_lowercase());
    }
    text
}

#[cfg(test)]
mod tests {
    use segno_proto::workflowservice::StartWorkflowExecutionRequest;

    use super::*;
    use crate::{descriptor, parse};

    fn read_as(json: &str, reading: Reading) -> Result<StartWorkflowExecutionRequest, String> {
        let schema = descriptor("temporal.api.workflowservice.v1.StartWorkflowExecutionRequest").expect("it is there");
        let node = parse(json.as_bytes())?.expect("a value");
        Ok(from_json(schema, &node, json.as_bytes(), reading)?.transcode_to().expect("a message"))
    }

    fn read(json: &str) -> Result<StartWorkflowExecutionRequest, String> {
        read_as(json, Reading::default())
    }

    #[test]
    fn fields_of_every_kind_are_read() {
        let request = read(
            r#"{"workflowId": "w", "task_queue": {"name": "q", "kind": 2}, "input": {"payloads": [{"data": "YWI="}]},
                "workflowRunTimeout": "1.5s", "workflowIdReusePolicy": "RejectDuplicate", "identity": null,
                "memo": {"fields": {"m": {}}}, "retryPolicy": {"backoffCoefficient": 1.5, "maximumAttempts": "3",
                "nonRetryableErrorTypes": ["x", "y"]}}"#,
        )
        .expect("a request");
        assert_eq!((request.workflow_id.as_str(), request.workflow_id_reuse_policy), ("w", 3));
        assert_eq!(request.task_queue.map(|queue| (queue.name, queue.kind)), Some(("q".to_owned(), 2)));
        let retry = request.retry_policy.expect("a policy");
        assert_eq!((retry.backoff_coefficient, retry.maximum_attempts), (1.5, 3));
        assert_eq!(retry.non_retryable_error_types, ["x", "y"]);
        let timeout = request.workflow_run_timeout.expect("a time-out");
        assert_eq!((timeout.seconds, timeout.nanos), (1, 500_000_000));
        assert_eq!(request.input.expect("input").payloads[0].data, "ab");
        assert!(request.memo.expect("a memo").fields.contains_key("m"));
    }

    #[test]
    fn what_does_not_fit_is_named_with_its_place() {
        let error = |json: &str| read(json).expect_err(json);
        assert_eq!(error(r#"{"nope":1}"#), "(line 1:2): unknown field \"nope\"");
        assert_eq!(error("{\n \"identity\":1}"), "(line 2:13): invalid value for string type: 1");
        assert_eq!(error(r#"{"identity":"a","identity":"b"}"#), "(line 1:17): duplicate field \"identity\"");
        assert_eq!(error(r#"{"memo":{"fields":{"a":{},"a":{}}}}"#), "(line 1:27): duplicate map key \"a\"");
        let text = "(line 1:23): invalid google.protobuf.Duration value \"5\"";
        assert_eq!(error(r#"{"workflowRunTimeout":"5"}"#), text);
        assert_eq!(error("[]"), "syntax error (line 1:1): unexpected token [");
        assert_eq!(error(r#"{"workflowIdReusePolicy":"X"}"#), "(line 1:26): invalid value for enum type: \"X\"");
    }

    #[test]
    fn nesting_is_limited() {
        let schema = descriptor("temporal.api.failure.v1.Failure").expect("it is there");
        let deep = |levels: usize| {
            let json = format!("{}{{}}{}", r#"{"cause":"#.repeat(levels), "}".repeat(levels));
            let node = parse(json.as_bytes()).expect("JSON").expect("a value");
            from_json(schema.clone(), &node, json.as_bytes(), Reading::default())
        };
        assert!(deep(100).is_ok());
        assert_eq!(deep(101).expect_err("too deep"), "exceeded max recursion depth");
    }

    #[test]
    fn fields_of_later_versions_can_be_skipped() {
        let reading = Reading { skips_unknown: true, ..Reading::default() };
        let request = read_as(r#"{"later":{"a":1},"workflowId":"w"}"#, reading).expect("a request");
        assert_eq!(request.workflow_id, "w");
    }

    #[test]
    fn spans_have_seconds() {
        assert_eq!(span("1.5s"), Some(Duration { seconds: 1, nanos: 500_000_000 }));
        assert_eq!(span("-.1s"), Some(Duration { seconds: 0, nanos: -100_000_000 }));
        assert_eq!([span("5"), span("s"), span("1.0000000001s"), span("1m")], [None, None, None, None]);
    }

    #[test]
    fn names_change_their_case() {
        assert_eq!(snake_case("workflowIdReusePolicy"), "workflow_id_reuse_policy");
    }
}
