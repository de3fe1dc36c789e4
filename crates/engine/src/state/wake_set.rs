//! The wake set: which events make a turn of a script necessary.
//!
//! Every event that becomes history passes [`note`]. A workflow task of a script is scheduled only if one of them is in
//! its wake set.

use segno_proto::events::{HistoryEvent, history_event::Attributes};

use crate::state::{
    RunState,
    script::{FIRST_GROUP, IGNORED, Script, ScriptOperation, ScriptWakeSet, WAKES},
};

/// Whether an open run has no use for a workflow task now.
pub(crate) fn sleeps(state: &RunState) -> bool {
    state.script.as_ref().is_some_and(|script| !script.awake)
}

/// A workflow task was placed or has failed: until one completes, the run needs one.
pub(crate) fn wake(state: &mut RunState) {
    if let Some(script) = &mut state.script {
        script.awake = true;
    }
}

/// Looks at an event that becomes history: does it make a turn necessary?
pub(crate) fn note(state: &mut RunState, event: &HistoryEvent) {
    use Attributes as A;
    let Some(script) = &mut state.script else { return };
    let Some(attributes) = &event.attributes else { return };
    match attributes {
        A::WorkflowExecutionSignaledEventAttributes(signaled) => {
            if script.wake.signals.binary_search(&signaled.signal_name).is_ok() {
                script.awake = true;
            } else {
                script.signals_waiting += 1;
            }
        }
        A::WorkflowExecutionStartedEventAttributes(_)
        | A::WorkflowExecutionCancelRequestedEventAttributes(_)
        | A::WorkflowExecutionUpdateAdmittedEventAttributes(_) => script.awake = true,
        A::ChildWorkflowExecutionStartedEventAttributes(started) => {
            let operation = find(&script.wake, started.initiated_event_id);
            if operation.is_some_and(|operation| operation.wakes_on_start) {
                script.awake = true;
            }
        }
        other => {
            if let Some((begun, completed)) = ended(other) {
                note_end(script, begun, completed);
            }
        }
    }
}

fn note_end(script: &mut Script, begun: i64, completed: bool) {
    let Some(operation) = find(&script.wake, begun) else { return };
    match operation.wake {
        IGNORED => {}
        WAKES => script.awake = true,
        group => {
            let place = (group - FIRST_GROUP) as usize;
            let (Some(group), Some(missing)) = (script.wake.groups.get(place), script.missing.get_mut(place)) else {
                script.awake = true;
                return;
            };
            let satisfies = if completed { group.completion_satisfies } else { group.failure_satisfies };
            if !satisfies {
                *missing = missing.saturating_sub(1);
            }
            if satisfies || *missing == 0 {
                script.awake = true;
            }
        }
    }
}

/// The event that began what this one ends, and whether it completed.
pub fn ended(attributes: &Attributes) -> Option<(i64, bool)> {
    use Attributes as A;
    Some(match attributes {
        A::ActivityTaskCompletedEventAttributes(a) => (a.scheduled_event_id, true),
        A::ActivityTaskFailedEventAttributes(a) => (a.scheduled_event_id, false),
        A::ActivityTaskTimedOutEventAttributes(a) => (a.scheduled_event_id, false),
        A::ActivityTaskCanceledEventAttributes(a) => (a.scheduled_event_id, false),
        A::NexusOperationCompletedEventAttributes(a) => (a.scheduled_event_id, true),
        A::NexusOperationFailedEventAttributes(a) => (a.scheduled_event_id, false),
        A::NexusOperationCanceledEventAttributes(a) => (a.scheduled_event_id, false),
        A::NexusOperationTimedOutEventAttributes(a) => (a.scheduled_event_id, false),
        A::TimerFiredEventAttributes(a) => (a.started_event_id, true),
        A::StartChildWorkflowExecutionFailedEventAttributes(a) => (a.initiated_event_id, false),
        A::ChildWorkflowExecutionCompletedEventAttributes(a) => (a.initiated_event_id, true),
        A::ChildWorkflowExecutionFailedEventAttributes(a) => (a.initiated_event_id, false),
        A::ChildWorkflowExecutionCanceledEventAttributes(a) => (a.initiated_event_id, false),
        A::ChildWorkflowExecutionTimedOutEventAttributes(a) => (a.initiated_event_id, false),
        A::ChildWorkflowExecutionTerminatedEventAttributes(a) => (a.initiated_event_id, false),
        A::ExternalWorkflowExecutionSignaledEventAttributes(a) => (a.initiated_event_id, true),
        A::SignalExternalWorkflowExecutionFailedEventAttributes(a) => (a.initiated_event_id, false),
        A::ExternalWorkflowExecutionCancelRequestedEventAttributes(a) => (a.initiated_event_id, true),
        A::RequestCancelExternalWorkflowExecutionFailedEventAttributes(a) => (a.initiated_event_id, false),
        _ => return None,
    })
}

/// The operation that began with this event.
pub fn find(wake: &ScriptWakeSet, begun: i64) -> Option<&ScriptOperation> {
    let place = wake.operations.binary_search_by_key(&begun, |operation| operation.event_id).ok()?;
    wake.operations.get(place)
}
