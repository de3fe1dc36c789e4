//! Work that goes on when its caller leaves.
//!
//! A call that changes something must not be cut off between its commit and what follows from it. The caller carries
//! the work on its own task, which costs nothing; only if it is dropped half-way does the work move to a task of its
//! own and go on there.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use tokio::runtime::Handle;

type Work<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Runs `work` to its end, whether or not the caller stays.
pub(crate) fn finish<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> Finish<T, fn(T)> {
    finish_or(work, drop)
}

/// Like [`finish`]; what the work gives goes to `unclaimed` if the caller left.
pub(crate) fn finish_or<T, U>(work: impl Future<Output = T> + Send + 'static, unclaimed: U) -> Finish<T, U>
where
    T: Send + 'static,
    U: FnOnce(T) + Send + 'static,
{
    Finish { pending: Some((Box::pin(work), unclaimed)) }
}

/// See [`finish`].
pub(crate) struct Finish<T, U>
where
    T: Send + 'static,
    U: FnOnce(T) + Send + 'static,
{
    /// `None` once the work is done.
    pending: Option<(Work<T>, U)>,
}

// The work is pinned in its box; nothing else here minds being moved.
impl<T: Send + 'static, U: FnOnce(T) + Send + 'static> Unpin for Finish<T, U> {}

impl<T: Send + 'static, U: FnOnce(T) + Send + 'static> Future for Finish<T, U> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let Some((work, _)) = &mut self.pending else { return Poll::Pending };
        let done = work.as_mut().poll(context);
        if done.is_ready() {
            self.pending = None;
        }
        done
    }
}

impl<T: Send + 'static, U: FnOnce(T) + Send + 'static> Drop for Finish<T, U> {
    fn drop(&mut self) {
        let Some((work, unclaimed)) = self.pending.take() else { return };
        // Work that panicked cannot go on, and a runtime that ended has nobody to go on with.
        if std::thread::panicking() {
            return;
        }
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(async move { unclaimed(work.await) });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn gives_its_result_to_a_caller_who_stays() {
        assert_eq!(finish(async { 7 }).await, 7);
    }

    #[tokio::test]
    async fn goes_on_when_the_caller_leaves() {
        let (go, wait) = oneshot::channel::<()>();
        let (tell, told) = oneshot::channel();
        let unclaimed = move |result| {
            let _ = tell.send(result);
        };
        let work = finish_or(async move { wait.await.map_or(0, |()| 7) }, unclaimed);
        assert!(tokio::time::timeout(Duration::from_millis(1), work).await.is_err(), "it waits");
        go.send(()).expect("the work still waits");
        assert_eq!(told.await, Ok(7));
    }
}
