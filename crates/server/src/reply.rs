//! The outcome of a call, encoded: the one form in which connections, other nodes, the pages and the HTTP API take it.

use std::{future::ready, pin::Pin};

use bytes::Bytes;
use prost::Message;
use tonic::{Response, Status};

/// In front of each message of gRPC: whether it is compressed, and its length.
pub(crate) const PREFIX_BYTES: usize = 5;

/// A response with its message encoded, the prefix in front.
pub(crate) type Reply = Response<Vec<u8>>;

/// A call that is handled.
pub(crate) type ReplyFuture = Pin<Box<dyn Future<Output = Result<Reply, Status>> + Send>>;

/// Encodes the response of a handler.
pub(crate) fn encoded<A: Message>(outcome: Result<Response<A>, Status>) -> Result<Reply, Status> {
    let (metadata, message, extensions) = outcome?.into_parts();
    let length = message.encoded_len();
    let mut data = prefix(length);
    message.encode_raw(&mut data);
    Ok(Response::from_parts(metadata, data, extensions))
}

/// A reply with a message that is encoded already.
pub(crate) fn reply_of(message: &[u8]) -> Reply {
    let mut data = prefix(message.len());
    data.extend_from_slice(message);
    Response::new(data)
}

fn prefix(length: usize) -> Vec<u8> {
    let mut data = Vec::with_capacity(PREFIX_BYTES + length);
    data.push(0);
    data.extend_from_slice(&(length as u32).to_be_bytes());
    data
}

/// The message of a reply.
pub(crate) fn message_of(reply: Vec<u8>) -> Bytes {
    Bytes::from(reply).slice(PREFIX_BYTES..)
}

/// A call that is refused before it is handled.
pub(crate) fn failed(status: Status) -> ReplyFuture {
    Box::pin(ready(Err(status)))
}
