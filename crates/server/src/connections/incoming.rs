//! Requests as they arrive: which way each takes, and its message until that is complete.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method as Verb, Request, Uri, Version};
use segno_http2::{Code, Requests};
use segno_runtime::ConnectionId;
use tokio::{sync::mpsc, task::AbortHandle};
use tonic::body::Body;

use super::{
    MESSAGE_BYTES_MAX, Services, general,
    line::{Line, Turn},
    methods::{self, Call, Method},
    packing::{ENCODING, Packing},
};
use crate::{
    delivery::{OneCall, Receipt},
    peers::Caller,
};

/// In front of each message: whether it is compressed, and its length.
pub(super) const PREFIX_BYTES: usize = 5;
/// Most messages have room in this.
const ROOM_BYTES: usize = 4 * 1024;
/// Pieces of a request that its handler has not read; more end the call.
const PIECES_MAX: usize = 1_024;

/// Who answers the requests of one connection.
pub(crate) struct Calls {
    services: Arc<Services>,
    line: Arc<Line>,
    connection: ConnectionId,
}

/// A request that arrives. Dropping it gives up its call.
#[derive(Default)]
pub(crate) struct Incoming {
    caller: Caller,
    packing: Packing,
    /// Counts the call until somebody answers it.
    under_way: Option<OneCall>,
    /// The method, if it has a way of its own.
    method: Option<&'static Method>,
    /// What the general way needs to know.
    pub(super) path: String,
    pub(super) verb: Verb,
    pub(super) headers: HeaderMap,
    stage: Stage,
}

enum Stage {
    /// Waits for its message, of which this is here.
    Gathering(Vec<u8>),
    /// Its handler reads it as it comes.
    Streaming(mpsc::Sender<Bytes>, GivenUp),
    /// Its handler has all of it.
    Answering(#[expect(dead_code, reason = "ends the call when dropped")] GivenUp),
}

impl Default for Stage {
    fn default() -> Self {
        Self::Gathering(Vec::new())
    }
}

impl Incoming {
    /// Whether its message can be read here.
    fn is_understood(&self, compressed: bool) -> bool {
        self.headers.is_empty() && (!compressed || self.packing.gzip)
    }

    /// The request as tonic has it, unless its path is none.
    pub(super) fn take(&mut self, body: Body) -> Option<Request<Body>> {
        let mut request = Request::new(body);
        *request.uri_mut() = self.path.parse::<Uri>().ok()?;
        *request.method_mut() = self.verb.clone();
        *request.version_mut() = Version::HTTP_2;
        *request.headers_mut() = std::mem::take(&mut self.headers);
        request.extensions_mut().insert(self.caller);
        Some(request)
    }
}

/// Ends a call's task when dropped; a task that is done does not mind.
pub(super) struct GivenUp(pub(super) AbortHandle);

impl Drop for GivenUp {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Calls {
    pub(super) fn new(services: Arc<Services>, line: Arc<Line>, connection: ConnectionId) -> Self {
        Self { services, line, connection }
    }

    fn under_way(&self, request: &mut Incoming) -> OneCall {
        request.under_way.take().unwrap_or_else(|| self.services.under_way.one_more())
    }

    /// Hands a call whose message is complete to its method.
    fn call(&self, stream: u32, request: &mut Incoming, method: &Method, message: Bytes, compressed: bool) {
        let turn = Turn::new(self.line.clone(), stream);
        let one = self.under_way(request);
        let call = Call { caller: request.caller, message, compressed, packing: request.packing, under_way: one };
        let task = (method.answer)(self.services.direct.clone(), turn, call);
        request.stage = Stage::Answering(GivenUp(task));
    }

    /// Lets a call take the general way, with what is there of its body.
    fn take_general_way(&self, stream: u32, request: &mut Incoming, body: Vec<u8>, ended: bool) {
        let (pieces, arriving) = mpsc::channel(PIECES_MAX);
        if !body.is_empty() {
            // There is room.
            let _ = pieces.try_send(body.into());
        }
        if let Some(method) = request.method.take() {
            request.path = method.path.to_owned();
            request.packing.put(&mut request.headers);
        }
        let turn = Turn::new(self.line.clone(), stream);
        let one = self.under_way(request);
        let task = GivenUp(general::answer(self.services.clone(), turn, request, arriving, one));
        request.stage = if ended { Stage::Answering(task) } else { Stage::Streaming(pieces, task) };
    }

