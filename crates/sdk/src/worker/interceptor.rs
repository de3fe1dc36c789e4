//! Interceptors around the tasks and Nexus requests of a worker: for logs, metrics, context propagation.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use segno_proto::common::Payload;

use crate::{
    failure::{Failure, Result},
    nexus::{NexusContext, NexusFn, NexusRequest, StartedOperation},
    task::{TaskContext, TaskFn},
};

/// Code around every attempt of a task.
pub trait TaskInterceptor: Send + Sync + 'static {
    /// Executes an attempt: `next(ctx, input)` is the attempt itself, or the interceptor that was added after this one.
    fn execute(
        &self,
        ctx: TaskContext,
        input: Vec<Payload>,
        next: TaskFn,
    ) -> BoxFuture<'static, Result<Vec<Payload>, Failure>> {
        next(ctx, input)
    }
}

/// Code around every request to a Nexus operation.
pub trait NexusInterceptor: Send + Sync + 'static {
    /// Handles a request: `next(ctx, request)` is the handler itself, or the interceptor that was added after this one.
    fn handle(
        &self,
        ctx: NexusContext,
        request: NexusRequest,
        next: NexusFn,
    ) -> BoxFuture<'static, Result<StartedOperation<Option<Payload>>>> {
        next(ctx, request)
    }
}

/// The interceptors of a worker, in the order in which they were added.
#[derive(Default)]
pub(super) struct Interceptors {
    pub tasks: Vec<Arc<dyn TaskInterceptor>>,
    pub nexus: Vec<Arc<dyn NexusInterceptor>>,
}
