//! Requests as they arrive: chooses the path of each, and collects its message.

use std::{
    net::IpAddr,
    sync::{Arc, LazyLock},
};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method as Verb, Request, Uri, Version};
use segno_calls::MESSAGE_BYTES_MAX;
use segno_http2::{ErrorCode, Handler, HeaderBlock, Refusals};
use segno_node::ConnectionId;
use tokio::{task::AbortHandle, time::Instant};
use tonic::{Status, body::Body};

use super::{
    compression::{Compression, ENCODING, decompressed_length},
    fair_share::{self, Arrival, QueueKey},
    general::{self, BodySender, GeneralCall},
    methods::{self, Call},
    services::Services,
    shared::{Responder, SharedConnection},
};
use crate::{
    calls::{self, Method},
    delivery::{CallInProgress, Receipt},
    metrics::calls as counts,
    otel::{self, TraceParent},
    peers::CallMetadata,
    reply::PREFIX_BYTES,
    security::{Admission, AuthenticationState, Credentials, HeaderIdentity, KnownCaller, PresentedIdentity},
};

/// Who calls.
const AUTHORIZATION: &[u8] = b"authorization";
/// Room that is reserved for a message whose length is announced; most messages fit.
const RESERVED_BYTES: usize = 4 * 1024;
/// Bytes that a field of the header list takes besides its name and value.
const FIELD_BYTES: usize = 128;

/// The answers of the connection itself. SDKs retry RESOURCE_EXHAUSTED after a pause.
pub(super) static REFUSALS: LazyLock<Refusals> = LazyLock::new(|| {
    let refusal = |text: &str| {
        let (parts, ()) = Status::resource_exhausted(text).into_http().into_parts();
        general::header_block(HeaderBlock::ok(), &parts.headers)
    };
    Refusals {
        header_list_too_large: refusal("the request's metadata is larger than 65536 bytes"),
        over_budget: refusal("the connection holds too many bytes of requests and responses that are under way"),
    }
});

/// Hands the requests of one connection to their handlers.
pub(crate) struct Dispatcher {
    services: Arc<Services>,
    connection: Arc<SharedConnection>,
    id: ConnectionId,
    /// Who the client is by its certificate.
    certificate: Option<Arc<str>>,
    /// Where the connection comes from.
    address: Option<IpAddr>,
    /// Whether an authenticated caller has called.
    authentication_state: AuthenticationState,
    /// Who called last.
    known: Option<Arc<KnownCaller>>,
}

/// A request that arrives or is handled. Dropping it cancels its call.
#[derive(Default)]
pub(crate) struct IncomingRequest {
    caller: CallMetadata,
    compression: Compression,
    /// Counts the call until its handler does.
    under_way: Option<CallInProgress>,
    /// The call, if it is in the table.
    method: Option<&'static Method>,
    /// The fields that the general path needs besides.
    path: String,
    verb: Verb,
    headers: HeaderMap,
    header_bytes: usize,
    /// Who the caller claims to be, if that is asked for.
    authorization: Option<HeaderValue>,
    /// The same, once it was looked at.
    shown: Option<PresentedIdentity>,
    /// Looks whether the caller is known while the message arrives.
    checking: Option<AbortOnDrop>,
    /// The caller's trace, where there is a collector.
    trace: Option<TraceParent>,
    stage: Stage,
}

enum Stage {
    /// The message is not complete; this much of it is here.
    Receiving(Vec<u8>),
    /// A handler reads the body while it arrives.
    Streaming(BodySender, AbortOnDrop),
    /// A handler has the whole body, of this size.
    Handling(#[expect(dead_code, reason = "cancels the call when dropped")] AbortOnDrop, usize),
}

impl Default for Stage {
    fn default() -> Self {
        Self::Receiving(Vec::new())
    }
}

impl IncomingRequest {
    /// Whether its message can be decoded on the direct path.
    fn is_direct(&self, is_compressed: bool) -> bool {
        self.headers.is_empty() && (!is_compressed || self.compression.gzip)
    }

