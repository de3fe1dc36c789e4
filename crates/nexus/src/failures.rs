//! Failures of Nexus and of Temporal, translated into each other.

use bytes::Bytes;
use prost::Message;
use segno_proto::{
    common::{Payload, Payloads},
    enums::NexusHandlerErrorRetryBehavior,
    failure::{ApplicationFailureInfo, CanceledFailureInfo, Failure, NexusHandlerFailureInfo, failure::FailureInfo},
    nexus,
};
use segno_proto_json::{Json, Node, NodeValue, Reading, View, descriptor, from_json, parse, to_json};

/// The key under which a failure says what it is.
pub(crate) const TYPE: &str = "type";
const TEMPORAL_FAILURE: &str = "temporal.api.failure.v1.Failure";
pub(crate) const OPERATION_ERROR: &str = "nexus.OperationError";
pub(crate) const HANDLER_ERROR: &str = "nexus.HandlerError";
/// Says of an operation error that it only wraps its cause.
pub(crate) const UNWRAP: &str = "unwrap-error";
/// Causes within causes beyond this are dropped.
const DEPTH_MAX: usize = 100;

/// A failure of Nexus as workflows get it, without the wrapper that its server put around it.
pub fn from_nexus(failure: &nexus::Failure) -> Failure {
    let is_wrapper = failure.metadata.get(TYPE).is_some_and(|kind| kind == OPERATION_ERROR)
        && failure.metadata.get(UNWRAP).is_some_and(|value| value == "true");
    let inner = failure.cause.as_deref().filter(|_| is_wrapper);
    from_worker(inner.unwrap_or(failure))
}

/// A failure that a worker reports, as workflows get it.
pub fn from_worker(failure: &nexus::Failure) -> Failure {
    read(failure, DEPTH_MAX)
}

fn read(failure: &nexus::Failure, depth: usize) -> Failure {
    let cause = || failure.cause.as_ref().filter(|_| depth > 0).map(|cause| Box::new(read(cause, depth - 1)));
    let (message, stack_trace) = (failure.message.clone(), failure.stack_trace.clone());
    let info = match failure.metadata.get(TYPE).map(String::as_str) {
        Some(TEMPORAL_FAILURE) => {
            if let Some(read) = temporal_failure(&failure.details) {
                let cause = cause().or(read.cause.clone());
                return Failure { message, stack_trace, cause, ..read };
            }
            FailureInfo::ApplicationFailureInfo(nexus_failure(failure))
        }
        Some(OPERATION_ERROR) => match text_detail(&failure.details, "state").as_deref() {
            Some("canceled") => FailureInfo::CanceledFailureInfo(CanceledFailureInfo::default()),
            _ => FailureInfo::ApplicationFailureInfo(ApplicationFailureInfo {
                r#type: "OperationError".to_owned(),
                non_retryable: true,
                ..Default::default()
            }),
        },
        Some(HANDLER_ERROR) => FailureInfo::NexusHandlerFailureInfo(handler_info(&failure.details)),
        _ if failure.metadata.is_empty() && failure.details.is_empty() => {
            return Failure { message, stack_trace, cause: cause(), ..Default::default() };
        }
        _ => FailureInfo::ApplicationFailureInfo(nexus_failure(failure)),
    };
    Failure { message, stack_trace, failure_info: Some(info), cause: cause(), ..Default::default() }
}

/// The info of a failure that is of no known type: metadata, details and cause as they came.
fn nexus_failure(failure: &nexus::Failure) -> ApplicationFailureInfo {
    let mut kept = Json::Object(Vec::new());
    push_kind(&mut kept, failure);
    if let Some(cause) = &failure.cause {
        kept.push("cause", json_of(cause));
    }
    let payload = Payload {
        metadata: [("encoding".to_owned(), Bytes::from_static(b"json/plain"))].into(),
        data: kept.print(false, |_| false).into(),
        ..Default::default()
    };
    ApplicationFailureInfo {
        r#type: "NexusFailure".to_owned(),
        details: Some(Payloads { payloads: vec![payload] }),
        ..Default::default()
    }
}

