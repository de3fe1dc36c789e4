//! Drives the server in memory: workflow tasks of workflows, attempts of tasks, local operations, and a clock that jumps.
//!
//! The clock is that of a paused tokio runtime, on a thread of the test's own: it stands still while any work can be
//! done, then jumps to the next event. So tasks may sleep.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use segno_proto::{Nanos, command::Command, common::Payload, events::HistoryEvent};
use serde_json::Value;
use tokio::{
    sync::{mpsc, oneshot},
    task::AbortHandle,
    time::Instant,
};

use super::{
    attempts::{Attempts, Done},
    plan::{Ask, Plan, Plans},
    server::{
        Answer, ORIGIN, Order, Server, TimedEvent,
        run::{CloseOutcome, UpdateOutcome, WORKFLOW_TASK_TIMEOUT},
    },
    thread::{RecordedTask, WorkflowThread},
};
use crate::{
    converter,
    failure::Failure,
    workflow::{
        DeterminismViolation, WorkflowRegistry,
        execution::{Step, TaskFailed},
        local::{LocalRequest, LocalResult},
    },
};

/// How often a workflow task that the server refuses is tried again.
const ATTEMPTS_MAX: u32 = 10;
/// How many events are replayed after workflow tasks, at least; see [`Simulation::repeat`].
const REPLAYED_MIN: usize = 300_000;
/// How many runs a test may have.
const RUNS_MAX: usize = 10_000;
/// How much may happen between two workflow tasks: more is a task that is retried for ever.
const EVENTS_MAX: u32 = 100_000;
/// How long a test may last, by the virtual clock, if nothing happens but tasks that wait.
const TEST_TIME_MAX: Duration = Duration::from_secs(100 * 365 * 86_400);

/// Settings of a test as a whole.
pub(crate) struct Settings {
    pub(crate) window: Option<Duration>,
    pub(crate) workflow_id: String,
    pub(crate) seed: u64,
    pub(crate) cached: bool,
    pub(crate) sabotage: Option<&'static str>,
    pub(crate) queries: Vec<(Duration, String, Vec<Payload>, Ask)>,
    /// It has no workflows, but the rules for them.
    pub(crate) registry: WorkflowRegistry,
}

impl Default for Settings {
    fn default() -> Self {
        let workflow_id = "test".to_owned();
        let registry = WorkflowRegistry::default();
        Self { window: None, workflow_id, seed: 1, cached: true, sabotage: None, queries: Vec::new(), registry }
    }
}

/// Its outcome.
pub(crate) struct SimulationResult {
    pub(crate) output: Result<Vec<Payload>, Failure>,
    pub(crate) elapsed: Duration,
    pub(crate) history: Vec<HistoryEvent>,
    pub(crate) earlier: Vec<Vec<HistoryEvent>>,
    pub(crate) children: BTreeMap<String, Vec<HistoryEvent>>,
    pub(crate) commands: Vec<Command>,
    pub(crate) state: BTreeMap<String, Value>,
    pub(crate) updates: Vec<Result<Value, Failure>>,
    pub(crate) violation: Option<DeterminismViolation>,
    pub(crate) workflow_tasks: usize,
}

/// Runs a test on a thread of its own.
pub(crate) async fn start(plan: Arc<Plan>, settings: Settings, input: Vec<Payload>) -> SimulationResult {
    let (sender, receiver) = oneshot::channel();
    let thread = std::thread::Builder::new().name("segno-test".to_owned()).spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
        let ended = match runtime {
            Ok(runtime) => runtime.block_on(Simulation::run(plan, settings, input)),
            Err(error) => panic!("no runtime for the test: {error}"),
        };
        // The receiver is gone if the test itself was dropped.
        let _ = sender.send(ended);
    });
    let thread = match thread {
        Ok(thread) => thread,
        Err(error) => panic!("no thread for the test: {error}"),
    };
    match receiver.await {
        Ok(ended) => ended,
        Err(_) => match thread.join() {
            Err(panic) => std::panic::resume_unwind(panic),
            Ok(()) => unreachable!("the thread ended without a result and without a panic"),
        },
    }
}

