//! Splits a history into workflow tasks, one per completed workflow task.

use std::iter::Peekable;

use segno_proto::{
    deployment::WorkerDeploymentVersion,
    enums::EventType,
    events::{HistoryEvent, history_event::Attributes},
    timestamp_nanos,
};

use super::matching::is_command_event;

/// One workflow task.
#[derive(Debug, Default)]
pub(crate) struct HistoryTask {
    pub started_event_id: i64,
    /// When its workflow task was started.
    pub time: i64,
    pub suggest_continue_as_new: bool,
    pub target_version_changed: bool,
    pub history_size: i64,
    /// The events before it, in order.
    pub inbound: Vec<HistoryEvent>,
    /// The events of its commands; `None` for the one that is to be answered.
    pub batch: Option<Batch>,
}

/// The events that the commands of a workflow task became.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    pub completed_event_id: i64,
    /// The version of the worker that completed it.
    pub version: Option<WorkerDeploymentVersion>,
    pub events: Vec<HistoryEvent>,
}

/// The next part of a history.
#[derive(Debug)]
pub(crate) enum Part {
    HistoryTask(HistoryTask),
    /// The commands of a workflow task that was answered before.
    Batch(Batch),
    /// The answer to that workflow task was not taken.
    NotTaken,
}

/// Why events make no sense.
#[derive(Debug)]
pub(crate) struct Gap {
    pub expected: i64,
    pub found: i64,
}

/// Remembers what it has seen, so that events can come in parts.
#[derive(Debug, Default)]
pub(crate) struct Splitter {
    inbound: Vec<HistoryEvent>,
    /// The last event seen.
    last: i64,
    /// A workflow task is made, its batch is still to come.
    answered: bool,
}

impl Splitter {
    /// The live workflow task was answered: its batch comes with the next events.
    pub fn answered(&mut self) {
        self.answered = true;
    }

    /// The server dropped the workflow task: history goes on after this event.
    pub fn reset_to(&mut self, event_id: i64) {
        self.answered = false;
        self.last = event_id;
    }

    pub fn last_event(&self) -> i64 {
        self.last
    }

    /// Takes the next part off the events; `None` at their end. With `answer` a workflow task that was started last is
    /// the one to be answered.
    pub fn next<I: Iterator<Item = HistoryEvent>>(
        &mut self,
        events: &mut Peekable<I>,
        answer: bool,
    ) -> Result<Option<Part>, Gap> {
        while let Some(event) = events.next() {
            if event.event_id <= self.last {
                continue;
            }
            if event.event_id != self.last + 1 {
                return Err(Gap { expected: self.last + 1, found: event.event_id });
            }
            self.last = event.event_id;
            match event.event_type() {
                EventType::WorkflowTaskStarted => {
                    let next = events.peek().map(HistoryEvent::event_type);
                    let is_completed = match next {
                        Some(EventType::WorkflowTaskCompleted) => true,
                        None if answer => true,
                        // A query came while the task is under way: the task itself is still to be answered.
                        None => {
                            self.last = event.event_id - 1;
                            return Ok(None);
                        }
                        // Failed and timed-out ones are no workflow tasks.
                        Some(_) => false,
                    };
                    if !is_completed {
                        continue;
                    }
                    let mut task = HistoryTask {
                        started_event_id: event.event_id,
                        time: event.event_time.as_ref().map(timestamp_nanos).unwrap_or_default(),
                        inbound: std::mem::take(&mut self.inbound),
                        ..HistoryTask::default()
                    };
                    if let Some(Attributes::WorkflowTaskStartedEventAttributes(started)) = &event.attributes {
                        task.suggest_continue_as_new = started.suggest_continue_as_new;
                        task.target_version_changed = started.target_worker_deployment_version_changed;
                        task.history_size = started.history_size_bytes;
                    }
                    if next.is_some() {
                        task.batch = events.next().map(|completed| take_batch(&mut self.last, &completed, events));
                    }
                    return Ok(Some(Part::HistoryTask(task)));
                }
                EventType::WorkflowTaskCompleted if self.answered => {
                    self.answered = false;
                    return Ok(Some(Part::Batch(take_batch(&mut self.last, &event, events))));
                }
                EventType::WorkflowTaskFailed | EventType::WorkflowTaskTimedOut if self.answered => {
                    return Ok(Some(Part::NotTaken));
                }
                EventType::WorkflowTaskScheduled | EventType::WorkflowTaskTimedOut => {}
                _ => self.inbound.push(event),
            }
        }
        Ok(None)
    }
}

fn take_batch(
    last: &mut i64,
    completed: &HistoryEvent,
    events: &mut Peekable<impl Iterator<Item = HistoryEvent>>,
) -> Batch {
    *last = completed.event_id;
    let version = match &completed.attributes {
        Some(Attributes::WorkflowTaskCompletedEventAttributes(completed)) => completed.deployment_version.clone(),
        _ => None,
    };
    let mut batch = Batch { completed_event_id: completed.event_id, version, events: Vec::new() };
    while let Some(event) = events.next_if(|event| is_command_event(event.event_type()) && event.event_id == *last + 1)
    {
        *last = event.event_id;
        batch.events.push(event);
    }
    batch
}
