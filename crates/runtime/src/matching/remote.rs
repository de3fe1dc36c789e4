//! A task of a run that another node serves, as that node described it.

use bytes::Bytes;

/// A task of a run that another node serves.
#[derive(Clone, PartialEq, prost::Message)]
pub struct RemoteTask {
    /// The node that starts it.
    #[prost(uint64, tag = "1")]
    pub(crate) owner: u64,
    #[prost(uint64, tag = "2")]
    pub(crate) run: u64,
    #[prost(uint32, tag = "3")]
    pub(crate) stamp: u32,
    #[prost(enumeration = "TaskKind", tag = "4")]
    pub(crate) kind: i32,
    /// Of an activity.
    #[prost(int64, tag = "5")]
    pub(crate) scheduled_event_id: i64,
    /// Of a workflow task that exists in memory alone.
    #[prost(bool, tag = "6")]
    pub(crate) speculative: bool,
    /// Of a query.
    #[prost(fixed64, tag = "7")]
    pub(crate) query: u64,
    /// A command for a worker.
    #[prost(message, optional, tag = "8")]
    pub(crate) command: Option<Command>,
}

/// What kind of task it is.
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
    pub(crate) id: String,
    #[prost(bytes = "bytes", tag = "2")]
    pub(crate) stop: Bytes,
    #[prost(int64, tag = "3")]
    pub(crate) given: i64,
}
