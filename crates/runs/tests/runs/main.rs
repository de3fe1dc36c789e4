//! Tests of this crate in one binary, which is linked once: runs on a store in memory, without scripts, task queues, workers or other
//! nodes.

#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod alone;
mod commits;
mod common;
mod damaged;
