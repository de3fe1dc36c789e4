//! Accepting connections, up to a limit, so that no port takes all file descriptors of the process.
//!
//! At the limit a new connection replaces another one. On the gRPC port that is the oldest whose handshake is not
//! complete or, with authentication, without a call of an authenticated caller; if there is none, the new one is
//! closed.
//!
//! On the HTTP port one is always closed, so that a health probe gets through: connections of unauthenticated callers
//! first, idle ones before those with a request under way, those of the address with the most connections before
//! others, and then the least recently used. Authenticated callers cannot take the last few places, so there are always
//! unauthenticated connections that can be closed for new ones. Calls that wait for a worker of Nexus have places of their own.

use std::{
    cmp::Reverse,
    future::Future,
    io,
    net::IpAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use segno_store::lock::lock;
use tokio::{
    net::{TcpListener, TcpStream},
    task::{AbortHandle, JoinSet},
    time::Instant,
};

/// Pause after an error of the process or system, such as too many open files: some may be closed by then.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Refused connections are logged this often at most.
const LOG_INTERVAL: Duration = Duration::from_secs(10);
/// File descriptors for everything but gRPC connections: the store, the HTTP port, the runtime.
const RESERVED_DESCRIPTORS: usize = 192;
/// However few file descriptors there are, so many connections are tried.
const CONNECTIONS_MIN: usize = 16;
/// Requests that wait for a worker take at most this part of the file descriptors for connections.
const WAITING_SHARE: usize = 4;
/// How often other connections are served before one of them is closed.
const YIELDS_MAX: usize = 16;

/// Which connections make room for a new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EvictionScope {
    /// Only such whose handshake is not complete, or whose caller is not known: the oldest of them.
    Handshakes,
    /// Any, in an order; known callers have at most so many connections. So many more, whose requests wait for a worker, have places
    /// of their own.
    Ranked { known_max: usize, waiting_max: usize },
}

/// A connection as its port knows it.
#[derive(Debug)]
struct AcceptedConnection {
    number: u64,
    /// `None` until it is served.
    task: Option<AbortHandle>,
    address: IpAddr,
    /// The caller is known.
    is_known: bool,
    /// A request is under way.
    is_busy: bool,
    /// The request waits for a worker.
    is_waiting: bool,
    used_at: Instant,
}

impl AcceptedConnection {
    fn is_open(&self) -> bool {
        self.task.as_ref().is_none_or(|task| !task.is_finished())
    }

    /// Whether it has a place of its own.
    fn has_own_place(&self) -> bool {
        self.is_waiting && self.is_open()
    }
}

/// The connections of a port, oldest first, including some that are closed. On the gRPC port only those that may make room.
type AcceptedConnections = Arc<Mutex<Vec<AcceptedConnection>>>;

/// The first of these connections to make room.
fn first_to_go(places: &[AcceptedConnection], among: impl Fn(&AcceptedConnection) -> bool) -> Option<&AbortHandle> {
    let open = || places.iter().filter(|place| place.is_open() && !place.is_waiting);
    let of_address = |address| open().filter(|place| place.address == address).count();
    let rank = |place: &&AcceptedConnection| {
        (place.is_known, place.is_busy, Reverse(of_address(place.address)), place.used_at)
    };
    open().filter(|place| among(place)).min_by_key(rank)?.task.as_ref()
}

/// The place of a connection among those of its port. The connection says here what may keep it from making room.
#[derive(Clone, Debug)]
pub(crate) struct Evictable {
    number: u64,
    evicting: EvictionScope,
    places: AcceptedConnections,
}

impl Evictable {
    /// The handshake is complete, and the caller is known if it has to be.
    pub(crate) fn established(&self) {
        let mut places = lock(&self.places);
        let Some(at) = self.find(&places) else { return };
        let EvictionScope::Ranked { known_max, .. } = self.evicting else {
            // It never makes room.
            places.remove(at);
            return;
        };
        places[at].is_known = true;
        if places.iter().filter(|place| place.is_known && place.is_open() && !place.is_waiting).count() > known_max
            && let Some(task) = first_to_go(&places, |place| place.is_known && place.number != self.number)
        {
            task.abort();
        }
    }

