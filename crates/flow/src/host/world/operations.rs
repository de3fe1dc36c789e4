//! Nexus operations: mocks are their handlers, which start them at once.

use crate::interface::{End, EventKind, FailureInfo, ScheduleNexus, TimeoutKind};
use crate::library::Function;

use super::super::hook::mock_key;
use super::super::operation::Operation;
use super::super::task::canceled;
use super::{Caller, ReadyEvent, TimedEvent, World};

impl World {
    pub(super) fn schedule_operation(&mut self, run: usize, order: ScheduleNexus) {
        let id = order.id.clone();
        let timeouts = [
            (TimeoutKind::ScheduleToClose, order.schedule_to_close),
            (TimeoutKind::StartToClose, order.start_to_close),
        ];
        for (kind, timeout) in timeouts.into_iter().filter(|(_, timeout)| *timeout > 0) {
            self.at(self.now.saturating_add(timeout), TimedEvent::OperationTimeout(run, id.clone(), kind));
        }
        self.runs[run].operations.insert(id.clone(), Operation { order, is_cancel_requested: false });
        self.ready.push_back(ReadyEvent::Operation(run, id));
    }

    /// Calls the mock of an operation.
    pub(super) fn start_operation(&mut self, run: usize, id: &str) -> Option<EventKind> {
        let operation = self.runs.get(run)?.operations.get(id)?;
        let (name, input) = (operation.name(), Vec::from_iter(operation.order.input.clone()));
        let key = mock_key(Function::MockNexus, &name);
        if !self.mocks.contains(&key) {
            self.fail(format!("no mock for Nexus operation \"{name}\""));
            return None;
        }
        self.calls.entry(name).or_default().push(input.clone());
        Some(self.call_mock(key, input, Caller::Operation(run, id.to_owned())))
    }

    /// The mock of an operation has ended.
    pub(super) fn operation_ended(&mut self, run: usize, id: String, end: End) {
        // One that timed out is over.
        let Some(operation) = self.runs.get_mut(run).and_then(|run| run.operations.remove(&id)) else { return };
        let end = end.map_err(|failure| match failure.info {
            FailureInfo::Application { kind, details, .. } if operation.is_cancel_requested && kind == "Canceled" => {
                operation.failure(canceled(details))
            }
            info => operation.failure(crate::interface::Failure { info, ..failure }),
        });
        self.record(run, EventKind::NexusEnded { id, end });
    }

    pub(super) fn operation_timed_out(&mut self, run: usize, id: String, kind: TimeoutKind) {
        if let Some(operation) = self.runs[run].operations.remove(&id) {
            let end = Err(operation.timed_out(kind));
            self.record(run, EventKind::NexusEnded { id, end });
        }
    }

    /// Asks an operation to cancel. A mock does not hear of it.
    pub(super) fn cancel_operation(&mut self, run: usize, id: &str) {
        if let Some(operation) = self.runs[run].operations.get_mut(id) {
            operation.is_cancel_requested = true;
        }
    }
}
