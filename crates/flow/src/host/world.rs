//! What stands in for the server: runs, tasks, timers and children, and a clock that jumps to the next thing due.
//!
//! Everything that happens at once is in a queue, first come first served; everything that happens later is on an agenda
//! by time. A run's turn is executed in the moment its wake set asks for it, as the server does.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use crate::Code;
use crate::interface::{
    Command, ContinueAsNew, End, Event, EventKind, Failure, FailureInfo, IdReuse, Limits, NotSent, ParentClose, Payload,
    ScheduleTask, Start, StartChild, TimeoutKind, Unpaced,
};
use crate::library::Function;
use crate::pure::random::Random;

use super::hook::mock_key;
use super::run::{Run, Status, TurnRecord};
use super::task::{Task, canceled, next_attempt, of_task, timed_out};
use super::wake;

/// 2026-01-01T00:00:00.000Z
const EPOCH: i64 = 1_767_225_600_000;

/// The workflow id of the run under test.
pub(super) const WORKFLOW_ID: &str = "test";

/// A script that runs can execute.
pub(super) struct Script {
    pub code: Arc<Code>,
    pub version: String,
}

/// Something to do at once.
enum Ready {
    /// An event for the test program.
    Test(EventKind),
    /// An event for a run.
    Record(usize, EventKind),
    Attempt(usize, String),
    StartChild(usize, Box<StartChild>),
    /// A run that was made and has to begin: its first events.
    Begin(usize, Vec<EventKind>),
    /// A signal or cancel request to another workflow: the sender, its promise, workflow id, run id, and the event.
    Send { from: usize, id: Option<String>, workflow_id: String, run_id: String, event: EventKind },
}

/// Something to do later.
enum Due {
    TestTimer(String),
    Timer(usize, String),
    /// Another attempt of a task.
    Retry(usize, String),
    /// `start_to_close` of an attempt.
    AttemptTimeout(usize, String, u32),
    /// `schedule_to_close` of a task.
    TaskDeadline(usize, String),
    RunTimeout(usize),
    /// A workflow id must have ended by now: its time-out over all runs.
    ExecutionTimeout(String, usize),
    RetryRun(usize),
}

/// Who waits for the end of a call of a mock.
enum Caller {
    Task(usize, String, u32),
    Workflow(usize),
}

pub(super) struct World {
    pub now: i64,
    pub scripts: Vec<Script>,
    pub runs: Vec<Run>,
    agenda: BTreeMap<(i64, u64), Due>,
    sequence: u64,
    ready: VecDeque<Ready>,
    test_timers: BTreeMap<String, u64>,
    mocks: BTreeSet<String>,
    mock_calls: BTreeMap<String, Caller>,
    calls: BTreeMap<String, Vec<Vec<Payload>>>,
    /// Promises of the test program that wait for the result of the run.
    result_waiters: Vec<String>,
    /// Updates under way, with the promises of the test program that wait for them.
    updates: BTreeMap<String, String>,
    /// What ends the test at once.
    pub problem: Option<String>,
    ids: Random,
    promises: u32,
}

impl World {
    pub(super) fn new(scripts: Vec<Script>, seed: &str) -> Self {
        Self {
            now: EPOCH,
            scripts,
            runs: Vec::new(),
            agenda: BTreeMap::new(),
            sequence: 0,
            ready: VecDeque::new(),
            test_timers: BTreeMap::new(),
            mocks: BTreeSet::new(),
            mock_calls: BTreeMap::new(),
            calls: BTreeMap::new(),
            result_waiters: Vec::new(),
            updates: BTreeMap::new(),
            problem: None,
            ids: Random::seeded(seed),
            promises: 0,
        }
    }

    fn fail(&mut self, problem: impl Into<String>) {
        self.problem.get_or_insert_with(|| problem.into());
    }

    fn at(&mut self, time: i64, due: Due) -> u64 {
        self.sequence += 1;
        self.agenda.insert((time, self.sequence), due);
        self.sequence
    }

