//! Connections between nodes. Each node dials each other one and asks on that connection; answers come back on it.
//!
//! A frame that waits is sent with all others that wait, so that under load a write carries many; one that nobody waits for
//! is sent with the next one. What an answer holds for a
//! worker is kept by the answering side until the asker says `Written`; a connection that breaks gives it back.
//!
//! What holds: a question is sent at most once; one whose connection broke after it was sent is [`AskError::Broken`], and
//! whether it was carried out is unknown.

use std::{
    collections::HashMap,
    hash::Hasher,
    io,
    pin::pin,
    sync::{
        Arc, Mutex, Weak,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use prost::Message;
use segno_store::cluster::{Member, NodeId};
use siphasher::sip::SipHasher24;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, BufReader, ReadHalf, WriteHalf},
    net::{TcpListener, TcpStream},
    sync::{Notify, mpsc, oneshot, watch},
    task::{AbortHandle, JoinSet},
    time::Instant,
};
use tokio_rustls::TlsAcceptor;

use super::Cluster;
use super::encryption::{self, Channel};
use super::wire::{Answer, Ask, Frame, Frames, Hello, News, Nothing, PROTOCOL, Question, Reply, Said};
use crate::{dispatch::Delivery, runs::Runs, slots::lock};

/// The largest write that is accepted: a request of 4 MiB many times over.
const FRAMES_BYTES_MAX: usize = 128 << 20;
/// Frames are written together up to this size.
const WRITE_BYTES: usize = 1 << 20;
/// Frames in one write.
const FRAMES_MAX: usize = 256;
/// Frames that may wait for a connection, and their bytes, before questions are refused and none are taken.
const WAITING_MAX: usize = 16_384;
const WAITING_BYTES_MAX: usize = 64 << 20;
/// How long a frame may wait for others that nobody waits for.
const LAZY_MAX: Duration = Duration::from_millis(10);
const PING: Duration = Duration::from_secs(1);
/// A connection on which nothing came for so long is broken.
const SILENCE_MAX: Duration = Duration::from_secs(3);
const DIAL_MAX: Duration = Duration::from_secs(3);
const DIAL_AGAIN: Duration = Duration::from_millis(100);
/// Connections of other nodes, those that have not shown the secret yet included.
const CONNECTIONS_MAX: usize = 512;
/// How long a question waits for a connection that is being made.
const CONNECT_WAIT: Duration = Duration::from_secs(1);

/// Why a question has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AskError {
    /// It was not sent: nothing was done.
    NotSent,
    /// It was sent, and the connection broke.
    Broken,
    /// Time is up. Whoever was asked is told.
    TimedOut,
}

/// An answer, and what is held for it elsewhere.
#[derive(Debug)]
pub struct Answered {
    pub reply: Reply,
    pub held: Option<RemoteHold>,
}

/// Something on its way to a worker that another node gives back unless it is told that it arrived.
#[derive(Debug)]
pub struct RemoteHold {
    frames: Outgoing,
    id: u64,
    arrived: bool,
    lazy: bool,
}

impl RemoteHold {
    /// The worker has it.
    pub fn written(mut self) {
        self.arrived = true;
    }

    /// That the worker has it may be told with something else: nothing is given out twice if it is never told.
    pub fn lazily(mut self) -> Self {
        self.lazy = true;
        self
    }
}

impl Drop for RemoteHold {
    fn drop(&mut self) {
        match (self.arrived, self.lazy) {
            (true, true) => self.frames.send_lazily(self.id, Said::Written(Nothing {})),
            (true, false) => self.frames.send(self.id, Said::Written(Nothing {})),
            (false, _) => self.frames.send(self.id, Said::GiveUp(Nothing {})),
        }
    }
}

/// A frame that waits.
struct Waiting {
    frame: Frame,
    length: usize,
    /// It may wait for others.
    lazy: bool,
}

/// Where frames of one connection go.
#[derive(Clone, Debug)]
struct Outgoing {
    frames: mpsc::UnboundedSender<Waiting>,
    backlog: Arc<Backlog>,
}

/// How much waits to be written.
#[derive(Debug, Default)]
struct Backlog {
    frames: AtomicUsize,
    bytes: AtomicUsize,
    /// Something was written.
    shrank: Notify,
}

impl Backlog {
    fn is_full(&self) -> bool {
        self.frames.load(Ordering::Relaxed) >= WAITING_MAX || self.bytes.load(Ordering::Relaxed) >= WAITING_BYTES_MAX
    }

