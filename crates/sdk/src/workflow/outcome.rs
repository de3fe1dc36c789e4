//! Return types of closures that handle signals and updates: a value, or a future of one.

use super::{handlers::HandlerOutcome, operation::BoxFuture};
use crate::failure::Result;

/// Marks handlers that answer at once.
pub struct AtOnce;

/// Marks handlers that return a future.
pub struct Later;

/// Marks handlers that return a future of nothing.
pub struct LaterNothing;

/// The type that the closure of [`Context::on_signal`](crate::Context::on_signal) may return: nothing, a `Result<()>`, or a future of
/// either. `M` is [`AtOnce`], [`Later`] or [`LaterNothing`] and follows from the closure.
pub trait SignalOutcome<M> {
    /// The future that is left to poll, if there is one.
    #[doc(hidden)]
    fn into_rest(self) -> Option<BoxFuture<Result<()>>>;
}

impl<R: HandlerOutcome> SignalOutcome<AtOnce> for R {
    fn into_rest(self) -> Option<BoxFuture<Result<()>>> {
        match self.into_result() {
            Ok(()) => None,
            Err(error) => Some(Box::pin(async move { Err(error) })),
        }
    }
}

// Its error is given here, so that `?` in the closure needs no annotation.
impl<F> SignalOutcome<Later> for F
where
    F: Future<Output = Result<()>> + Send + 'static,
{
    fn into_rest(self) -> Option<BoxFuture<Result<()>>> {
        Some(Box::pin(self))
    }
}

impl<F> SignalOutcome<LaterNothing> for F
where
    F: Future<Output = ()> + Send + 'static,
{
    fn into_rest(self) -> Option<BoxFuture<Result<()>>> {
        Some(Box::pin(async move {
            self.await;
            Ok(())
        }))
    }
}

/// The type that the closure of [`Context::on_update`](crate::Context::on_update) may return: a `Result<O>`, or a future of one. `M` is
/// [`AtOnce`] or [`Later`] and follows from the closure.
pub trait UpdateOutcome<O, M> {
    /// As a future.
    #[doc(hidden)]
    fn into_outcome(self) -> impl Future<Output = Result<O>> + Send + 'static;
}

impl<O: Send + 'static> UpdateOutcome<O, AtOnce> for Result<O> {
    fn into_outcome(self) -> impl Future<Output = Result<O>> + Send + 'static {
        std::future::ready(self)
    }
}

impl<O, F> UpdateOutcome<O, Later> for F
where
    F: Future<Output = Result<O>> + Send + 'static,
{
    fn into_outcome(self) -> impl Future<Output = Result<O>> + Send + 'static {
        self
    }
}
