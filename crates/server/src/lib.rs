//! The gRPC edge of Segno: connections, request checks, handlers. It also serves the HTTP port, with the pages of `segno-web`
//! and the API of `segno-http-api`.
//!
//! A call arrives in [`grpc`], is checked by [`validate`], turned into an engine call and carried out by the node. Replies
//! are made in [`grpc`], refusals by the one table in [`segno_calls::status`].

// The protocol carries fields that its authors have replaced but that workers still send and read.
#![allow(deprecated)]

mod calls;
#[cfg(test)]
mod compatibility_tests;
mod connections;
mod deadline;
mod delivery;
mod edge;
pub mod grpc;
mod http;
mod http_access;
mod in_process;
mod metrics;
mod nexus_http;
mod otel;
mod peer_calls;
mod peers;
mod reply;
mod serve;
mod unbuilt;
pub mod validate;
mod why;

use segno_calls::{request_fields, status};
pub use segno_security::{self as security, AuthenticationOptions, SecurityOptions};

pub use connections::ConnectionLimits;
pub use edge::Edge;
pub use grpc::SERVER_VERSION;
pub use metrics::disk::report_disk_free;
pub use otel::TraceOptions;
pub use serve::{ServeError, Server, ServerOptions};
