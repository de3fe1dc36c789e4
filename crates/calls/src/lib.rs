//! What a call is at every edge: gRPC, the HTTP API and the web pages.
//!
//! [`CallMetadata`] is what a request says of its caller besides the message, [`status`] has the table from errors to
//! statuses, and [`request_fields`] reads single fields of a request that is not decoded. [`Service`] is the port through
//! which the HTTP API and the pages make calls; the crate `segno-server` implements it. There are no handlers here.

mod metadata;
pub mod request_fields;
pub mod status;

use std::{future::Future, pin::Pin};

use bytes::Bytes;
use prost::Message;
use segno_proto::Rpc;
use tonic::{Extensions, Status};

pub use metadata::{CallMetadata, ShortText};

/// Longest encoded request; Temporal's limit as well.
pub const MESSAGE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// The outcome of a call: the encoded response.
pub type CallFuture<'a> = Pin<Box<dyn Future<Output = Result<Bytes, Status>> + Send + 'a>>;

/// Makes calls within the process: the same handlers and the same routing among nodes as for calls over gRPC.
pub trait Service: Send + Sync {
    /// Makes the call at `path` with an encoded request. `extensions` are those of the request, such as [`CallMetadata`].
    fn call<'a>(&'a self, path: &'a str, message: Bytes, extensions: Extensions) -> CallFuture<'a>;
}

/// Makes a call with a request of its own type.
pub async fn call<Q: Rpc>(service: &dyn Service, request: &Q, extensions: Extensions) -> Result<Q::Response, Status> {
    let message = service.call(Q::PATH, request.encode_to_vec().into(), extensions).await?;
    Q::Response::decode(message).map_err(|error| Status::internal(format!("the response cannot be read: {error}")))
}
