//! A workflow that sleeps until the moment all others of the load wake up too.

use segno_proto::{
    command::{Command, StartTimerCommandAttributes, command},
    enums::CommandType,
    events::history_event::Attributes,
};

use super::latest;
use crate::{
    load::worker::{Answer, WorkflowTask},
    wire,
};

/// A timer that is due when the load says; when it fired, the end, which counts as one operation.
pub fn answer(task: WorkflowTask<'_>) -> Answer {
    let fired =
        task.events.iter().any(|event| matches!(event.attributes, Some(Attributes::TimerFiredEventAttributes(_))));
    let mut answer = Answer::from(latest(task.events, |event| match event {
        Attributes::TimerFiredEventAttributes(_) => Some(wire::complete(wire::text("hello"))),
        Attributes::WorkflowExecutionStartedEventAttributes(_) if task.is_first => {
            Some(sleep(task.session.alarm.set()))
        }
        _ => None,
    }));
    answer.finishes = fired.then(|| task.session.alarm.due());
    answer
}

fn sleep(left_ms: u64) -> Command {
    let attributes =
        StartTimerCommandAttributes { timer_id: "1".to_owned(), start_to_fire_timeout: Some(wire::millis(left_ms)) };
    wire::command(CommandType::StartTimer, command::Attributes::StartTimerCommandAttributes(attributes))
}
