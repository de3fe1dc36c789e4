//! Translates events of history to those of a script.

use segno_engine::{
    Run,
    script::{self, hex},
    script_move,
    search_attributes::PREDEFINED,
    state::{Script, ScriptOperation},
};
use segno_flow::interface::{Event, EventKind, Failure, FailureInfo, NotSent, Start, TimeoutKind};
use segno_proto::{
    common::Payloads,
    enums::{
        SignalExternalWorkflowExecutionFailedCause as SignalFailed,
        StartChildWorkflowExecutionFailedCause as StartFailed,
    },
    events::{HistoryEvent, WorkflowExecutionStartedEventAttributes, history_event::Attributes as A},
    failure::Failure as WireFailure,
    protocol::Message,
    timestamp_nanos,
    update::Request,
};
use segno_runs::{
    error::no_script,
    namespaces::{Namespace, attribute_type_name},
};

use super::values::{failure, payload, payloads};

/// Gives the names and types of the search attributes that a script may set. Only the first turn needs them.
type AttributeTypes<'a> = &'a dyn Fn() -> Vec<(String, String)>;

/// Names and types of the search attributes a script may set.
pub(super) fn attribute_types(namespace: &Namespace) -> Vec<(String, String)> {
    let settable = PREDEFINED.iter().filter(|(.., settable)| *settable).map(|(name, kind, _)| (*name, *kind));
    let custom = namespace.search_attributes.iter().map(|(name, kind)| (name.as_str(), *kind));
    settable.chain(custom).map(|(name, kind)| (name.to_owned(), attribute_type_name(kind).to_owned())).collect()
}

/// The events of history for a script, in order.
pub(super) fn events_of(run: &Run, script: &Script, history: &[HistoryEvent], types: AttributeTypes<'_>) -> Vec<Event> {
    let mut events = Vec::with_capacity(history.len());
    // A turn after a reset is taken under the id of the new run, also what history has before the event of the reset.
    let reset = history.iter().rev().find_map(reset_to).zip(history.first().map(time_of));
    if let Some((run_id, time)) = reset {
        events.push(Event { time, kind: EventKind::Reset { run_id: run_id.to_owned() } });
    }
    for event in history {
        let Some(mut kind) = kind_of(run, script, event, types) else { continue };
        if let EventKind::Started(start) = &mut kind
            && let Some((run_id, _)) = reset
        {
            start.run_id = run_id.to_owned();
            events.clear();
        }
        events.push(Event { time: time_of(event), kind });
    }
    events
}

/// When an event happened, in milliseconds since 1970.
fn time_of(event: &HistoryEvent) -> i64 {
    event.event_time.as_ref().map_or(0, timestamp_nanos) / 1_000_000
}

/// The id of the run that a reset made, if this is the event that says so.
fn reset_to(event: &HistoryEvent) -> Option<&str> {
    match event.attributes.as_ref()? {
        A::WorkflowTaskFailedEventAttributes(failed) if !failed.new_run_id.is_empty() => Some(&failed.new_run_id),
        _ => None,
    }
}

/// An update that reaches the script as a message.
pub(super) fn update_of(message: &Message, time: i64) -> Option<Event> {
    use prost::Message as _;
    let request = Request::decode(&message.body.as_ref()?.value[..]).ok()?;
    Some(Event { time, kind: update(request)? })
}

fn update(request: Request) -> Option<EventKind> {
    let (meta, input) = (request.meta?, request.input?);
    Some(EventKind::Update { id: meta.update_id, name: input.name, input: payloads(input.args) })
}

fn kind_of(run: &Run, script: &Script, event: &HistoryEvent, types: AttributeTypes<'_>) -> Option<EventKind> {
    let attributes = event.attributes.as_ref()?;
    Some(match attributes {
        A::WorkflowExecutionStartedEventAttributes(started) => {
            EventKind::Started(Box::new(start(run, script, started, time_of(event), types)))
        }
        A::WorkflowExecutionSignaledEventAttributes(signaled) => {
            EventKind::Signaled { name: signaled.signal_name.clone(), input: payloads(signaled.input.clone()) }
        }
        A::WorkflowExecutionCancelRequestedEventAttributes(request) => {
            EventKind::CancelRequested { reason: request.cause.clone() }
        }
        A::MarkerRecordedEventAttributes(marker) if marker.marker_name == script_move::MARKER => EventKind::Migrated,
        A::WorkflowExecutionUpdateAdmittedEventAttributes(admitted) => update(admitted.request.clone()?)?,
        A::ChildWorkflowExecutionStartedEventAttributes(started) => {
            let operation = script::find(&script.wake, started.initiated_event_id)?;
            let run_id = started.workflow_execution.as_ref().map(|execution| execution.run_id.clone());
            EventKind::ChildStarted { workflow_id: operation.id.clone(), run_id: run_id.unwrap_or_default() }
        }
        ended => {
            let (begun, _) = script::ended(ended)?;
            let operation = script::find(&script.wake, begun)?;
            end_of(operation, ended)?
        }
    })
}

