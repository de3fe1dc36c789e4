//! Workflows, workers and clients for the runtime's tests: they talk to a node as a server would for SDKs, repeat what
//! failed with the same request ids, and never give up.

#![allow(dead_code, deprecated)]

pub mod check;
#[path = "../../../../runs/tests/runs/common/clock.rs"]
mod clock;
#[path = "../../../../runs/tests/runs/common/gate.rs"]
pub mod gate;
#[path = "../../../../runs/tests/runs/common/stored.rs"]
pub mod stored;
pub mod story;
pub mod updates;
pub mod worker;

use std::{sync::Arc, time::Duration};

pub use clock::JumpingClock;
use segno_node::{CallError, Environment, Node, NodeOptions};
use segno_store::{
    MemoryStore, Store,
    fault::{FaultPlan, FaultStore},
};
use tokio::sync::watch;

/// A place where a node runs: it may die and be started again on the same storage.
#[derive(Clone)]
pub struct Place {
    pub memory: Arc<MemoryStore>,
    pub clock: Arc<JumpingClock>,
    /// The node that runs now.
    pub node: watch::Sender<Option<Arc<Node>>>,
}

impl Place {
    pub fn new() -> Self {
        Self { memory: Arc::default(), clock: Arc::default(), node: watch::channel(None).0 }
    }

    /// Starts a node whose store fails as planned, again until it starts.
    pub async fn start(&self, plan: &FaultPlan) -> Arc<Node> {
        let store: Arc<dyn Store> = Arc::new(FaultStore::new(self.memory.clone(), plan.clone()));
        loop {
            match Node::start(store.clone(), Environment::with_clock(self.clock.clone()), NodeOptions::default()).await
            {
                Ok(node) => {
                    self.node.send_replace(Some(node.clone()));
                    return node;
                }
                Err(_) => tokio::time::sleep(Duration::from_millis(2)).await,
            }
        }
    }

    /// The node that runs now.
    pub fn current(&self) -> Option<Arc<Node>> {
        self.node.borrow().clone()
    }
}

/// Whether an SDK would repeat the call.
pub fn worth_repeating(error: &CallError) -> bool {
    use CallError::{OutcomeUnknown, ShuttingDown, StorageFull, Unavailable};
    matches!(error, Unavailable(_) | OutcomeUnknown(_) | StorageFull(_) | ShuttingDown)
}
