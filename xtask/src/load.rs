//! The load driver: a worker and a client for one-activity workflows, in one thread, over raw gRPC.
//!
//! One workflow is: start, first turn schedules an activity, the activity completes, second turn completes the
//! workflow, the client reads the result by a long poll. That is eight calls, the smallest workflow that does something.
//! The worker keeps nothing between turns: what to do follows from the events it is given, with or without sticky
//! queues. Run by itself: `cargo xtask load --port 7233 --count 5000 --concurrency 32 [--sticky]`.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    rc::Rc,
    time::{Duration, Instant},
};

use anyhow::Result;
use segno_proto::{
    command::Command,
    enums::TaskQueueKind,
    events::{HistoryEvent, history_event::Attributes},
    taskqueue::{StickyExecutionAttributes, TaskQueue},
    workflowservice::{
        PollActivityTaskQueueRequest, PollWorkflowTaskQueueRequest, PollWorkflowTaskQueueResponse,
        RespondActivityTaskCompletedRequest, RespondWorkflowTaskCompletedRequest,
    },
};
use tokio::task::{JoinSet, LocalSet};
use tonic::Status;

use crate::{
    args::Args,
    wire::{self, CALL_TIMEOUT, Client, NAMESPACE, POLL_TIMEOUT, request},
};

/// How much load, and of which kind.
#[derive(Clone)]
pub struct Load {
    /// Port of the server on this machine.
    pub port: u16,
    /// Workflows to run.
    pub count: usize,
    /// Workflows under way at any time.
    pub concurrency: usize,
    /// HTTP/2 connections, shared by client and worker.
    pub connections: usize,
    /// Polls waiting at any time, for workflow tasks and for activity tasks each.
    pub pollers: usize,
    /// Sticky queues and `return_new_workflow_task`, as SDKs do.
    pub sticky: bool,
    /// Only start workflows: no worker, no waiting for results.
    pub start_only: bool,
    /// No new workflow after this long: slow servers get through less of `count`.
    pub time_max: Duration,
    /// Prefix of the workflow ids, unique per server and run of the driver.
    pub prefix: String,
}

impl Load {
    /// The usual shape of load at a given concurrency.
    pub fn new(port: u16, count: usize, concurrency: usize, prefix: &str) -> Self {
        Self {
            port,
            count,
            concurrency,
            connections: 4,
            pollers: 16,
            sticky: false,
            start_only: false,
            time_max: Duration::MAX,
            prefix: prefix.to_owned(),
        }
    }
}

/// What a load came to.
pub struct Outcome {
    /// Wall time from the first start to the last result.
    pub elapsed: Duration,
    /// Start-to-result times, sorted.
    pub latencies: Vec<Duration>,
    /// Calls that failed, by what the server said.
    pub errors: BTreeMap<String, usize>,
}

impl Outcome {
    /// Finished workflows per second.
    pub fn rate(&self) -> f64 {
        self.latencies.len() as f64 / self.elapsed.as_secs_f64()
    }

    /// The latency that the given share of workflows stayed under, in milliseconds.
    pub fn percentile_ms(&self, share: f64) -> f64 {
        let last = self.latencies.len().saturating_sub(1);
        let at = (last as f64 * share).round() as usize;
        self.latencies.get(at).map_or(f64::NAN, |latency| latency.as_secs_f64() * 1_000.0)
    }

    /// One line for a person.
    pub fn line(&self) -> String {
        let errors: usize = self.errors.values().sum();
        format!(
            "{} workflows in {:.2} s: {:.0}/s, p50 {:.2} ms, p90 {:.2} ms, p99 {:.2} ms, {errors} errors",
            self.latencies.len(),
            self.elapsed.as_secs_f64(),
            self.rate(),
            self.percentile_ms(0.50),
            self.percentile_ms(0.90),
            self.percentile_ms(0.99),
        )
    }
}