/// Why a test ends before its workflow does.
struct TestFailure {
    failure: Failure,
    violation: Option<Box<DeterminismViolation>>,
}

impl From<TaskFailed> for TestFailure {
    fn from(failed: TaskFailed) -> Self {
        Self { failure: failed.failure, violation: failed.violation }
    }
}

fn test_failure(kind: &str, message: String) -> TestFailure {
    TestFailure { failure: Failure::application(kind, message).into(), violation: None }
}

/// A run of this test.
struct Member {
    plans: Plans,
    /// How many events of the history its instance has seen.
    seen: usize,
    workflow_tasks: Vec<RecordedTask>,
}

struct Simulation {
    server: Server,
    thread: WorkflowThread,
    /// By run; `None` for a mocked child.
    members: Vec<Option<Member>>,
    plan: Arc<Plan>,
    attempts: Attempts,
    done: mpsc::UnboundedReceiver<Done>,
    locals: HashMap<(usize, String), AbortHandle>,
    /// Local operations that ended, and whose run has not heard of it.
    finished_locals: VecDeque<Done>,
    queries: Vec<(Nanos, String, Vec<Payload>, Ask)>,
    base: Instant,
    cached: bool,
    replayed: usize,
    workflow_tasks: usize,
    /// Events since the last workflow task.
    happenings: u32,
}

fn nanos(duration: Duration) -> Nanos {
    Nanos::try_from(duration.as_nanos()).unwrap_or(Nanos::MAX)
}

impl Simulation {
    async fn run(plan: Arc<Plan>, settings: Settings, input: Vec<Payload>) -> SimulationResult {
        let mut registry = settings.registry;
        for register in &plan.register {
            register(&mut registry);
        }
        let thread = match WorkflowThread::start(registry, settings.sabotage) {
            Ok(thread) => thread,
            Err(error) => panic!("no thread for workflows: {error}"),
        };
        let (sender, done) = mpsc::unbounded_channel();
        let mut queries: Vec<_> = settings
            .queries
            .into_iter()
            .map(|(at, name, input, ask)| (ORIGIN.saturating_add(nanos(at)), name, input, ask))
            .collect();
        queries.sort_by_key(|(at, ..)| *at);
        let mut simulation = Self {
            server: Server::new(settings.seed, settings.window.map(nanos)),
            thread,
            members: Vec::new(),
            plan: plan.clone(),
            attempts: Attempts::new(sender),
            done,
            locals: HashMap::new(),
            finished_locals: VecDeque::new(),
            queries,
            base: Instant::now(),
            cached: settings.cached,
            replayed: 0,
            workflow_tasks: 0,
            happenings: 0,
        };
        simulation.server.start(&settings.workflow_id, plan.kind, "test", input);
        let outcome = simulation.drive().await;
        simulation.ended(outcome)
    }

    /// Until the workflow at the root has closed.
    async fn drive(&mut self) -> Result<(), TestFailure> {
        loop {
            self.obey()?;
            if self.server.runs[self.server.newest(0)].closed.is_some() {
                self.ask_queries(Nanos::MAX);
                return self.repeat_all();
            }
            if let Some(run) = self.server.next_ready() {
                self.workflow_task(run).await?;
                continue;
            }
            if let Some(done) = self.step(None).await? {
                self.finished_locals.push_back(done);
            }
        }
    }

    /// Lets one thing happen: the end of an attempt, or what is next by the clock. With a deadline, that may be nothing.
    async fn step(&mut self, deadline: Option<Nanos>) -> Result<Option<Done>, TestFailure> {
        self.happenings += 1;
        if self.happenings > EVENTS_MAX {
            return Err(test_failure("Stuck", format!("{}; a task is perhaps retried for ever", self.stuck())));
        }
        // Attempts that can end now, end now.
        for _ in 0..4 {
            tokio::task::yield_now().await;
        }
        if let Ok(done) = self.done.try_recv() {
            return Ok(self.take(done));
        }
        let due =
            [self.server.next_due(), self.queries.first().map(|(at, ..)| *at), deadline].into_iter().flatten().min();
        if let Some(at) = due.filter(|at| *at <= self.server.now) {
            self.happen(at);
            return Ok(None);
        }
        if due.is_none() && self.attempts.is_empty() && self.locals.is_empty() {
            return Err(test_failure("Stuck", self.stuck()));
        }
        let until = match due {
            Some(at) => self.base + Duration::from_nanos(u64::try_from(at - ORIGIN).unwrap_or_default()),
            None => self.base + TEST_TIME_MAX,
        };
        tokio::select! {
            biased;
            done = self.done.recv() => Ok(done.and_then(|done| self.take(done))),
            () = tokio::time::sleep_until(until) => match due {
                Some(at) => {
                    self.happen(at);
                    Ok(None)
                }
                None => Err(test_failure("Stuck", self.stuck())),
            },
        }
    }

