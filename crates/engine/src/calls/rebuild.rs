//! State from history: what a run was when a given event was its last.
//!
//! A running server never needs this, because state is stored. It is for resetting a run to a point in its past, and for
//! tests that hold state and history against each other. What history does not tell (attempts of activities, heartbeats)
//! begins anew.

use bytes::Bytes;
use prost::Message;
use segno_proto::{
    Nanos,
    common::Payload,
    duration_nanos,
    enums::{VersioningBehavior, WorkflowExecutionStatus},
    events::{
        ActivityTaskScheduledEventAttributes, HistoryEvent, NexusOperationScheduledEventAttributes,
        StartChildWorkflowExecutionInitiatedEventAttributes, WorkflowExecutionPausedEventAttributes,
        WorkflowTaskCompletedEventAttributes, WorkflowTaskScheduledEventAttributes, history_event::Attributes as A,
    },
    timestamp_nanos,
};

use crate::{
    parts::{
        builds::{self, Build},
        callbacks, pause_info as pause, versioning,
    },
    payload::is_null,
    state::{
        Child, External, RunInfo, RunState, Timer, WorkflowTask,
        activity::{Activity, PauseInfo},
        nexus::{Cancellation, CancellationResult, HandlerRequest, Operation},
        signal_ids,
        versioning::Versioning,
    },
};

/// The state after these events, which begin with the first one of a run.
pub fn rebuild(info: &RunInfo, events: &[HistoryEvent]) -> RunState {
    let mut state = RunState {
        status: WorkflowExecutionStatus::Running as i32,
        next_event_id: 1,
        next_task_attempt: 1,
        ..Default::default()
    };
    for event in events {
        state.next_event_id = event.event_id + 1;
        state.history_bytes += event.encoded_len() as i64;
        apply(&mut state, info, event);
    }
    state
}

/// The state after these events, of which those up to `last` led to `state`.
pub fn rebuild_from(state: RunState, last: i64, info: &RunInfo, events: &[HistoryEvent]) -> RunState {
    let mut state = RunState {
        task: None,
        sticky: None,
        buffered: Vec::new(),
        next_task_attempt: 1,
        failures_since_success: 0,
        last_task_failure: String::new(),
        reported_failure: None,
        completion_digest: 0,
        completion_reply: None,
        result_digests: Bytes::new(),
        ..state
    };
    for activity in state.activities.values_mut() {
        let known = activity.clone().into_inner();
        let anew = Activity {
            scheduled_time: known.first_scheduled_time,
            started_time: 0,
            attempt: 1,
            last_heartbeat_time: 0,
            heartbeat_details: None,
            last_failure: None,
            last_identity: String::new(),
            last_attempt_end: 0,
            stamp: 1,
            started_identity: String::new(),
            request_id: String::new(),
            worker_version: None,
            pause: None,
            reset: false,
            forget_heartbeat: false,
            worker: String::new(),
            control_queue: String::new(),
            worker_reports: false,
            ..known
        };
        *activity = anew.into();
    }
    for operation in state.operations.values_mut() {
        operation.start = HandlerRequest::new();
        if let Some(cancellation) = operation.cancellation.as_mut().filter(|known| known.result == 0) {
            cancellation.request = HandlerRequest::new();
        }
    }
    for event in events.iter().filter(|event| event.event_id > last) {
        state.next_event_id = event.event_id + 1;
        state.history_bytes += event.encoded_len() as i64;
        apply(&mut state, info, event);
    }
    state
}

