//! Accepting connections, up to a limit, so that no port takes all file descriptors of the process.
//!
//! At the limit a new connection takes the place of the oldest one that may be evicted. On the gRPC port these are
//! connections whose handshake is not complete, and where callers have to be known those on which nobody was; a new one is closed at once if there is none; on the HTTP port all
//! are, so that a health probe gets through whatever the others do.

use std::{
    collections::VecDeque,
    future::Future,
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

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

/// Which connections make room for a new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Evicting {
    /// Only such whose handshake is not complete, or whose caller is not known.
    Handshakes,
    /// Any.
    All,
}

/// Whether a connection makes room for a new one.
#[derive(Clone, Debug)]
pub(crate) struct Evictable(Arc<AtomicBool>);

impl Evictable {
    /// The handshake is complete, and the caller is known if it has to be.
    pub(crate) fn established(&self) {
        self.0.store(false, Ordering::Relaxed);
    }

    fn get(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// The connections of one port.
pub(crate) struct Accepted {
    name: &'static str,
    connections_max: usize,
    evicting: Evicting,
    tasks: JoinSet<()>,
    /// Oldest first, including some that are closed or established.
    candidates: VecDeque<(AbortHandle, Evictable)>,
    logged_at: Option<Instant>,
}

impl Accepted {
    pub(crate) fn new(name: &'static str, connections_max: usize, evicting: Evicting) -> Self {
        let connections_max = connections_max.min(descriptors_for_connections().unwrap_or(usize::MAX)).max(1);
        let (tasks, candidates) = (JoinSet::new(), VecDeque::new());
        Self { name, connections_max, evicting, tasks, candidates, logged_at: None }
    }

    /// Accepts the next connection for which there is room. May be cancelled.
    pub(crate) async fn next(&mut self, listener: &TcpListener) -> TcpStream {
        loop {
            let accepted = tokio::select! {
                biased;
                Some(_) = self.tasks.join_next() => continue,
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, _)) if self.tasks.len() < self.connections_max || self.evict().await => return stream,
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

    /// Serves a connection in a task of its own.
    pub(crate) fn spawn<F: Future<Output = ()> + Send + 'static>(&mut self, serve: impl FnOnce(Evictable) -> F) {
        let evictable = Evictable(Arc::new(AtomicBool::new(true)));
        let task = self.tasks.spawn(serve(evictable.clone()));
        self.candidates.push_back((task, evictable));
        if self.candidates.len() > 2 * self.connections_max {
            self.candidates.retain(|(task, evictable)| evictable.get() && !task.is_finished());
        }
    }

    /// Waits until all connections are closed.
    pub(crate) async fn closed(mut self) {
        while self.tasks.join_next().await.is_some() {}
    }

    /// Closes the oldest connection that may be closed, if there is one.
    async fn evict(&mut self) -> bool {
        while let Some((task, evictable)) = self.candidates.pop_front() {
            if task.is_finished() || !evictable.get() {
                continue;
            }
            let reason = match self.evicting {
                Evicting::Handshakes => "one without a handshake or a known caller makes room",
                Evicting::All => "the oldest makes room",
            };
            self.log(reason);
            task.abort();
            // Its file descriptor is free when its task is gone.
            self.tasks.join_next().await;
            return true;
        }
        false
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
        let mut accepted = Accepted::new("test", 2, Evicting::Handshakes);
        let mut clients = Vec::new();
        for number in 0..2 {
            clients.push(TcpStream::connect(address).await.expect("connects"));
            let stream = accepted.next(&listener).await;
            accepted.spawn(|evictable| {
                if number == 0 {
                    evictable.established();
                }
                hold(stream)
            });
        }
        // Takes the place of the second; the first is established.
        clients.push(TcpStream::connect(address).await.expect("connects"));
        let stream = accepted.next(&listener).await;
        accepted.spawn(|evictable| {
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
        let mut accepted = Accepted::new("test", 4, Evicting::All);
        for _ in 0..100 {
            let _client = TcpStream::connect(address).await.expect("connects");
            let stream = accepted.next(&listener).await;
            accepted.spawn(|_| async move { drop(stream) });
            tokio::task::yield_now().await;
        }
        assert!(accepted.candidates.len() <= 8 && accepted.tasks.len() <= 4);
    }

    #[test]
    fn the_limit_of_open_files_is_known() {
        if cfg!(target_os = "linux") {
            assert!(descriptors_for_connections().is_some_and(|count| count >= CONNECTIONS_MIN));
        }
    }
}
