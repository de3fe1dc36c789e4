//! What nodes say to each other: frames on a connection, each a length and a message.
//!
//! Fields are only added, and what a node does not know it answers as unsupported, so that two versions can talk.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::matching::PollerVersion;
pub use crate::matching::remote::{Command, Task, TaskKind};

/// The version of this protocol.
pub const PROTOCOL: u32 = 1;

/// Whatever waited to be sent at one moment.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Frames {
    #[prost(message, repeated, tag = "1")]
    pub frames: Vec<Frame>,
}

/// One thing that is said.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Frame {
    /// Names a question, for its answer and whatever follows. Chosen by the asker.
    #[prost(uint64, tag = "1")]
    pub id: u64,
    #[prost(oneof = "Said", tags = "2, 3, 4, 5, 6, 7, 8, 9")]
    pub said: Option<Said>,
}

/// What is said.
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum Said {
    /// The first frame in each direction.
    #[prost(message, tag = "2")]
    Hello(Hello),
    #[prost(message, tag = "3")]
    Ask(Ask),
    #[prost(message, tag = "4")]
    Answer(Answer),
    /// What the answer carried reached its worker.
    #[prost(message, tag = "5")]
    Written(Nothing),
    /// The asker does not want the answer any more, or what it carried did not reach its worker.
    #[prost(message, tag = "6")]
    GiveUp(Nothing),
    /// News that nobody answers.
    #[prost(message, tag = "7")]
    News(News),
    #[prost(message, tag = "8")]
    Ping(Nothing),
    #[prost(message, tag = "9")]
    Pong(Nothing),
}

#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Nothing {}

/// Who speaks, and the proof that it may: both sides send a challenge, and a digest of the other's challenge under the
/// secret that the database keeps.
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
    /// Whom the speaker thinks it talks to; 0 if it does not know.
    #[prost(uint64, tag = "5")]
    pub to: u64,
}

/// A question to another node.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Ask {
    #[prost(oneof = "Question", tags = "1, 2, 3, 4, 5, 6, 7")]
    pub question: Option<Question>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub enum Question {
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
    Receive(Receive),
    /// Namespaces or scripts have changed: read them again.
    #[prost(message, tag = "5")]
    Reload(Nothing),
    /// A queue forgot tasks and has room for them again.
    #[prost(message, tag = "6")]
    OfferAgain(Queue),
    /// A run is to be deleted.
    #[prost(message, tag = "7")]
    Delete(Delete),
}

/// What a node answers.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Answer {
    /// Whether something on its way to a worker is held until `Written`.
    #[prost(bool, tag = "1")]
    pub held: bool,
    #[prost(oneof = "Reply", tags = "2, 3, 4, 5, 6, 7, 8")]
    pub reply: Option<Reply>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub enum Reply {
    /// Done; there is nothing to say.
    #[prost(message, tag = "2")]
    Done(Nothing),
    /// This is for another node; nothing was done.
    #[prost(message, tag = "3")]
    Moved(Nothing),
    /// It failed, and may be tried again.
    #[prost(string, tag = "4")]
    Failed(String),
    /// What a client's call came to.
    #[prost(message, tag = "5")]
    Called(Called),
    /// A task.
    #[prost(message, tag = "6")]
    Task(Offer),
    /// Nobody serves the queue, which is one worker's own.
    #[prost(message, tag = "7")]
    Unserved(Nothing),
    /// What became of a message at its receiver.
    #[prost(message, tag = "8")]
    Outcome(Outcome),
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
    /// One of people's tools.
    #[prost(bool, tag = "5")]
    pub is_tool: bool,
    /// The call is a poll, and this is the task that it gets.
    #[prost(message, optional, tag = "6")]
    pub task: Option<Task>,
    /// The client's SDK, as it names itself.
    #[prost(string, tag = "7")]
    pub client_name: String,
    /// The SDK's version.
    #[prost(string, tag = "8")]
    pub client_version: String,
}

/// What a call came to.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Called {
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
    /// What the worker says of its version.
    #[prost(message, optional, tag = "7")]
    pub version: Option<PollerVersion>,
}

/// A task for a queue.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Offer {
    #[prost(message, required, tag = "1")]
    pub queue: Queue,
    #[prost(message, required, tag = "2")]
    pub task: Task,
    #[prost(int32, tag = "3")]
    pub priority: i32,
    /// The queue is one worker's own: if that is not there, nobody else comes.
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
}

/// A message between runs.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Receive {
    #[prost(uint64, tag = "1")]
    pub sender: u64,
    #[prost(uint32, tag = "2")]
    pub sequence: u32,
    #[prost(bytes = "bytes", tag = "3")]
    pub message: Bytes,
}

/// What became of a message at its receiver.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Outcome {
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
pub enum OutcomeKind {
    Unknown = 0,
    /// It arrived.
    Done = 1,
    /// It was refused; the sender is told the cause.
    NotTaken = 2,
    /// It has to wait for another message.
    NotYet = 3,
    /// A child was started.
    Started = 4,
}

/// A run that is to be deleted.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Delete {
    #[prost(uint32, tag = "1")]
    pub namespace: u32,
    #[prost(string, tag = "2")]
    pub workflow_id: String,
    #[prost(string, tag = "3")]
    pub run_id: String,
}

/// News that nobody answers.
#[derive(Clone, PartialEq, prost::Message)]
pub struct News {
    #[prost(oneof = "Told", tags = "1, 2, 3, 4, 5")]
    pub told: Option<Told>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub enum Told {
    /// A worker was heard of.
    #[prost(message, tag = "1")]
    Seen(Seen),
    /// A connection of a client is gone.
    #[prost(message, tag = "2")]
    Closed(Closed),
    /// The map has changed.
    #[prost(message, tag = "3")]
    Map(Nothing),
    /// What the home of a queue does not see: who polls elsewhere, and what met there.
    #[prost(message, tag = "4")]
    Polls(Polls),
    /// Workers limit the rate of a queue, so that every task of it has to go through its home.
    #[prost(message, tag = "5")]
    Limited(Queue),
}

/// Polls of a queue that wait at another node than its home.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Polls {
    #[prost(message, required, tag = "1")]
    pub queue: Queue,
    /// The queue is one worker's own.
    #[prost(bool, tag = "2")]
    pub sticky: bool,
    /// Who polls; empty if nobody is told of.
    #[prost(string, tag = "3")]
    pub identity: String,
    /// The worker process.
    #[prost(string, tag = "4")]
    pub worker: String,
    /// Tasks that met a worker without the home, by priority.
    #[prost(btree_map = "int32, uint32", tag = "5")]
    pub met: BTreeMap<i32, u32>,
    /// What the poller says of its version.
    #[prost(message, optional, tag = "6")]
    pub version: Option<PollerVersion>,
}

/// A sign of life of a worker.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Seen {
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
pub struct Closed {
    #[prost(uint64, tag = "1")]
    pub connection: u64,
    /// Workers that were polling on it.
    #[prost(message, repeated, tag = "2")]
    pub cut: Vec<Cut>,
}

/// Whose poll was cut off.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Cut {
    #[prost(uint32, tag = "1")]
    pub namespace: u32,
    #[prost(string, tag = "2")]
    pub worker: String,
    #[prost(string, tag = "3")]
    pub control_queue: String,
}
