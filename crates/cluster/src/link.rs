//! Links: each node dials each other one and sends requests on that connection; responses come back on it.
//!
//! What holds: a request is sent at most once; one whose connection broke after it was sent is
//! [`RequestError::Broken`], and whether it was carried out is unknown. The responding side keeps the task of a
//! response until the other side confirms that the worker has it; if the connection breaks first, the task is returned.

use std::{
    io,
    sync::{
        Arc, Mutex, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use segno_dispatch::RemoteHold;
use segno_environment::{hash::HashMap, lock::lock};
use segno_store::cluster::{Member, NodeId};
use tokio::{
    io::BufReader,
    sync::{oneshot, watch},
    task::AbortHandle,
    time::Instant,
};

use super::{
    endpoint::{Endpoint, Traffic},
    frames::{FRAMES_BYTES_MAX, Outgoing, Reading, Writing, read_some, write_frames},
    handshake::{Side, proof, receive_hello, refused, send_hello},
    wire::{Empty, Frame, FrameBody, Hello, Notification, PROTOCOL, Request, Response, ResponseBody},
};

pub(super) const HANDSHAKE_MAX: Duration = Duration::from_secs(3);
pub(super) const RETRY_DELAY: Duration = Duration::from_millis(100);
/// How long a request waits for a connection that is being made.
const CONNECT_WAIT: Duration = Duration::from_secs(1);

/// Why a request has no response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestError {
    /// It was not sent: nothing was done.
    NotSent,
    /// It was sent, and the connection broke.
    Broken,
    /// Time is up. The other node hears that the request is withdrawn.
    TimedOut,
}

/// A response, and the task that the other node holds for it.
#[derive(Debug)]
pub(super) struct NodeResponse {
    pub(super) body: ResponseBody,
    pub(super) held: Option<PeerHold>,
}

/// A task on its way to a worker, which another node gives back unless it hears that it was delivered.
#[derive(Debug)]
pub(super) struct PeerHold {
    frames: Outgoing,
    id: u64,
    is_delivered: bool,
    is_lazy: bool,
}

impl PeerHold {
    /// Lets the news of the delivery wait for other frames: no task is given out twice if it never arrives.
    pub(super) fn lazily(mut self) -> Self {
        self.is_lazy = true;
        self
    }
}

impl RemoteHold for PeerHold {
    fn delivered(mut self: Box<Self>) {
        self.is_delivered = true;
    }
}

impl Drop for PeerHold {
    fn drop(&mut self) {
        match (self.is_delivered, self.is_lazy) {
            (true, true) => self.frames.send_lazily(self.id, FrameBody::Delivered(Empty {})),
            (true, false) => self.frames.send(self.id, FrameBody::Delivered(Empty {})),
            (false, _) => self.frames.send(self.id, FrameBody::Cancel(Empty {})),
        }
    }
}

/// The state of the link to another node, for metrics.
#[derive(Clone, Copy, Debug)]
pub struct LinkMetrics {
    /// The other node.
    pub node: NodeId,
    /// Whether it can be reached.
    pub is_open: bool,
    /// Whether the connection is encrypted; it is not with a node of a version that could not.
    pub is_encrypted: bool,
    /// Frames that wait to be sent to it.
    pub frames_waiting: usize,
    /// Their bytes.
    pub bytes_waiting: usize,
    /// Requests without a response.
    pub requests: usize,
    /// Frames sent.
    pub frames_sent: u64,
    /// Bytes sent, before encryption.
    pub bytes_sent: u64,
    /// Writes of frames: how many frames share one shows how well they are gathered.
    pub writes: u64,
    /// Frames received.
    pub frames_received: u64,
    /// Bytes received.
    pub bytes_received: u64,
    /// How often the connection was made.
    pub connections: u64,
}

/// Requests without a response, on one connection.
type Pending = Arc<Mutex<Option<HashMap<u64, oneshot::Sender<Response>>>>>;

/// A connection that is open.
#[derive(Clone, Debug)]
struct Open {
    frames: Outgoing,
    pending: Pending,
}

/// The connection to another node, made again whenever it breaks.
pub(super) struct Link {
    pub(super) node: NodeId,
    pub(super) address: String,
    open: watch::Sender<Option<Open>>,
    next_id: AtomicU64,
    dialling: Mutex<Option<AbortHandle>>,
    is_encrypted: bool,
    traffic: Arc<Traffic>,
}

impl Drop for Link {
    fn drop(&mut self) {
        if let Some(dialling) = lock(&self.dialling).take() {
            dialling.abort();
        }
    }
}

/// Withdraws a request whose future is dropped.
struct UnderWay<'a> {
    open: &'a Open,
    id: u64,
    done: bool,
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        if !self.done {
            if let Some(pending) = lock(&self.open.pending).as_mut() {
                pending.remove(&self.id);
            }
            self.open.frames.send(self.id, FrameBody::Cancel(Empty {}));
        }
    }
}