/// `cargo xtask load`.
pub fn command(mut args: Args) -> Result<()> {
    let mut load = Load::new(args.option_or("--port", 7233)?, args.option_or("--count", 2_000)?, 32, "");
    load.concurrency = args.option_or("--concurrency", load.concurrency)?;
    load.connections = args.option_or("--connections", load.connections)?;
    load.pollers = args.option_or("--pollers", load.pollers)?;
    load.sticky = args.flag("--sticky");
    load.start_only = args.flag("--start-only");
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?;
    load.prefix = format!("load-{}", now.as_millis());
    args.finish()?;
    let outcome = wire::runtime()?.block_on(run(&load))?;
    println!("{}", outcome.line());
    for (error, times) in &outcome.errors {
        println!("  {times} x {error}");
    }
    Ok(())
}

/// Runs the load to its end.
pub async fn run(load: &Load) -> Result<Outcome> {
    let clients = (0..load.connections.max(1)).map(|_| wire::client(load.port)).collect::<Result<Vec<_>>>()?;
    let shared = Rc::new(Shared {
        load: load.clone(),
        next: Cell::new(0),
        latencies: RefCell::new(Vec::with_capacity(load.count)),
        errors: RefCell::default(),
    });
    LocalSet::new().run_until(drive(shared, clients)).await
}

/// What the tasks of one load share; all run on one thread.
struct Shared {
    load: Load,
    next: Cell<usize>,
    latencies: RefCell<Vec<Duration>>,
    errors: RefCell<BTreeMap<String, usize>>,
}

impl Shared {
    fn failed(&self, call: &str, status: &Status) {
        let text = format!("{call}: {:?} {}", status.code(), status.message());
        *self.errors.borrow_mut().entry(text).or_default() += 1;
    }

    fn sticky_queue(&self) -> TaskQueue {
        TaskQueue {
            name: format!("{}-sticky", self.load.prefix),
            kind: TaskQueueKind::Sticky.into(),
            normal_name: self.load.prefix.clone(),
        }
    }
}

async fn drive(shared: Rc<Shared>, clients: Vec<Client>) -> Result<Outcome> {
    let mut pick = clients.iter().cycle().cloned();
    let mut client = || pick.next().expect("a cycle over a list that is not empty never ends");
    let mut workers = JoinSet::new();
    if !shared.load.start_only {
        for _ in 0..shared.load.pollers {
            let normal = wire::queue(&shared.load.prefix).unwrap_or_default();
            workers.spawn_local(poll_turns(shared.clone(), client(), normal));
            workers.spawn_local(poll_activities(shared.clone(), client()));
            if shared.load.sticky {
                workers.spawn_local(poll_turns(shared.clone(), client(), shared.sticky_queue()));
            }
        }
    }
    let started = Instant::now();
    let mut callers = JoinSet::new();
    for _ in 0..shared.load.concurrency {
        callers.spawn_local(call_workflows(shared.clone(), client(), started));
    }
    while callers.join_next().await.is_some() {}
    let elapsed = started.elapsed();
    workers.shutdown().await;
    let mut latencies = shared.latencies.take();
    latencies.sort_unstable();
    Ok(Outcome { elapsed, latencies, errors: shared.errors.take() })
}

/// One client: starts a workflow, waits for its result, starts the next.
async fn call_workflows(shared: Rc<Shared>, mut client: Client, started: Instant) {
    while shared.next.get() < shared.load.count && started.elapsed() < shared.load.time_max {
        let index = shared.next.replace(shared.next.get() + 1);
        let workflow_id = format!("{}-{index}", shared.load.prefix);
        let begun = Instant::now();
        let start = wire::start("one-activity", &workflow_id, &shared.load.prefix, "hello");
        let run_id = match client.start_workflow_execution(request(start, CALL_TIMEOUT)).await {
            Ok(reply) => reply.into_inner().run_id,
            Err(status) => {
                shared.failed("start", &status);
                continue;
            }
        };
        if !shared.load.start_only {
            match wire::wait_closed(&mut client, &workflow_id, &run_id).await {
                Ok(event) if wire::closing_result(&event) == "hello" => {}
                Ok(event) => shared.failed("result", &Status::unknown(wire::closing_result(&event))),
                Err(status) => {
                    shared.failed("result", &status);
                    continue;
                }
            }
        }
        shared.latencies.borrow_mut().push(begun.elapsed());
    }
}