    /// A request begins.
    pub(crate) fn busy(&self) {
        self.change(|place| (place.is_busy, place.used_at) = (true, Instant::now()));
    }

    /// Its request was read and waits for a worker.
    pub(crate) fn waits(&self) {
        let EvictionScope::Ranked { waiting_max, .. } = self.evicting else { return };
        let mut places = lock(&self.places);
        let has_room = places.iter().filter(|place| place.has_own_place()).count() < waiting_max;
        if let Some(at) = self.find(&places).filter(|_| has_room) {
            places[at].is_waiting = true;
        }
    }

    /// It was answered.
    pub(crate) fn idle(&self) {
        self.change(|place| (place.is_busy, place.is_waiting, place.used_at) = (false, false, Instant::now()));
    }

    fn change(&self, change: impl FnOnce(&mut AcceptedConnection)) {
        let mut places = lock(&self.places);
        if let Some(at) = self.find(&places) {
            change(&mut places[at]);
        }
    }

    fn find(&self, places: &[AcceptedConnection]) -> Option<usize> {
        places.binary_search_by_key(&self.number, |place| place.number).ok()
    }
}

/// The connections of one port.
pub(crate) struct PortConnections {
    name: &'static str,
    connections_max: usize,
    evicting: EvictionScope,
    tasks: JoinSet<()>,
    next_number: u64,
    places: AcceptedConnections,
    logged_at: Option<Instant>,
}

impl PortConnections {
    pub(crate) fn new(name: &'static str, connections_max: usize, evicting: EvictionScope) -> Self {
        let descriptors = descriptors_for_connections().unwrap_or(usize::MAX);
        let connections_max = connections_max.min(descriptors).max(1);
        let evicting = match evicting {
            EvictionScope::Handshakes => evicting,
            EvictionScope::Ranked { known_max, waiting_max } => {
                EvictionScope::Ranked { known_max, waiting_max: waiting_max.min(descriptors / WAITING_SHARE) }
            }
        };
        let (tasks, places) = (JoinSet::new(), AcceptedConnections::default());
        Self { name, connections_max, evicting, tasks, next_number: 0, places, logged_at: None }
    }

    /// Accepts the next connection for which there is room. May be cancelled.
    pub(crate) async fn next(&mut self, listener: &TcpListener) -> (TcpStream, IpAddr) {
        loop {
            let accepted = tokio::select! {
                biased;
                Some(_) = self.tasks.join_next() => continue,
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, address)) if self.has_room() || self.gets_room().await || self.evict().await => {
                    return (stream, address.ip());
                }
                Ok(_) => self.log("there are as many connections as allowed"),
                // The peer is gone already; nothing is wrong here.
                Err(error) if is_of_peer(&error) => {}
                Err(error) => {
                    self.log(&error.to_string());
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    /// Whether there may be one more.
    fn has_room(&self) -> bool {
        let own_places = match self.evicting {
            EvictionScope::Handshakes => 0,
            EvictionScope::Ranked { .. } => lock(&self.places).iter().filter(|place| place.has_own_place()).count(),
        };
        self.tasks.len().saturating_sub(own_places) < self.connections_max
    }

    /// Whether there is room once the requests that have arrived are read: those that wait for a worker have places of their own.
    async fn gets_room(&self) -> bool {
        for _ in 0..YIELDS_MAX {
            tokio::task::yield_now().await;
            if self.has_room() {
                return true;
            }
        }
        false
    }

    /// Serves a connection from an address in a task of its own.
    pub(crate) fn spawn<F: Future<Output = ()> + Send + 'static>(
        &mut self,
        address: IpAddr,
        serve: impl FnOnce(Evictable) -> F,
    ) {
        self.next_number += 1;
        let number = self.next_number;
        let used_at = Instant::now();
        let (is_known, is_busy, is_waiting) = (false, false, false);
        let place = AcceptedConnection { number, task: None, address, is_known, is_busy, is_waiting, used_at };
        {
            let mut places = lock(&self.places);
            if places.len() >= 2 * self.connections_max {
                places.retain(AcceptedConnection::is_open);
            }
            places.push(place);
        }
        let evictable = Evictable { number, evicting: self.evicting, places: self.places.clone() };
        let task = self.tasks.spawn(serve(evictable));
        if let Some(place) = lock(&self.places).last_mut().filter(|place| place.number == number) {
            place.task = Some(task);
        }
    }

    /// Waits until all connections are closed.
    pub(crate) async fn closed(mut self) {
        while self.tasks.join_next().await.is_some() {}
    }

    /// Closes the first connection that makes room, if there is one.
    async fn evict(&mut self) -> bool {
        let task = {
            let mut places = lock(&self.places);
            match self.evicting {
                EvictionScope::Handshakes => {
                    let oldest = places.iter().position(AcceptedConnection::is_open);
                    oldest.and_then(|oldest| places.drain(..=oldest).next_back()).and_then(|place| place.task)
                }
                EvictionScope::Ranked { .. } => first_to_go(&places, |_| true).cloned(),
            }
        };
        let Some(task) = task else { return false };
        self.log("another one makes room");
        task.abort();
        // Its file descriptor is free when its task is gone.
        self.tasks.join_next().await;
        true
    }

    fn log(&mut self, reason: &str) {
        if self.logged_at.is_none_or(|logged_at| logged_at.elapsed() >= LOG_INTERVAL) {
            self.logged_at = Some(Instant::now());
            let (port, open, allowed) = (self.name, self.tasks.len(), self.connections_max);
            tracing::warn!(port, open, allowed, "a connection was not accepted or closed early: {reason}");
        }
    }
}

/// Whether an error of accept concerns only the connection that was to be accepted.
fn is_of_peer(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}

/// How many connections the limit of open files leaves room for, where it can be read.
fn descriptors_for_connections() -> Option<usize> {
    let limits = std::fs::read_to_string("/proc/self/limits").ok()?;
    let files: usize =
        limits.lines().find_map(|line| line.strip_prefix("Max open files"))?.split_whitespace().next()?.parse().ok()?;
    Some(files.saturating_sub(RESERVED_DESCRIPTORS).max(CONNECTIONS_MIN))
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use tokio::io::AsyncReadExt;

    use super::*;

    async fn listener() -> (TcpListener, std::net::SocketAddr) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
        let address = listener.local_addr().expect("an address");
        (listener, address)
    }