fn start(
    run: &Run,
    script: &Script,
    started: &WorkflowExecutionStartedEventAttributes,
    started_at: i64,
    types: AttributeTypes<'_>,
) -> Start {
    let info = &run.info;
    let pairs = |fields: &std::collections::BTreeMap<String, segno_proto::common::Payload>| {
        fields.iter().map(|(key, value)| (key.clone(), payload(value))).collect::<Vec<_>>()
    };
    let parent = started.parent_workflow_execution.as_ref();
    Start {
        workflow_id: info.workflow_id.clone(),
        run_id: started.original_execution_run_id.clone(),
        name: info.workflow_type.clone(),
        version: hex(&script.version),
        namespace: info.namespace.clone(),
        task_queue: info.task_queue.clone(),
        attempt: started.attempt.max(1).unsigned_abs(),
        started_at,
        parent: parent.map(|parent| (parent.workflow_id.clone(), parent.run_id.clone())),
        continued_from: started.continued_execution_run_id.clone(),
        cron: started.cron_schedule.clone(),
        memo: started.memo.as_ref().map(|memo| pairs(&memo.fields)).unwrap_or_default(),
        search_attributes: started.search_attributes.as_ref().map(|a| pairs(&a.indexed_fields)).unwrap_or_default(),
        input: payloads(started.input.clone()),
        attribute_types: types(),
    }
}

/// How an operation ended.
fn end_of(operation: &ScriptOperation, attributes: &A) -> Option<EventKind> {
    let id = operation.id.clone();
    let task = |end| Some(EventKind::TaskEnded { id: operation.id.clone(), end });
    let nexus = |end| Some(EventKind::NexusEnded { id: operation.id.clone(), end });
    let child = |end| Some(EventKind::ChildEnded { workflow_id: operation.id.clone(), end });
    match attributes {
        A::ActivityTaskCompletedEventAttributes(a) => task(Ok(payloads(a.result.clone()))),
        A::ActivityTaskFailedEventAttributes(a) => {
            task(Err(of_task(operation, a.started_event_id, &a.identity, a.retry_state, a.failure.as_ref())))
        }
        A::ActivityTaskTimedOutEventAttributes(a) => {
            task(Err(of_task(operation, a.started_event_id, "", a.retry_state, a.failure.as_ref())))
        }
        A::ActivityTaskCanceledEventAttributes(a) => {
            let cause = canceled(a.details.clone());
            task(Err(of_task(operation, a.started_event_id, &a.identity, 0, Some(&cause))))
        }
        A::NexusOperationCompletedEventAttributes(a) => nexus(Ok(a.result.iter().map(payload).collect())),
        A::NexusOperationFailedEventAttributes(a) => nexus(Err(outermost(a.failure.as_ref()))),
        A::NexusOperationCanceledEventAttributes(a) => nexus(Err(outermost(a.failure.as_ref()))),
        A::NexusOperationTimedOutEventAttributes(a) => nexus(Err(outermost(a.failure.as_ref()))),
        A::TimerFiredEventAttributes(_) => Some(EventKind::TimerFired { id }),
        A::StartChildWorkflowExecutionFailedEventAttributes(a) => {
            let reason = match a.cause() {
                StartFailed::WorkflowAlreadyExists => NotSent::AlreadyStarted,
                StartFailed::NamespaceNotFound if a.namespace.is_empty() || operation.name.is_empty() => {
                    NotSent::NotFound("the namespace of the child does not exist".to_owned())
                }
                StartFailed::NamespaceNotFound => NotSent::NotFound(no_script(&operation.name, &a.namespace)),
                StartFailed::Unspecified | StartFailed::InvalidVersioningOverride => {
                    NotSent::Other("the child could not be started".to_owned())
                }
            };
            Some(EventKind::ChildNotStarted { workflow_id: id, reason })
        }
        A::ChildWorkflowExecutionCompletedEventAttributes(a) => child(Ok(payloads(a.result.clone()))),
        A::ChildWorkflowExecutionFailedEventAttributes(a) => {
            child(Err(of_child(operation, &ChildEnd::of(&**a), a.retry_state, a.failure.as_ref())))
        }
        A::ChildWorkflowExecutionCanceledEventAttributes(a) => {
            let cause = canceled(a.details.clone());
            child(Err(of_child(operation, &ChildEnd::of(a), 0, Some(&cause))))
        }
        A::ChildWorkflowExecutionTimedOutEventAttributes(a) => {
            let info = FailureInfo::Timeout { kind: TimeoutKind::StartToClose, last_heartbeat: Vec::new() };
            let cause = Failure { message: "child workflow timed out".to_owned(), info, ..Default::default() };
            child(Err(of_child_cause(operation, &ChildEnd::of(a), a.retry_state, Some(cause))))
        }
        A::ChildWorkflowExecutionTerminatedEventAttributes(a) => {
            let message = "child workflow terminated".to_owned();
            let cause = Failure { message, info: FailureInfo::Terminated, ..Default::default() };
            child(Err(of_child_cause(operation, &ChildEnd::of(a), 0, Some(cause))))
        }
        A::ExternalWorkflowExecutionSignaledEventAttributes(_)
        | A::ExternalWorkflowExecutionCancelRequestedEventAttributes(_) => {
            Some(EventKind::SendEnded { id, failed: None })
        }
        A::SignalExternalWorkflowExecutionFailedEventAttributes(a) => {
            let target = a.workflow_execution.as_ref().map(|e| e.workflow_id.as_str()).unwrap_or_default();
            let failed = match a.cause() {
                SignalFailed::SignalCountLimitExceeded => {
                    NotSent::Other(format!("workflow \"{target}\" takes no more signals"))
                }
                _ => NotSent::NotFound(format!("there is no open workflow \"{target}\"")),
            };
            Some(EventKind::SendEnded { id, failed: Some(failed) })
        }
        A::RequestCancelExternalWorkflowExecutionFailedEventAttributes(a) => {
            let target = a.workflow_execution.as_ref().map(|e| e.workflow_id.as_str()).unwrap_or_default();
            let failed = NotSent::NotFound(format!("there is no open workflow \"{target}\""));
            Some(EventKind::SendEnded { id, failed: Some(failed) })
        }
        _ => None,
    }
}

