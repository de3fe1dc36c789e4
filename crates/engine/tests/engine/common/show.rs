//! Events, messages and times as scenario files print them.

use segno_engine::outbox::{Content, OutboxMessage};
use segno_proto::{
    Nanos,
    enums::{ParentClosePolicy, TimeoutType, UpdateAdmittedEventOrigin},
    events::{HistoryEvent, history_event::Attributes as A},
};

use super::{
    versions,
    world::{EPOCH, SECOND},
};

/// An event without its id: its type and what tells it from others of its type.
pub fn event(event: &HistoryEvent) -> String {
    let detail = event.attributes.as_ref().map(detail).unwrap_or_default();
    let name = event_name(event);
    if detail.is_empty() { name } else { format!("{name} {detail}") }
}

/// `ActivityTaskScheduled` and the like.
pub fn event_name(event: &HistoryEvent) -> String {
    segno_engine::error::pascal_case(event.event_type().as_str_name().trim_start_matches("EVENT_TYPE_"))
}

fn detail(attributes: &A) -> String {
    match attributes {
        A::WorkflowExecutionStartedEventAttributes(a) => {
            let attempt = if a.attempt > 1 { format!("attempt={}", a.attempt) } else { String::new() };
            [attempt, versions::inheritance(a)]
                .iter()
                .filter(|part| !part.is_empty())
                .cloned()
                .collect::<Vec<_>>()
                .join(" ")
        }
        A::WorkflowExecutionSignaledEventAttributes(a) => a.signal_name.clone(),
        A::WorkflowExecutionFailedEventAttributes(a) => format!("retry={}", a.retry_state().as_str_name()),
        A::WorkflowExecutionTimedOutEventAttributes(a) => format!("retry={}", a.retry_state().as_str_name()),
        A::WorkflowExecutionTerminatedEventAttributes(a) => a.reason.clone(),
        A::WorkflowTaskScheduledEventAttributes(a) => {
            let queue = a.task_queue.as_ref().map(|q| q.name.as_str()).unwrap_or_default();
            format!("on {queue} attempt={}", a.attempt)
        }
        A::WorkflowTaskStartedEventAttributes(a) if a.target_worker_deployment_version_changed => {
            "target-changed".to_owned()
        }
        A::WorkflowTaskStartedEventAttributes(a) if a.suggest_continue_as_new => "suggest-continue-as-new".to_owned(),
        A::WorkflowTaskCompletedEventAttributes(a) => {
            let version = a.deployment_version.as_ref().map(|version| format!(" as {}", versions::name(Some(version))));
            format!("{}{}", pair(a.scheduled_event_id, a.started_event_id), version.unwrap_or_default())
        }
        A::WorkflowExecutionOptionsUpdatedEventAttributes(a) => versions::override_name(a.versioning_override.as_ref()),
        A::WorkflowTaskFailedEventAttributes(a) => a.cause().as_str_name().replace("WORKFLOW_TASK_FAILED_CAUSE_", ""),
        A::WorkflowTaskTimedOutEventAttributes(a) => timeout(a.timeout_type()).to_owned(),
        A::ActivityTaskScheduledEventAttributes(a) => a.activity_id.clone(),
        A::ActivityTaskStartedEventAttributes(a) => format!("of {} attempt={}", a.scheduled_event_id, a.attempt),
        A::ActivityTaskCompletedEventAttributes(a) => pair(a.scheduled_event_id, a.started_event_id),
        A::ActivityTaskFailedEventAttributes(a) => {
            format!("{} retry={}", pair(a.scheduled_event_id, a.started_event_id), a.retry_state().as_str_name())
        }
        A::ActivityTaskTimedOutEventAttributes(a) => {
            let kind = a.failure.as_ref().map(failure_timeout).unwrap_or_default();
            let ids = pair(a.scheduled_event_id, a.started_event_id);
            format!("{ids} {kind} retry={}", a.retry_state().as_str_name())
        }
        A::ActivityTaskCancelRequestedEventAttributes(a) => format!("of {}", a.scheduled_event_id),
        A::ActivityTaskCanceledEventAttributes(a) => pair(a.scheduled_event_id, a.started_event_id),
        A::TimerStartedEventAttributes(a) => a.timer_id.clone(),
        A::TimerFiredEventAttributes(a) => format!("{} of {}", a.timer_id, a.started_event_id),
        A::TimerCanceledEventAttributes(a) => format!("{} of {}", a.timer_id, a.started_event_id),
        A::MarkerRecordedEventAttributes(a) => a.marker_name.clone(),
        A::StartChildWorkflowExecutionInitiatedEventAttributes(a) => a.workflow_id.clone(),
        A::StartChildWorkflowExecutionFailedEventAttributes(a) => format!("of {}", a.initiated_event_id),
        A::ChildWorkflowExecutionStartedEventAttributes(a) => format!("of {}", a.initiated_event_id),
        A::ChildWorkflowExecutionCompletedEventAttributes(a) => pair(a.initiated_event_id, a.started_event_id),
        A::ChildWorkflowExecutionFailedEventAttributes(a) => pair(a.initiated_event_id, a.started_event_id),
        A::ChildWorkflowExecutionCanceledEventAttributes(a) => pair(a.initiated_event_id, a.started_event_id),
        A::ChildWorkflowExecutionTimedOutEventAttributes(a) => pair(a.initiated_event_id, a.started_event_id),
        A::ChildWorkflowExecutionTerminatedEventAttributes(a) => pair(a.initiated_event_id, a.started_event_id),
        A::SignalExternalWorkflowExecutionInitiatedEventAttributes(a) => {
            format!("{} to {}", a.signal_name, a.workflow_execution.clone().unwrap_or_default().workflow_id)
        }
        A::SignalExternalWorkflowExecutionFailedEventAttributes(a) => format!("of {}", a.initiated_event_id),
        A::ExternalWorkflowExecutionSignaledEventAttributes(a) => format!("of {}", a.initiated_event_id),
        A::RequestCancelExternalWorkflowExecutionInitiatedEventAttributes(a) => {
            a.workflow_execution.clone().unwrap_or_default().workflow_id
        }
        A::RequestCancelExternalWorkflowExecutionFailedEventAttributes(a) => format!("of {}", a.initiated_event_id),
        A::ExternalWorkflowExecutionCancelRequestedEventAttributes(a) => format!("of {}", a.initiated_event_id),
        A::NexusOperationScheduledEventAttributes(a) => a.operation.clone(),
        A::NexusOperationStartedEventAttributes(a) => {
            format!("of {} token={}", a.scheduled_event_id, a.operation_token)
        }
        A::NexusOperationCompletedEventAttributes(a) => format!("of {}", a.scheduled_event_id),
        A::NexusOperationFailedEventAttributes(a) => cause(a.scheduled_event_id, a.failure.as_ref()),
        A::NexusOperationCanceledEventAttributes(a) => cause(a.scheduled_event_id, a.failure.as_ref()),
        A::NexusOperationTimedOutEventAttributes(a) => {
            let cause = a.failure.as_ref().and_then(|failure| failure.cause.as_deref());
            format!("of {} {}", a.scheduled_event_id, cause.map(failure_timeout).unwrap_or_default())
        }
        A::NexusOperationCancelRequestedEventAttributes(a) => format!("of {}", a.scheduled_event_id),
        A::NexusOperationCancelRequestCompletedEventAttributes(a) => {
            format!("of {} requested={}", a.scheduled_event_id, a.requested_event_id)
        }
        A::NexusOperationCancelRequestFailedEventAttributes(a) => {
            format!("of {} requested={}", a.scheduled_event_id, a.requested_event_id)
        }
        A::WorkflowExecutionUpdateAdmittedEventAttributes(a) => {
            let id = a.request.as_ref().and_then(|request| request.meta.as_ref()).map(|meta| meta.update_id.as_str());
            let again = if a.origin() == UpdateAdmittedEventOrigin::Reapply { " again" } else { "" };
            format!("{}{again}", id.unwrap_or("?"))
        }
        A::WorkflowExecutionUpdateAcceptedEventAttributes(a) => {
            let asked = if a.accepted_request.is_some() { "" } else { " without request" };
            format!("{} after {}{asked}", a.protocol_instance_id, a.accepted_request_sequencing_event_id)
        }
        A::WorkflowExecutionUpdateCompletedEventAttributes(a) => {
            let id = a.meta.as_ref().map_or("?", |meta| meta.update_id.as_str());
            let outcome = a.outcome.as_ref().map(super::update_steps::show_outcome).unwrap_or_default();
            format!("{id} of {} {outcome}", a.accepted_event_id)
        }
        _ => String::new(),
    }
}

