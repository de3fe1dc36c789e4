//! Nexus: services whose operations workflows call, also across namespaces.
//!
//! A service is a trait with [`nexus_service`](macro@crate::nexus_service). What implements it is registered with
//! [`WorkerBuilder::nexus_service`](crate::WorkerBuilder::nexus_service); workflows call it through
//! [`Context::nexus`](crate::Context::nexus) and an endpoint, which the operator creates.
//!
//! - `operation`: names of operations; `registry`: what a worker handles
//! - `context`, `start`: what a handler has, and operations that are workflows; `token`: how those are named
//! - `error`: how operations and requests fail

mod context;
mod error;
mod operation;
mod registry;
mod start;
mod token;

pub use context::{NexusContext, NexusInfo, NexusLink};
pub use error::{HandlerError, HandlerErrorType, OperationError};
pub use operation::NexusOperation;
pub use registry::{NexusFn, NexusRegistry, NexusRequest, NexusService};
pub use start::StartedOperation;

pub(crate) use context::Callback;
pub(crate) use error::{NexusOutcome, handler_kind};