    /// Waits until more may wait.
    async fn room(&self) {
        while self.is_full() {
            let shrank = self.shrank.notified();
            // It may have been written meanwhile.
            if self.is_full() {
                shrank.await;
            }
        }
    }

    fn wrote(&self, frames: usize, bytes: usize) {
        self.frames.fetch_sub(frames, Ordering::Relaxed);
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.shrank.notify_waiters();
    }
}

impl Outgoing {
    fn new() -> (Self, mpsc::UnboundedReceiver<Waiting>) {
        let (frames, receiver) = mpsc::unbounded_channel();
        (Self { frames, backlog: Arc::default() }, receiver)
    }

    fn is_full(&self) -> bool {
        self.backlog.is_full()
    }

    /// A connection that is gone needs to hear nothing.
    fn send(&self, id: u64, said: Said) {
        self.put(id, said, false);
    }

    /// Sends something that nobody waits for: with the next frame, or after [`LAZY_MAX`].
    fn send_lazily(&self, id: u64, said: Said) {
        self.put(id, said, true);
    }

    fn put(&self, id: u64, said: Said, lazy: bool) {
        let frame = Frame { id, said: Some(said) };
        let length = frame.encoded_len();
        self.backlog.frames.fetch_add(1, Ordering::Relaxed);
        self.backlog.bytes.fetch_add(length, Ordering::Relaxed);
        let _ = self.frames.send(Waiting { frame, length, lazy });
    }
}

/// What went over the connections with another node since this one started, in both directions.
#[derive(Debug, Default)]
pub(super) struct Traffic {
    frames_sent: AtomicU64,
    bytes_sent: AtomicU64,
    writes: AtomicU64,
    frames_received: AtomicU64,
    bytes_received: AtomicU64,
    connections: AtomicU64,
}

impl Traffic {
    fn sent(&self, frames: usize, bytes: usize) {
        self.frames_sent.fetch_add(frames as u64, Ordering::Relaxed);
        self.bytes_sent.fetch_add(bytes as u64, Ordering::Relaxed);
        self.writes.fetch_add(1, Ordering::Relaxed);
    }

    fn received(&self, frames: usize, bytes: usize) {
        self.frames_received.fetch_add(frames as u64, Ordering::Relaxed);
        self.bytes_received.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

/// The state of the link to another node, for people.
#[derive(Clone, Copy, Debug)]
pub struct LinkFigures {
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
    /// Questions that it has not answered.
    pub questions: usize,
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

/// Questions without an answer, on one connection.
type Pending = Arc<Mutex<Option<HashMap<u64, oneshot::Sender<Answer>>>>>;

/// A connection that is open.
#[derive(Clone, Debug)]
struct Open {
    frames: Outgoing,
    pending: Pending,
}

/// The way to another node.
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

/// Withdraws a question whose asker leaves.
struct Asking<'a> {
    open: &'a Open,
    id: u64,
    done: bool,
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        if !self.done {
            if let Some(pending) = lock(&self.open.pending).as_mut() {
                pending.remove(&self.id);
            }
            self.open.frames.send(self.id, Said::GiveUp(Nothing {}));
        }
    }
}

impl Link {
    /// A way to a node, which is dialled from now on until this is dropped.
    pub(super) fn new(local: &Arc<Runs>, member: &Member, traffic: Arc<Traffic>) -> Arc<Self> {
        let link = Arc::new(Self {
            node: member.id,
            address: member.address.clone(),
            open: watch::channel(None).0,
            next_id: AtomicU64::new(1),
            dialling: Mutex::default(),
            is_encrypted: !member.speaks_in_the_clear(),
            traffic,
        });
        let dialling = keep_connected(Arc::downgrade(local), Arc::downgrade(&link));
        *lock(&link.dialling) = Some(local.supervise_to_its_end("the link to another node", dialling));
        link
    }

    pub(super) fn is_open(&self) -> bool {
        self.open.borrow().is_some()
    }

    pub(super) fn figures(&self) -> LinkFigures {
        let open = self.open.borrow().clone();
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let waiting = open.as_ref().map(|open| &open.frames.backlog);
        LinkFigures {
            node: self.node,
            is_open: open.is_some(),
            is_encrypted: self.is_encrypted,
            frames_waiting: waiting.map_or(0, |waiting| waiting.frames.load(Ordering::Relaxed)),
            bytes_waiting: waiting.map_or(0, |waiting| waiting.bytes.load(Ordering::Relaxed)),
            questions: open.as_ref().map_or(0, |open| lock(&open.pending).as_ref().map_or(0, HashMap::len)),
            frames_sent: read(&self.traffic.frames_sent),
            bytes_sent: read(&self.traffic.bytes_sent),
            writes: read(&self.traffic.writes),
            frames_received: read(&self.traffic.frames_received),
            bytes_received: read(&self.traffic.bytes_received),
            connections: read(&self.traffic.connections),
        }
    }