    /// The next event for the test program. Does everything else that comes before it. `None` if nothing is left to
    /// happen, or the test has ended.
    pub(super) fn next(&mut self) -> Option<EventKind> {
        loop {
            if self.problem.is_some() {
                return None;
            }
            let event = match self.ready.pop_front() {
                Some(ready) => self.take(ready),
                None => {
                    let ((time, sequence), due) = self.agenda.pop_first()?;
                    if self.is_due(&due, sequence) {
                        self.now = self.now.max(time);
                        self.fall_due(due)
                    } else {
                        // Withdrawn: the clock does not jump for it.
                        None
                    }
                }
            };
            if event.is_some() {
                return event;
            }
        }
    }

    fn take(&mut self, ready: Ready) -> Option<EventKind> {
        match ready {
            Ready::Test(event) => return Some(event),
            Ready::Record(run, event) => self.record(run, event),
            Ready::Attempt(run, id) => return self.attempt(run, &id),
            Ready::StartChild(parent, order) => return self.start_child(parent, *order),
            Ready::Begin(run, events) => self.begin(run, events),
            Ready::Send { from, id, workflow_id, run_id, event } => self.send(from, id, &workflow_id, &run_id, event),
        }
        None
    }

    fn is_due(&self, due: &Due, sequence: u64) -> bool {
        let task = |run: usize, id: &str| self.runs.get(run).and_then(|run| run.tasks.get(id));
        match due {
            Due::TestTimer(id) => self.test_timers.get(id) == Some(&sequence),
            Due::Timer(run, id) => {
                self.runs.get(*run).is_some_and(|run| run.is_running() && run.timers.get(id) == Some(&sequence))
            }
            Due::Retry(run, id) => task(*run, id).is_some_and(|task| !task.is_running),
            Due::AttemptTimeout(run, id, attempt) => {
                task(*run, id).is_some_and(|task| task.is_running && task.attempt == *attempt)
            }
            Due::TaskDeadline(run, id) => task(*run, id).is_some(),
            Due::RunTimeout(run) => self.runs.get(*run).is_some_and(Run::is_running),
            Due::ExecutionTimeout(id, first) => self.latest(id).is_some_and(|run| run >= *first && self.runs[run].is_running()),
            Due::RetryRun(_) => true,
        }
    }

    fn fall_due(&mut self, due: Due) -> Option<EventKind> {
        match due {
            Due::TestTimer(id) => {
                self.test_timers.remove(&id);
                return Some(EventKind::TimerFired { id });
            }
            Due::Timer(run, id) => {
                self.runs[run].timers.remove(&id);
                self.record(run, EventKind::TimerFired { id });
            }
            Due::Retry(run, id) => return self.attempt(run, &id),
            Due::AttemptTimeout(run, id, _) => self.attempt_failed(run, &id, timed_out(TimeoutKind::StartToClose)),
            Due::TaskDeadline(run, id) => {
                if let Some(task) = self.runs[run].tasks.remove(&id) {
                    let failure = of_task(&task, timed_out(TimeoutKind::ScheduleToClose));
                    self.record(run, EventKind::TaskEnded { id, end: Err(failure) });
                }
            }
            Due::RunTimeout(run) => self.close(run, Status::TimedOut),
            Due::ExecutionTimeout(id, _) => {
                if let Some(run) = self.latest(&id) {
                    self.close(run, Status::TimedOut);
                }
            }
            Due::RetryRun(run) => {
                let events = vec![EventKind::Started(Box::new(self.runs[run].start.clone()))];
                self.begin(run, events);
            }
        }
        None
    }

    /// The latest run of a workflow id.
    pub(super) fn latest(&self, workflow_id: &str) -> Option<usize> {
        self.runs.iter().rposition(|run| run.start.workflow_id == workflow_id)
    }

    // Runs.

    /// Notes an event of a run and executes a turn if one is due.
    fn record(&mut self, run: usize, kind: EventKind) {
        let now = self.now;
        let Some(target) = self.runs.get_mut(run).filter(|run| run.is_running() && run.script.is_some()) else { return };
        let is_due = wake::wakes(&mut target.wake, &kind);
        target.recorded.push(Event { time: now, kind });
        // A run that follows another one and has not begun takes what came with its first turn.
        if is_due && !target.turns.is_empty() {
            self.turn(run);
        }
    }

