//! A task of a run that another node serves, as that node described it.

use std::sync::Arc;

use bytes::Bytes;
use segno_proto::deployment::WorkerDeploymentVersion;

use super::route::TaskRoute;

/// A task of a run that another node serves.
#[derive(Clone, PartialEq, prost::Message)]
pub struct RemoteTask {
    /// The node that starts it.
    #[prost(uint64, tag = "1")]
    pub owner: u64,
    /// The run.
    #[prost(uint64, tag = "2")]
    pub run: u64,
    /// Tells the task from later ones with the same ids.
    #[prost(uint32, tag = "3")]
    pub stamp: u32,
    /// See [`TaskKind`].
    #[prost(enumeration = "TaskKind", tag = "4")]
    pub kind: i32,
    /// Of an activity.
    #[prost(int64, tag = "5")]
    pub scheduled_event_id: i64,
    /// Of a workflow task that exists in memory alone.
    #[prost(bool, tag = "6")]
    pub speculative: bool,
    /// Of a query, or of a direct call to a handler.
    #[prost(fixed64, tag = "7")]
    pub query: u64,
    /// A command for a worker.
    #[prost(message, optional, tag = "8")]
    pub command: Option<Command>,
    /// The revision of the documents of the cluster by which the sender found the task's version; 0 if versions do not matter. A node
    /// that has an older one reads the documents before it decides about the task.
    #[prost(int64, tag = "9")]
    pub revision: i64,
    /// Of a request to the handler of a Nexus operation: whether it cancels it.
    #[prost(bool, tag = "10")]
    pub cancel: bool,
}

/// By what the home of a queue finds the lane of a task.
#[derive(Clone, PartialEq, prost::Message)]
pub struct RemoteRoute {
    /// The version to which the run is pinned.
    #[prost(message, optional, tag = "1")]
    pub pinned: Option<WorkerDeploymentVersion>,
    /// The hash of the workflow id.
    #[prost(fixed32, tag = "2")]
    pub hash: u32,
    /// It goes to the ramping version, if there is one.
    #[prost(bool, tag = "3")]
    pub uses_ramp: bool,
}

impl From<&TaskRoute> for RemoteRoute {
    fn from(route: &TaskRoute) -> Self {
        Self { pinned: route.pinned.as_deref().cloned(), hash: route.hash, uses_ramp: route.uses_ramp }
    }
}

impl From<RemoteRoute> for TaskRoute {
    fn from(route: RemoteRoute) -> Self {
        Self { pinned: route.pinned.map(Arc::new), hash: route.hash, uses_ramp: route.uses_ramp }
    }
}

/// The kind of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum TaskKind {
    /// Of a newer version.
    Unknown = 0,
    /// A workflow task.
    Workflow = 1,
    /// An activity.
    Activity = 2,
    /// A query.
    Query = 3,
    /// A command to a worker.
    Command = 4,
    /// A request to the handler of a Nexus operation.
    Nexus = 5,
    /// A direct call to such a handler.
    Call = 6,
}

/// A command for a worker.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Command {
    /// Its id.
    #[prost(string, tag = "1")]
    pub id: String,
    /// The activity to stop, encoded.
    #[prost(bytes = "bytes", tag = "2")]
    pub stop: Bytes,
    /// When it was given, in nanoseconds since the epoch.
    #[prost(int64, tag = "3")]
    pub given: i64,
}
