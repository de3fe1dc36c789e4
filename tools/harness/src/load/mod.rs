//! The load driver: client, workflow worker and activity worker in one thread, over raw gRPC, so that the cost of the
//! server dominates. It works against any server of the protocol.
//!
//! `cargo xtask load --workload NAME --port 7233 --count 5000 --concurrency 32 [--rate N] [--sticky] [--queue NAME]`, where NAME
//! is one of [`workload::WORKLOADS`]. The process behind the port is found and its CPU, memory and writes are shown; Segno's commits are
//! read from `--http-port`. One file per workload, `worker.rs` and `workflows.rs` are shared.

mod backlog;
mod batches;
mod fill;
mod flows;
mod heartbeats;
mod lists;
mod long_history;
mod open;
mod operations;
mod outcome;
mod progress;
mod schedules;
mod script_figures;
mod scripts;
mod session;
mod signals;
mod timers;
mod updates;
mod worker;
mod workflows;
mod workload;

use std::{rc::Rc, time::Duration};

use anyhow::{Result, bail};
use tokio::task::LocalSet;

pub use outcome::Outcome;
pub use workload::Workload;

use crate::{args::Args, gauge::Gauge, wire};
use progress::Progress;
use session::Session;

/// How much load, and of which kind.
#[derive(Clone)]
pub struct Load {
    /// The kind.
    pub workload: Workload,
    /// Port of the server on this machine.
    pub port: u16,
    /// Operations to do: workflows to run, updates to make.
    pub count: usize,
    /// Operations under way at any time.
    pub concurrency: usize,
    /// HTTP/2 connections, shared by client and worker.
    pub connections: usize,
    /// Polls waiting at any time, for workflow tasks and for activity tasks each.
    pub pollers: usize,
    /// Sticky queues and `return_new_workflow_task`, as SDKs do.
    pub sticky: bool,
    /// No new operation after this long: slow servers get through less of `count`.
    pub time_max: Duration,
    /// Workflows, or workers, that are there before anything is measured, where a workload has such.
    pub fill: usize,
    /// No further one of those after this long.
    pub fill_time_max: Duration,
    /// Workflows that are due per second, whether or not earlier ones are done; none means as many as go.
    pub rate: Option<f64>,
    /// Workflows per second beside lists; none means as many as go.
    pub beside: Option<f64>,
    /// What the progress line begins with.
    pub label: String,
    /// Prefix of the workflow ids, unique per server and run of the driver.
    pub prefix: String,
    /// The task queue, if several drivers share one; else it is named like the prefix.
    pub queue: Option<String>,
}

impl Load {
    /// The usual shape of load at a given concurrency.
    pub fn new(port: u16, count: usize, concurrency: usize, prefix: &str) -> Self {
        Self {
            workload: Workload::OneActivity,
            port,
            count,
            concurrency,
            connections: 2,
            pollers: 16,
            sticky: false,
            time_max: Duration::MAX,
            fill: 0,
            fill_time_max: Duration::MAX,
            rate: None,
            beside: None,
            label: String::new(),
            prefix: prefix.to_owned(),
            queue: None,
        }
    }

    /// The same amount of another kind of work.
    pub fn of(mut self, workload: Workload) -> Self {
        self.workload = workload;
        self.sticky |= workload.needs_sticky();
        self
    }
}

