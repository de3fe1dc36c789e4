//! Code around what clients and workers do: for logs, metrics, context that travels along.
//!
//! A [`ClientInterceptor`] sees the calls of a client that reach a workflow
//! ([`ClientBuilder::interceptor`](crate::ClientBuilder::interceptor)), a [`TaskInterceptor`] every attempt of a task
//! ([`WorkerBuilder::interceptor`](crate::WorkerBuilder::interceptor)), a [`WorkflowInterceptor`] what workflows receive and ask
//! for ([`WorkerBuilder::workflow_interceptor`](crate::WorkerBuilder::workflow_interceptor)). Headers connect them: what a
//! client adds to a call the workflow's interceptor finds in `run.headers`, what that adds to a task the task's finds in
//! `ctx.info().headers`.

pub use crate::{
    client::{ClientCall, ClientCallKind, ClientInterceptor},
    worker::TaskInterceptor,
    workflow::{InboundCall, InboundKind, InterceptedRun, OutboundCall, OutboundKind, WorkflowInterceptor},
};
