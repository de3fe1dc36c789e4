//! Messages as JSON: names, times, spans, maps and bytes as protobuf's JSON has them, in the order of their definition.
//! Fields that are absent on the wire are absent in the JSON, and so are fields that the descriptors do not have.

use std::collections::BTreeMap;

use prost_reflect::{DynamicMessage, EnumDescriptor, Kind, ReflectMessage, Value, prost::Message};
use prost_types::{Any, Duration, FieldMask, Timestamp};
use segno_proto::common::{Payload, Payloads};

use crate::{Json, PAYLOAD, PAYLOADS, descriptor, json::float, scalars::base64};

/// The package whose messages keep the names of their fields: what is about scripts looks as it does over HTTP.
const FLOW: &str = "segno.flow.v1";

/// How some things are shown.
#[derive(Clone, Copy, Debug)]
pub struct View {
    /// The JSON of a payload, if payloads have a form of their own. Payloads without it are shown as metadata and bytes.
    pub payload: Option<fn(&Payload) -> Option<Json>>,
    /// The name of an enum's value, from the names of both.
    pub enum_value: fn(&str, &str) -> String,
}

impl View {
    /// As protobuf's JSON has everything. SDKs read this to replay a history.
    pub const EXACT: Self = Self { payload: None, enum_value: |_, value| value.to_owned() };
}

/// A message as JSON. `name` is its full name, such as `temporal.api.history.v1.HistoryEvent`.
pub fn to_json(name: &str, message: &impl Message, view: View) -> Json {
    bytes_to_json(name, &message.encode_to_vec(), view).expect("the message has this name")
}

/// An encoded message as JSON, by its full name.
pub fn bytes_to_json(name: &str, bytes: &[u8], view: View) -> Result<Json, String> {
    let descriptor = descriptor(name).ok_or_else(|| format!("there is no message {name}"))?;
    let message = DynamicMessage::decode(descriptor, bytes).map_err(|error| error.to_string())?;
    Ok(view.message(&message))
}

impl View {
    fn message(&self, message: &DynamicMessage) -> Json {
        self.special(message).unwrap_or_else(|| Json::Object(self.fields(message)))
    }

    fn fields(&self, message: &DynamicMessage) -> Vec<(String, Json)> {
        let is_flow = message.descriptor().package_name() == FLOW;
        let mut fields: Vec<_> = message.fields().collect();
        fields.sort_by_key(|(field, _)| field.path().last().copied());
        let shown = fields.into_iter().map(|(field, value)| {
            let name = if is_flow { field.name() } else { field.json_name() };
            (name.to_owned(), self.value(&field.kind(), value))
        });
        shown.collect()
    }

    /// Numbers of 64 bits are texts, since JSON readers lose their last digits.
    fn value(&self, kind: &Kind, value: &Value) -> Json {
        match value {
            Value::Bool(truth) => Json::Bool(*truth),
            Value::I32(number) => Json::Raw(number.to_string()),
            Value::U32(number) => Json::Raw(number.to_string()),
            Value::I64(number) => Json::String(number.to_string()),
            Value::U64(number) => Json::String(number.to_string()),
            // The shortest text that is this number of 32 bits.
            Value::F32(number) => floating(number.to_string().parse().unwrap_or_default()),
            Value::F64(number) => floating(*number),
            Value::String(text) => Json::text(text),
            Value::Bytes(bytes) => Json::String(base64(bytes)),
            Value::EnumNumber(number) => self.enum_value(kind.as_enum(), *number),
            Value::Message(message) => self.message(message),
            Value::List(items) => Json::Array(items.iter().map(|item| self.value(kind, item)).collect()),
            Value::Map(entries) => {
                let kind = kind.as_message().map_or(Kind::String, |entry| entry.map_entry_value_field().kind());
                let sorted: BTreeMap<_, _> = entries.iter().collect();
                let shown = sorted.into_iter().map(|(key, value)| {
                    let key = match Value::from(key.clone()) {
                        Value::String(text) => text,
                        other => other.to_string(),
                    };
                    (key, self.value(&kind, value))
                });
                Json::Object(shown.collect())
            }
        }
    }

    fn enum_value(&self, kind: Option<&EnumDescriptor>, number: i32) -> Json {
        match kind.and_then(|kind| Some((kind, kind.get_value(number)?))) {
            Some((kind, value)) => Json::String((self.enum_value)(kind.name(), value.name())),
            None => Json::number(number),
        }
    }

    /// Messages that JSON has another form for.
    fn special(&self, message: &DynamicMessage) -> Option<Json> {
        Some(match message.descriptor().full_name() {
            PAYLOAD => (self.payload?)(&message.transcode_to().ok()?)?,
            // One without a form of its own keeps all of them in their message.
            PAYLOADS => {
                let payloads: Payloads = message.transcode_to().ok()?;
                Json::Array(payloads.payloads.iter().map(self.payload?).collect::<Option<_>>()?)
            }
            "google.protobuf.Timestamp" => Json::String(message.transcode_to::<Timestamp>().ok()?.to_string()),
            "google.protobuf.Duration" => Json::String(message.transcode_to::<Duration>().ok()?.to_string()),
            "google.protobuf.FieldMask" => {
                let FieldMask { paths } = message.transcode_to().ok()?;
                Json::String(paths.iter().map(|path| camel_case(path)).collect::<Vec<_>>().join(","))
            }
            "google.protobuf.Any" => self.any(&message.transcode_to().ok()?),
            name if name.starts_with("google.protobuf.") && name.ends_with("Value") => {
                let field = message.descriptor().get_field(1)?;
                self.value(&field.kind(), &message.get_field(&field))
            }
            _ => return None,
        })
    }