    fn turn(&mut self, run: usize) {
        let target = &mut self.runs[run];
        let Some(script) = target.script.and_then(|script| self.scripts.get(script)) else { return };
        let events = std::mem::take(&mut target.recorded);
        match crate::turn(&script.code, target.state.as_deref(), &events, &Limits::default(), &mut Unpaced) {
            Ok(turned) if is_rejection(&turned.commands) => {
                // Nothing of it is written: what was recorded before waits for another turn.
                let is_update = |event: &Event| matches!(event.kind, EventKind::Update { .. });
                target.recorded = events.into_iter().filter(|event| !is_update(event)).collect();
                for command in turned.commands {
                    self.command(run, command);
                }
            }
            Ok(turned) => {
                target.state = Some(turned.state);
                target.wake = turned.wake;
                target.log.extend(turned.log.iter().cloned());
                target.turns.push(TurnRecord { events, commands: turned.commands.clone(), log: turned.log });
                for command in turned.commands {
                    self.command(run, command);
                }
            }
            Err(error) => self.fail(format!("{}a turn gave {error:?}", super::DEFECT)),
        }
    }

    fn command(&mut self, run: usize, command: Command) {
        match command {
            Command::ScheduleTask(order) => self.schedule(run, *order),
            Command::CancelTask { id } => self.cancel_task(run, &id),
            Command::StartTimer { id, duration } => {
                let sequence = self.at(self.now.saturating_add(duration), Due::Timer(run, id.clone()));
                self.runs[run].timers.insert(id, sequence);
            }
            Command::CancelTimer { id } => {
                self.runs[run].timers.remove(&id);
            }
            Command::StartChild(order) => self.ready.push_back(Ready::StartChild(run, order)),
            Command::CancelChild { workflow_id, reason } => {
                let event = EventKind::CancelRequested { reason };
                self.ready.push_back(Ready::Send { from: run, id: None, workflow_id, run_id: String::new(), event });
            }
            Command::Signal { id, workflow_id, run_id, name, input } => {
                let event = EventKind::Signaled { name, input };
                self.ready.push_back(Ready::Send { from: run, id: Some(id), workflow_id, run_id, event });
            }
            Command::CancelWorkflow { id, workflow_id, run_id, reason } => {
                let event = EventKind::CancelRequested { reason };
                self.ready.push_back(Ready::Send { from: run, id: Some(id), workflow_id, run_id, event });
            }
            Command::SetMemo(changes) => merge(&mut self.runs[run].start.memo, changes),
            Command::SetSearchAttributes(changes) => merge(&mut self.runs[run].start.search_attributes, changes),
            Command::AcceptUpdate { .. } => {}
            Command::RejectUpdate { id, failure } => self.update_ended(&id, Err(failure)),
            Command::EndUpdate { id, end } => self.update_ended(&id, end),
            Command::Complete { result } => self.close(run, Status::Completed(result)),
            Command::Fail { failure } => self.close(run, Status::Failed(failure)),
            Command::Cancel { details } => self.close(run, Status::Canceled(details)),
            Command::ContinueAsNew(order) => self.continue_as_new(run, *order),
        }
    }

    fn begin(&mut self, run: usize, events: Vec<EventKind>) {
        let now = self.now;
        let timeout = self.runs[run].run_timeout;
        if timeout > 0 {
            self.at(now + timeout, Due::RunTimeout(run));
        }
        let mut events = events;
        if let Some(EventKind::Started(start)) = events.first_mut() {
            start.started_at = now;
        }
        let came_before = std::mem::take(&mut self.runs[run].recorded);
        let first = events.into_iter().map(|kind| Event { time: now, kind });
        self.runs[run].recorded = first.chain(came_before).collect();
        self.turn(run);
    }

    fn new_start(&mut self, workflow_id: &str, name: &str) -> Start {
        Start {
            workflow_id: workflow_id.to_owned(),
            run_id: self.ids.uuid(),
            name: name.to_owned(),
            namespace: "default".to_owned(),
            task_queue: "segno-flow".to_owned(),
            attempt: 1,
            started_at: self.now,
            ..Start::default()
        }
    }

