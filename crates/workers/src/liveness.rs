//! Detects lost workers, and hands their work to others.
//!
//! The tasks of a worker follow from the runs: every transition that hands work over or takes it away is noted
//! ([`super::holds`]). When a lease ends, each affected run is changed by a call of its own, repeated until it is
//! stored. The loss itself is only in memory; its consequences are durable.
//!
//! Many workers may be lost at the same time without blocking others: leases end in slices of
//! [`SLICE`](super::leases::SLICE), between which other tasks run, and [`MOVES_MAX`] runs of all lost workers together
//! are changed at a time.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use segno_engine::{
    Context, Rejection, Run,
    activity::{self, ActivityRef, HeartbeatReply},
    lease::{Beat, BeatRefused, Hold, LostBecause},
    worker_lost::{self, LostWork},
};
use segno_environment::{
    clock::until,
    connection::ConnectionId,
    metrics::{add, count},
};
use segno_proto::{Nanos, common::Payloads, enums::WorkerStatus, nanos_timestamp, worker::WorkerHeartbeat};
use segno_runs::{
    error::CallError,
    slots::{RunSelector, SlotState, WorkflowKey},
};
use segno_store::{NamespaceKey, RunKey};
use tokio::{sync::Semaphore, task::JoinSet};

use super::{CONTROL_QUEUES, Caller, LeaseView, LostWorker, MOVES_MAX, Party, WorkerQuery, Workers, holds, slots};

/// A look at the leases that comes this much too late means that the server itself was away.
const AWAY_MIN: Nanos = 2 * 1_000_000_000;
/// Runs that are looked at to say what a worker holds.
const HELD_RUNS_MAX: usize = 1000;
/// The pause before a call on a run of a lost worker is made again.
const RETRY_DELAY: Duration = Duration::from_secs(1);

impl Workers {
    /// A worker made a call: a sign of life. Returns whether its silence would mean that it is lost.
    pub fn worker_called(&self, namespace: NamespaceKey, caller: &Caller) -> bool {
        if let Some(other_nodes) = self.other_nodes() {
            other_nodes.worker_called(namespace, caller);
        }
        self.leases.called(namespace, caller, self.runs.clock.monotonic())
    }

    /// A worker says that it is still at work on an activity. From the process that was handed the attempt this is a sign
    /// of life, perhaps the only one: while it shuts down it neither polls nor reports. Others may speak for it, under
    /// another identity.
    pub async fn activity_heartbeat(
        self: &Arc<Self>,
        key: &WorkflowKey,
        selector: &RunSelector,
        reference: ActivityRef,
        details: Option<Payloads>,
        identity: String,
        connection: Option<ConnectionId>,
    ) -> Result<HeartbeatReply, CallError> {
        let (held, speaker) = (reference.clone(), identity.clone());
        let workers = self.clone();
        let call = move |run: &Run, context| {
            workers.note_arrival(run, &reference);
            activity::heartbeat(run, context, &reference, details, identity)
        };
        let worker = move |state: &mut SlotState, _: &HeartbeatReply| {
            let ActivityRef::Token { scheduled_event_id, .. } = held else { return None };
            let found = state.current.as_ref()?.run.state().activities.get(&scheduled_event_id)?;
            (found.started_identity == speaker).then(|| found.worker.clone())
        };
        let (reply, worker) = self.runs.transact_and(key, selector, Vec::new(), call, worker).await?;
        if let Some(worker) = worker {
            self.worker_called(key.namespace, &Caller { worker, control_queue: String::new(), connection });
        }
        Ok(reply)
    }

    /// The lease of a worker.
    pub fn lease_of(&self, namespace: NamespaceKey, worker: &str) -> Option<LeaseView> {
        self.leases.get(namespace, worker, self.runs.clock.monotonic())
    }

    /// The runs of which a worker holds tasks. Runs that are gone since are left out.
    pub async fn held_runs(&self, lease: &LeaseView) -> Vec<Arc<Run>> {
        let keys: BTreeSet<u64> =
            lease.holds.iter().map(|hold| hold.run_key).chain(lease.tasks.iter().copied()).collect();
        let mut runs = Vec::with_capacity(keys.len());
        for run_key in keys.into_iter().take(HELD_RUNS_MAX) {
            let Ok(Some(key)) = self.runs.workflow_of(RunKey(run_key)).await else { continue };
            let Ok(current) = self.runs.snapshot(&key, "").await else { continue };
            runs.extend(Some(current.run.clone()).filter(|run| run.info.run_key == run_key));
        }
        runs
    }

