//! Checks of requests at the edge, before anything is looked up: one function for each RPC, by topic.
//!
//! Each does what Temporal's frontend does, in its order and with its texts, and writes into the request the defaults
//! that Temporal would. Size limits that Temporal checks one service further in are checked here as well, last.
//! Not here: whether the namespace exists, what is in a task token, how long the caller is willing to wait.

pub mod activity;
pub mod activity_operations;
pub mod batch;
pub mod endpoint;
pub mod links;
pub mod multi_operation;
pub mod namespace;
pub mod options;
pub mod pausing;
pub mod queue_config;
pub mod schedule;
pub mod size;
pub mod standalone;
pub mod standalone_nexus;
pub mod start;
pub mod update;
pub mod worker;
pub mod workflow;

use segno_engine::validate::{ID_LENGTH_MAX, Invalid, is_uuid};
use segno_proto::common::WorkflowExecution;

/// The gRPC status codes with which a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    /// The request itself is wrong.
    InvalidArgument,
    /// The request asks for a feature that this server does not have.
    Unimplemented,
}

/// A request that was refused: the status to answer with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestError {
    /// gRPC status code.
    pub code: Code,
    /// Text of the status.
    pub text: String,
}

impl RequestError {
    /// The request itself is wrong.
    pub fn invalid(text: impl Into<String>) -> RequestError {
        RequestError { code: Code::InvalidArgument, text: text.into() }
    }

    /// The request asks for a feature that this server does not have.
    pub fn unimplemented(text: impl Into<String>) -> RequestError {
        RequestError { code: Code::Unimplemented, text: text.into() }
    }
}

impl From<Invalid> for RequestError {
    fn from(invalid: Invalid) -> RequestError {
        RequestError::invalid(invalid.0)
    }
}

impl std::fmt::Display for RequestError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for RequestError {}

/// A workflow execution must have a workflow id; the run id may be left out.
pub fn execution(execution: Option<&WorkflowExecution>) -> Result<(), RequestError> {
    let Some(execution) = execution else { return Err(RequestError::invalid("Execution is not set on request.")) };
    if execution.workflow_id.is_empty() {
        return Err(RequestError::invalid("WorkflowId is not set on request."));
    }
    if !execution.run_id.is_empty() && !is_uuid(&execution.run_id) {
        return Err(RequestError::invalid("Invalid RunId."));
    }
    Ok(())
}

fn identity(identity: &str) -> Result<(), RequestError> {
    at_most(identity, "Identity length exceeds limit.")
}

fn at_most(id: &str, text: &str) -> Result<(), RequestError> {
    if id.len() > ID_LENGTH_MAX { Err(RequestError::invalid(text)) } else { Ok(()) }
}

#[cfg(test)]
mod tests;
