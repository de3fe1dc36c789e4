//! A channel that counts its calls, if somebody wants to know.

use std::{
    task::{Context, Poll},
    time::{Duration, Instant},
};

use futures_util::{
    FutureExt,
    future::{BoxFuture, Either},
};
use tonic::{
    body::Body,
    codegen::{
        Service,
        http::{Request, Response},
    },
    transport::{Channel, Error, channel::ResponseFuture},
};

use crate::telemetry::Metrics;

#[derive(Clone)]
pub(crate) struct Counted {
    channel: Channel,
    counting: Option<(Metrics, String)>,
}

impl Counted {
    /// `counting` has the namespace with it, which is a label.
    pub fn new(channel: Channel, counting: Option<(Metrics, String)>) -> Self {
        Self { channel, counting }
    }

    pub fn metrics(&self) -> Option<&Metrics> {
        self.counting.as_ref().map(|(metrics, _)| metrics)
    }
}

impl Service<Request<Body>> for Counted {
    type Response = Response<Body>;
    type Error = Error;
    type Future = Either<ResponseFuture, BoxFuture<'static, Result<Response<Body>, Error>>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Service::poll_ready(&mut self.channel, cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let Some((metrics, namespace)) = self.counting.clone() else {
            return Either::Left(Service::call(&mut self.channel, request));
        };
        let operation = request.uri().path().rsplit('/').next().unwrap_or_default().to_owned();
        let began = Instant::now();
        let response = Service::call(&mut self.channel, request);
        let counted = async move {
            let response = response.await;
            note(&metrics, &namespace, &operation, &response, began.elapsed());
            response
        };
        Either::Right(counted.boxed())
    }
}

fn note(metrics: &Metrics, namespace: &str, operation: &str, response: &Result<Response<Body>, Error>, took: Duration) {
    let labels = [("namespace", namespace), ("operation", operation)];
    let [requests, failures, latencies] = if operation.starts_with("Poll") {
        ["temporal_long_request", "temporal_long_request_failure", "temporal_long_request_latency_seconds"]
    } else {
        ["temporal_request", "temporal_request_failure", "temporal_request_latency_seconds"]
    };
    metrics.count(requests, &labels);
    metrics.observe(latencies, &labels, took);
    let code = match response {
        // A call that failed has its status in the first headers; one that succeeded has it after the message.
        Ok(response) => match tonic::Status::from_header_map(response.headers()) {
            Some(status) if status.code() != tonic::Code::Ok => status.code(),
            _ => return,
        },
        Err(_) => tonic::Code::Unavailable,
    };
    let code = format!("{code:?}");
    metrics.count(failures, &[("namespace", namespace), ("operation", operation), ("status_code", &code)]);
}