    /// Carries out the next event by the clock.
    fn happen(&mut self, at: Nanos) {
        self.server.set_now(at);
        if self.server.next_due().is_some_and(|due| due <= at) {
            self.server.advance();
        } else {
            self.ask_queries(at);
        }
    }

    fn stuck(&self) -> String {
        let waiting: Vec<String> = self
            .server
            .runs
            .iter()
            .filter(|run| run.closed.is_none())
            .map(|run| format!("{} ({}), after {} events", run.workflow_id, run.kind, run.history.len()))
            .collect();
        format!("nothing more can happen, and these workflows still wait: {}", waiting.join("; "))
    }

    /// Handles a message of an attempt. The end of a local operation is for the caller.
    fn take(&mut self, done: Done) -> Option<Done> {
        let elapsed = nanos(Instant::now().saturating_duration_since(self.base));
        self.server.set_now(ORIGIN.saturating_add(elapsed));
        match done {
            Done::Heartbeat { run, scheduled_event_id, details } => {
                self.server.heartbeat(run, scheduled_event_id, details);
                None
            }
            Done::Attempt { run, scheduled_event_id, attempt, not_before, result } => {
                self.attempts.ended(run, scheduled_event_id, attempt);
                if not_before > self.server.now {
                    self.server.plan(not_before, TimedEvent::AttemptEnd { run, scheduled_event_id, attempt, result });
                } else {
                    self.server.end_attempt(run, scheduled_event_id, attempt, result);
                }
                None
            }
            Done::Local { .. } => Some(done),
        }
    }

    fn ask_queries(&mut self, until: Nanos) {
        while self.queries.first().is_some_and(|(at, ..)| *at <= until) {
            let (_, name, input, ask) = self.queries.remove(0);
            let run = self.server.newest(0);
            let history = self.server.runs[run].history.clone();
            ask(self.thread.call(move |instances| instances.query(run, history, &name, input)));
        }
    }

    /// Does what the server orders.
    fn obey(&mut self) -> Result<(), TestFailure> {
        for order in self.server.take_orders() {
            match order {
                Order::Started { run } => self.started(run)?,
                Order::CancelAttempt { run, scheduled_event_id } => self.attempts.cancel(run, scheduled_event_id),
                Order::Forget { run, scheduled_event_id } => self.attempts.forget(run, scheduled_event_id),
                Order::Operation { run, scheduled_event_id } => self.handle_operation(run, scheduled_event_id)?,
                Order::Attempt { run, ref kind, .. } => {
                    let Some(member) = &self.members[run] else { continue };
                    let Some(executor) = member.plans.executor(kind) else {
                        let message = format!(
                            "the workflow scheduled a task {kind:?}, which this test does not know: add `.task::<..>()`, \
                             `.mock::<..>(..)` or `.mock_raw({kind:?}, ..)`"
                        );
                        return Err(test_failure("NotRegistered", message));
                    };
                    let latency = nanos(member.plans.latency(kind));
                    let owner = &self.server.runs[run];
                    let ids = (owner.workflow_id.clone(), owner.run_id.clone(), owner.kind.clone());
                    let now = self.server.now;
                    let (scheduled_event_id, attempt, result) = self.attempts.begin(order, executor, latency, now, ids);
                    // A mock has no way to send heartbeats, and needs none.
                    if let Some(result) = result {
                        let end = TimedEvent::AttemptEnd { run, scheduled_event_id, attempt, result };
                        self.server.plan(now.saturating_add(latency), end);
                    } else {
                        self.server.watch_heartbeats(run, scheduled_event_id, attempt);
                    }
                }
            }
        }
        Ok(())
    }