    /// Starts the run under test.
    pub(super) fn start(&mut self, input: Vec<Payload>) -> Result<(), String> {
        if !self.runs.is_empty() {
            return Err("the run has been started already".to_owned());
        }
        let Some(script) = self.scripts.first() else { return Err("there is no script under test".to_owned()) };
        let (name, version) = (script.code.name().to_owned(), script.version.clone());
        let start = Start { version, input, ..self.new_start(WORKFLOW_ID, &name) };
        self.runs.push(Run::new(start.clone(), Some(0)));
        self.begin(0, vec![EventKind::Started(Box::new(start))]);
        Ok(())
    }

    fn close(&mut self, run: usize, status: Status) {
        let is_running = self.runs.get(run).is_some_and(Run::is_running);
        if !is_running {
            return;
        }
        // Tasks that nobody awaited are carried out unless the run ended badly.
        if !matches!(status, Status::Completed(_) | Status::ContinuedAsNew) {
            self.runs[run].tasks.clear();
        }
        self.runs[run].timers.clear();
        let retried = match &status {
            Status::Failed(failure) => {
                let target = &self.runs[run];
                target.retry.as_ref().and_then(|policy| next_attempt(Some(policy), target.start.attempt, failure))
            }
            _ => None,
        };
        let continues = retried.is_some() || matches!(status, Status::ContinuedAsNew);
        let end = status.end();
        self.runs[run].status = status;
        self.close_children(run);
        if let Some(interval) = retried {
            self.retry_run(run, interval);
        }
        if continues {
            return;
        }
        let Some(end) = end else { return };
        let (workflow_id, parent) = (self.runs[run].start.workflow_id.clone(), self.runs[run].parent);
        if let Some(parent) = parent {
            let end = end.clone().map_err(|cause| self.of_child(run, cause));
            self.ready.push_back(Ready::Record(parent, EventKind::ChildEnded { workflow_id: workflow_id.clone(), end }));
        }
        if workflow_id == WORKFLOW_ID {
            for id in std::mem::take(&mut self.result_waiters) {
                self.ready.push_back(Ready::Test(EventKind::TaskEnded { id, end: end.clone() }));
            }
            for id in std::mem::take(&mut self.updates).into_values() {
                let end = Err(update_lost());
                self.ready.push_back(Ready::Test(EventKind::TaskEnded { id, end }));
            }
        }
    }

