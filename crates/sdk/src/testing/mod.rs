//! Tests of workflows and tasks without a server.

pub(crate) mod server;
