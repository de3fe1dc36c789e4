//! What the history of a run tells of its state, as an independent reader of history sees it. The simulation has these rules, too
//! (`tools/simulation`): they need a run and its events, no more.

use std::collections::{BTreeMap, BTreeSet};

use segno_engine::{BUFFERED_EVENT_ID, Run, state::UpdateRecord};
use segno_proto::{
    Nanos, duration_nanos,
    enums::{EventType, WorkflowTaskFailedCause},
    events::{HistoryEvent, history_event::Attributes as A},
    timestamp_nanos,
};

/// What is pending, as an independent reader of history sees it.
#[derive(Debug, Default, PartialEq)]
pub struct PendingWork {
    pub activities: BTreeSet<i64>,
    pub timers: BTreeSet<i64>,
    pub children: BTreeSet<i64>,
    pub signals: BTreeSet<i64>,
    pub cancels: BTreeSet<i64>,
    /// Nexus operations, and whether the handler has started them.
    pub operations: BTreeMap<i64, bool>,
    /// Scheduled event of an open workflow task, and its started event.
    pub task: Option<(i64, Option<i64>)>,
    /// Updates that left a trace.
    pub updates: BTreeMap<String, UpdateRecord>,
}

/// Everything that a run and its history must agree on.
pub fn check_run(run: &Run, history: &[HistoryEvent]) {
    if run.state().is_standalone() {
        check_alone(run, history);
    } else {
        check_history(history);
        check_state(run, history);
    }
}

/// A run without a workflow: its history has its start and its end alone, and its state the outcome.
fn check_alone(run: &Run, history: &[HistoryEvent]) {
    let state = run.state();
    assert!(state.task.is_none() && state.buffered.is_empty(), "a run without a workflow has no workflow tasks");
    let has_ended = state.standalone_nexus.as_ref().is_some_and(|alone| alone.outcome.is_some());
    assert_eq!(run.is_running(), !has_ended, "it is closed exactly if it has an outcome");
    assert_eq!(run.is_running(), !state.operations.is_empty(), "its operation is pending as long as it is open");
    assert_eq!(history.len(), if has_ended { 3 } else { 2 }, "{history:#?}");
}

/// Ids without gaps, one closing event at the end, references that fit.
pub fn check_history(history: &[HistoryEvent]) {
    for (index, event) in history.iter().enumerate() {
        assert_eq!(event.event_id, index as i64 + 1, "event ids have a gap: {history:#?}");
        let closing = is_closing(event.event_type());
        assert!(!closing || index + 1 == history.len(), "events after the closing event");
    }
    assert_eq!(history.first().map(HistoryEvent::event_type), Some(EventType::WorkflowExecutionStarted));
    let mut timers: BTreeMap<i64, Nanos> = BTreeMap::new();
    for event in history {
        check_references(history, event);
        let time = event.event_time.as_ref().map_or(0, timestamp_nanos);
        match &event.attributes {
            Some(A::TimerStartedEventAttributes(a)) => {
                timers.insert(event.event_id, time + duration_nanos(a.start_to_fire_timeout.as_ref()));
            }
            Some(A::TimerFiredEventAttributes(a)) => {
                let due = timers.remove(&a.started_event_id).expect("a timer fires once");
                assert!(time >= due, "timer {} fired {} ns early", a.timer_id, due - time);
            }
            Some(A::TimerCanceledEventAttributes(a)) => {
                timers.remove(&a.started_event_id).expect("a timer that is canceled was pending");
            }
            _ => {}
        }
    }
    replay(history, &[]);
}

fn is_closing(kind: EventType) -> bool {
    matches!(
        kind,
        EventType::WorkflowExecutionCompleted
            | EventType::WorkflowExecutionFailed
            | EventType::WorkflowExecutionTimedOut
            | EventType::WorkflowExecutionCanceled
            | EventType::WorkflowExecutionTerminated
            | EventType::WorkflowExecutionContinuedAsNew
    )
}

