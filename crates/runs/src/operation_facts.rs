//! The searchable facts of Nexus operations: what a standalone operation is, and retries of operations that workflows wait for.

use segno_engine::{Run, standalone_nexus};
use segno_store::visibility::{Attribute, Kind, Value};

// Names and numbers of the facts. No attribute of the engine's tables and of users has these numbers.
const ENDPOINT: (&str, u32) = ("Endpoint", 501);
const SERVICE: (&str, u32) = ("Service", 502);
const OPERATION: (&str, u32) = ("Operation", 503);
const REQUEST_ID: (&str, u32) = ("RequestId", 504);
const ATTEMPTS: (&str, u32) = ("NexusAttempts", 505);
const LAST_FAILURE: (&str, u32) = ("NexusLastFailure", 506);

/// The attribute that a filter of standalone operations means by a name.
pub(crate) fn standalone_attribute(name: &str) -> Option<Attribute> {
    let known = [ENDPOINT, SERVICE, OPERATION, REQUEST_ID].into_iter().find(|known| known.0 == name)?;
    Some(Attribute::Numbered(known.1, Kind::Keyword))
}

/// The attribute of retried operations that a filter of runs means by a name.
pub(crate) fn retry_attribute(name: &str) -> Option<Attribute> {
    [(ATTEMPTS, Kind::Int), (LAST_FAILURE, Kind::Text)]
        .into_iter()
        .find(|(known, _)| known.0 == name)
        .map(|((_, number), kind)| Attribute::Numbered(number, kind))
}

/// The failed attempts of the pending operation that has most of them, and its last failure.
pub(crate) fn operation_retry(run: &Run) -> Option<(i32, &str)> {
    if !run.is_running() {
        return None;
    }
    let requests = run.state().operations.values().filter_map(|operation| operation.open_request());
    let failed = requests.filter_map(|(request, _)| Some((request.attempts, request.last_failure.as_ref()?)));
    let (attempts, failure) = failed.max_by_key(|(attempts, _)| *attempts)?;
    Some((attempts, &failure.message))
}

/// The facts that a run has because of its operations, by their numbers.
pub(crate) fn facts_of_operations(run: &Run) -> Vec<(u32, Value)> {
    let state = run.state();
    let mut facts = Vec::new();
    let alone = state.standalone_nexus.as_ref().and_then(|_| standalone_nexus::operation_of(state));
    if let Some(operation) = alone {
        let texts = [
            (ENDPOINT, &operation.endpoint),
            (SERVICE, &operation.service),
            (OPERATION, &operation.operation),
            (REQUEST_ID, &operation.request_id),
        ];
        facts.extend(texts.map(|((_, number), text)| (number, Value::Text(text.clone()))));
    }
    if let Some((attempts, failure)) = operation_retry(run) {
        facts.push((ATTEMPTS.1, Value::Int(attempts.into())));
        facts.push((LAST_FAILURE.1, Value::Text(failure.to_owned())));
    }
    facts
}
