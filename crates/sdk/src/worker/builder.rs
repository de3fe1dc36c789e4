//! Builder of workers.

use std::{sync::Arc, time::Duration};

use super::{
    Worker,
    interceptor::{Interceptors, NexusInterceptor, TaskInterceptor},
    options::{Pollers, WorkerOptions},
    shared::{Registries, Shared},
    slots::Tuner,
};
use crate::{
    client::{Client, ClientError, Queue},
    definition::{Task, TaskSet, Workflow},
    nexus::{NexusRegistry, NexusService},
    task::TaskRegistry,
    versioning::Deployment,
    workflow::{WorkflowInterceptor, WorkflowRegistry},
};

/// A worker that is being made: [`Queue::worker`](crate::Queue::worker).
#[must_use]
pub struct WorkerBuilder {
    client: Client,
    queue: String,
    identity: Option<String>,
    tasks: TaskRegistry,
    workflows: WorkflowRegistry,
    nexus: NexusRegistry,
    interceptors: Interceptors,
    options: WorkerOptions,
}

impl Queue {
    /// A worker for this queue.
    pub fn worker(&self) -> WorkerBuilder {
        WorkerBuilder {
            client: self.client().clone(),
            queue: self.name().to_owned(),
            identity: None,
            tasks: TaskRegistry::default(),
            workflows: WorkflowRegistry::default(),
            nexus: NexusRegistry::default(),
            interceptors: Interceptors::default(),
            options: WorkerOptions::default(),
        }
    }
}

impl WorkerBuilder {
    /// Executes this workflow.
    pub fn workflow<W: Workflow>(mut self) -> Self {
        self.workflows.add::<W>();
        self
    }

    /// Executes this task, a plain function.
    pub fn task<T: Task<State = ()>>(mut self) -> Self {
        self.tasks.add::<T>(Arc::new(()));
        self
    }

    /// Executes the tasks of this instance, which they share.
    pub fn tasks<S: TaskSet>(mut self, instance: S) -> Self {
        Arc::new(instance).register(&mut self.tasks);
        self
    }

    /// Handles the operations of a Nexus service: `.nexus_service(OrdersHandler::new(shop))`, for what implements the trait
    /// `Orders` that is marked with [`nexus_service`](macro@crate::nexus_service).
    pub fn nexus_service(mut self, service: impl NexusService) -> Self {
        service.register(&mut self.nexus);
        self
    }

    /// How many workflow runs are kept in memory between their workflow tasks; 10,000 if not given. Others are replayed
    /// from history when they go on.
    pub fn max_cached_workflows(mut self, runs: usize) -> Self {
        self.options.max_cached_workflows = runs;
        self
    }

    /// How many bytes these runs may have, estimated by their histories; 256 MiB if not given.
    pub fn max_cache_bytes(mut self, bytes: usize) -> Self {
        self.options.max_cache_bytes = bytes;
        self
    }

    /// On how many threads workflows run; one per processor if not given.
    pub fn workflow_threads(mut self, threads: usize) -> Self {
        self.options.workflow_threads = threads;
        self
    }

    /// How many workflow tasks are worked on at a time; 200 if not given.
    pub fn max_concurrent_workflow_tasks(self, tasks: usize) -> Self {
        self.workflow_tuner(Tuner::fixed(tasks))
    }

    /// Decides how many workflow tasks are worked on at a time. With a single slot no run is cached.
    pub fn workflow_tuner(mut self, tuner: Tuner) -> Self {
        self.options.workflow_tuner = tuner;
        self
    }

    /// How long a workflow task of a cached run waits for this worker before others may have it; 10 s if not given.
    pub fn sticky_timeout(mut self, timeout: Duration) -> Self {
        self.options.sticky_timeout = timeout;
        self
    }

    /// Kinds of failures, such as `Panic` or `DeterminismViolation`, that fail the workflow. Without this they fail the
    /// workflow task, and the run waits for a repaired worker.
    pub fn fail_workflow_on<K: Into<String>>(mut self, kinds: impl IntoIterator<Item = K>) -> Self {
        self.options.fail_workflow_on.extend(kinds.into_iter().map(Into::into));
        self
    }

    /// How many tasks are executed at a time; 200 if not given.
    pub fn max_concurrent_tasks(self, tasks: usize) -> Self {
        self.tuner(Tuner::fixed(tasks))
    }

    /// Decides how many tasks are executed at a time.
    pub fn tuner(mut self, tuner: Tuner) -> Self {
        self.options.tuner = tuner;
        self
    }

    /// How many local tasks are executed at a time; 200 if not given.
    pub fn max_concurrent_local_tasks(self, tasks: usize) -> Self {
        self.local_tuner(Tuner::fixed(tasks))
    }

    /// Decides how many local tasks are executed at a time.
    pub fn local_tuner(mut self, tuner: Tuner) -> Self {
        self.options.local_tuner = tuner;
        self
    }

    /// How many requests to Nexus operations are handled at a time; 200 if not given.
    pub fn max_concurrent_nexus_requests(self, requests: usize) -> Self {
        self.nexus_tuner(Tuner::fixed(requests))
    }

    /// Decides how many requests to Nexus operations are handled at a time.
    pub fn nexus_tuner(mut self, tuner: Tuner) -> Self {
        self.options.nexus_tuner = tuner;
        self
    }

