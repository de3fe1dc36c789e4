//! The whole server in one thread, in a world that follows from one number.
//!
//! A world has a real node (its runs, queues, workers, scripts and the edge from decoded calls on), a simulated disk, and models of
//! clients and workers. Time is virtual, and everything that is left to chance comes from the seed: the same seed gives the same
//! life, to the byte. Faults happen for a minute; then everything that can progress must come to its end, and the oracle compares
//! histories with what clients and workers were told.
//!
//! Where to read on: [`scenario`] is what a seed contains, [`world`] the loop, [`host`] the node, [`disk`] its storage, [`worker`] and
//! [`client`] those who call, [`oracle`] what must hold.

// The protocol carries fields that its authors have replaced but that workers still send and read.
#![allow(deprecated)]

pub mod client;
pub mod disk;
pub mod executor;
pub mod host;
pub mod ledger;
pub mod life;
pub mod oracle;
mod panics;
pub mod random;
pub mod scenario;
pub mod shrink;
pub mod trace;
pub mod worker;
pub mod workflow;
pub mod world;

pub use life::{Life, live};

/// Milliseconds since the world began, or a number of them.
pub type Millis = u64;

/// When a world begins, in nanoseconds since the epoch.
pub const BEGIN: i64 = 1_700_000_000_000_000_000;