fn apply(state: &mut RunState, info: &RunInfo, event: &HistoryEvent) {
    let id = event.event_id;
    let time = event.event_time.as_ref().map_or(0, timestamp_nanos);
    let Some(attributes) = event.attributes.clone() else { return };
    match attributes {
        A::WorkflowExecutionStartedEventAttributes(a) => {
            callbacks::register(state, &a.completion_callbacks, &info.create_request_id, time);
            state.versioning = Versioning::started(&a);
            state.memo = a.memo.map(|memo| memo.fields).unwrap_or_default();
            state.search_attributes = a.search_attributes.map(|given| given.indexed_fields).unwrap_or_default();
            state.reset_points = a.prev_auto_reset_points.map(|points| points.points).unwrap_or_default();
            builds::tell_versioning(state, "");
        }
        A::WorkflowTaskScheduledEventAttributes(a) => {
            state.task_stamp += 1;
            let stamp = state.task_stamp;
            state.task = Some(scheduled_task(&a, info, id, time, stamp));
        }
        A::WorkflowTaskStartedEventAttributes(a) => {
            if let Some(task) = &mut state.task {
                task.started_event_id = id;
                task.started_time = time;
                task.request_id = a.request_id;
                task.identity = a.identity;
            }
        }
        A::WorkflowTaskCompletedEventAttributes(a) => {
            complete_task(state, &info.run_id, &a, id, time);
        }
        A::WorkflowTaskFailedEventAttributes(_) | A::WorkflowTaskTimedOutEventAttributes(_) => state.task = None,
        A::ActivityTaskScheduledEventAttributes(a) => {
            state.activities.insert(id, scheduled_activity(a, id, time).into());
        }
        A::ActivityTaskStartedEventAttributes(a) => {
            if let Some(activity) = state.activities.get_mut(&a.scheduled_event_id) {
                activity.started_time = time;
                activity.attempt = a.attempt.max(1);
                activity.started_identity = a.identity;
                activity.request_id = a.request_id;
            }
        }
        A::ActivityTaskCancelRequestedEventAttributes(a) => {
            if let Some(activity) = state.activities.get_mut(&a.scheduled_event_id) {
                activity.cancel_requested = true;
                activity.cancel_requested_event_id = id;
            }
        }
        A::ActivityTaskCompletedEventAttributes(a) => drop(state.activities.remove(&a.scheduled_event_id)),
        A::ActivityTaskFailedEventAttributes(a) => drop(state.activities.remove(&a.scheduled_event_id)),
        A::ActivityTaskTimedOutEventAttributes(a) => drop(state.activities.remove(&a.scheduled_event_id)),
        A::ActivityTaskCanceledEventAttributes(a) => drop(state.activities.remove(&a.scheduled_event_id)),
        A::NexusOperationScheduledEventAttributes(a) => {
            state.operations.insert(id, scheduled_operation(a, id, time).into());
        }
        A::NexusOperationStartedEventAttributes(a) => {
            if let Some(operation) = state.operations.get_mut(&a.scheduled_event_id) {
                operation.start(a.operation_token, time, time);
            }
        }
        A::NexusOperationCancelRequestedEventAttributes(a) => {
            if let Some(operation) = state.operations.get_mut(&a.scheduled_event_id) {
                let (requested_event_id, requested_time) = (id, time);
                let request = HandlerRequest::new();
                operation.cancellation =
                    Some(Cancellation { requested_event_id, requested_time, request, ..Default::default() });
            }
        }
        A::NexusOperationCancelRequestCompletedEventAttributes(a) => {
            end_cancellation(state, a.scheduled_event_id, time, CancellationResult::Succeeded);
        }
        A::NexusOperationCancelRequestFailedEventAttributes(a) => {
            end_cancellation(state, a.scheduled_event_id, time, CancellationResult::Failed);
        }
        A::NexusOperationCompletedEventAttributes(a) => drop(state.operations.remove(&a.scheduled_event_id)),
        A::NexusOperationFailedEventAttributes(a) => drop(state.operations.remove(&a.scheduled_event_id)),
        A::NexusOperationCanceledEventAttributes(a) => drop(state.operations.remove(&a.scheduled_event_id)),
        A::NexusOperationTimedOutEventAttributes(a) => drop(state.operations.remove(&a.scheduled_event_id)),
        A::TimerStartedEventAttributes(a) => {
            let fire_at = time.saturating_add(duration_nanos(a.start_to_fire_timeout.as_ref()));
            state.timers.insert(a.timer_id, Timer { started_event_id: id, fire_at });
        }
        A::TimerFiredEventAttributes(a) => drop(state.timers.remove(&a.timer_id)),
        A::TimerCanceledEventAttributes(a) => drop(state.timers.remove(&a.timer_id)),
        A::StartChildWorkflowExecutionInitiatedEventAttributes(a) => {
            state.children.insert(id, initiated_child(*a, info, id));
        }
        A::ChildWorkflowExecutionStartedEventAttributes(a) => {
            if let Some(child) = state.children.get_mut(&a.initiated_event_id) {
                child.started_event_id = id;
                child.run_id = a.workflow_execution.map(|execution| execution.run_id).unwrap_or_default();
            }
        }
        A::StartChildWorkflowExecutionFailedEventAttributes(a) => drop(state.children.remove(&a.initiated_event_id)),
        A::ChildWorkflowExecutionCompletedEventAttributes(a) => drop(state.children.remove(&a.initiated_event_id)),
        A::ChildWorkflowExecutionFailedEventAttributes(a) => drop(state.children.remove(&a.initiated_event_id)),
        A::ChildWorkflowExecutionCanceledEventAttributes(a) => drop(state.children.remove(&a.initiated_event_id)),
        A::ChildWorkflowExecutionTimedOutEventAttributes(a) => drop(state.children.remove(&a.initiated_event_id)),
        A::ChildWorkflowExecutionTerminatedEventAttributes(a) => drop(state.children.remove(&a.initiated_event_id)),
        A::SignalExternalWorkflowExecutionInitiatedEventAttributes(a) => {
            let execution = a.workflow_execution.unwrap_or_default();
            let external = External {
                namespace: named(info, &a.namespace),
                namespace_id: a.namespace_id,
                execution,
                control: a.control,
            };
            state.external_signals.insert(id, external);
        }
        A::ExternalWorkflowExecutionSignaledEventAttributes(a) => {
            drop(state.external_signals.remove(&a.initiated_event_id));
        }
        A::SignalExternalWorkflowExecutionFailedEventAttributes(a) => {
            drop(state.external_signals.remove(&a.initiated_event_id));
        }
        A::RequestCancelExternalWorkflowExecutionInitiatedEventAttributes(a) => {
            let execution = a.workflow_execution.unwrap_or_default();
            let external = External {
                namespace: named(info, &a.namespace),
                namespace_id: a.namespace_id,
                execution,
                control: a.control,
            };
            state.external_cancels.insert(id, external);
        }
        A::ExternalWorkflowExecutionCancelRequestedEventAttributes(a) => {
            drop(state.external_cancels.remove(&a.initiated_event_id));
        }
        A::RequestCancelExternalWorkflowExecutionFailedEventAttributes(a) => {
            drop(state.external_cancels.remove(&a.initiated_event_id));
        }
        A::WorkflowExecutionSignaledEventAttributes(a) => {
            state.signal_count += 1;
            signal_ids::add(state, &a.request_id);
        }
        A::WorkflowExecutionCancelRequestedEventAttributes(_) => state.cancel_requested = true,
        A::UpsertWorkflowSearchAttributesEventAttributes(a) => {
            let fields = a.search_attributes.map(|given| given.indexed_fields).unwrap_or_default();
            upsert(&mut state.search_attributes, fields);
        }
        A::WorkflowPropertiesModifiedEventAttributes(a) => {
            upsert(&mut state.memo, a.upserted_memo.map(|memo| memo.fields).unwrap_or_default());
        }
        A::WorkflowExecutionOptionsUpdatedEventAttributes(a) => {
            versioning::note_override(state, &a);
            callbacks::register(state, &a.attached_completion_callbacks, &a.attached_request_id, time);
            callbacks::register_attached(state, &a.workflow_update_options, time);
            if !a.attached_request_id.is_empty() {
                state.attached_request_ids.insert(a.attached_request_id, id);
            }
        }
        A::WorkflowExecutionPausedEventAttributes(a) => {
            let WorkflowExecutionPausedEventAttributes { identity, reason, request_id } = a;
            pause::set(
                state,
                &info.workflow_id,
                PauseInfo { time, identity, reason, request_id, ..Default::default() },
            );
        }
        A::WorkflowExecutionUnpausedEventAttributes(_) => pause::clear(state, &info.workflow_id),
        A::WorkflowExecutionUpdateAdmittedEventAttributes(a) => {
            let request = a.request.unwrap_or_default();
            let update = request.meta.map(|meta| meta.update_id).unwrap_or_default();
            callbacks::register_of_update(state, &update, &request.completion_callbacks, &request.request_id, time);
            state.updates.entry(update).or_default().admitted_event_id = id;
        }
        A::WorkflowExecutionUpdateAcceptedEventAttributes(a) => {
            if let Some(request) = &a.accepted_request {
                let (callbacks, request_id) = (&request.completion_callbacks, &request.request_id);
                callbacks::register_of_update(state, &a.protocol_instance_id, callbacks, request_id, time);
            }
            state.updates.entry(a.protocol_instance_id).or_default().accepted_event_id = id;
        }
        A::WorkflowExecutionUpdateCompletedEventAttributes(a) => {
            let update = a.meta.map(|meta| meta.update_id).unwrap_or_default();
            // The run of this history has delivered them.
            state.callbacks.retain(|registered| registered.update_id != update);
            state.updates.entry(update).or_default().completed_event_id = id;
        }
        _ => {}
    }
}

