//! Failures of Nexus as JSON, and the two forms in which a server sends them.

use segno_proto::{
    failure::{Failure, NexusHandlerFailureInfo, failure::FailureInfo},
    nexus,
};
use segno_proto_json::{Json, Member, Node, NodeValue, parse};

use crate::failures::{HANDLER_ERROR, OPERATION_ERROR, TYPE, UNWRAP, compact, to_nexus};

/// A text that is not a failure.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NotFailure(String);

/// How an operation ended without a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsuccessful {
    /// The operation failed.
    Failed,
    /// The operation was canceled.
    Canceled,
}

impl Unsuccessful {
    /// The value of the header `Nexus-Operation-State`.
    pub fn state(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Canceled => "canceled",
        }
    }
}

/// A failure as JSON.
pub fn failure_to_json(failure: &nexus::Failure) -> String {
    to_json(failure).print(false, |_| false)
}

fn to_json(failure: &nexus::Failure) -> Json {
    let mut json = Json::Object(Vec::new());
    for (name, text) in [("message", &failure.message), ("stackTrace", &failure.stack_trace)] {
        if !text.is_empty() {
            json.push(name, Json::text(text));
        }
    }
    if !failure.metadata.is_empty() {
        let metadata = failure.metadata.iter().map(|(name, value)| (name.clone(), Json::text(value)));
        json.push("metadata", Json::Object(metadata.collect()));
    }
    if let Some(details) = parse(&failure.details).ok().flatten() {
        json.push("details", compact(&details));
    }
    if let Some(cause) = &failure.cause {
        json.push("cause", to_json(cause));
    }
    json
}

/// Reads a failure. Fields that are not those of a failure are ignored.
pub fn failure_from_json(text: &[u8]) -> Result<nexus::Failure, NotFailure> {
    match parse(text).map_err(NotFailure)? {
        Some(node) => read(text, &node),
        None => Err(NotFailure("unexpected end of JSON input".to_owned())),
    }
}

fn read(text: &[u8], node: &Node) -> Result<nexus::Failure, NotFailure> {
    let mut failure = nexus::Failure::default();
    for Member { name, value, .. } in members("failure", node)? {
        match name.as_str() {
            "message" => failure.message = string(name, value)?,
            "stackTrace" => failure.stack_trace = string(name, value)?,
            "metadata" => {
                for entry in members(name, value)? {
                    failure.metadata.insert(entry.name.clone(), string(&entry.name, &entry.value)?);
                }
            }
            "details" if value.value != NodeValue::Null => {
                failure.details = text.get(value.start..value.end).unwrap_or_default().to_vec().into();
            }
            "cause" if value.value != NodeValue::Null => failure.cause = Some(Box::new(read(text, value)?)),
            _ => {}
        }
    }
    Ok(failure)
}

fn members<'a>(name: &str, node: &'a Node) -> Result<&'a [Member], NotFailure> {
    match &node.value {
        NodeValue::Object(members) => Ok(members),
        NodeValue::Null => Ok(&[]),
        _ => Err(NotFailure(format!("{name} is not an object"))),
    }
}

fn string(name: &str, node: &Node) -> Result<String, NotFailure> {
    match &node.value {
        NodeValue::String(text) => Ok(text.clone()),
        NodeValue::Null => Ok(String::new()),
        _ => Err(NotFailure(format!("{name} is not a string"))),
    }
}

/// The error of an operation around the failure of its handler, as a receiver that knows the new form gets it.
pub fn operation_error(message: &str, state: Unsuccessful, cause: nexus::Failure) -> nexus::Failure {
    nexus::Failure {
        message: message.to_owned(),
        metadata: [(TYPE, OPERATION_ERROR), (UNWRAP, "true")].map(|(a, b)| (a.to_owned(), b.to_owned())).into(),
        details: Json::object([("state", Json::text(state.state()))]).print(false, |_| false).into(),
        cause: Some(Box::new(cause)),
        ..Default::default()
    }
}

