//! [`Environment`]: what a node is given, so that it takes nothing from the machine itself
//! ([decision 041](../../../docs/internals/decisions/041-what-a-node-is-given.md)).
//!
//! Tasks, sleeps and time-outs are tokio's, because the runtime that executes the node is given, too: an
//! [`Instant`](tokio::time::Instant) follows its time, also if that is paused or simulated. What would not follow it comes
//! through here: the clock, random bits, threads and connections.

use std::{io, net::SocketAddr, pin::Pin, sync::Arc, time::Duration};

use tokio::io::{AsyncRead, AsyncWrite};

use crate::{
    clock::{Clock, SystemClock},
    machine::{MachineRandom, MachineThreads, Tcp},
};

/// Everything that a node would otherwise take from the machine.
#[derive(Clone)]
pub struct Environment {
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Random bits.
    pub random: Arc<dyn Random>,
    /// Threads; `None` if the runtime has to do everything, as in a simulation.
    pub threads: Option<Arc<dyn Threads>>,
    /// How much can be computed at the same time.
    pub cores: usize,
    /// Connections with other nodes.
    pub network: Arc<dyn Network>,
}

impl Environment {
    /// The clock, the random numbers, the threads and the network of the machine.
    pub fn of_machine() -> Self {
        Self::with_clock(Arc::new(SystemClock))
    }

    /// Those of the machine, with another clock: that of a database, or one that jumps.
    pub fn with_clock(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            random: Arc::new(MachineRandom),
            threads: Some(Arc::new(MachineThreads)),
            cores: MachineThreads::cores(),
            network: Arc::new(Tcp),
        }
    }
}

/// A source of random bits that no client can predict, unless it is simulated.
pub trait Random: Send + Sync + 'static {
    /// Fills bytes.
    fn fill(&self, bytes: &mut [u8]) -> io::Result<()>;

    /// 64 bits.
    fn bits(&self) -> io::Result<u64> {
        let mut bytes = [0; 8];
        self.fill(&mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }
}

/// Starts threads.
pub trait Threads: Send + Sync + 'static {
    /// Does work on a thread of its own.
    fn spawn(&self, name: &'static str, work: Box<dyn FnOnce() + Send>) -> io::Result<()>;

    /// Lets such a thread sleep.
    fn sleep(&self, duration: Duration);
}

/// The future of a trait object.
pub type NetworkFuture<'a, T> = Pin<Box<dyn Future<Output = io::Result<T>> + Send + 'a>>;

/// A connection between two nodes.
pub type Connection = Box<dyn Duplex>;

/// A stream that can be read and written.
pub trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// Connections between nodes.
pub trait Network: Send + Sync + 'static {
    /// Connects to an address, which may be a name with a port.
    fn connect<'a>(&'a self, address: &'a str) -> NetworkFuture<'a, Connection>;

    /// Takes connections at an address from now on.
    fn listen(&self, address: SocketAddr) -> NetworkFuture<'_, Box<dyn Listener>>;
}

/// Takes connections of other nodes.
pub trait Listener: Send + Sync {
    /// The next connection.
    fn accept(&self) -> NetworkFuture<'_, Connection>;

    /// Where it listens.
    fn address(&self) -> io::Result<SocketAddr>;
}
