//! The messages between nodes: frames on a connection, each a length and a protobuf message.
//!
//! Fields are only added, and a request that a node does not know is answered as unsupported, so that two versions can talk.

use std::collections::BTreeMap;

use bytes::Bytes;
use segno_matching::{PollerVersion, RemoteRoute, RemoteTask};
use segno_runs::ports::queue_use::QueueUse;

/// The version of this protocol.
pub const PROTOCOL: u32 = 1;

/// Frames that are written together.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Frames {
    #[prost(message, repeated, tag = "1")]
    pub frames: Vec<Frame>,
}

/// One message between nodes.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Frame {
    /// Names a request, for its response and what follows that. Chosen by the requester.
    #[prost(uint64, tag = "1")]
    pub id: u64,
    #[prost(oneof = "FrameBody", tags = "2, 3, 4, 5, 6, 7, 8, 9")]
    pub body: Option<FrameBody>,
}

/// The content of a frame.
#[derive(Clone, PartialEq, prost::Oneof)]
pub(crate) enum FrameBody {
    /// The first frame in each direction.
    #[prost(message, tag = "2")]
    Hello(Hello),
    #[prost(message, tag = "3")]
    Request(Request),
    #[prost(message, tag = "4")]
    Response(Response),
    /// The task that a response carried reached its worker.
    #[prost(message, tag = "5")]
    Delivered(Empty),
    /// The requester does not wait for the response, or the task that it carried did not reach its worker.
    #[prost(message, tag = "6")]
    Cancel(Empty),
    /// News, which has no response.
    #[prost(message, tag = "7")]
    Notification(Notification),
    #[prost(message, tag = "8")]
    Ping(Empty),
    #[prost(message, tag = "9")]
    Pong(Empty),
}

#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Empty {}

/// The node that sends it, and the proof that it is one of the cluster: both sides send a challenge, and a digest of the other's
/// challenge under the secret that the database keeps.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Hello {
    #[prost(uint64, tag = "1")]
    pub node: u64,
    #[prost(uint32, tag = "2")]
    pub protocol: u32,
    #[prost(fixed64, tag = "3")]
    pub challenge: u64,
    #[prost(fixed64, tag = "4")]
    pub proof: u64,
    /// The node that the sender means to talk to; 0 if it does not know.
    #[prost(uint64, tag = "5")]
    pub to: u64,
}

/// A request to another node.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Request {
    #[prost(oneof = "RequestBody", tags = "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11")]
    pub body: Option<RequestBody>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub(crate) enum RequestBody {
    /// A client's call, for the node that it is about.
    #[prost(message, tag = "1")]
    Call(ClientCall),
    /// A worker wants a task.
    #[prost(message, tag = "2")]
    Take(Take),
    /// A task wants a worker.
    #[prost(message, tag = "3")]
    Offer(Offer),
    /// A message between runs, for the owner of its receiver.
    #[prost(message, tag = "4")]
    Deliver(DeliverMessage),
    /// Namespaces or scripts have changed: read them again.
    #[prost(message, tag = "5")]
    Reload(Empty),
    /// A queue forgot tasks and has room for them again.
    #[prost(message, tag = "6")]
    OfferAgain(Queue),
    /// A run is to be deleted.
    #[prost(message, tag = "7")]
    Delete(DeleteRun),
    /// A worker of a version polls a queue for the first time.
    #[prost(message, tag = "8")]
    RegisterPoller(VersionQueue),
    /// How workers of a version use a queue.
    #[prost(message, tag = "9")]
    QueueUse(VersionQueue),
    /// When workflows were pinned to versions of a deployment, and no longer were.
    #[prost(message, tag = "10")]
    ReportPins(PinReport),
    /// Runs wait for a version of workers that no worker has.
    #[prost(message, tag = "11")]
    NoteWaits(VersionWaits),
}

/// The response to a request.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Response {
    /// Whether a task on its way to a worker is held until `Delivered`.
    #[prost(bool, tag = "1")]
    pub held: bool,
    #[prost(oneof = "ResponseBody", tags = "2, 3, 4, 5, 6, 7, 8, 9, 10")]
    pub body: Option<ResponseBody>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub(crate) enum ResponseBody {
    /// Done; there is no result.
    #[prost(message, tag = "2")]
    Done(Empty),
    /// This is for another node; nothing was done.
    #[prost(message, tag = "3")]
    Moved(Empty),
    /// It failed, and may be tried again.
    #[prost(string, tag = "4")]
    Failed(String),
    /// The result of a client's call.
    #[prost(message, tag = "5")]
    CallResult(CallResult),
    /// A task.
    #[prost(message, tag = "6")]
    Task(Offer),
    /// No worker serves the queue, which is one worker's own.
    #[prost(message, tag = "7")]
    Unserved(Empty),
    /// The outcome of a message at its receiver.
    #[prost(message, tag = "8")]
    Outcome(DeliveryOutcome),
    /// A limit of worker deployments is reached.
    #[prost(string, tag = "9")]
    LimitReached(String),
    /// How workers of a version use a queue.
    #[prost(message, tag = "10")]
    QueueUse(QueueUse),
}

