//! Tests of this crate in one binary, which is linked once: namespaces over runs, without task queues, workers, scripts or other nodes.

mod common;
mod namespaces;
mod verifications;