/// Each id an event names is that of an earlier event of the right type.
fn check_references(history: &[HistoryEvent], event: &HistoryEvent) {
    use EventType as T;
    let refers = |id: i64, kind: T| {
        let found = history.get((id - 1).max(0) as usize).filter(|_| id > 0 && id < event.event_id);
        let found = found.map(HistoryEvent::event_type);
        assert_eq!(found, Some(kind), "event {} refers to {id}: {event:?}", event.event_id);
    };
    let maybe = |id: i64, kind: T| {
        if id != 0 {
            refers(id, kind);
        }
    };
    match &event.attributes {
        Some(A::WorkflowTaskStartedEventAttributes(a)) => refers(a.scheduled_event_id, T::WorkflowTaskScheduled),
        Some(A::WorkflowTaskCompletedEventAttributes(a)) => {
            refers(a.scheduled_event_id, T::WorkflowTaskScheduled);
            refers(a.started_event_id, T::WorkflowTaskStarted);
        }
        Some(A::WorkflowTaskFailedEventAttributes(a)) => {
            refers(a.scheduled_event_id, T::WorkflowTaskScheduled);
            match a.cause() {
                // No worker had it.
                WorkflowTaskFailedCause::WorkflowPauseRequestedBeforeTaskStarted => assert_eq!(a.started_event_id, 0),
                _ => refers(a.started_event_id, T::WorkflowTaskStarted),
            }
        }
        Some(A::WorkflowTaskTimedOutEventAttributes(a)) => {
            refers(a.scheduled_event_id, T::WorkflowTaskScheduled);
            maybe(a.started_event_id, T::WorkflowTaskStarted);
        }
        Some(A::ActivityTaskScheduledEventAttributes(a)) => {
            refers(a.workflow_task_completed_event_id, T::WorkflowTaskCompleted);
        }
        Some(A::ActivityTaskStartedEventAttributes(a)) => refers(a.scheduled_event_id, T::ActivityTaskScheduled),
        Some(A::ActivityTaskCompletedEventAttributes(a)) => {
            refers(a.scheduled_event_id, T::ActivityTaskScheduled);
            refers(a.started_event_id, T::ActivityTaskStarted);
        }
        Some(A::ActivityTaskFailedEventAttributes(a)) => {
            refers(a.scheduled_event_id, T::ActivityTaskScheduled);
            maybe(a.started_event_id, T::ActivityTaskStarted);
        }
        Some(A::ActivityTaskTimedOutEventAttributes(a)) => {
            refers(a.scheduled_event_id, T::ActivityTaskScheduled);
            maybe(a.started_event_id, T::ActivityTaskStarted);
        }
        Some(A::ActivityTaskCancelRequestedEventAttributes(a)) => {
            refers(a.scheduled_event_id, T::ActivityTaskScheduled);
        }
        Some(A::ActivityTaskCanceledEventAttributes(a)) => {
            refers(a.scheduled_event_id, T::ActivityTaskScheduled);
            maybe(a.started_event_id, T::ActivityTaskStarted);
            refers(a.latest_cancel_requested_event_id, T::ActivityTaskCancelRequested);
        }
        Some(A::TimerFiredEventAttributes(a)) => refers(a.started_event_id, T::TimerStarted),
        Some(A::TimerCanceledEventAttributes(a)) => refers(a.started_event_id, T::TimerStarted),
        Some(A::ChildWorkflowExecutionStartedEventAttributes(a)) => {
            refers(a.initiated_event_id, T::StartChildWorkflowExecutionInitiated);
        }
        Some(A::StartChildWorkflowExecutionFailedEventAttributes(a)) => {
            refers(a.initiated_event_id, T::StartChildWorkflowExecutionInitiated);
        }
        Some(A::ChildWorkflowExecutionCompletedEventAttributes(a)) => {
            refers(a.initiated_event_id, T::StartChildWorkflowExecutionInitiated);
            refers(a.started_event_id, T::ChildWorkflowExecutionStarted);
        }
        Some(A::ChildWorkflowExecutionFailedEventAttributes(a)) => {
            refers(a.initiated_event_id, T::StartChildWorkflowExecutionInitiated);
            refers(a.started_event_id, T::ChildWorkflowExecutionStarted);
        }
        Some(A::ChildWorkflowExecutionTerminatedEventAttributes(a)) => {
            refers(a.initiated_event_id, T::StartChildWorkflowExecutionInitiated);
            refers(a.started_event_id, T::ChildWorkflowExecutionStarted);
        }
        Some(A::ChildWorkflowExecutionCanceledEventAttributes(a)) => {
            refers(a.initiated_event_id, T::StartChildWorkflowExecutionInitiated);
            refers(a.started_event_id, T::ChildWorkflowExecutionStarted);
        }
        Some(A::ChildWorkflowExecutionTimedOutEventAttributes(a)) => {
            refers(a.initiated_event_id, T::StartChildWorkflowExecutionInitiated);
            refers(a.started_event_id, T::ChildWorkflowExecutionStarted);
        }
        Some(A::WorkflowExecutionCompletedEventAttributes(a)) => {
            refers(a.workflow_task_completed_event_id, T::WorkflowTaskCompleted);
        }
        Some(A::NexusOperationStartedEventAttributes(a)) => refers(a.scheduled_event_id, T::NexusOperationScheduled),
        Some(A::NexusOperationCompletedEventAttributes(a)) => refers(a.scheduled_event_id, T::NexusOperationScheduled),
        Some(A::NexusOperationFailedEventAttributes(a)) => refers(a.scheduled_event_id, T::NexusOperationScheduled),
        Some(A::NexusOperationCanceledEventAttributes(a)) => refers(a.scheduled_event_id, T::NexusOperationScheduled),
        Some(A::NexusOperationTimedOutEventAttributes(a)) => refers(a.scheduled_event_id, T::NexusOperationScheduled),
        Some(A::NexusOperationCancelRequestedEventAttributes(a)) => {
            refers(a.scheduled_event_id, T::NexusOperationScheduled);
        }
        Some(A::NexusOperationCancelRequestCompletedEventAttributes(a)) => {
            refers(a.scheduled_event_id, T::NexusOperationScheduled);
            refers(a.requested_event_id, T::NexusOperationCancelRequested);
        }
        Some(A::NexusOperationCancelRequestFailedEventAttributes(a)) => {
            refers(a.scheduled_event_id, T::NexusOperationScheduled);
            refers(a.requested_event_id, T::NexusOperationCancelRequested);
        }
        Some(A::WorkflowExecutionUpdateCompletedEventAttributes(a)) => {
            refers(a.accepted_event_id, T::WorkflowExecutionUpdateAccepted);
        }
        _ => {}
    }
}

