//! Tasks: attempts call mocks.

use crate::interface::{End, EventKind, Failure, FailureInfo, Payload, ScheduleTask};
use crate::library::Function;

use super::super::hook::mock_key;
use super::super::report;
use super::super::run::Status;
use super::super::task::{Task, canceled, next_attempt, of_task};
use super::{Caller, ReadyEvent, TimedEvent, World};

impl World {
    pub(super) fn schedule(&mut self, run: usize, order: ScheduleTask) {
        let id = order.id.clone();
        if order.schedule_to_close > 0 {
            self.at(self.now.saturating_add(order.schedule_to_close), TimedEvent::TaskDeadline(run, id.clone()));
        }
        let task = Task { order, scheduled_at: self.now, attempt: 0, is_running: false, is_cancel_requested: false };
        self.runs[run].tasks.insert(id.clone(), task);
        self.ready.push_back(ReadyEvent::Attempt(run, id));
    }

    /// Begins an attempt: the mock of the task is called.
    pub(super) fn attempt(&mut self, run: usize, id: &str) -> Option<EventKind> {
        let task = self.runs.get_mut(run)?.tasks.get_mut(id).filter(|task| !task.is_running)?;
        task.attempt += 1;
        task.is_running = true;
        let (attempt, timeout) = (task.attempt, task.order.start_to_close);
        let (name, input) = (task.order.name.clone(), task.order.input.clone());
        let key = mock_key(Function::Mock, &name);
        if !self.mocks.contains(&key) {
            self.fail(format!("no mock for task \"{name}\""));
            return None;
        }
        if timeout > 0 {
            self.at(self.now.saturating_add(timeout), TimedEvent::AttemptTimeout(run, id.to_owned(), attempt));
        }
        self.calls.entry(name).or_default().push(input.clone());
        Some(self.call_mock(key, input, Caller::Task(run, id.to_owned(), attempt)))
    }

    pub(super) fn call_mock(&mut self, name: String, input: Vec<Payload>, caller: Caller) -> EventKind {
        self.sequence += 1;
        let id = format!("mock-{}", self.sequence);
        self.mock_calls.insert(id.clone(), caller);
        EventKind::Update { id, name, input }
    }

    /// A mock has ended.
    pub(in crate::host) fn mock_ended(&mut self, id: &str, end: End) {
        if let Err(failure) = &end
            && matches!(&failure.info, FailureInfo::Application { kind, .. } if kind == crate::host::ASSERTION)
        {
            self.fail(report::of_failure(failure));
            return;
        }
        match self.mock_calls.remove(id) {
            Some(Caller::Task(run, id, attempt)) => {
                let task = self.runs.get_mut(run).and_then(|run| run.tasks.get_mut(&id));
                // An attempt that timed out ended long ago.
                let Some(task) = task.filter(|task| task.is_running && task.attempt == attempt) else { return };
                let is_cancel = |failure: &Failure| matches!(&failure.info, FailureInfo::Application { kind, .. } if kind == "Canceled");
                match end {
                    Ok(result) => {
                        self.runs[run].tasks.remove(&id);
                        self.record(run, EventKind::TaskEnded { id, end: Ok(result) });
                    }
                    Err(failure) if task.is_cancel_requested && is_cancel(&failure) => {
                        let FailureInfo::Application { details, .. } = failure.info else { return };
                        self.task_failed(run, &id, canceled(details));
                    }
                    Err(failure) => self.attempt_failed(run, &id, failure),
                }
            }
            Some(Caller::Operation(run, id)) => self.operation_ended(run, id, end),
            Some(Caller::Workflow(run)) => match end {
                Ok(result) => self.close(run, Status::Completed(result)),
                Err(failure) => self.close(run, Status::Failed(failure)),
            },
            None => {}
        }
    }

    /// An attempt failed: there is another one, or the task has failed.
    pub(super) fn attempt_failed(&mut self, run: usize, id: &str, failure: Failure) {
        let now = self.now;
        let Some(task) = self.runs.get_mut(run).and_then(|run| run.tasks.get_mut(id)) else { return };
        task.is_running = false;
        let next = next_attempt(task.order.retry.as_ref(), task.attempt, &failure).map(|interval| now + interval);
        let deadline = task.scheduled_at.saturating_add(task.order.schedule_to_close);
        let next = next.filter(|next| task.order.schedule_to_close == 0 || *next < deadline);
        match next {
            Some(next) if !task.is_cancel_requested => {
                self.at(next, TimedEvent::Retry(run, id.to_owned()));
            }
            _ => self.task_failed(run, id, failure),
        }
    }

    pub(super) fn task_failed(&mut self, run: usize, id: &str, cause: Failure) {
        if let Some(task) = self.runs[run].tasks.remove(id) {
            let end = Err(of_task(&task, cause));
            self.record(run, EventKind::TaskEnded { id: id.to_owned(), end });
        }
    }

    /// Asks a task to cancel. A mock does not hear of it; a task between two attempts ends at once.
    pub(super) fn cancel_task(&mut self, run: usize, id: &str) {
        let Some(task) = self.runs[run].tasks.get_mut(id) else { return };
        task.is_cancel_requested = true;
        if !task.is_running
            && let Some(task) = self.runs[run].tasks.remove(id)
        {
            let end = Err(of_task(&task, canceled(Vec::new())));
            self.ready.push_back(ReadyEvent::Record(run, EventKind::TaskEnded { id: id.to_owned(), end }));
        }
    }
}
