//! Nexus: workers poll for requests to their handlers, and answer them; operators create endpoints; clients start
//! operations without a workflow.

mod answers;
mod commands;
pub(crate) mod describe;
mod endpoints;
mod polls;
mod standalone;
mod standalone_view;
mod system_operations;

pub(crate) use system_operations::SystemCalls;
