//! The steps of scenario files by which workers answer Nexus requests, and handlers complete operations:
//! `nexus-take 5`, `nexus-give-back 5`, `nexus-postpone 5`, `nexus-start 5 started token=t`, `nexus-cancel 5 accepted`,
//! `nexus-complete 5 completed`.
//! Operations without a workflow begin with `start-operation charge`; clients call `alone-cancel request=c` and `alone-terminate request=t`.

use segno_engine::{
    Rejection, Run, Transition,
    nexus::{self, CancelAnswer, Completion, OperationEnd, RequestRef, StartAnswer},
    standalone::{calls::Terminate, state::CancelRequest},
    standalone_nexus::{NewOperation, WORKFLOW_ID_PREFIX, calls},
    start::{Start, StartOptions},
};
use segno_proto::{Nanos, command::command::Attributes as A, failure::Failure};

use super::{
    words::{Words, command, failure},
    world::World,
};

/// The pause after a request that settings do not allow.
const POSTPONED: Nanos = 60_000_000_000;

/// Whether a step is one of these.
pub fn knows(name: &str) -> bool {
    [
        "nexus-take",
        "nexus-give-back",
        "nexus-postpone",
        "nexus-start",
        "nexus-cancel",
        "nexus-complete",
        "alone-cancel",
        "alone-terminate",
    ]
    .contains(&name)
}

/// The start of an operation without a workflow: `start-operation charge schedule-to-close=10s`.
pub fn start_alone(line: &str) -> Start {
    let line = line.trim_start_matches("start-");
    let attributes = match command(line).attributes {
        Some(A::ScheduleNexusOperationCommandAttributes(attributes)) => attributes,
        _ => panic!("no operation: {line}"),
    };
    let new = NewOperation { attributes, endpoint_id: "endpoint-1".to_owned(), identity: "client".to_owned() };
    let options = StartOptions {
        workflow_id: format!("{WORKFLOW_ID_PREFIX}o"),
        request_id: "start-1".to_owned(),
        operation: Some(Box::new(new)),
        ..Default::default()
    };
    Start::new(1, "ns".to_owned(), 0, options)
}

/// How an operation without a workflow ended.
pub fn show_alone(run: &Run) -> String {
    let Some(alone) = &run.state().standalone_nexus else { return String::new() };
    let (Some(outcome), Some(ended)) = (&alone.outcome, &alone.ended) else { return String::new() };
    let failure = outcome.failure.as_ref().map(|failure| format!(": {}", failure.message)).unwrap_or_default();
    let result = if outcome.result.is_some() { " with a result" } else { "" };
    format!("  operation {} is over{result}{failure}, attempts={}\n", ended.operation, ended.start.attempts)
}

/// One call on the run. `stamp=` names an attempt other than the current one.
pub fn call(world: &mut World, words: &Words<'_>) -> Result<(String, Transition), Rejection> {
    let id: i64 = match words.name {
        "nexus-complete" => return complete(world, words, words.number(0)),
        "alone-cancel" | "alone-terminate" => return client_call(world, words),
        _ => words.number(0),
    };
    let open = world.run.state().operations.get(&id).and_then(|operation| operation.open_request());
    let (stamp, cancel) = open.map_or((1, false), |(request, cancel)| (request.stamp, cancel));
    let request = RequestRef {
        scheduled_event_id: id,
        cancel: match words.name {
            "nexus-start" => false,
            "nexus-cancel" => true,
            _ => cancel,
        },
        stamp: words.get("stamp").map_or(stamp, |stamp| stamp.parse().expect("a number")),
    };
    let taken = match words.name {
        "nexus-take" => {
            let taken = world.call(|run, context| nexus::take(run, context, request))?;
            let kind = if request.cancel { "cancel" } else { "start" };
            return Ok((format!(", {kind}, attempt {stamp}"), taken.transition));
        }
        "nexus-give-back" => world.call(|run, context| nexus::give_back(run, context, request))?,
        "nexus-postpone" => {
            let failure = nexus::call_error("not allowed".to_owned(), true);
            world.call(|run, context| nexus::postpone(run, context, request, failure, POSTPONED))?
        }
        "nexus-start" => {
            let answer = start_answer(words);
            world.call(|run, context| nexus::answer_start(run, context, request, answer))?
        }
        _ => {
            let answer = match words.at(1) {
                "accepted" => CancelAnswer::Accepted,
                kind => CancelAnswer::Error { failure: handler_error(), retryable: kind == "retry" },
            };
            world.call(|run, context| nexus::answer_cancel(run, context, request, answer))?
        }
    };
    Ok((String::new(), taken.transition))
}

/// A client ends an operation without a workflow, or wants its handler to do so.
fn client_call(world: &mut World, words: &Words<'_>) -> Result<(String, Transition), Rejection> {
    let request_id = words.get("request").unwrap_or_default().to_owned();
    let (identity, reason) = ("client".to_owned(), "enough".to_owned());
    let taken = if words.name == "alone-cancel" {
        let call = CancelRequest { identity, reason, request_id };
        world.call(|run, context| calls::request_cancel(run, context, call))?
    } else {
        let call = Terminate { reason, identity, request_id };
        world.call(|run, context| calls::terminate(run, context, call))?
    };
    Ok((String::new(), taken.transition))
}

fn start_answer(words: &Words<'_>) -> StartAnswer {
    match words.at(1) {
        "started" => StartAnswer::Started(words.get("token").unwrap_or("token").to_owned(), Vec::new()),
        "retry" => StartAnswer::Error { failure: handler_error(), retryable: true },
        "refused" => StartAnswer::Error { failure: handler_error(), retryable: false },
        kind => StartAnswer::Ended(end(kind), Vec::new()),
    }
}

fn complete(world: &mut World, words: &Words<'_>, id: i64) -> Result<(String, Transition), Rejection> {
    let known = world.run.state().operations.get(&id).map(|operation| operation.request_id.clone());
    let completion = Completion {
        request_id: known.unwrap_or_default(),
        token: words.get("token").unwrap_or("token").to_owned(),
        started_time: 0,
        links: Vec::new(),
        end: end(words.at(1)),
    };
    let taken = world.call(|run, context| nexus::complete(run, context, completion))?;
    Ok((String::new(), taken.transition))
}

fn end(kind: &str) -> OperationEnd {
    match kind {
        "completed" => OperationEnd::Completed(None),
        "failed" => OperationEnd::Failed(failure("Oops", true, None)),
        "canceled" => OperationEnd::Canceled(failure("Stopped", true, None)),
        other => panic!("an operation does not end {other:?}"),
    }
}

fn handler_error() -> Failure {
    nexus::handler_failure("INTERNAL", "handler is broken", Default::default())
}