    /// The message in an `Any` with its type among its fields, or its bytes if this protocol does not have it.
    fn any(&self, any: &Any) -> Json {
        let mut fields = vec![("@type".to_owned(), Json::text(&any.type_url))];
        let inner = descriptor(any.type_url.rsplit('/').next().unwrap_or_default());
        match inner.and_then(|inner| DynamicMessage::decode(inner, &*any.value).ok()) {
            Some(message) => fields.extend(self.fields(&message)),
            None => fields.push(("value".to_owned(), Json::String(base64(&any.value)))),
        }
        Json::Object(fields)
    }
}

fn floating(number: f64) -> Json {
    match number {
        _ if number.is_nan() => Json::text("NaN"),
        f64::INFINITY => Json::text("Infinity"),
        f64::NEG_INFINITY => Json::text("-Infinity"),
        number => Json::Raw(float(number)),
    }
}

/// `page_size` as `pageSize`.
fn camel_case(name: &str) -> String {
    let mut words = name.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |name, word| match word.split_at_checked(1) {
        Some((head, tail)) => name + &head.to_ascii_uppercase() + tail,
        None => name,
    })
}

#[cfg(test)]
mod tests {
    use segno_proto::{common::WorkflowExecution, workflow::WorkflowExecutionInfo};

    use super::*;

    #[test]
    fn a_message_is_shown_as_protobuf_has_it() {
        let info = WorkflowExecutionInfo {
            execution: Some(WorkflowExecution { workflow_id: "w\n".to_owned(), run_id: String::new() }),
            start_time: Some(Timestamp { seconds: 0, nanos: 367_324_990 }),
            execution_time: Some(Timestamp { seconds: 1, nanos: 500_000_000 }),
            execution_duration: Some(Duration { seconds: 1, nanos: 500_000_000 }),
            status: 1,
            history_length: 2,
            memo: Some(Default::default()),
            ..Default::default()
        };
        let shown = to_json("temporal.api.workflow.v1.WorkflowExecutionInfo", &info, View::EXACT);
        let expected = r#"{"execution":{"workflowId":"w\n"},"startTime":"1970-01-01T00:00:00.367324990Z","status":"WORKFLOW_EXECUTION_STATUS_RUNNING","historyLength":"2","executionTime":"1970-01-01T00:00:01.500Z","memo":{},"executionDuration":"1.500s"}"#;
        assert_eq!(shown.to_string(), expected);
    }

    #[test]
    fn one_payload_without_a_form_of_its_own_keeps_all_in_their_message() {
        let payload = |data: &'static str| Payload { data: data.into(), ..Default::default() };
        let shown = |payloads: Vec<Payload>| {
            let numbers = |payload: &Payload| (payload.data == "1").then(|| Json::number(1));
            let view = View { payload: Some(numbers), ..View::EXACT };
            to_json(PAYLOADS, &Payloads { payloads }, view).to_string()
        };
        assert_eq!(shown(vec![payload("1"), payload("1")]), "[1,1]");
        assert_eq!(shown(vec![payload("1"), payload("x")]), r#"{"payloads":[1,{"data":"eA=="}]}"#);
        assert_eq!(shown(vec![]), "[]");
    }

    #[test]
    fn doubles_have_few_digits_and_wrappers_their_value() {
        use segno_proto::taskqueue::{PollerInfo, TaskQueueMetadata};
        let poller = PollerInfo { rate_per_second: 100_000.0, ..Default::default() };
        let shown = to_json("temporal.api.taskqueue.v1.PollerInfo", &poller, View::EXACT).to_string();
        assert_eq!(shown, r#"{"ratePerSecond":100000}"#);
        let name = "temporal.api.taskqueue.v1.TaskQueueMetadata";
        for (limit, expected) in [(1.5, "1.5"), (0.0, "0"), (f64::INFINITY, "\"Infinity\"")] {
            let shown =
                to_json(name, &TaskQueueMetadata { max_tasks_per_second: Some(limit) }, View::EXACT).to_string();
            assert_eq!(shown, format!(r#"{{"maxTasksPerSecond":{expected}}}"#));
        }
    }

    #[test]
    fn any_shows_what_is_in_it() {
        let shown = |name: &str, value: Vec<u8>| {
            let any = Any { type_url: format!("type.googleapis.com/{name}"), value };
            to_json("google.protobuf.Any", &any, View::EXACT).to_string()
        };
        let execution = WorkflowExecution { workflow_id: "w".to_owned(), run_id: String::new() };
        let name = "temporal.api.common.v1.WorkflowExecution";
        let expected = format!(r#"{{"@type":"type.googleapis.com/{name}","workflowId":"w"}}"#);
        assert_eq!(shown(name, execution.encode_to_vec()), expected);
        assert_eq!(shown("a.B", b"x".to_vec()), r#"{"@type":"type.googleapis.com/a.B","value":"eA=="}"#);
    }

    #[test]
    fn nonsense_is_refused() {
        assert!(bytes_to_json("temporal.api.Nothing", b"", View::EXACT).is_err());
        assert!(bytes_to_json("temporal.api.common.v1.WorkflowType", b"\x0a\x7fx", View::EXACT).is_err());
    }
}
