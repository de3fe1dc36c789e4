//! Requests of the test program.

use crate::interface::{End, EventKind, Failure, FailureInfo, Payload};
use crate::library::Function;

use super::super::hook::mock_key;
use super::super::run::{Run, Status};
use super::{ReadyEvent, TimedEvent, WORKFLOW_ID, World};

impl World {
    pub(super) fn promise(&mut self) -> String {
        self.promises += 1;
        format!("test-{}", self.promises)
    }

    pub(in crate::host) fn add_mock(&mut self, function: Function, name: &str) {
        self.mocks.insert(mock_key(function, name));
    }

    /// A promise of the result of the run.
    pub(in crate::host) fn result(&mut self) -> String {
        let id = self.promise();
        let end = self.latest(WORKFLOW_ID).and_then(|run| self.runs[run].status.end());
        match end {
            Some(end) => self.ready.push_back(ReadyEvent::Test(EventKind::TaskEnded { id: id.clone(), end })),
            None => self.result_waiters.push(id.clone()),
        }
        id
    }

    /// Gives the run under test an event. `false` if it has ended.
    pub(in crate::host) fn tell(&mut self, event: EventKind) -> bool {
        match self.latest(WORKFLOW_ID).filter(|run| self.runs[*run].is_running()) {
            Some(run) => {
                self.record(run, event);
                self.begin_all();
                true
            }
            None => false,
        }
    }

    /// A promise of the result of an update.
    pub(in crate::host) fn update(&mut self, name: String, input: Vec<Payload>) -> String {
        let promise = self.promise();
        let id = format!("update-{promise}");
        self.updates.insert(id.clone(), promise.clone());
        if !self.tell(EventKind::Update { id: id.clone(), name, input }) {
            self.updates.remove(&id);
            let failure = Failure {
                message: "workflow execution already completed".to_owned(),
                info: FailureInfo::Application {
                    kind: "NotFound".to_owned(),
                    non_retryable: true,
                    details: Vec::new(),
                },
                ..Failure::default()
            };
            self.ready.push_back(ReadyEvent::Test(EventKind::TaskEnded { id: promise.clone(), end: Err(failure) }));
        }
        promise
    }

    pub(super) fn update_ended(&mut self, id: &str, end: End) {
        if let Some(id) = self.updates.remove(id) {
            self.ready.push_back(ReadyEvent::Test(EventKind::TaskEnded { id, end }));
        }
    }

    pub(in crate::host) fn terminate(&mut self) {
        if let Some(run) = self.latest(WORKFLOW_ID) {
            self.close(run, Status::Terminated);
        }
    }

    /// Inputs of all attempts of a task, or of all starts of a mocked workflow.
    pub(in crate::host) fn calls(&self, name: &str) -> &[Vec<Payload>] {
        self.calls.get(name).map_or(&[], Vec::as_slice)
    }

    /// The runs of the workflow id under test.
    pub(in crate::host) fn chain(&self) -> impl Iterator<Item = &Run> {
        self.runs.iter().filter(|run| run.start.workflow_id == WORKFLOW_ID)
    }

    pub(in crate::host) fn start_test_timer(&mut self, id: String, duration: i64) {
        let sequence = self.at(self.now.saturating_add(duration), TimedEvent::TestTimer(id.clone()));
        self.test_timers.insert(id, sequence);
    }

    pub(in crate::host) fn cancel_test_timer(&mut self, id: &str) {
        self.test_timers.remove(id);
    }
}

/// An update that was under way when its run closed, in Temporal's words.
pub(super) fn update_lost() -> Failure {
    Failure {
        message: "Workflow Update failed because the Workflow completed before the Update completed.".to_owned(),
        info: FailureInfo::Application {
            kind: "AcceptedUpdateCompletedWorkflow".to_owned(),
            non_retryable: true,
            details: Vec::new(),
        },
        ..Failure::default()
    }
}