/// A failure of Nexus as JSON, without its empty parts.
fn json_of(failure: &nexus::Failure) -> Json {
    let mut object = Json::Object(Vec::new());
    for (name, text) in [("message", &failure.message), ("stackTrace", &failure.stack_trace)] {
        if !text.is_empty() {
            object.push(name, Json::text(text));
        }
    }
    push_kind(&mut object, failure);
    if let Some(cause) = &failure.cause {
        object.push("cause", json_of(cause));
    }
    object
}

fn push_kind(object: &mut Json, failure: &nexus::Failure) {
    if !failure.metadata.is_empty() {
        let metadata = failure.metadata.iter().map(|(key, value)| (key.clone(), Json::text(value)));
        object.push("metadata", Json::Object(metadata.collect()));
    }
    if !failure.details.is_empty() {
        object.push("details", parse(&failure.details).ok().flatten().map_or(Json::Null, |node| compact(&node)));
    }
}

/// JSON as it was read, without spaces.
pub(crate) fn compact(node: &Node) -> Json {
    match &node.value {
        NodeValue::Null => Json::Null,
        NodeValue::Bool(truth) => Json::Bool(*truth),
        NodeValue::Number(text) => Json::Raw(text.clone()),
        NodeValue::String(text) => Json::text(text),
        NodeValue::Array(items) => Json::Array(items.iter().map(compact).collect()),
        NodeValue::Object(members) => {
            Json::Object(members.iter().map(|member| (member.name.clone(), compact(&member.value))).collect())
        }
    }
}

/// A failure of Temporal from details that are its protobuf JSON.
fn temporal_failure(details: &[u8]) -> Option<Failure> {
    let node = parse(details).ok().flatten()?;
    let reading = Reading { skips_unknown: true, ..Default::default() };
    let message = from_json(descriptor(TEMPORAL_FAILURE)?, &node, details, reading).ok()?;
    Failure::decode(&message.encode_to_vec()[..]).ok()
}

pub(crate) fn text_detail(details: &[u8], name: &str) -> Option<String> {
    match member(details, name)? {
        NodeValue::String(text) => Some(text),
        _ => None,
    }
}

fn member(details: &[u8], name: &str) -> Option<NodeValue> {
    match parse(details).ok().flatten()?.value {
        NodeValue::Object(members) => {
            members.into_iter().find(|member| member.name == name).map(|member| member.value.value)
        }
        _ => None,
    }
}