/// One poller for workflow tasks.
async fn poll_turns(shared: Rc<Shared>, mut client: Client, task_queue: TaskQueue) {
    loop {
        let poll = PollWorkflowTaskQueueRequest {
            namespace: NAMESPACE.to_owned(),
            task_queue: Some(task_queue.clone()),
            identity: "xtask".to_owned(),
            ..Default::default()
        };
        match client.poll_workflow_task_queue(request(poll, POLL_TIMEOUT)).await {
            Ok(reply) => {
                let mut task = Some(reply.into_inner());
                while let Some(turn) = task.take().filter(|turn| !turn.task_token.is_empty()) {
                    task = take_turn(&shared, &mut client, turn).await;
                }
            }
            Err(status) => back_off(&shared, "poll workflow task", &status).await,
        }
    }
}

/// Answers one workflow task; the next one of the same run when the reply carries it.
async fn take_turn(
    shared: &Shared,
    client: &mut Client,
    turn: PollWorkflowTaskQueueResponse,
) -> Option<PollWorkflowTaskQueueResponse> {
    let events = turn.history.unwrap_or_default().events().unwrap_or_default();
    let sticky = shared.load.sticky.then(|| StickyExecutionAttributes {
        worker_task_queue: Some(shared.sticky_queue()),
        schedule_to_start_timeout: Some(wire::millis(10_000)),
    });
    let answer = RespondWorkflowTaskCompletedRequest {
        task_token: turn.task_token,
        commands: decide(&events, &shared.load.prefix),
        identity: "xtask".to_owned(),
        return_new_workflow_task: sticky.is_some(),
        sticky_attributes: sticky,
        namespace: NAMESPACE.to_owned(),
        ..Default::default()
    };
    match client.respond_workflow_task_completed(request(answer, CALL_TIMEOUT)).await {
        Ok(reply) => reply.into_inner().workflow_task,
        Err(status) => {
            shared.failed("complete workflow task", &status);
            None
        }
    }
}

/// The workflow: an activity, then its result. With a sticky queue only the news is in `events`; that is enough.
fn decide(events: &[HistoryEvent], task_queue: &str) -> Vec<Command> {
    let news = events.iter().rev().find_map(|event| match &event.attributes {
        Some(Attributes::ActivityTaskCompletedEventAttributes(done)) => Some(wire::complete(done.result.clone())),
        Some(Attributes::WorkflowExecutionStartedEventAttributes(_)) => {
            Some(wire::schedule_activity(task_queue, "hello", Duration::from_secs(60)))
        }
        _ => None,
    });
    news.into_iter().collect()
}

/// One poller for activity tasks; the activity gives back its input.
async fn poll_activities(shared: Rc<Shared>, mut client: Client) {
    loop {
        let poll = PollActivityTaskQueueRequest {
            namespace: NAMESPACE.to_owned(),
            task_queue: wire::queue(&shared.load.prefix),
            identity: "xtask".to_owned(),
            ..Default::default()
        };
        let task = match client.poll_activity_task_queue(request(poll, POLL_TIMEOUT)).await {
            Ok(reply) => reply.into_inner(),
            Err(status) => {
                back_off(&shared, "poll activity task", &status).await;
                continue;
            }
        };
        if task.task_token.is_empty() {
            continue;
        }
        let answer = RespondActivityTaskCompletedRequest {
            task_token: task.task_token,
            result: task.input,
            identity: "xtask".to_owned(),
            namespace: NAMESPACE.to_owned(),
            ..Default::default()
        };
        if let Err(status) = client.respond_activity_task_completed(request(answer, CALL_TIMEOUT)).await {
            shared.failed("complete activity", &status);
        }
    }
}

/// A poll that ran into its own deadline is no error; any other is counted and not repeated at once.
async fn back_off(shared: &Shared, call: &str, status: &Status) {
    if !matches!(status.code(), tonic::Code::DeadlineExceeded | tonic::Code::Cancelled) {
        shared.failed(call, status);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
