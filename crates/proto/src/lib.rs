//! Wire types of Temporal's protocol: messages, service traits and clients, generated at build time.
//!
//! This crate holds no logic. What it adds to the generated code is [`History`], which keeps events in their encoded
//! form so that they are encoded once and travel without being touched, and a few helpers for time and payloads.

pub mod codec;
pub mod decode;
mod history;
mod time;

pub use history::History;
pub use time::{Nanos, duration_nanos, nanos_duration, nanos_timestamp, timestamp_nanos};

#[allow(missing_docs, dead_code, clippy::all, clippy::pedantic, rustdoc::all)]
mod generated {
    include!(concat!(env!("OUT_DIR"), "/wire.rs"));
}

pub use generated::google;
/// Segno's own protocol for nodes that share a database.
pub use generated::segno::cluster::v1 as segno_cluster;
/// Segno's own protocol for scripts.
pub use generated::segno::flow::v1 as segno_flow;
/// Segno's own protocol for workers.
pub use generated::segno::worker::v1 as segno_worker;
/// Segno's own protocol about workflows.
pub use generated::segno::workflow::v1 as segno_workflow;
pub use generated::temporal::api::{
    activity::v1 as activity, batch::v1 as batch, command::v1 as command, common::v1 as common,
    deployment::v1 as deployment, enums::v1 as enums, errordetails::v1 as errordetails, failure::v1 as failure,
    filter::v1 as filter, history::v1 as events, namespace::v1 as namespace, nexus::v1 as nexus, nexusservices,
    operatorservice::v1 as operatorservice, protocol::v1 as protocol, query::v1 as query,
    replication::v1 as replication, schedule::v1 as schedule, sdk::v1 as sdk, taskqueue::v1 as taskqueue,
    update::v1 as update, version::v1 as version, worker::v1 as worker, workflow::v1 as workflow,
    workflowservice::v1 as workflowservice,
};

include!(concat!(env!("OUT_DIR"), "/methods.rs"));

/// The encoded descriptor set of everything generated here, for server reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));
