//! Nexus operations of a run.

use crate::interface::{Failure, FailureInfo, ScheduleNexus, TimeoutKind};

/// An operation that has not ended.
pub(super) struct Operation {
    /// What the script asked for.
    pub order: ScheduleNexus,
    /// Whether it was asked to cancel.
    pub is_cancel_requested: bool,
}

impl Operation {
    /// Service and operation, as errors and mocks name it.
    pub(super) fn name(&self) -> String {
        format!("{}.{}", self.order.service, self.order.operation)
    }

    /// The failure as the server reports it to the run.
    pub(super) fn failure(&self, cause: Failure) -> Failure {
        Failure {
            message: "nexus operation completed unsuccessfully".to_owned(),
            cause: Some(Box::new(cause)),
            info: FailureInfo::Nexus {
                scheduled_event_id: 0,
                endpoint: self.order.endpoint.clone(),
                service: self.order.service.clone(),
                operation: self.order.operation.clone(),
                token: String::new(),
            },
            ..Failure::default()
        }
    }

    /// The failure of a time-out.
    pub(super) fn timed_out(&self, kind: TimeoutKind) -> Failure {
        self.failure(Failure {
            message: "operation timed out".to_owned(),
            info: FailureInfo::Timeout { kind, last_heartbeat: Vec::new() },
            ..Failure::default()
        })
    }
}
