//! The direct path: unary calls go from their bytes to their handler and back, without tonic in between.
//!
//! The general path ([`super::general`]) would handle them as well, at about twice the cost.

use std::{
    future::poll_fn,
    sync::{Arc, LazyLock},
    task::Poll,
};

use bytes::Bytes;
use segno_http2::{HeaderBlock, Response as Http2Response};
use segno_node::with_request_bytes;
use tokio::{task::AbortHandle, time::Instant};
use tonic::{Code, Extensions, Status};

use super::{
    compression::{Compression, ENCODING, compress, decompress},
    fair_share::{self, Arrival, CallSlot},
    general,
    shared::Responder,
};
use crate::{
    calls::{self, Handlers, Method, Wait},
    delivery::{CallInProgress, Receipt},
    otel::{self, TraceParent},
    peers::CallMetadata,
    reply::{PREFIX_BYTES, Reply, ReplyFuture},
    security::{Admission, AdmittedCall},
};

/// A call whose message is complete.
pub(super) struct Call {
    pub(super) caller: CallMetadata,
    pub(super) message: Bytes,
    /// Bytes that the call holds in memory while it is handled.
    pub(super) held_bytes: usize,
    pub(super) is_compressed: bool,
    pub(super) compression: Compression,
    pub(super) under_way: CallInProgress,
    /// The checks before the call is handled.
    pub(super) admission: Option<Admission>,
    /// The caller's trace.
    pub(super) trace: Option<TraceParent>,
}

/// Handles a call in a task of its own.
pub(super) fn handle(
    handlers: Arc<Handlers>,
    method: &'static Method,
    mut responder: Responder,
    mut call: Call,
    arrival: Arrival,
) -> AbortHandle {
    // In a box, because tokio moves the future of a task several times when it starts and ends it.
    let task = tokio::spawn(with_request_bytes(
        call.held_bytes,
        Box::pin(async move {
            responder.start();
            let begun = Instant::now();
            let message = message(&mut call);
            let bytes = || message.as_deref().unwrap_or_default();
            let traced = otel::begin(call.trace, method.path, bytes());
            let mut slot = arrival.slot(|| fair_share::queue_key(Some(method), bytes())).await;
            let outcome = match begin(&handlers, method, &mut call, &mut slot, message).await {
                Ok((admitted, handling)) => admitted.outcome(match method.wait {
                    Wait::Short => {
                        let outcome = handling.await;
                        drop(slot);
                        outcome
                    }
                    Wait::Lists | Wait::Event | Wait::Poll => fair_share::handle_waiting(slot, handling).await,
                }),
                Err(status) => Err(status),
            };
            let code = outcome.as_ref().map_or_else(Status::code, |_| Code::Ok);
            method.calls.ended(code, begun);
            traced.ended(code);
            respond(responder, outcome, call.compression, call.under_way);
        }),
    ));
    task.abort_handle()
}

static HEADERS: LazyLock<HeaderBlock> = LazyLock::new(|| HeaderBlock::ok().with(b"content-type", b"application/grpc"));
static COMPRESSED_HEADERS: LazyLock<HeaderBlock> = LazyLock::new(|| HEADERS.clone().with(ENCODING.as_bytes(), b"gzip"));
static TRAILERS: LazyLock<HeaderBlock> = LazyLock::new(|| HeaderBlock::default().with(b"grpc-status", b"0"));

/// The encoded request.
fn message(call: &mut Call) -> Result<Bytes, Status> {
    let message = std::mem::take(&mut call.message);
    if call.is_compressed { decompress(&message) } else { Ok(message) }
}

/// Lets a call in and begins to handle it.
async fn begin(
    handlers: &Arc<Handlers>,
    method: &'static Method,
    call: &mut Call,
    slot: &mut Option<CallSlot>,
    message: Result<Bytes, Status>,
) -> Result<(AdmittedCall, ReplyFuture), Status> {
    let message = message?;
    let admitted = match call.admission.take() {
        None => AdmittedCall::default(),
        Some(admission) => match admission.admit_now(method.path, &message) {
            Some(admitted) => admitted?,
            None => {
                let mut admitting = Box::pin(admission.admit(method.path, &message));
                match poll_fn(|context| Poll::Ready(admitting.as_mut().poll(context))).await {
                    Poll::Ready(admitted) => admitted?,
                    // It may take long to find out who calls.
                    Poll::Pending => {
                        *slot = None;
                        admitting.await?
                    }
                }
            }
        },
    };
    let mut extensions = Extensions::default();
    extensions.insert(call.caller);
    if let Some(caller) = &admitted.caller {
        extensions.insert(caller.clone());
    }
    Ok((admitted, calls::call(handlers, method, message, extensions)))
}

fn respond(responder: Responder, outcome: Result<Reply, Status>, compression: Compression, call: CallInProgress) {
    match outcome {
        Ok(reply) => {
            let (metadata, data, mut extensions) = reply.into_parts();
            let receipt = Receipt::of(&mut extensions, call);
            let headers = if compression.is_agreed() { &COMPRESSED_HEADERS } else { &HEADERS };
            let compressed =
                if compression.applies_to(data.len() - PREFIX_BYTES) { compress(&data).ok() } else { None };
            let data = compressed.unwrap_or(data);
            if metadata.is_empty() {
                let response = Http2Response { headers, data, trailers: &TRAILERS };
                return responder.finish(|connection, stream| connection.respond(stream, response, receipt));
            }
            let headers = general::header_block(HeaderBlock::clone(headers), &metadata.into_headers());
            let response = Http2Response { headers: &headers, data, trailers: &TRAILERS };
            responder.finish(|connection, stream| connection.respond(stream, response, receipt));
        }
        Err(status) => refuse(responder, status, call),
    }
}

/// Answers a call with a status and nothing else.
pub(super) fn refuse(responder: Responder, status: Status, call: CallInProgress) {
    let (mut parts, ()) = status.into_http().into_parts();
    let headers = general::header_block(HeaderBlock::ok(), &parts.headers);
    let receipt = Receipt::of(&mut parts.extensions, call);
    responder.finish(|connection, stream| connection.send_trailers_only(stream, &headers, receipt));
}
