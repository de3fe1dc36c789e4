//! Ports: what one part of a node needs of a part above it. The part that calls defines the trait, the part above implements it, and
//! the node connects the two when it starts. See `docs/decisions/039-crates-of-a-node.md`.

pub(crate) mod elsewhere;
pub(crate) mod owner;

use std::pin::Pin;

/// The future of a method of a port.
pub(crate) type PortFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
