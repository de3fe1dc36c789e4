//! Notices when an answer with a task in it never left: the task is given back at once.
//!
//! A handler puts a [`Delivery`] into the response's extensions. The layer here moves it into the response body. When the
//! body was read to its end the answer is on its way; a body dropped before that means that the connection was gone.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Context, Poll},
};

use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use tower::{Layer, Service};

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

    fn one_more(&self) -> OneCall {
        self.0.fetch_add(1, Ordering::AcqRel);
        OneCall(self.0.clone())
    }
}

/// One call under way.
struct OneCall(Arc<AtomicUsize>);

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

/// Puts [`WatchedBody`] around every response.
#[derive(Clone, Debug, Default)]
pub struct WatchDelivery {
    /// Calls under way.
    pub under_way: UnderWay,
}

impl<S> Layer<S> for WatchDelivery {
    type Service = Watching<S>;

    fn layer(&self, inner: S) -> Watching<S> {
        Watching { inner, under_way: self.under_way.clone() }
    }
}

/// See [`WatchDelivery`].
#[derive(Clone, Debug)]
pub struct Watching<S> {
    inner: S,
    under_way: UnderWay,
}

impl<S, I, O> Service<Request<I>> for Watching<S>
where
    S: Service<Request<I>, Response = Response<O>>,
    S::Future: Send + 'static,
{
    type Response = Response<WatchedBody<O>>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<I>) -> Self::Future {
        let call = self.under_way.one_more();
        let response = self.inner.call(request);
        Box::pin(async move {
            let (mut parts, body) = response.await?.into_parts();
            let delivery = parts.extensions.remove::<Delivery>();
            Ok(Response::from_parts(parts, WatchedBody { body, delivery, _under_way: call }))
        })
    }
}