fn scheduled_task(
    a: &WorkflowTaskScheduledEventAttributes,
    info: &RunInfo,
    id: i64,
    time: Nanos,
    stamp: u32,
) -> WorkflowTask {
    WorkflowTask {
        scheduled_event_id: id,
        attempt: a.attempt.max(1),
        scheduled_time: time,
        original_scheduled_time: time,
        start_to_close: duration_nanos(a.start_to_close_timeout.as_ref()),
        queue: info.task_queue.clone(),
        stamp,
        ..Default::default()
    }
}

fn complete_task(state: &mut RunState, run_id: &str, a: &WorkflowTaskCompletedEventAttributes, id: i64, time: Nanos) {
    state.task = None;
    state.last_completed_started_id = a.started_event_id;
    let behavior = a.versioning_behavior();
    if state.versioning.is_some() || behavior != VersioningBehavior::Unspecified {
        state.versioning.get_or_insert_default().completed(behavior, a.deployment_version.as_ref());
    }
    let build = Build {
        binary_checksum: &a.binary_checksum,
        worker_version: a.worker_version.as_ref(),
        deployment_name: &a.worker_deployment_name,
        version: a.deployment_version.as_ref(),
    };
    builds::note(state, run_id, build, id, time);
}

fn scheduled_activity(a: ActivityTaskScheduledEventAttributes, id: i64, time: Nanos) -> Activity {
    Activity {
        scheduled_event_id: id,
        activity_id: a.activity_id,
        activity_type: a.activity_type.map(|kind| kind.name).unwrap_or_default(),
        queue: a.task_queue.map(|queue| queue.name).unwrap_or_default(),
        first_scheduled_time: time,
        scheduled_time: time,
        attempt: 1,
        schedule_to_start: duration_nanos(a.schedule_to_start_timeout.as_ref()),
        start_to_close: duration_nanos(a.start_to_close_timeout.as_ref()),
        schedule_to_close: duration_nanos(a.schedule_to_close_timeout.as_ref()),
        heartbeat: duration_nanos(a.heartbeat_timeout.as_ref()),
        retry_policy: a.retry_policy,
        priority: a.priority,
        stamp: 1,
        ..Default::default()
    }
}

