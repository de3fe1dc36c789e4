//! A server for one tree of runs, in memory and without a clock: commands in, events out.
//!
//! It writes the events that Temporal's server writes, in the same order, so that an [`Execution`](crate::workflow)
//! cannot tell the difference. Its caller drives it: [`Server::next_due`] is the time of the next event,
//! [`Server::advance`] carries it out, [`Server::take_orders`] lists attempts of tasks to begin or to cancel.
//!
//! The test `corpus::the_server_in_memory_writes_what_servers_write` compares its histories, event for event, with those
//! that Temporal's server and Segno wrote for the same programs.
//!
//! Not here: cron, retries of whole runs, retries of Nexus operations, schedule-to-start time-outs (every task starts at once).

use std::collections::{BTreeMap, VecDeque};

use segno_proto::{
    Nanos,
    common::{Memo, Payload, SearchAttributes, WorkflowExecution},
    enums::{TimeoutType, WorkflowTaskFailedCause},
    events::*,
    failure as wire, nanos_duration,
    protocol::{Message, message::SequencingId},
};

pub(crate) mod closing;
pub(crate) mod commands;
pub(crate) mod event;
pub(crate) mod messages;
mod nexus;
mod pending_task;
pub(crate) mod run;
pub(crate) mod tasks;
#[cfg(test)]
mod tests;

use crate::{converter, failure::Failure};
use event::{Event, HistoryEvent, IDENTITY};
use run::{Inbound, Run, WORKFLOW_TASK_TIMEOUT, WorkflowTask};

/// Where virtual time begins: 2030-01-01T00:00:00Z.
pub(crate) const ORIGIN: Nanos = 1_893_456_000_000_000_000;

/// An event that has a time.
pub(crate) enum TimedEvent {
    /// A timer fires.
    Timer { run: usize, timer_id: String, started_event_id: i64 },
    /// An attempt of a task begins.
    Attempt { run: usize, scheduled_event_id: i64, attempt: u32 },
    /// An attempt ends, after the latency that it was given.
    AttemptEnd { run: usize, scheduled_event_id: i64, attempt: u32, result: Result<Vec<Payload>, Failure> },
    /// A task takes too long.
    TaskTimeout { run: usize, scheduled_event_id: i64, attempt: u32, kind: TimeoutType },
    /// An attempt should have been heard of by now.
    Heartbeat { run: usize, scheduled_event_id: i64, attempt: u32 },
    /// A child is started.
    StartChild { parent: usize, initiated_event_id: i64 },
    /// A signal reaches another run.
    SignalExternal { run: usize, initiated_event_id: i64 },
    /// A request to cancel reaches another run.
    CancelExternal { run: usize, initiated_event_id: i64 },
    /// The handler of a Nexus operation is called.
    StartOperation { run: usize, scheduled_event_id: i64 },
    /// A Nexus operation ends, after the latency that it was given.
    OperationEnd { run: usize, scheduled_event_id: i64, result: Result<Vec<Payload>, Failure> },
    /// A Nexus operation takes too long.
    OperationTimeout { run: usize, scheduled_event_id: i64, kind: TimeoutType },
    /// A request to cancel reaches the handler of a Nexus operation.
    CancelOperation { run: usize, scheduled_event_id: i64, requested_event_id: i64 },
    /// A message from outside.
    Input { run: usize, input: Input },
    /// A run takes too long.
    RunTimeout { run: usize },
    /// A mocked child ends.
    MockEnd { run: usize, result: Result<Vec<Payload>, Failure> },
    /// The time in which events are gathered is over.
    StartWorkflowTask { run: usize },
}

/// A message from outside of the tree.
#[derive(Clone)]
pub(crate) enum Input {
    Signal { name: String, input: Vec<Payload> },
    Update { id: String, name: String, input: Vec<Payload> },
    Cancel { reason: String },
}

/// Work for the driver of the server.
pub(crate) enum Order {
    /// Execute an attempt, then call [`Server::end_attempt`].
    Attempt {
        run: usize,
        scheduled_event_id: i64,
        attempt: u32,
        kind: String,
        input: Vec<Payload>,
        activity_id: String,
        heartbeat_details: Vec<Payload>,
        heartbeat_timeout: Nanos,
        start_to_close: Nanos,
        scheduled_at: Nanos,
    },
    /// Tell the attempt that the workflow wants it to stop.
    CancelAttempt { run: usize, scheduled_event_id: i64 },
    /// The attempt's result does not matter.
    Forget { run: usize, scheduled_event_id: i64 },
    /// Call the handler of a Nexus operation, then [`Server::handler_answered`].
    Operation { run: usize, scheduled_event_id: i64 },
    /// A run was started.
    Started { run: usize },
}

