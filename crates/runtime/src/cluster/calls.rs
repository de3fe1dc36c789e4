//! Calls of clients that another node makes, because they are about something that is there.

use std::{pin::Pin, sync::Arc, time::Duration};

use bytes::Bytes;
use segno_engine::activity::Sdk;
use segno_store::cluster::NodeId;
use tokio::time::Instant;

use super::{
    Cluster,
    link::AskError,
    wire::{Called, ClientCall, Question, Reply, Task},
};
use crate::{dispatch::Delivery, runs::Runs, workers::ConnectionId};

/// How long an answer may take that a client waits for without a deadline of its own.
const ANSWER_MAX: Duration = Duration::from_secs(75);
/// Deadlines of the other node end before those of this one.
const MARGIN: Duration = Duration::from_millis(100);

/// The task that a poll gets, chosen by another node.
#[derive(Clone, Debug)]
pub struct RemoteTask(pub(crate) Task);

/// A call that comes from another node.
#[derive(Clone, Debug)]
pub struct ForwardedCall {
    /// Its method.
    pub path: String,
    /// Its message.
    pub body: Bytes,
    /// How long the client waits.
    pub timeout: Option<Duration>,
    /// The client's connection.
    pub connection: Option<ConnectionId>,
    /// Whether it is one of people's tools.
    pub is_tool: bool,
    /// The client's SDK.
    pub sdk: Sdk,
    /// The task that it gets, if it is a poll.
    pub task: Option<RemoteTask>,
}

/// What a call came to.
#[derive(Debug)]
pub struct Forwarded {
    /// 0 if it succeeded, else the number of its status.
    pub code: i32,
    /// What is wrong.
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
    /// What it is about is not there: nothing was done.
    Moved,
    /// Whether it was done is unknown.
    Unknown,
}

/// Makes calls that come from other nodes.
pub trait ClientCalls: Send + Sync + 'static {
    /// Makes a call as if it came from a client.
    fn call(&self, call: ForwardedCall) -> Pin<Box<dyn Future<Output = Forwarded> + Send + '_>>;
}

impl Cluster {
    /// Says who makes the calls that come from other nodes.
    pub fn serve_calls(&self, calls: Arc<dyn ClientCalls>) {
        let _ = self.client_calls.set(calls);
    }

    pub(super) async fn make_call(&self, call: ClientCall) -> (Reply, Option<Delivery>) {
        let Some(calls) = self.client_calls.get() else { return (Reply::Moved(Default::default()), None) };
        let call = ForwardedCall {
            path: call.path,
            body: call.body,
            timeout: (call.timeout_ms > 0).then(|| Duration::from_millis(call.timeout_ms)),
            connection: (call.connection > 0).then_some(ConnectionId(call.connection)),
            is_tool: call.is_tool,
            sdk: Sdk { name: call.client_name, version: call.client_version },
            task: call.task.map(RemoteTask),
        };
        let Forwarded { code, message, details, body, delivery, moved } = calls.call(call).await;
        if moved {
            return (Reply::Moved(Default::default()), None);
        }
        (Reply::Called(Called { code, message, details, body }), delivery)
    }

    /// Lets another node make a call.
    pub async fn forward(
        &self,
        to: NodeId,
        call: ForwardedCall,
        deadline: Option<Instant>,
    ) -> Result<Forwarded, ForwardError> {
        self.forward_held(to, call, deadline, false).await
    }

    /// The same. That what the answer carries has arrived may be told later if `lazy`.
    pub(super) async fn forward_held(
        &self,
        to: NodeId,
        call: ForwardedCall,
        deadline: Option<Instant>,
        lazy: bool,
    ) -> Result<Forwarded, ForwardError> {
        let deadline = deadline.unwrap_or_else(|| Instant::now() + ANSWER_MAX);
        let left = deadline.saturating_duration_since(Instant::now()).saturating_sub(MARGIN);
        let timeout = call.timeout.map(|timeout| timeout.min(left).max(Duration::from_millis(1)));
        let question = Question::Call(ClientCall {
            path: call.path,
            body: call.body,
            timeout_ms: timeout.map_or(0, |timeout| timeout.as_millis() as u64),
            connection: call.connection.map_or(0, |connection| connection.0),
            is_tool: call.is_tool,
            client_name: call.sdk.name,
            client_version: call.sdk.version,
            task: call.task.map(|task| task.0),
        });
        match self.ask(to, question, deadline).await {
            Ok(answered) => match answered.reply {
                Reply::Called(Called { code, message, details, body }) => {
                    let held = answered.held.map(|held| if lazy { held.lazily() } else { held });
                    let delivery = held.map(Delivery::elsewhere);
                    Ok(Forwarded { code, message, details, body, delivery, moved: false })
                }
                Reply::Moved(_) => Err(ForwardError::Moved),
                _ => Err(ForwardError::Unknown),
            },
            Err(AskError::NotSent) => Err(ForwardError::NotSent),
            Err(AskError::Broken | AskError::TimedOut) => Err(ForwardError::Unknown),
        }
    }

    /// Lets all other nodes make a call that is for everybody; waits for none of them.
    pub fn forward_to_all(&self, me: &Arc<Runs>, call: &ForwardedCall) {
        for link in self.peers() {
            let (node, call) = (me.clone(), call.clone());
            let to = link.node;
            tokio::spawn(async move {
                let deadline = Instant::now() + Duration::from_secs(5);
                if let Some(cluster) = node.cluster() {
                    let _ = cluster.forward(to, call, Some(deadline)).await;
                }
            });
        }
    }
}
