//! Notices when an answer with a task in it never left: the task is given back at once.
//!
//! A handler puts a [`Delivery`] into the response's extensions; [`WatchedBody`] takes it from there. When the body was
//! read to its end the answer is on its way; a body dropped before that means that the connection was gone.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Context, Poll},
};

use http::Response;
use http_body::{Body, Frame, SizeHint};

/// What to do when an answer was not delivered. Runs at most once.
#[derive(Clone)]
pub struct Delivery {
    undelivered: Arc<dyn Fn() + Send + Sync>,
    settled: Arc<AtomicBool>,
}

impl Delivery {
    /// Calls `undelivered` if the answer is lost.
    pub fn new(undelivered: impl Fn() + Send + Sync + 'static) -> Self {
        Self { undelivered: Arc::new(undelivered), settled: Arc::default() }
    }

    fn delivered(&self) {
        self.settled.store(true, Ordering::Release);
    }

    fn lost(&self) {
        if !self.settled.swap(true, Ordering::AcqRel) {
            (self.undelivered)();
        }
    }
}

/// Counts calls under way, from their arrival until the last byte of their answer left.
#[derive(Clone, Debug, Default)]
pub struct UnderWay(Arc<AtomicUsize>);

impl UnderWay {
    /// How many calls are under way.
    pub fn count(&self) -> usize {
        self.0.load(Ordering::Acquire)
    }

    /// Counts one call until it is dropped.
    pub fn one_more(&self) -> OneCall {
        self.0.fetch_add(1, Ordering::AcqRel);
        OneCall(self.0.clone())
    }
}

/// One call under way.
#[derive(Debug)]
pub struct OneCall(Arc<AtomicUsize>);

impl Drop for OneCall {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A response body that knows whether it was read to its end.
pub struct WatchedBody<B> {
    body: B,
    delivery: Option<Delivery>,
    _under_way: OneCall,
}

impl<B> WatchedBody<B> {
    /// Watches a response for its handler.
    pub fn of(response: Response<B>, call: OneCall) -> Response<Self> {
        let (mut parts, body) = response.into_parts();
        let delivery = parts.extensions.remove::<Delivery>();
        Response::from_parts(parts, Self { body, delivery, _under_way: call })
    }
}

impl<B: Body + Unpin> Body for WatchedBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        let ended = match &frame {
            Poll::Ready(None) => true,
            Poll::Ready(Some(Ok(frame))) => frame.is_trailers(),
            _ => false,
        };
        if ended && let Some(delivery) = self.delivery.take() {
            delivery.delivered();
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl<B> Drop for WatchedBody<B> {
    fn drop(&mut self) {
        if let Some(delivery) = self.delivery.take() {
            delivery.lost();
        }
    }
}
