//! Calls of clients that are forwarded to or from another node.

use std::{
    pin::Pin,
    sync::{Arc, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use segno_dispatch::{Delivery, ForwardedCall};
use segno_engine::activity::Sdk;
use segno_environment::connection::ConnectionId;
use segno_store::cluster::NodeId;
use tokio::time::Instant;

use super::{
    Cluster,
    link::RequestError,
    wire::{CallResult, ClientCall, RequestBody, ResponseBody},
};

/// How long a response may take that a client waits for without a deadline of its own.
const RESPONSE_MAX: Duration = Duration::from_secs(75);
/// Deadlines of the other node end before those of this one.
const MARGIN: Duration = Duration::from_millis(100);
/// How long each node may take for a call that all nodes make.
const TO_ALL_MAX: Duration = Duration::from_secs(5);

/// The reply to a forwarded call.
#[derive(Debug)]
pub struct ForwardedReply {
    /// 0 if it succeeded, else the number of its status.
    pub code: i32,
    /// The message of the status.
    pub message: String,
    /// More about what is wrong.
    pub details: Bytes,
    /// The answer, if it succeeded.
    pub body: Bytes,
    /// Gives back what the answer carries unless it is delivered.
    pub delivery: Option<Delivery>,
    /// Nothing was done: what the call is about is elsewhere.
    pub moved: bool,
}

/// Why another node did not answer a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForwardError {
    /// It was not sent: nothing was done.
    NotSent,
    /// The subject of the call is not there: nothing was done.
    Moved,
    /// Whether it was done is unknown.
    Unknown,
}

/// Makes calls that come from other nodes.
pub trait ClientCalls: Send + Sync + 'static {
    /// Makes a call as if it came from a client.
    fn call(&self, call: ForwardedCall) -> Pin<Box<dyn Future<Output = ForwardedReply> + Send + '_>>;
}

impl Cluster {
    /// Sets what makes the calls that come from other nodes.
    pub fn serve_calls(&self, calls: Arc<dyn ClientCalls>) {
        *self.client_calls.write().unwrap_or_else(PoisonError::into_inner) = Some(calls);
    }

    pub(super) async fn make_call(&self, call: ClientCall) -> (ResponseBody, Option<Delivery>) {
        let calls = self.client_calls.read().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(calls) = calls else { return (ResponseBody::Moved(Default::default()), None) };
        let call = ForwardedCall {
            path: call.path,
            body: call.body,
            timeout: (call.timeout_ms > 0).then(|| Duration::from_millis(call.timeout_ms)),
            connection: (call.connection > 0).then_some(ConnectionId(call.connection)),
            is_tool: call.is_tool,
            sdk: Sdk { name: call.client_name, version: call.client_version },
            task: call.task,
        };
        let ForwardedReply { code, message, details, body, delivery, moved } = calls.call(call).await;
        if moved {
            return (ResponseBody::Moved(Default::default()), None);
        }
        (ResponseBody::CallResult(CallResult { code, message, details, body }), delivery)
    }

    /// Lets another node make a call.
    pub async fn forward(
        &self,
        to: NodeId,
        call: ForwardedCall,
        deadline: Option<Instant>,
    ) -> Result<ForwardedReply, ForwardError> {
        self.forward_held(to, call, deadline, false).await
    }

    /// The same. With `lazy` the other node may hear later that the client has the response.
    pub(super) async fn forward_held(
        &self,
        to: NodeId,
        call: ForwardedCall,
        deadline: Option<Instant>,
        lazy: bool,
    ) -> Result<ForwardedReply, ForwardError> {
        let deadline = deadline.unwrap_or_else(|| Instant::now() + RESPONSE_MAX);
        let left = deadline.saturating_duration_since(Instant::now()).saturating_sub(MARGIN);
        let timeout = call.timeout.map(|timeout| timeout.min(left).max(Duration::from_millis(1)));
        let request = RequestBody::Call(ClientCall {
            path: call.path,
            body: call.body,
            timeout_ms: timeout.map_or(0, |timeout| timeout.as_millis() as u64),
            connection: call.connection.map_or(0, |connection| connection.0),
            is_tool: call.is_tool,
            client_name: call.sdk.name,
            client_version: call.sdk.version,
            task: call.task,
        });
        match self.peers.request(to, request, deadline).await {
            Ok(response) => match response.body {
                ResponseBody::CallResult(CallResult { code, message, details, body }) => {
                    let held = response.held.map(|held| if lazy { held.lazily() } else { held });
                    let delivery = held.map(|held| Delivery::remote(Box::new(held)));
                    Ok(ForwardedReply { code, message, details, body, delivery, moved: false })
                }
                ResponseBody::Moved(_) => Err(ForwardError::Moved),
                _ => Err(ForwardError::Unknown),
            },
            Err(RequestError::NotSent) => Err(ForwardError::NotSent),
            Err(RequestError::Broken | RequestError::TimedOut) => Err(ForwardError::Unknown),
        }
    }

    /// Lets all other nodes make a call, without waiting for them.
    pub fn forward_to_all(self: &Arc<Self>, call: &ForwardedCall) {
        for to in self.peers.nodes() {
            let (cluster, call) = (self.clone(), call.clone());
            tokio::spawn(async move {
                let deadline = Instant::now() + TO_ALL_MAX;
                let _ = cluster.forward(to, call, Some(deadline)).await;
            });
        }
    }
}
