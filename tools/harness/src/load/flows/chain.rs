//! Activities one after the other. The input of each says which it is, of how many, and when it was scheduled; the
//! activity gives it back, so that the workflow needs no memory and each step has a latency.

use segno_proto::{command::Command, events::history_event::Attributes};

use super::ACTIVITY_MAX;
use crate::{
    load::{
        session::Session,
        worker::{Answer, WorkflowTask},
    },
    wire,
};

/// The input of a workflow that is to take so many steps.
pub fn plan(steps: usize) -> String {
    format!("0/{steps}/0")
}

/// The next step, or the end. Each step that came back is a finished step for the counter of steps.
pub fn answer(task: WorkflowTask<'_>) -> Answer {
    let latest = task.events.iter().rev().find_map(|event| match event.attributes.as_ref()? {
        Attributes::ActivityTaskCompletedEventAttributes(done) => Some(wire::untext(done.result.as_ref())),
        Attributes::WorkflowExecutionStartedEventAttributes(start) => Some(wire::untext(start.input.as_ref())),
        _ => None,
    });
    let Some(text) = latest else { return Answer::default() };
    let mut numbers = text.split('/').map(|number| number.parse::<u64>().unwrap_or(0));
    let mut number = || numbers.next().unwrap_or(0);
    let (done, steps, scheduled_us) = (number(), number(), number());
    let mut answer = Answer::from(vec![next(task.session, done, steps)]);
    if done > 0 && task.session.load.workload.counts_steps() {
        answer.finishes = Some(task.session.moment(scheduled_us));
    }
    answer
}

fn next(session: &Session, done: u64, steps: u64) -> Command {
    if done >= steps {
        return wire::complete(wire::text("hello"));
    }
    let step = done + 1;
    let input = wire::text(&format!("{step}/{steps}/{}", session.now_us()));
    wire::schedule(&step.to_string(), session.queue(), input, ACTIVITY_MAX)
}
