//! Connections: accepts them, speaks HTTP/2 on each, and hands every request to its service.
//!
//! The transport that comes with tonic would do the same, through a router and half a dozen wrappers around every
//! request and every body. Here a request goes straight to the service its path names (docs/decisions/012).

use std::{
    convert::Infallible,
    future::Future,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use http::{Request, Response};
use hyper::{body::Incoming, server::conn::http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use segno_proto::workflowservice::workflow_service_server::WorkflowServiceServer;
use segno_runtime::Node;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinSet,
};
use tonic::{body::Body, service::Routes};
use tower::Service;

use crate::{
    delivery::{OneCall, UnderWay, WatchedBody},
    grpc::Workflows,
    peers::{Number, Peer},
    unbuilt,
};

/// Where the calls of workers and clients go.
pub(crate) const WORKFLOW_SERVICE: &str = "temporal.api.workflowservice.v1.WorkflowService";
/// Says how a request is compressed, if it is.
const ENCODING: &str = "grpc-encoding";
const STREAM_WINDOW: u32 = 1 << 20;
const CONNECTION_WINDOW: u32 = 1 << 22;
/// A peer that is silent this long is asked whether it is still there. A process that stands still does not answer.
const SILENCE_MAX: Duration = Duration::from_secs(15);
/// A peer that does not answer that is gone. Long enough that a machine under load is not taken for a dead one.
const PING_PATIENCE: Duration = Duration::from_secs(20);
/// Out of file descriptors, most likely: some may be free again soon.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What answers requests.
#[derive(Clone)]
pub(crate) struct Services {
    /// The service nearly all calls are for.
    pub(crate) workflows: WorkflowServiceServer<Workflows>,
    /// The same, with compressed answers: for who sends compressed requests.
    pub(crate) compressing: WorkflowServiceServer<Workflows>,
    /// All others.
    pub(crate) others: Routes,
    /// Calls under way.
    pub(crate) under_way: UnderWay,
    /// Whom to tell when a connection is gone.
    pub(crate) node: Arc<Node>,
}

/// What answers the requests of one connection.
struct Answers {
    services: Services,
    peer: Number,
}

/// Serves until `stopped` says so, then until every connection is closed.
pub(crate) async fn serve(listener: TcpListener, services: Services, mut stopped: watch::Receiver<bool>) {
    let mut connections = JoinSet::new();
    let told = stopped.clone();
    let mut stop = pin!(said(&mut stopped));
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = connections.join_next() => continue,
            () = &mut stop => break,
        };
        match accepted {
            Ok((stream, _)) => {
                connections.spawn(speak(stream, services.clone(), told.clone()));
            }
            Err(error) => {
                tracing::warn!(%error, "a gRPC connection was not accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

/// Waits for the word to stop; nobody left to say it counts as said.
async fn said(stopped: &mut watch::Receiver<bool>) {
    let _ = stopped.wait_for(|stopped| *stopped).await;
}

/// One connection, to its end.
async fn speak(stream: TcpStream, services: Services, mut stopped: watch::Receiver<bool>) {
    // Answers are small and awaited; if the system refuses, they only come later.
    let _ = stream.set_nodelay(true);
    let mut transport = http2::Builder::new(TokioExecutor::new());
    transport
        .timer(TokioTimer::new())
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_concurrent_streams(None)
        .keep_alive_interval(SILENCE_MAX)
        .keep_alive_timeout(PING_PATIENCE);
    // Tells the node at the end, however that comes.
    let peer = Peer::new(services.node.clone());
    let answers = Answers { services, peer: peer.number() };
    let mut connection = pin!(transport.serve_connection(TokioIo::new(stream), answers));
    let ended = tokio::select! {
        biased;
        ended = &mut connection => ended,
        () = said(&mut stopped) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection broke off");
    }
}

impl hyper::service::Service<Request<Incoming>> for Answers {
    type Response = Response<WatchedBody<Body>>;
    type Error = Infallible;
    type Future = Answering;

    fn call(&self, mut request: Request<Incoming>) -> Answering {
        let services = &self.services;
        let call = Some(services.under_way.one_more());
        request.extensions_mut().insert(self.peer);
        let path = request.uri().path();
        let answer: Answer = match unbuilt::refusal(path) {
            Some(refusal) => Box::pin(std::future::ready(Ok(refusal))),
            None if is_for_workflows(path) => {
                match request.headers().get(ENCODING).is_some_and(|encoding| encoding == "gzip") {
                    true => services.compressing.clone().call(request),
                    false => services.workflows.clone().call(request),
                }
            }
            None => Box::pin(services.others.clone().call(request)),
        };
        Answering { answer, call }
    }
}

fn is_for_workflows(path: &str) -> bool {
    path.strip_prefix('/')
        .and_then(|rest| rest.strip_prefix(WORKFLOW_SERVICE))
        .is_some_and(|call| call.starts_with('/'))
}

type Answer = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

/// A request on its way to its answer.
pub(crate) struct Answering {
    answer: Answer,
    call: Option<OneCall>,
}

impl Future for Answering {
    type Output = Result<Response<WatchedBody<Body>>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Ok(response) = ready!(self.answer.as_mut().poll(context));
        let Some(call) = self.call.take() else { return Poll::Pending };
        Poll::Ready(Ok(WatchedBody::of(unbuilt::as_temporal_says(response), call)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_told_apart() {
        assert!(is_for_workflows("/temporal.api.workflowservice.v1.WorkflowService/GetSystemInfo"));
        assert!(!is_for_workflows("/temporal.api.workflowservice.v1.WorkflowServiceTwo/GetSystemInfo"));
        assert!(!is_for_workflows("/temporal.api.operatorservice.v1.OperatorService/ListClusters"));
        assert!(!is_for_workflows("/"));
    }
}
