//! Runs: their events, turns, commands, start and end.

use crate::interface::{Command, ContinueAsNew, Event, EventKind, Limits, Payload, Start, Unpaced};

use super::super::run::{Run, Status, TurnRecord};
use super::super::task::next_attempt;
use super::super::wake;
use super::{ReadyEvent, TimedEvent, WORKFLOW_ID, World};

/// Runs of a test after which it is given up: a workflow continues as new for ever.
const RUNS_MAX: usize = 10_000;

impl World {
    /// Notes an event of a run and executes a turn if one is due.
    pub(super) fn record(&mut self, run: usize, kind: EventKind) {
        let now = self.now;
        let Some(target) = self.runs.get_mut(run).filter(|run| run.is_running() && run.script.is_some()) else {
            return;
        };
        let is_due = wake::wakes(&mut target.wake, &kind);
        target.recorded.push(Event { time: now, kind });
        // A run that follows another one and has not begun takes what came with its first turn.
        if is_due && !target.turns.is_empty() {
            self.turn(run);
        }
    }

    pub(super) fn turn(&mut self, run: usize) {
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
            Err(error) => self.fail(format!("{}a turn gave {error:?}", crate::host::DEFECT)),
        }
    }

    pub(super) fn command(&mut self, run: usize, command: Command) {
        match command {
            Command::ScheduleTask(order) => self.schedule(run, *order),
            Command::CancelTask { id } => self.cancel_task(run, &id),
            Command::ScheduleNexus(order) => self.schedule_operation(run, *order),
            Command::CancelNexus { id } => self.cancel_operation(run, &id),
            Command::StartTimer { id, duration } => {
                let sequence = self.at(self.now.saturating_add(duration), TimedEvent::Timer(run, id.clone()));
                self.runs[run].timers.insert(id, sequence);
            }
            Command::CancelTimer { id } => {
                self.runs[run].timers.remove(&id);
            }
            Command::StartChild(order) => self.ready.push_back(ReadyEvent::StartChild(run, order)),
            Command::CancelChild { workflow_id, reason } => {
                let event = EventKind::CancelRequested { reason };
                self.ready.push_back(ReadyEvent::Send {
                    from: run,
                    id: None,
                    workflow_id,
                    run_id: String::new(),
                    event,
                });
            }
            Command::Signal { id, workflow_id, run_id, name, input } => {
                let event = EventKind::Signaled { name, input };
                self.ready.push_back(ReadyEvent::Send { from: run, id: Some(id), workflow_id, run_id, event });
            }
            Command::CancelWorkflow { id, workflow_id, run_id, reason } => {
                let event = EventKind::CancelRequested { reason };
                self.ready.push_back(ReadyEvent::Send { from: run, id: Some(id), workflow_id, run_id, event });
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

    /// Lets runs begin that follow others. They begin with the commit that closes the run before.
    pub(super) fn begin_all(&mut self) {
        while let Some((run, events)) = self.beginning.pop_front() {
            if self.runs.len() > RUNS_MAX {
                return self.fail(format!("the test makes more than {RUNS_MAX} runs"));
            }
            self.begin(run, events);
        }
    }

    pub(super) fn begin(&mut self, run: usize, events: Vec<EventKind>) {
        let now = self.now;
        let timeout = self.runs[run].run_timeout;
        if timeout > 0 {
            self.at(now + timeout, TimedEvent::RunTimeout(run));
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

    pub(super) fn new_start(&mut self, workflow_id: &str, name: &str) -> Start {
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
    pub(in crate::host) fn start(&mut self, input: Vec<Payload>) -> Result<(), String> {
        if !self.runs.is_empty() {
            return Err("the run has been started already".to_owned());
        }
        let Some(script) = self.scripts.first() else { return Err("there is no script under test".to_owned()) };
        let (name, version) = (script.code.name().to_owned(), script.version.clone());
        let start = Start { version, input, ..self.new_start(WORKFLOW_ID, &name) };
        self.runs.push(Run::new(start.clone(), Some(0)));
        self.begin(0, vec![EventKind::Started(Box::new(start))]);
        self.begin_all();
        Ok(())
    }

    pub(super) fn close(&mut self, run: usize, status: Status) {
        let is_running = self.runs.get(run).is_some_and(Run::is_running);
        if !is_running {
            return;
        }
        // Tasks that no code awaited are carried out unless the run ended badly.
        if !matches!(status, Status::Completed(_) | Status::ContinuedAsNew) {
            self.runs[run].tasks.clear();
        }
        self.runs[run].operations.clear();
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
            self.ready
                .push_back(ReadyEvent::Record(parent, EventKind::ChildEnded { workflow_id: workflow_id.clone(), end }));
        }
        if workflow_id == WORKFLOW_ID {
            for id in std::mem::take(&mut self.result_waiters) {
                self.ready.push_back(ReadyEvent::Test(EventKind::TaskEnded { id, end: end.clone() }));
            }
            for id in std::mem::take(&mut self.updates).into_values() {
                let end = Err(super::asked::update_lost());
                self.ready.push_back(ReadyEvent::Test(EventKind::TaskEnded { id, end }));
            }
        }
    }

    /// A run that follows another one of the same workflow id.
    pub(super) fn follow(&mut self, run: usize, start: Start) -> usize {
        let before = &self.runs[run];
        let mut next = Run::new(start, before.script);
        next.parent = before.parent;
        next.parent_close = before.parent_close;
        next.retry = before.retry.clone();
        next.run_timeout = before.run_timeout;
        self.runs.push(next);
        self.runs.len() - 1
    }

    pub(super) fn retry_run(&mut self, run: usize, interval: i64) {
        let mut start = self.runs[run].start.clone();
        start.attempt += 1;
        start.continued_from = std::mem::replace(&mut start.run_id, self.ids.uuid());
        let next = self.follow(run, start);
        self.at(self.now + interval, TimedEvent::RetryRun(next));
    }

    pub(super) fn continue_as_new(&mut self, run: usize, order: ContinueAsNew) {
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
        self.beginning.push_back((next, events));
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
