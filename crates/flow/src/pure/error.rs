//! Error objects, and failures of the protocol from and to them.

use std::rc::Rc;
use std::sync::Arc;

use crate::interface::{Failure, FailureInfo, Payload, TimeoutKind};
use crate::library::ERROR;
use crate::value::{LanguageError, Object, Value};

use super::arguments::get;
use super::{Cost, json, options, payload};

/// Most bytes of a failure.
const FAILURE_BYTES_MAX: usize = payload::BYTES_MAX - 4_096;

/// How many causes are kept behind each other.
const CAUSES_MAX: usize = 20;

/// Who says that a run failed.
pub const SOURCE: &str = "segno-flow";

/// An error object.
#[must_use]
pub fn make(
    kind: &str,
    message: &str,
    details: Value,
    retryable: bool,
    cause: Value,
    source: Value,
    stack: &str,
) -> Value {
    Value::object([
        ("type", Value::text(kind)),
        ("message", Value::text(message)),
        ("details", details),
        ("retryable", Value::Bool(retryable)),
        ("cause", cause),
        ("source", source),
        ("stack", Value::text(stack)),
    ])
}

/// The error object of an error that the language raised.
#[must_use]
pub fn from_raised(raised: &LanguageError, stack: &str) -> Value {
    let (kind, message) = (raised.kind.name(), &raised.message);
    make(kind, message, Value::Null, raised.kind.retryable(), Value::Null, Value::Null, stack)
}

/// `Error(message, options?)`.
pub fn from_options(arguments: &[Value], stack: &str) -> Result<Value, LanguageError> {
    let Value::Str(message) = get(arguments, 0) else {
        return Err(LanguageError::argument("Error: the message must be a string"));
    };
    let (mut kind, mut details, mut retryable, mut cause) = (Arc::from("Error"), Value::Null, true, Value::Null);
    for (name, value) in options::check("Error", get(arguments, 1), ERROR)? {
        match (name, value) {
            ("type", Value::Str(given)) => kind = given,
            ("details", given) => details = given,
            ("retryable", Value::Bool(given)) => retryable = given,
            ("cause", given) if is_error(&given) => cause = thrown(given),
            ("cause", _) => return Err(LanguageError::argument("Error: cause must be an error")),
            _ => {}
        }
    }
    super::limited(make(&kind, message, details, retryable, cause, Value::Null, stack))
}

fn is_error(value: &Value) -> bool {
    matches!(value, Value::Object(object) if matches!(object.get("message"), Some(Value::Str(_))))
}

/// What `throw value` throws. The stack of a new error is empty; see [`with_stack`].
#[must_use]
pub fn thrown(value: Value) -> Value {
    match value {
        Value::Str(message) => make("Error", &message, Value::Null, true, Value::Null, Value::Null, ""),
        Value::Object(mut object) if matches!(object.get("message"), Some(Value::Str(_))) => {
            let defaults = [
                ("type", Value::text("Error")),
                ("details", Value::Null),
                ("retryable", Value::Bool(true)),
                ("cause", Value::Null),
                ("source", Value::Null),
                ("stack", Value::text("")),
            ];
            for (key, value) in defaults {
                if object.get(key).is_none() {
                    Rc::make_mut(&mut object).insert(key.into(), value);
                }
            }
            Value::Object(object)
        }
        value => match json::write(&value, &mut Cost::default()) {
            Ok(text) => make("Error", &text, value, true, Value::Null, Value::Null, ""),
            Err(raised) => from_raised(&raised, ""),
        },
    }
}

/// An error object with this stack, unless it has one. It still leaves as the failure that it came from.
#[must_use]
pub fn with_stack(error: Value, stack: &str) -> Value {
    let has_stack = |object: &Object| matches!(object.get("stack"), Some(Value::Str(stack)) if !stack.is_empty());
    match error {
        Value::Object(mut object) if !stack.is_empty() && !has_stack(&object) => {
            let object_mut = Rc::make_mut(&mut object);
            let origin = object_mut.origin().cloned();
            object_mut.insert("stack".into(), Value::text(stack));
            object_mut.set_origin(origin);
            Value::Object(object)
        }
        error => error,
    }
}

/// The error object of a failure that came in. `source` is who failed: kind, name and id of the promise; without it, what
/// the failure itself says.
#[must_use]
pub fn from_failure(failure: &Failure, source: Option<(&str, &str, &str)>) -> Value {
    let error = from_failure_within(failure, source, CAUSES_MAX);
    match error {
        Value::Object(mut object) => {
            Rc::make_mut(&mut object).set_origin(Some(Rc::new(failure.clone())));
            Value::Object(object)
        }
        error => error,
    }
}

