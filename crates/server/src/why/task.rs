//! The workflow task: failing, waiting for a worker, or at a worker.

use segno_engine::{
    script,
    state::{TaskKind, WorkflowTask},
};
use segno_node::LeaseView;
use segno_proto::{Nanos, enums::WorkflowTaskFailedCause as Cause, segno_workflow::Reason};

use super::{
    RunSnapshot, Severity, command, failure,
    queue::{self, WaitingTask},
    reason, time, words,
};

/// A workflow task that failed so often in a row does not succeed by itself.
const FAILURES_OF_STUCK: i32 = 3;
/// A worker that is silent for less than this is not worth a word.
const SILENCE_MIN: Nanos = 5_000_000_000;

/// Adds what there is to say about the workflow task.
pub(super) fn add(seen: &RunSnapshot<'_>, found: &mut Vec<Reason>) {
    let state = seen.run.state();
    if script::waits_for_operator(seen.run) {
        found.push(waits_for_operator(seen));
        return;
    }
    if state.failures_since_success > 0 {
        found.push(failing(seen));
    }
    let Some(task) = &state.task else { return };
    if task.started_event_id != 0 {
        found.push(started(seen, task));
    } else {
        found.push(scheduled(seen, task));
    }
    if !state.buffered.is_empty() {
        let events = words::count(state.buffered.len(), "event waits", "events wait");
        found.push(reason("EVENTS_BUFFERED", format!("{events} until the worker has answered the workflow task.")));
    }
}

/// A turn of a script took too long too often.
fn waits_for_operator(seen: &RunSnapshot<'_>) -> Reason {
    let attempts = script::OVERTIME_ATTEMPTS_MAX;
    let limit = words::span(seen.run.info.task_timeout);
    let text = format!(
        "It waits for an operator: the turn of the script took longer than {limit} in {attempts} attempts, and is not tried \
         again by itself."
    );
    let migrate = command::of_workflow(&seen.run.info, "flow migrate", &[]);
    let hint = format!(
        "Deploy a script that does less in one turn and move the run to it with {migrate}; with the version that it has, the \
         same command tries the turn once more. Or reset the run, or terminate it."
    );
    let since = seen.run.state().reported_failure.as_deref().and_then(|reported| time(reported.time));
    Reason { since, hint, ..reason("WAITS_FOR_OPERATOR", text) }
}

/// Workflow tasks failed, and none succeeded since.
fn failing(seen: &RunSnapshot<'_>) -> Reason {
    let state = seen.run.state();
    let times = match state.failures_since_success {
        1 => "once".to_owned(),
        failures => format!("{failures} times in a row"),
    };
    let fails_for_ever = state.failures_since_success >= FAILURES_OF_STUCK;
    let Some(reported) = state.reported_failure.as_deref() else {
        let limit = words::span(seen.run.info.task_timeout);
        let text = format!("The workflow task timed out {times}: a worker took it and did not answer within {limit}.");
        let hint = "The worker may have crashed, or the workflow code blocks its thread: look at the worker's log.";
        let severity = if fails_for_ever { Severity::Stuck.word().to_owned() } else { String::new() };
        return Reason { hint: hint.to_owned(), severity, ..reason("TASK_TIMING_OUT", text) };
    };
    let said = match &reported.failure {
        Some(said) => failure::line(said),
        None => failure::cause_name(reported.cause()).to_owned(),
    };
    let who = match reported.identity.as_str() {
        "" => String::new(),
        identity => format!(" by {}", words::text(identity)),
    };
    let text = format!(
        "The code breaks: the workflow task failed {times}, last reported {}{who} with: {said}.",
        words::moment(reported.time, seen.now),
    );
    let mut details = vec![format!("cause: {}", failure::cause_name(reported.cause()))];
    details.extend(reported.failure.iter().flat_map(failure::details));
    let info = &seen.run.info;
    let is_unknown = reported.failure.as_ref().is_some_and(failure::is_not_registered);
    let hint = match reported.cause() {
        Cause::NonDeterministicError => format!(
            "The code does not fit the history of the run: deploy the code the run began with, or reset the run to an earlier \
             event: {}.",
            command::of_workflow(info, "workflow reset", &[("--to", "LastWorkflowTask")])
        ),
        _ if seen.run.state().script.is_some() => format!(
            "The turn is tried again by itself. Deploy a repaired script and move the run to it with {}.",
            command::of_workflow(info, "flow migrate", &[])
        ),
        _ if is_unknown => format!(
            "The workers of task queue {} do not have the workflow type {}. Deploy workers that register it. If others have it, the \
             workflow was started on the wrong queue: {} ends it, and it can be started on theirs.",
            words::quoted(&info.task_queue),
            words::text(&info.workflow_type),
            command::of_workflow(info, "workflow terminate", &[])
        ),
        _ => format!(
            "Repair the workflow code and restart its workers: the task is tried again until it succeeds. If the input is \
             wrong, end the workflow ({}) and start it again.",
            command::of_workflow(info, "workflow terminate", &[])
        ),
    };
    let kind = if is_unknown { "NOT_REGISTERED" } else { "TASK_FAILING" };
    let is_stuck = reported.cause() == Cause::NonDeterministicError || fails_for_ever;
    let severity = if is_stuck { Severity::Stuck.word().to_owned() } else { String::new() };
    Reason { since: time(reported.time), hint, details, severity, ..reason(kind, text) }
}

