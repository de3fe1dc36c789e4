//! The steps of scenario files by which workers answer Nexus requests, and handlers complete operations:
//! `nexus-take 5`, `nexus-give-back 5`, `nexus-postpone 5`, `nexus-start 5 started token=t`, `nexus-cancel 5 accepted`,
//! `nexus-complete 5 completed`.

use segno_engine::{
    Rejection, Transition,
    nexus::{self, CancelAnswer, Completion, OperationEnd, RequestRef, StartAnswer},
};
use segno_proto::{Nanos, failure::Failure};

use super::{
    words::{Words, failure},
    world::World,
};

/// The pause after a request that settings do not allow.
const POSTPONED: Nanos = 60_000_000_000;

/// Whether a step is one of these.
pub fn knows(name: &str) -> bool {
    let known = ["nexus-take", "nexus-give-back", "nexus-postpone", "nexus-start", "nexus-cancel", "nexus-complete"];
    known.contains(&name)
}

/// One call on the run. `stamp=` names an attempt other than the current one.
pub fn call(world: &mut World, words: &Words<'_>) -> Result<(String, Transition), Rejection> {
    let id: i64 = words.number(0);
    if words.name == "nexus-complete" {
        return complete(world, words, id);
    }
    let open = world.run.state().operations.get(&id).and_then(|operation| operation.open_request());
    let (stamp, cancel) = open.map_or((1, false), |(request, cancel)| (request.stamp, cancel));
    let request = RequestRef {
        scheduled_event_id: id,
        cancel: cancel || words.name == "nexus-cancel",
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
