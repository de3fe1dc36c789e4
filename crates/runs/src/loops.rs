//! Starts the runs of a node: the initial reads, and the background loops.

use std::sync::Arc;

use crate::{deployments::drainage, error::CallError, outbox, runs::Runs, wakes};

/// Reads what is in memory as a whole: scripts and worker deployments. The parts above are there by now.
pub async fn load_documents(runs: &Arc<Runs>) -> Result<(), CallError> {
    runs.scripts.clone().load(runs).await?;
    runs.load_deployments().await?;
    runs.list_older_runs().await?;
    Ok(())
}

/// Starts the loops that work on runs until the node stops.
pub fn start_loops(runs: &Arc<Runs>) {
    runs.lifecycle.supervise("the delivery of messages", outbox::run(runs.clone()));
    runs.lifecycle.supervise("the timer loop", wakes::run(runs.clone()));
    // With a clock that skips, a caller can still read what closed a month of skipped time ago.
    if runs.skipping_clock().is_none() {
        runs.lifecycle.supervise("the drainage of versions of workers", drainage::watch(runs.clone()));
    }
}