impl Link {
    /// A link to a node. It is connected by [`keep_connected`].
    pub(super) fn new(member: &Member, traffic: Arc<Traffic>) -> Arc<Self> {
        Arc::new(Self {
            node: member.id,
            address: member.address.clone(),
            open: watch::channel(None).0,
            next_id: AtomicU64::new(1),
            dialling: Mutex::default(),
            is_encrypted: !member.speaks_in_the_clear(),
            traffic,
        })
    }

    /// The task that keeps it connected; it ends when the link is dropped.
    pub(super) fn set_dialling(&self, dialling: AbortHandle) {
        *lock(&self.dialling) = Some(dialling);
    }

    pub(super) fn is_open(&self) -> bool {
        self.open.borrow().is_some()
    }

    pub(super) fn metrics(&self) -> LinkMetrics {
        let open = self.open.borrow().clone();
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let waiting = open.as_ref().map(|open| &open.frames.backlog);
        LinkMetrics {
            node: self.node,
            is_open: open.is_some(),
            is_encrypted: self.is_encrypted,
            frames_waiting: waiting.map_or(0, |waiting| waiting.frames.load(Ordering::Relaxed)),
            bytes_waiting: waiting.map_or(0, |waiting| waiting.bytes.load(Ordering::Relaxed)),
            requests: open.as_ref().map_or(0, |open| lock(&open.pending).as_ref().map_or(0, HashMap::len)),
            frames_sent: read(&self.traffic.frames_sent),
            bytes_sent: read(&self.traffic.bytes_sent),
            writes: read(&self.traffic.writes),
            frames_received: read(&self.traffic.frames_received),
            bytes_received: read(&self.traffic.bytes_received),
            connections: read(&self.traffic.connections),
        }
    }

    /// Sends a one-way message, if the node can be reached.
    pub(super) fn notify(&self, notification: Notification) {
        if let Some(open) = &*self.open.borrow()
            && !open.frames.is_full()
        {
            open.frames.send(0, FrameBody::Notification(notification));
        }
    }

    /// Sends a request and waits for the response.
    pub(super) async fn request(&self, request: Request, deadline: Instant) -> Result<NodeResponse, RequestError> {
        let mut opened = self.open.subscribe();
        let wait = deadline.min(Instant::now() + CONNECT_WAIT);
        let open = match tokio::time::timeout_at(wait, opened.wait_for(Option::is_some)).await {
            Ok(Ok(open)) => open.clone(),
            _ => None,
        };
        let Some(open) = open.filter(|open| !open.frames.is_full()) else { return Err(RequestError::NotSent) };
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let (sender, response) = oneshot::channel();
        match lock(&open.pending).as_mut() {
            Some(pending) => pending.insert(id, sender),
            None => return Err(RequestError::NotSent),
        };
        open.frames.send(id, FrameBody::Request(request));
        let mut under_way = UnderWay { open: &open, id, done: false };
        match tokio::time::timeout_at(deadline, response).await {
            Ok(Ok(Response { held, body: Some(body) })) => {
                under_way.done = true;
                let held =
                    held.then(|| PeerHold { frames: open.frames.clone(), id, is_delivered: false, is_lazy: false });
                Ok(NodeResponse { body, held })
            }
            Ok(Ok(Response { .. })) => {
                under_way.done = true;
                Ok(NodeResponse {
                    body: ResponseBody::Failed("the node does not know this request".to_owned()),
                    held: None,
                })
            }
            Ok(Err(_)) => {
                under_way.done = true;
                Err(RequestError::Broken)
            }
            Err(_) => Err(RequestError::TimedOut),
        }
    }
}

