//! The context of a running task: heartbeats, cancellation, information.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use serde::{Serialize, de::DeserializeOwned};

use super::{
    cancel::{CancelReason, Cancellation},
    heartbeat::Heartbeats,
    info::TaskInfo,
};
use crate::{
    converter,
    failure::{Error, Failure, Result},
};

/// The kind of the error that stands for "no answer now". Only together with the context's own flag does it mean that.
const COMPLETE_LATER: &str = "CompleteLater";

/// The context of a running task: heartbeats, cancellation, information. Cheap to clone; all clones belong to one attempt.
#[derive(Clone)]
pub struct TaskContext(Arc<Inner>);

struct Inner {
    info: TaskInfo,
    cancellation: Arc<Cancellation>,
    heartbeats: Heartbeats,
    later: AtomicBool,
}

impl TaskContext {
    pub(crate) fn new(info: TaskInfo, cancellation: Arc<Cancellation>, heartbeats: Heartbeats) -> Self {
        Self(Arc::new(Inner { info, cancellation, heartbeats, later: AtomicBool::new(false) }))
    }

    /// The context of a local task: its heartbeats go nowhere.
    pub(crate) fn local(mut info: TaskInfo) -> Self {
        info.is_local = true;
        let cancellation = Arc::new(Cancellation::default());
        let heartbeats = Heartbeats::unsent(cancellation.clone());
        Self::new(info, cancellation, heartbeats)
    }

    /// Information about this attempt.
    pub fn info(&self) -> &TaskInfo {
        &self.0.info
    }

    /// The details of the last heartbeat of the attempt before. `None` if there was none, or if they are no `T`.
    pub fn heartbeat_details<T: DeserializeOwned>(&self) -> Option<T> {
        self.0.info.heartbeat_details()
    }

    /// Says that the task is alive and how far it is. The next attempt finds the last details in
    /// [`heartbeat_details`](Self::heartbeat_details).
    ///
    /// Call it as often as you like: the first call is sent at once, further ones once per four fifths of the
    /// heartbeat time-out. The future yields only if its runtime asks for it. Once the task is cancelled this
    /// is `Err`, with a failure that is [cancelled](Failure::is_cancelled): `?` ends the task.
    pub fn heartbeat<T: Serialize>(&self, details: T) -> impl Future<Output = Result<()>> + Send + 'static {
        // Encoded here, so that the future borrows nothing and `details` need not be `Send`.
        let told = self.heartbeat_blocking(details);
        async move {
            // Without this a loop that does nothing else would never let the heartbeat itself be sent.
            tokio::task::consume_budget().await;
            told
        }
    }

    /// The same for tasks that are not `async`. It does not wait for the server.
    pub fn heartbeat_blocking<T: Serialize>(&self, details: T) -> Result<()> {
        let details = converter::encode_json(&details)?;
        self.0.heartbeats.beat(vec![details]);
        match self.is_cancelled() {
            true => Err(Failure::cancelled().into()),
            false => Ok(()),
        }
    }

    /// Whether the task is cancelled. The server says so in answers to heartbeats.
    pub fn is_cancelled(&self) -> bool {
        self.cancel_reason().is_some()
    }

    /// Why the task is cancelled.
    pub fn cancel_reason(&self) -> Option<CancelReason> {
        self.0.cancellation.reason()
    }

    /// Waits until the task is cancelled.
    pub fn cancelled(&self) -> impl Future<Output = ()> + Send + 'static {
        let cancellation = self.0.cancellation.clone();
        async move { cancellation.wait().await }
    }

    /// `return Err(ctx.complete_later());` ends the function and not the task: a client reports its outcome later
    /// that has its [token](TaskInfo::token) or its ids, with [`Client::task_by_token`](crate::Client::task_by_token)
    /// or [`Client::task_by_id`](crate::Client::task_by_id).
    ///
    /// The time-outs go on. A local task cannot do this; for it this is a failure. A server that keeps leases, as Segno
    /// does, counts the task as this worker's until it is completed: if the worker ends before that, there is a further
    /// attempt.
    pub fn complete_later(&self) -> Error {
        if self.0.info.is_local {
            return Failure::application(COMPLETE_LATER, "a local task cannot be completed later")
                .non_retryable()
                .into();
        }
        self.0.later.store(true, Ordering::Release);
        Failure::application(COMPLETE_LATER, "the task is completed later").into()
    }

    /// Whether an attempt that ended with `failure` is completed later.
    pub(crate) fn is_later(&self, failure: &Failure) -> bool {
        self.0.later.load(Ordering::Acquire) && failure.application_kind() == Some(COMPLETE_LATER)
    }

    /// Tells the task to stop.
    pub(crate) fn cancel(&self, reason: CancelReason) {
        self.0.cancellation.tell(reason);
    }

    pub(crate) fn heartbeats(&self) -> &Heartbeats {
        &self.0.heartbeats
    }
}
