//! Requests over HTTP/1.1, with TLS where the URL says so: bounded in time and in size, and to allowed addresses only.
//!
//! Knows nothing of what is sent. A redirect is an answer like any other: it is never followed. Each request has a connection of its
//! own, and the address that was checked is the one that is connected to, so that a name cannot lead elsewhere between the two.

mod addresses;
mod client;
mod targets;

pub use addresses::kind_of;
pub use client::{RequestError, RequestLimits, host_of, send};
pub use targets::{AllowedTargets, BadPattern, RefusedTarget};