    /// The workers of a namespace that fit a query, in the order of their keys: as they tell, or, if they report in Segno's
    /// protocol only, as far as they were seen. As in Temporal, a worker that only polls is not known here.
    pub fn find_workers(&self, namespace: NamespaceKey, query: &WorkerQuery) -> Vec<Arc<WorkerHeartbeat>> {
        let seen = self.leases_of(namespace).into_iter().filter_map(|lease| Some(Arc::new(heartbeat_of(lease)?)));
        let reported = self.heartbeats.all(namespace, self.runs.now());
        // What comes later counts.
        let known = seen.chain(reported).map(|worker| (worker.worker_instance_key.clone(), worker));
        let known: BTreeMap<String, Arc<WorkerHeartbeat>> = known.collect();
        known.into_values().filter(|worker| query.fits(worker)).collect()
    }

    /// One of these workers.
    pub fn find_worker(&self, namespace: NamespaceKey, worker: &str) -> Option<Arc<WorkerHeartbeat>> {
        let reported = self.heartbeats.get(namespace, worker, self.runs.now());
        reported.or_else(|| Some(Arc::new(heartbeat_of(self.lease_of(namespace, worker)?)?)))
    }

    /// All leases of a namespace, in the order of the workers' keys.
    pub fn leases_of(&self, namespace: NamespaceKey) -> Vec<LeaseView> {
        self.leases.all(namespace, self.runs.clock.monotonic())
    }

    /// Workers reported. One that has shut down gives back what it has, at once.
    pub fn workers_reported(
        self: &Arc<Self>,
        namespace: NamespaceKey,
        heartbeats: Vec<WorkerHeartbeat>,
        connection: Option<ConnectionId>,
    ) {
        let name = self.runs.namespaces.by_key(namespace).map(|found| found.name.clone()).unwrap_or_default();
        for heartbeat in &heartbeats {
            let worker = heartbeat.worker_instance_key.clone();
            if heartbeat.status() == WorkerStatus::Shutdown {
                self.worker_is_over(namespace, &worker);
            } else {
                // A worker whose first polls were under way when it began to take commands has not said so by poll.
                let group = heartbeat.host_info.as_ref().map_or("", |host| host.worker_grouping_key.as_str());
                let control_queue =
                    if group.is_empty() { String::new() } else { format!("{CONTROL_QUEUES}{name}/{group}") };
                let caller = Caller { worker, control_queue, connection };
                let slots = slots::report_of(heartbeat);
                for orphan in self.leases.reported(namespace, &caller, slots, self.runs.clock.monotonic()) {
                    tokio::spawn(self.clone().give_back_orphan(orphan));
                }
            }
        }
        self.heartbeats.record(namespace, heartbeats, self.runs.now());
    }

    /// An attempt never arrived at a stock worker: another one gets it, and it does not count.
    async fn give_back_orphan(self: Arc<Self>, orphan: Hold) {
        let Hold { run_key, scheduled_event_id, started_time } = orphan;
        let call = || move |run: &Run, context| worker_lost::orphan(run, context, scheduled_event_id, started_time);
        if self.insist(RunKey(run_key), call).await.is_some() {
            count(&self.runs.metrics.orphans_found);
            tracing::info!(run = run_key, scheduled_event_id, "an activity never arrived at its worker; others get it");
        }
    }

    /// A token of the task of an activity came back: the attempt has arrived at its worker.
    pub fn note_arrival(&self, run: &Run, reference: &ActivityRef) {
        let ActivityRef::Token { scheduled_event_id, started_time, .. } = reference else { return };
        let known = run.state().activities.get(scheduled_event_id);
        let Some(activity) = known.filter(|activity| activity.started_time == *started_time) else { return };
        if *started_time != 0 && !activity.worker.is_empty() {
            let namespace = NamespaceKey(run.info.namespace_key);
            self.leases.arrived(namespace, &activity.worker, &holds::hold(run.info.run_key, activity));
        }
    }

    /// A worker has shut down: it holds nothing now.
    fn worker_is_over(self: &Arc<Self>, namespace: NamespaceKey, worker: &str) {
        if let Some(lost) = self.leases.shut_down(namespace, worker) {
            self.give_to_others(lost);
        }
    }

