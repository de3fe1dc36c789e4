//! The general path, through tonic: calls that are not in the table, streaming calls among them, and malformed
//! requests, for which tonic has the right status.

use std::{
    convert::Infallible,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body::{Body as _, Frame};
use http_body_util::{BodyExt, Full, Limited};
use segno_calls::MESSAGE_BYTES_MAX;
use segno_http2::HeaderBlock;
use segno_node::with_request_bytes;
use tokio::{sync::mpsc, task::AbortHandle, time::Instant};
use tonic::{Code, Status, body::Body};
use tower::Service;

use super::{
    compression::{ENCODING, decompress},
    fair_share::{self, Arrival, QueueKey},
    incoming::IncomingRequest,
    malformed,
    services::Services,
    shared::Responder,
};
use crate::{
    calls::{self, Wait},
    delivery::{CallInProgress, Receipt},
    metrics::calls as counts,
    otel::{self, SpanGuard, TraceParent},
    reply::PREFIX_BYTES,
    security::Admission,
    unbuilt,
};

/// Parts of a request body that its handler has not read; more end the call.
const PARTS_MAX: usize = 1_024;
/// Bytes that a part takes in the queue besides its content.
const PART_BYTES: usize = 64;

/// The sending side of a request body that its handler reads while it arrives.
pub(super) struct BodySender {
    parts: mpsc::Sender<Bytes>,
    queued: Arc<AtomicUsize>,
}

/// The body as tonic reads it.
struct BodyReceiver {
    parts: mpsc::Receiver<Bytes>,
    queued: Arc<AtomicUsize>,
    /// The reader keeps all of it until its end: what was read is still held.
    is_kept: bool,
}

impl BodySender {
    /// Adds a part; false if too many wait.
    pub(super) fn send(&self, data: Bytes) -> bool {
        if data.is_empty() {
            return true;
        }
        let bytes = data.len() + PART_BYTES;
        self.queued.fetch_add(bytes, Ordering::Relaxed);
        match self.parts.try_send(data) {
            Ok(()) => true,
            // A handler that has dropped the body is not interested in the rest.
            Err(error) => {
                self.queued.fetch_sub(bytes, Ordering::Relaxed);
                matches!(error, mpsc::error::TrySendError::Closed(_))
            }
        }
    }

    /// Bytes that wait for the handler.
    pub(super) fn held_bytes(&self) -> usize {
        self.queued.load(Ordering::Relaxed)
    }
}

/// A body, and where its parts go.
pub(super) fn body(is_kept: bool) -> (BodySender, Body) {
    let (sender, receiver) = mpsc::channel(PARTS_MAX);
    let queued = Arc::new(AtomicUsize::new(0));
    let body = BodyReceiver { parts: receiver, queued: queued.clone(), is_kept };
    (BodySender { parts: sender, queued }, Body::new(body))
}

impl http_body::Body for BodyReceiver {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.parts.poll_recv(context).map(|part| {
            part.map(|part| {
                if !self.is_kept {
                    self.queued.fetch_sub(part.len() + PART_BYTES, Ordering::Relaxed);
                }
                Ok(Frame::data(part))
            })
        })
    }
}

/// A call of this path.
pub(super) struct GeneralCall {
    pub(super) body: Body,
    /// Bytes that the call holds in memory while it is handled.
    pub(super) held_bytes: usize,
    pub(super) under_way: CallInProgress,
    /// The checks before the call is handled.
    pub(super) admission: Option<Admission>,
    /// If it is complete: when it may begin, and its queue.
    pub(super) arrival: Option<(Arrival, QueueKey)>,
}

/// Handles a call in a task of its own.
pub(super) fn handle(
    services: Arc<Services>,
    mut responder: Responder,
    request: &mut IncomingRequest,
    call: GeneralCall,
) -> AbortHandle {
    let GeneralCall { body, held_bytes, under_way, admission, arrival } = call;
    let request = request.take(body);
    let task = tokio::spawn(with_request_bytes(held_bytes, async move {
        responder.start();
        let response = match request {
            Some(request) => {
                let (counted, begun) = (counts::of_path(request.uri().path()), Instant::now());
                let (request, traced) = trace(request).await;
                let slot = match arrival {
                    Some((arrival, queue_key)) => arrival.slot(|| queue_key).await,
                    None => None,
                };
                let waits =
                    calls::find(request.uri().path().as_bytes()).is_some_and(|method| method.wait != Wait::Short);
                let handling = Box::pin(async {
                    match admission {
                        None => call_service(&services, request).await,
                        Some(admission) => call_if_admitted(&services, request, &admission).await,
                    }
                });
                let response = unbuilt::as_temporal_says(match waits {
                    true => fair_share::handle_waiting(slot, handling).await,
                    false => {
                        let response = handling.await;
                        drop(slot);
                        response
                    }
                });
                let code = counts::code_of(response.headers());
                counted.ended(code, begun);
                traced.ended(code);
                response
            }
            None => Status::unimplemented("malformed method name").into_http(),
        };
        respond(responder, response, under_way).await;
    }));
    task.abort_handle()
}

/// Begins the span of a call, where there is a collector. The request is read to its end before, since it says what it is about.
async fn trace(request: Request<Body>) -> (Request<Body>, SpanGuard) {
    let path = request.uri().path();
    let path = if otel::is_on() && !is_streaming(path) { otel::known_path(path) } else { None };
    let Some(path) = path else { return (request, SpanGuard::default()) };
    let parent = request.extensions().get::<TraceParent>().copied();
    let (parts, mut frames) = request.into_parts();
    // One that is too long is cut short, and refused by its decoder.
    let mut body = Vec::new();
    while body.len() <= PREFIX_BYTES + MESSAGE_BYTES_MAX
        && let Some(Ok(frame)) = frames.frame().await
    {
        body.extend_from_slice(&frame.into_data().unwrap_or_default());
    }
    let body = Bytes::from(body);
    let traced = otel::begin(parent, path, &message_of(&parts.headers, &body).unwrap_or_default());
    (Request::from_parts(parts, Body::new(Full::new(body))), traced)
}

