//! Requests from JSON. What does not fit is refused with the texts of Temporal's server, which name line and column.

use prost_types::{Timestamp, field_descriptor_proto::Type};

use super::{
    dynamic::{Content, Dynamic, Scalar, seconds_and_nanos},
    json::{self, Node, Value},
    payload, scalars,
    schema::{Field, Message, Schema, snake_case},
};

const PAYLOAD: &str = ".temporal.api.common.v1.Payload";
const PAYLOADS: &str = ".temporal.api.common.v1.Payloads";
/// Longest span, ten thousand years.
const DURATION_SECONDS_MAX: i64 = 315_576_000_000;
/// Deepest nesting of messages.
const DEPTH_MAX: usize = 100;

/// Reads a message; an empty text is an empty message. With `short`, payloads may be in their short form.
pub(super) fn message(message: &Message, text: &[u8], short: bool) -> Result<Dynamic, String> {
    match json::parse(text)? {
        None => Ok(Dynamic::default()),
        Some(node) => Decoder { text, short, depth: 0 }.message(message, &node),
    }
}

struct Decoder<'a> {
    text: &'a [u8],
    short: bool,
    depth: usize,
}

impl Decoder<'_> {
    fn message(&mut self, message: &Message, node: &Node) -> Result<Dynamic, String> {
        if self.depth > DEPTH_MAX {
            return Err("temporalproto: exceeded max recursion depth".to_owned());
        }
        self.depth += 1;
        let read = self.message_within(message, node);
        self.depth -= 1;
        read
    }

    fn message_within(&mut self, message: &Message, node: &Node) -> Result<Dynamic, String> {
        if let Some(read) = self.special(message, node) {
            return read;
        }
        let Value::Object(members) = &node.value else { return Err(self.unexpected(node)) };
        let mut read = Dynamic::default();
        let mut seen = Vec::new();
        for member in members {
            let raw = self.raw(member.start, member.end);
            let Some(field) = message.named_in_json(&member.name) else {
                return Err(self.error(member.start, &format!("unknown field {raw}")));
            };
            if seen.contains(&field.number) {
                return Err(self.error(member.start, &format!("duplicate field {raw}")));
            }
            seen.push(field.number);
            let is_value =
                field.type_name == ".google.protobuf.Value" || field.type_name == ".google.protobuf.NullValue";
            if member.value.value == Value::Null && !is_value {
                continue;
            }
            if let Some(oneof) = field.oneof
                && read.has_oneof(message, oneof).is_some()
            {
                let name = format!("{}.{}", &message.name[1..], message.oneofs[oneof]);
                let text = format!("error parsing {raw}, oneof {name} is already set");
                return Err(self.error(member.start, &text));
            }
            self.field(&mut read, field, &member.value)?;
        }
        Ok(read)
    }

    fn field(&mut self, read: &mut Dynamic, field: &Field, node: &Node) -> Result<(), String> {
        if let Some((key, value)) = Schema::get().map_entry(field) {
            let Value::Object(members) = &node.value else { return Err(self.unexpected(node)) };
            let mut seen = Vec::new();
            for member in members {
                if seen.contains(&&member.name) {
                    let raw = self.raw(member.start, member.end);
                    return Err(self.error(member.start, &format!("duplicate map key {raw}")));
                }
                seen.push(&member.name);
                let mut entry = Dynamic::default();
                let name = scalars::from_text(key, &member.name).map_err(|_| {
                    let raw = self.raw(member.start, member.end);
                    self.error(member.start, &format!("invalid value for {} key: {raw}", kind_name(key.kind)))
                })?;
                entry.set(1, Content::Scalar(name));
                entry.set(2, self.one(value, &member.value)?);
                read.push(field.number, Content::Message(entry));
            }
            return Ok(());
        }
        if !field.is_repeated {
            read.set(field.number, self.one(field, node)?);
            return Ok(());
        }
        let Value::Array(items) = &node.value else { return Err(self.unexpected(node)) };
        for item in items {
            let content = self.one(field, item)?;
            read.push(field.number, content);
        }
        Ok(())
    }

    fn one(&mut self, field: &Field, node: &Node) -> Result<Content, String> {
        if let Some(message) = Schema::get().message_of(field) {
            return Ok(Content::Message(self.message(message, node)?));
        }
        scalars::from_json(field, node).map(Content::Scalar).ok_or_else(|| {
            let raw = self.raw_of(node);
            self.error(node.start, &format!("invalid value for {} type: {raw}", kind_name(field.kind)))
        })
    }

    /// Messages that JSON has another form for.
    fn special(&mut self, message: &Message, node: &Node) -> Option<Result<Dynamic, String>> {
        let text = || match &node.value {
            Value::String(text) => Ok(text.as_str()),
            _ => Err(self.unexpected(node)),
        };
        let invalid = || self.error(node.start, &format!("invalid {} value {}", &message.name[1..], self.raw_of(node)));
        match message.name.as_str() {
            PAYLOAD if self.short => Some(Ok(payload::read(node))),
            PAYLOADS if self.short => match &node.value {
                Value::Null => Some(Ok(Dynamic::default())),
                Value::Array(items) => {
                    let mut read = Dynamic::default();
                    items.iter().for_each(|item| read.push(1, Content::Message(payload::read(item))));
                    Some(Ok(read))
                }
                _ => None,
            },
            ".google.protobuf.Timestamp" => Some(text().and_then(|text| {
                let time: Timestamp = text.parse().map_err(|_| invalid())?;
                Ok(seconds_and_nanos(time.seconds, time.nanos))
            })),
            ".google.protobuf.Duration" => Some(text().and_then(|text| {
                let (seconds, nanos) = span(text).ok_or_else(invalid)?;
                if seconds.abs() > DURATION_SECONDS_MAX {
                    let text = format!("google.protobuf.Duration value out of range: {}", self.raw_of(node));
                    return Err(self.error(node.start, &text));
                }
                Ok(seconds_and_nanos(seconds, nanos))
            })),
            ".google.protobuf.FieldMask" => Some(text().and_then(|text| {
                let mut read = Dynamic::default();
                for path in text.trim().split(',').filter(|_| !text.trim().is_empty()) {
                    if path.contains('_') || path.is_empty() {
                        let text = format!("google.protobuf.FieldMask.paths contains invalid path: {path:?}");
                        return Err(self.error(node.start, &text));
                    }
                    read.push(1, Content::text(&snake_case(path)));
                }
                Ok(read)
            })),
            name if is_wrapper(name) => {
                let field = message.field(1)?;
                Some(self.one(field, node).map(|content| {
                    let mut read = Dynamic::default();
                    read.set(1, content);
                    read
                }))
            }
            ".google.protobuf.Struct" => {
                let field = message.field(1)?;
                let mut read = Dynamic::default();
                Some(self.field(&mut read, field, node).map(|()| read))
            }
            ".google.protobuf.ListValue" => {
                let field = message.field(1)?;
                let mut read = Dynamic::default();
                Some(self.field(&mut read, field, node).map(|()| read))
            }
            ".google.protobuf.Value" => Some(self.value(message, node)),
            _ => None,
        }
    }

    /// Any JSON, as `google.protobuf.Value`.
    fn value(&mut self, message: &Message, node: &Node) -> Result<Dynamic, String> {
        let mut read = Dynamic::default();
        let (number, content) = match &node.value {
            Value::Null => (1, Content::Scalar(Scalar::Varint(0))),
            Value::Number(text) => {
                let number: f64 = text.parse().unwrap_or_default();
                (2, Content::Scalar(Scalar::Fixed64(number.to_le_bytes())))
            }
            Value::String(text) => (3, Content::text(text)),
            Value::Bool(truth) => (4, Content::Scalar(Scalar::Varint(u64::from(*truth)))),
            Value::Object(_) | Value::Array(_) => {
                let number = if matches!(node.value, Value::Object(_)) { 5 } else { 6 };
                let Some(field) = message.field(number) else { return Err(self.unexpected(node)) };
                (number, self.one(field, node)?)
            }
        };
        read.set(number, content);
        Ok(read)
    }

    fn raw(&self, start: usize, end: usize) -> String {
        String::from_utf8_lossy(&self.text[start..end]).into_owned()
    }

    /// A value as it is written; of an object or an array its bracket.
    fn raw_of(&self, node: &Node) -> String {
        match node.value {
            Value::Object(_) => "{".to_owned(),
            Value::Array(_) => "[".to_owned(),
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
        format!("temporalproto: {}: {text}", self.position(at))
    }

    fn unexpected(&self, node: &Node) -> String {
        format!("temporalproto: syntax error {}: unexpected token {}", self.position(node.start), self.raw_of(node))
    }
}

