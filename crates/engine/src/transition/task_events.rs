//! The events of a workflow task: written to history at once, later or never.

use segno_proto::{
    enums::TaskQueueKind,
    events::{
        HistoryEvent, WorkflowTaskScheduledEventAttributes, WorkflowTaskStartedEventAttributes,
        history_event::Attributes,
    },
    nanos_duration,
    taskqueue::TaskQueue,
};

use crate::{
    events::event,
    state::{TaskKind, WorkflowTask, run::Run},
};

/// The queue a task was put on, as the wire has it.
pub fn queue_of(run: &Run, task: &WorkflowTask) -> TaskQueue {
    if task.sticky {
        TaskQueue {
            name: task.queue.clone(),
            kind: TaskQueueKind::Sticky as i32,
            normal_name: run.info.task_queue.clone(),
        }
    } else {
        TaskQueue { name: task.queue.clone(), kind: TaskQueueKind::Normal as i32, normal_name: String::new() }
    }
}

pub(crate) fn scheduled_event(run: &Run, task: &WorkflowTask) -> HistoryEvent {
    let mut scheduled = event(
        task.scheduled_time,
        Attributes::WorkflowTaskScheduledEventAttributes(WorkflowTaskScheduledEventAttributes {
            task_queue: Some(queue_of(run, task)),
            start_to_close_timeout: Some(nanos_duration(task.start_to_close)),
            attempt: task.attempt,
        }),
    );
    scheduled.event_id = task.scheduled_event_id;
    scheduled.task_id = task.scheduled_event_id;
    scheduled
}

pub(crate) fn started_event(task: &WorkflowTask, identity: &str) -> HistoryEvent {
    let mut started = event(
        task.started_time,
        Attributes::WorkflowTaskStartedEventAttributes(WorkflowTaskStartedEventAttributes {
            scheduled_event_id: task.scheduled_event_id,
            identity: identity.to_owned(),
            request_id: task.request_id.clone(),
            suggest_continue_as_new: task.suggest_continue_as_new,
            suggest_continue_as_new_reasons: task.suggest_reasons.clone(),
            history_size_bytes: task.history_bytes,
            target_worker_deployment_version_changed: task.target_changed,
            worker_version: task.worker_version.clone(),
            ..Default::default()
        }),
    );
    started.event_id = task.started_event_id;
    started.task_id = task.started_event_id;
    started
}

/// Events of the pending task that are shown to workers but not part of history: those of transient and speculative
/// tasks. Reads of the end of history for a worker append them. Only the worker itself sees its own identity.
pub fn unwritten_events(run: &Run, for_its_worker: bool) -> Vec<HistoryEvent> {
    let Some(task) = &run.state.task else { return Vec::new() };
    if !task.is_transient() && task.kind() != TaskKind::Speculative {
        return Vec::new();
    }
    if task.scheduled_event_id != run.state.next_event_id {
        return Vec::new();
    }
    let mut events = vec![scheduled_event(run, task)];
    if task.started_event_id != 0 {
        events.push(started_event(task, if for_its_worker { &task.identity } else { "" }));
    }
    events
}