    fn of_child(&self, run: usize, cause: Failure) -> Failure {
        let start = &self.runs[run].start;
        Failure {
            message: "child workflow execution error".to_owned(),
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

    fn close_children(&mut self, run: usize) {
        for child in 0..self.runs.len() {
            if self.runs[child].parent != Some(run) || !self.runs[child].is_running() {
                continue;
            }
            match self.runs[child].parent_close {
                ParentClose::Abandon => {}
                ParentClose::Terminate => self.close(child, Status::Terminated),
                ParentClose::Cancel => {
                    let reason = "by parent close policy".to_owned();
                    self.ready.push_back(Ready::Record(child, EventKind::CancelRequested { reason }));
                }
            }
        }
    }

    /// A run that follows another one of the same workflow id.
    fn follow(&mut self, run: usize, start: Start) -> usize {
        let before = &self.runs[run];
        let mut next = Run::new(start, before.script);
        next.parent = before.parent;
        next.parent_close = before.parent_close;
        next.retry = before.retry.clone();
        next.run_timeout = before.run_timeout;
        self.runs.push(next);
        self.runs.len() - 1
    }

    fn retry_run(&mut self, run: usize, interval: i64) {
        let mut start = self.runs[run].start.clone();
        start.attempt += 1;
        start.continued_from = std::mem::replace(&mut start.run_id, self.ids.uuid());
        let next = self.follow(run, start);
        self.at(self.now + interval, Due::RetryRun(next));
    }

    fn continue_as_new(&mut self, run: usize, order: ContinueAsNew) {
        let mut start = self.runs[run].start.clone();
        start.attempt = 1;
        start.continued_from = std::mem::replace(&mut start.run_id, self.ids.uuid());
        start.input = order.input;
        if !order.queue.is_empty() {
            start.task_queue = order.queue;
        }
        self.close(run, Status::ContinuedAsNew);
        let next = self.follow(run, start.clone());
        if order.run_timeout > 0 {
            self.runs[next].run_timeout = order.run_timeout;
        }
        let signals = order.signals.into_iter().map(|(name, input)| EventKind::Signaled { name, input });
        let events = std::iter::once(EventKind::Started(Box::new(start))).chain(signals).collect();
        self.ready.push_back(Ready::Begin(next, events));
    }

    // Tasks.

    fn schedule(&mut self, run: usize, order: ScheduleTask) {
        let id = order.id.clone();
        if order.schedule_to_close > 0 {
            self.at(self.now.saturating_add(order.schedule_to_close), Due::TaskDeadline(run, id.clone()));
        }
        let task =
            Task { order, scheduled_at: self.now, attempt: 0, is_running: false, is_cancel_requested: false };
        self.runs[run].tasks.insert(id.clone(), task);
        self.ready.push_back(Ready::Attempt(run, id));
    }

    /// Begins an attempt: the mock of the task is called.
    fn attempt(&mut self, run: usize, id: &str) -> Option<EventKind> {
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
            self.at(self.now.saturating_add(timeout), Due::AttemptTimeout(run, id.to_owned(), attempt));
        }
        self.calls.entry(name).or_default().push(input.clone());
        Some(self.call_mock(key, input, Caller::Task(run, id.to_owned(), attempt)))
    }

    fn call_mock(&mut self, name: String, input: Vec<Payload>, caller: Caller) -> EventKind {
        self.sequence += 1;
        let id = format!("mock-{}", self.sequence);
        self.mock_calls.insert(id.clone(), caller);
        EventKind::Update { id, name, input }
    }

    /// A mock has ended.
    pub(super) fn mock_ended(&mut self, id: &str, end: End) {
        if let Err(failure) = &end
            && matches!(&failure.info, FailureInfo::Application { kind, .. } if kind == super::ASSERTION)
        {
            self.fail(super::report::of_failure(failure));
            return;
        }
        match self.mock_calls.remove(id) {
            Some(Caller::Task(run, id, attempt)) => {
                let task = self.runs.get_mut(run).and_then(|run| run.tasks.get_mut(&id));
                // An attempt that timed out ended long ago.
                let Some(task) = task.filter(|task| task.is_running && task.attempt == attempt) else { return };
                let is_cancel = |failure: &Failure| {
                    matches!(&failure.info, FailureInfo::Application { kind, .. } if kind == "Canceled")
                };
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
            Some(Caller::Workflow(run)) => match end {
                Ok(result) => self.close(run, Status::Completed(result)),
                Err(failure) => self.close(run, Status::Failed(failure)),
            },
            None => {}
        }
    }

    /// An attempt failed: there is another one, or the task has failed.
    fn attempt_failed(&mut self, run: usize, id: &str, failure: Failure) {
        let now = self.now;
        let Some(task) = self.runs.get_mut(run).and_then(|run| run.tasks.get_mut(id)) else { return };
        task.is_running = false;
        let next = next_attempt(task.order.retry.as_ref(), task.attempt, &failure).map(|interval| now + interval);
        let deadline = task.scheduled_at.saturating_add(task.order.schedule_to_close);
        let next = next.filter(|next| task.order.schedule_to_close == 0 || *next < deadline);
        match next {
            Some(next) if !task.is_cancel_requested => {
                self.at(next, Due::Retry(run, id.to_owned()));
            }
            _ => self.task_failed(run, id, failure),
        }
    }

    fn task_failed(&mut self, run: usize, id: &str, cause: Failure) {
        if let Some(task) = self.runs[run].tasks.remove(id) {
            let end = Err(of_task(&task, cause));
            self.record(run, EventKind::TaskEnded { id: id.to_owned(), end });
        }
    }

    /// Asks a task to cancel. A mock does not hear of it; a task between two attempts ends at once.
    fn cancel_task(&mut self, run: usize, id: &str) {
        let Some(task) = self.runs[run].tasks.get_mut(id) else { return };
        task.is_cancel_requested = true;
        if !task.is_running
            && let Some(task) = self.runs[run].tasks.remove(id)
        {
            let end = Err(of_task(&task, canceled(Vec::new())));
            self.ready.push_back(Ready::Record(run, EventKind::TaskEnded { id: id.to_owned(), end }));
        }
    }

    // Children and other workflows.

    fn start_child(&mut self, parent: usize, order: StartChild) -> Option<EventKind> {
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
        start.version = script.and_then(|script| self.scripts.get(script)).map_or_else(String::new, |script| script.version.clone());
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
            self.at(self.now.saturating_add(order.execution_timeout), Due::ExecutionTimeout(workflow_id.clone(), run));
        }
        self.record(parent, EventKind::ChildStarted { workflow_id, run_id });
        if is_mocked {
            if order.run_timeout > 0 {
                self.at(self.now.saturating_add(order.run_timeout), Due::RunTimeout(run));
            }
            self.calls.entry(order.name).or_default().push(input.clone());
            return Some(self.call_mock(key, input, Caller::Workflow(run)));
        }
        self.begin(run, vec![EventKind::Started(Box::new(start))]);
        None
    }

    fn send(&mut self, from: usize, id: Option<String>, workflow_id: &str, run_id: &str, event: EventKind) {
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

    // What the test program asks for.

    fn promise(&mut self) -> String {
        self.promises += 1;
        format!("test-{}", self.promises)
    }

    pub(super) fn add_mock(&mut self, function: Function, name: &str) {
        self.mocks.insert(mock_key(function, name));
    }

    /// A promise of the result of the run.
    pub(super) fn result(&mut self) -> String {
        let id = self.promise();
        let end = self.latest(WORKFLOW_ID).and_then(|run| self.runs[run].status.end());
        match end {
            Some(end) => self.ready.push_back(Ready::Test(EventKind::TaskEnded { id: id.clone(), end })),
            None => self.result_waiters.push(id.clone()),
        }
        id
    }

    /// Tells the run under test something. `false` if it has ended.
    pub(super) fn tell(&mut self, event: EventKind) -> bool {
        match self.latest(WORKFLOW_ID).filter(|run| self.runs[*run].is_running()) {
            Some(run) => {
                self.record(run, event);
                true
            }
            None => false,
        }
    }

    /// A promise of the result of an update.
    pub(super) fn update(&mut self, name: String, input: Vec<Payload>) -> String {
        let promise = self.promise();
        let id = format!("update-{promise}");
        self.updates.insert(id.clone(), promise.clone());
        if !self.tell(EventKind::Update { id: id.clone(), name, input }) {
            self.updates.remove(&id);
            let failure = Failure {
                message: "workflow execution already completed".to_owned(),
                info: FailureInfo::Application { kind: "NotFound".to_owned(), non_retryable: true, details: Vec::new() },
                ..Failure::default()
            };
            self.ready.push_back(Ready::Test(EventKind::TaskEnded { id: promise.clone(), end: Err(failure) }));
        }
        promise
    }

    fn update_ended(&mut self, id: &str, end: End) {
        if let Some(id) = self.updates.remove(id) {
            self.ready.push_back(Ready::Test(EventKind::TaskEnded { id, end }));
        }
    }

    pub(super) fn terminate(&mut self) {
        if let Some(run) = self.latest(WORKFLOW_ID) {
            self.close(run, Status::Terminated);
        }
    }

    /// Inputs of all attempts of a task, or of all starts of a mocked workflow.
    pub(super) fn calls(&self, name: &str) -> &[Vec<Payload>] {
        self.calls.get(name).map_or(&[], Vec::as_slice)
    }

    /// The runs of the workflow id under test.
    pub(super) fn chain(&self) -> impl Iterator<Item = &Run> {
        self.runs.iter().filter(|run| run.start.workflow_id == WORKFLOW_ID)
    }

    pub(super) fn start_test_timer(&mut self, id: String, duration: i64) {
        let sequence = self.at(self.now.saturating_add(duration), Due::TestTimer(id.clone()));
        self.test_timers.insert(id, sequence);
    }

    pub(super) fn cancel_test_timer(&mut self, id: &str) {
        self.test_timers.remove(id);
    }
}

/// Whether a turn did nothing but reject updates.
fn is_rejection(commands: &[Command]) -> bool {
    !commands.is_empty() && commands.iter().all(|command| matches!(command, Command::RejectUpdate { .. }))
}

fn merge(into: &mut Vec<(String, Payload)>, changes: Vec<(String, Option<Payload>)>) {
    for (key, value) in changes {
        into.retain(|(known, _)| *known != key);
        into.extend(value.map(|value| (key, value)));
    }
}

/// An update that was under way when its run closed, in Temporal's words.
fn update_lost() -> Failure {
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