/// A workflow task for a worker: everything in the history of the run up to its WorkflowTaskStarted.
pub(crate) struct StartedWorkflowTask {
    pub(crate) messages: Vec<Message>,
}

/// The outcome of a completed workflow task.
#[derive(Debug, PartialEq)]
pub(crate) enum Answer {
    /// It is in the history.
    Stored,
    /// It left no trace: the history ends with this event again.
    Dropped(i64),
    /// It was refused and is in the history as failed.
    CommandError(WorkflowTaskFailedCause, String),
}

/// The server.
pub(crate) struct Server {
    pub(crate) now: Nanos,
    pub(crate) runs: Vec<Run>,
    agenda: BTreeMap<(Nanos, u8, u64), TimedEvent>,
    sequence: u64,
    orders: Vec<Order>,
    /// Runs whose workflow task may start.
    ready: VecDeque<usize>,
    /// How long events are gathered before a workflow task starts; without, every one has a task of its own.
    window: Option<Nanos>,
    /// Part of the ids of runs.
    seed: u64,
}

impl Server {
    /// A server without runs.
    pub(crate) fn new(seed: u64, window: Option<Nanos>) -> Self {
        Self {
            now: ORIGIN,
            runs: Vec::new(),
            agenda: BTreeMap::new(),
            sequence: 0,
            orders: Vec::new(),
            ready: VecDeque::new(),
            window,
            seed,
        }
    }

    /// The id of the next run.
    fn new_run_id(&self) -> String {
        let number = self.runs.len() as u64;
        uuid::Builder::from_custom_bytes(*uuid::Uuid::from_u64_pair(self.seed, number).as_bytes())
            .into_uuid()
            .to_string()
    }

    /// Starts the run at the root of the tree.
    pub(crate) fn start(&mut self, workflow_id: &str, kind: &str, queue: &str, input: Vec<Payload>) -> usize {
        let mut run = Run::new(workflow_id.to_owned(), self.new_run_id(), kind.to_owned(), queue.to_owned());
        let event = self.started_event(&run, converter::list(input));
        run.write(self.now, Event::WorkflowExecutionStartedEventAttributes(Box::new(event)));
        self.add_run(run)
    }

    fn started_event(
        &self,
        run: &Run,
        input: Option<segno_proto::common::Payloads>,
    ) -> WorkflowExecutionStartedEventAttributes {
        WorkflowExecutionStartedEventAttributes {
            workflow_type: Some(run.workflow_type()),
            task_queue: Some(run.task_queue()),
            input,
            workflow_task_timeout: Some(nanos_duration(WORKFLOW_TASK_TIMEOUT)),
            original_execution_run_id: run.run_id.clone(),
            first_execution_run_id: run.first_run_id.clone(),
            identity: IDENTITY.to_owned(),
            attempt: 1,
            workflow_id: run.workflow_id.clone(),
            memo: (!run.memo.is_empty()).then(|| Memo { fields: run.memo.clone() }),
            search_attributes: (!run.search_attributes.is_empty())
                .then(|| SearchAttributes { indexed_fields: run.search_attributes.clone() }),
            ..Default::default()
        }
    }

    fn add_run(&mut self, run: Run) -> usize {
        let index = self.runs.len();
        self.runs.push(run);
        self.orders.push(Order::Started { run: index });
        self.schedule_workflow_task(index, 1, false);
        index
    }

    /// The time of the next event.
    pub(crate) fn next_due(&self) -> Option<Nanos> {
        self.agenda.first_key_value().map(|((at, ..), _)| *at)
    }

    /// Moves the clock; never back.
    pub(crate) fn set_now(&mut self, now: Nanos) {
        self.now = self.now.max(now);
    }

    /// Lets the next thing happen, at its time. Says whether there was one.
    pub(crate) fn advance(&mut self) -> bool {
        let Some(((at, ..), due)) = self.agenda.pop_first() else { return false };
        self.set_now(at);
        self.apply(due);
        true
    }

    /// Adds an event at a time.
    pub(crate) fn plan(&mut self, at: Nanos, due: TimedEvent) {
        // A workflow task starts after everything else that happens at the same time.
        let rank = u8::from(matches!(due, TimedEvent::StartWorkflowTask { .. }));
        self.sequence += 1;
        self.agenda.insert((at, rank, self.sequence), due);
    }

    /// The orders since the last call.
    pub(crate) fn take_orders(&mut self) -> Vec<Order> {
        std::mem::take(&mut self.orders)
    }

