//! Options of a worker.

use std::time::Duration;

use super::slots::Tuner;
use crate::versioning::Deployment;

/// How many polls a worker has open, per kind of task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pollers {
    /// Always this many, as long as there are free slots.
    Fixed(usize),
    /// As many as are of use: the server says so, or else the poll answers show it.
    Auto {
        /// At least.
        min: usize,
        /// At most.
        max: usize,
    },
}

impl Default for Pollers {
    fn default() -> Self {
        Self::Auto { min: 1, max: 20 }
    }
}

/// Settings of a [`WorkerBuilder`](super::WorkerBuilder).
#[derive(Clone, Debug)]
pub(crate) struct WorkerOptions {
    pub max_cached_workflows: usize,
    pub max_cache_bytes: usize,
    pub workflow_threads: usize,
    pub workflow_tuner: Tuner,
    pub local_tuner: Tuner,
    pub nexus_tuner: Tuner,
    pub sticky_timeout: Duration,
    pub fail_workflow_on: Vec<String>,
    pub tuner: Tuner,
    pub task_pollers: Pollers,
    pub workflow_pollers: Pollers,
    pub nexus_pollers: Pollers,
    pub max_tasks_per_second: Option<f64>,
    pub eager_tasks: bool,
    pub deployment: Option<Deployment>,
    pub lease: Duration,
    pub shutdown_grace: Duration,
    pub shutdown_force: Duration,
    pub heartbeat_throttle: Duration,
}

impl Default for WorkerOptions {
    fn default() -> Self {
        Self {
            max_cached_workflows: 10_000,
            max_cache_bytes: 256 * 1024 * 1024,
            workflow_threads: std::thread::available_parallelism().map_or(2, usize::from),
            workflow_tuner: Tuner::fixed(200),
            local_tuner: Tuner::fixed(200),
            nexus_tuner: Tuner::fixed(200),
            sticky_timeout: Duration::from_secs(10),
            fail_workflow_on: Vec::new(),
            tuner: Tuner::fixed(200),
            task_pollers: Pollers::default(),
            workflow_pollers: Pollers::default(),
            nexus_pollers: Pollers::default(),
            max_tasks_per_second: None,
            eager_tasks: true,
            deployment: None,
            lease: Duration::from_secs(20),
            shutdown_grace: Duration::from_secs(10),
            shutdown_force: Duration::from_secs(10),
            heartbeat_throttle: Duration::from_secs(30),
        }
    }
}

impl WorkerOptions {
    /// The first setting that cannot be used.
    pub(crate) fn problem(&self) -> Option<String> {
        let pollers = |pollers: Pollers| match pollers {
            Pollers::Fixed(count) => count > 0,
            Pollers::Auto { min, max } => 0 < min && min <= max,
        };
        if ![self.task_pollers, self.workflow_pollers, self.nexus_pollers].into_iter().all(pollers) {
            return Some("a worker needs at least one poller, and not more at least than at most".to_owned());
        }
        if !(Duration::from_secs(1)..=Duration::from_secs(3600)).contains(&self.lease) {
            return Some(format!("a lease is from 1 s to 1 h long, not {:?}", self.lease));
        }
        if self.workflow_threads == 0 {
            return Some("a worker needs at least one thread for workflows".to_owned());
        }
        if self.max_tasks_per_second.is_some_and(|rate| !rate.is_finite() || rate <= 0.0) {
            return Some("the limit of tasks per second is a number above 0".to_owned());
        }
        let tuners = [&self.tuner, &self.workflow_tuner, &self.local_tuner, &self.nexus_tuner];
        tuners.into_iter().find_map(Tuner::problem)
    }
}
