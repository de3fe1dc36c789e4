//! Wire types of Temporal's protocol: messages, service traits and clients, generated at build time.
//!
//! This crate has no logic. It adds to the generated code [`History`], which keeps events encoded so that they are
//! encoded only once, and a few helpers for time, payloads and links.

pub mod codec;
pub mod decode;
mod history;
pub mod links;
pub mod scratch;
mod time;

pub use history::History;
pub use time::{Nanos, duration_nanos, nanos_duration, nanos_timestamp, timestamp_nanos};

#[allow(missing_docs, dead_code, clippy::all, clippy::pedantic, rustdoc::all)]
mod generated {
    include!(concat!(env!("OUT_DIR"), "/wire.rs"));
}

pub use generated::google;
/// Segno's own protocol for access keys.
pub use generated::segno::access::v1 as segno_access;
/// Segno's own protocol for the nodes of a cluster.
pub use generated::segno::cluster::v1 as segno_cluster;
/// Segno's own protocol for scripts.
pub use generated::segno::flow::v1 as segno_flow;
/// Segno's own protocol for rollouts that are tried before they are made.
pub use generated::segno::verification::v1 as segno_verification;
/// Segno's own protocol for workers.
pub use generated::segno::worker::v1 as segno_worker;
/// Segno's own protocol about workflows.
pub use generated::segno::workflow::v1 as segno_workflow;
pub use generated::temporal::api::{
    activity::v1 as activity, batch::v1 as batch, command::v1 as command, common::v1 as common,
    deployment::v1 as deployment, enums::v1 as enums, errordetails::v1 as errordetails, failure::v1 as failure,
    filter::v1 as filter, history::v1 as events, namespace::v1 as namespace, nexus::v1 as nexus, nexusservices,
    operatorservice::v1 as operatorservice, protocol::v1 as protocol, query::v1 as query,
    replication::v1 as replication, rules::v1 as rules, schedule::v1 as schedule, sdk::v1 as sdk,
    taskqueue::v1 as taskqueue, testservice::v1 as testservice, update::v1 as update, version::v1 as version,
    worker::v1 as worker, workflow::v1 as workflow, workflowservice::v1 as workflowservice,
};

include!(concat!(env!("OUT_DIR"), "/methods.rs"));

/// The request of a unary call.
pub trait Rpc: prost::Message + Default + 'static {
    /// The response to it.
    type Response: prost::Message + Default + 'static;
    /// The path of the call: `/service/method`.
    const PATH: &'static str;
}

include!(concat!(env!("OUT_DIR"), "/rpcs.rs"));

/// A route of Temporal's HTTP API: what an annotation of a call says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HttpRoute {
    /// The method of HTTP.
    pub method: &'static str,
    /// The path, with fields of the request in braces.
    pub path: &'static str,
    /// The field of the request that the body is, `*` for all of it; empty if there is no body.
    pub body: &'static str,
    /// The service, by its full name.
    pub service: &'static str,
    /// The call.
    pub call: &'static str,
    /// The message that is the request, by its full name.
    pub request: &'static str,
    /// The message that is the response, by its full name.
    pub response: &'static str,
}

include!(concat!(env!("OUT_DIR"), "/routes.rs"));

/// The encoded descriptor set of everything generated here, for server reflection.
pub static DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));
