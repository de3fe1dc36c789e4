//! Malformed requests of calls in the table (not exactly one message): tonic reads them as they arrive and has the
//! right status for each.
//!
//! There is one service for all methods: it takes messages as bytes.

use std::{future::Future, pin::Pin, sync::Arc};

use bytes::Bytes;
use http::{Request, Response};
use segno_calls::MESSAGE_BYTES_MAX;
use segno_proto::codec::BytesCodec;
use tonic::{
    Status,
    body::Body,
    codec::{CompressionEncoding, EnabledCompressionEncodings},
    server::{Grpc, UnaryService},
};

use super::compression::ENCODING;
use crate::{
    calls::{self, Handlers, Method},
    reply::message_of,
};

/// A method as tonic calls it.
struct Unary {
    handlers: Arc<Handlers>,
    method: &'static Method,
}

impl UnaryService<Bytes> for Unary {
    type Response = Bytes;
    type Future = Pin<Box<dyn Future<Output = Result<tonic::Response<Bytes>, Status>> + Send>>;

    fn call(&mut self, request: tonic::Request<Bytes>) -> Self::Future {
        let (_, extensions, message) = request.into_parts();
        let reply = calls::call(&self.handlers, self.method, message, extensions);
        Box::pin(async move { Ok(reply.await?.map(message_of)) })
    }
}

/// Answers a call.
pub(super) async fn answer(handlers: Arc<Handlers>, method: &'static Method, request: Request<Body>) -> Response<Body> {
    let mut accepted = EnabledCompressionEncodings::default();
    accepted.enable(CompressionEncoding::Gzip);
    let is_compressed = request.headers().get(ENCODING).is_some_and(|encoding| encoding == "gzip");
    // Responses are compressed for callers that compress their requests.
    let sent = if is_compressed { accepted } else { EnabledCompressionEncodings::default() };
    let mut grpc = Grpc::new(BytesCodec)
        .apply_compression_config(accepted, sent)
        .apply_max_message_size_config(Some(MESSAGE_BYTES_MAX), Some(usize::MAX));
    grpc.unary(Unary { handlers, method }, request).await
}