/// Makes a call if its caller may. The request is read to its end before, since it says what it is about.
async fn call_if_admitted(services: &Services, request: Request<Body>, admission: &Admission) -> Response<Body> {
    let path = request.uri().path().to_owned();
    if is_streaming(&path) {
        return match admission.admit(&path, &[]).await {
            Ok(_) => call_service(services, request).await,
            Err(status) => status.into_http(),
        };
    }
    let (mut parts, body) = request.into_parts();
    let body = match Limited::new(body, PREFIX_BYTES + MESSAGE_BYTES_MAX).collect().await {
        Ok(body) => body.to_bytes(),
        // The same message as that of the transport.
        Err(_) => {
            let text = "grpc: received message larger than max (4194304 bytes)";
            return Status::resource_exhausted(text).into_http();
        }
    };
    let admitted = match message_of(&parts.headers, &body) {
        Ok(message) => admission.admit(&path, &message).await,
        Err(status) => Err(status),
    };
    match admitted {
        Ok(admitted) => {
            if let Some(caller) = &admitted.caller {
                parts.extensions.insert(caller.clone());
            }
            let response = call_service(services, Request::from_parts(parts, Body::new(Full::new(body)))).await;
            // A unary call that fails says so in its headers.
            let code = Status::from_header_map(response.headers()).map_or(Code::Ok, |status| status.code());
            admitted.ended(code).map_or_else(Status::into_http, |()| response)
        }
        Err(status) => status.into_http(),
    }
}

/// The encoded request in a body, as far as it is one whole message; what is not is refused by its decoder.
fn message_of(headers: &HeaderMap, body: &Bytes) -> Result<Bytes, Status> {
    let Some([compressed, length @ ..]) = body.first_chunk::<PREFIX_BYTES>() else { return Ok(Bytes::new()) };
    let message = body.slice(PREFIX_BYTES..);
    if message.len() != u32::from_be_bytes(*length) as usize {
        return Err(Status::internal("the request is not one whole message"));
    }
    match (*compressed, headers.get(ENCODING)) {
        (0, _) => Ok(message),
        (_, Some(encoding)) if encoding == "gzip" => decompress(&message),
        _ => Err(Status::unimplemented("the request is compressed in a way that is not understood; gzip is")),
    }
}

/// Whether a call has no end of its own: it is let in by its name alone.
pub(super) fn is_streaming(path: &str) -> bool {
    path.starts_with("/grpc.reflection.") || path == "/grpc.health.v1.Health/Watch"
}

/// Makes a call through tonic.
async fn call_service(services: &Services, request: Request<Body>) -> Response<Body> {
    let path = request.uri().path();
    if let Some(refusal) = unbuilt::refusal(path) {
        return refusal;
    }
    match calls::find(path.as_bytes()) {
        Some(method) => malformed::answer(services.handlers.clone(), method, request).await,
        None => {
            let Ok(response) = services.others.clone().call(request).await;
            response
        }
    }
}

async fn respond(responder: Responder, response: Response<Body>, call: CallInProgress) {
    let (mut parts, mut body) = response.into_parts();
    let receipt = Receipt::of(&mut parts.extensions, call);
    let headers = header_block(HeaderBlock::status(parts.status.as_u16()), &parts.headers);
    if body.is_end_stream() {
        return responder.finish(|connection, stream| connection.send_trailers_only(stream, &headers, receipt));
    }
    responder.send(|connection, stream| connection.send_headers(stream, &headers));
    while let Some(frame) = body.frame().await {
        // A response without an end: the stream is reset when the responder is dropped.
        let Ok(frame) = frame else { return };
        match frame.into_data() {
            Ok(data) => responder.send(|connection, stream| connection.send_data(stream, data)),
            Err(frame) => {
                let trailers = frame.into_trailers().map(|trailers| header_block(HeaderBlock::default(), &trailers));
                return responder
                    .finish(|connection, stream| connection.send_end(stream, trailers.as_ref().ok(), receipt));
            }
        }
    }
    responder.finish(|connection, stream| connection.send_end(stream, None, receipt));
}

/// Adds fields to a header block.
pub(super) fn header_block(mut block: HeaderBlock, headers: &HeaderMap) -> HeaderBlock {
    headers.iter().for_each(|(name, value)| block.push(name.as_str().as_bytes(), value.as_bytes()));
    block
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_body_that_is_read_holds_nothing() {
        let (sender, mut body) = body(false);
        assert!(sender.send(Bytes::from_static(b"abc")) && sender.send(Bytes::new()));
        assert_eq!(sender.held_bytes(), 3 + PART_BYTES);
        let frame = body.frame().await.expect("a frame").expect("no error");
        assert_eq!(frame.into_data().expect("data"), "abc");
        assert_eq!(sender.held_bytes(), 0);
        assert!((0..PARTS_MAX).all(|_| sender.send(Bytes::from_static(b"x"))));
        assert!(!sender.send(Bytes::from_static(b"x")), "too many wait");
        assert_eq!(sender.held_bytes(), PARTS_MAX * (1 + PART_BYTES));
        drop(body);
        assert!(sender.send(Bytes::from_static(b"x")));
    }
}
