//! Tests of workflows and tasks without a server.

pub(crate) mod attempts;
pub(crate) mod plan;
mod process;
pub(crate) mod server;
pub(crate) mod simulation;
mod task;
pub(crate) mod thread;
mod workflow_test;

pub use process::{TestServer, TestServerBuilder};
pub use task::TaskTest;
pub use workflow_test::{TestRun, WorkflowTest};