fn started(seen: &RunSnapshot<'_>, task: &WorkflowTask) -> Reason {
    let until = task.started_time + task.start_to_close;
    let base = |kind, text| Reason { since: time(task.started_time), until: time(until), ..reason(kind, text) };
    let held = words::since(task.started_time, seen.now);
    if seen.run.state().script.is_some() {
        return base("SCRIPT_TURN", format!("The server has been executing the script {held}."));
    }
    let who = match task.identity.as_str() {
        "" => "A worker".to_owned(),
        identity => format!("Worker {}", words::quoted(identity)),
    };
    let ends = match until > seen.now {
        true => format!("It has {} left to answer.", words::span(until - seen.now)),
        false => "Its time is up.".to_owned(),
    };
    match holder(seen, &task.worker) {
        Some((text, hint)) => {
            let text = format!("{who} has held the workflow task {held}, but {text}. {ends}");
            Reason { hint, ..base("WORKER_SILENT", text) }
        }
        None => {
            // Otherwise a worker that breaks each time seems to work on it.
            let again = if task.attempt > 1 {
                " SDKs report only the first failure of a task and let later attempts time out."
            } else {
                ""
            };
            base("TASK_AT_WORKER", format!("{who} has been working on the workflow task {held}. {ends}{again}"))
        }
    }
}

/// The trouble of the worker that holds a task, and the next step.
pub(super) fn holder(seen: &RunSnapshot<'_>, worker: &str) -> Option<(String, String)> {
    let lease = seen.workers.get(worker)?;
    let lost = |lease: &LeaseView| match lease.remaining {
        Some(left) => format!("It counts as lost in {}; then its work is given to others.", words::span(left)),
        None => String::new(),
    };
    let silent = words::span(lease.silent);
    if lease.detached {
        return Some((format!("its connections are gone, and it has been silent for {silent}"), lost(lease)));
    }
    let matters = lease.remaining.is_some() && lease.silent >= SILENCE_MIN;
    matters.then(|| (format!("it has been silent for {silent}"), lost(lease)))
}

fn scheduled(seen: &RunSnapshot<'_>, task: &WorkflowTask) -> Reason {
    let since = task.scheduled_time;
    if seen.run.state().script.is_some() {
        let text = format!("The next turn of the script has waited for the server {}.", words::since(since, seen.now));
        return Reason { since: time(since), ..reason("SCRIPT_TURN", text) };
    }
    let what = match task.kind() {
        TaskKind::Speculative => "A workflow task for an update",
        TaskKind::Normal => "The workflow task",
    };
    if task.sticky {
        let until = since + task.schedule_to_start;
        let text = format!(
            "{what} has waited {} for the worker that has the run in its cache; any worker of task queue {} may take it {}.",
            words::since(since, seen.now),
            words::quoted(&seen.run.info.task_queue),
            words::moment(until, seen.now),
        );
        return Reason { since: time(since), until: time(until), ..reason("STICKY", text) };
    }
    let info = &seen.run.info;
    let waiting = WaitingTask { what, kind: "workflow task", queue: &task.queue, namespace: None, info, since };
    queue::waiting(&waiting, &seen.workflow_queue, seen.now)
}
