//! The life of a worker: it registers, serves, announces its shutdown, and finishes its tasks.

use std::{sync::Arc, time::Duration};

use segno_proto::{enums::WorkerStatus, workflowservice::DescribeNamespaceRequest};
use tokio::{sync::watch, task::JoinSet, time::Instant};

use super::{
    commands,
    lease::Lease,
    nexus,
    report::{self, SHUTDOWN_CALL_LIMIT, announce_shutdown},
    shared::{Phase, Shared},
    tasks, workflows,
};
use crate::{client::ClientError, task::CancelReason};

/// How long answers may take after everything was cancelled.
const LAST_ANSWERS: Duration = Duration::from_secs(10);

/// Ends everything if the worker is dropped before it ended by itself.
struct PhaseGuard(Arc<Shared>);

impl Drop for PhaseGuard {
    fn drop(&mut self) {
        self.0.phase.send_replace(Phase::Dropped);
    }
}

/// Serves until `shutdown`, then finishes.
pub(super) async fn serve(shared: Arc<Shared>, mut shutdown: watch::Receiver<bool>) -> Result<(), ClientError> {
    let life = PhaseGuard(shared.clone());
    let lease = tokio::select! {
        biased;
        // Nothing was taken yet, so that there is nothing to finish.
        Ok(_) = shutdown.wait_for(|shutdown| *shutdown) => return Ok(()),
        lease = prepare(&shared) => lease?,
    };
    tracing::info!(
        queue = %shared.queue, identity = %shared.identity, instance = shared.instance_key(), leased = lease.is_some(),
        "a worker serves"
    );

    // `presence` goes on until the end, `polls` end first. Tasks end when their set is dropped.
    let (end, ended) = watch::channel(false);
    let mut presence = JoinSet::new();
    let leased = lease.is_some();
    if let Some(lease) = lease {
        presence.spawn(lease.keep(ended.clone()));
    }
    if shared.capabilities().worker_heartbeats {
        presence.spawn(report::run(shared.clone(), ended.clone()));
    }
    if shared.capabilities().worker_commands && !shared.tasks.is_empty() {
        presence.spawn(commands::run(shared.clone(), ended));
    }
    let (stop, stopped) = watch::channel(false);
    let mut polls = JoinSet::new();
    if !shared.tasks.is_empty() {
        polls.spawn(tasks::run(shared.clone(), stopped.clone()));
    }
    if !shared.workflows.is_empty() {
        polls.spawn(workflows::run(shared.clone(), shared.poll_stop(stopped.clone())));
    }
    if !shared.nexus.is_empty() {
        polls.spawn(nexus::run(shared.clone(), stopped));
    }

    // A handle that is gone cannot be used: then only the caller ends the worker, by dropping it.
    if shutdown.wait_for(|shutdown| *shutdown).await.is_err() {
        std::future::pending::<()>().await;
    }
    tracing::info!(queue = %shared.queue, running = running(&shared), "a worker shuts down");
    stop.send_replace(true);
    announce_shutdown(&shared).await;
    finish(&shared, polls).await;
    end.send_replace(true);
    while presence.join_next().await.is_some() {}
    if leased && shared.capabilities().worker_heartbeats {
        report::send(&shared, WorkerStatus::Shutdown).await;
    }
    drop(life);
    Ok(())
}

/// Asks what the server can do, and registers the worker if it keeps leases.
async fn prepare(shared: &Arc<Shared>) -> Result<Option<Lease>, ClientError> {
    let request = DescribeNamespaceRequest { namespace: shared.client.namespace().to_owned(), ..Default::default() };
    let answer = shared
        .client
        .call(|mut service| {
            let request = request.clone();
            async move { service.describe_namespace(request).await }
        })
        .await?;
    let info = answer.namespace_info.unwrap_or_default();
    shared.set_capabilities(info.capabilities.unwrap_or_default(), &info.limits.unwrap_or_default());
    Lease::register(shared).await
}

/// Waits for what runs: first as long as it takes, within the time of grace; then tasks are cancelled, then dropped.
async fn finish(shared: &Shared, mut polls: JoinSet<()>) {
    let options = &shared.options;
    let grace_ends = Instant::now() + options.shutdown_grace;
    let polls_ended = async move {
        while let Some(ended) = polls.join_next().await {
            if let Err(error) = ended {
                tracing::error!(%error, "a part of the worker ended badly");
            }
        }
    };
    // Polls first: they may still bring tasks.
    let drain_timeout = options.shutdown_grace + options.shutdown_force;
    let _ = tokio::time::timeout(drain_timeout.max(SHUTDOWN_CALL_LIMIT), polls_ended).await;
    if drained(shared, grace_ends.saturating_duration_since(Instant::now())).await {
        return;
    }
    tracing::info!(running = running(shared), "tasks are told to stop");
    shared.running.cancel_all(CancelReason::WorkerShutdown);
    shared.nexus_running.cancel_all(CancelReason::WorkerShutdown);
    if drained(shared, options.shutdown_force).await {
        return;
    }
    tracing::warn!(running = running(shared), "tasks did not stop in time");
    shared.phase.send_replace(Phase::Forced);
    if !drained(shared, LAST_ANSWERS).await {
        tracing::error!(running = running(shared), "tasks could not be answered");
    }
}

/// Tasks and Nexus requests that are under way.
fn running(shared: &Shared) -> usize {
    shared.running.count() + shared.nexus_running.count()
}

/// Waits until there is none. False: that took too long.
async fn drained(shared: &Shared, time_max: Duration) -> bool {
    let (tasks, requests) = tokio::join!(shared.running.drained(time_max), shared.nexus_running.drained(time_max));
    tasks && requests
}
