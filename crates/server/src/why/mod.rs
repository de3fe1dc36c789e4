//! Why a run does not go on, in sentences.
//!
//! [`RunSnapshot`] has all the data, collected by [`crate::grpc`]; [`reasons`] is a pure function that makes sentences
//! of it, so every state of a run can be tested without a server. `segno workflow why` and the web pages show the same
//! sentences.
//!
//! What holds: there is always at least one reason; the first is the most important one.

mod activities;
mod batch;
mod closed;
mod command;
mod failure;
mod operations;
mod pending;
mod queue;
mod schedule;
mod script;
mod severity;
mod task;
#[cfg(test)]
mod tests;
mod versions;
mod words;

use std::collections::BTreeMap;

use segno_engine::{Run, state::PauseInfo};
use segno_node::{LeaseView, QueueService};
use segno_proto::{Nanos, events::HistoryEvent, nanos_timestamp, segno_workflow::Reason};

pub(crate) use batch::reasons as reasons_of_batch;
pub(crate) use failure::last_task_failure;
pub(crate) use operations::EndpointSnapshot;
pub(crate) use script::ScriptSnapshot;
pub(crate) use severity::Severity;
pub(crate) use versions::{LaneSnapshot, TargetCause, TaskTarget};

/// Items of one kind that are listed; further ones are only counted.
const SHOWN_MAX: usize = 20;

/// The facts about a task queue, of one kind of tasks.
#[derive(Clone, Debug, Default)]
pub(crate) struct QueueSnapshot {
    /// Polls and tasks; where versions of workers use the queue, those of the version of the task.
    pub(crate) service: QueueService,
    /// Workers that said that they serve the queue, and whose connections are there.
    pub(crate) live_workers: usize,
    /// Whether a limit held tasks back lately.
    pub(crate) is_limited: bool,
    /// To which version of workers the task goes, if versions use the queue.
    pub(crate) target: Option<TaskTarget>,
}

/// The request of an update that a run has not finished.
#[derive(Clone, Debug)]
pub(crate) struct UpdateSnapshot {
    /// Its name.
    pub(crate) name: String,
    /// When it was admitted or accepted; 0 if that is not known.
    pub(crate) time: Nanos,
}

/// The request to cancel a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct CancelSnapshot {
    /// Who asked; empty if a workflow did.
    pub(crate) identity: String,
    /// The workflow that asked, if one did.
    pub(crate) workflow_id: String,
    /// Why.
    pub(crate) cause: String,
    /// When.
    pub(crate) time: Nanos,
}

/// The facts about a run and about the workers of its tasks.
pub(crate) struct RunSnapshot<'a> {
    /// The run.
    pub(crate) run: &'a Run,
    /// When it was looked at.
    pub(crate) now: Nanos,
    /// The queue of the pending workflow task.
    pub(crate) workflow_queue: QueueSnapshot,
    /// The queues of pending activities.
    pub(crate) activity_queues: BTreeMap<String, QueueSnapshot>,
    /// Endpoints of pending Nexus operations, by their ids; one that is not here does not exist.
    pub(crate) endpoints: BTreeMap<String, EndpointSnapshot>,
    /// Workers that hold tasks of the run, by their instance keys.
    pub(crate) workers: BTreeMap<String, LeaseView>,
    /// Where a script stands, if the run is one and its state can be read.
    pub(crate) script: Option<ScriptSnapshot>,
    /// Whether there is a script with the name of its type.
    pub(crate) namesake: bool,
    /// The last event of a closed run.
    pub(crate) close_event: Option<HistoryEvent>,
    /// Reasons of open children, by their workflow ids; not of all.
    pub(crate) children: BTreeMap<String, Vec<Reason>>,
    /// Updates that are not finished, by their ids; not of all.
    pub(crate) updates: BTreeMap<String, UpdateSnapshot>,
    /// The request to cancel the run, if it was found.
    pub(crate) cancel: Option<CancelSnapshot>,
}

