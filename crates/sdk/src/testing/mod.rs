//! Tests of workflows and tasks without a server.

pub(crate) mod attempts;
pub(crate) mod plan;
pub(crate) mod server;
pub(crate) mod simulation;
pub(crate) mod thread;
mod workflow_test;

pub use workflow_test::{TestRun, WorkflowTest};
