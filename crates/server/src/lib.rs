//! The edges of Segno: gRPC, HTTP, request checks. The only crate that knows requests and statuses.
//!
//! A call arrives in [`grpc`], is checked by [`validate`], turned into an engine call, carried out by the runtime, and
//! its outcome is put into words here: replies in [`grpc`], refusals by the one table in [`status`].

// The protocol carries fields that its authors have replaced but that workers still send and read.
#![allow(deprecated)]

#[cfg(test)]
mod compatibility_tests;
mod connections;
mod deadline;
mod delivery;
pub mod grpc;
mod http;
mod http_access;
mod http_api;
mod http_flows;
mod metrics;
mod otel;
mod peer_calls;
mod peers;
mod request_fields;
pub mod security;
mod serve;
mod status;
mod unbuilt;
pub mod validate;
mod web;
mod why;

pub use connections::ConnectionLimits;
pub use grpc::SERVER_VERSION;
pub use metrics::disk::report_disk_free;
pub use otel::TraceOptions;
pub use security::{AuthenticationOptions, SecurityOptions};
pub use serve::{ServeError, Server, ServerOptions};
pub use unbuilt::BUILT;