/// What state says of updates is what history says, and none waits without a task that will bring it to a worker.
fn check_updates(run: &Run, of_history: &BTreeMap<String, UpdateRecord>) {
    let of_state = &run.update_records();
    // An admission that was refused while it was buffered never became history.
    let untold = |record: &UpdateRecord| record.rejection.is_some() && record.admitted_event_id == 0;
    for (id, record) in of_state.iter().filter(|(_, record)| !untold(record)) {
        let told = of_history.get(id).unwrap_or_else(|| panic!("history does not know update {id}: {record:?}"));
        assert_eq!(told.accepted_event_id, record.accepted_event_id, "update {id}");
        assert_eq!(told.completed_event_id, record.completed_event_id, "update {id}");
        // Asked again in memory after it was rejected, it forgets that an event admitted it once.
        assert!([0, told.admitted_event_id].contains(&record.admitted_event_id), "update {id}: {record:?}");
    }
    for (id, record) in of_history {
        // One that was admitted by an event and then rejected is forgotten: a rejection is no event.
        let rejected = record.accepted_event_id == 0;
        assert!(rejected || of_state.contains_key(id), "update {id} is lost: {record:?}");
    }
    let waiting = run.updates().waiting();
    for (place, update) in waiting.iter().enumerate() {
        assert!(waiting[..place].iter().all(|other| other.id != update.id), "update {} waits twice", update.id);
        let record = of_state.get(&update.id);
        assert_eq!(record.is_some(), update.request.is_none(), "update {} is asked in one place", update.id);
        assert!(record.is_none_or(|record| record.accepted_event_id == 0), "update {} was accepted", update.id);
    }
    for (id, record) in
        of_state.iter().filter(|(_, record)| record.accepted_event_id == 0 && record.rejection.is_none())
    {
        assert!(waiting.iter().any(|update| update.id == *id), "update {id} is admitted by {record:?} and lost");
    }
    // The first task of a run brings what another run left to it, when it is due.
    let brought = run.state().task.is_some() || run.state().first_task_due > 0 || run.is_paused();
    assert!(waiting.is_empty() || brought, "updates wait and no workflow task will bring them");
    if run.is_speculating() {
        assert!(!waiting.is_empty(), "a speculative task with nothing to bring");
    }
}