    /// Keeps a connection open until it is evicted.
    async fn hold(stream: TcpStream) {
        let _stream = stream;
        std::future::pending().await
    }

    #[tokio::test]
    async fn at_the_limit_the_oldest_without_a_handshake_makes_room() {
        let (listener, address) = listener().await;
        let mut accepted = PortConnections::new("test", 2, EvictionScope::Handshakes);
        let mut clients = Vec::new();
        for number in 0..2 {
            clients.push(TcpStream::connect(address).await.expect("connects"));
            let (stream, from) = accepted.next(&listener).await;
            accepted.spawn(from, |evictable| {
                if number == 0 {
                    evictable.established();
                }
                hold(stream)
            });
        }
        // Takes the place of the second; the first is established.
        clients.push(TcpStream::connect(address).await.expect("connects"));
        let (stream, from) = accepted.next(&listener).await;
        accepted.spawn(from, |evictable| {
            evictable.established();
            hold(stream)
        });
        assert_eq!(clients[1].read(&mut [0]).await.expect("closed"), 0);
        assert_eq!(accepted.tasks.len(), 2);
        // Now none makes room.
        let mut late = TcpStream::connect(address).await.expect("connects");
        let mut byte = [0];
        let closed = tokio::select! {
            _ = accepted.next(&listener) => panic!("there is no room"),
            read = late.read(&mut byte) => read,
        };
        assert!(closed.is_err() || closed.is_ok_and(|bytes| bytes == 0));
    }

    #[tokio::test]
    async fn closed_connections_leave_nothing_behind() {
        let (listener, address) = listener().await;
        let mut accepted = PortConnections::new("test", 4, EvictionScope::Ranked { known_max: 3, waiting_max: 2 });
        for _ in 0..100 {
            let _client = TcpStream::connect(address).await.expect("connects");
            let (stream, from) = accepted.next(&listener).await;
            accepted.spawn(from, |_| async move { drop(stream) });
            tokio::task::yield_now().await;
        }
        assert!(lock(&accepted.places).len() <= 8 && accepted.tasks.len() <= 4);
    }

