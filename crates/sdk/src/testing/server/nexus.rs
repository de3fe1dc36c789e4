//! Nexus operations, which mocks stand for: one with a latency is started and goes on by itself, one without is complete at
//! once.

use segno_proto::{
    Nanos,
    command::ScheduleNexusOperationCommandAttributes,
    common::Payload,
    duration_nanos,
    enums::TimeoutType,
    events::*,
    failure::{NexusOperationFailureInfo, failure::FailureInfo},
};

use super::{
    Order, Server, TimedEvent,
    event::Event,
    run::{Inbound, Run},
};
use crate::failure::Failure;

/// An operation that has not ended.
pub(crate) struct PendingOperation {
    pub(crate) attributes: NexusOperationScheduledEventAttributes,
    pub(crate) token: String,
}

impl PendingOperation {
    /// Its name for mocks and latencies.
    pub(crate) fn name(&self) -> String {
        format!("{}.{}", self.attributes.service, self.attributes.operation)
    }

    fn failure(&self, scheduled_event_id: i64, cause: Failure) -> Failure {
        let info = FailureInfo::NexusOperationExecutionFailureInfo(NexusOperationFailureInfo {
            scheduled_event_id,
            endpoint: self.attributes.endpoint.clone(),
            service: self.attributes.service.clone(),
            operation: self.attributes.operation.clone(),
            operation_token: self.token.clone(),
            ..Default::default()
        });
        Failure::with_info("nexus operation completed unsuccessfully".to_owned(), info, Some(cause))
    }
}

impl Server {
    pub(super) fn schedule_operation(
        &mut self,
        index: usize,
        completed: i64,
        command: ScheduleNexusOperationCommandAttributes,
    ) {
        let attributes = NexusOperationScheduledEventAttributes {
            endpoint: command.endpoint,
            service: command.service,
            operation: command.operation,
            input: command.input,
            schedule_to_close_timeout: command.schedule_to_close_timeout,
            schedule_to_start_timeout: command.schedule_to_start_timeout,
            start_to_close_timeout: command.start_to_close_timeout,
            nexus_header: command.nexus_header,
            workflow_task_completed_event_id: completed,
            request_id: format!("{}-{completed}", self.runs[index].run_id),
            ..Default::default()
        };
        let event = Event::NexusOperationScheduledEventAttributes(attributes.clone());
        let scheduled_event_id = self.runs[index].write(self.now, event);
        self.plan_timeout(
            index,
            scheduled_event_id,
            attributes.schedule_to_close_timeout.as_ref(),
            TimeoutType::ScheduleToClose,
        );
        self.runs[index].operations.insert(scheduled_event_id, PendingOperation { attributes, token: String::new() });
        self.plan(self.now, TimedEvent::StartOperation { run: index, scheduled_event_id });
    }

    fn plan_timeout(
        &mut self,
        run: usize,
        scheduled_event_id: i64,
        limit: Option<&prost_types::Duration>,
        kind: TimeoutType,
    ) {
        let limit = duration_nanos(limit);
        if limit > 0 {
            let at = self.now.saturating_add(limit);
            self.plan(at, TimedEvent::OperationTimeout { run, scheduled_event_id, kind });
        }
    }

    /// The handler is called: by the driver, which has the mocks.
    pub(super) fn call_handler(&mut self, run: usize, scheduled_event_id: i64) {
        if self.runs[run].operations.contains_key(&scheduled_event_id) {
            self.orders.push(Order::Operation { run, scheduled_event_id });
        }
    }