    /// Calls the mock of a Nexus operation.
    fn handle_operation(&mut self, run: usize, scheduled_event_id: i64) -> Result<(), TestFailure> {
        let Some(Some(member)) = self.members.get(run) else { return Ok(()) };
        let Some(operation) = self.server.runs[run].operations.get(&scheduled_event_id) else { return Ok(()) };
        let name = operation.name();
        let Some(mock) = member.plans.mocked_operation(&name) else {
            let message = format!(
                "the workflow scheduled a Nexus operation {name:?}, which this test does not know: add \
                 `.mock_operation(..)` or `.mock_operation_raw({:?}, {:?}, ..)`",
                operation.attributes.service, operation.attributes.operation
            );
            return Err(test_failure("NotRegistered", message));
        };
        let latency = nanos(member.plans.latency(&name));
        let result = mock(operation.attributes.input.iter().cloned().collect());
        self.server.handler_answered(run, scheduled_event_id, result, latency);
        Ok(())
    }

    /// A run was started: finds out what it has in this test.
    fn started(&mut self, run: usize) -> Result<(), TestFailure> {
        if self.server.runs.len() > RUNS_MAX {
            return Err(test_failure("Stuck", format!("there are more than {RUNS_MAX} runs")));
        }
        let kind = self.server.runs[run].kind.clone();
        let plans = match self.server.runs[run].parent {
            Some(parent) => {
                let above = self.members[parent.run].as_ref().map(|member| member.plans.clone());
                let Some(above) = above else { return Err(test_failure("NotRegistered", kind)) };
                if let Some(mock) = above.mocked_child(&kind) {
                    let input = self.server.input_of(run);
                    let at = self.server.now.saturating_add(nanos(above.latency(&kind)));
                    self.server.plan(at, TimedEvent::MockEnd { run, result: mock(input) });
                    self.server.no_workflow_task(run);
                    self.members.push(None);
                    return Ok(());
                }
                above.child(&kind)
            }
            None if kind == self.plan.kind => Some(Plans::root(self.plan.clone())),
            None => Plans::root(self.plan.clone()).child(&kind),
        };
        let Some(plans) = plans else {
            let message = format!(
                "the workflow started another one of kind {kind:?}, which this test does not know: add `.child::<..>(|t| t)`"
            );
            return Err(test_failure("NotRegistered", message));
        };
        // A run that goes on after another one has no messages of its own.
        if self.server.is_first_run(run) {
            for (at, input) in plans.inputs() {
                let at = self.server.now.saturating_add(nanos(*at));
                self.server.plan(at, TimedEvent::Input { run, input: input.clone() });
            }
            // Messages for the very start are there before the first workflow task.
            while self.server.next_due().is_some_and(|due| due <= self.server.now) && run == 0 {
                self.server.advance();
            }
        }
        self.members.push(Some(Member { plans, seen: 0, workflow_tasks: Vec::new() }));
        Ok(())
    }