/// `cargo xtask load`.
pub fn command(mut args: Args) -> Result<()> {
    let mut load = Load::new(args.option_or("--port", 7233)?, 2_000, 32, "");
    load.connections = args.option_or("--connections", load.connections)?;
    load.pollers = args.option_or("--pollers", load.pollers)?;
    load.sticky = args.flag("--sticky");
    load.queue = args.option("--queue")?;
    let start_only = args.flag("--start-only");
    let workload = args.option_or("--workload", Workload::OneActivity)?;
    load = load.of(if start_only { Workload::StartOnly } else { workload });
    // A list is asked for one page at a time, and a long history is one run, unless told otherwise.
    let (count, concurrency) = match load.workload {
        Workload::LongHistory => (20_000, 1),
        Workload::ScriptHistory => (1_000_000, 1),
        Workload::ScriptQuery => (50_000, 64),
        Workload::Timers => (10_000, 64),
        Workload::Backlog => (50_000, 64),
        Workload::Lists => (500, 32),
        Workload::Heartbeats => (100_000, 64),
        Workload::Schedules => (1_000, 64),
        _ => (load.count, load.concurrency),
    };
    load.count = args.option_or("--count", count)?;
    load.concurrency = args.option_or("--concurrency", concurrency)?;
    let fill = match load.workload {
        Workload::Lists => 200_000,
        Workload::Heartbeats => 10_000,
        Workload::Schedules => 1_000_000,
        _ => 100_000,
    };
    load.fill = args.option_or("--fill", fill)?;
    load.rate = args.option("--rate")?;
    load.beside = args.option("--beside")?;
    let http_port = args.option_or("--http-port", load.port + 1_000)?;
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?;
    load.label = load.workload.name().to_owned();
    // Several drivers may begin in the same moment.
    load.prefix = format!("load-{}-{}", now.as_millis(), std::process::id());
    args.finish()?;
    // A server elsewhere, or of another user, is loaded all the same; its cost is then not known.
    let gauge = Gauge::of_listener(load.port, Some(http_port)).ok();
    let outcomes = wire::runtime()?.block_on(run_parts(&load, gauge))?;
    for outcome in &outcomes {
        println!("{}", outcome.line());
        for (error, times) in &outcome.errors {
            println!("  {times} x {error}");
        }
    }
    Ok(())
}

/// Runs the load to its end; what its first part came to, with the errors of all.
pub async fn run(load: &Load) -> Result<Outcome> {
    let mut parts = run_parts(load, None).await?.into_iter();
    let Some(mut first) = parts.next() else { bail!("{} measured nothing", load.workload.name()) };
    first.errors.extend(parts.flat_map(|part| part.errors));
    Ok(first)
}

/// Runs the load to its end; what each part of it came to and, with a gauge, cost.
pub async fn run_parts(load: &Load, gauge: Option<Gauge>) -> Result<Vec<Outcome>> {
    let session = Session::new(load, gauge)?;
    LocalSet::new().run_until(drive(session)).await
}

async fn drive(session: Rc<Session>) -> Result<Vec<Outcome>> {
    let _progress = Progress::start(&session);
    let session = &session;
    Ok(match session.load.workload {
        Workload::Empty => vec![workflows::run(session, "empty").await?],
        Workload::OneActivity | Workload::Payload1K | Workload::Payload256K => {
            vec![workflows::run(session, "one-activity").await?]
        }
        Workload::Chain => vec![workflows::run(session, "chain").await?],
        Workload::FanOut => vec![workflows::run(session, "fan-out").await?],
        Workload::Children => vec![workflows::run(session, "parent").await?],
        Workload::Operation => vec![operations::run(session).await?],
        Workload::StartOnly => vec![workflows::start_all(session, "", "one-activity").await?],
        Workload::Signal => vec![signals::run(session).await?],
        Workload::UpdateRejected => vec![updates::run(session, false).await?],
        Workload::UpdateAccepted => vec![updates::run(session, true).await?],
        Workload::Timers => timers::run(session).await?,
        Workload::LongHistory => long_history::run(session).await?,
        Workload::Open => open::run(session).await?,
        Workload::Backlog => backlog::run(session).await?,
        Workload::Batch => batches::run(session).await?,
        Workload::Lists => lists::run(session).await?,
        Workload::Schedules => schedules::run(session).await?,
        Workload::Script => vec![scripts::one_task(session).await?],
        Workload::ScriptFanOut => vec![scripts::all_tasks(session).await?],
        Workload::ScriptQuery => vec![script_figures::queries(session).await?],
        Workload::ScriptHistory => script_figures::history(session).await?,
        Workload::ScriptOpen => script_figures::open(session).await?,
        Workload::Heartbeats => heartbeats::run(session).await?,
    })
}