fn canceled(details: Option<Payloads>) -> WireFailure {
    use segno_proto::failure::{CanceledFailureInfo, failure::FailureInfo};
    let info = CanceledFailureInfo { details, ..Default::default() };
    WireFailure {
        message: "canceled".to_owned(),
        failure_info: Some(FailureInfo::CanceledFailureInfo(info)),
        ..Default::default()
    }
}

/// The failure of an event that has the whole of it.
fn outermost(wire: Option<&WireFailure>) -> Failure {
    wire.map(failure).unwrap_or_default()
}

fn of_task(
    operation: &ScriptOperation,
    started_event_id: i64,
    identity: &str,
    retry_state: i32,
    cause: Option<&WireFailure>,
) -> Failure {
    Failure {
        message: "Activity task failed".to_owned(),
        cause: cause.map(|cause| Box::new(failure(cause))),
        info: FailureInfo::Activity {
            id: operation.id.clone(),
            name: operation.name.clone(),
            scheduled_event_id: operation.event_id,
            started_event_id,
            identity: identity.to_owned(),
            retry_state,
        },
        ..Default::default()
    }
}

/// The fields that the events that end a child share.
struct ChildEnd {
    namespace: String,
    run_id: String,
    started_event_id: i64,
}

macro_rules! child_ends {
    ($($attributes:ident),*) => {
        $(impl From<&segno_proto::events::$attributes> for ChildEnd {
            fn from(a: &segno_proto::events::$attributes) -> Self {
                let run_id = a.workflow_execution.as_ref().map(|execution| execution.run_id.clone());
                Self {
                    namespace: a.namespace.clone(),
                    run_id: run_id.unwrap_or_default(),
                    started_event_id: a.started_event_id,
                }
            }
        })*
    };
}

child_ends!(
    ChildWorkflowExecutionFailedEventAttributes,
    ChildWorkflowExecutionCanceledEventAttributes,
    ChildWorkflowExecutionTimedOutEventAttributes,
    ChildWorkflowExecutionTerminatedEventAttributes
);

impl ChildEnd {
    fn of<'a, T>(attributes: &'a T) -> Self
    where
        Self: From<&'a T>,
    {
        Self::from(attributes)
    }
}

fn of_child(operation: &ScriptOperation, ended: &ChildEnd, retry_state: i32, cause: Option<&WireFailure>) -> Failure {
    of_child_cause(operation, ended, retry_state, cause.map(failure))
}

fn of_child_cause(operation: &ScriptOperation, ended: &ChildEnd, retry_state: i32, cause: Option<Failure>) -> Failure {
    Failure {
        message: "Child Workflow execution failed".to_owned(),
        cause: cause.map(Box::new),
        info: FailureInfo::Child {
            namespace: ended.namespace.clone(),
            workflow_id: operation.id.clone(),
            run_id: ended.run_id.clone(),
            name: operation.name.clone(),
            initiated_event_id: operation.event_id,
            started_event_id: ended.started_event_id,
            retry_state,
        },
        ..Default::default()
    }
}
