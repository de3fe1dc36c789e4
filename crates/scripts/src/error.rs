//! Errors of calls about scripts.

use segno_engine::Run;
use segno_flow::diagnostic::Diagnostic;
use segno_runs::error::CallError;

/// Why a call about scripts failed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ScriptError {
    /// The source has errors.
    #[error("the source has errors")]
    Source(Vec<Diagnostic>),
    /// A name or version that does not exist.
    #[error("{0}")]
    NotFound(String),
    /// Not possible as things are.
    #[error("{0}")]
    Precondition(String),
    /// A bad argument.
    #[error("{0}")]
    Argument(String),
    /// Anything else.
    #[error(transparent)]
    Call(#[from] CallError),
}

/// The error for a run whose stored data cannot be used.
pub(super) fn damaged(run: &Run, why: &str) -> CallError {
    CallError::DataLoss(format!("run {}: {why}", run.info.run_key))
}