    /// Tells something, if the node can be reached.
    pub(super) fn tell(&self, news: News) {
        if let Some(open) = &*self.open.borrow()
            && !open.frames.is_full()
        {
            open.frames.send(0, Said::News(news));
        }
    }

    /// Asks something.
    pub(super) async fn ask(&self, ask: Ask, deadline: Instant) -> Result<Answered, AskError> {
        let mut opened = self.open.subscribe();
        let wait = deadline.min(Instant::now() + CONNECT_WAIT);
        let open = match tokio::time::timeout_at(wait, opened.wait_for(Option::is_some)).await {
            Ok(Ok(open)) => open.clone(),
            _ => None,
        };
        let Some(open) = open.filter(|open| !open.frames.is_full()) else { return Err(AskError::NotSent) };
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let (answer, answered) = oneshot::channel();
        match lock(&open.pending).as_mut() {
            Some(pending) => pending.insert(id, answer),
            None => return Err(AskError::NotSent),
        };
        open.frames.send(id, Said::Ask(ask));
        let mut asking = Asking { open: &open, id, done: false };
        match tokio::time::timeout_at(deadline, answered).await {
            Ok(Ok(Answer { held, reply: Some(reply) })) => {
                asking.done = true;
                let held = held.then(|| RemoteHold { frames: open.frames.clone(), id, arrived: false, lazy: false });
                Ok(Answered { reply, held })
            }
            Ok(Ok(Answer { .. })) => {
                asking.done = true;
                Ok(Answered { reply: Reply::Failed("the node does not know this question".to_owned()), held: None })
            }
            Ok(Err(_)) => {
                asking.done = true;
                Err(AskError::Broken)
            }
            Err(_) => Err(AskError::TimedOut),
        }
    }
}

/// Dials until nobody wants the link any more.
async fn keep_connected(local: Weak<Runs>, link: Weak<Link>) {
    let mut was_open = false;
    loop {
        let (Some(node), Some(this)) = (local.upgrade(), link.upgrade()) else { return };
        let (address, to) = (this.address.clone(), this.node);
        let Some(cluster) = node.cluster.clone() else { return };
        let traffic = this.traffic.clone();
        drop(this);
        match dial(&cluster, to, &address).await {
            Ok((read, write)) => {
                let (frames, receiver) = Outgoing::new();
                let pending: Pending = Arc::new(Mutex::new(Some(HashMap::new())));
                let open = Open { frames: frames.clone(), pending: pending.clone() };
                let Some(this) = link.upgrade() else { return };
                this.open.send_replace(Some(open));
                was_open = true;
                drop(this);
                tracing::info!(node = to.0, address, "connected to another node");
                node.link_opened(to);
                drop(node);
                traffic.connections.fetch_add(1, Ordering::Relaxed);
                let writing = write_frames(write, receiver, &frames.backlog, &traffic, true);
                let reading = read_answers(read, &pending, &traffic);
                let why = tokio::select! {
                    ended = writing => ended,
                    ended = reading => ended,
                };
                // Whoever waits for an answer hears that there will be none.
                lock(&pending).take();
                let Some(this) = link.upgrade() else { return };
                this.open.send_replace(None);
                tracing::warn!(node = to.0, "the connection to another node broke: {:?}", why.err());
            }
            Err(error) => {
                // An address that never worked says nothing.
                if error.kind() == io::ErrorKind::ConnectionRefused && was_open {
                    cluster.membership.suspect(to);
                }
                tracing::debug!(node = to.0, %error, "another node cannot be reached");
                drop(node);
            }
        }
        tokio::time::sleep(DIAL_AGAIN).await;
    }
}

/// Who shows that it knows the secret. Each side's proof is of no use to the other side.
#[derive(Clone, Copy)]
enum Side {
    Dialling,
    Accepting,
}

/// The challenges of both sides, the dialling one's first.
type Challenges = (u64, u64);

fn proof(secret: &[u8; 16], side: Side, challenges: Challenges, dialling: NodeId, accepting: NodeId) -> u64 {
    let mut hasher = SipHasher24::new_with_key(secret);
    hasher.write_u8(side as u8);
    hasher.write_u64(challenges.0);
    hasher.write_u64(challenges.1);
    hasher.write_u64(dialling.0);
    hasher.write_u64(accepting.0);
    hasher.finish()
}

fn refused(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, why.to_owned())
}

