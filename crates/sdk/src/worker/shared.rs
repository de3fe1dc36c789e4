//! State that the parts of a worker share.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock},
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use segno_proto::{
    deployment::WorkerDeploymentOptions,
    namespace::namespace_info::{Capabilities, Limits},
    taskqueue::TaskQueue,
};
use tokio::{sync::watch, time::Instant};
use uuid::Uuid;

use super::{
    deltas::Deltas,
    interceptor::Interceptors,
    options::WorkerOptions,
    pollers::{PollStop, Scaling},
    slots::{Slot, Slots},
};
use crate::lock::lock;
use crate::{
    client::Client,
    nexus::{HandlerError, NexusFn, NexusRegistry},
    task::{CancelReason, Cancellation, TaskFn, TaskRegistry},
    versioning::{Deployment, VersioningBehavior},
    workflow::WorkflowRegistry,
};

/// How far a worker is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// Tasks run.
    Serving,
    /// The time for tasks to stop is over: their futures are dropped, and they are answered as failed.
    Forced,
    /// The worker was dropped: everything ends without an answer.
    Dropped,
}

/// State that the parts of a worker share.
pub(crate) struct Shared {
    pub client: Client,
    pub queue: String,
    pub identity: String,
    pub tasks: Arc<TaskRegistry>,
    pub workflows: Arc<WorkflowRegistry>,
    pub(super) nexus: NexusRegistry,
    pub(super) interceptors: Interceptors,
    pub options: WorkerOptions,
    pub(super) slots: Slots,
    pub(super) local_slots: Slots,
    pub(super) running: RunningAttempts,
    pub(super) nexus_slots: Slots,
    /// Requests to Nexus operations that are handled now.
    pub(super) nexus_running: RunningAttempts,
    pub(super) nexus_scaling: Arc<Scaling>,
    pub(super) nexus_counts: Counts,
    pub(super) deltas: Mutex<Deltas>,
    /// Until when the server has promised to wait for this worker; `None` if it keeps no leases.
    pub(super) leased_until: Mutex<Option<Instant>>,
    pub(super) phase: watch::Sender<Phase>,
    pub(super) started_at: SystemTime,
    pub(super) task_scaling: Arc<Scaling>,
    pub(super) counts: Counts,
    workflow_scaling: Arc<Scaling>,
    instance: RwLock<String>,
    control_queue: String,
    capabilities: OnceLock<Capabilities>,
    completion_bytes_max: OnceLock<usize>,
}

/// Tasks that a worker has executed, or requests that it has handled.
#[derive(Default)]
pub(super) struct Counts {
    pub processed: std::sync::atomic::AtomicI32,
    pub failed: std::sync::atomic::AtomicI32,
}

/// The workflows, tasks and services of a worker.
pub(super) struct Registries {
    pub tasks: TaskRegistry,
    pub workflows: WorkflowRegistry,
    pub nexus: NexusRegistry,
}

impl Shared {
    pub(super) fn new(
        client: Client,
        queue: String,
        identity: Option<String>,
        registries: Registries,
        interceptors: Interceptors,
        options: WorkerOptions,
    ) -> Self {
        let Registries { tasks, workflows, nexus } = registries;
        let identity = identity.unwrap_or_else(|| client.identity().to_owned());
        // The same form as Temporal's SDKs use, so that people recognise it.
        let control_queue = format!("temporal-sys/worker-commands/{}/{}", client.namespace(), Uuid::new_v4().simple());
        Self {
            slots: Slots::new(options.tuner.clone()),
            local_slots: Slots::new(options.local_tuner.clone()),
            running: RunningAttempts::default(),
            nexus_slots: Slots::new(options.nexus_tuner.clone()),
            nexus_running: RunningAttempts::default(),
            nexus_scaling: Scaling::new(options.nexus_pollers),
            nexus_counts: Counts::default(),
            deltas: Mutex::default(),
            leased_until: Mutex::default(),
            phase: watch::Sender::new(Phase::Serving),
            started_at: SystemTime::now(),
            task_scaling: Scaling::new(options.task_pollers),
            workflow_scaling: Scaling::new(options.workflow_pollers),
            counts: Counts::default(),
            instance: RwLock::new(new_instance_key()),
            control_queue,
            capabilities: OnceLock::new(),
            completion_bytes_max: OnceLock::new(),
            client,
            queue,
            identity,
            tasks: Arc::new(tasks),
            workflows: Arc::new(workflows),
            nexus,
            interceptors,
            options,
        }
    }

    /// The function that executes tasks of a kind, inside the interceptors.
    pub(super) fn task_function(&self, kind: &str) -> Option<TaskFn> {
        let function = self.tasks.get(kind)?;
        Some(self.interceptors.tasks.iter().rev().fold(function, |next, interceptor| {
            let interceptor = interceptor.clone();
            let around: TaskFn = Arc::new(move |ctx, input| interceptor.execute(ctx, input, next.clone()));
            around
        }))
    }

    /// The handler of an operation, inside the interceptors.
    pub(super) fn nexus_function(&self, service: &str, operation: &str) -> Result<NexusFn, HandlerError> {
        let function = self.nexus.handler(service, operation)?;
        Ok(self.interceptors.nexus.iter().rev().fold(function, |next, interceptor| {
            let interceptor = interceptor.clone();
            let around: NexusFn = Arc::new(move |ctx, request| interceptor.handle(ctx, request, next.clone()));
            around
        }))
    }

