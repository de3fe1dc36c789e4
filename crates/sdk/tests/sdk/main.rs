//! Tests of the SDK as its users see it, in one program so that they are linked once: without a server in
//! `WorkflowTest`, with a virtual clock, and every run replayed; in `worker` against a real one.

// Helpers of tests are not tests in clippy's eyes.
#![allow(clippy::unwrap_used)]

mod guide;
mod macros;
mod macros_impl;
mod worker;
mod workflows;
