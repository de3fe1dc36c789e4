//! The storage of a node: the [`Store`] contract.
//!
//! A store has runs, their history batches, the current run of each workflow id, messages on their way between runs
//! (the outbox) and namespaces. State and events are bytes to it. It does not know requests, timers or task queues: the
//! node derives pending work from stored data.
//!
//! What holds: [`Store::commit`] is the only way to change a run; once it answered `Ok` for a commit, everything in
//! that commit survives the loss of the process and of power; a commit happens entirely or not at all; a commit built
//! on a state that is no longer the stored one fails with [`CommitError::Conflict`] and changes nothing.

mod bucket;
pub mod cluster;
mod contract;
#[cfg(feature = "kit")]
pub mod fault;
#[cfg(feature = "kit")]
pub mod kit;
pub mod limits;
pub mod lock;
mod memory;
mod read_limit;
pub mod rows;
pub mod sabotage;
mod threads;
pub mod visibility;
mod wait;

pub use bucket::Bucket;
pub use contract::{
    Answer, Commit, CommitError, Compaction, CurrentReset, CurrentWrite, Document, DocumentWrite, FileSizes,
    HistoryBatch, NamespaceKey, NamespaceRecord, OpenRun, OutboxKey, OutboxRow, Read, ReadError, RunKey, RunRecord,
    RunWrite, ScriptWrite, StateFacts, Store, Write, ready,
};
pub use memory::MemoryStore;
pub use read_limit::{CancelOnDrop, ReadLimit};
pub use threads::Threads;
pub use wait::Wait;