fn scheduled_operation(a: NexusOperationScheduledEventAttributes, id: i64, time: Nanos) -> Operation {
    Operation {
        scheduled_event_id: id,
        endpoint: a.endpoint,
        endpoint_id: a.endpoint_id,
        service: a.service,
        operation: a.operation,
        request_id: a.request_id,
        schedule_to_close: duration_nanos(a.schedule_to_close_timeout.as_ref()),
        schedule_to_start: duration_nanos(a.schedule_to_start_timeout.as_ref()),
        start_to_close: duration_nanos(a.start_to_close_timeout.as_ref()),
        scheduled_time: time,
        start: HandlerRequest::new(),
        ..Default::default()
    }
}

fn end_cancellation(state: &mut RunState, id: i64, time: Nanos, result: CancellationResult) {
    let operation = state.operations.get_mut(&id);
    if let Some(cancellation) = operation.and_then(|operation| operation.cancellation.as_mut()) {
        cancellation.result = result as i32;
        cancellation.request = HandlerRequest { attempts: 1, last_attempt_end: time, ..Default::default() };
    }
}

fn initiated_child(a: StartChildWorkflowExecutionInitiatedEventAttributes, info: &RunInfo, id: i64) -> Child {
    Child {
        initiated_event_id: id,
        namespace: named(info, &a.namespace),
        workflow_id: a.workflow_id,
        workflow_type: a.workflow_type.map(|kind| kind.name).unwrap_or_default(),
        namespace_id: a.namespace_id,
        parent_close_policy: a.parent_close_policy,
        ..Default::default()
    }
}

/// The namespace an event names, or the run's own.
fn named(info: &RunInfo, namespace: &str) -> String {
    if namespace.is_empty() { info.namespace.clone() } else { namespace.to_owned() }
}

fn upsert(
    current: &mut std::collections::BTreeMap<String, Payload>,
    fields: std::collections::BTreeMap<String, Payload>,
) {
    for (name, value) in fields {
        match is_null(&value) {
            true => drop(current.remove(&name)),
            false => drop(current.insert(name, value)),
        }
    }
}
