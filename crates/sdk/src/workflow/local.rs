//! Work that the workflow's own worker does, outside of the workflow's workflow task: `run`, `run_async`, local tasks.

use std::pin::Pin;

use segno_proto::common::{Header, Payload};

use crate::{failure::Failure, options::LocalOptions};

/// Its outcome.
pub(crate) type LocalOutcome = Result<Vec<Payload>, Failure>;
type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// The work.
pub(crate) enum LocalWork {
    /// A closure, on a thread where it may block.
    Run(Box<dyn FnOnce() -> LocalOutcome + Send>),
    /// A future.
    Async(Box<dyn FnOnce() -> BoxFuture<LocalOutcome> + Send>),
    /// A task that the worker knows.
    Task { kind: String, input: Vec<Payload>, options: LocalOptions, header: Option<Header> },
}

/// Work to begin now.
pub(crate) struct LocalRequest {
    pub id: String,
    pub work: LocalWork,
}

/// The end of one.
pub(crate) struct LocalResult {
    pub id: String,
    pub attempt: u32,
    pub outcome: LocalOutcome,
}
