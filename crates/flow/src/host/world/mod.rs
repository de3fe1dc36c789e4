//! Replaces the server in tests: runs, tasks, timers and children, and a clock that jumps to the next due time.
//!
//! Things that happen now are in a queue, in order; things that happen later are in an agenda by time. A run's turn is
//! executed at the moment its wake set requires it, as in the server.

mod asked;
mod children;
mod operations;
mod runs;
mod tasks;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use crate::Code;
use crate::interface::{EventKind, Payload, StartChild, TimeoutKind};
use crate::pure::random::Random;

use super::run::{Run, Status};
use super::task::{of_task, timed_out};

/// 2026-01-01T00:00:00.000Z
const EPOCH: i64 = 1_767_225_600_000;

/// The workflow id of the run under test.
pub(in crate::host) const WORKFLOW_ID: &str = "test";

/// A script that runs can execute.
pub(in crate::host) struct Script {
    pub code: Arc<Code>,
    pub version: String,
}

/// Work to do at once.
enum ReadyEvent {
    /// An event for the test program.
    Test(EventKind),
    /// An event for a run.
    Record(usize, EventKind),
    Attempt(usize, String),
    Operation(usize, String),
    StartChild(usize, Box<StartChild>),
    /// A signal or cancel request to another workflow: the sender, its promise, workflow id, run id, and the event.
    Send {
        from: usize,
        id: Option<String>,
        workflow_id: String,
        run_id: String,
        event: EventKind,
    },
}

/// Work to do at a later time.
enum TimedEvent {
    TestTimer(String),
    Timer(usize, String),
    /// Another attempt of a task.
    Retry(usize, String),
    /// `start_to_close` of an attempt.
    AttemptTimeout(usize, String, u32),
    /// `schedule_to_close` of a task.
    TaskDeadline(usize, String),
    /// A time-out of a Nexus operation.
    OperationTimeout(usize, String, TimeoutKind),
    RunTimeout(usize),
    /// A workflow id must have ended by now: its time-out over all runs.
    ExecutionTimeout(String, usize),
    RetryRun(usize),
}

/// Who waits for the end of a call of a mock.
enum Caller {
    Task(usize, String, u32),
    Operation(usize, String),
    Workflow(usize),
}

pub(in crate::host) struct World {
    pub now: i64,
    pub scripts: Vec<Script>,
    pub runs: Vec<Run>,
    agenda: BTreeMap<(i64, u64), TimedEvent>,
    sequence: u64,
    ready: VecDeque<ReadyEvent>,
    /// Runs that were made and have to begin, with their first events.
    beginning: VecDeque<(usize, Vec<EventKind>)>,
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
    pub(in crate::host) fn new(scripts: Vec<Script>, seed: &str) -> Self {
        Self {
            now: EPOCH,
            scripts,
            runs: Vec::new(),
            agenda: BTreeMap::new(),
            sequence: 0,
            ready: VecDeque::new(),
            beginning: VecDeque::new(),
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

    fn at(&mut self, time: i64, due: TimedEvent) -> u64 {
        self.sequence += 1;
        self.agenda.insert((time, self.sequence), due);
        self.sequence
    }

    /// The next event for the test program. Does everything else that comes before it. `None` if nothing is left to
    /// happen, or the test has ended.
    pub(in crate::host) fn next(&mut self) -> Option<EventKind> {
        loop {
            self.begin_all();
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

    fn take(&mut self, ready: ReadyEvent) -> Option<EventKind> {
        match ready {
            ReadyEvent::Test(event) => return Some(event),
            ReadyEvent::Record(run, event) => self.record(run, event),
            ReadyEvent::Attempt(run, id) => return self.attempt(run, &id),
            ReadyEvent::Operation(run, id) => return self.start_operation(run, &id),
            ReadyEvent::StartChild(parent, order) => return self.start_child(parent, *order),
            ReadyEvent::Send { from, id, workflow_id, run_id, event } => {
                self.send(from, id, &workflow_id, &run_id, event)
            }
        }
        None
    }

    fn is_due(&self, due: &TimedEvent, sequence: u64) -> bool {
        let task = |run: usize, id: &str| self.runs.get(run).and_then(|run| run.tasks.get(id));
        match due {
            TimedEvent::TestTimer(id) => self.test_timers.get(id) == Some(&sequence),
            TimedEvent::Timer(run, id) => {
                self.runs.get(*run).is_some_and(|run| run.is_running() && run.timers.get(id) == Some(&sequence))
            }
            TimedEvent::Retry(run, id) => task(*run, id).is_some_and(|task| !task.is_running),
            TimedEvent::AttemptTimeout(run, id, attempt) => {
                task(*run, id).is_some_and(|task| task.is_running && task.attempt == *attempt)
            }
            TimedEvent::TaskDeadline(run, id) => task(*run, id).is_some(),
            TimedEvent::OperationTimeout(run, id, _) => {
                self.runs.get(*run).is_some_and(|run| run.operations.contains_key(id))
            }
            TimedEvent::RunTimeout(run) => self.runs.get(*run).is_some_and(Run::is_running),
            TimedEvent::ExecutionTimeout(id, first) => {
                self.latest(id).is_some_and(|run| run >= *first && self.runs[run].is_running())
            }
            TimedEvent::RetryRun(_) => true,
        }
    }

    fn fall_due(&mut self, due: TimedEvent) -> Option<EventKind> {
        match due {
            TimedEvent::TestTimer(id) => {
                self.test_timers.remove(&id);
                return Some(EventKind::TimerFired { id });
            }
            TimedEvent::Timer(run, id) => {
                self.runs[run].timers.remove(&id);
                self.record(run, EventKind::TimerFired { id });
            }
            TimedEvent::Retry(run, id) => return self.attempt(run, &id),
            TimedEvent::AttemptTimeout(run, id, _) => {
                self.attempt_failed(run, &id, timed_out(TimeoutKind::StartToClose))
            }
            TimedEvent::TaskDeadline(run, id) => {
                if let Some(task) = self.runs[run].tasks.remove(&id) {
                    let failure = of_task(&task, timed_out(TimeoutKind::ScheduleToClose));
                    self.record(run, EventKind::TaskEnded { id, end: Err(failure) });
                }
            }
            TimedEvent::OperationTimeout(run, id, kind) => self.operation_timed_out(run, id, kind),
            TimedEvent::RunTimeout(run) => self.close(run, Status::TimedOut),
            TimedEvent::ExecutionTimeout(id, _) => {
                if let Some(run) = self.latest(&id) {
                    self.close(run, Status::TimedOut);
                }
            }
            TimedEvent::RetryRun(run) => {
                let events = vec![EventKind::Started(Box::new(self.runs[run].start.clone()))];
                self.begin(run, events);
            }
        }
        None
    }

    /// The latest run of a workflow id.
    pub(in crate::host) fn latest(&self, workflow_id: &str) -> Option<usize> {
        self.runs.iter().rposition(|run| run.start.workflow_id == workflow_id)
    }
}