    /// Connections of a port, by the names of their clients, without sockets.
    struct Port {
        accepted: PortConnections,
        connections: Vec<(&'static str, Evictable)>,
    }

    impl Port {
        fn new(connections_max: usize, known_max: usize) -> Self {
            let accepted =
                PortConnections::new("test", connections_max, EvictionScope::Ranked { known_max, waiting_max: 2 });
            Self { accepted, connections: Vec::new() }
        }

        /// A client connects from an address; another one makes room if there is none.
        async fn connect(&mut self, name: &'static str, address: u8) -> Evictable {
            if !self.accepted.has_room() {
                assert!(self.accepted.evict().await, "there is always one");
            }
            self.accepted.spawn(IpAddr::from([192, 0, 2, address]), |evictable| {
                self.connections.push((name, evictable));
                std::future::pending()
            });
            self.connections.last().expect("it was pushed").1.clone()
        }

        /// The clients whose connections are open.
        async fn open(&mut self) -> Vec<&'static str> {
            tokio::task::yield_now().await;
            while self.accepted.tasks.try_join_next().is_some() {}
            let places = lock(&self.accepted.places);
            let is_open = |number| places.iter().any(|place| place.number == number && place.is_open());
            self.connections.iter().filter(|(_, it)| is_open(it.number)).map(|(name, _)| *name).collect()
        }
    }

    #[tokio::test]
    async fn strangers_make_room_for_strangers_and_the_idle_ones_first() {
        let mut port = Port::new(4, 3);
        for name in ["poll 1", "poll 2"] {
            let known = port.connect(name, 1).await;
            known.busy();
            known.established();
        }
        port.connect("busy stranger", 2).await.busy();
        port.connect("idle stranger", 3).await;
        port.connect("third stranger", 4).await.busy();
        assert_eq!(port.open().await, ["poll 1", "poll 2", "busy stranger", "third stranger"]);
        for _ in 0..100 {
            port.connect("flood", 9).await;
        }
        let open = port.open().await;
        assert_eq!(open[..2], ["poll 1", "poll 2"], "a known caller's request is not cut by strangers: {open:?}");
    }

    #[tokio::test]
    async fn the_address_with_the_most_connections_makes_room() {
        let mut port = Port::new(6, 5);
        port.connect("first", 1).await.busy();
        for _ in 0..20 {
            port.connect("flood", 9).await.busy();
        }
        port.connect("second", 2).await.busy();
        let open = port.open().await;
        assert_eq!(open, ["first", "flood", "flood", "flood", "flood", "second"]);
    }

    #[tokio::test]
    async fn known_callers_leave_places_for_others() {
        let mut port = Port::new(4, 3);
        for (name, address) in [("a 1", 1), ("a 2", 1), ("b", 2), ("a 3", 1)] {
            let known = port.connect(name, address).await;
            known.busy();
            known.established();
        }
        assert_eq!(port.open().await, ["a 2", "b", "a 3"], "the oldest of the address with the most");
        port.connect("probe", 5).await;
        assert_eq!(port.open().await, ["a 2", "b", "a 3", "probe"]);
    }

    #[tokio::test]
    async fn requests_that_wait_have_places_of_their_own() {
        let mut port = Port::new(4, 3);
        for name in ["wait 1", "wait 2", "wait 3"] {
            let caller = port.connect(name, 1).await;
            caller.busy();
            caller.waits();
        }
        for _ in 0..20 {
            port.connect("flood", 9).await;
        }
        let open = port.open().await;
        assert_eq!(open[..3], ["wait 1", "wait 2", "wait 3"], "two have places of their own: {open:?}");
        assert_eq!(open.len(), 6, "{open:?}");
        port.connections[0].1.idle();
        port.connect("flood", 9).await;
        port.connect("flood", 9).await;
        let open = port.open().await;
        assert_eq!(open[..3], ["wait 1", "wait 2", "wait 3"], "the address with the most makes room: {open:?}");
        assert_eq!(open.len(), 6, "one makes room for each new one, although the first counts again: {open:?}");
    }

    #[test]
    fn the_limit_of_open_files_is_known() {
        if cfg!(target_os = "linux") {
            assert!(descriptors_for_connections().is_some_and(|count| count >= CONNECTIONS_MIN));
        }
    }
}