/// The run's state is what history says.
fn check_state(run: &Run, history: &[HistoryEvent]) {
    let state = run.state();
    assert_eq!(state.next_event_id, history.len() as i64 + 1);
    assert_eq!(run.is_paused(), run.is_running() && state.pause.is_some(), "who paused it is known");
    assert!(!run.is_paused() || !run.is_dispatchable(Nanos::MAX), "something of a paused run would be handed out");
    let closed = history.last().is_some_and(|last| is_closing(last.event_type()));
    assert_eq!(run.is_running(), !closed, "a run is closed by its closing event");
    for event in &state.buffered {
        assert_eq!(event.event_id, BUFFERED_EVENT_ID);
    }
    if !state.task_started() {
        assert!(state.buffered.is_empty(), "events wait although no worker holds a task");
    }
    let seen = replay(history, &state.buffered);
    let (of_history, of_state) = (&seen, pending_of(run));
    let mut activities = of_history.activities.clone();
    if closed {
        // Canceled before it was started, in the very answer that closed the run: its end is no event, as in Temporal.
        activities.retain(|id| of_state.activities.contains(id) || !was_cancelled_by_last_answer(history, *id));
    }
    assert_eq!(activities, of_state.activities, "activities");
    assert_eq!(of_history.children, of_state.children, "children");
    assert_eq!(of_history.operations, of_state.operations, "operations");
    if run.is_running() {
        assert_eq!(of_history.timers, of_state.timers, "timers");
        assert_eq!(of_history.signals, of_state.signals, "signals to others");
        assert_eq!(of_history.cancels, of_state.cancels, "cancels of others");
        assert_eq!(of_history.task, of_state.task, "workflow task");
        check_updates(run, &of_history.updates);
        let held_back = state.first_task_due > 0 || run.is_paused();
        assert!(
            state.task.is_some() || !history.last().is_some_and(|last| needs_task(last.event_type())) || held_back,
            "something happened and no workflow task was scheduled: {:?}",
            history.last()
        );
    } else {
        assert!(state.timers.is_empty() && state.external_signals.is_empty() && state.external_cancels.is_empty());
    }
}

fn was_cancelled_by_last_answer(history: &[HistoryEvent], activity: i64) -> bool {
    let answer = history.iter().rfind(|event| event.event_type() == EventType::WorkflowTaskCompleted);
    history.iter().any(|event| match &event.attributes {
        Some(A::ActivityTaskCancelRequestedEventAttributes(a)) => {
            let last = answer.is_some_and(|answer| answer.event_id == a.workflow_task_completed_event_id);
            a.scheduled_event_id == activity && last
        }
        _ => false,
    })
}

/// Events that the workflow must be told of.
fn needs_task(kind: EventType) -> bool {
    use EventType as T;
    matches!(
        kind,
        T::WorkflowExecutionStarted
            | T::WorkflowTaskFailed
            | T::WorkflowTaskTimedOut
            | T::ActivityTaskCompleted
            | T::ActivityTaskFailed
            | T::ActivityTaskTimedOut
            | T::ActivityTaskCanceled
            | T::TimerFired
            | T::WorkflowExecutionSignaled
            | T::WorkflowExecutionCancelRequested
            | T::ChildWorkflowExecutionStarted
            | T::ChildWorkflowExecutionCompleted
            | T::ChildWorkflowExecutionFailed
            | T::ChildWorkflowExecutionTerminated
            | T::StartChildWorkflowExecutionFailed
            | T::ExternalWorkflowExecutionSignaled
            | T::SignalExternalWorkflowExecutionFailed
            | T::ExternalWorkflowExecutionCancelRequested
            | T::RequestCancelExternalWorkflowExecutionFailed
            | T::WorkflowExecutionUpdateAdmitted
            | T::NexusOperationStarted
            | T::NexusOperationCompleted
            | T::NexusOperationFailed
            | T::NexusOperationCanceled
            | T::NexusOperationTimedOut
            | T::NexusOperationCancelRequestCompleted
            | T::NexusOperationCancelRequestFailed
    )
}

