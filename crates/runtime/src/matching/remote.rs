//! Tasks of runs that other nodes own, as nodes name them to each other.

use bytes::Bytes;

/// A task that waits for a worker, wherever it is.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Task {
    /// The node that starts it.
    #[prost(uint64, tag = "1")]
    pub owner: u64,
    #[prost(uint64, tag = "2")]
    pub run: u64,
    #[prost(uint32, tag = "3")]
    pub stamp: u32,
    #[prost(enumeration = "TaskKind", tag = "4")]
    pub kind: i32,
    /// Of an activity.
    #[prost(int64, tag = "5")]
    pub scheduled_event_id: i64,
    /// Of a workflow task that exists in memory alone.
    #[prost(bool, tag = "6")]
    pub speculative: bool,
    /// Of a query.
    #[prost(fixed64, tag = "7")]
    pub query: u64,
    /// A command for a worker.
    #[prost(message, optional, tag = "8")]
    pub command: Option<Command>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum TaskKind {
    Unknown = 0,
    Workflow = 1,
    Activity = 2,
    Query = 3,
    Command = 4,
}

/// A command for a worker.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Command {
    #[prost(string, tag = "1")]
    pub id: String,
    #[prost(bytes = "bytes", tag = "2")]
    pub stop: Bytes,
    #[prost(int64, tag = "3")]
    pub given: i64,
}
