//! Tests of the SDK as its users see it, in one program so that they are linked once: without a server in
//! `WorkflowTest`, with a virtual clock, and every run replayed; in `worker` against a real one.

// Helpers of tests are not tests in clippy's eyes.
#![allow(clippy::unwrap_used)]
// Recorded events have fields that the protocol has given up; the rest is a matter of taste in tests.
#![allow(deprecated, clippy::while_let_loop, clippy::needless_lifetimes, clippy::manual_is_multiple_of)]
#![allow(clippy::only_used_in_recursion)]

mod api;
mod combinations;
mod guide;
mod interceptors;
mod macros;
mod macros_impl;
mod worker;
mod workflows;