fn random() -> io::Result<u64> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(|error| io::Error::other(error.to_string()))?;
    Ok(u64::from_le_bytes(bytes))
}

type Reading = BufReader<ReadHalf<Channel>>;
type Writing = WriteHalf<Channel>;

async fn dial(cluster: &Cluster, to: NodeId, address: &str) -> io::Result<(Reading, Writing)> {
    let (secret, me) = (&cluster.secret, cluster.me);
    let identity = cluster.identity.as_ref().ok_or_else(|| refused("this node has no certificate"))?;
    let map = cluster.map();
    let member = map.member(to).ok_or_else(|| refused("the database does not name it any more"))?;
    let dialled = async {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let (read, mut write) = tokio::io::split(identity.connect(stream, &member.certificate).await?);
        let mut read = BufReader::new(read);
        let challenge = random()?;
        say_hello(&mut write, Hello { node: me.0, protocol: PROTOCOL, challenge, proof: 0, to: to.0 }).await?;
        let theirs = hear_hello(&mut read).await?;
        let challenges = (challenge, theirs.challenge);
        if theirs.node != to.0 || theirs.proof != proof(secret, Side::Accepting, challenges, me, to) {
            return Err(refused("it is not the node that the database names"));
        }
        let proof = proof(secret, Side::Dialling, challenges, me, to);
        say_hello(&mut write, Hello { node: me.0, protocol: PROTOCOL, challenge: 0, proof, to: to.0 }).await?;
        Ok((read, write))
    };
    tokio::time::timeout(DIAL_MAX, dialled).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

async fn say_hello(write: &mut Writing, hello: Hello) -> io::Result<()> {
    write_some(write, Frames { frames: vec![Frame { id: 0, said: Some(Said::Hello(hello)) }] }).await
}

async fn hear_hello(read: &mut Reading) -> io::Result<Hello> {
    let first = read_some(read, 4096).await?.0.frames.into_iter().next();
    match first.and_then(|frame| frame.said) {
        Some(Said::Hello(hello)) => Ok(hello),
        _ => Err(refused("it does not speak the protocol of nodes")),
    }
}

async fn write_some(write: &mut Writing, frames: Frames) -> io::Result<()> {
    let length = frames.encoded_len();
    let mut buffer = Vec::with_capacity(4 + length);
    buffer.extend_from_slice(&(length as u32).to_le_bytes());
    frames.encode_raw(&mut buffer);
    write.write_all(&buffer).await?;
    // What was encrypted may wait for the socket.
    write.flush().await
}

/// Frames that were written together, and their bytes.
async fn read_some(read: &mut Reading, bytes_max: usize) -> io::Result<(Frames, usize)> {
    let silent = |_| io::Error::from(io::ErrorKind::TimedOut);
    let length = tokio::time::timeout(SILENCE_MAX, read.read_u32_le()).await.map_err(silent)?? as usize;
    if length > bytes_max {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a write is too large"));
    }
    let mut buffer = vec![0; length];
    let mut filled = 0;
    while filled < length {
        // However long the whole takes: something must come.
        let part = tokio::time::timeout(SILENCE_MAX, read.read(&mut buffer[filled..])).await.map_err(silent)??;
        if part == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        filled += part;
    }
    // Bodies of calls share the buffer.
    let frames = Frames::decode(bytes::Bytes::from(buffer));
    let frames = frames.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
    Ok((frames, length))
}

/// Writes what waits until nobody can send any more. The asking side pings.
async fn write_frames(
    mut write: Writing,
    mut receiver: mpsc::UnboundedReceiver<Waiting>,
    backlog: &Backlog,
    traffic: &Traffic,
    pings: bool,
) -> io::Result<()> {
    let mut ping = tokio::time::interval(PING);
    let mut lazy = pin!(tokio::time::sleep(Duration::ZERO));
    let mut frames: Vec<Waiting> = Vec::new();
    loop {
        let before = frames.len();
        tokio::select! {
            received = receiver.recv_many(&mut frames, FRAMES_MAX) => {
                if received == 0 {
                    return Ok(());
                }
                let room = frames.len() < FRAMES_MAX;
                if room && frames[before..].iter().all(|waiting| waiting.lazy) {
                    if before == 0 {
                        lazy.as_mut().reset(Instant::now() + LAZY_MAX);
                    }
                    continue;
                }
                // Whoever else is about to say something gets the chance to share the write.
                tokio::task::yield_now().await;
                while frames.len() < 2 * FRAMES_MAX && let Ok(waiting) = receiver.try_recv() {
                    frames.push(waiting);
                }
            }
            () = lazy.as_mut(), if !frames.is_empty() => {}
            _ = ping.tick(), if pings => {
                frames.push(Waiting { frame: Frame { id: 0, said: Some(Said::Ping(Nothing {})) }, length: 0, lazy: false });
                backlog.frames.fetch_add(1, Ordering::Relaxed);
            }
        }
        // Large frames go one by one, so that no write is larger than what is accepted.
        let (mut some, mut bytes) = (Vec::with_capacity(frames.len()), 0);
        for Waiting { frame, length, .. } in frames.drain(..) {
            if bytes + length > WRITE_BYTES && !some.is_empty() {
                write_counted(&mut write, std::mem::take(&mut some), bytes, backlog, traffic).await?;
                bytes = 0;
            }
            bytes += length;
            some.push(frame);
        }
        write_counted(&mut write, some, bytes, backlog, traffic).await?;
    }
}

async fn write_counted(
    write: &mut Writing,
    frames: Vec<Frame>,
    bytes: usize,
    backlog: &Backlog,
    traffic: &Traffic,
) -> io::Result<()> {
    let count = frames.len();
    write_some(write, Frames { frames }).await?;
    traffic.sent(count, bytes);
    backlog.wrote(count, bytes);
    Ok(())
}

async fn read_answers(mut read: Reading, pending: &Pending, traffic: &Traffic) -> io::Result<()> {
    loop {
        let (frames, bytes) = read_some(&mut read, FRAMES_BYTES_MAX).await?;
        traffic.received(frames.frames.len(), bytes);
        for Frame { id, said } in frames.frames {
            let Some(Said::Answer(answer)) = said else { continue };
            let waiting = lock(pending).as_mut().and_then(|pending| pending.remove(&id));
            // An answer whose asker left was withdrawn already.
            if let Some(waiting) = waiting {
                let _ = waiting.send(answer);
            }
        }
    }
}

/// Takes connections of other nodes until the node is gone.
pub(crate) async fn accept(listener: TcpListener, acceptor: TlsAcceptor, node: Weak<Runs>) {
    // They end with this.
    let mut serving = JoinSet::new();
    loop {
        while serving.try_join_next().is_some() || serving.len() >= CONNECTIONS_MAX {
            if serving.len() >= CONNECTIONS_MAX {
                serving.join_next().await;
            }
        }
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "a connection of another node was not accepted");
                tokio::time::sleep(DIAL_AGAIN).await;
                continue;
            }
        };
        let Some(node) = node.upgrade() else { return };
        let acceptor = acceptor.clone();
        serving.spawn(async move {
            if let Err(error) = serve(stream, &acceptor, node).await {
                tracing::debug!(%error, "a connection of another node ended");
            }
        });
    }
}

