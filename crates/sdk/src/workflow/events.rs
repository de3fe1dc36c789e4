//! Applies an event of history to the workflow.

use segno_proto::{
    common::Payload,
    enums::{
        CancelExternalWorkflowExecutionFailedCause, RetryState, SignalExternalWorkflowExecutionFailedCause,
        StartChildWorkflowExecutionFailedCause, TimeoutType, WorkflowTaskFailedCause,
    },
    events::{HistoryEvent, history_event::Attributes},
    failure::{ActivityFailureInfo, CanceledFailureInfo, ChildWorkflowExecutionFailureInfo, failure::FailureInfo},
};

use super::{
    cancel,
    commands::ExpectedEvent,
    core::Core,
    instance::{Instance, Stop},
    nexus_events,
    operation::{OpId, OpKind, Outcome},
    random::Seed,
    schedule::already_started,
    scope_tree::ROOT,
};
use crate::{
    converter,
    failure::{Failure, FailureKind},
};

/// Signals that resolve promises.
pub(crate) const PROMISE: &str = "segno.promise";
pub(crate) const PROMISE_REJECT: &str = "segno.promise.reject";

/// Hands one event over. The futures that it concerns are woken, and not polled yet.
pub(crate) fn deliver(instance: &mut Instance, event: HistoryEvent) -> Result<(), Stop> {
    use Attributes as A;
    let Some(attributes) = event.attributes else { return Ok(()) };
    let shared = instance.shared.clone();
    let mut guard = shared.core();
    let core = &mut *guard;
    withdraw_request(core, &attributes);
    match attributes {
        A::WorkflowExecutionSignaledEventAttributes(signal) => {
            let payloads = signal.input.map(|input| input.payloads).unwrap_or_default();
            match signal.signal_name.as_str() {
                PROMISE => settle_promise(core, &payloads, false),
                PROMISE_REJECT => settle_promise(core, &payloads, true),
                name => {
                    drop(guard);
                    return instance.signal(name, payloads, signal.header.as_ref());
                }
            }
        }
        A::WorkflowExecutionCancelRequestedEventAttributes(request) => {
            let reason = if request.cause.is_empty() { "cancellation was requested" } else { &request.cause };
            cancel::cancel_scope(core, ROOT, reason);
        }
        A::ActivityTaskCompletedEventAttributes(event) => {
            let result = event.result.map(|result| result.payloads).unwrap_or_default();
            resolve_event(core, event.scheduled_event_id, Ok(result));
        }
        A::ActivityTaskFailedEventAttributes(event) => {
            let failure = event.failure.map(Failure::from_wire);
            fail_task(core, event.scheduled_event_id, event.started_event_id, event.retry_state, failure);
        }
        A::ActivityTaskTimedOutEventAttributes(event) => {
            let failure = event.failure.map(Failure::from_wire);
            fail_task(core, event.scheduled_event_id, event.started_event_id, event.retry_state, failure);
        }
        A::ActivityTaskCanceledEventAttributes(event) => {
            let info = CanceledFailureInfo { details: event.details, ..Default::default() };
            let cause = Failure::with_info("cancelled".to_owned(), FailureInfo::CanceledFailureInfo(info), None);
            fail_task(core, event.scheduled_event_id, event.started_event_id, 0, Some(cause));
        }
        A::TimerFiredEventAttributes(event) => resolve_event(core, event.started_event_id, Ok(Vec::new())),
        A::StartChildWorkflowExecutionFailedEventAttributes(event) => {
            core.open_children.remove(&event.workflow_id);
            let failure = match event.cause() {
                StartChildWorkflowExecutionFailedCause::WorkflowAlreadyExists => already_started(&event.workflow_id),
                cause => {
                    let message = format!("the child was not started: {}", cause.as_str_name());
                    Failure::application("ChildNotStarted", message).non_retryable().into()
                }
            };
            if let Some(child) = core.by_event.get(&event.initiated_event_id).copied() {
                resolve_started(core, child, Err(failure.clone()));
            }
            resolve_event(core, event.initiated_event_id, Err(failure));
        }
        A::ChildWorkflowExecutionStartedEventAttributes(event) => {
            let started = event.workflow_execution.map(|execution| execution.run_id).unwrap_or_default();
            if let Some(child) = core.by_event.get(&event.initiated_event_id).copied() {
                if let Some(OpKind::Child { run_id, .. }) = core.ops.get_mut(&child).map(|op| &mut op.kind) {
                    run_id.clone_from(&started);
                }
                resolve_started(core, child, Ok(started));
            }
        }
        A::ChildWorkflowExecutionCompletedEventAttributes(event) => {
            let result = event.result.map(|result| result.payloads).unwrap_or_default();
            end_child(core, event.workflow_execution.as_ref());
            resolve_event(core, event.initiated_event_id, Ok(result));
        }
        A::ChildWorkflowExecutionFailedEventAttributes(event) => {
            end_child(core, event.workflow_execution.as_ref());
            let cause = event.failure.map(Failure::from_wire);
            fail_child(core, event.initiated_event_id, event.started_event_id, event.retry_state, cause);
        }
        A::ChildWorkflowExecutionCanceledEventAttributes(event) => {
            end_child(core, event.workflow_execution.as_ref());
            let info = CanceledFailureInfo { details: event.details, ..Default::default() };
            let cause = Failure::with_info("cancelled".to_owned(), FailureInfo::CanceledFailureInfo(info), None);
            fail_child(core, event.initiated_event_id, event.started_event_id, 0, Some(cause));
        }
        A::ChildWorkflowExecutionTimedOutEventAttributes(event) => {
            end_child(core, event.workflow_execution.as_ref());
            let cause = Failure::timeout(TimeoutType::StartToClose, "the child took too long");
            fail_child(core, event.initiated_event_id, event.started_event_id, event.retry_state, Some(cause));
        }
        A::ChildWorkflowExecutionTerminatedEventAttributes(event) => {
            end_child(core, event.workflow_execution.as_ref());
            let cause = Failure::terminated("the child was terminated");
            fail_child(core, event.initiated_event_id, event.started_event_id, 0, Some(cause));
        }
        A::ExternalWorkflowExecutionSignaledEventAttributes(event) => {
            resolve_event(core, event.initiated_event_id, Ok(Vec::new()));
        }
        A::ExternalWorkflowExecutionCancelRequestedEventAttributes(event) => {
            resolve_event(core, event.initiated_event_id, Ok(Vec::new()));
        }
        A::SignalExternalWorkflowExecutionFailedEventAttributes(event) => {
            let kind = match event.cause() {
                SignalExternalWorkflowExecutionFailedCause::ExternalWorkflowExecutionNotFound => "NotFound",
                _ => "SignalFailed",
            };
            let message = format!("the signal was not delivered: {}", event.cause().as_str_name());
            resolve_event(core, event.initiated_event_id, Err(Failure::application(kind, message).into()));
        }
        A::RequestCancelExternalWorkflowExecutionFailedEventAttributes(event) => {
            let kind = match event.cause() {
                CancelExternalWorkflowExecutionFailedCause::ExternalWorkflowExecutionNotFound => "NotFound",
                _ => "CancelFailed",
            };
            let message = format!("the cancellation was not delivered: {}", event.cause().as_str_name());
            resolve_event(core, event.initiated_event_id, Err(Failure::application(kind, message).into()));
        }
        A::WorkflowTaskFailedEventAttributes(event) if event.cause() == WorkflowTaskFailedCause::ResetWorkflow => {
            // Operations in history keep their ids; later ones get new ones.
            core.seed = Seed::of(&event.new_run_id);
            core.user_random = core.seed.part("user").generator();
            core.streams.clear();
        }
        attributes => nexus_events::deliver(core, attributes),
    }
    Ok(())
}

