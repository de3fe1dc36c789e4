//! What workflows do, by the name of their type. Each flow answers a turn from its events alone.

use std::time::Duration;

use segno_proto::{
    command::Command,
    events::{HistoryEvent, history_event::Attributes},
};

use super::{
    updates,
    worker::{Answer, Turn},
};
use crate::wire;

/// Longest run of an activity.
pub const ACTIVITY_MAX: Duration = Duration::from_secs(60);

/// The answer of a workflow type to a turn; types nobody knows do nothing.
pub fn turn(kind: &str, turn: Turn<'_>) -> Answer {
    match kind {
        "one-activity" => latest(turn.events, |event| one_activity(event, turn.queue)).into(),
        "update-accepted" => updates::turn(turn.messages, true),
        "update-rejected" => updates::turn(turn.messages, false),
        _ => Answer::default(),
    }
}

/// The commands that follow from the latest event that has any.
pub fn latest(events: &[HistoryEvent], decide: impl Fn(&Attributes) -> Option<Command>) -> Vec<Command> {
    events.iter().rev().find_map(|event| event.attributes.as_ref().and_then(&decide)).into_iter().collect()
}

/// An activity, then its result.
fn one_activity(event: &Attributes, queue: &str) -> Option<Command> {
    match event {
        Attributes::ActivityTaskCompletedEventAttributes(done) => Some(wire::complete(done.result.clone())),
        Attributes::WorkflowExecutionStartedEventAttributes(_) => {
            Some(wire::schedule_activity(queue, "hello", ACTIVITY_MAX))
        }
        _ => None,
    }
}
