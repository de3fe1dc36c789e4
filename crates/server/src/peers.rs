//! Clients' connections, numbered, so that the node is told when one is closed, and what a call says of its caller.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use segno_runtime::{ConnectionId, Node};
use tonic::Request;

/// Numbers connections across all servers of a process.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// The protocol allows no more.
const TIMEOUT_DIGITS_MAX: usize = 8;

/// A client's connection. The node is told when it is dropped.
pub(crate) struct Peer {
    node: Arc<Node>,
    id: ConnectionId,
}

impl Peer {
    /// A connection that was just made.
    pub(crate) fn new(node: Arc<Node>) -> Self {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Self { id: ConnectionId(node.connection_prefix() | number), node }
    }

    /// What its requests carry.
    pub(crate) fn id(&self) -> ConnectionId {
        self.id
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.node.connection_closed(self.id);
    }
}

/// What a request says of its caller, besides the message.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CallMetadata {
    /// The connection that it came on.
    pub(crate) connection: Option<ConnectionId>,
    /// How long the caller waits (`grpc-timeout`).
    pub(crate) timeout: Option<Duration>,
    /// One of people's tools, not an SDK (`client-name`).
    pub(crate) is_tool: bool,
}

impl CallMetadata {
    /// Notes a header if it says something of the caller.
    pub(crate) fn field(&mut self, name: &[u8], value: &[u8]) {
        match name {
            b"grpc-timeout" => self.timeout = timeout(value),
            b"client-name" => self.is_tool = matches!(value, b"temporal-cli" | b"temporal-ui"),
            _ => {}
        }
    }

    /// Who sent a request.
    pub(crate) fn of<T>(request: &Request<T>) -> Self {
        request.extensions().get().copied().unwrap_or_default()
    }
}

/// The connection that a request came on.
pub(crate) fn of<T>(request: &Request<T>) -> Option<ConnectionId> {
    CallMetadata::of(request).connection
}

fn timeout(value: &[u8]) -> Option<Duration> {
    let (unit, digits) = value.split_last()?;
    if digits.len() > TIMEOUT_DIGITS_MAX {
        return None;
    }
    let amount: u64 = std::str::from_utf8(digits).ok()?.parse().ok()?;
    Some(match unit {
        b'H' => Duration::from_secs(amount.saturating_mul(3600)),
        b'M' => Duration::from_secs(amount.saturating_mul(60)),
        b'S' => Duration::from_secs(amount),
        b'm' => Duration::from_millis(amount),
        b'u' => Duration::from_micros(amount),
        b'n' => Duration::from_nanos(amount),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_have_units() {
        for (header, expected) in [("2S", 2000), ("1500m", 1500), ("1M", 60_000), ("3000000u", 3000)] {
            assert_eq!(timeout(header.as_bytes()), Some(Duration::from_millis(expected)));
        }
        for junk in ["junk", "", "5", "S", "123456789S"] {
            assert_eq!(timeout(junk.as_bytes()), None, "{junk}");
        }
    }

    #[test]
    fn tools_are_known_by_name() {
        let mut caller = CallMetadata::default();
        caller.field(b"client-name", b"temporal-go");
        assert!(!caller.is_tool);
        caller.field(b"client-name", b"temporal-cli");
        assert!(caller.is_tool);
    }
}
