//! Connections from other nodes: answers requests and receives one-way messages until the connection breaks.

use std::{
    io,
    sync::{Arc, Mutex, Weak},
};

use segno_dispatch::Delivery;
use segno_environment::{
    environment::{Connection, Listener},
    hash::HashMap,
    lock::lock,
};
use segno_store::cluster::{Member, NodeId};
use tokio::{
    io::BufReader,
    task::{AbortHandle, JoinSet},
};
use tokio_rustls::TlsAcceptor;

use super::{
    encryption,
    endpoint::Endpoint,
    frames::{FRAMES_BYTES_MAX, Outgoing, read_some, write_frames},
    handshake::{Side, proof, receive_hello, refused, send_hello},
    link::{HANDSHAKE_MAX, RETRY_DELAY},
    wire::{
        Empty, Frame, FrameBody, Hello, Notification, Offer, PROTOCOL, Request, RequestBody, Response, ResponseBody,
    },
};

/// Connections of other nodes, those that have not shown the secret yet included.
const CONNECTIONS_MAX: usize = 512;

/// Carries out the requests of other nodes.
pub(super) trait RequestHandler: Send + Sync + 'static {
    /// Takes an offered task, which needs no waiting. Gives the response, and whether it may be sent lazily.
    fn take_offer(&self, offer: Offer) -> (ResponseBody, bool);

    /// Answers a request. The task that the response carries is given back unless the requester says that it was delivered.
    fn respond(
        self: Arc<Self>,
        from: NodeId,
        request: Request,
    ) -> impl Future<Output = (ResponseBody, Option<Delivery>)> + Send;

    /// A one-way message.
    fn notified(self: &Arc<Self>, notification: Notification);

    /// The newest connection of a node broke.
    fn disconnected(&self, from: NodeId);
}

/// Takes connections of other nodes until the node is gone.
pub(super) async fn accept<H: RequestHandler>(
    listener: Box<dyn Listener>,
    acceptor: TlsAcceptor,
    endpoint: Arc<Endpoint>,
    handler: Weak<H>,
) {
    // They end with this.
    let mut serving = JoinSet::new();
    loop {
        while serving.try_join_next().is_some() || serving.len() >= CONNECTIONS_MAX {
            if serving.len() >= CONNECTIONS_MAX {
                serving.join_next().await;
            }
        }
        let stream = match listener.accept().await {
            Ok(stream) => stream,
            Err(error) => {
                tracing::warn!(%error, "a connection of another node was not accepted");
                tokio::time::sleep(RETRY_DELAY).await;
                continue;
            }
        };
        if handler.strong_count() == 0 {
            return;
        }
        let (acceptor, endpoint, handler) = (acceptor.clone(), endpoint.clone(), handler.clone());
        serving.spawn(async move {
            if let Err(error) = serve(stream, &acceptor, &endpoint, handler).await {
                tracing::debug!(%error, "a connection of another node ended");
            }
        });
    }
}

/// The requests of a connection that are being answered, and the tasks that their responses hold.
#[derive(Default)]
struct UnderWay {
    requests: HashMap<u64, AbortHandle>,
    held: HashMap<u64, Delivery>,
}

/// Ends the requests of a broken connection and gives back the tasks that it held.
struct EndOnDrop(Arc<Mutex<UnderWay>>);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        let serving = std::mem::take(&mut *lock(&self.0));
        serving.requests.into_values().for_each(|task| task.abort());
    }
}

/// Whether a certificate is that of a node. One that this node has not heard of yet is looked for in the database.
async fn is_of(endpoint: &Endpoint, from: NodeId, certificate: &[u8]) -> bool {
    let membership = &endpoint.topology.membership;
    let (mut seen, mut map) = membership.map();
    while map.member(from).is_none() {
        membership.check_map();
        (seen, map) = membership.next_map(seen).await;
    }
    map.member(from).is_some_and(|member| member.certificate == certificate)
}

