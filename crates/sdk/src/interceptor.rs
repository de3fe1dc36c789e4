//! Interceptors around calls, tasks and workflows: for logs, metrics, context propagation, changed arguments.
//!
//! A [`ClientInterceptor`] sees the calls of a client that reach a workflow
//! ([`ClientBuilder::interceptor`](crate::ClientBuilder::interceptor)), a [`TaskInterceptor`] every attempt of a task
//! ([`WorkerBuilder::interceptor`](crate::WorkerBuilder::interceptor)), a [`NexusInterceptor`] every request to a Nexus operation
//! ([`WorkerBuilder::nexus_interceptor`](crate::WorkerBuilder::nexus_interceptor)), a [`WorkflowInterceptor`] the messages and commands of
//! workflows ([`WorkerBuilder::workflow_interceptor`](crate::WorkerBuilder::workflow_interceptor)). Headers connect them: those
//! that a client adds to a call are in `run.headers` of the workflow's interceptor, those that a workflow adds to a task in
//! `ctx.info().headers`. All of them may change the [`Arguments`]:
//!
//! ```
//! # use segno_sdk::interceptor::{InterceptedRun, OutboundCall, WorkflowInterceptor};
//! /// Customers are named in lower case, also if the workflow says otherwise.
//! struct LowerCase;
//!
//! impl WorkflowInterceptor for LowerCase {
//!     fn outbound(&self, _: &InterceptedRun, call: &mut OutboundCall) {
//!         if call.name == "charge" && let Ok(customer) = call.arguments.get::<String>(0) {
//!             let _ = call.arguments.set(0, &customer.to_lowercase());
//!         }
//!     }
//! }
//! ```

pub use crate::{
    Arguments,
    client::{ClientCall, ClientCallKind, ClientInterceptor},
    worker::{NexusInterceptor, TaskInterceptor},
    workflow::{InboundCall, InboundKind, InterceptedRun, OutboundCall, OutboundKind, WorkflowInterceptor},
};
