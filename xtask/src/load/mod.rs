//! The load driver: client, workflow worker and activity worker in one thread, over raw gRPC, so that the cost of the
//! server dominates. It works against any server of the protocol.
//!
//! `cargo xtask load --workload NAME --port 7233 --count 5000 --concurrency 32 [--sticky]`, where NAME is one of
//! [`WORKLOADS`]. The process behind the port is found and its CPU, memory and writes are shown; Segno's commits are
//! read from `--http-port`. One file per workload, `worker.rs` and `workflows.rs` are shared.

mod fill;
mod flows;
mod lists;
mod outcome;
mod session;
mod updates;
mod worker;
mod workflows;

use std::{rc::Rc, str::FromStr, time::Duration};

use anyhow::{Result, bail};
use tokio::task::LocalSet;

pub use outcome::Outcome;

use crate::{args::Args, gauge::Gauge, wire};
use session::Session;

/// What kind of work to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Workload {
    /// Start, a turn that schedules an activity, the activity, a turn that completes, the result read by a long poll:
    /// eight calls, the smallest workflow that does something.
    OneActivity,
    /// Starts alone, with no worker.
    StartOnly,
    /// Updates that the worker rejects.
    UpdateRejected,
    /// Updates that the worker accepts and completes in one turn.
    UpdateAccepted,
    /// Pages and counts over many workflows with search attributes, at rest and beside other work.
    Lists,
}

/// Every workload, by the name it has on the command line and in tables.
pub const WORKLOADS: &[(&str, Workload)] = &[
    ("one-activity", Workload::OneActivity),
    ("start-only", Workload::StartOnly),
    ("update-rejected", Workload::UpdateRejected),
    ("update-accepted", Workload::UpdateAccepted),
    ("lists", Workload::Lists),
];

impl Workload {
    /// Its name.
    pub fn name(self) -> &'static str {
        WORKLOADS.iter().find(|(_, workload)| *workload == self).map_or("", |(name, _)| name)
    }

    /// Whether the work is only itself with a sticky queue, as SDKs have it.
    fn needs_sticky(self) -> bool {
        matches!(self, Self::UpdateRejected | Self::UpdateAccepted)
    }
}

impl FromStr for Workload {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        WORKLOADS.iter().find(|(name, _)| *name == text).map(|(_, workload)| *workload).ok_or(())
    }
}

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
    /// Workflows that are there before anything is measured, where a workload has such.
    pub fill: usize,
    /// No further one of those after this long.
    pub fill_time_max: Duration,
    /// Workflows per second beside lists; none means as many as go.
    pub beside: Option<f64>,
    /// Prefix of the workflow ids, unique per server and run of the driver.
    pub prefix: String,
}

impl Load {
    /// The usual shape of load at a given concurrency.
    pub fn new(port: u16, count: usize, concurrency: usize, prefix: &str) -> Self {
        Self {
            workload: Workload::OneActivity,
            port,
            count,
            concurrency,
            connections: 4,
            pollers: 16,
            sticky: false,
            time_max: Duration::MAX,
            fill: 0,
            fill_time_max: Duration::MAX,
            beside: None,
            prefix: prefix.to_owned(),
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
    let mut load = Load::new(args.option_or("--port", 7233)?, args.option_or("--count", 2_000)?, 32, "");
    load.concurrency = args.option_or("--concurrency", load.concurrency)?;
    load.connections = args.option_or("--connections", load.connections)?;
    load.pollers = args.option_or("--pollers", load.pollers)?;
    load.sticky = args.flag("--sticky");
    let start_only = args.flag("--start-only");
    let workload = args.option_or("--workload", Workload::OneActivity)?;
    load = load.of(if start_only { Workload::StartOnly } else { workload });
    load.fill = args.option_or("--fill", if load.workload == Workload::Lists { 200_000 } else { 100_000 })?;
    load.beside = args.option("--beside")?;
    let http_port = args.option_or("--http-port", load.port + 1_000)?;
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?;
    load.prefix = format!("load-{}", now.as_millis());
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
    Ok(match session.load.workload {
        Workload::OneActivity => vec![workflows::run(&session, "one-activity").await?],
        Workload::StartOnly => vec![workflows::start_only(&session).await?],
        Workload::UpdateRejected => vec![updates::run(&session, false).await?],
        Workload::UpdateAccepted => vec![updates::run(&session, true).await?],
        Workload::Lists => lists::run(&session).await?,
    })
}
