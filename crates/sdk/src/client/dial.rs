//! Connections to the address of a host.

use std::{io, time::Duration};

use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::net::TcpStream;

/// How long an address of a name has before the next one is tried, too.
const NEXT_ADDRESS: Duration = Duration::from_millis(300);

/// The name or address of a host without the brackets that an IPv6 address has in a URI.
pub(super) fn without_brackets(host: &str) -> &str {
    host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
}

/// Connects to the first address that answers. One that does not answer does not keep the others from being tried.
pub(super) async fn dial(host: impl tokio::net::ToSocketAddrs) -> io::Result<TcpStream> {
    let mut addresses = tokio::net::lookup_host(host).await?.collect::<Vec<_>>().into_iter();
    let mut attempts = FuturesUnordered::new();
    let mut failed = None;
    loop {
        attempts.extend(addresses.next().map(TcpStream::connect));
        tokio::select! {
            biased;
            Some(made) = attempts.next() => match made {
                Ok(stream) => return Ok(stream),
                Err(error) => failed = Some(error),
            },
            _ = tokio::time::sleep(NEXT_ADDRESS), if addresses.len() > 0 => {}
            else => return Err(failed.unwrap_or_else(|| io::Error::other("the name has no address"))),
        }
    }
}