fn pair(of: i64, started: i64) -> String {
    format!("of {of} started={started}")
}

/// A kind of timeout in one word.
pub fn timeout(kind: TimeoutType) -> &'static str {
    segno_engine::retry::timeout_name(kind)
}

fn failure_timeout(failure: &segno_proto::failure::Failure) -> String {
    use segno_proto::failure::failure::FailureInfo;
    match &failure.failure_info {
        Some(FailureInfo::TimeoutFailureInfo(info)) => timeout(info.timeout_type()).to_owned(),
        _ => "no timeout".to_owned(),
    }
}

/// The operation, and why it ended.
fn cause(of: i64, failure: Option<&segno_proto::failure::Failure>) -> String {
    let cause = failure.and_then(|failure| failure.cause.as_deref()).map_or("", |cause| cause.message.as_str());
    format!("of {of}: {cause}")
}

/// A message to another run.
pub fn message(message: &OutboxMessage) -> String {
    let content = match &message.content {
        Some(Content::StartChild(m)) => {
            let given = versions::child_inheritance(m);
            format!("start child {} of {}{given}", m.attributes.workflow_id, m.initiated_event_id)
        }
        Some(Content::Signal(m)) => {
            format!("signal {} to {} of {}", m.name, m.target.workflow_id, m.initiated_event_id)
        }
        Some(Content::Cancel(m)) => format!("cancel {} of {}", m.target.workflow_id, m.initiated_event_id),
        Some(Content::ChildClosed(m)) => {
            format!("child closed to {}: {}", m.parent.workflow_id, event_name(&m.closing_event))
        }
        Some(Content::StartScheduled(m)) => format!("start {} of schedule {}", m.number, m.schedule_id),
        Some(Content::ScheduledClosed(m)) => format!("{} of a schedule closed", m.workflow.workflow_id),
        Some(Content::EndScheduled(m)) => format!("end {}, {}", m.execution.workflow_id, m.reason),
        Some(Content::ParentClosed(m)) => {
            let policy = ParentClosePolicy::try_from(m.policy).map_or("?", |policy| policy.as_str_name());
            format!("parent closed to {}: {}", m.child.workflow_id, policy.replace("PARENT_CLOSE_POLICY_", ""))
        }
        Some(Content::Callback(m)) => format!("call back {}", m.index),
        Some(Content::StartOperation(m)) => format!("start script {}", m.script),
        None => "nothing".to_owned(),
    };
    format!("{} {content}", message.sequence)
}

/// A moment as seconds since the test began.
pub fn time(at: Nanos) -> String {
    duration(at - EPOCH)
}

/// A length of time in seconds.
pub fn duration(nanos: Nanos) -> String {
    let seconds = nanos / SECOND;
    let rest = nanos % SECOND;
    if rest == 0 { format!("{seconds}s") } else { format!("{seconds}s+{rest}ns") }
}
