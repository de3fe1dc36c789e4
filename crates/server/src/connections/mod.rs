//! Connections: accepts them, speaks HTTP/2 on each, and hands every request to its service.
//!
//! [`accept`] limits their number. A task for each connection reads and writes ([`socket`]); HTTP/2 itself is the state
//! machine in `segno-http2`, which that task shares with the tasks that handle calls ([`shared`]). Calls in the table
//! take a direct path to their handler ([`methods`]), all others, and malformed ones, the general path through tonic ([`general`]);
//! which one is decided in [`incoming`]. When there are too many at once, namespaces get fair shares
//! ([`fair_share`]). Why it is not hyper: docs/internals/decisions/014.

pub(crate) mod accept;
mod compression;
mod fair_share;
mod general;
mod incoming;
mod malformed;
mod methods;
pub(crate) mod request;
mod services;
mod shared;
mod socket;

use std::{net::IpAddr, pin::pin, sync::Arc, time::Duration};

use rustls::pki_types::CertificateDer;
use segno_http2::{Connection, Settings, SharedBudget};
use tokio::{net::TcpListener, sync::watch, time::Instant};

pub(crate) use fair_share::FairShare;
pub(crate) use incoming::AbortOnDrop;
pub(crate) use services::Services;

use self::{
    accept::{Evictable, EvictionScope, PortConnections},
    incoming::{Dispatcher, REFUSALS},
    shared::SharedConnection,
    socket::Socket,
};
use crate::{
    peers::Peer,
    security::{
        AuthenticationState,
        tls::{Protocol, Stream, Tls},
        tls_mistakes,
    },
};

const CONNECTION_WINDOW: u32 = 1 << 22;
const STREAM_WINDOW: u32 = 1 << 20;
const HEADER_LIST_BYTES_MAX: u32 = 64 * 1024;
/// How long a peer may take for the connection preface.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// A peer that is silent this long is sent a PING. A process that stands still does not acknowledge it.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(15);
/// A peer that does not acknowledge it is gone. Long enough that a machine under load is not taken for a dead one.
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(20);
/// How long a shutdown waits for the peer to acknowledge the first GOAWAY.
const GOAWAY_TIMEOUT: Duration = Duration::from_secs(1);
/// Where callers have to authenticate: a connection without an authenticated call for so long is closed. Health probes connect again.
const UNAUTHENTICATED_TIMEOUT: Duration = Duration::from_secs(60);
/// How often it is looked whether the certificate of a client is still accepted.
const CERTIFICATE_INTERVAL: Duration = Duration::from_secs(60);
/// How long calls under way on a connection that must end may take.
const LAST_CALLS_TIMEOUT: Duration = Duration::from_secs(5);

/// How much clients may ask of a server at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// gRPC connections. Fewer if the process may not have so many files open.
    pub connections_max: usize,
    /// Calls on one connection (SETTINGS_MAX_CONCURRENT_STREAMS).
    pub streams_max: u32,
    /// Bytes of requests and responses under way on one connection.
    pub connection_bytes_max: usize,
    /// The same on all connections together.
    pub total_bytes_max: usize,
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        Self { connections_max: 16_384, streams_max: 4_096, connection_bytes_max: 64 << 20, total_bytes_max: 512 << 20 }
    }
}

impl ConnectionLimits {
    fn settings(self) -> Settings {
        Settings {
            connection_window: CONNECTION_WINDOW,
            stream_window: STREAM_WINDOW,
            streams_max: self.streams_max,
            header_list_bytes_max: HEADER_LIST_BYTES_MAX,
            held_bytes_max: self.connection_bytes_max,
        }
    }
}

/// Serves until `stopped` is true, then until every connection is closed.
pub(crate) async fn serve(
    listener: TcpListener,
    services: Services,
    limits: ConnectionLimits,
    tls: Option<Arc<Tls>>,
    mut stopped: watch::Receiver<bool>,
) {
    let services = Arc::new(services);
    let budget = Arc::new(SharedBudget::new(limits.total_bytes_max));
    let mut accepted = PortConnections::new("gRPC", limits.connections_max, EvictionScope::Handshakes);
    let until_stopped = stopped.clone();
    let mut stop = pin!(wait_for_stop(&mut stopped));
    loop {
        let (stream, address) = tokio::select! {
            accepted = accepted.next(&listener) => accepted,
            () = &mut stop => break,
        };
        let connection = Connection::new(limits.settings(), &REFUSALS, budget.clone());
        let (serving, tls) = ((services.clone(), until_stopped.clone()), tls.clone());
        accepted.spawn(address, |evictable| async move {
            Stream::set_nodelay(&stream);
            let stream = match &tls {
                None => Stream::Plain(stream),
                Some(tls) => match tls.accept(stream, Protocol::Grpc).await {
                    Ok(stream) => stream,
                    Err(error) => return tls_mistakes::note(&error),
                },
            };
            serve_connection((stream, address), connection, serving, tls, evictable).await;
        });
    }
    drop(listener);
    accepted.closed().await;
}