    /// A worker that speaks Segno's protocol reports.
    pub fn worker_heartbeat(&self, namespace: NamespaceKey, worker: &str, beat: &Beat) -> Result<[u8; 8], BeatRefused> {
        self.leases.heartbeat(namespace, worker, beat, self.runs.clock.monotonic())
    }

    /// A client's connection is gone.
    pub fn connection_closed(self: &Arc<Self>, connection: ConnectionId) {
        if self.runs.is_stopping() {
            return;
        }
        match self.leases.connection_closed(connection, self.runs.clock.monotonic()) {
            (cut, false) => self.announce_closed(connection, cut),
            (cut, true) => drop(tokio::spawn(self.clone().close_connection(connection, cut))),
        }
    }

    fn announce_closed(&self, connection: ConnectionId, cut: Vec<Party>) {
        if let Some(other_nodes) = self.other_nodes() {
            other_nodes.connection_closed(connection, cut);
        }
    }

    /// Goes on with a connection that led to many workers.
    async fn close_connection(self: Arc<Self>, connection: ConnectionId, mut cut: Vec<Party>) {
        loop {
            tokio::task::yield_now().await;
            let (mut more, is_more) = self.leases.connection_closed(connection, self.runs.clock.monotonic());
            cut.append(&mut more);
            if !is_more {
                return self.announce_closed(connection, cut);
            }
        }
    }

    /// Gives the work of a lost worker to others.
    fn give_to_others(self: &Arc<Self>, lost: LostWorker) {
        for sticky in &lost.sticky {
            self.give_up_queue(lost.namespace, sticky);
        }
        // A poll that it left open would be given what it lost. If it lives after all it polls again.
        self.matching.dismiss(lost.namespace, &lost.worker, lost.queues.iter().map(String::as_str));
        self.matching.forget_worker(lost.namespace, &lost.worker, lost.queues.iter().map(String::as_str));
        if lost.because == LostBecause::ShutDown && lost.runs.is_empty() {
            // It left nothing behind.
            return;
        }
        count(&self.runs.metrics.workers_lost);
        let (worker, why) = (lost.worker.as_str(), lost.because.text());
        match lost.because {
            // It left in an orderly way: nothing to worry about.
            LostBecause::ShutDown => {
                tracing::info!(worker, runs = lost.runs.len(), "a worker has shut down; its work is given to others");
            }
            _ if lost.runs.is_empty() => tracing::debug!(worker, "a worker is gone, and held nothing: {why}"),
            _ => tracing::info!(worker, runs = lost.runs.len(), "a worker is lost: {why}"),
        }
        if !lost.runs.is_empty() {
            tokio::spawn(self.clone().move_work(lost));
        }
    }

    /// Moves the tasks that a lost worker holds, of all its runs.
    async fn move_work(self: Arc<Self>, lost: LostWorker) {
        let permits = Arc::new(Semaphore::new(MOVES_MAX));
        let mut moves = JoinSet::new();
        for run in lost.runs {
            let Ok(permit) = permits.clone().acquire_owned().await else { return };
            let (workers, worker, is_leaving) = (self.clone(), lost.worker.clone(), lost.is_leaving);
            let (namespace, why) = (lost.namespace, lost.because.text());
            moves.spawn(async move {
                workers.move_task(RunKey(run), &worker).await;
                workers.move_attempts(namespace, RunKey(run), LostWork::Worker { worker, is_leaving }, why).await;
                drop(permit);
            });
        }
        moves.join_all().await;
    }

    async fn move_task(self: &Arc<Self>, run: RunKey, worker: &str) {
        let call = |worker: String| move |run: &Run, context| worker_lost::workflow_task(run, context, &worker);
        if self.insist(run, || call(worker.to_owned())).await == Some(true) {
            count(&self.runs.metrics.workflow_tasks_moved);
        }
    }

    async fn move_attempts(self: &Arc<Self>, namespace: NamespaceKey, run: RunKey, lost: LostWork, why: &'static str) {
        let settings = self.runs.namespaces.by_key(namespace).map(|namespace| namespace.settings).unwrap_or_default();
        let call = |lost: LostWork| {
            move |run: &Run, context: Context| {
                let context = Context { limits: settings.limits(context.limits), ..context };
                worker_lost::activities(run, context, &lost, why)
            }
        };
        let Some(moved) = self.insist(run, || call(lost.clone())).await else { return };
        add(&self.runs.metrics.activities_moved, moved.rescheduled as u64);
        add(&self.runs.metrics.activities_lost, moved.failed as u64);
        if moved.quarantined > 0 {
            add(&self.runs.metrics.activities_quarantined, moved.quarantined as u64);
            let (run, activities) = (run.0, moved.quarantined);
            tracing::warn!(run, activities, "activities are quarantined: workers were lost while they had them");
        }
    }

