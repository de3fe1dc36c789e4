//! Many activities at once; the workflow completes when all have come back.

use segno_proto::events::history_event::Attributes;

use super::ACTIVITY_MAX;
use crate::{
    load::worker::{Answer, WorkflowTask},
    wire,
};

/// Activities of one workflow.
pub const WIDTH: usize = 100;

/// All activities with the first workflow task; then their results are counted.
pub fn answer(task: WorkflowTask<'_>) -> Answer {
    let mut commands = Vec::new();
    for event in task.events {
        match &event.attributes {
            Some(Attributes::WorkflowExecutionStartedEventAttributes(start)) => {
                let ids = (1..=WIDTH).map(|id| id.to_string());
                commands
                    .extend(ids.map(|id| wire::schedule(&id, task.session.queue(), start.input.clone(), ACTIVITY_MAX)));
            }
            Some(Attributes::ActivityTaskScheduledEventAttributes(_)) => commands.clear(),
            Some(Attributes::ActivityTaskCompletedEventAttributes(done)) => {
                *task.seen += 1;
                if *task.seen == WIDTH {
                    commands.push(wire::complete(done.result.clone()));
                }
            }
            _ => {}
        }
    }
    commands.into()
}