/// The sentences, most important first.
pub(crate) fn reasons(seen: &RunSnapshot<'_>) -> Vec<Reason> {
    let mut found = match seen.run.is_running() {
        true => open(seen),
        false => closed::reasons(seen),
    };
    severity::fill(&mut found);
    found
}

fn open(seen: &RunSnapshot<'_>) -> Vec<Reason> {
    let state = seen.run.state();
    let mut found = Vec::new();
    if let Some(pause) = &state.pause {
        found.push(paused(seen, pause));
    }
    if let Some(schedule) = &state.schedule {
        return schedule::reasons(seen, schedule);
    }
    if state.first_task_due > seen.now {
        found.push(held_back(seen));
    }
    task::add(seen, &mut found);
    let waits_for_task = !found.is_empty();
    activities::add(seen, &mut found);
    operations::add(seen, &mut found);
    pending::add(seen, &mut found);
    script::add(seen, &mut found);
    if state.standalone.is_some() && !found.is_empty() {
        return found;
    }
    if found.is_empty() || (!waits_for_task && found.iter().all(|reason| reason.kind == "CANCEL_REQUESTED")) {
        found.push(waits_in_code(seen));
    }
    pending::add_deadline(seen, &mut found);
    script::add_namesake(seen, &mut found);
    found
}

/// A reason with nothing but a sentence.
fn reason(kind: &str, text: impl Into<String>) -> Reason {
    Reason { kind: kind.to_owned(), text: text.into(), ..Default::default() }
}

/// A time for a reason; none if there is none.
fn time(nanos: Nanos) -> Option<prost_types::Timestamp> {
    (nanos > 0).then(|| nanos_timestamp(nanos))
}

/// An operator paused the run.
fn paused(seen: &RunSnapshot<'_>, pause: &PauseInfo) -> Reason {
    let at_worker = match seen.run.state().task_started() {
        true => " The worker that has its workflow task may still answer it.",
        false => "",
    };
    let text = format!(
        "The workflow has been paused by {}. Nothing of it is handed to workers; what happens meanwhile is recorded in its history.{at_worker}",
        words::paused_by(pause, seen.now)
    );
    let hint = format!("{} lets it go on.", command::of_workflow(&seen.run.info, "workflow unpause", &[]));
    Reason { since: time(pause.time), hint, ..reason("PAUSED", text) }
}

/// The first workflow task is not due yet.
fn held_back(seen: &RunSnapshot<'_>) -> Reason {
    let (info, state) = (&seen.run.info, seen.run.state());
    let due = state.first_task_due;
    let why = if info.attempt > 1 {
        format!("the run before it failed, and attempt {} is held back by the retry policy", info.attempt)
    } else if !info.cron_schedule.is_empty() {
        format!("the cron schedule {:?} has its next time then", info.cron_schedule)
    } else {
        "it was started with a delay".to_owned()
    };
    let text = format!("It begins {}: {why}.", words::moment(due, seen.now));
    let hint = match info.attempt > 1 || !info.cron_schedule.is_empty() {
        true => "",
        false => "A signal lets a delayed start begin at once.",
    };
    let since = time(info.start_time);
    Reason { since, until: time(due), hint: hint.to_owned(), ..reason("START_DELAYED", text) }
}

/// Nothing is pending: only the code knows what it waits for.
fn waits_in_code(seen: &RunSnapshot<'_>) -> Reason {
    let (info, state) = (&seen.run.info, seen.run.state());
    let received = match state.signal_count {
        0 => "It has received no signal so far.".to_owned(),
        1 => "It has received one signal so far.".to_owned(),
        count => format!("It has received {count} signals so far."),
    };
    let text = format!(
        "Nothing is pending that the server knows of: the code waits for a signal, an update or a condition of its own. \
         {received}"
    );
    let stack = command::of_workflow(info, "workflow stack", &[]);
    let hint = format!("{stack} asks a worker where the code stands.");
    Reason { hint, ..reason("WAITS_IN_CODE", text) }
}