/// What state says is pending.
fn pending_of(run: &Run) -> PendingWork {
    let state = run.state();
    let task = state.task.as_ref().filter(|task| !task.is_transient() && !run.is_speculating());
    PendingWork {
        activities: state.activities.keys().copied().collect(),
        timers: state.timers.values().map(|timer| timer.started_event_id).collect(),
        children: state.children.keys().copied().collect(),
        signals: state.external_signals.keys().copied().collect(),
        cancels: state.external_cancels.keys().copied().collect(),
        operations: state.operations.iter().map(|(id, operation)| (*id, operation.is_started())).collect(),
        task: task.map(|task| (task.scheduled_event_id, Some(task.started_event_id).filter(|id| *id != 0))),
        updates: run.update_records(),
    }
}

/// Derives from history, and from what waits to become history, what is pending. Panics if something ends twice.
pub fn replay(history: &[HistoryEvent], buffered: &[HistoryEvent]) -> PendingWork {
    let mut pending = PendingWork::default();
    for event in history.iter().chain(buffered) {
        let id = event.event_id;
        let ends = |set: &mut BTreeSet<i64>, id: i64| assert!(set.remove(&id), "{id} ends twice: {event:?}");
        match &event.attributes {
            Some(A::ActivityTaskScheduledEventAttributes(_)) => drop(pending.activities.insert(id)),
            Some(A::ActivityTaskCompletedEventAttributes(a)) => ends(&mut pending.activities, a.scheduled_event_id),
            Some(A::ActivityTaskFailedEventAttributes(a)) => ends(&mut pending.activities, a.scheduled_event_id),
            Some(A::ActivityTaskTimedOutEventAttributes(a)) => ends(&mut pending.activities, a.scheduled_event_id),
            Some(A::ActivityTaskCanceledEventAttributes(a)) => ends(&mut pending.activities, a.scheduled_event_id),
            Some(A::TimerStartedEventAttributes(_)) => drop(pending.timers.insert(id)),
            Some(A::TimerFiredEventAttributes(a)) => ends(&mut pending.timers, a.started_event_id),
            Some(A::TimerCanceledEventAttributes(a)) => ends(&mut pending.timers, a.started_event_id),
            Some(A::StartChildWorkflowExecutionInitiatedEventAttributes(_)) => drop(pending.children.insert(id)),
            Some(A::StartChildWorkflowExecutionFailedEventAttributes(a)) => {
                ends(&mut pending.children, a.initiated_event_id);
            }
            Some(A::ChildWorkflowExecutionCompletedEventAttributes(a)) => {
                ends(&mut pending.children, a.initiated_event_id);
            }
            Some(A::ChildWorkflowExecutionFailedEventAttributes(a)) => {
                ends(&mut pending.children, a.initiated_event_id)
            }
            Some(A::ChildWorkflowExecutionCanceledEventAttributes(a)) => {
                ends(&mut pending.children, a.initiated_event_id);
            }
            Some(A::ChildWorkflowExecutionTimedOutEventAttributes(a)) => {
                ends(&mut pending.children, a.initiated_event_id);
            }
            Some(A::ChildWorkflowExecutionTerminatedEventAttributes(a)) => {
                ends(&mut pending.children, a.initiated_event_id);
            }
            Some(A::SignalExternalWorkflowExecutionInitiatedEventAttributes(_)) => drop(pending.signals.insert(id)),
            Some(A::SignalExternalWorkflowExecutionFailedEventAttributes(a)) => {
                ends(&mut pending.signals, a.initiated_event_id);
            }
            Some(A::ExternalWorkflowExecutionSignaledEventAttributes(a)) => {
                ends(&mut pending.signals, a.initiated_event_id);
            }
            Some(A::RequestCancelExternalWorkflowExecutionInitiatedEventAttributes(_)) => {
                pending.cancels.insert(id);
            }
            Some(A::RequestCancelExternalWorkflowExecutionFailedEventAttributes(a)) => {
                ends(&mut pending.cancels, a.initiated_event_id);
            }
            Some(A::ExternalWorkflowExecutionCancelRequestedEventAttributes(a)) => {
                ends(&mut pending.cancels, a.initiated_event_id);
            }
            Some(A::NexusOperationScheduledEventAttributes(_)) => drop(pending.operations.insert(id, false)),
            Some(A::NexusOperationStartedEventAttributes(a)) => {
                let before = pending.operations.insert(a.scheduled_event_id, true);
                assert_eq!(before, Some(false), "an operation starts once, and before it ends: {event:?}");
            }
            Some(A::NexusOperationCompletedEventAttributes(a)) => {
                assert!(pending.operations.remove(&a.scheduled_event_id).is_some(), "it ends twice: {event:?}");
            }
            Some(A::NexusOperationFailedEventAttributes(a)) => {
                assert!(pending.operations.remove(&a.scheduled_event_id).is_some(), "it ends twice: {event:?}");
            }
            Some(A::NexusOperationCanceledEventAttributes(a)) => {
                assert!(pending.operations.remove(&a.scheduled_event_id).is_some(), "it ends twice: {event:?}");
            }
            Some(A::NexusOperationTimedOutEventAttributes(a)) => {
                assert!(pending.operations.remove(&a.scheduled_event_id).is_some(), "it ends twice: {event:?}");
            }
            Some(A::NexusOperationCancelRequestCompletedEventAttributes(a)) => {
                let started = pending.operations.get(&a.scheduled_event_id);
                assert_eq!(started, Some(&true), "only an operation that is started is cancelled: {event:?}");
            }
            Some(A::NexusOperationCancelRequestFailedEventAttributes(a)) => {
                let started = pending.operations.get(&a.scheduled_event_id);
                assert_eq!(started, Some(&true), "only an operation that is started is cancelled: {event:?}");
            }
            Some(A::WorkflowExecutionUpdateAdmittedEventAttributes(a)) => {
                let meta = a.request.as_ref().and_then(|request| request.meta.as_ref());
                let update = meta.expect("an update has an id").update_id.clone();
                let record = pending.updates.entry(update).or_default();
                assert_eq!(record.accepted_event_id, 0, "admitted after it was accepted: {event:?}");
                record.admitted_event_id = id;
            }
            Some(A::WorkflowExecutionUpdateAcceptedEventAttributes(a)) => {
                let record = pending.updates.entry(a.protocol_instance_id.clone()).or_default();
                assert_eq!(record.accepted_event_id, 0, "accepted twice: {event:?}");
                assert!(a.accepted_request.is_some() || record.admitted_event_id != 0, "never asked: {event:?}");
                record.accepted_event_id = id;
            }
            Some(A::WorkflowExecutionUpdateCompletedEventAttributes(a)) => {
                let update = a.meta.as_ref().expect("an update has an id").update_id.clone();
                let record = pending.updates.get_mut(&update).expect("it was accepted");
                assert_eq!(record.accepted_event_id, a.accepted_event_id, "accepted first: {event:?}");
                assert_eq!(record.completed_event_id, 0, "completed twice: {event:?}");
                record.completed_event_id = id;
            }
            Some(A::WorkflowTaskScheduledEventAttributes(_)) => {
                assert_eq!(pending.task, None, "a second workflow task");
                pending.task = Some((id, None));
            }
            Some(A::WorkflowTaskStartedEventAttributes(a)) => {
                assert_eq!(pending.task, Some((a.scheduled_event_id, None)), "a workflow task starts once");
                pending.task = Some((a.scheduled_event_id, Some(id)));
            }
            Some(
                A::WorkflowTaskCompletedEventAttributes(_)
                | A::WorkflowTaskFailedEventAttributes(_)
                | A::WorkflowTaskTimedOutEventAttributes(_),
            ) => {
                assert!(pending.task.is_some(), "a workflow task ends once: {event:?}");
                pending.task = None;
            }
            _ => {}
        }
    }
    pending
}