    /// At most this many tasks begin per second.
    pub fn max_tasks_per_second(mut self, rate: f64) -> Self {
        self.options.max_tasks_per_second = Some(rate);
        self
    }

    /// How many polls are open, for tasks, for workflow tasks and for Nexus requests each; by default 1 to 20, as it is of use.
    pub fn pollers(mut self, pollers: Pollers) -> Self {
        self.options.task_pollers = pollers;
        self.options.workflow_pollers = pollers;
        self.options.nexus_pollers = pollers;
        self
    }

    /// The same for tasks alone.
    pub fn task_pollers(mut self, pollers: Pollers) -> Self {
        self.options.task_pollers = pollers;
        self
    }

    /// The same for workflow tasks alone.
    pub fn workflow_pollers(mut self, pollers: Pollers) -> Self {
        self.options.workflow_pollers = pollers;
        self
    }

    /// The same for Nexus requests alone.
    pub fn nexus_pollers(mut self, pollers: Pollers) -> Self {
        self.options.nexus_pollers = pollers;
        self
    }

    /// Whether tasks of this queue that a workflow of this worker schedules may come back with the same call, without a
    /// poll. They do if there are free slots; this turns it off.
    pub fn eager_tasks(mut self, eager: bool) -> Self {
        self.options.eager_tasks = eager;
        self
    }

    /// Who this is, for histories and logs; that of the client if not given.
    pub fn identity(mut self, identity: impl Into<String>) -> Self {
        self.identity = Some(identity.into());
        self
    }

    /// The version of the program that this worker belongs to.
    pub fn deployment(mut self, deployment: Deployment) -> Self {
        if deployment.use_versioning {
            self.workflows.set_version(deployment.version());
        }
        self.options.deployment = Some(deployment);
        self
    }

    /// After how long without a sign of life Segno gives this worker's tasks to others, from 1 s to 1 h; 20 s if not given.
    /// A server of Temporal knows no leases.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.options.lease = lease;
        self
    }

    /// How long tasks may go on when the worker shuts down; 10 s if not given. Then they are cancelled, with
    /// [`CancelReason::WorkerShutdown`](crate::CancelReason::WorkerShutdown).
    pub fn shutdown_grace(mut self, grace: Duration) -> Self {
        self.options.shutdown_grace = grace;
        self
    }

    /// How long tasks may take to stop after that; 10 s if not given. Then their futures are dropped, and they are
    /// answered as failed, so that they are tried again elsewhere.
    pub fn shutdown_force(mut self, force: Duration) -> Self {
        self.options.shutdown_force = force;
        self
    }

    /// The longest time between two heartbeats of a task on the wire; 30 s if not given.
    pub fn heartbeat_throttle(mut self, interval: Duration) -> Self {
        self.options.heartbeat_throttle = interval;
        self
    }

    /// Adds code around every task. The first one added is the outermost.
    pub fn interceptor(mut self, interceptor: impl TaskInterceptor) -> Self {
        self.interceptors.tasks.push(Arc::new(interceptor));
        self
    }

    /// Adds code around every request to a Nexus operation. The first one added is the outermost.
    pub fn nexus_interceptor(mut self, interceptor: impl NexusInterceptor) -> Self {
        self.interceptors.nexus.push(Arc::new(interceptor));
        self
    }

    /// Adds code around what workflows receive and ask for. The first one added is called first.
    pub fn workflow_interceptor(mut self, interceptor: impl WorkflowInterceptor) -> Self {
        self.workflows.intercept(interceptor);
        self
    }

    /// A task that is scheduled on another queue or with another input than history has counts as a
    /// [violation](crate::DeterminismViolation), too. Without this only its kind and its place do.
    pub fn strict(mut self) -> Self {
        self.workflows.set_strict();
        self
    }

    /// Makes the worker. Nothing is sent yet.
    pub fn build(self) -> Result<Worker, ClientError> {
        if let Some(problem) = self.problem() {
            return Err(ClientError::Configuration(problem));
        }
        let registries = Registries { tasks: self.tasks, workflows: self.workflows, nexus: self.nexus };
        let shared = Shared::new(self.client, self.queue, self.identity, registries, self.interceptors, self.options);
        Ok(Worker::new(shared))
    }

    fn problem(&self) -> Option<String> {
        if cfg!(panic = "abort") {
            return Some(
                "the program is compiled with panic = \"abort\": a panic in one workflow or task would end all of them. \
                 Remove the setting from the profile in Cargo.toml"
                    .to_owned(),
            );
        }
        if self.queue.is_empty() {
            return Some("a worker needs the name of a task queue".to_owned());
        }
        if self.tasks.is_empty() && self.workflows.is_empty() && self.nexus.is_empty() {
            return Some("a worker without workflows, tasks and Nexus services has nothing to do".to_owned());
        }
        if let Some(kind) = self.tasks.duplicates().next() {
            return Some(format!("the task {kind:?} was added twice"));
        }
        if let Some(kind) = self.workflows.duplicates().first() {
            return Some(format!("the workflow {kind:?} was added twice"));
        }
        if let Some(operation) = self.nexus.duplicates().next() {
            return Some(format!("the Nexus operation {operation:?} was added twice"));
        }
        self.options.problem()
    }
}

#[cfg(test)]
#[path = "builder_tests.rs"]
mod tests;
