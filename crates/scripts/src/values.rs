//! Payloads and failures between the protocol and scripts.

use std::sync::Arc;

use prost::Message;
use segno_flow::interface::{Failure, FailureInfo, Payload, TimeoutKind};
use segno_proto::{
    common::{Payload as WirePayload, Payloads, WorkflowExecution, WorkflowType},
    enums::TimeoutType,
    failure::{
        ActivityFailureInfo, ApplicationFailureInfo, CanceledFailureInfo, ChildWorkflowExecutionFailureInfo,
        Failure as WireFailure, NexusHandlerFailureInfo, NexusOperationFailureInfo, ResetWorkflowFailureInfo,
        ServerFailureInfo, TerminatedFailureInfo, TimeoutFailureInfo, failure::FailureInfo as WireInfo,
    },
};

/// Causes that are looked at; what is deeper is dropped, as the reference says.
const CAUSES_MAX: usize = 20;

pub(super) fn payload(payload: &WirePayload) -> Payload {
    Payload {
        metadata: payload.metadata.iter().map(|(key, value)| (key.clone(), value.to_vec())).collect(),
        data: payload.data.to_vec(),
    }
}

pub(super) fn payloads(payloads: Option<Payloads>) -> Vec<Payload> {
    payloads.map(|payloads| payloads.payloads.iter().map(payload).collect()).unwrap_or_default()
}

pub(super) fn wire_payload(payload: Payload) -> WirePayload {
    WirePayload {
        metadata: payload.metadata.into_iter().map(|(key, value)| (key, value.into())).collect(),
        data: payload.data.into(),
        ..Default::default()
    }
}

/// Payloads for the wire; none at all if there are none.
pub(super) fn wire_payloads(payloads: Vec<Payload>) -> Option<Payloads> {
    (!payloads.is_empty()).then(|| Payloads { payloads: payloads.into_iter().map(wire_payload).collect() })
}

/// A failure from the wire.
pub(super) fn failure(wire: &WireFailure) -> Failure {
    Failure { encoded: Some(Arc::from(wire.encode_to_vec())), ..without_bytes(wire, CAUSES_MAX) }
}

fn without_bytes(wire: &WireFailure, depth: usize) -> Failure {
    let cause = wire.cause.as_ref().filter(|_| depth > 0);
    Failure {
        message: wire.message.clone(),
        source: wire.source.clone(),
        stack_trace: wire.stack_trace.clone(),
        cause: cause.map(|cause| Box::new(without_bytes(cause, depth - 1))),
        info: wire.failure_info.as_ref().map_or(FailureInfo::None, info),
        encoded: None,
    }
}

