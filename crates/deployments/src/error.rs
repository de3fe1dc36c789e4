//! Why a call about deployments is refused. The texts are Temporal's.

/// A refused call. Nothing changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeploymentError {
    /// The request itself is wrong.
    #[error("{0}")]
    InvalidArgument(String),
    /// There is no such deployment or version.
    #[error("{0}")]
    NotFound(String),
    /// Another call, or a poll, has created it.
    #[error("{0}")]
    AlreadyExists(String),
    /// Not possible as things are.
    #[error("{0}")]
    FailedPrecondition(String),
    /// A limit of the namespace or of the deployment is reached.
    #[error("{0}")]
    LimitReached(String),
    /// The deployment has as many versions as it may, and none of them can be removed for another one.
    #[error(
        "cannot add version {version} since maximum number of versions ({max}) have been registered in the deployment"
    )]
    VersionsFull {
        /// The version that is refused, written `name.build`.
        version: String,
        /// The limit.
        max: usize,
    },
    /// The node has no deployments.
    #[error("Worker Deployment Versions are disabled on this namespace.")]
    Disabled,
}

impl DeploymentError {
    /// A deployment that calls do not find.
    pub fn unknown_deployment(name: &str) -> Self {
        Self::NotFound(format!(
            "no Worker Deployment found with name '{name}'; does your Worker Deployment have pollers?"
        ))
    }

    /// The same in calls that reach the real server's own workflow.
    pub fn unknown_workflow(name: &str) -> Self {
        Self::NotFound(format!("workflow not found for ID: temporal-sys-worker-deployment:{name}"))
    }
}

pub(crate) fn invalid(text: impl Into<String>) -> DeploymentError {
    DeploymentError::InvalidArgument(text.into())
}

pub(crate) fn precondition(text: impl Into<String>) -> DeploymentError {
    DeploymentError::FailedPrecondition(text.into())
}