    /// The request as tonic has it, unless its path is malformed.
    pub(super) fn take(&mut self, body: Body) -> Option<Request<Body>> {
        let mut request = Request::new(body);
        *request.uri_mut() = self.path.parse::<Uri>().ok()?;
        *request.method_mut() = self.verb.clone();
        *request.version_mut() = Version::HTTP_2;
        *request.headers_mut() = std::mem::take(&mut self.headers);
        request.extensions_mut().insert(self.caller);
        if let Some(trace) = self.trace {
            request.extensions_mut().insert(trace);
        }
        Some(request)
    }
}

/// Aborts a task when dropped; nothing happens to a task that is done.
pub(crate) struct AbortOnDrop(pub(crate) AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Dispatcher {
    pub(super) fn new(
        services: Arc<Services>,
        connection: Arc<SharedConnection>,
        id: ConnectionId,
        (certificate, address): (Option<Arc<str>>, Option<IpAddr>),
        authentication_state: AuthenticationState,
    ) -> Self {
        Self { services, connection, id, certificate, address, authentication_state, known: None }
    }

    /// Whether an authenticated caller has called, or callers need not authenticate.
    pub(super) fn is_welcome(&self) -> bool {
        !self.services.security.authenticates() || self.authentication_state.is_known()
    }

    /// Refuses a caller that is not known as soon as its headers are there: nothing of its message is kept. Whether it is
    /// refused already.
    fn refuse_stranger(&mut self, stream: u32, request: &mut IncomingRequest) -> bool {
        let security = &self.services.security;
        if request.shown.is_none() && request.authorization.is_none() {
            request.shown = self.known_by(None);
        }
        if matches!(&request.shown, Some(PresentedIdentity::Known(known)) if security.holds(known)) {
            return false;
        }
        let credentials = self.credentials(request);
        let path = request.method.map_or(request.path.as_str(), |method| method.path);
        let mut responder = Responder::new(self.connection.clone(), stream);
        match security.at_first(path, &credentials) {
            HeaderIdentity::Known(known) => {
                self.authentication_state.set_known();
                self.known = Some(known.clone());
                request.shown = Some(PresentedIdentity::Known(known));
                false
            }
            HeaderIdentity::Public => {
                request.shown = Some(PresentedIdentity::Credentials(credentials));
                false
            }
            HeaderIdentity::Stranger(status) => {
                let (calls, begun, call) = (counts::of_path(path), Instant::now(), self.under_way(request));
                // In a task of its own: the connection is locked while it receives.
                let task = tokio::spawn(async move {
                    responder.start();
                    calls.ended(status.code(), begun);
                    methods::refuse(responder, status, call);
                });
                request.stage = Stage::Handling(AbortOnDrop(task.abort_handle()), 0);
                true
            }
            HeaderIdentity::Unclear => {
                let (path, call) = (path.to_owned(), self.services.under_way.one_more());
                request.shown = Some(PresentedIdentity::Credentials(credentials.clone()));
                let shown = PresentedIdentity::Credentials(credentials);
                let admission = Admission {
                    security: security.clone(),
                    shown,
                    authentication_state: self.authentication_state.clone(),
                };
                let task = tokio::spawn(async move {
                    if let Some(status) = admission.refuse_stranger(&path).await {
                        counts::of_path(&path).ended(status.code(), Instant::now());
                        methods::refuse(responder, status, call);
                    }
                });
                request.checking = Some(AbortOnDrop(task.abort_handle()));
                false
            }
        }
    }

    /// The checks before a call is handled.
    fn admission(&self, request: &mut IncomingRequest) -> Option<Admission> {
        if !self.services.security.is_on() {
            return None;
        }
        let security = self.services.security.clone();
        let shown = request.shown.take().unwrap_or_else(|| PresentedIdentity::Credentials(self.credentials(request)));
        Some(Admission { security, shown, authentication_state: self.authentication_state.clone() })
    }

    /// Who called last, if this is what they showed.
    fn known_by(&self, authorization: Option<&[u8]>) -> Option<PresentedIdentity> {
        self.known.as_ref().filter(|known| known.shows(authorization)).cloned().map(PresentedIdentity::Known)
    }

    /// The credentials of a caller.
    fn credentials(&self, request: &mut IncomingRequest) -> Box<Credentials> {
        match request.shown.take() {
            Some(shown) => shown.into_credentials(),
            None => Box::new(Credentials::new(request.authorization.take(), self.certificate.clone(), self.address)),
        }
    }

    fn under_way(&self, request: &mut IncomingRequest) -> CallInProgress {
        request.under_way.take().unwrap_or_else(|| self.services.under_way.one_more())
    }

    /// Hands a call whose message is complete to its method.
    fn call_directly(
        &self,
        stream: u32,
        request: &mut IncomingRequest,
        method: &'static Method,
        body: Vec<u8>,
        is_compressed: bool,
    ) {
        let held = held_while_handled(&body);
        let responder = Responder::new(self.connection.clone(), stream);
        let under_way = self.under_way(request);
        let message = Bytes::from(body).slice(PREFIX_BYTES..);
        let (caller, compression) = (request.caller, request.compression);
        request.checking = None;
        let admission = self.admission(request);
        let trace = request.trace;
        let call = Call { caller, message, held_bytes: held, is_compressed, compression, under_way, admission, trace };
        let task =
            methods::handle(self.services.handlers.clone(), method, responder, call, self.services.fair_share.arrive());
        request.stage = Stage::Handling(AbortOnDrop(task), held);
    }

    /// Hands a call to tonic, with what is there of its body.
    fn call_generally(&self, stream: u32, request: &mut IncomingRequest, body: Vec<u8>, ended: bool) {
        let held = held_while_handled(&body);
        if let Some(method) = request.method.take() {
            request.path = method.path.to_owned();
            request.compression.put(&mut request.headers);
        }
        // A body that is still arriving may take its time.
        let arrival = ended.then(|| {
            let message = Prefix::of(&body).filter(|prefix| !prefix.is_compressed).map(|_| &body[PREFIX_BYTES..]);
            let arrival = self.services.fair_share.arrive();
            let queue_key = match &arrival {
                Arrival::Started(_) => QueueKey::default(),
                Arrival::Queued(_) => {
                    fair_share::queue_key(calls::find(request.path.as_bytes()), message.unwrap_or_default())
                }
            };
            (arrival, queue_key)
        });
        let (sender, receiver) = general::body(!general::is_streaming(&request.path));
        // There is room for a first part.
        sender.send(body.into());
        let responder = Responder::new(self.connection.clone(), stream);
        let under_way = self.under_way(request);
        let admission = self.admission(request);
        // While the message arrives, who calls is still looked at beside it.
        if ended {
            request.checking = None;
        }
        let call = GeneralCall { body: receiver, held_bytes: held, under_way, admission, arrival };
        let task = AbortOnDrop(general::handle(self.services.clone(), responder, request, call));
        request.stage = if ended { Stage::Handling(task, held) } else { Stage::Streaming(sender, task) };
    }

    /// Dispatches a call if its message is complete, or cannot become what the direct path takes.
    fn dispatch(&self, stream: u32, request: &mut IncomingRequest, mut body: Vec<u8>, ended: bool) {
        let prefix = Prefix::of(&body);
        let expected = prefix.map(|prefix| PREFIX_BYTES + prefix.length);
        let is_too_long = expected.is_some_and(|expected| body.len().max(expected) > PREFIX_BYTES + MESSAGE_BYTES_MAX);
        match (prefix, request.method) {
            _ if is_too_long => self.call_generally(stream, request, body, ended),
            (Some(Prefix { is_compressed, .. }), Some(method))
                if ended && expected == Some(body.len()) && request.is_direct(is_compressed) =>
            {
                // Parts of the message may be kept for long, and with them this buffer.
                body.shrink_to_fit();
                self.call_directly(stream, request, method, body, is_compressed);
            }
            // An unknown compression, or not one whole message: tonic has the right status for it.
            _ if ended => self.call_generally(stream, request, body, true),
            _ => {
                body.reserve_exact(expected.unwrap_or_default().min(RESERVED_BYTES).saturating_sub(body.len()));
                request.stage = Stage::Receiving(body);
            }
        }
    }
}

/// The prefix of a message.
#[derive(Clone, Copy)]
struct Prefix {
    is_compressed: bool,
    length: usize,
}

impl Prefix {
    fn of(body: &[u8]) -> Option<Self> {
        let [compressed, length @ ..] = body.first_chunk::<PREFIX_BYTES>()?;
        Some(Self { is_compressed: *compressed != 0, length: u32::from_be_bytes(*length) as usize })
    }
}

/// Bytes that a call with this body holds while it is handled: a compressed message is there twice, and the second time it may
/// be a thousand times as large.
fn held_while_handled(body: &[u8]) -> usize {
    let is_compressed = body.first().is_some_and(|compressed| *compressed != 0);
    let decompressed = if is_compressed { decompressed_length(body).min(MESSAGE_BYTES_MAX) } else { 0 };
    body.len() + decompressed
}

impl Handler for Dispatcher {
    type Request = IncomingRequest;
    type Receipt = Receipt;

    fn field(&mut self, request: &mut IncomingRequest, name: &[u8], value: &[u8]) {
        match name {
            b":path" => match calls::find(value) {
                Some(method) => request.method = Some(method),
                None => {
                    request.path = String::from_utf8_lossy(value).into_owned();
                    request.header_bytes += request.path.len();
                }
            },
            b":method" if value != b"POST" => request.verb = Verb::from_bytes(value).unwrap_or_default(),
            b":method" => request.verb = Verb::POST,
            _ if name.first() == Some(&b':') => {}
            _ => {
                request.caller.field(name, value);
                if name == TraceParent::HEADER && otel::is_on() {
                    request.trace = TraceParent::parse(value);
                }
                if name == AUTHORIZATION && self.services.security.is_on() {
                    // Most often the same as with the call before; if there are several, the last one counts.
                    request.shown = self.known_by(Some(value));
                    request.authorization = match request.shown {
                        Some(_) => None,
                        None => HeaderValue::from_bytes(value).ok(),
                    };
                    request.header_bytes += value.len();
                    return;
                }
                // For the direct path only a field that excludes a call from it has to be kept.
                let is_unknown_encoding = !request.compression.field(name, value) && name == ENCODING.as_bytes();
                if request.method.is_none() || is_unknown_encoding {
                    let bytes = name.len() + value.len() + FIELD_BYTES;
                    let name = HeaderName::from_bytes(name);
                    if let (Ok(name), Ok(value)) = (name, HeaderValue::from_bytes(value)) {
                        request.headers.append(name, value);
                        request.header_bytes += bytes;
                    }
                }
            }
        }
    }

    fn headers_complete(&mut self, stream: u32, request: &mut IncomingRequest, ended: bool) {
        request.caller.connection = Some(self.id);
        request.under_way = Some(self.services.under_way.one_more());
        if self.services.security.authenticates() && self.refuse_stranger(stream, request) {
            return;
        }
        let is_direct = request.method.is_some() && request.verb == Verb::POST;
        // Calls that are not in the table may be streaming: they are handled before their body is complete.
        if ended || !is_direct {
            self.call_generally(stream, request, Vec::new(), ended);
        }
    }

    fn data(&mut self, stream: u32, request: &mut IncomingRequest, data: &[u8], ended: bool) -> Result<(), ErrorCode> {
        match std::mem::take(&mut request.stage) {
            Stage::Receiving(mut body) => {
                body.extend_from_slice(data);
                self.dispatch(stream, request, body, ended);
            }
            Stage::Streaming(sender, task) => {
                if !sender.send(Bytes::copy_from_slice(data)) {
                    return Err(ErrorCode::EnhanceYourCalm);
                }
                let held = sender.held_bytes();
                request.stage = if ended { Stage::Handling(task, held) } else { Stage::Streaming(sender, task) };
            }
            handling => request.stage = handling,
        }
        Ok(())
    }

    fn held_bytes(&self, request: &IncomingRequest) -> usize {
        let body = match &request.stage {
            Stage::Receiving(body) => body.capacity(),
            Stage::Streaming(sender, _) => sender.held_bytes(),
            Stage::Handling(_, bytes) => *bytes,
        };
        request.header_bytes + body
    }
}