/// A call of a client that another node makes.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ClientCall {
    #[prost(string, tag = "1")]
    pub path: String,
    #[prost(bytes = "bytes", tag = "2")]
    pub body: Bytes,
    /// How long the client waits; 0 if it did not say.
    #[prost(uint64, tag = "3")]
    pub timeout_ms: u64,
    /// The client's connection; 0 if there is none.
    #[prost(uint64, tag = "4")]
    pub connection: u64,
    /// The client is a tool, not a worker.
    #[prost(bool, tag = "5")]
    pub is_tool: bool,
    /// The call is a poll, and this is the task that it gets.
    #[prost(message, optional, tag = "6")]
    pub task: Option<RemoteTask>,
    /// The client's SDK, as it names itself.
    #[prost(string, tag = "7")]
    pub client_name: String,
    /// The SDK's version.
    #[prost(string, tag = "8")]
    pub client_version: String,
}

/// The result of a call.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct CallResult {
    #[prost(int32, tag = "1")]
    pub code: i32,
    #[prost(string, tag = "2")]
    pub message: String,
    #[prost(bytes = "bytes", tag = "3")]
    pub details: Bytes,
    #[prost(bytes = "bytes", tag = "4")]
    pub body: Bytes,
}

/// A queue.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Queue {
    #[prost(uint32, tag = "1")]
    pub namespace: u32,
    #[prost(uint32, tag = "2")]
    pub kind: u32,
    #[prost(string, tag = "3")]
    pub name: String,
}

/// A poll that waits at the queue's home.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Take {
    #[prost(message, required, tag = "1")]
    pub queue: Queue,
    #[prost(string, tag = "2")]
    pub identity: String,
    #[prost(string, tag = "3")]
    pub worker: String,
    #[prost(bool, tag = "4")]
    pub sticky: bool,
    #[prost(uint64, tag = "5")]
    pub wait_ms: u64,
    /// How many tasks a second the worker wants at most.
    #[prost(double, optional, tag = "6")]
    pub tasks_per_second: Option<f64>,
    /// The version of the worker.
    #[prost(message, optional, tag = "7")]
    pub version: Option<PollerVersion>,
}

/// A task for a queue.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Offer {
    #[prost(message, required, tag = "1")]
    pub queue: Queue,
    #[prost(message, required, tag = "2")]
    pub task: RemoteTask,
    #[prost(int32, tag = "3")]
    pub priority: i32,
    /// The queue is one worker's own: if that is gone, no other worker polls it.
    #[prost(bool, tag = "4")]
    pub sticky: bool,
    /// Tasks of equal priority take turns by this.
    #[prost(string, tag = "5")]
    pub fairness_key: String,
    #[prost(float, tag = "6")]
    pub fairness_weight: f32,
    /// Of a task that a home gives: nothing else waits there, and nothing limits the queue.
    #[prost(bool, tag = "7")]
    pub quiet: bool,
    /// By what its lane is found. Nodes of older versions do not send it; their runs are not pinned.
    #[prost(message, optional, tag = "8")]
    pub route: Option<RemoteRoute>,
}

/// A message between runs.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct DeliverMessage {
    #[prost(uint64, tag = "1")]
    pub sender: u64,
    #[prost(uint32, tag = "2")]
    pub sequence: u32,
    #[prost(bytes = "bytes", tag = "3")]
    pub message: Bytes,
}

/// The outcome of a message at its receiver.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct DeliveryOutcome {
    #[prost(enumeration = "OutcomeKind", tag = "1")]
    pub kind: i32,
    /// Why it failed, as the protocol numbers it.
    #[prost(int32, tag = "2")]
    pub cause: i32,
    /// The run that was started.
    #[prost(string, tag = "3")]
    pub run_id: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub(crate) enum OutcomeKind {
    Unknown = 0,
    /// It arrived.
    Done = 1,
    /// It was rejected; the sender gets the cause.
    Rejected = 2,
    /// It has to wait for another message.
    NotYet = 3,
    /// A child was started.
    Started = 4,
}

