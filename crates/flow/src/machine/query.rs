//! Queries: answered from the stored state, without a turn.

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;

use crate::compile::Code;
use crate::hir::FunctionKind;
use crate::interface::{Limits, Payload, Unpaced};
use crate::pure;
use crate::value::Value;

use super::Machine;
use super::event::arguments;
use super::frame::Fatal;
use super::inspect::{Metadata, inspect, metadata, stack};
use super::schedule::fatal;

/// Why a query has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueryError {
    /// The script has no such query, or it threw. The text is the message of the query failure.
    Failed(String),
    /// The stored state cannot be read.
    DamagedState(String),
    /// The machine found itself in a state that must not be.
    Defect(String),
}

impl fmt::Display for QueryError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(message) => out.write_str(message),
            Self::DamagedState(why) => write!(out, "the state of the run cannot be read: {why}"),
            Self::Defect(what) => write!(out, "defect: {what}"),
        }
    }
}

impl std::error::Error for QueryError {}

/// Answers a query from the state of an open or closed run. `now` is the time in milliseconds since 1970.
///
/// # Errors
/// The query is unknown or throws, or the state cannot be read.
pub fn query(
    code: &Code,
    state: &[u8],
    name: &str,
    input: &[Payload],
    now: i64,
    limits: &Limits,
) -> Result<Vec<Payload>, QueryError> {
    match name {
        "__stack_trace" => {
            let text = stack(code, state);
            return write(&Value::text(text)).map(|payload| vec![payload]);
        }
        "__segno_flow_state" => {
            let json = inspect(code, state).map_err(QueryError::DamagedState)?.to_json();
            return Ok(vec![pure::payload::encoded("json/plain", json.into_bytes())]);
        }
        "__temporal_workflow_metadata" => {
            let metadata = metadata(code, state).map_err(QueryError::DamagedState)?;
            return Ok(vec![metadata_payload(&metadata)]);
        }
        _ => {}
    }
    let Some(handler) = code.handler(FunctionKind::Query, name) else {
        let known: Vec<&str> = code.handlers(FunctionKind::Query).collect();
        return Err(QueryError::Failed(format!("unknown query \"{name}\"; known: {}", known.join(", "))));
    };
    let mut pace = Unpaced;
    let mut machine = Machine::load(code, state, limits, &mut pace).map_err(QueryError::DamagedState)?;
    machine.now = now;
    if machine.root.is_empty() {
        // The body failed before its variables were there.
        machine.root.extend(code.root.iter().map(|_| Rc::new(RefCell::new(Value::Null))));
    }
    let result =
        machine.handler(handler.closure).and_then(|closure| machine.evaluate(&closure, &arguments(input), None));
    match result {
        Ok(value) => write(&value).map(|payload| vec![payload]),
        Err(fault) => Err(match *fatal(fault) {
            Fatal::Limit(raised, _) => QueryError::Failed(raised.message),
            Fatal::Failed(error) => QueryError::Failed(message(&error)),
            Fatal::GivenUp => QueryError::Defect("a query was given up".to_owned()),
            Fatal::Defect(what) => QueryError::Defect(what),
        }),
    }
}

fn write(value: &Value) -> Result<Payload, QueryError> {
    pure::payload::write(value).map_err(|raised| QueryError::Failed(raised.message))
}

fn message(error: &Value) -> String {
    match error {
        Value::Object(object) => match object.get("message") {
            Some(Value::Str(message)) => message.to_string(),
            _ => String::new(),
        },
        _ => String::new(),
    }
}

/// Temporal's message `temporal.api.sdk.v1.WorkflowMetadata`, in the JSON form of protocol buffers.
fn metadata_payload(metadata: &Metadata) -> Payload {
    let definitions = |names: &[String]| {
        Value::list(names.iter().map(|name| Value::object([("name", Value::text(name.as_str()))])).collect())
    };
    let mut definition = vec![("type", Value::text(metadata.name.as_str()))];
    for (key, names) in [
        ("queryDefinitions", &metadata.queries),
        ("signalDefinitions", &metadata.signals),
        ("updateDefinitions", &metadata.updates),
    ] {
        if !names.is_empty() {
            definition.push((key, definitions(names)));
        }
    }
    let mut fields = vec![("definition", Value::object(definition))];
    if !metadata.details.is_empty() {
        fields.push(("currentDetails", Value::text(metadata.details.as_str())));
    }
    let json = pure::json::write(&Value::object(fields), &mut pure::Cost::default()).unwrap_or_default();
    Payload {
        metadata: vec![
            ("encoding".to_owned(), b"json/protobuf".to_vec()),
            ("messageType".to_owned(), b"temporal.api.sdk.v1.WorkflowMetadata".to_vec()),
        ],
        data: json.into_bytes(),
    }
}