async fn serve<H: RequestHandler>(
    stream: Connection,
    acceptor: &TlsAcceptor,
    endpoint: &Endpoint,
    handler: Weak<H>,
) -> io::Result<()> {
    let (me, secret) = (endpoint.topology.me, &endpoint.secret);
    let late = |_| io::Error::from(io::ErrorKind::TimedOut);
    let cleartext = endpoint.topology.map().members.iter().any(Member::speaks_in_the_clear);
    let accepted = encryption::accept(acceptor, stream, cleartext);
    let (stream, certificate) = tokio::time::timeout(HANDSHAKE_MAX, accepted).await.map_err(late)??;
    let (read, mut write) = tokio::io::split(stream);
    let mut read = BufReader::new(read);
    let handshake = async {
        let theirs = receive_hello(&mut read).await?;
        let (from, challenge) = (NodeId(theirs.node), endpoint.random.bits()?);
        if theirs.to != me.0 {
            return Err(refused("it looks for another node"));
        }
        let challenges = (theirs.challenge, challenge);
        let shown = proof(secret, Side::Accepting, challenges, from, me);
        let mine = Hello { node: me.0, protocol: PROTOCOL, challenge, proof: shown, to: from.0 };
        send_hello(&mut write, mine).await?;
        let expected = proof(secret, Side::Dialling, challenges, from, me);
        if receive_hello(&mut read).await?.proof != expected {
            return Err(refused("it does not know the secret of this cluster"));
        }
        // Peers must present the secret before this node queries the database for them.
        if !is_of(endpoint, from, &certificate).await {
            return Err(refused("its certificate is not that of the node that it says it is"));
        }
        Ok(from)
    };
    let from =
        tokio::time::timeout(HANDSHAKE_MAX, handshake).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))?;
    let (frames, receiver) = Outgoing::new();
    let traffic = endpoint.traffic_with(from);
    let writing = write_frames(write, receiver, &frames.backlog, &traffic, false);
    let serving = Arc::new(Mutex::new(UnderWay::default()));
    let _ended = EndOnDrop(serving.clone());
    let reading = async {
        loop {
            // A requester that does not read its responses waits.
            frames.backlog.room().await;
            let (received, bytes) = read_some(&mut read, FRAMES_BYTES_MAX).await?;
            traffic.received(received.frames.len(), bytes);
            let Some(handler) = handler.upgrade() else { return Ok(()) };
            for Frame { id, body } in received.frames {
                match body {
                    // Without a task of its own.
                    Some(FrameBody::Request(Request { body: Some(RequestBody::Offer(offer)) })) => {
                        let (body, is_lazy) = handler.take_offer(offer);
                        let response = FrameBody::Response(Response { held: false, body: Some(body) });
                        if is_lazy { frames.send_lazily(id, response) } else { frames.send(id, response) }
                    }
                    Some(FrameBody::Request(request)) => respond(&handler, from, &serving, &frames, id, request),
                    Some(FrameBody::Delivered(_)) => {
                        if let Some(held) = lock(&serving).held.remove(&id) {
                            held.delivered();
                        }
                    }
                    Some(FrameBody::Cancel(_)) => {
                        let mut serving = lock(&serving);
                        let (request, held) = (serving.requests.remove(&id), serving.held.remove(&id));
                        drop(serving);
                        if let Some(task) = request {
                            task.abort();
                        }
                        drop(held);
                    }
                    Some(FrameBody::Notification(notification)) => handler.notified(notification),
                    Some(FrameBody::Ping(_)) => frames.send(0, FrameBody::Pong(Empty {})),
                    _ => {}
                }
            }
        }
    };
    // Only this connection carries what that node says of its workers.
    let number = endpoint.number_incoming(from);
    let ended = tokio::select! {
        biased;
        ended = writing => ended,
        ended = reading => ended,
    };
    if endpoint.is_newest_incoming(from, number)
        && let Some(handler) = handler.upgrade()
    {
        handler.disconnected(from);
    }
    ended
}

/// Answers a request in a task of its own.
fn respond<H: RequestHandler>(
    handler: &Arc<H>,
    from: NodeId,
    serving: &Arc<Mutex<UnderWay>>,
    frames: &Outgoing,
    id: u64,
    request: Request,
) {
    let (handler, frames, under_way) = (handler.clone(), frames.clone(), serving.clone());
    // Held while the task is registered, so that it cannot end before.
    let mut registered = lock(serving);
    let task = tokio::spawn(async move {
        let (body, delivery) = handler.respond(from, request).await;
        let mut serving = lock(&under_way);
        if serving.requests.remove(&id).is_none() {
            // Withdrawn meanwhile: dropping the delivery gives back what it holds.
            return;
        }
        let held = delivery.is_some();
        if let Some(delivery) = delivery {
            serving.held.insert(id, delivery);
        }
        drop(serving);
        frames.send(id, FrameBody::Response(Response { held, body: Some(body) }));
    });
    registered.requests.insert(id, task.abort_handle());
}
