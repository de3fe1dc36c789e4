//! Starts the runs of a node: the initial reads, and the background loops.

use std::sync::Arc;

use crate::{
    deployments::{pins, retention},
    error::CallError,
    outbox,
    runs::Runs,
    wakes,
};

/// Reads what is in memory as a whole: scripts and worker deployments. The parts above are there by now.
pub async fn load_documents(runs: &Arc<Runs>) -> Result<(), CallError> {
    runs.scripts.clone().load(runs).await?;
    runs.load_deployments().await?;
    runs.load_endpoints().await?;
    runs.list_older_runs().await?;
    Ok(())
}

/// Starts the loops that work on runs until the node stops.
pub fn start_loops(runs: &Arc<Runs>) {
    runs.lifecycle.supervise("the delivery of messages", outbox::run(runs.clone()));
    runs.lifecycle.supervise("the timer loop", wakes::run(runs.clone()));
    runs.lifecycle.supervise("the notes of drainage", pins::run(runs.clone()));
    if let Some(after) = runs.deployment_limits.retention {
        runs.lifecycle.supervise("the removal of unused versions", retention::apply(runs.clone(), after));
    }
}
