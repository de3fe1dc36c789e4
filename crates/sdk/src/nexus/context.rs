//! [`NexusContext`]: what the handler of a request has.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant, SystemTime},
};

use segno_proto::nexus as wire;

use crate::{
    client::{Client, Queue},
    lock::lock,
    task::{CancelReason, Cancellation},
};

/// The context of a request to start or cancel an operation: client, headers, deadline. Cheap to clone.
#[derive(Clone)]
pub struct NexusContext(Arc<Inner>);

struct Inner {
    info: NexusInfo,
    queue: Queue,
    callback: Callback,
    cancellation: Arc<Cancellation>,
    /// Links of the answer.
    links: Mutex<Vec<NexusLink>>,
    has_workflow: AtomicBool,
}

/// Where the end of an operation is reported.
#[derive(Clone, Debug, Default)]
pub(crate) struct Callback {
    pub url: String,
    pub headers: BTreeMap<String, String>,
}

/// A request.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NexusInfo {
    /// The endpoint that the caller named; empty if the server does not say.
    pub endpoint: String,
    /// The service.
    pub service: String,
    /// The operation.
    pub operation: String,
    /// The same for all attempts to start the operation: what has been done for it need not be done again. Empty for
    /// a request to cancel.
    pub request_id: String,
    /// Headers, with names in lower case.
    pub headers: BTreeMap<String, String>,
    /// The caller's links, such as to the event that scheduled the operation.
    pub links: Vec<NexusLink>,
    /// When the server made the request.
    pub scheduled_time: SystemTime,
    /// When the server gives the request up, and the handler's future is dropped.
    pub deadline: Option<Instant>,
}

/// A link, by which user interfaces lead from a caller to a handler and back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NexusLink {
    /// Its address.
    pub url: String,
    /// The type of what it leads to.
    pub r#type: String,
}

impl NexusLink {
    pub(crate) fn from_wire(link: wire::Link) -> Self {
        Self { url: link.url, r#type: link.r#type }
    }

    pub(crate) fn to_wire(&self) -> wire::Link {
        wire::Link { url: self.url.clone(), r#type: self.r#type.clone() }
    }
}

impl NexusContext {
    pub(crate) fn new(info: NexusInfo, queue: Queue, callback: Callback, cancellation: Arc<Cancellation>) -> Self {
        let (links, has_workflow) = (Mutex::default(), AtomicBool::new(false));
        Self(Arc::new(Inner { info, queue, callback, cancellation, links, has_workflow }))
    }

    /// The request.
    pub fn info(&self) -> &NexusInfo {
        &self.0.info
    }

    /// A header of the request, by its name in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.0.info.headers.get(name).map(String::as_str)
    }

    /// The worker's client.
    pub fn client(&self) -> &Client {
        self.0.queue.client()
    }

    /// The worker's task queue.
    pub fn queue(&self) -> &Queue {
        &self.0.queue
    }

    /// How long the handler has; `None` if the server does not say.
    pub fn time_left(&self) -> Option<Duration> {
        self.0.info.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()))
    }

    /// Adds a link to the answer.
    pub fn add_link(&self, link: NexusLink) {
        lock(&self.0.links).push(link);
    }

    /// Whether the worker shuts down, and its time of grace is over.
    pub fn is_cancelled(&self) -> bool {
        self.0.cancellation.reason().is_some()
    }

    /// Why the handler should stop.
    pub fn cancel_reason(&self) -> Option<CancelReason> {
        self.0.cancellation.reason()
    }

    /// Waits until the handler should stop.
    pub fn cancelled(&self) -> impl Future<Output = ()> + Send + 'static {
        let cancellation = self.0.cancellation.clone();
        async move { cancellation.wait().await }
    }

    pub(crate) fn callback(&self) -> &Callback {
        &self.0.callback
    }

    pub(crate) fn links(&self) -> Vec<wire::Link> {
        lock(&self.0.links).iter().map(NexusLink::to_wire).collect()
    }

    /// False: the operation has a workflow already.
    pub(super) fn take_workflow(&self) -> bool {
        !self.0.has_workflow.swap(true, Ordering::AcqRel)
    }
}
