//! The part of a run's state that only scripts have. Tags are never reused.

use bytes::Bytes;

use crate::shared::Shared;

/// Most signals that no code of a script has taken.
pub const SIGNALS_WAITING_MAX: u32 = 10_000;

/// SHA-256 of a script's source.
pub type Version = [u8; 32];

/// The value of [`ScriptOperation::wake`] for an operation whose end is recorded only.
pub const IGNORED: u32 = 0;
/// The value of [`ScriptOperation::wake`] for an operation whose end makes a turn necessary.
pub const WAKES: u32 = 1;
/// Values from here on name a group, by its place.
pub const FIRST_GROUP: u32 = 2;

/// The kind of operation for which a script waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum OperationKind {
    /// An activity.
    Task = 0,
    /// A timer.
    Timer = 1,
    /// A child.
    Child = 2,
    /// A signal or cancel request to another workflow.
    Send = 3,
    /// A Nexus operation.
    Nexus = 4,
}

/// The engine's record of a run that is a script.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Script {
    /// SHA-256 of its source.
    #[prost(bytes = "bytes", tag = "1")]
    pub version: Bytes,
    /// The last event that a turn has taken, or has written itself.
    #[prost(int64, tag = "2")]
    pub taken_event_id: i64,
    /// Whether something has happened that a turn must take.
    #[prost(bool, tag = "3")]
    pub awake: bool,
    /// The events that make a turn necessary.
    #[prost(message, required, tag = "4")]
    pub wake: Shared<ScriptWakeSet>,
    /// How many ends each group of the wake set misses.
    #[prost(uint32, repeated, tag = "5")]
    pub missing: Vec<u32>,
    /// Signals that no code has taken.
    #[prost(uint32, tag = "6")]
    pub signals_waiting: u32,
    /// Turns so far.
    #[prost(uint64, tag = "7")]
    pub turns: u64,
    /// The run is closed, and its pending activities are carried out all the same.
    #[prost(bool, tag = "8")]
    pub lingers: bool,
    /// The newest states that are kept besides the last one, oldest first.
    #[prost(message, repeated, tag = "9")]
    pub checkpoints: Vec<ScriptCheckpoint>,
    /// The last event that was removed from history; 0 if none was.
    #[prost(int64, tag = "10")]
    pub compacted_until: i64,
    /// Moves to other versions, oldest first.
    #[prost(message, repeated, tag = "11")]
    pub moves: Vec<ScriptMove>,
}

/// A script moved to another version.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ScriptMove {
    /// The marker.
    #[prost(int64, tag = "1")]
    pub event_id: i64,
    /// The version before.
    #[prost(bytes = "bytes", tag = "2")]
    pub from: Bytes,
}

/// A state of a script that is kept.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ScriptCheckpoint {
    /// The last event that it has taken.
    #[prost(int64, tag = "1")]
    pub event_id: i64,
    /// Where it is stored.
    #[prost(uint32, tag = "2")]
    pub slot: u32,
    /// Whether the run as it was then is stored with it.
    #[prost(bool, tag = "3")]
    pub has_run: bool,
    /// The first scheduled event of an activity or a Nexus operation that was pending then; 0 if none was.
    #[prost(int64, tag = "4")]
    pub needed_event_id: i64,
}

/// Which events make a turn of a script necessary.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ScriptWakeSet {
    /// Names of signals that code of the script waits for or handles, sorted.
    #[prost(string, repeated, tag = "1")]
    pub signals: Vec<String>,
    /// Pending operations, by the event with which they began.
    #[prost(message, repeated, tag = "2")]
    pub operations: Vec<ScriptOperation>,
    /// Groups of operations.
    #[prost(message, repeated, tag = "3")]
    pub groups: Vec<ScriptGroup>,
}

/// An operation that a script has begun and that has not ended.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ScriptOperation {
    /// The event with which it began.
    #[prost(int64, tag = "1")]
    pub event_id: i64,
    /// The kind of operation.
    #[prost(enumeration = "crate::state::script::OperationKind", tag = "2")]
    pub kind: i32,
    /// Its id as the script knows it.
    #[prost(string, tag = "3")]
    pub id: String,
    /// The effect of its end, see [`crate::state::script::WAKES`].
    #[prost(uint32, tag = "4")]
    pub wake: u32,
    /// Whether the start of a child makes a turn necessary.
    #[prost(bool, tag = "5")]
    pub wakes_on_start: bool,
    /// The type of the activity or child; of a Nexus operation service and operation.
    #[prost(string, tag = "6")]
    pub name: String,
}

/// Operations of which a number must end before a turn is necessary.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ScriptGroup {
    /// One completion suffices; otherwise it counts.
    #[prost(bool, tag = "1")]
    pub completion_satisfies: bool,
    /// One failure suffices; otherwise it counts.
    #[prost(bool, tag = "2")]
    pub failure_satisfies: bool,
}
