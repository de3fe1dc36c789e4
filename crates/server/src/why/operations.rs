//! Pending Nexus operations: waiting for a worker, at a worker, failing, or started.

use segno_engine::{
    Shared,
    state::nexus::{Cancellation, CancellationResult, Operation},
};
use segno_proto::segno_workflow::Reason;

use super::{
    QueueSnapshot, RunSnapshot, SHOWN_MAX, command, failure,
    queue::{self, WaitingTask},
    reason, time, words,
};

/// Where the requests of an endpoint go.
#[derive(Clone, Debug)]
pub(crate) enum EndpointSnapshot {
    /// To the workers of a queue.
    Queue {
        /// The namespace of the queue.
        namespace: String,
        /// Its name.
        queue: String,
        /// Its workers and tasks.
        seen: QueueSnapshot,
    },
    /// To scripts, or to the server itself: the server carries them out.
    Server,
    /// To a server elsewhere.
    Url {
        /// Its URL.
        url: String,
        /// Whether the last requests failed, so that the next ones wait.
        is_blocked: bool,
    },
}

/// Adds what there is to say about each pending operation.
pub(super) fn add(seen: &RunSnapshot<'_>, found: &mut Vec<Reason>) {
    let all = &seen.run.state().operations;
    let briefed = |operation: &Shared<Operation>| {
        let mut reason = one(seen, operation);
        reason.brief = format!("operation {}.{}", words::text(&operation.service), words::text(&operation.operation));
        reason
    };
    found.extend(all.values().take(SHOWN_MAX).map(briefed));
    if all.len() > SHOWN_MAX {
        let more = words::count(all.len() - SHOWN_MAX, "Nexus operation is", "Nexus operations are");
        found.push(reason("MORE_OPERATIONS", format!("{more} pending besides.")));
    }
}

fn one(seen: &RunSnapshot<'_>, operation: &Operation) -> Reason {
    let now = seen.now;
    let name = format!(
        "Nexus operation {}.{} of endpoint {}",
        words::text(&operation.service),
        words::text(&operation.operation),
        words::quoted(&operation.endpoint)
    );
    let Some((request, cancel)) = operation.open_request() else { return started(operation, &name, now) };
    let what = if cancel { format!("The request to cancel {name}") } else { name };
    let failed = request.attempts;
    let times = if failed == 1 { "once".to_owned() } else { format!("{failed} times") };
    let last = request.last_failure.as_ref();
    let details = last.map(failure::details).unwrap_or_default();
    let with = last.map_or_else(String::new, |last| format!(", last with: {}", failure::line(last)));
    if request.is_backing_off(now) {
        let next = words::span(request.due_time - now);
        let text = format!("{what} failed {times}{with}; it is tried again in {next}.");
        let (since, until) = (time(request.last_attempt_end), time(request.due_time));
        return Reason { since, until, details, ..reason("OPERATION_FAILING", text) };
    }
    let what = if failed > 0 { format!("{what} failed {times}{with}; it") } else { what };
    let endpoint = match operation.is_of_server() {
        true => Some(&EndpointSnapshot::Server),
        false => seen.endpoints.get(&operation.endpoint_id),
    };
    if request.taken_time > 0 {
        let place = match endpoint {
            Some(EndpointSnapshot::Url { url, .. }) => words::quoted(url).to_string(),
            Some(EndpointSnapshot::Server) => "the server".to_owned(),
            _ => "a worker".to_owned(),
        };
        let text = format!("{what} has been at {place} {}.", words::since(request.taken_time, now));
        return Reason { since: time(request.taken_time), details, ..reason("OPERATION_STARTING", text) };
    }
    let since = match (request.due_time, &operation.cancellation) {
        (0, Some(cancellation)) if cancel => cancellation.requested_time.max(operation.started_time),
        (0, _) => operation.scheduled_time,
        (due, _) => due,
    };
    match endpoint {
        Some(EndpointSnapshot::Queue { namespace, queue, seen: queue_seen }) => {
            let task = WaitingTask {
                what: &what,
                kind: "Nexus task",
                queue,
                namespace: Some(namespace),
                info: &seen.run.info,
                since,
            };
            Reason { details, ..queue::waiting(&task, queue_seen, now) }
        }
        Some(EndpointSnapshot::Server) => {
            let text = format!("{what} has waited {} for the server, which carries it out.", words::since(since, now));
            Reason { since: time(since), details, ..reason("OPERATION_STARTING", text) }
        }
        Some(EndpointSnapshot::Url { url, is_blocked: true }) => {
            let (url, waiting) = (words::quoted(url), words::since(since, now));
            let text = format!(
                "{what} has waited {waiting}: the last requests to {url} failed, so that its circuit breaker is open."
            );
            let hint = "One request tries the URL a minute after the last failure.".to_owned();
            Reason { since: time(since), hint, details, ..reason("OPERATION_BLOCKED", text) }
        }
        Some(EndpointSnapshot::Url { url, .. }) => {
            let text = format!("{what} has waited {} to be sent to {}.", words::since(since, now), words::quoted(url));
            Reason { since: time(since), details, ..reason("OPERATION_STARTING", text) }
        }
        None => {
            let text = format!("{what} has waited {}: the endpoint does not exist.", words::since(since, now));
            let list = command::command("", "nexus endpoint list", &[]);
            let hint =
                format!("Create the endpoint, or reset the workflow to before the call. {list} shows the endpoints.");
            Reason { since: time(since), hint, details, ..reason("NO_ENDPOINT", text) }
        }
    }
}

/// Its handler has started it, and no request to cancel it is open.
fn started(operation: &Operation, name: &str, now: i64) -> Reason {
    let asked = |cancellation: &Cancellation| match cancellation.result() {
        CancellationResult::Failed => "; its handler refused to cancel it",
        _ => "; its handler accepted the request to cancel it",
    };
    let canceling = operation.cancellation.as_ref().map_or("", asked);
    let held = words::since(operation.started_time, now);
    let text = format!("{name} was started by its handler, and has been open {held}{canceling}.");
    Reason { since: time(operation.started_time), ..reason("OPERATION", text) }
}
