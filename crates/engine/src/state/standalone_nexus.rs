//! A Nexus operation without a workflow, apart from the operation itself, as stored in the state of its run. A tag, once used, is never
//! reused for another field.

use segno_proto::{
    common::{Link, Payload},
    failure::Failure,
};

use crate::state::{nexus::Operation, standalone::CancelRequest};

/// A standalone Nexus operation.
#[derive(Clone, PartialEq, prost::Message)]
pub struct StandaloneNexus {
    /// The client that requested cancellation.
    #[prost(message, optional, tag = "1")]
    pub cancel: Option<CancelRequest>,
    /// Recognises a repeated termination.
    #[prost(string, tag = "2")]
    pub terminate_request_id: String,
    /// Links that the handler gave with its start.
    #[prost(message, repeated, tag = "3")]
    pub links: Vec<Link>,
    /// The operation as it was at its end.
    #[prost(message, optional, boxed, tag = "4")]
    pub ended: Option<Box<Operation>>,
    /// How it ended.
    #[prost(message, optional, tag = "5")]
    pub outcome: Option<OperationOutcome>,
    /// The client that started it.
    #[prost(string, tag = "6")]
    pub identity: String,
}

/// How a standalone operation ended: with a failure, or a result.
#[derive(Clone, PartialEq, prost::Message)]
pub struct OperationOutcome {
    /// The result.
    #[prost(message, optional, tag = "1")]
    pub result: Option<Payload>,
    /// The failure.
    #[prost(message, optional, tag = "2")]
    pub failure: Option<Failure>,
}
