//! Code around what clients and workers do: for logs, metrics, context that travels along.
//!
//! A [`ClientInterceptor`] sees the calls of a client that reach a workflow
//! ([`ClientBuilder::interceptor`](crate::ClientBuilder::interceptor)), a [`TaskInterceptor`] every attempt of a task
//! ([`WorkerBuilder::interceptor`](crate::WorkerBuilder::interceptor)).

pub use crate::{
    client::{ClientCall, ClientCallKind, ClientInterceptor},
    worker::TaskInterceptor,
};
