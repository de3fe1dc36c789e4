//! A channel that counts its calls, if metrics are on.

use std::{
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use bytes::Bytes;
use futures_util::{FutureExt, future::BoxFuture};
use http::{Request, Response};
use tonic::{Code, Status, body::Body, codegen::Service};

use super::{
    transport::{Answer, Transport},
    unary::EncodedCall,
};
use crate::telemetry::Metrics;

#[derive(Clone)]
pub(crate) struct MeteredChannel {
    transport: Transport,
    counting: Option<Arc<(Metrics, String)>>,
}

impl MeteredChannel {
    /// `counting` has the namespace with it, which is a label.
    pub fn new(transport: Transport, counting: Option<(Metrics, String)>) -> Self {
        Self { transport, counting: counting.map(Arc::new) }
    }

    pub fn metrics(&self) -> Option<&Metrics> {
        self.counting.as_deref().map(|(metrics, _)| metrics)
    }
}

impl MeteredChannel {
    /// One call.
    pub async fn unary(&self, call: &EncodedCall, limit: Duration) -> Result<Bytes, Status> {
        let began = self.counting.is_some().then(Instant::now);
        let answer = self.transport.unary(call, limit).await;
        if let (Some((metrics, namespace)), Some(began)) = (self.counting.as_deref(), began) {
            let failed = answer.as_ref().err().map(Status::code);
            note(metrics, namespace, operation(call.path), failed, began.elapsed());
        }
        answer
    }
}

impl Service<Request<Body>> for MeteredChannel {
    type Response = Response<Answer>;
    type Error = Status;
    type Future = BoxFuture<'static, Result<Self::Response, Status>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Status>> {
        self.transport.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let Some(counting) = self.counting.clone() else { return self.transport.call(request) };
        let path = request.uri().path().to_owned();
        let began = Instant::now();
        let response = self.transport.call(request);
        let counted = async move {
            let response = response.await;
            let (metrics, namespace) = &*counting;
            let failed = match &response {
                // A call that failed has its status in the first headers; one that succeeded has it after the message.
                Ok(response) => Status::from_header_map(response.headers()).map(|status| status.code()),
                Err(status) => Some(status.code()),
            };
            note(metrics, namespace, operation(&path), failed.filter(|code| *code != Code::Ok), began.elapsed());
            response
        };
        counted.boxed()
    }
}

/// The last part of a path: the method's name.
fn operation(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

fn note(metrics: &Metrics, namespace: &str, operation: &str, failed: Option<Code>, took: Duration) {
    let labels = [("namespace", namespace), ("operation", operation)];
    let [requests, failures, latencies] = if operation.starts_with("Poll") {
        ["temporal_long_request", "temporal_long_request_failure", "temporal_long_request_latency_seconds"]
    } else {
        ["temporal_request", "temporal_request_failure", "temporal_request_latency_seconds"]
    };
    metrics.count(requests, &labels);
    metrics.observe(latencies, &labels, took);
    if let Some(code) = failed {
        let code = format!("{code:?}");
        metrics.count(failures, &[("namespace", namespace), ("operation", operation), ("status_code", &code)]);
    }
}