    fn apply(&mut self, due: TimedEvent) {
        match due {
            TimedEvent::Timer { run, timer_id, started_event_id } => {
                if self.runs[run].timers.get(&timer_id) == Some(&started_event_id) {
                    self.runs[run].timers.remove(&timer_id);
                    let event = TimerFiredEventAttributes { timer_id, started_event_id };
                    self.receive(run, Inbound::Event(Event::TimerFiredEventAttributes(event)));
                }
            }
            TimedEvent::Attempt { run, scheduled_event_id, attempt } => {
                self.start_attempt(run, scheduled_event_id, attempt)
            }
            TimedEvent::AttemptEnd { run, scheduled_event_id, attempt, result } => {
                self.end_attempt(run, scheduled_event_id, attempt, result);
            }
            TimedEvent::TaskTimeout { run, scheduled_event_id, attempt, kind } => {
                self.time_out_task(run, scheduled_event_id, attempt, kind);
            }
            TimedEvent::Heartbeat { run, scheduled_event_id, attempt } => {
                self.watch_heartbeats(run, scheduled_event_id, attempt);
            }
            TimedEvent::StartChild { parent, initiated_event_id } => self.start_child(parent, initiated_event_id),
            TimedEvent::SignalExternal { run, initiated_event_id } => self.signal_external(run, initiated_event_id),
            TimedEvent::CancelExternal { run, initiated_event_id } => self.cancel_external(run, initiated_event_id),
            TimedEvent::StartOperation { run, scheduled_event_id } => self.call_handler(run, scheduled_event_id),
            TimedEvent::OperationEnd { run, scheduled_event_id, result } => {
                self.end_operation(run, scheduled_event_id, result);
            }
            TimedEvent::OperationTimeout { run, scheduled_event_id, kind } => {
                self.time_out_operation(run, scheduled_event_id, kind);
            }
            TimedEvent::CancelOperation { run, scheduled_event_id, requested_event_id } => {
                self.cancel_operation(run, scheduled_event_id, requested_event_id);
            }
            TimedEvent::Input { run, input } => self.input(run, input),
            TimedEvent::RunTimeout { run } => self.time_out_run(run),
            TimedEvent::MockEnd { run, result } => self.end_mock(run, result),
            TimedEvent::StartWorkflowTask { run } => self.ready.push_back(run),
        }
    }

    /// A message for a run; for the run that goes on if this one continued as new. One for a closed run is lost.
    pub(crate) fn input(&mut self, run: usize, input: Input) {
        let run = self.newest(run);
        if self.runs[run].closed.is_some() {
            return;
        }
        match input {
            Input::Signal { name, input } => self.receive(run, signaled(name, converter::list(input), None)),
            Input::Cancel { reason } => self.request_cancel(run, reason, None),
            Input::Update { id, name, input } => self.admit_update(run, id, name, input),
        }
    }

    /// The last run in the chain of a run that continued as new.
    pub(crate) fn newest(&self, mut run: usize) -> usize {
        while let Some(run::CloseOutcome::ContinuedAsNew(next)) = &self.runs[run].closed {
            run = *next;
        }
        run
    }

    fn request_cancel(&mut self, run: usize, reason: String, by: Option<(i64, WorkflowExecution)>) {
        if self.runs[run].cancel_requested {
            return;
        }
        self.runs[run].cancel_requested = true;
        let (external_initiated_event_id, external_workflow_execution) = by.unzip();
        let event = WorkflowExecutionCancelRequestedEventAttributes {
            cause: reason,
            external_initiated_event_id: external_initiated_event_id.unwrap_or_default(),
            external_workflow_execution,
            identity: IDENTITY.to_owned(),
        };
        self.receive(run, Inbound::Event(Event::WorkflowExecutionCancelRequestedEventAttributes(event)));
    }

    /// Hands a message to an open run, and schedules a workflow task.
    pub(crate) fn receive(&mut self, run: usize, inbound: Inbound) {
        if self.runs[run].closed.is_none() && self.runs[run].receive(self.now, inbound) {
            self.schedule_workflow_task(run, 1, false);
        }
    }

    fn schedule_workflow_task(&mut self, run: usize, attempt: u32, speculative: bool) {
        self.runs[run].schedule_workflow_task(self.now, attempt, speculative);
        match self.window {
            Some(window) => self.plan(self.now.saturating_add(window), TimedEvent::StartWorkflowTask { run }),
            None => self.ready.push_back(run),
        }
    }

