//! Code around what clients and workers do: for logs, metrics, context that travels along, other arguments.
//!
//! A [`ClientInterceptor`] sees the calls of a client that reach a workflow
//! ([`ClientBuilder::interceptor`](crate::ClientBuilder::interceptor)), a [`TaskInterceptor`] every attempt of a task
//! ([`WorkerBuilder::interceptor`](crate::WorkerBuilder::interceptor)), a [`WorkflowInterceptor`] what workflows receive and ask
//! for ([`WorkerBuilder::workflow_interceptor`](crate::WorkerBuilder::workflow_interceptor)). Headers connect them: what a
//! client adds to a call the workflow's interceptor finds in `run.headers`, what that adds to a task the task's finds in
//! `ctx.info().headers`. All of them may change the [`Arguments`] of what they see:
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
    worker::TaskInterceptor,
    workflow::{InboundCall, InboundKind, InterceptedRun, OutboundCall, OutboundKind, WorkflowInterceptor},
};
