//! What runs and their tasks need of HTTP: requests to handlers at a URL, and callbacks to a URL.

use std::sync::{Arc, OnceLock, Weak};

use segno_engine::{nexus::RequestRef, outbox::OutboxMessage};
use segno_store::{NamespaceKey, OutboxRow, RunKey};

use crate::endpoints::Endpoint;

/// A callback that is due, and goes to a URL.
#[derive(Clone, Debug)]
pub struct DueCallback {
    /// The namespace of its run.
    pub namespace: NamespaceKey,
    /// The message that it is, as stored.
    pub row: OutboxRow,
    /// The same, decoded.
    pub message: OutboxMessage,
    /// Its number among the callbacks of its run.
    pub index: u32,
    /// Where it goes.
    pub url: String,
}

/// The part that sends requests over HTTP. It waits for nothing: each request takes its turn.
pub trait HttpSender: Send + Sync + 'static {
    /// Sends the open request of an operation to the URL of its endpoint. The answer becomes a call on the run.
    fn send_request(&self, namespace: NamespaceKey, run: RunKey, request: RequestRef, endpoint: &Endpoint);

    /// Sends the report of a callback. The answer becomes a call of [`Runs::callback_answered`](crate::Runs::callback_answered).
    fn send_callback(&self, callback: DueCallback);
}

/// The part that sends requests, set once when the node starts. It holds the runs, so that these hold it weakly.
#[derive(Default)]
pub struct HttpSenderPort(OnceLock<Weak<dyn HttpSender>>);

impl HttpSenderPort {
    /// Sets the part that sends requests.
    pub fn set(&self, sender: Weak<dyn HttpSender>) {
        let set = self.0.set(sender);
        debug_assert!(set.is_ok(), "it is set once");
    }

    /// The part that sends requests; `None` once the node is gone.
    pub fn get(&self) -> Option<Arc<dyn HttpSender>> {
        self.0.get()?.upgrade()
    }
}
