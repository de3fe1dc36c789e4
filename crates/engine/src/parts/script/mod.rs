//! Runs that are scripts: the server executes their workflow tasks itself.
//!
//! The engine knows which version a run has, how far its events were taken, and its *wake set*: which events make a turn
//! necessary ([`crate::state::wake_set`]). A workflow task is scheduled only if one of them happened. What a script computes
//! does not concern the engine: the node executes a turn and completes the workflow task with the commands that come out
//! of it, like any worker.

pub mod compaction;
pub mod turn;
pub mod version;

pub use crate::state::{
    script::{FIRST_GROUP, IGNORED, OperationKind, SIGNALS_WAITING_MAX, Version, WAKES},
    wake_set::{ended, find},
};
pub use compaction::*;
pub use turn::*;
pub use version::*;
