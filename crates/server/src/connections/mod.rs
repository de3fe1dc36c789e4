//! Connections: accepts them, speaks HTTP/2 on each, and hands every request to its service.
//!
//! A task for each connection reads and writes ([`socket`]); HTTP/2 itself is the machine in `segno-http2`, which that
//! task shares with the tasks that answer calls ([`line`]). The calls that come in numbers go straight to their method
//! ([`methods`]), all others the general way through tonic ([`general`]); which is which is decided in [`incoming`].
//! Why it is not hyper any more: docs/decisions/014.

mod general;
mod incoming;
mod line;
mod methods;
mod packing;
mod socket;

use std::{pin::pin, sync::Arc, time::Duration};

use segno_http2::Settings;
use segno_proto::workflowservice::workflow_service_server::WorkflowServiceServer;
use segno_runtime::Node;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinSet,
    time::Instant,
};
use tonic::service::Routes;

use self::{
    incoming::{Calls, GivenUp},
    line::Line,
    socket::Socket,
};
use crate::{delivery::UnderWay, grpc::Workflows, peers::Peer};

/// Where the calls of workers and clients go.
pub(crate) const WORKFLOW_SERVICE: &str = "temporal.api.workflowservice.v1.WorkflowService";
/// Largest request; Temporal's limit as well.
pub(crate) const MESSAGE_BYTES_MAX: usize = 4 * 1024 * 1024;
const SETTINGS: Settings = Settings {
    connection_window: 1 << 22,
    stream_window: 1 << 20,
    // A worker may wait for very many tasks at once.
    streams_max: 1 << 16,
    headers_max: 64 * 1024,
};
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
    pub(crate) direct: Arc<Workflows>,
    /// The same, for calls that take the general way.
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

/// Serves until `stopped` says so, then until every connection is closed.
pub(crate) async fn serve(listener: TcpListener, services: Services, mut stopped: watch::Receiver<bool>) {
    let services = Arc::new(services);
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
async fn speak(stream: TcpStream, services: Arc<Services>, stopped: watch::Receiver<bool>) {
    // Answers are small and awaited; if the system refuses, they only come later.
    let _ = stream.set_nodelay(true);
    // Tells the node at the end, however that comes.
    let peer = Peer::new(services.node.clone());
    let line = Arc::new(Line::new(SETTINGS));
    let mut watch = tokio::spawn(watch_over(line.clone(), stopped));
    // Ends with this call.
    let _watch = GivenUp(watch.abort_handle());
    let calls = Calls::new(services, line.clone(), peer.id());
    tokio::select! {
        biased;
        ended = Socket::new(stream, line, calls) => if let Err(error) = ended {
            tracing::debug!(%error, "a connection broke off");
        },
        _ = &mut watch => tracing::debug!("a peer does not answer and is given up"),
    }
}

/// Asks a silent peer whether it is there, and says goodbye when the server stops. Done when the peer does not answer.
async fn watch_over(line: Arc<Line>, mut stopped: watch::Receiver<bool>) {
    let mut stop = pin!(said(&mut stopped));
    // When it was asked, and not heard since.
    let mut asked = None;
    loop {
        let until = asked.map_or(line.heard() + SILENCE_MAX, |asked| asked + PING_PATIENCE);
        tokio::select! {
            () = &mut stop => {
                line.say(|connection| connection.leave());
                return std::future::pending().await;
            }
            () = tokio::time::sleep_until(until) => {}
        }
        match asked {
            Some(asked) if line.heard() <= asked => return,
            None if line.heard().elapsed() >= SILENCE_MAX => {
                asked = Some(Instant::now());
                line.say(|connection| connection.ping());
            }
            _ => asked = None,
        }
    }
}