fn from_failure_within(failure: &Failure, source: Option<(&str, &str, &str)>, causes_left: usize) -> Value {
    let operation_name;
    let wrapper = match &failure.info {
        FailureInfo::Activity { id, name, .. } => Some(("task", name.as_str(), id.as_str(), "TaskFailed")),
        FailureInfo::Child { workflow_id, name, .. } => {
            Some(("workflow", name.as_str(), workflow_id.as_str(), "WorkflowFailed"))
        }
        FailureInfo::Nexus { service, operation, .. } => {
            operation_name = format!("{service}.{operation}");
            Some(("nexus", operation_name.as_str(), "", "OperationFailed"))
        }
        _ => None,
    };
    if let Some((kind, name, id, without_cause)) = wrapper {
        let source = source.or(Some((kind, name, id)));
        return match &failure.cause {
            Some(cause) if causes_left > 0 => from_failure_within(cause, source, causes_left - 1),
            _ => make(without_cause, &failure.message, Value::Null, true, Value::Null, source_object(source), ""),
        };
    }
    let message = failure.message.as_str();
    let (kind, message, details, retryable) = match &failure.info {
        FailureInfo::Application { kind, non_retryable, details } => {
            let kind = if kind.is_empty() { "Error" } else { kind.as_str() };
            (kind, message, payload::values(details), !non_retryable)
        }
        FailureInfo::Timeout { kind, last_heartbeat } => {
            let details =
                [("kind", Value::text(timeout_name(*kind))), ("last_heartbeat", payload::values(last_heartbeat))];
            ("Timeout", message, Value::object(details), true)
        }
        FailureInfo::Canceled { details } => ("Canceled", "canceled", payload::values(details), true),
        FailureInfo::Terminated => ("Terminated", message, Value::Null, false),
        FailureInfo::Server { non_retryable } => ("ServerError", message, Value::Null, !non_retryable),
        FailureInfo::Reset { .. } => ("Reset", message, Value::Null, true),
        FailureInfo::NexusHandler { kind, .. } => {
            let kind = if kind.is_empty() { "HandlerError" } else { kind.as_str() };
            // In the older form of these errors only the cause has a message.
            let of_cause = failure.cause.as_ref().filter(|_| message.is_empty());
            let message = of_cause.map_or(message, |cause| cause.message.as_str());
            // The server repeats what may be repeated.
            (kind, message, Value::Null, false)
        }
        FailureInfo::None | FailureInfo::Activity { .. } | FailureInfo::Child { .. } | FailureInfo::Nexus { .. } => {
            ("Error", message, Value::Null, true)
        }
    };
    let cause = match &failure.cause {
        Some(cause) if causes_left > 0 => from_failure_within(cause, None, causes_left - 1),
        _ => Value::Null,
    };
    make(kind, message, details, retryable, cause, source_object(source), "")
}

/// `source` of an error object.
fn source_object(source: Option<(&str, &str, &str)>) -> Value {
    source.map_or(Value::Null, |(kind, name, id)| {
        Value::object([("kind", Value::text(kind)), ("name", Value::text(name)), ("item_id", Value::text(id))])
    })
}

/// The failure that leaves for an error object: the one it came from if it is unchanged.
#[must_use]
pub fn to_failure(error: &Value) -> Failure {
    let failure = to_failure_within(error, CAUSES_MAX);
    match size(&failure) {
        bytes if bytes > FAILURE_BYTES_MAX => {
            // The server would not take it, so that the run could not end.
            let too_large = from_raised(&payload::too_large(bytes), "");
            to_failure_within(&too_large, CAUSES_MAX)
        }
        _ => failure,
    }
}

/// The bytes of a failure, about as the protocol counts them.
fn size(failure: &Failure) -> usize {
    let own = failure.message.len() + failure.source.len() + failure.stack_trace.len() + 64;
    let info = match &failure.info {
        FailureInfo::Application { kind, details, .. } => {
            kind.len() + details.iter().map(|payload| payload.data.len() + 64).sum::<usize>()
        }
        FailureInfo::Canceled { details } => details.iter().map(|payload| payload.data.len() + 64).sum(),
        _ => 256,
    };
    own + info + failure.cause.as_ref().map_or(0, |cause| size(cause))
}