fn handler_info(details: &[u8]) -> NexusHandlerFailureInfo {
    let retry_behavior = match member(details, "retryableOverride") {
        Some(NodeValue::Bool(true)) => NexusHandlerErrorRetryBehavior::Retryable,
        Some(NodeValue::Bool(false)) => NexusHandlerErrorRetryBehavior::NonRetryable,
        _ => NexusHandlerErrorRetryBehavior::Unspecified,
    };
    let r#type = text_detail(details, TYPE).unwrap_or_default();
    NexusHandlerFailureInfo { r#type, retry_behavior: retry_behavior as i32 }
}

/// A failure of Temporal as Nexus has it.
pub fn to_nexus(failure: &Failure) -> nexus::Failure {
    let cause = failure.cause.as_ref().map(|cause| Box::new(to_nexus(cause)));
    let (message, stack_trace) = (failure.message.clone(), failure.stack_trace.clone());
    if let Some(FailureInfo::NexusHandlerFailureInfo(info)) = &failure.failure_info {
        let mut details = Json::object([("type", Json::text(&info.r#type))]);
        match info.retry_behavior() {
            NexusHandlerErrorRetryBehavior::Retryable => details.push("retryableOverride", Json::Bool(true)),
            NexusHandlerErrorRetryBehavior::NonRetryable => details.push("retryableOverride", Json::Bool(false)),
            NexusHandlerErrorRetryBehavior::Unspecified => {}
        }
        return typed(HANDLER_ERROR, message, stack_trace, details, cause);
    }
    let bare = Failure {
        message: String::new(),
        stack_trace: String::new(),
        cause: None,
        source: failure.source.clone(),
        encoded_attributes: failure.encoded_attributes.clone(),
        failure_info: failure.failure_info.clone(),
    };
    typed(TEMPORAL_FAILURE, message, stack_trace, to_json(TEMPORAL_FAILURE, &bare, View::EXACT), cause)
}

fn typed(
    kind: &str,
    message: String,
    stack_trace: String,
    details: Json,
    cause: Option<Box<nexus::Failure>>,
) -> nexus::Failure {
    nexus::Failure {
        message,
        stack_trace,
        metadata: [(TYPE.to_owned(), kind.to_owned())].into(),
        details: details.print(false, |_| false).into(),
        cause,
    }
}

/// Whether the details of a failure and of its causes are JSON.
pub(crate) fn has_json_details(failure: &nexus::Failure) -> bool {
    let own = failure.details.is_empty() || matches!(parse(&failure.details), Ok(Some(_)));
    own && failure.cause.as_ref().is_none_or(|cause| has_json_details(cause))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_of_temporal_come_back_as_they_were() {
        let info = ApplicationFailureInfo { r#type: "T".into(), non_retryable: true, ..Default::default() };
        let inner = Failure {
            message: "boom".into(),
            stack_trace: "at x".into(),
            failure_info: Some(FailureInfo::ApplicationFailureInfo(info)),
            ..Default::default()
        };
        let info = NexusHandlerFailureInfo { r#type: "NOT_FOUND".into(), retry_behavior: 2 };
        let outer = Failure {
            message: "hf".into(),
            failure_info: Some(FailureInfo::NexusHandlerFailureInfo(info)),
            cause: Some(Box::new(inner)),
            ..Default::default()
        };
        let nexus = to_nexus(&outer);
        assert_eq!(nexus.details, r#"{"type":"NOT_FOUND","retryableOverride":false}"#);
        let cause = nexus.cause.as_ref().expect("it has a cause");
        assert_eq!(cause.details, r#"{"applicationFailureInfo":{"type":"T","nonRetryable":true}}"#);
        assert_eq!(from_nexus(&nexus), outer);
    }

    #[test]
    fn other_failures_keep_their_metadata_and_details() {
        let failure = nexus::Failure {
            message: "m".into(),
            metadata: [("k".to_owned(), "v".to_owned())].into(),
            details: "{\"a\":1}".into(),
            cause: Some(Box::new(nexus::Failure { message: "deep".into(), ..Default::default() })),
            ..Default::default()
        };
        let read = from_nexus(&failure);
        let Some(FailureInfo::ApplicationFailureInfo(info)) = read.failure_info else { panic!("{read:?}") };
        assert_eq!(info.r#type, "NexusFailure");
        let payload = &info.details.expect("it has details").payloads[0];
        assert_eq!(payload.data, r#"{"metadata":{"k":"v"},"details":{"a":1},"cause":{"message":"deep"}}"#);
        let plain = nexus::Failure { message: "m".into(), ..Default::default() };
        assert_eq!(from_nexus(&plain), Failure { message: "m".into(), ..Default::default() });
    }

    #[test]
    fn a_wrapper_of_the_server_is_taken_off() {
        let cause = nexus::Failure { message: "inner".into(), ..Default::default() };
        let metadata = [(TYPE.to_owned(), OPERATION_ERROR.to_owned()), (UNWRAP.to_owned(), "true".to_owned())];
        let outer = nexus::Failure {
            message: "operation error".into(),
            metadata: metadata.into(),
            details: "{\"state\":\"failed\"}".into(),
            cause: Some(Box::new(cause)),
            ..Default::default()
        };
        assert_eq!(from_nexus(&outer).message, "inner");
        let reported = from_worker(&outer);
        assert_eq!(reported.message, "operation error");
        assert_eq!(reported.cause.expect("it keeps its cause").message, "inner");
    }
}