fn info(wire: &WireInfo) -> FailureInfo {
    match wire {
        WireInfo::ApplicationFailureInfo(info) => FailureInfo::Application {
            kind: info.r#type.clone(),
            non_retryable: info.non_retryable,
            details: payloads(info.details.clone()),
        },
        WireInfo::TimeoutFailureInfo(info) => FailureInfo::Timeout {
            kind: match info.timeout_type() {
                TimeoutType::StartToClose => TimeoutKind::StartToClose,
                TimeoutType::ScheduleToStart => TimeoutKind::ScheduleToStart,
                TimeoutType::ScheduleToClose => TimeoutKind::ScheduleToClose,
                TimeoutType::Heartbeat => TimeoutKind::Heartbeat,
                TimeoutType::Unspecified => TimeoutKind::Unspecified,
            },
            last_heartbeat: payloads(info.last_heartbeat_details.clone()),
        },
        WireInfo::CanceledFailureInfo(info) => FailureInfo::Canceled { details: payloads(info.details.clone()) },
        WireInfo::TerminatedFailureInfo(_) => FailureInfo::Terminated,
        WireInfo::ServerFailureInfo(info) => FailureInfo::Server { non_retryable: info.non_retryable },
        WireInfo::ResetWorkflowFailureInfo(info) => {
            FailureInfo::Reset { last_heartbeat: payloads(info.last_heartbeat_details.clone()) }
        }
        WireInfo::ActivityFailureInfo(info) => FailureInfo::Activity {
            id: info.activity_id.clone(),
            name: info.activity_type.as_ref().map(|kind| kind.name.clone()).unwrap_or_default(),
            scheduled_event_id: info.scheduled_event_id,
            started_event_id: info.started_event_id,
            identity: info.identity.clone(),
            retry_state: info.retry_state,
        },
        WireInfo::ChildWorkflowExecutionFailureInfo(info) => {
            let execution = info.workflow_execution.clone().unwrap_or_default();
            FailureInfo::Child {
                namespace: info.namespace.clone(),
                workflow_id: execution.workflow_id,
                run_id: execution.run_id,
                name: info.workflow_type.as_ref().map(|kind| kind.name.clone()).unwrap_or_default(),
                initiated_event_id: info.initiated_event_id,
                started_event_id: info.started_event_id,
                retry_state: info.retry_state,
            }
        }
        WireInfo::NexusOperationExecutionFailureInfo(info) => FailureInfo::Nexus {
            scheduled_event_id: info.scheduled_event_id,
            endpoint: info.endpoint.clone(),
            service: info.service.clone(),
            operation: info.operation.clone(),
            token: info.operation_token.clone(),
        },
        WireInfo::NexusHandlerFailureInfo(info) => {
            FailureInfo::NexusHandler { kind: info.r#type.clone(), retry_behavior: info.retry_behavior }
        }
    }
}

/// A failure for the wire. One that came from there and was not changed leaves as it came.
pub(super) fn wire_failure(failure: Failure) -> WireFailure {
    if let Some(encoded) = &failure.encoded
        && let Ok(wire) = WireFailure::decode(&encoded[..])
    {
        return wire;
    }
    WireFailure {
        message: failure.message,
        source: failure.source,
        stack_trace: failure.stack_trace,
        cause: failure.cause.map(|cause| Box::new(wire_failure(*cause))),
        failure_info: wire_info(failure.info),
        ..Default::default()
    }
}

fn wire_info(info: FailureInfo) -> Option<WireInfo> {
    Some(match info {
        FailureInfo::None => return None,
        FailureInfo::Application { kind, non_retryable, details } => {
            WireInfo::ApplicationFailureInfo(ApplicationFailureInfo {
                r#type: kind,
                non_retryable,
                details: wire_payloads(details),
                ..Default::default()
            })
        }
        FailureInfo::Timeout { kind, last_heartbeat } => WireInfo::TimeoutFailureInfo(TimeoutFailureInfo {
            timeout_type: match kind {
                TimeoutKind::StartToClose => TimeoutType::StartToClose,
                TimeoutKind::ScheduleToStart => TimeoutType::ScheduleToStart,
                TimeoutKind::ScheduleToClose => TimeoutType::ScheduleToClose,
                TimeoutKind::Heartbeat => TimeoutType::Heartbeat,
                TimeoutKind::Unspecified => TimeoutType::Unspecified,
            } as i32,
            last_heartbeat_details: wire_payloads(last_heartbeat),
        }),
        FailureInfo::Canceled { details } => {
            let details = wire_payloads(details);
            WireInfo::CanceledFailureInfo(CanceledFailureInfo { details, ..Default::default() })
        }
        FailureInfo::Terminated => WireInfo::TerminatedFailureInfo(TerminatedFailureInfo::default()),
        FailureInfo::Server { non_retryable } => WireInfo::ServerFailureInfo(ServerFailureInfo { non_retryable }),
        FailureInfo::Reset { last_heartbeat } => WireInfo::ResetWorkflowFailureInfo(ResetWorkflowFailureInfo {
            last_heartbeat_details: wire_payloads(last_heartbeat),
        }),
        FailureInfo::Activity { id, name, scheduled_event_id, started_event_id, identity, retry_state } => {
            WireInfo::ActivityFailureInfo(ActivityFailureInfo {
                scheduled_event_id,
                started_event_id,
                identity,
                activity_type: Some(segno_proto::common::ActivityType { name }),
                activity_id: id,
                retry_state,
            })
        }
        FailureInfo::Child {
            namespace,
            workflow_id,
            run_id,
            name,
            initiated_event_id,
            started_event_id,
            retry_state,
        } => WireInfo::ChildWorkflowExecutionFailureInfo(ChildWorkflowExecutionFailureInfo {
            namespace,
            workflow_execution: Some(WorkflowExecution { workflow_id, run_id }),
            workflow_type: Some(WorkflowType { name }),
            initiated_event_id,
            started_event_id,
            retry_state,
        }),
        FailureInfo::Nexus { scheduled_event_id, endpoint, service, operation, token } => {
            WireInfo::NexusOperationExecutionFailureInfo(NexusOperationFailureInfo {
                scheduled_event_id,
                endpoint,
                service,
                operation,
                operation_token: token,
                ..Default::default()
            })
        }
        FailureInfo::NexusHandler { kind, retry_behavior } => {
            WireInfo::NexusHandlerFailureInfo(NexusHandlerFailureInfo { r#type: kind, retry_behavior })
        }
    })
}