fn to_failure_within(error: &Value, causes_left: usize) -> Failure {
    let Value::Object(object) = error else {
        // Only what `thrown` made is thrown.
        return to_failure_within(&thrown(error.clone()), causes_left);
    };
    let text = |key: &str| match object.get(key) {
        Some(Value::Str(text)) => text.to_string(),
        _ => String::new(),
    };
    if let Some(origin) = object.origin() {
        let mut failure = Failure::clone(origin);
        // What a worker says of where it failed is in the cause.
        let is_wrapper = matches!(
            failure.info,
            FailureInfo::Activity { .. } | FailureInfo::Child { .. } | FailureInfo::Nexus { .. }
        );
        if is_wrapper {
            (failure.source, failure.stack_trace) = (SOURCE.to_owned(), text("stack"));
        }
        return failure;
    }
    let cause = match object.get("cause") {
        Some(cause @ Value::Object(_)) if causes_left > 0 => Some(Box::new(to_failure_within(cause, causes_left - 1))),
        _ => None,
    };
    let source = match object.get("source") {
        Some(Value::Object(source)) => wrapper_of(source),
        _ => None,
    };
    let kind = text("type");
    let info = match (kind.as_str(), &source) {
        ("Timeout", Some(_)) => timeout_info(object),
        ("Canceled", Some(_)) => FailureInfo::Canceled { details: details(object) },
        ("Terminated", Some(_)) => FailureInfo::Terminated,
        _ => FailureInfo::Application {
            kind,
            non_retryable: matches!(object.get("retryable"), Some(Value::Bool(false))),
            details: details(object),
        },
    };
    let stack_trace = text("stack");
    let failure = Failure {
        message: text("message"),
        source: SOURCE.to_owned(),
        stack_trace: stack_trace.clone(),
        cause,
        info,
        encoded: None,
    };
    match source {
        Some((message, info)) => Failure {
            message: message.to_owned(),
            source: SOURCE.to_owned(),
            stack_trace,
            cause: Some(Box::new(failure)),
            info,
            encoded: None,
        },
        None => failure,
    }
}

/// The failure that wraps one of a task, Nexus operation or child, as SDKs make it.
fn wrapper_of(source: &Object) -> Option<(&'static str, FailureInfo)> {
    let text = |key: &str| match source.get(key) {
        Some(Value::Str(text)) => text.to_string(),
        _ => String::new(),
    };
    match text("kind").as_str() {
        "task" => Some((
            "Activity task failed",
            FailureInfo::Activity {
                id: text("item_id"),
                name: text("name"),
                scheduled_event_id: 0,
                started_event_id: 0,
                identity: String::new(),
                retry_state: 0,
            },
        )),
        "nexus" => {
            let name = text("name");
            let (service, operation) = name.rsplit_once('.').unwrap_or(("", &name));
            Some((
                "nexus operation completed unsuccessfully",
                FailureInfo::Nexus {
                    scheduled_event_id: 0,
                    endpoint: String::new(),
                    service: service.to_owned(),
                    operation: operation.to_owned(),
                    token: String::new(),
                },
            ))
        }
        "workflow" => Some((
            "Child Workflow execution failed",
            FailureInfo::Child {
                namespace: String::new(),
                workflow_id: text("item_id"),
                run_id: String::new(),
                name: text("name"),
                initiated_event_id: 0,
                started_event_id: 0,
                retry_state: 0,
            },
        )),
        _ => None,
    }
}

/// `details` as payloads: none if null, else one. What cannot be sent is left out.
fn details(error: &Object) -> Vec<Payload> {
    match error.get("details") {
        None | Some(Value::Null) => Vec::new(),
        Some(value) => payload::write(value).into_iter().collect(),
    }
}

fn timeout_info(error: &Object) -> FailureInfo {
    let (mut kind, mut last_heartbeat) = (TimeoutKind::Unspecified, Vec::new());
    if let Some(Value::Object(details)) = error.get("details") {
        if let Some(Value::Str(name)) = details.get("kind") {
            kind = TIMEOUTS.iter().find(|(_, known)| *known == &**name).map_or(kind, |(kind, _)| *kind);
        }
        match details.get("last_heartbeat") {
            None | Some(Value::Null) => {}
            Some(value) => last_heartbeat.extend(payload::write(value)),
        }
    }
    FailureInfo::Timeout { kind, last_heartbeat }
}

const TIMEOUTS: [(TimeoutKind, &str); 5] = [
    (TimeoutKind::Unspecified, "unspecified"),
    (TimeoutKind::StartToClose, "start_to_close"),
    (TimeoutKind::ScheduleToStart, "schedule_to_start"),
    (TimeoutKind::ScheduleToClose, "schedule_to_close"),
    (TimeoutKind::Heartbeat, "heartbeat"),
];

/// The field `kind` of the details of a time-out.
#[must_use]
pub fn timeout_name(kind: TimeoutKind) -> &'static str {
    TIMEOUTS.iter().find(|(known, _)| *known == kind).map_or("unspecified", |(_, name)| name)
}
