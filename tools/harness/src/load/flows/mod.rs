//! What workflows do, by the name of their type. Each flow answers a workflow task from its events, and remembers at most
//! a number.

mod chain;
mod fan_out;
mod parent;
mod timer;

use std::time::Duration;

use segno_proto::{
    command::Command,
    events::{HistoryEvent, history_event::Attributes},
};

use super::{
    operations, updates,
    worker::{Answer, WorkflowTask},
};
use crate::wire;

pub use chain::plan as chain_plan;
pub use fan_out::WIDTH as FAN_OUT_WIDTH;

/// Longest run of an activity.
const ACTIVITY_MAX: Duration = Duration::from_secs(300);

/// The answer of a workflow type to a workflow task; unknown types do nothing.
pub fn answer(kind: &str, task: WorkflowTask<'_>) -> Answer {
    match kind {
        "empty" => latest(task.events, echo_at_once).into(),
        "one-activity" => latest(task.events, |event| one_activity(event, task.session.queue())).into(),
        "chain" => chain::answer(task),
        "fan-out" => fan_out::answer(task),
        "signal" => latest(task.events, signalled).into(),
        "parent" => latest(task.events, |event| parent::decide(event, &task)).into(),
        "operation" => latest(task.events, |event| operations::decide(event, task.session)).into(),
        "timer" => timer::answer(task),
        "update-accepted" => updates::answer(task.messages, true),
        "update-rejected" => updates::answer(task.messages, false),
        _ => Answer::default(),
    }
}

/// The commands that follow from the latest event that has any.
fn latest(events: &[HistoryEvent], decide: impl Fn(&Attributes) -> Option<Command>) -> Vec<Command> {
    events.iter().rev().find_map(|event| event.attributes.as_ref().and_then(&decide)).into_iter().collect()
}

/// Completes with its input.
fn echo_at_once(event: &Attributes) -> Option<Command> {
    match event {
        Attributes::WorkflowExecutionStartedEventAttributes(start) => Some(wire::complete(start.input.clone())),
        _ => None,
    }
}

/// An activity with the workflow's input, then its result.
fn one_activity(event: &Attributes, queue: &str) -> Option<Command> {
    match event {
        Attributes::ActivityTaskCompletedEventAttributes(done) => Some(wire::complete(done.result.clone())),
        Attributes::WorkflowExecutionStartedEventAttributes(start) => {
            Some(wire::schedule("1", queue, start.input.clone(), ACTIVITY_MAX))
        }
        _ => None,
    }
}

/// Waits for a signal and completes with what it brings.
fn signalled(event: &Attributes) -> Option<Command> {
    match event {
        Attributes::WorkflowExecutionSignaledEventAttributes(signal) => Some(wire::complete(signal.input.clone())),
        _ => None,
    }
}
