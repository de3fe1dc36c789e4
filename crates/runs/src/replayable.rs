//! The part of a history that a worker can replay: up to a completed workflow task and the events that its commands made.
//!
//! What follows, such as a signal and the workflow task that it scheduled, would let the worker go on instead of replaying, so it is
//! not sent to a worker that only tries whether its code fits.

use segno_proto::{
    History,
    enums::EventType,
    events::{HistoryEvent, history_event::Attributes},
};

use crate::{error::CallError, history::HistoryView, runs::Runs, slots::Current};

/// Batches read at a time.
const PAGE: usize = 256;

/// A completed workflow task in a history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CompletedTaskEvents {
    /// Its started event.
    pub started_event_id: i64,
    /// Its completed event.
    pub completed_event_id: i64,
    /// The last event that its commands made; the completed event if there is none.
    pub last_event_id: i64,
    /// The next task follows without any event between: the worker asked for it, because local activities go on.
    pub is_heartbeat: bool,
}

/// Whether an event is made by a command or a message of a worker, when its workflow task completes.
fn is_made_by_worker(kind: EventType) -> bool {
    matches!(
        kind,
        EventType::ActivityTaskScheduled
            | EventType::ActivityTaskCancelRequested
            | EventType::TimerStarted
            | EventType::TimerCanceled
            | EventType::MarkerRecorded
            | EventType::StartChildWorkflowExecutionInitiated
            | EventType::SignalExternalWorkflowExecutionInitiated
            | EventType::RequestCancelExternalWorkflowExecutionInitiated
            | EventType::UpsertWorkflowSearchAttributes
            | EventType::WorkflowPropertiesModified
            | EventType::WorkflowExecutionUpdateAccepted
            | EventType::WorkflowExecutionUpdateCompleted
            | EventType::NexusOperationScheduled
            | EventType::NexusOperationCancelRequested
    )
}

/// Adds the completed tasks of further events.
fn collect(tasks: &mut Vec<CompletedTaskEvents>, events: &[HistoryEvent]) {
    for event in events {
        if let Some(Attributes::WorkflowTaskCompletedEventAttributes(completed)) = &event.attributes {
            let id = event.event_id;
            let started_event_id = completed.started_event_id;
            let last_event_id = id;
            tasks.push(CompletedTaskEvents {
                started_event_id,
                completed_event_id: id,
                last_event_id,
                is_heartbeat: false,
            });
        } else if let Some(last) = tasks.last_mut()
            && last.last_event_id + 1 == event.event_id
        {
            let kind = event.event_type();
            if is_made_by_worker(kind) {
                last.last_event_id = event.event_id;
            } else {
                last.is_heartbeat = kind == EventType::WorkflowTaskScheduled;
            }
        }
    }
}

impl Runs {
    /// The workflow tasks of a run that were completed after an event, in order.
    pub async fn completed_tasks(&self, current: &Current, from: i64) -> Result<Vec<CompletedTaskEvents>, CallError> {
        let (mut tasks, mut next) = (Vec::new(), Some(from));
        while let Some(from) = next {
            let view = self.stored_history(current, from, PAGE).await?;
            collect(&mut tasks, &events_of(&view)?);
            next = view.next_event_id;
        }
        Ok(tasks)
    }

    /// Stored events from one on, up to another one.
    pub async fn stored_events(&self, current: &Current, from: i64, last: i64) -> Result<Vec<HistoryEvent>, CallError> {
        let (mut events, mut next) = (Vec::new(), Some(from));
        while let Some(from) = next.filter(|from| *from <= last) {
            let view = self.stored_history(current, from, PAGE).await?;
            events.extend(events_of(&view)?.into_iter().filter(|event| event.event_id <= last));
            next = view.next_event_id;
        }
        Ok(events)
    }

    /// Stored history from an event on, up to another one.
    pub async fn history_until(
        &self,
        current: &Current,
        from: i64,
        last: i64,
        batches_max: usize,
    ) -> Result<HistoryView, CallError> {
        let view = self.stored_history(current, from, batches_max).await?;
        let mut cut =
            HistoryView { batches: Vec::with_capacity(view.batches.len()), next_event_id: view.next_event_id };
        // Events are numbered without gaps.
        let mut end = from;
        for batch in view.batches {
            let mut count = |_| {
                end += 1;
                Ok(())
            };
            History::split_batch(&batch, &mut count).map_err(unreadable)?;
            if end > last + 1 {
                let events = decoded(&batch)?;
                cut.batches.push(History::encode_batch(events.iter().filter(|event| event.event_id <= last)));
                cut.next_event_id = None;
                return Ok(cut);
            }
            cut.batches.push(batch);
        }
        cut.next_event_id = cut.next_event_id.filter(|next| *next <= last);
        Ok(cut)
    }
}

fn decoded(batch: &bytes::Bytes) -> Result<Vec<HistoryEvent>, CallError> {
    let mut events = Vec::new();
    History::decode_batch(batch, &mut events).map_err(unreadable)?;
    Ok(events)
}

fn unreadable(error: prost::DecodeError) -> CallError {
    CallError::DataLoss(error.to_string())
}

fn events_of(view: &HistoryView) -> Result<Vec<HistoryEvent>, CallError> {
    let batches = view.batches.iter().map(decoded).collect::<Result<Vec<_>, _>>()?;
    Ok(batches.into_iter().flatten().collect())
}

#[cfg(test)]
mod tests {
    use segno_proto::events::{WorkflowTaskCompletedEventAttributes, history_event::Attributes};

    use super::*;

    fn event(event_id: i64, kind: EventType) -> HistoryEvent {
        let completed = WorkflowTaskCompletedEventAttributes { started_event_id: event_id - 1, ..Default::default() };
        let attributes = (kind == EventType::WorkflowTaskCompleted)
            .then_some(Attributes::WorkflowTaskCompletedEventAttributes(completed));
        HistoryEvent { event_id, event_type: kind as i32, attributes, ..Default::default() }
    }

    #[test]
    fn a_task_ends_with_the_events_of_its_commands() {
        use EventType::*;
        let kinds = [
            WorkflowExecutionStarted,
            WorkflowTaskScheduled,
            WorkflowTaskStarted,
            WorkflowTaskCompleted,
            TimerStarted,
            ActivityTaskScheduled,
            WorkflowExecutionSignaled,
            WorkflowTaskScheduled,
            WorkflowTaskStarted,
            WorkflowTaskCompleted,
            WorkflowExecutionSignaled,
            TimerStarted,
        ];
        let events: Vec<_> = (1..).zip(kinds).map(|(id, kind)| event(id, kind)).collect();
        let expected = [(3, 4, 6), (9, 10, 10)].map(|(started_event_id, completed_event_id, last_event_id)| {
            CompletedTaskEvents { started_event_id, completed_event_id, last_event_id, is_heartbeat: false }
        });
        let mut tasks = Vec::new();
        collect(&mut tasks, &events);
        assert_eq!(tasks, expected);
        let kinds = [WorkflowTaskStarted, WorkflowTaskCompleted, WorkflowTaskScheduled, WorkflowTaskStarted];
        let beat: Vec<_> = (2..).zip(kinds).map(|(id, kind)| event(id, kind)).collect();
        let mut found = Vec::new();
        collect(&mut found, &beat);
        assert!(found[0].is_heartbeat && found[0].last_event_id == 3);
        // Pages may end between a task and its events.
        let mut paged = Vec::new();
        events.chunks(5).for_each(|page| collect(&mut paged, page));
        assert_eq!(paged, expected);
    }
}