    /// The key that names this worker to the server, on every poll. It changes when the server took the worker for lost.
    pub(crate) fn instance_key(&self) -> String {
        self.instance.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn renew_instance(&self) {
        *self.instance.write().unwrap_or_else(PoisonError::into_inner) = new_instance_key();
    }

    /// The lease was not renewed in time, as far as this worker knows.
    pub(super) fn lease_is_over(&self) -> bool {
        let until = *lock(&self.leased_until);
        until.is_some_and(|until| until < Instant::now())
    }

    /// The queue for workflow tasks of runs that this worker has in its cache.
    pub(crate) fn sticky_queue(&self) -> String {
        format!("{}:{}", self.queue, self.instance_key())
    }

    /// The queue on which the server gives this worker commands; empty if it gives none.
    pub(crate) fn control_queue(&self) -> String {
        match self.capabilities().worker_commands {
            true => self.control_queue.clone(),
            false => String::new(),
        }
    }

    /// The server's capabilities in this namespace. None before the worker runs.
    pub(crate) fn capabilities(&self) -> Capabilities {
        self.capabilities.get().copied().unwrap_or_default()
    }

    pub(super) fn set_capabilities(&self, capabilities: Capabilities, limits: &Limits) {
        // A worker runs once.
        let _ = self.capabilities.set(capabilities);
        let most = usize::try_from(limits.workflow_task_completion_size_limit_error).ok().filter(|most| *most > 0);
        let _ = self.completion_bytes_max.set(most.unwrap_or(usize::MAX));
    }

    /// How much the server takes of an answer to a workflow task in all its pages; `None`: it takes no pages.
    pub(super) fn paged_bytes_max(&self) -> Option<usize> {
        let most = || self.completion_bytes_max.get().copied().unwrap_or(usize::MAX);
        self.capabilities().workflow_task_completion_pagination.then(most)
    }

    /// The worker's version, for polls and answers.
    pub(crate) fn deployment_options(&self) -> Option<WorkerDeploymentOptions> {
        self.options.deployment.as_ref().map(Deployment::to_wire)
    }

    /// The versioning behaviour for completions of workflow tasks, from the one that the workflow's attribute names.
    pub(crate) fn versioning_behavior(&self, own: VersioningBehavior) -> i32 {
        let deployment = self.options.deployment.as_ref();
        deployment.map_or(VersioningBehavior::Unspecified, |deployment| deployment.behavior(own)).to_wire()
    }

    /// Whether first workflow tasks may come with the answers to starts. Temporal's server gives them to a versioned
    /// worker without looking at the routing; Segno, which keeps leases, starts eagerly only where the routing leads.
    pub(super) fn takes_eager_starts(&self) -> bool {
        let is_versioned = self.options.deployment.as_ref().is_some_and(|deployment| deployment.use_versioning);
        !is_versioned || lock(&self.leased_until).is_some()
    }

    pub(super) fn task_queue(&self) -> Option<TaskQueue> {
        Some(TaskQueue { name: self.queue.clone(), ..Default::default() })
    }

    /// How many polls for workflow tasks there are.
    pub(crate) fn pollers_workflow(&self) -> Arc<Scaling> {
        self.workflow_scaling.clone()
    }

    /// How polls of this worker end.
    pub(crate) fn poll_stop(&self, stop: watch::Receiver<bool>) -> PollStop {
        PollStop { stop, server_ends_polls: self.capabilities().worker_poll_complete_on_shutdown }
    }

    /// Up to `max` slots for tasks, for eager ones. None if this worker does not execute tasks.
    pub(crate) fn try_reserve_tasks(&self, max: usize) -> Vec<Slot> {
        match self.options.eager_tasks && !self.tasks.is_empty() {
            true => self.slots.try_reserve(max),
            false => Vec::new(),
        }
    }
}

fn new_instance_key() -> String {
    Uuid::new_v4().simple().to_string()
}

/// Attempts that run now.
#[derive(Default)]
pub(super) struct RunningAttempts {
    attempts: Mutex<HashMap<Bytes, Arc<Cancellation>>>,
    /// How many there are.
    count: watch::Sender<usize>,
}

impl RunningAttempts {
    pub(super) fn begin(&self, token: Bytes, cancellation: Arc<Cancellation>) {
        let mut attempts = self.lock();
        attempts.insert(token, cancellation);
        self.count.send_replace(attempts.len());
    }

    pub(super) fn end(&self, token: &Bytes) {
        let mut attempts = self.lock();
        attempts.remove(token);
        self.count.send_replace(attempts.len());
    }

    /// Tells one attempt to stop. It may be over.
    pub(super) fn cancel(&self, token: &Bytes, reason: CancelReason) {
        if let Some(cancellation) = self.lock().get(token) {
            cancellation.tell(reason);
        }
    }

    /// Tells every attempt to stop.
    pub(super) fn cancel_all(&self, reason: CancelReason) {
        for cancellation in self.lock().values() {
            cancellation.tell(reason);
        }
    }

    pub(super) fn count(&self) -> usize {
        *self.count.borrow()
    }

    /// Waits until none is left. False: that took too long.
    pub(super) async fn drained(&self, time_max: Duration) -> bool {
        let mut count = self.count.subscribe();
        // The sender cannot be gone while it is borrowed.
        tokio::time::timeout(time_max, count.wait_for(|count| *count == 0)).await.is_ok()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Bytes, Arc<Cancellation>>> {
        // Nothing panics while the lock is held.
        lock(&self.attempts)
    }
}