    /// A run whose workflow task may start now.
    pub(crate) fn next_ready(&mut self) -> Option<usize> {
        while let Some(run) = self.ready.pop_front() {
            if matches!(self.runs[run].workflow_task, WorkflowTask::Scheduled { .. }) {
                return Some(run);
            }
        }
        None
    }

    /// Starts the workflow task of a run.
    pub(crate) fn start_workflow_task(&mut self, index: usize) -> Option<StartedWorkflowTask> {
        let now = self.now;
        let run = &mut self.runs[index];
        let WorkflowTask::Scheduled { event_id: scheduled_event_id, attempt, speculative } = run.workflow_task else {
            return None;
        };
        let size: usize = run.history.len().saturating_mul(100);
        let event = WorkflowTaskStartedEventAttributes {
            scheduled_event_id,
            identity: IDENTITY.to_owned(),
            request_id: format!("{}-{scheduled_event_id}", run.run_id),
            history_size_bytes: i64::try_from(size).unwrap_or(i64::MAX),
            suggest_continue_as_new: run.history.len() > 4096,
            ..Default::default()
        };
        let event_id = run.write(now, Event::WorkflowTaskStartedEventAttributes(event));
        run.workflow_task = WorkflowTask::Started { scheduled_event_id, event_id, attempt, speculative };
        let messages = run
            .updates
            .iter()
            .map(|request| {
                let id = request.meta.as_ref().map(|meta| meta.update_id.clone()).unwrap_or_default();
                Message {
                    id: messages::request_id(&id),
                    protocol_instance_id: id,
                    body: messages::pack(messages::REQUEST, request),
                    sequencing_id: Some(SequencingId::EventId(event_id - 1)),
                }
            })
            .collect();
        Some(StartedWorkflowTask { messages })
    }

    /// The workflow task of a run failed; another follows.
    pub(crate) fn fail_workflow_task(
        &mut self,
        index: usize,
        cause: WorkflowTaskFailedCause,
        failure: Option<wire::Failure>,
    ) {
        let now = self.now;
        let run = &mut self.runs[index];
        let WorkflowTask::Started { scheduled_event_id, event_id, attempt, .. } = run.workflow_task else { return };
        let event = WorkflowTaskFailedEventAttributes {
            scheduled_event_id,
            started_event_id: event_id,
            cause: cause as i32,
            failure,
            identity: IDENTITY.to_owned(),
            ..Default::default()
        };
        run.write(now, Event::WorkflowTaskFailedEventAttributes(Box::new(event)));
        run.workflow_task = WorkflowTask::None;
        run.flush(now);
        self.schedule_workflow_task(index, attempt.saturating_add(1), false);
    }

    /// How often the workflow task that is under way was tried.
    pub(crate) fn attempt(&self, run: usize) -> u32 {
        match self.runs[run].workflow_task {
            WorkflowTask::None => 0,
            WorkflowTask::Scheduled { attempt, .. } | WorkflowTask::Started { attempt, .. } => attempt,
        }
    }

    /// The open run with a workflow id.
    pub(crate) fn open_run(&self, workflow_id: &str) -> Option<usize> {
        self.runs.iter().rposition(|run| run.workflow_id == workflow_id && run.closed.is_none())
    }

    /// The input that a run was started with.
    pub(crate) fn input_of(&self, run: usize) -> Vec<Payload> {
        match self.event(run, 1).and_then(|event| event.attributes.as_ref()) {
            Some(Event::WorkflowExecutionStartedEventAttributes(started)) => converter::items(&started.input).to_vec(),
            _ => Vec::new(),
        }
    }

    /// Whether a run is the first one of its chain.
    pub(crate) fn is_first_run(&self, run: usize) -> bool {
        self.runs[run].first_run_id == self.runs[run].run_id
    }

    /// A mocked child has no workflow tasks: takes the first one back.
    pub(crate) fn no_workflow_task(&mut self, run: usize) {
        self.runs[run].history.truncate(1);
        self.runs[run].workflow_task = WorkflowTask::None;
    }

    /// The event with this id.
    pub(crate) fn event(&self, run: usize, event_id: i64) -> Option<&HistoryEvent> {
        self.runs[run].history.get(usize::try_from(event_id.checked_sub(1)?).ok()?)
    }
}

/// A signal as an event.
pub(crate) fn signaled(
    name: String,
    input: Option<segno_proto::common::Payloads>,
    by: Option<WorkflowExecution>,
) -> Inbound {
    Inbound::Event(Event::WorkflowExecutionSignaledEventAttributes(WorkflowExecutionSignaledEventAttributes {
        signal_name: name,
        input,
        identity: IDENTITY.to_owned(),
        external_workflow_execution: by,
        ..Default::default()
    }))
}
