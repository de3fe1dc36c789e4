//! HTTP/2 as a gRPC server needs it, and nothing else (RFC 9113, RFC 7541).
//!
//! A [`Connection`] is a machine without sockets, tasks or clock: bytes that arrived go in by
//! [`Connection::receive`], which hands requests to a [`Requests`]; answers go in by [`Connection::answer`] or, piece by
//! piece, by [`Connection::head`], [`Connection::data`] and [`Connection::end`]; bytes to be written come out by
//! [`Connection::take_output`].
//!
//! What holds: whatever a peer sends, memory stays bounded (frames, headers, queued answers to its questions), and a
//! violation ends this connection and no other. Nothing is sent beyond the peer's windows.

mod connection;
mod errors;
mod frame;
pub mod hpack;
mod receive;
mod request;
mod send;

pub use connection::{Connection, Requests, Settings};
pub use errors::{Code, Violation};
pub use send::{Answer, Block};