/// An event that ends an operation takes back the request of this workflow task to end it.
pub(crate) fn withdraw_request(core: &mut Core, attributes: &Attributes) {
    use Attributes as A;
    if core.commands.is_empty() {
        return;
    }
    let task = match attributes {
        A::ActivityTaskCompletedEventAttributes(event) => event.scheduled_event_id,
        A::ActivityTaskFailedEventAttributes(event) => event.scheduled_event_id,
        A::ActivityTaskTimedOutEventAttributes(event) => event.scheduled_event_id,
        A::ActivityTaskCanceledEventAttributes(event) => event.scheduled_event_id,
        A::TimerFiredEventAttributes(event) => {
            return cancel::withdraw(
                core,
                |command| matches!(command, ExpectedEvent::CancelTimer { id } if *id == event.timer_id),
            );
        }
        attributes => {
            let Some(ended) = nexus_events::ended(attributes) else { return };
            return cancel::withdraw(
                core,
                |command| matches!(command, ExpectedEvent::CancelNexus { scheduled_event_id } if *scheduled_event_id == ended),
            );
        }
    };
    cancel::withdraw(
        core,
        |command| matches!(command, ExpectedEvent::CancelTask { scheduled_event_id } if *scheduled_event_id == task),
    );
}

/// Whether it says that the history before it was copied from another run.
pub(crate) fn is_reset(event: &HistoryEvent) -> bool {
    matches!(&event.attributes, Some(Attributes::WorkflowTaskFailedEventAttributes(event))
        if event.cause() == WorkflowTaskFailedCause::ResetWorkflow)
}

/// Whether the workflow can notice it.
pub(crate) fn concerns_workflow(event: &HistoryEvent) -> bool {
    use Attributes as A;
    !matches!(
        event.attributes,
        None | Some(
            A::ActivityTaskStartedEventAttributes(_)
                | A::WorkflowTaskFailedEventAttributes(_)
                | A::WorkflowExecutionUpdateAdmittedEventAttributes(_)
                | A::WorkflowExecutionOptionsUpdatedEventAttributes(_)
                | A::WorkflowPropertiesModifiedExternallyEventAttributes(_)
                | A::ActivityPropertiesModifiedExternallyEventAttributes(_)
        )
    )
}