    /// One workflow task of a run.
    async fn workflow_task(&mut self, run: usize) -> Result<(), TestFailure> {
        let Some(task) = self.server.start_workflow_task(run) else { return Ok(()) };
        self.workflow_tasks += 1;
        self.happenings = 0;
        let length = self.server.runs[run].history.len();
        let cached = self.thread.call(move |instances| instances.has(run));
        let seen = self.member(run).seen;
        let events = self.server.runs[run].history[if cached { seen } else { 0 }..].to_vec();
        let messages = task.messages.clone();
        let mut step = self.thread.call(move |instances| instances.begin(run, events, messages));
        let mut locals = Vec::new();
        let deadline = self.server.now.saturating_add(WORKFLOW_TASK_TIMEOUT / 5 * 4);
        let mut more = false;
        loop {
            let Step { start, cancel, open_locals } = match step {
                Ok(step) => step,
                Err(failed) => {
                    let wire = failed.failure.to_wire();
                    self.server.fail_workflow_task(run, failed.cause, Some(wire));
                    return Err(failed.into());
                }
            };
            self.begin_locals(run, start)?;
            for id in cancel {
                if let Some(local) = self.locals.remove(&(run, id)) {
                    local.abort();
                }
            }
            if open_locals == 0 {
                break;
            }
            // Meanwhile the world goes on; what comes for this run waits until the task is answered.
            let result = loop {
                if let Some(result) = self.finished_local(run) {
                    break Some(result);
                }
                if let Some(done) = self.step(Some(deadline)).await? {
                    self.finished_locals.push_back(done);
                    continue;
                }
                self.obey()?;
                if self.server.now >= deadline {
                    break None;
                }
            };
            let Some((id, attempt, outcome)) = result else {
                more = true;
                break;
            };
            locals.push((id.clone(), attempt, outcome.clone()));
            let result = LocalResult { id, attempt, outcome };
            step = match self.thread.call(move |instances| instances.local_done(run, result)) {
                Some(step) => step,
                None => return Ok(()),
            };
        }
        let Some(finished) = self.thread.call(move |instances| instances.finish(run)) else { return Ok(()) };
        let attempt = self.server.attempt(run);
        let (commands, replies) = (finished.commands, finished.messages);
        match self.server.complete_workflow_task(run, commands.clone(), &replies, more) {
            Answer::Stored => {
                self.member(run).seen = length;
                let task = RecordedTask { length, messages: task.messages, locals, commands, replies };
                self.member(run).workflow_tasks.push(task);
                self.repeat_last(run)?;
            }
            Answer::Dropped(event_id) => {
                self.member(run).seen = usize::try_from(event_id).unwrap_or_default();
                self.thread.call(move |instances| instances.reset_to(run, event_id));
            }
            Answer::CommandError(cause, message) => {
                self.evict(run);
                if attempt >= ATTEMPTS_MAX {
                    return Err(test_failure("WorkflowTaskFailed", format!("{}: {message}", cause.as_str_name())));
                }
            }
        }
        // A worker keeps an instance while its local operations run, or they would begin again for ever.
        if (!self.cached && !more) || self.server.runs[run].closed.is_some() {
            self.evict(run);
        }
        Ok(())
    }

    /// Throws the instance of a run away, with its local operations.
    fn evict(&mut self, run: usize) {
        self.thread.call(move |instances| instances.evict(run));
        self.locals.retain(|(of, _), local| {
            if *of == run {
                local.abort();
            }
            *of != run
        });
    }

    /// A local operation of this run that ended and is still wanted.
    fn finished_local(&mut self, run: usize) -> Option<(String, u32, Result<Vec<Payload>, Failure>)> {
        let of_run = |done: &Done| matches!(done, Done::Local { run: of, .. } if *of == run);
        while let Some(at) = self.finished_locals.iter().position(of_run) {
            if let Some(Done::Local { id, attempt, result, .. }) = self.finished_locals.remove(at)
                && self.locals.remove(&(run, id.clone())).is_some()
            {
                return Some((id, attempt, result));
            }
        }
        None
    }

    fn member(&mut self, run: usize) -> &mut Member {
        match self.members.get_mut(run) {
            Some(Some(member)) => member,
            _ => unreachable!("a mocked child has no workflow tasks"),
        }
    }

    fn begin_locals(&mut self, run: usize, requests: Vec<LocalRequest>) -> Result<(), TestFailure> {
        for request in requests {
            let id = request.id.clone();
            let plans = self.member(run).plans.clone();
            let owner = &self.server.runs[run];
            let ids = (owner.workflow_id.clone(), owner.run_id.clone(), owner.kind.clone());
            match self.attempts.begin_local(run, request, &plans, ids) {
                Ok(handle) => {
                    self.locals.insert((run, id), handle);
                }
                Err(kind) => {
                    let message =
                        format!("the workflow scheduled a local task {kind:?}, which this test does not know");
                    return Err(test_failure("NotRegistered", message));
                }
            }
        }
        Ok(())
    }

    /// Replays the history up to the last workflow task in a fresh instance and compares its commands. In long histories not after
    /// every workflow task, so that the whole stays linear.
    fn repeat_last(&mut self, run: usize) -> Result<(), TestFailure> {
        let length = self.server.runs[run].history.len();
        if self.replayed > REPLAYED_MIN.saturating_add(length.saturating_mul(16)) {
            return Ok(());
        }
        self.replayed += length;
        self.repeat(run)
    }

