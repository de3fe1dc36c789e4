//! What the tasks of one load share: connections, the count of work given out, latencies, errors and the gauge.
//!
//! Everything runs on one thread, so that cells are enough and the driver leaves the other cores to the server.

use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, HashMap},
    rc::Rc,
    time::{Duration, Instant},
};

use anyhow::Result;
use segno_proto::{enums::TaskQueueKind, taskqueue::TaskQueue};
use tokio::task::JoinSet;
use tonic::Status;

use super::{Load, outcome::Outcome, timers::Alarm};
use crate::{
    gauge::Gauge,
    wire::{self, Client},
};

/// One load under way.
pub struct Session {
    /// What was asked for.
    pub load: Load,
    /// What workers remember of runs between workflow tasks: how much of what they wait for has come.
    pub seen: RefCell<HashMap<String, usize>>,
    clients: Vec<Client>,
    next_client: Cell<usize>,
    gauge: Option<Gauge>,
    /// When timers are due, where there are any.
    pub alarm: Alarm,
    begun: Instant,
    input: String,
    stage: RefCell<String>,
    given: Cell<usize>,
    finished_total: Cell<usize>,
    answered_tasks: Cell<usize>,
    activities_begun: Cell<Option<Instant>>,
    latencies: RefCell<Vec<Duration>>,
    errors: RefCell<BTreeMap<String, usize>>,
}

impl Session {
    /// Prepares the connections; they are made when first needed.
    pub fn new(load: &Load, gauge: Option<Gauge>) -> Result<Rc<Self>> {
        let clients = (0..load.connections.max(1)).map(|_| wire::client(load.port)).collect::<Result<Vec<_>>>()?;
        Ok(Rc::new(Self {
            load: load.clone(),
            seen: RefCell::default(),
            clients,
            next_client: Cell::new(0),
            gauge,
            alarm: Alarm::default(),
            begun: Instant::now(),
            input: load.workload.input(),
            stage: RefCell::default(),
            given: Cell::new(0),
            finished_total: Cell::new(0),
            answered_tasks: Cell::new(0),
            activities_begun: Cell::new(None),
            latencies: RefCell::new(Vec::with_capacity(load.count)),
            errors: RefCell::default(),
        }))
    }

    /// A client; connections are handed out in task.
    pub fn client(&self) -> Client {
        let next = self.next_client.replace(self.next_client.get() + 1);
        self.clients[next % self.clients.len()].clone()
    }

    /// The name of the task queue everything goes through.
    pub fn queue(&self) -> &str {
        self.load.queue.as_deref().unwrap_or(&self.load.prefix)
    }

    /// The worker's own queue.
    pub fn sticky_queue(&self) -> TaskQueue {
        TaskQueue {
            name: format!("{}-sticky", self.load.prefix),
            kind: TaskQueueKind::Sticky.into(),
            normal_name: self.queue().to_owned(),
        }
    }

    /// Counts a failed call.
    pub fn failed(&self, call: &str, status: &Status) {
        let text = format!("{call}: {:?} {}", status.code(), status.message());
        *self.errors.borrow_mut().entry(text).or_default() += 1;
    }

    /// What workflows are started with.
    pub fn input(&self) -> &str {
        &self.input
    }

    /// What workflows that run to their end come to.
    pub fn output(&self) -> &str {
        self.load.workload.output().unwrap_or(&self.input)
    }

    /// Microseconds since the load began, to be carried in payloads; see [`Session::moment`].
    pub fn now_us(&self) -> u64 {
        self.begun.elapsed().as_micros() as u64
    }

    /// The moment that was so many microseconds after the load began.
    pub fn moment(&self, now_us: u64) -> Instant {
        self.begun + Duration::from_micros(now_us)
    }

    /// Counts a finished operation that began at the given moment.
    pub fn finished(&self, begun: Instant) {
        self.record(begun.elapsed());
    }

    /// Counts a finished operation that took so long.
    pub fn record(&self, latency: Duration) {
        self.finished_total.set(self.finished_total.get() + 1);
        self.latencies.borrow_mut().push(latency);
    }

    /// Counts an answered workflow task, which may have finished an operation.
    pub fn workflow_task_answered(&self, finishes: Option<Instant>) {
        self.answered_tasks.set(self.answered_tasks.get() + 1);
        if let Some(begun) = finishes {
            self.finished(begun);
        }
    }

    /// Workflow tasks answered so far.
    pub fn answered_tasks(&self) -> usize {
        self.answered_tasks.get()
    }

    /// From now on each completed activity is an operation that began at the given moment.
    pub fn count_activities_from(&self, begun: Instant) {
        self.activities_begun.set(Some(begun));
    }

    /// Counts a completed activity, if activities are what counts.
    pub fn activity_done(&self) {
        if let Some(begun) = self.activities_begun.get() {
            self.finished(begun);
        }
    }

    /// Operations finished since the load began.
    pub fn finished_total(&self) -> usize {
        self.finished_total.get()
    }

    /// What is being measured.
    pub fn stage(&self) -> String {
        self.stage.borrow().clone()
    }

    /// Memory of the server now, when there is a process to read.
    pub fn rss_mib(&self) -> Option<f64> {
        self.gauge.as_ref().and_then(|gauge| gauge.rss_mib().ok())
    }

    /// Operations finished since measuring began.
    pub fn finished_count(&self) -> usize {
        self.latencies.borrow().len()
    }

    /// The index of the next operation to begin, until all of the load is given out or its time is over.
    pub fn take_next(&self, started: Instant) -> Option<usize> {
        let next = self.given.get();
        let more = next < self.load.count && started.elapsed() < self.load.time_max;
        more.then(|| self.given.replace(next + 1))
    }

    /// The next operation, and the moment from which its latency counts. With a rate that is when it was due, so that a
    /// server that falls behind does not make its own load lighter.
    pub async fn take_due(&self, started: Instant) -> Option<(usize, Instant)> {
        let index = self.take_next(started)?;
        let Some(rate) = self.load.rate else { return Some((index, Instant::now())) };
        let due = started + Duration::from_secs_f64(index as f64 / rate);
        tokio::time::sleep_until(due.into()).await;
        Some((index, due))
    }

    /// Runs one caller per unit of concurrency until all have ended.
    pub async fn call_all<F: Future<Output = ()> + 'static>(self: &Rc<Self>, caller: impl Fn(usize, Instant) -> F) {
        let started = Instant::now();
        let mut callers = JoinSet::new();
        for index in 0..self.load.concurrency {
            callers.spawn_local(caller(index, started));
        }
        while callers.join_next().await.is_some() {}
    }

    /// Measures a piece of work; what came before it does not count.
    pub async fn measure(&self, name: &str, unit: &'static str, work: impl Future<Output = ()>) -> Result<Outcome> {
        self.given.set(0);
        *self.stage.borrow_mut() = name.to_owned();
        self.latencies.borrow_mut().clear();
        let before = self.gauge.as_ref().map(Gauge::read).transpose()?;
        let started = Instant::now();
        work.await;
        let elapsed = started.elapsed();
        let after = self.gauge.as_ref().map(Gauge::read).transpose()?;
        let mut latencies = self.latencies.take();
        latencies.sort_unstable();
        Ok(Outcome {
            name: name.to_owned(),
            unit,
            elapsed,
            latencies,
            errors: self.errors.take(),
            cost: after.zip(before).map(|(after, before)| after.since(&before)),
            extras: Vec::new(),
        })
    }
}
