//! Many activities at once; the workflow completes when all have come back.

use segno_proto::events::history_event::Attributes;

use super::ACTIVITY_MAX;
use crate::{
    load::worker::{Answer, Turn},
    wire,
};

/// Activities of one workflow.
pub const WIDTH: usize = 100;

/// All activities in the first turn; then their results are counted.
pub fn turn(turn: Turn<'_>) -> Answer {
    let mut commands = Vec::new();
    for event in turn.events {
        match &event.attributes {
            Some(Attributes::WorkflowExecutionStartedEventAttributes(start)) => {
                let ids = (1..=WIDTH).map(|id| id.to_string());
                commands
                    .extend(ids.map(|id| wire::schedule(&id, turn.session.queue(), start.input.clone(), ACTIVITY_MAX)));
            }
            Some(Attributes::ActivityTaskScheduledEventAttributes(_)) => commands.clear(),
            Some(Attributes::ActivityTaskCompletedEventAttributes(done)) => {
                *turn.seen += 1;
                if *turn.seen == WIDTH {
                    commands.push(wire::complete(done.result.clone()));
                }
            }
            _ => {}
        }
    }
    commands.into()
}
