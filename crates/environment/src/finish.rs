//! Work that goes on when its caller leaves.
//!
//! A call that changes a run must not be cut off between its commit and its effects. The caller drives the work on its
//! own task, which costs nothing; only if the caller is dropped half-way does the work move to a new task.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use tokio::runtime::Handle;

type Work<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Runs `work` to its end, whether or not the caller stays. What it gives is dropped if the caller is gone.
pub fn finish<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> Finish<T> {
    Finish { pending: Some(Box::pin(work)) }
}

/// See [`finish`].
pub struct Finish<T: Send + 'static> {
    /// `None` once the work is done.
    pending: Option<Work<T>>,
}

impl<T: Send + 'static> Future for Finish<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let Some(work) = &mut self.pending else { return Poll::Pending };
        let done = work.as_mut().poll(context);
        if done.is_ready() {
            self.pending = None;
        }
        done
    }
}

impl<T: Send + 'static> Drop for Finish<T> {
    fn drop(&mut self) {
        let Some(work) = self.pending.take() else { return };
        // Work that panicked cannot go on, and a runtime that ended has no thread for it.
        if std::thread::panicking() {
            return;
        }
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(async move { drop(work.await) });
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
        let work = finish(async move {
            let _ = tell.send(wait.await.map_or(0, |()| 7));
        });
        assert!(tokio::time::timeout(Duration::from_millis(1), work).await.is_err(), "it waits");
        go.send(()).expect("the work still waits");
        assert_eq!(told.await, Ok(7));
    }
}