fn is_wrapper(name: &str) -> bool {
    name.starts_with(".google.protobuf.") && name.ends_with("Value") && {
        !matches!(name, ".google.protobuf.Value" | ".google.protobuf.ListValue")
    }
}

/// A span such as `1.5s`.
pub(super) fn span(text: &str) -> Option<(i64, i32)> {
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
    Some(if is_negative { (-seconds, -nanos) } else { (seconds, nanos) })
}

/// The name of a type, as Go's reflection has it.
fn kind_name(kind: Type) -> &'static str {
    match kind {
        Type::Double => "double",
        Type::Float => "float",
        Type::Int64 => "int64",
        Type::Uint64 => "uint64",
        Type::Int32 => "int32",
        Type::Fixed64 => "fixed64",
        Type::Fixed32 => "fixed32",
        Type::Bool => "bool",
        Type::String => "string",
        Type::Group => "group",
        Type::Message => "message",
        Type::Bytes => "bytes",
        Type::Uint32 => "uint32",
        Type::Enum => "enum",
        Type::Sfixed32 => "sfixed32",
        Type::Sfixed64 => "sfixed64",
        Type::Sint32 => "sint32",
        Type::Sint64 => "sint64",
    }
}

#[cfg(test)]
mod tests {
    use prost::Message as _;
    use segno_proto::workflowservice::StartWorkflowExecutionRequest;