    fn repeat(&mut self, run: usize) -> Result<(), TestFailure> {
        let Some(task) = self.member(run).workflow_tasks.last().cloned() else { return Ok(()) };
        let events = self.server.runs[run].history[..task.length].to_vec();
        self.thread.call(move |instances| instances.repeat(events, task)).map_err(TestFailure::from)
    }

    /// Replays every run three times.
    fn repeat_all(&mut self) -> Result<(), TestFailure> {
        for run in 0..self.members.len() {
            if self.members[run].is_none() {
                continue;
            }
            for _ in 0..3 {
                self.repeat(run)?;
            }
        }
        Ok(())
    }

    fn ended(mut self, outcome: Result<(), TestFailure>) -> SimulationResult {
        let last = self.server.newest(0);
        let (output, violation) = match outcome {
            Err(abandoned) => (Err(abandoned.failure), abandoned.violation.map(|violation| *violation)),
            Ok(()) => (self.output(last), None),
        };
        let commands = match &self.members.get(last) {
            Some(Some(member)) => member.workflow_tasks.iter().flat_map(|task| task.commands.iter().cloned()).collect(),
            _ => Vec::new(),
        };
        let state = self.server.runs[last].memo.iter().filter_map(|(key, payload)| {
            let key = key.strip_prefix("state.")?;
            Some((key.to_owned(), converter::decode_payload(payload).ok()?))
        });
        let state = state.collect();
        let updates = self.updates();
        let history = std::mem::take(&mut self.server.runs[last].history);
        let mut earlier = Vec::new();
        let mut children = BTreeMap::new();
        let root = self.server.runs[0].workflow_id.clone();
        for (index, run) in self.server.runs.iter_mut().enumerate() {
            let events = std::mem::take(&mut run.history);
            if index == last {
                continue;
            } else if run.workflow_id == root {
                earlier.push(events);
            } else {
                children.insert(run.workflow_id.clone(), events);
            }
        }
        let elapsed = Duration::from_nanos(u64::try_from(self.server.now - ORIGIN).unwrap_or_default());
        let workflow_tasks = self.workflow_tasks;
        SimulationResult {
            output,
            elapsed,
            history,
            earlier,
            children,
            commands,
            state,
            updates,
            violation,
            workflow_tasks,
        }
    }

    fn output(&self, run: usize) -> Result<Vec<Payload>, Failure> {
        match &self.server.runs[run].closed {
            Some(CloseOutcome::Completed(output)) => Ok(output.clone()),
            Some(CloseOutcome::Failed(failure)) => Err(failure.clone()),
            Some(CloseOutcome::Canceled(_)) => Err(Failure::cancelled()),
            Some(CloseOutcome::Terminated(reason)) => Err(Failure::terminated(reason.clone())),
            Some(CloseOutcome::TimedOut) => {
                Err(Failure::timeout(segno_proto::enums::TimeoutType::StartToClose, "the workflow took too long"))
            }
            Some(CloseOutcome::ContinuedAsNew(_)) | None => Err(Failure::new("the workflow has not closed").into()),
        }
    }

    fn updates(&self) -> Vec<Result<Value, Failure>> {
        let sent = self.plan.inputs.iter().filter_map(|(_, input)| match input {
            super::server::Input::Update { id, .. } => Some(id),
            _ => None,
        });
        sent.map(|id| {
            let outcome = self.server.runs.iter().rev().find_map(|run| run.outcomes.get(id));
            match outcome {
                Some(UpdateOutcome::Completed(output)) => match output.first() {
                    Some(payload) => converter::decode_payload(payload)
                        .map_err(|error| Failure::application("Conversion", error.to_string()).into()),
                    None => Ok(Value::Null),
                },
                Some(UpdateOutcome::Failed(failure) | UpdateOutcome::Rejected(failure)) => Err(failure.clone()),
                None => Err(Failure::application("NotFound", "the update was not answered").into()),
            }
        })
        .collect()
    }
}