/// The error of a handler, around what it says itself.
pub fn handler_error(info: NexusHandlerFailureInfo, message: &str, cause: Option<nexus::Failure>) -> nexus::Failure {
    let failure = Failure {
        message: message.to_owned(),
        failure_info: Some(FailureInfo::NexusHandlerFailureInfo(info)),
        ..Default::default()
    };
    nexus::Failure { cause: cause.map(Box::new), ..to_nexus(&failure) }
}

/// The part of a failure that a receiver gets who only knows the old form: of an error of a handler or of an operation its cause.
/// Status and headers say the rest.
pub fn old_form(failure: nexus::Failure) -> nexus::Failure {
    let is_wrapper = matches!(failure.metadata.get(TYPE).map(String::as_str), Some(HANDLER_ERROR | OPERATION_ERROR));
    match failure.cause {
        Some(cause) if is_wrapper => *cause,
        cause => nexus::Failure { cause, ..failure },
    }
}

#[cfg(test)]
mod tests {
    use segno_proto::failure::ApplicationFailureInfo;

    use super::*;
    use crate::from_nexus;

    fn recorded() -> Failure {
        let info = ApplicationFailureInfo { r#type: "T".into(), non_retryable: true, ..Default::default() };
        let boom = Failure {
            message: "boom".into(),
            failure_info: Some(FailureInfo::ApplicationFailureInfo(info)),
            ..Default::default()
        };
        let info = NexusHandlerFailureInfo { r#type: "NOT_FOUND".into(), retry_behavior: 2 };
        Failure {
            message: "hf".into(),
            failure_info: Some(FailureInfo::NexusHandlerFailureInfo(info)),
            cause: Some(Box::new(boom)),
            ..Default::default()
        }
    }

    const BOOM: &str = r#"{"message":"boom","metadata":{"type":"temporal.api.failure.v1.Failure"},"details":{"applicationFailureInfo":{"type":"T","nonRetryable":true}}}"#;

    #[test]
    fn both_forms_are_as_recorded() {
        let nexus = to_nexus(&recorded());
        let new = format!(
            r#"{{"message":"hf","metadata":{{"type":"nexus.HandlerError"}},"details":{{"type":"NOT_FOUND","retryableOverride":false}},"cause":{BOOM}}}"#
        );
        assert_eq!(failure_to_json(&nexus), new);
        assert_eq!(failure_to_json(&old_form(nexus.clone())), BOOM);
        let read = failure_from_json(new.as_bytes()).expect("a failure");
        assert_eq!(read, nexus);
        assert_eq!(from_nexus(&read), recorded());
    }

    #[test]
    fn errors_of_operations_have_a_wrapper_in_the_new_form() {
        let boom = failure_from_json(BOOM.as_bytes()).expect("a failure");
        let error = operation_error("operation error", Unsuccessful::Failed, boom.clone());
        let wrapped = format!(
            r#"{{"message":"operation error","metadata":{{"type":"nexus.OperationError","unwrap-error":"true"}},"details":{{"state":"failed"}},"cause":{BOOM}}}"#
        );
        assert_eq!(failure_to_json(&error), wrapped);
        assert_eq!(from_nexus(&error), from_nexus(&boom));
        assert_eq!(old_form(error), boom);
        assert_eq!(old_form(boom.clone()), boom);
    }

    #[test]
    fn details_keep_their_digits() {
        let text = r#"{"message":"m","stackTrace":"s","details":{"a":12345678901234567890.10}}"#;
        let failure = failure_from_json(format!("{{\"other\":[1], {}", &text[1..]).as_bytes()).expect("a failure");
        assert_eq!(failure_to_json(&failure), text);
        assert_eq!(failure_from_json(b"null"), Ok(nexus::Failure::default()));
        assert_eq!(failure_to_json(&nexus::Failure::default()), "{}");
    }

    #[test]
    fn other_texts_are_no_failures() {
        for text in ["", "x", "[]", "1", r#"{"message":1}"#, r#"{"metadata":{"a":1}}"#, r#"{"cause":"x"}"#] {
            assert!(failure_from_json(text.as_bytes()).is_err(), "{text}");
        }
    }
}