    use super::*;

    fn read(json: &str) -> Result<StartWorkflowExecutionRequest, String> {
        let name = ".temporal.api.workflowservice.v1.StartWorkflowExecutionRequest";
        let schema = Schema::get().message(name).expect("it is there");
        let read = message(schema, json.as_bytes(), true)?;
        Ok(StartWorkflowExecutionRequest::decode(read.encode().as_slice()).expect("a message"))
    }

    #[test]
    fn fields_of_every_kind_are_read() {
        let request = read(
            r#"{"workflowId": "w", "task_queue": {"name": "q", "kind": 2}, "input": [1, {"a": "b"}], "workflowRunTimeout": "1.5s",
                "workflowIdReusePolicy": "RejectDuplicate", "memo": {"fields": {"m": true}}, "identity": null,
                "retryPolicy": {"backoffCoefficient": 1.5, "maximumAttempts": "3", "nonRetryableErrorTypes": ["x", "y"]}}"#,
        )
        .expect("a request");
        assert_eq!((request.workflow_id.as_str(), request.workflow_id_reuse_policy), ("w", 3));
        assert_eq!(request.task_queue.map(|queue| (queue.name, queue.kind)), Some(("q".to_owned(), 2)));
        let retry = request.retry_policy.expect("a policy");
        assert_eq!((retry.backoff_coefficient, retry.maximum_attempts), (1.5, 3));
        assert_eq!(retry.non_retryable_error_types, ["x", "y"]);
        let timeout = request.workflow_run_timeout.expect("a time-out");
        assert_eq!((timeout.seconds, timeout.nanos), (1, 500_000_000));
        assert_eq!(request.input.expect("input").payloads[1].data, r#"{"a":"b"}"#);
        assert_eq!(request.memo.expect("a memo").fields["m"].data, "true");
    }

    #[test]
    fn what_does_not_fit_is_named_with_its_place() {
        let error = |json: &str| read(json).expect_err(json);
        assert_eq!(error(r#"{"nope":1}"#), "temporalproto: (line 1:2): unknown field \"nope\"");
        assert_eq!(error("{\n \"identity\":1}"), "temporalproto: (line 2:13): invalid value for string type: 1");
        assert_eq!(
            error(r#"{"identity":"a","identity":"b"}"#),
            "temporalproto: (line 1:17): duplicate field \"identity\""
        );
        assert_eq!(
            error(r#"{"workflowRunTimeout":"5"}"#),
            "temporalproto: (line 1:23): invalid google.protobuf.Duration value \"5\""
        );
        assert_eq!(error("[]"), "temporalproto: syntax error (line 1:1): unexpected token [");
        assert_eq!(
            error(r#"{"workflowIdReusePolicy":"X"}"#),
            "temporalproto: (line 1:26): invalid value for enum type: \"X\""
        );
    }

    #[test]
    fn spans_have_seconds() {
        assert_eq!(span("1.5s"), Some((1, 500_000_000)));
        assert_eq!(span("-.1s"), Some((0, -100_000_000)));
        assert_eq!([span("5"), span("s"), span("1.0000000001s"), span("1m")], [None, None, None, None]);
    }
}