/// What a connection of another node has under way.
#[derive(Default)]
struct Serving {
    asked: HashMap<u64, AbortHandle>,
    held: HashMap<u64, Delivery>,
}

/// Ends what a broken connection has under way, and with that gives back what it held.
struct EndOnDrop(Arc<Mutex<Serving>>);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        let serving = std::mem::take(&mut *lock(&self.0));
        serving.asked.into_values().for_each(|task| task.abort());
    }
}

/// Whether a certificate is that of a node. One that this node has not heard of yet is looked for in the database.
async fn is_of(cluster: &Cluster, from: NodeId, certificate: &[u8]) -> bool {
    let (mut seen, mut map) = cluster.membership.map();
    while map.member(from).is_none() {
        cluster.membership.look();
        (seen, map) = cluster.membership.next_map(seen).await;
    }
    map.member(from).is_some_and(|member| member.certificate == certificate)
}

async fn serve(stream: TcpStream, acceptor: &TlsAcceptor, node: Arc<Runs>) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let Some(cluster) = node.cluster.clone() else { return Ok(()) };
    let late = |_| io::Error::from(io::ErrorKind::TimedOut);
    let cleartext = cluster.map().members.iter().any(Member::speaks_in_the_clear);
    let accepted = encryption::accept(acceptor, stream, cleartext);
    let (stream, certificate) = tokio::time::timeout(DIAL_MAX, accepted).await.map_err(late)??;
    let (read, mut write) = tokio::io::split(stream);
    let mut read = BufReader::new(read);
    let handshake = async {
        let theirs = hear_hello(&mut read).await?;
        let (from, challenge) = (NodeId(theirs.node), random()?);
        if theirs.to != cluster.me.0 {
            return Err(refused("it looks for another node"));
        }
        let challenges = (theirs.challenge, challenge);
        let shown = proof(&cluster.secret, Side::Accepting, challenges, from, cluster.me);
        let mine = Hello { node: cluster.me.0, protocol: PROTOCOL, challenge, proof: shown, to: from.0 };
        say_hello(&mut write, mine).await?;
        let expected = proof(&cluster.secret, Side::Dialling, challenges, from, cluster.me);
        if hear_hello(&mut read).await?.proof != expected {
            return Err(refused("it does not know the secret of this cluster"));
        }
        // Only whoever knows the secret makes this node ask the database.
        if !is_of(&cluster, from, &certificate).await {
            return Err(refused("its certificate is not that of the node that it says it is"));
        }
        Ok(from)
    };
    let from =
        tokio::time::timeout(DIAL_MAX, handshake).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))?;
    let (frames, receiver) = Outgoing::new();
    let traffic = cluster.traffic_with(from);
    let writing = write_frames(write, receiver, &frames.backlog, &traffic, false);
    let serving = Arc::new(Mutex::new(Serving::default()));
    let _ended = EndOnDrop(serving.clone());
    let local = Arc::downgrade(&node);
    drop(node);
    let reading = async {
        loop {
            // Whoever asks more than it takes answers for waits.
            frames.backlog.room().await;
            let (received, bytes) = read_some(&mut read, FRAMES_BYTES_MAX).await?;
            traffic.received(received.frames.len(), bytes);
            let Some(node) = local.upgrade() else { return Ok(()) };
            for Frame { id, said } in received.frames {
                match said {
                    // It needs no waiting.
                    Some(Said::Ask(Ask { question: Some(Question::Offer(offer)) })) => {
                        let (reply, lazy) = node.take_offer(offer);
                        let answer = Said::Answer(Answer { held: false, reply: Some(reply) });
                        if lazy { frames.send_lazily(id, answer) } else { frames.send(id, answer) }
                    }
                    Some(Said::Ask(ask)) => answer(&node, from, &serving, &frames, id, ask),
                    Some(Said::Written(_)) => {
                        if let Some(held) = lock(&serving).held.remove(&id) {
                            held.delivered();
                        }
                    }
                    Some(Said::GiveUp(_)) => {
                        let mut serving = lock(&serving);
                        let (asked, held) = (serving.asked.remove(&id), serving.held.remove(&id));
                        drop(serving);
                        if let Some(task) = asked {
                            task.abort();
                        }
                        drop(held);
                    }
                    Some(Said::News(news)) => node.told(from, news),
                    Some(Said::Ping(_)) => frames.send(0, Said::Pong(Nothing {})),
                    _ => {}
                }
            }
        }
    };
    // What this node tells of its workers comes on this connection alone.
    let number = cluster.incoming_began(from);
    let ended = tokio::select! {
        ended = writing => ended,
        ended = reading => ended,
    };
    if cluster.is_newest_incoming(from, number)
        && let Some(node) = local.upgrade()
    {
        node.link_broke(from);
    }
    ended
}

/// Answers a question in a task of its own.
fn answer(node: &Arc<Runs>, from: NodeId, serving: &Arc<Mutex<Serving>>, frames: &Outgoing, id: u64, ask: Ask) {
    let (node, frames, under_way) = (node.clone(), frames.clone(), serving.clone());
    // Held while the task is registered, so that it cannot end before.
    let mut registered = lock(serving);
    let task = tokio::spawn(async move {
        let (reply, delivery) = node.asked(from, ask).await;
        let mut serving = lock(&under_way);
        if serving.asked.remove(&id).is_none() {
            // Withdrawn meanwhile: dropping the delivery gives back what it holds.
            return;
        }
        let held = delivery.is_some();
        if let Some(delivery) = delivery {
            serving.held.insert(id, delivery);
        }
        drop(serving);
        frames.send(id, Said::Answer(Answer { held, reply: Some(reply) }));
    });
    registered.asked.insert(id, task.abort_handle());
}
