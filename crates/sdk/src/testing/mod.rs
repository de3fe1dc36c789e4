//! Tests of workflows and tasks without a server.

pub(crate) mod attempts;
pub(crate) mod plan;
mod process;
#[cfg(test)]
mod replay_tests;
pub(crate) mod server;
pub(crate) mod simulation;
mod task;
pub(crate) mod thread;
mod workflow_test;

pub use process::{TestServer, TestServerBuilder};
pub use task::TaskTest;
pub use workflow_test::{TestRun, WorkflowTest};

/// Takes a rule out of the executor on this thread, to prove that a test needs it. `None` puts all back.
#[cfg(feature = "sabotage")]
#[doc(hidden)]
pub fn sabotage(name: Option<&str>) {
    crate::workflow::sabotage::set(name.and_then(crate::workflow::sabotage::named));
}