pub(super) fn resolve_event(core: &mut Core, event_id: i64, outcome: Outcome) {
    if let Some(id) = core.by_event.get(&event_id).copied() {
        core.resolve(id, outcome);
    }
}

/// `[name, value]`, or `[name, kind, message]` if it is rejected. The first outcome counts.
fn settle_promise(core: &mut Core, payloads: &[Payload], rejected: bool) {
    let text = |index: usize| -> Option<String> { converter::decode_payload(payloads.get(index)?).ok() };
    let Some(name) = text(0) else { return };
    if core.promises.contains_key(&name) {
        return;
    }
    let outcome = if rejected {
        let (kind, message) = (text(1).unwrap_or_else(|| "Rejected".to_owned()), text(2).unwrap_or_default());
        Err(Failure::application(kind, message).into())
    } else {
        Ok(payloads.get(1..).unwrap_or_default().to_vec())
    };
    let at = core.next_resolution();
    core.promises.insert(name.clone(), (at, outcome.clone()));
    let waiting: Vec<OpId> = core
        .ops
        .iter()
        .filter(|(_, op)| matches!(&op.kind, OpKind::Promise { name: there } if *there == name))
        .map(|(id, _)| *id)
        .collect();
    for id in waiting {
        core.resolve_at(id, at, outcome.clone());
    }
}

fn fail_task(core: &mut Core, scheduled: i64, started: i64, retry_state: i32, cause: Option<Failure>) {
    let Some(id) = core.by_event.get(&scheduled).copied() else { return };
    let Some(OpKind::Task { id: task, kind, .. }) = core.ops.get(&id).map(|op| &op.kind) else { return };
    let info = ActivityFailureInfo {
        scheduled_event_id: scheduled,
        started_event_id: started,
        activity_type: Some(segno_proto::common::ActivityType { name: kind.clone() }),
        activity_id: task.clone(),
        retry_state,
        ..Default::default()
    };
    let failure = Failure::with_info("task failed".to_owned(), FailureInfo::ActivityFailureInfo(info), cause);
    core.resolve(id, Err(failure));
}

/// The failure of a local task: like that of any other, with its cause.
pub(crate) fn task_failed(kind: String, id: String, cause: Failure) -> Failure {
    let retry_state = match cause.kind() {
        FailureKind::Timeout { .. } => RetryState::Timeout,
        FailureKind::Cancelled => RetryState::CancelRequested,
        _ if cause.is_non_retryable() => RetryState::NonRetryableFailure,
        _ => RetryState::MaximumAttemptsReached,
    };
    let info = ActivityFailureInfo {
        activity_type: Some(segno_proto::common::ActivityType { name: kind }),
        activity_id: id,
        retry_state: retry_state as i32,
        ..Default::default()
    };
    Failure::with_info("task failed".to_owned(), FailureInfo::ActivityFailureInfo(info), Some(cause))
}

fn fail_child(core: &mut Core, initiated: i64, started: i64, retry_state: i32, cause: Option<Failure>) {
    let Some(id) = core.by_event.get(&initiated).copied() else { return };
    let Some(OpKind::Child { workflow_id, kind, run_id, .. }) = core.ops.get(&id).map(|op| &op.kind) else { return };
    let info = ChildWorkflowExecutionFailureInfo {
        workflow_execution: Some(segno_proto::common::WorkflowExecution {
            workflow_id: workflow_id.clone(),
            run_id: run_id.clone(),
        }),
        workflow_type: Some(segno_proto::common::WorkflowType { name: kind.clone() }),
        initiated_event_id: initiated,
        started_event_id: started,
        retry_state,
        ..Default::default()
    };
    let info = FailureInfo::ChildWorkflowExecutionFailureInfo(info);
    core.resolve(id, Err(Failure::with_info("child failed".to_owned(), info, cause)));
}

fn end_child(core: &mut Core, execution: Option<&segno_proto::common::WorkflowExecution>) {
    if let Some(execution) = execution {
        core.open_children.remove(&execution.workflow_id);
    }
}

/// The futures that wait for the start of a child.
fn resolve_started(core: &mut Core, child: OpId, started: Result<String, Failure>) {
    core.child_started(child, started.as_ref().err());
    let waiting: Vec<OpId> = core
        .ops
        .iter()
        .filter(|(_, op)| matches!(&op.kind, OpKind::ChildStarted { child: of } if *of == child))
        .map(|(id, _)| *id)
        .collect();
    for id in waiting {
        let outcome = started.clone().map(|run_id| converter::encode_json(&run_id).into_iter().collect());
        core.resolve(id, outcome);
    }
}
