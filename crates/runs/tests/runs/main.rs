//! Tests of this crate in one binary, which is linked once: runs on a store in memory, without scripts, task queues, workers or other
//! nodes.

mod alone;
mod commits;
mod common;
mod damaged;
