//! The server side of HTTP/2 as gRPC needs it (RFC 9113, RFC 7541).
//!
//! A [`Connection`] is a protocol state machine without sockets, tasks or clock. Bytes that were read go in by
//! [`Connection::receive`], which hands requests to a [`Handler`]. Responses go in by [`Connection::respond`] or, in
//! parts, by [`Connection::send_headers`], [`Connection::send_data`] and [`Connection::send_end`]. Bytes to be written
//! come out by [`Connection::take_output`].
//!
//! What holds for all bytes that a peer may send:
//!
//! - Memory is bounded: incomplete requests, requests being handled and responses that wait for a flow-control window
//!   count against one budget per connection and one for all connections ([`SharedBudget`]).
//! - Work is bounded: resets and control frames fill leaky buckets, and a full one ends the connection with
//!   ENHANCE_YOUR_CALM. No frame costs more than its own size, a logarithm aside.
//! - A connection error ends this connection and no other. Nothing is sent beyond the peer's flow-control windows.

mod budget;
mod connection;
mod errors;
mod frame;
mod goaway;
mod header_block;
pub mod hpack;
mod leaky_bucket;
mod receive;
mod receive_control;
mod request;
mod send;
mod stream_hash;

pub use budget::SharedBudget;
pub use connection::{Connection, Handler, Refusals, Settings};
pub use errors::{ConnectionError, ErrorCode};
pub use header_block::HeaderBlock;
pub use send::Response;
