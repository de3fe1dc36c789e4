//! Clients: starting workflows and speaking to them.

use crate::failure::Failure;

/// What a call of the client can end with.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The workflow failed.
    #[error("{0}")]
    WorkflowFailed(Failure),
}

impl ClientError {
    /// The failure in it.
    pub fn failure(&self) -> Option<&Failure> {
        match self {
            Self::WorkflowFailed(failure) => Some(failure),
        }
    }
}