/// Waits until the server stops, or its handle is dropped.
async fn wait_for_stop(stopped: &mut watch::Receiver<bool>) {
    let _ = stopped.wait_for(|stopped| *stopped).await;
}

/// Serves one connection until it is closed.
async fn serve_connection(
    (stream, address): (Stream, IpAddr),
    connection: Connection<Dispatcher>,
    (services, stopped): (Arc<Services>, watch::Receiver<bool>),
    tls: Option<Arc<Tls>>,
    evictable: Evictable,
) {
    // Tells the node when dropped.
    let peer = Peer::new(services.node.clone());
    let connection = Arc::new(SharedConnection::new(connection));
    let authentication_state = AuthenticationState::default();
    let proofs = Proofs {
        authentication_state: services.security.authenticates().then(|| authentication_state.clone()),
        certificate: tls.zip(stream.certificates()),
    };
    let mut supervisor = tokio::spawn(supervise(connection.clone(), proofs, stopped));
    let _supervisor = AbortOnDrop(supervisor.abort_handle());
    let shown = (stream.certificate_subject(), Some(address));
    let dispatcher = Dispatcher::new(services, connection.clone(), peer.id(), shown, authentication_state);
    tokio::select! {
        biased;
        ended = Socket::new(stream, connection, dispatcher, evictable) => if let Err(error) = ended {
            tracing::debug!(%error, "a connection broke");
        },
        given_up = &mut supervisor => if let Ok(reason) = given_up {
            tracing::debug!("a connection is closed: {reason}");
        },
    }
}

/// The proofs of identity that a connection must keep showing.
struct Proofs {
    /// An authenticated caller has called.
    authentication_state: Option<AuthenticationState>,
    /// The certificate of the client is one that is accepted.
    certificate: Option<(Arc<Tls>, Vec<CertificateDer<'static>>)>,
}

impl Proofs {
    /// Waits until one of them is missing; says which.
    async fn missing(self) -> &'static str {
        let Self { authentication_state, certificate } = self;
        let stranger = async {
            tokio::time::sleep(UNAUTHENTICATED_TIMEOUT).await;
            if authentication_state.is_none_or(|authentication_state| authentication_state.is_known()) {
                std::future::pending::<()>().await;
            }
        };
        let outdated = async {
            let Some((tls, shown)) = certificate else { return std::future::pending().await };
            loop {
                tokio::time::sleep(CERTIFICATE_INTERVAL).await;
                if !tls.accepts(&shown) {
                    return;
                }
            }
        };
        tokio::select! {
            () = stranger => "no authenticated caller has called",
            () = outdated => "the certificate of the client is no longer accepted",
        }
    }
}

/// Enforces the time limits of a connection: handshake, keepalive, proofs of who calls, shutdown. Done, with the reason, when
/// the connection is to be closed.
async fn supervise(
    connection: Arc<SharedConnection>,
    proofs: Proofs,
    mut stopped: watch::Receiver<bool>,
) -> &'static str {
    let mut stop = pin!(wait_for_stop(&mut stopped));
    let mut missing = pin!(proofs.missing());
    let mut given_up = None;
    let accepted_at = Instant::now();
    // When an unacknowledged PING was sent.
    let mut pinged_at = None;
    loop {
        let is_established = connection.is_established();
        let until = match pinged_at {
            _ if !is_established => accepted_at + HANDSHAKE_TIMEOUT,
            Some(pinged_at) => pinged_at + KEEPALIVE_TIMEOUT,
            None => connection.last_active() + KEEPALIVE_INTERVAL,
        };
        tokio::select! {
            () = &mut stop => break,
            reason = &mut missing => {
                given_up = Some(reason);
                break;
            }
            () = tokio::time::sleep_until(until) => {}
        }
        if !is_established {
            if !connection.is_established() {
                return "no connection preface";
            }
            continue;
        }
        match pinged_at {
            Some(pinged_at) if connection.last_active() <= pinged_at => return "a PING was not acknowledged",
            None if connection.last_active().elapsed() >= KEEPALIVE_INTERVAL => {
                pinged_at = Some(Instant::now());
                connection.send(|connection| connection.ping());
            }
            _ => pinged_at = None,
        }
    }
    connection.send(|connection| connection.shut_down());
    tokio::time::sleep(GOAWAY_TIMEOUT).await;
    connection.send(|connection| connection.finish_shut_down());
    match given_up {
        Some(reason) => {
            tokio::time::sleep(LAST_CALLS_TIMEOUT).await;
            reason
        }
        None => std::future::pending().await,
    }
}