/// A run that is to be deleted.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct DeleteRun {
    #[prost(uint32, tag = "1")]
    pub namespace: u32,
    #[prost(string, tag = "2")]
    pub workflow_id: String,
    #[prost(string, tag = "3")]
    pub run_id: String,
}

/// A queue and a version of workers.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct VersionQueue {
    #[prost(uint32, tag = "1")]
    pub namespace: u32,
    #[prost(string, tag = "2")]
    pub deployment: String,
    #[prost(string, tag = "3")]
    pub build: String,
    #[prost(string, tag = "4")]
    pub queue: String,
    /// A type of queues, a number of the clients' protocol.
    #[prost(int32, tag = "5")]
    pub kind: i32,
}

/// Runs that wait for a version of workers, for the node that serves them.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct VersionWaits {
    #[prost(string, tag = "1")]
    pub deployment: String,
    #[prost(string, tag = "2")]
    pub build: String,
    #[prost(uint64, repeated, tag = "3")]
    pub runs: Vec<u64>,
}

/// When workflows were pinned to versions of a deployment, for the node that leads.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct PinReport {
    #[prost(uint32, tag = "1")]
    pub namespace: u32,
    #[prost(string, tag = "2")]
    pub deployment: String,
    /// By build id.
    #[prost(btree_map = "string, message", tag = "3")]
    pub times: BTreeMap<String, PinMoments>,
}

/// Times in nanoseconds since the epoch.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub(crate) struct PinMoments {
    #[prost(int64, optional, tag = "1")]
    pub pinned: Option<i64>,
    #[prost(int64, optional, tag = "2")]
    pub unpinned: Option<i64>,
}

/// A one-way message to another node.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Notification {
    #[prost(oneof = "NotificationBody", tags = "1, 2, 3, 4, 5")]
    pub body: Option<NotificationBody>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub(crate) enum NotificationBody {
    /// A worker called or polled.
    #[prost(message, tag = "1")]
    WorkerSighting(WorkerSighting),
    /// A connection of a client is gone.
    #[prost(message, tag = "2")]
    ConnectionClosed(ConnectionClosed),
    /// The map has changed.
    #[prost(message, tag = "3")]
    MapChanged(Empty),
    /// News for the home of a queue: the workers that poll at other nodes, and the tasks that were matched there.
    #[prost(message, tag = "4")]
    PollReport(PollReport),
    /// Workers limit the rate of a queue, so that every task of it has to go through its home.
    #[prost(message, tag = "5")]
    QueueLimited(Queue),
}

/// Polls of a queue that wait at another node than its home.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct PollReport {
    #[prost(message, required, tag = "1")]
    pub queue: Queue,
    /// The queue is one worker's own.
    #[prost(bool, tag = "2")]
    pub sticky: bool,
    /// The identity of the poller; empty if this reports none.
    #[prost(string, tag = "3")]
    pub identity: String,
    /// The worker process.
    #[prost(string, tag = "4")]
    pub worker: String,
    /// Tasks that were matched without the home, by priority.
    #[prost(btree_map = "int32, uint32", tag = "5")]
    pub met: BTreeMap<i32, u32>,
    /// The version of the poller, and of the workers that met tasks.
    #[prost(message, optional, tag = "6")]
    pub version: Option<PollerVersion>,
}

/// A sign of life of a worker.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct WorkerSighting {
    #[prost(uint32, tag = "1")]
    pub namespace: u32,
    /// Its instance key; empty if all workers are meant that take commands on the control queue.
    #[prost(string, tag = "2")]
    pub worker: String,
    #[prost(string, tag = "3")]
    pub control_queue: String,
    #[prost(uint64, tag = "4")]
    pub connection: u64,
    #[prost(string, tag = "5")]
    pub identity: String,
    #[prost(string, tag = "6")]
    pub queue: String,
    /// The queue is its own.
    #[prost(bool, tag = "7")]
    pub sticky: bool,
    /// It polls, and the poll before was answered.
    #[prost(bool, tag = "8")]
    pub answered: bool,
}

/// A connection that is gone.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ConnectionClosed {
    #[prost(uint64, tag = "1")]
    pub connection: u64,
    /// Workers that were polling on it.
    #[prost(message, repeated, tag = "2")]
    pub cut: Vec<InterruptedPoll>,
}

/// The worker of a poll that was cut off.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct InterruptedPoll {
    #[prost(uint32, tag = "1")]
    pub namespace: u32,
    #[prost(string, tag = "2")]
    pub worker: String,
    #[prost(string, tag = "3")]
    pub control_queue: String,
}