    /// Whether a run has a slot of its own, see [`WorkflowKey::lingering`](segno_runs::slots::WorkflowKey).
    async fn is_lingering(&self, run: RunKey) -> bool {
        matches!(self.runs.workflow_of(run).await, Ok(Some(key)) if key.lingering.is_some())
    }

    /// Makes a call on a run until it is stored or refused.
    async fn insist<R, F>(self: &Arc<Self>, run: RunKey, call: impl Fn() -> F) -> Option<R>
    where
        R: Send + 'static,
        F: FnOnce(&Run, Context) -> Result<segno_engine::Applied<R>, Rejection> + Send + 'static,
    {
        while !self.runs.is_stopping() {
            let mut was_current = false;
            let Ok(permit) = self.moves.acquire().await else { return None };
            let result = match self.runs.workflow_of(run).await {
                Ok(None) => return None,
                Ok(Some(key)) => {
                    was_current = key.lingering.is_none();
                    let call = call();
                    let only = move |current: &Run, context| {
                        if current.info.run_key == run.0 { call(current, context) } else { Err(Rejection::Closed) }
                    };
                    self.runs.apply(&key, &RunSelector::default(), only).await
                }
                Err(error) => Err(error),
            };
            drop(permit);
            match result {
                Ok(reply) => return Some(reply),
                // Its new owner knows what its workers hold.
                Err(CallError::Moved) => return None,
                Err(error) if error.is_temporary() => tokio::time::sleep(RETRY_DELAY).await,
                // Another run took its place meanwhile, and its activities are carried out all the same.
                Err(_) if was_current && self.is_lingering(run).await => {}
                Err(error) => {
                    tracing::debug!(run = run.0, %error, "nothing of a lost worker is left here");
                    return None;
                }
            }
        }
        None
    }
}

/// The heartbeat, in Temporal's form, of a worker that speaks Segno's protocol. `None` for a worker without a sign of life since
/// the server started.
fn heartbeat_of(lease: LeaseView) -> Option<WorkerHeartbeat> {
    if !lease.speaks_protocol {
        return None;
    }
    let status = if lease.leaving { WorkerStatus::ShuttingDown } else { WorkerStatus::Running };
    Some(WorkerHeartbeat {
        start_time: Some(nanos_timestamp(lease.first_heard?)),
        worker_instance_key: lease.worker,
        worker_identity: lease.identity,
        task_queue: lease.task_queue,
        status: status as i32,
        ..Default::default()
    })
}

/// Ends leases when their time is up, until the node stops.
pub async fn watch(workers: Arc<Workers>) {
    let mut planned: Option<Nanos> = None;
    while !workers.runs.is_stopping() {
        let now = workers.runs.clock.monotonic();
        if let Some(away) = planned.map(|planned| now - planned).filter(|away| *away >= AWAY_MIN) {
            // Signs of life may wait to be read, and clients may have to connect again. A dead worker stays dead.
            tracing::warn!(away_ms = away / 1_000_000, "the server was away; workers get that time on top");
            workers.leases.excuse(away);
        }
        let due = workers.leases.due(now);
        due.lost.into_iter().for_each(|lost| workers.give_to_others(lost));
        for (namespace, orphan) in due.orphans {
            count(&workers.runs.metrics.orphans_found);
            let attempt =
                LostWork::Attempt { scheduled_event_id: orphan.scheduled_event_id, started_time: orphan.started_time };
            let workers = workers.clone();
            let why = "it was handed the activity and never said that it has it";
            tokio::spawn(async move { workers.move_attempts(namespace, RunKey(orphan.run_key), attempt, why).await });
        }
        if due.is_more {
            // The next slice is late already.
            planned = None;
            tokio::task::yield_now().await;
            continue;
        }
        planned = due.next;
        let earlier = workers.leases.earlier.notified();
        match due.next {
            Some(at) => {
                let _ = tokio::time::timeout(until(workers.runs.clock.monotonic(), at), earlier).await;
            }
            None => earlier.await,
        }
    }
}