    /// Goes on with what is there of a call's message.
    fn gather(&self, stream: u32, request: &mut Incoming, mut body: Vec<u8>, ended: bool) {
        let prefix = Prefix::of(&body);
        let expected = prefix.map(|prefix| PREFIX_BYTES + prefix.length);
        let is_too_long = expected.is_some_and(|expected| body.len().max(expected) > PREFIX_BYTES + MESSAGE_BYTES_MAX);
        match (prefix, request.method) {
            _ if is_too_long => self.take_general_way(stream, request, body, ended),
            (Some(Prefix { compressed, .. }), Some(method))
                if ended && expected == Some(body.len()) && request.is_understood(compressed) =>
            {
                // Parts of it may be kept, and with them its buffer.
                body.shrink_to_fit();
                self.call(stream, request, method, Bytes::from(body).slice(PREFIX_BYTES..), compressed);
            }
            // Compressed in an unknown way, or not what a call is like: tonic knows what to say.
            _ if ended => self.take_general_way(stream, request, body, true),
            _ => {
                // What is only announced gets little room.
                body.reserve_exact(expected.unwrap_or_default().min(ROOM_BYTES).saturating_sub(body.len()));
                request.stage = Stage::Gathering(body);
            }
        }
    }
}

/// What is in front of a message.
#[derive(Clone, Copy)]
struct Prefix {
    compressed: bool,
    length: usize,
}

impl Prefix {
    fn of(body: &[u8]) -> Option<Self> {
        let [compressed, length @ ..] = body.first_chunk::<PREFIX_BYTES>()?;
        Some(Self { compressed: *compressed != 0, length: u32::from_be_bytes(*length) as usize })
    }
}

impl Requests for Calls {
    type Request = Incoming;
    type Receipt = Receipt;

    fn field(&mut self, request: &mut Incoming, name: &[u8], value: &[u8]) {
        match name {
            b":path" => match methods::find(value) {
                Some(method) => request.method = Some(method),
                None => request.path = String::from_utf8_lossy(value).into_owned(),
            },
            b":method" if value != b"POST" => request.verb = Verb::from_bytes(value).unwrap_or_default(),
            b":method" => request.verb = Verb::POST,
            _ if name.first() == Some(&b':') => {}
            _ => {
                request.caller.field(name, value);
                // Of a call with a way of its own, only what may take it off that way.
                let is_odd = !request.packing.field(name, value) && name == ENCODING.as_bytes();
                if request.method.is_none() || is_odd {
                    let name = HeaderName::from_bytes(name);
                    if let (Ok(name), Ok(value)) = (name, HeaderValue::from_bytes(value)) {
                        request.headers.append(name, value);
                    }
                }
            }
        }
    }

    fn begin(&mut self, stream: u32, request: &mut Incoming, ended: bool) {
        request.caller.connection = Some(self.connection);
        request.under_way = Some(self.services.under_way.one_more());
        let is_direct = request.method.is_some() && request.verb == Verb::POST;
        // Calls of other services may be streams, which are answered before they end.
        if ended || !(is_direct || general::wants_one_message(&request.path)) {
            self.take_general_way(stream, request, Vec::new(), ended);
        }
    }

    fn data(&mut self, stream: u32, request: &mut Incoming, data: &[u8], ended: bool) -> Result<(), Code> {
        match std::mem::take(&mut request.stage) {
            Stage::Gathering(mut body) => {
                body.extend_from_slice(data);
                self.gather(stream, request, body, ended);
            }
            Stage::Streaming(pieces, task) => {
                let full = |error| matches!(error, mpsc::error::TrySendError::Full(_));
                if !data.is_empty() && pieces.try_send(Bytes::copy_from_slice(data)).is_err_and(full) {
                    return Err(Code::EnhanceYourCalm);
                }
                request.stage = if ended { Stage::Answering(task) } else { Stage::Streaming(pieces, task) };
            }
            answering => request.stage = answering,
        }
        Ok(())
    }
}