    /// The handler's answer. With a latency the operation goes on by itself so long.
    pub(crate) fn handler_answered(
        &mut self,
        run: usize,
        scheduled_event_id: i64,
        result: Result<Vec<Payload>, Failure>,
        latency: Nanos,
    ) {
        if latency == 0 {
            return self.end_operation(run, scheduled_event_id, result);
        }
        let Some(operation) = self.runs[run].operations.get_mut(&scheduled_event_id) else { return };
        operation.token = format!("token-{scheduled_event_id}");
        let started = NexusOperationStartedEventAttributes {
            scheduled_event_id,
            operation_token: operation.token.clone(),
            request_id: operation.attributes.request_id.clone(),
            ..Default::default()
        };
        let limit = operation.attributes.start_to_close_timeout;
        self.receive(run, Inbound::Event(Event::NexusOperationStartedEventAttributes(started)));
        self.plan_timeout(run, scheduled_event_id, limit.as_ref(), TimeoutType::StartToClose);
        let at = self.now.saturating_add(latency);
        self.plan(at, TimedEvent::OperationEnd { run, scheduled_event_id, result });
    }

    /// The operation ended.
    pub(super) fn end_operation(&mut self, run: usize, scheduled_event_id: i64, result: Result<Vec<Payload>, Failure>) {
        let Some(operation) = self.runs[run].operations.remove(&scheduled_event_id) else { return };
        let request_id = operation.attributes.request_id.clone();
        let event = match result {
            Ok(result) => Event::NexusOperationCompletedEventAttributes(NexusOperationCompletedEventAttributes {
                scheduled_event_id,
                result: result.into_iter().next(),
                request_id,
            }),
            Err(cause) if cause.is_cancelled() => {
                Event::NexusOperationCanceledEventAttributes(NexusOperationCanceledEventAttributes {
                    scheduled_event_id,
                    failure: Some(operation.failure(scheduled_event_id, cause).to_wire()),
                    request_id,
                })
            }
            Err(cause) => Event::NexusOperationFailedEventAttributes(NexusOperationFailedEventAttributes {
                scheduled_event_id,
                failure: Some(operation.failure(scheduled_event_id, cause).to_wire()),
                request_id,
            }),
        };
        self.receive(run, Inbound::Event(event));
    }

    pub(super) fn time_out_operation(&mut self, run: usize, scheduled_event_id: i64, kind: TimeoutType) {
        let Some(operation) = self.runs[run].operations.remove(&scheduled_event_id) else { return };
        let cause = Failure::timeout(kind, "operation timed out");
        let event = NexusOperationTimedOutEventAttributes {
            scheduled_event_id,
            failure: Some(operation.failure(scheduled_event_id, cause).to_wire()),
            request_id: operation.attributes.request_id,
        };
        self.receive(run, Inbound::Event(Event::NexusOperationTimedOutEventAttributes(event)));
    }

    pub(super) fn request_operation_cancel(&mut self, index: usize, completed: i64, scheduled_event_id: i64) {
        let event = NexusOperationCancelRequestedEventAttributes {
            scheduled_event_id,
            workflow_task_completed_event_id: completed,
        };
        let requested_event_id =
            self.runs[index].write(self.now, Event::NexusOperationCancelRequestedEventAttributes(event));
        self.plan(self.now, TimedEvent::CancelOperation { run: index, scheduled_event_id, requested_event_id });
    }

    /// The request to cancel reaches the handler, which cancels the operation at once.
    pub(super) fn cancel_operation(&mut self, run: usize, scheduled_event_id: i64, requested_event_id: i64) {
        if !self.runs[run].operations.contains_key(&scheduled_event_id) {
            return;
        }
        let event = NexusOperationCancelRequestCompletedEventAttributes {
            requested_event_id,
            scheduled_event_id,
            ..Default::default()
        };
        self.receive(run, Inbound::Event(Event::NexusOperationCancelRequestCompletedEventAttributes(event)));
        self.end_operation(run, scheduled_event_id, Err(Failure::cancelled()));
    }
}

/// Whether the server accepts a request to cancel: for an operation that is open, or that ended during the workflow task.
pub(super) fn takes_cancel(run: &Run, scheduled_event_id: i64) -> bool {
    let ends = |inbound: &Inbound| match inbound {
        Inbound::Event(event) => crate::workflow::nexus_events::ended(event) == Some(scheduled_event_id),
        _ => false,
    };
    run.operations.contains_key(&scheduled_event_id) || run.buffered.iter().any(ends)
}
