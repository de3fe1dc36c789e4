//! What the machine gives: random bits, threads and TCP. Together with [`crate::system_time`] this is the only place of a
//! node that asks the operating system.

#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

use std::{io, net::SocketAddr, time::Duration};

use tokio::net::{TcpListener, TcpStream};

use crate::environment::{Connection, Listener, Network, NetworkFuture, Random, Threads};

/// Random bits of the operating system.
pub(crate) struct MachineRandom;

impl Random for MachineRandom {
    fn fill(&self, bytes: &mut [u8]) -> io::Result<()> {
        getrandom::fill(bytes).map_err(|error| io::Error::other(error.to_string()))
    }
}

/// Threads of this process.
pub(crate) struct MachineThreads;

impl MachineThreads {
    pub(crate) fn cores() -> usize {
        std::thread::available_parallelism().map_or(2, usize::from)
    }
}

impl Threads for MachineThreads {
    fn spawn(&self, name: &'static str, work: Box<dyn FnOnce() + Send>) -> io::Result<()> {
        std::thread::Builder::new().name(name.to_owned()).spawn(work).map(drop)
    }

    fn sleep(&self, duration: Duration) {
        std::thread::sleep(duration);
    }
}

/// TCP without Nagle's algorithm.
pub(crate) struct Tcp;

fn connected(stream: TcpStream) -> io::Result<Connection> {
    stream.set_nodelay(true)?;
    Ok(Box::new(stream))
}

impl Network for Tcp {
    fn connect<'a>(&'a self, address: &'a str) -> NetworkFuture<'a, Connection> {
        Box::pin(async move { connected(TcpStream::connect(address).await?) })
    }

    fn listen(&self, address: SocketAddr) -> NetworkFuture<'_, Box<dyn Listener>> {
        Box::pin(async move {
            let listener: Box<dyn Listener> = Box::new(TcpListener::bind(address).await?);
            Ok(listener)
        })
    }
}

impl Listener for TcpListener {
    fn accept(&self) -> NetworkFuture<'_, Connection> {
        Box::pin(async { connected(TcpListener::accept(self).await?.0) })
    }

    fn address(&self) -> io::Result<SocketAddr> {
        self.local_addr()
    }
}
