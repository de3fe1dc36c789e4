//! Interceptors around the tasks of a worker: for logs, metrics, context propagation.

use futures_util::future::BoxFuture;
use segno_proto::common::Payload;

use crate::{
    failure::Failure,
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
