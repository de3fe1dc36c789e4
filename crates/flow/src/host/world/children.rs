//! Children, and signals and cancel requests to other workflows.

use crate::interface::{EventKind, Failure, FailureInfo, IdReuse, NotSent, ParentClose, StartChild};
use crate::library::Function;

use super::super::hook::mock_key;
use super::super::run::{Run, Status};
use super::{Caller, ReadyEvent, TimedEvent, World};

impl World {
    pub(super) fn start_child(&mut self, parent: usize, order: StartChild) -> Option<EventKind> {
        let workflow_id = order.workflow_id.clone();
        if !self.runs[parent].is_running() && order.parent_close != ParentClose::Abandon {
            return None;
        }
        let is_taken = self.latest(&workflow_id).is_some_and(|run| match (&self.runs[run].status, order.id_reuse) {
            (Status::Running | Status::ContinuedAsNew, _) | (_, IdReuse::Reject) => true,
            (Status::Completed(_), IdReuse::AllowFailed) => true,
            (_, IdReuse::Allow | IdReuse::AllowFailed) => false,
        });
        if is_taken {
            self.record(parent, EventKind::ChildNotStarted { workflow_id, reason: NotSent::AlreadyStarted });
            return None;
        }
        if !order.cron.is_empty() {
            self.fail(format!("workflow \"{}\" has a cron schedule, which tests do not follow", order.name));
            return None;
        }
        let key = mock_key(Function::MockWorkflow, &order.name);
        let is_mocked = self.mocks.contains(&key);
        let script = self.scripts.iter().position(|script| script.code.name() == order.name);
        if !is_mocked && script.is_none() {
            self.fail(format!("no mock for workflow \"{}\"", order.name));
            return None;
        }
        let script = script.filter(|_| !is_mocked);
        let mut start = self.new_start(&workflow_id, &order.name);
        start.version = script
            .and_then(|script| self.scripts.get(script))
            .map_or_else(String::new, |script| script.version.clone());
        let of_parent = &self.runs[parent].start;
        start.parent = Some((of_parent.workflow_id.clone(), of_parent.run_id.clone()));
        start.task_queue = if order.queue.is_empty() { of_parent.task_queue.clone() } else { order.queue };
        start.memo = order.memo;
        start.search_attributes = order.search_attributes;
        start.input = order.input;
        let (run_id, input) = (start.run_id.clone(), start.input.clone());
        let mut run = Run::new(start.clone(), script);
        run.parent = Some(parent);
        run.parent_close = order.parent_close;
        run.retry = order.retry;
        run.run_timeout = order.run_timeout;
        self.runs.push(run);
        let run = self.runs.len() - 1;
        if order.execution_timeout > 0 {
            self.at(
                self.now.saturating_add(order.execution_timeout),
                TimedEvent::ExecutionTimeout(workflow_id.clone(), run),
            );
        }
        self.record(parent, EventKind::ChildStarted { workflow_id, run_id });
        if is_mocked {
            if order.run_timeout > 0 {
                self.at(self.now.saturating_add(order.run_timeout), TimedEvent::RunTimeout(run));
            }
            self.calls.entry(order.name).or_default().push(input.clone());
            return Some(self.call_mock(key, input, Caller::Workflow(run)));
        }
        self.begin(run, vec![EventKind::Started(Box::new(start))]);
        None
    }

    pub(super) fn send(&mut self, from: usize, id: Option<String>, workflow_id: &str, run_id: &str, event: EventKind) {
        let target = self.latest(workflow_id).filter(|run| {
            let run = &self.runs[*run];
            run.is_running() && (run_id.is_empty() || run.start.run_id == run_id)
        });
        match target {
            Some(run) => self.record(run, event),
            None if id.is_none() => return,
            None => {}
        }
        if let Some(id) = id {
            let failed = match target {
                Some(_) => None,
                None => Some(NotSent::NotFound(format!("there is no workflow \"{workflow_id}\" that runs"))),
            };
            self.record(from, EventKind::SendEnded { id, failed });
        }
    }

    pub(super) fn of_child(&self, run: usize, cause: Failure) -> Failure {
        let start = &self.runs[run].start;
        Failure {
            message: "Child Workflow execution failed".to_owned(),
            cause: Some(Box::new(cause)),
            info: FailureInfo::Child {
                namespace: start.namespace.clone(),
                workflow_id: start.workflow_id.clone(),
                run_id: start.run_id.clone(),
                name: start.name.clone(),
                initiated_event_id: 0,
                started_event_id: 0,
                retry_state: 0,
            },
            ..Failure::default()
        }
    }

    pub(super) fn close_children(&mut self, run: usize) {
        for child in 0..self.runs.len() {
            if self.runs[child].parent != Some(run) || !self.runs[child].is_running() {
                continue;
            }
            match self.runs[child].parent_close {
                ParentClose::Abandon => {}
                ParentClose::Terminate => self.close(child, Status::Terminated),
                ParentClose::Cancel => {
                    let reason = "by parent close policy".to_owned();
                    self.ready.push_back(ReadyEvent::Record(child, EventKind::CancelRequested { reason }));
                }
            }
        }
    }
}