/// Receives the calls of a link.
pub(super) trait LinkHandler: Send + Sync + 'static {
    /// Another node can be reached.
    fn connected(&self, to: NodeId);
}

/// Dials until the link is dropped.
pub(super) async fn keep_connected<H: LinkHandler>(handler: Weak<H>, endpoint: Arc<Endpoint>, link: Weak<Link>) {
    let mut was_open = false;
    loop {
        let Some(this) = link.upgrade() else { return };
        let (address, to) = (this.address.clone(), this.node);
        let traffic = this.traffic.clone();
        drop(this);
        match dial(&endpoint, to, &address).await {
            Ok((read, write)) => {
                let (frames, receiver) = Outgoing::new();
                let pending: Pending = Arc::new(Mutex::new(Some(HashMap::default())));
                let open = Open { frames: frames.clone(), pending: pending.clone() };
                let Some(this) = link.upgrade() else { return };
                this.open.send_replace(Some(open));
                was_open = true;
                drop(this);
                tracing::info!(node = to.0, address, "connected to another node");
                match handler.upgrade() {
                    Some(handler) => handler.connected(to),
                    None => return,
                }
                traffic.connections.fetch_add(1, Ordering::Relaxed);
                let writing = write_frames(write, receiver, &frames.backlog, &traffic, true);
                let reading = read_responses(read, &pending, &traffic);
                let why = tokio::select! {
                    biased;
                    ended = writing => ended,
                    ended = reading => ended,
                };
                // Requests that wait for a response fail.
                lock(&pending).take();
                let Some(this) = link.upgrade() else { return };
                this.open.send_replace(None);
                tracing::warn!(node = to.0, "the connection to another node broke: {:?}", why.err());
            }
            Err(error) => {
                // An address that never worked says nothing.
                if error.kind() == io::ErrorKind::ConnectionRefused && was_open {
                    endpoint.topology.membership.suspect(to);
                }
                tracing::debug!(node = to.0, %error, "another node cannot be reached");
            }
        }
        tokio::time::sleep(RETRY_DELAY).await;
    }
}

async fn dial(endpoint: &Endpoint, to: NodeId, address: &str) -> io::Result<(Reading, Writing)> {
    let (secret, me) = (&endpoint.secret, endpoint.topology.me);
    let identity = endpoint.identity.as_ref().ok_or_else(|| refused("this node has no certificate"))?;
    let map = endpoint.topology.map();
    let member = map.member(to).ok_or_else(|| refused("the database does not name it"))?;
    let dialled = async {
        let stream = endpoint.network.connect(address).await?;
        let (read, mut write) = tokio::io::split(identity.connect(stream, &member.certificate).await?);
        let mut read = BufReader::new(read);
        let challenge = endpoint.random.bits()?;
        send_hello(&mut write, Hello { node: me.0, protocol: PROTOCOL, challenge, proof: 0, to: to.0 }).await?;
        let theirs = receive_hello(&mut read).await?;
        let challenges = (challenge, theirs.challenge);
        if theirs.node != to.0 || theirs.proof != proof(secret, Side::Accepting, challenges, me, to) {
            return Err(refused("it is not the node that the database names"));
        }
        let proof = proof(secret, Side::Dialling, challenges, me, to);
        send_hello(&mut write, Hello { node: me.0, protocol: PROTOCOL, challenge: 0, proof, to: to.0 }).await?;
        Ok((read, write))
    };
    tokio::time::timeout(HANDSHAKE_MAX, dialled).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

async fn read_responses(mut read: Reading, pending: &Pending, traffic: &Traffic) -> io::Result<()> {
    loop {
        let (frames, bytes) = read_some(&mut read, FRAMES_BYTES_MAX).await?;
        traffic.received(frames.frames.len(), bytes);
        for Frame { id, body } in frames.frames {
            let Some(FrameBody::Response(response)) = body else { continue };
            let waiting = lock(pending).as_mut().and_then(|pending| pending.remove(&id));
            // The request of a response without a receiver was withdrawn.
            if let Some(waiting) = waiting {
                let _ = waiting.send(response);
            }
        }
    }
}
