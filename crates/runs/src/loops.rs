//! Starts the runs of a node: the initial reads, and the background loops.

use std::sync::Arc;

use crate::{
    deployments::{pins, retention as deployment_retention},
    error::CallError,
    namespaces::retention,
    outbox,
    runs::Runs,
    wakes,
};

/// Reads what is in memory as a whole: scripts, worker deployments and batches. The parts above are there by now.
pub async fn load_documents(runs: &Arc<Runs>) -> Result<(), CallError> {
    runs.turns.clone().load(runs).await?;
    runs.load_deployments().await?;
    runs.load_batches().await?;
    runs.list_older_runs().await?;
    Ok(())
}

/// Starts the loops that work on runs until the node stops.
pub fn start_loops(runs: &Arc<Runs>) {
    runs.supervise("the delivery of messages", outbox::run(runs.clone()));
    runs.supervise("the timer loop", wakes::run(runs.clone()));
    runs.supervise("the notes of drainage", pins::run(runs.clone()));
    if let Some(retention) = runs.deployment_limits.retention {
        runs.supervise("the removal of unused versions", deployment_retention::apply(runs.clone(), retention));
    }
    // A caller that skips a month still wants to look at what ended before.
    if runs.clock.skipping().is_none() {
        runs.supervise("the deletion of expired runs", retention::apply(runs.clone()));
    }
    runs.resume_deletions();
}
