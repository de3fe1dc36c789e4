//! One connection: its streams, its flow-control windows, its budget and its output.

use std::{
    collections::{BinaryHeap, HashMap, VecDeque},
    sync::Arc,
};

use crate::{
    budget::{Budget, SharedBudget},
    errors::{ConnectionError, ErrorCode},
    frame,
    goaway::Shutdown,
    header_block::HeaderBlock,
    hpack::Decoder,
    leaky_bucket::LeakyBucket,
    send::Pending,
    stream_hash::StreamHash,
};

/// SETTINGS_HEADER_TABLE_SIZE of this side: the protocol's default.
const TABLE_BYTES: usize = 4_096;
/// The flow-control window of a connection or stream until SETTINGS or WINDOW_UPDATE change it.
const WINDOW_DEFAULT: i64 = 65_535;
/// How many streams that were reset by this side are remembered. The peer may not know of the reset yet, so its frames
/// for them are ignored.
const RESET_STREAMS_REMEMBERED: usize = 256;
/// Larger output buffers are not kept while there is nothing to write.
const KEPT_BYTES: usize = 16 * 1024;
/// With more output than this, reading pauses until the peer has read some of it (backpressure).
const OUTPUT_BYTES_MAX: usize = 256 * 1024;
/// Bytes of an open stream besides its request and response: its entry here and the task that handles it.
pub(crate) const STREAM_BYTES: usize = 4 * 1024;

/// Resets in a burst, and per second. A client may cancel as many calls as may be open, twice over; what is counted are
/// RST_STREAM frames of the peer and stream errors, which make this side send one.
const RESETS_BURST: u64 = 10_000;
const RESETS_PER_MS: u64 = 1;
/// Control frames in a burst, and per millisecond: SETTINGS, PING, WINDOW_UPDATE, PRIORITY, empty DATA, unknown types.
const CONTROL_FRAMES_BURST: u64 = 100_000;
const CONTROL_FRAMES_PER_MS: u64 = 20;
/// Control frames that a peer may send for each response and for each DATA frame it gets: clients update windows and
/// measure round trips as they receive data.
const CONTROL_FRAMES_PER_RESPONSE: u64 = 8;
pub(crate) const CONTROL_FRAMES_PER_DATA: u64 = 2;

/// The settings of a connection for its peer.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Receive window of the connection.
    pub connection_window: u32,
    /// Receive window of a stream (SETTINGS_INITIAL_WINDOW_SIZE).
    pub stream_window: u32,
    /// Streams that may be open at a time (SETTINGS_MAX_CONCURRENT_STREAMS).
    pub streams_max: u32,
    /// Size of the header list of a request (SETTINGS_MAX_HEADER_LIST_SIZE).
    pub header_list_bytes_max: u32,
    /// Bytes of requests and responses that the connection may hold at a time.
    pub held_bytes_max: usize,
}

/// Responses of the connection itself, each a header block that ends its stream ("Trailers-Only" in gRPC).
#[derive(Clone, Debug, Default)]
pub struct Refusals {
    /// To a request whose header list is larger than [`Settings::header_list_bytes_max`].
    pub header_list_too_large: HeaderBlock,
    /// To a request, or instead of a response, for which the budget has no room.
    pub over_budget: HeaderBlock,
}

/// Handles the requests of a connection.
pub trait Handler {
    /// The state of a request until its stream is closed. It is dropped then, for any reason.
    type Request: Default;
    /// Given back when the last byte of a response was written. It is dropped if that never happens.
    type Receipt;

    /// One field of a request's header list.
    fn field(&mut self, request: &mut Self::Request, name: &[u8], value: &[u8]);

    /// The header list is complete. No data follows if the stream has `ended`.
    fn headers_complete(&mut self, stream: u32, request: &mut Self::Request, ended: bool);

    /// Data of a request, the last if the stream has `ended`. An error is a stream error.
    fn data(&mut self, stream: u32, request: &mut Self::Request, data: &[u8], ended: bool) -> Result<(), ErrorCode>;

    /// Bytes that are held in memory for a request, for the connection's budget.
    fn held_bytes(&self, request: &Self::Request) -> usize;
}

/// See the crate.
pub struct Connection<H: Handler> {
    pub(crate) settings: Settings,
    pub(crate) refusals: &'static Refusals,
    pub(crate) preface_received: bool,
    /// SETTINGS, which must be the peer's first frame.
    pub(crate) settings_received: bool,
    pub(crate) decoder: Decoder,
    /// A header block of which the last CONTINUATION has not arrived.
    pub(crate) partial_block: Option<PartialBlock>,
    pub(crate) streams: HashMap<u32, Stream<H>, StreamHash>,
    /// The highest stream id that the peer has used.
    pub(crate) last_stream: u32,
    pub(crate) receive_window: i64,
    pub(crate) shutdown: Shutdown,
    /// The most recent streams that this side reset.
    pub(crate) reset_streams: VecDeque<u32>,

    /// Milliseconds since the connection was accepted, as of the last [`Connection::receive`].
    pub(crate) now_ms: u64,
    resets: LeakyBucket,
    control_frames: LeakyBucket,
    budget: Budget,
    /// Bytes that streams hold: requests, pending responses and [`STREAM_BYTES`] for each.
    held: usize,

    pub(crate) out: Vec<u8>,
    /// All bytes that were ever taken from `out`, and all that were ever written.
    pub(crate) taken: u64,
    pub(crate) written: u64,
    /// Receipts with the offset in the output at which their response ends, in order.
    pub(crate) receipts: VecDeque<(u64, H::Receipt)>,
    pub(crate) send_window: i64,
    /// The peer's SETTINGS_INITIAL_WINDOW_SIZE. A stream's send window is this plus its [`Stream::send_delta`].
    pub(crate) peer_initial_window: i64,
    /// No stream's `send_delta` is larger.
    pub(crate) send_delta_bound: i64,
    /// A dynamic table size update to zero has to be sent: the peer has a smaller table than the default.
    pub(crate) table_size_update_due: bool,
    /// Streams with pending data and, as far as known, a send window.
    pub(crate) ready: VecDeque<u32>,
    /// Streams with pending data and no send window, with their `send_delta`, largest first. Entries whose stream is
    /// closed or has another delta by now are stale and are skipped.
    pub(crate) blocked: BinaryHeap<(i64, u32)>,
}

/// An open stream.
pub(crate) struct Stream<H: Handler> {
    pub(crate) request: H::Request,
    /// The peer has not sent END_STREAM.
    pub(crate) is_receiving: bool,
    /// Response headers were sent.
    pub(crate) headers_sent: bool,
    /// How much data is still to come, if the request has a content-length.
    pub(crate) content_left: Option<u64>,
    pub(crate) receive_window: i64,
    /// Sum of the stream's WINDOW_UPDATEs minus the data sent.
    pub(crate) send_delta: i64,
    /// The last value of [`Handler::held_bytes`].
    pub(crate) request_bytes: usize,
    /// The data that waits for a send window, and its size.
    pub(crate) pending: VecDeque<Pending<H::Receipt>>,
    pub(crate) pending_bytes: usize,
    /// In [`Connection::ready`].
    pub(crate) is_ready: bool,
}

impl<H: Handler> Stream<H> {
    fn held(&self) -> usize {
        STREAM_BYTES + self.request_bytes + self.pending_bytes
    }
}

/// The beginning of a header block.
pub(crate) struct PartialBlock {
    pub(crate) stream: u32,
    pub(crate) ended: bool,
    pub(crate) block: Vec<u8>,
    pub(crate) frames: u32,
}

impl<H: Handler> Connection<H> {
    /// A connection that was just accepted. Its own SETTINGS are the first output.
    pub fn new(settings: Settings, refusals: &'static Refusals, shared: Arc<SharedBudget>) -> Self {
        let mut out = Vec::new();
        frame::settings(
            &mut out,
            &[
                (frame::SETTINGS_MAX_CONCURRENT_STREAMS, settings.streams_max),
                (frame::SETTINGS_INITIAL_WINDOW_SIZE, settings.stream_window),
                (frame::SETTINGS_MAX_HEADER_LIST_SIZE, settings.header_list_bytes_max),
            ],
        );
        let increment = i64::from(settings.connection_window) - WINDOW_DEFAULT;
        if let Ok(increment @ 1..) = u32::try_from(increment) {
            frame::window_update(&mut out, 0, increment);
        }
        Self {
            settings,
            refusals,
            preface_received: false,
            settings_received: false,
            decoder: Decoder::new(TABLE_BYTES),
            partial_block: None,
            streams: HashMap::default(),
            last_stream: 0,
            receive_window: i64::from(settings.connection_window).max(WINDOW_DEFAULT),
            shutdown: Shutdown::No,
            reset_streams: VecDeque::new(),
            now_ms: 0,
            resets: LeakyBucket::new(RESETS_BURST, RESETS_PER_MS),
            control_frames: LeakyBucket::new(CONTROL_FRAMES_BURST, CONTROL_FRAMES_PER_MS),
            budget: Budget::new(shared, settings.held_bytes_max),
            held: 0,
            out,
            taken: 0,
            written: 0,
            receipts: VecDeque::new(),
            send_window: WINDOW_DEFAULT,
            peer_initial_window: WINDOW_DEFAULT,
            send_delta_bound: 0,
            table_size_update_due: false,
            ready: VecDeque::new(),
            blocked: BinaryHeap::new(),
        }
    }

    /// Whether the connection preface is complete: the magic string and the peer's SETTINGS.
    pub fn is_established(&self) -> bool {
        self.settings_received
    }

    /// Whether reading should pause, because the peer does not read what is written to it.
    pub fn is_congested(&self) -> bool {
        self.out.len() > OUTPUT_BYTES_MAX
    }

    /// Whether there may be bytes to write.
    pub fn has_output(&self) -> bool {
        let is_unblocked = |(delta, _): &(i64, u32)| delta + self.peer_initial_window > 0;
        !self.out.is_empty()
            || (self.send_window > 0 && (!self.ready.is_empty() || self.blocked.peek().is_some_and(is_unblocked)))
    }

    /// Moves what is to be written into `output`, which is empty.
    pub fn take_output(&mut self, output: &mut Vec<u8>) {
        while self.out.len() <= OUTPUT_BYTES_MAX && self.send_pending() {}
        self.taken += self.out.len() as u64;
        std::mem::swap(&mut self.out, output);
    }

    /// This many bytes of what was taken are written. Gives the receipts of responses that are written to their end.
    pub fn written(&mut self, bytes: usize, mut delivered: impl FnMut(H::Receipt)) {
        self.written += bytes as u64;
        while self.receipts.front().is_some_and(|(end, _)| *end <= self.written) {
            if let Some((_, receipt)) = self.receipts.pop_front() {
                delivered(receipt);
            }
        }
        self.budget.reserve(self.held_bytes());
    }

    /// Frees the output buffer if it is large and empty.
    pub fn shrink(&mut self) {
        if self.out.capacity() > KEPT_BYTES && self.out.is_empty() {
            self.out = Vec::new();
        }
    }

    /// How many streams are open.
    pub fn open_streams(&self) -> usize {
        self.streams.len()
    }

    /// Bytes that the connection holds for its peer: requests, responses and output that is not written.
    pub fn held_bytes(&self) -> usize {
        let output = self.taken + self.out.len() as u64 - self.written;
        let partial = self.partial_block.as_ref().map_or(0, |partial| partial.block.len());
        self.held + partial + output as usize
    }

    /// Resets a stream. Nothing happens if it is closed.
    pub fn reset(&mut self, stream: u32, code: ErrorCode) {
        if self.remove(stream).is_some() {
            self.send_reset(stream, code);
        }
    }

    /// Whether the budget has no room for so many bytes more.
    pub(crate) fn is_over_budget(&mut self, more: usize) -> bool {
        let held = self.held_bytes();
        self.budget.reserve(held);
        self.budget.is_exceeded_by(held + more)
    }

    pub(crate) fn insert(&mut self, stream: u32, open: Stream<H>) {
        self.held += open.held();
        self.streams.insert(stream, open);
    }

    pub(crate) fn remove(&mut self, stream: u32) -> Option<Stream<H>> {
        let open = self.streams.remove(&stream)?;
        self.held -= open.held();
        Some(open)
    }

    pub(crate) fn clear_streams(&mut self) {
        self.streams.clear();
        self.held = 0;
    }

    /// Drops some open streams, so many at most, with their requests. Whether there are more. A connection that is over and
    /// has thousands of them is taken down in parts.
    pub fn drop_streams(&mut self, most: usize) -> bool {
        let some: Vec<u32> = self.streams.keys().copied().take(most).collect();
        some.into_iter().for_each(|stream| drop(self.remove(stream)));
        !self.streams.is_empty()
    }

    /// The bytes that a stream holds have changed from one size to another.
    pub(crate) fn held_changed(&mut self, before: usize, after: usize) {
        self.held = self.held + after - before;
    }

    /// A stream error: the peer's mistake ends one stream. It counts as a reset, as if the peer had sent it.
    pub(crate) fn stream_error(&mut self, stream: u32, code: ErrorCode) -> Result<(), ConnectionError> {
        self.remove(stream);
        self.send_reset(stream, code);
        self.count_reset()
    }

    /// A stream ended early because of the peer. Each costs the peer next to nothing, and this side the beginning of a
    /// call (CVE-2023-44487, CVE-2025-8671).
    pub(crate) fn count_reset(&mut self) -> Result<(), ConnectionError> {
        if self.resets.add(1, self.now_ms) {
            return Ok(());
        }
        Err(ConnectionError::new(ErrorCode::EnhanceYourCalm, "too many resets"))
    }

    /// A frame arrived that carries no part of a request.
    pub(crate) fn count_control_frames(&mut self, count: u64) -> Result<(), ConnectionError> {
        if self.control_frames.add(count, self.now_ms) {
            return Ok(());
        }
        Err(ConnectionError::new(ErrorCode::EnhanceYourCalm, "too many control frames"))
    }

    /// Allows the peer control frames for data that it gets.
    pub(crate) fn allow_control_frames(&mut self, count: u64) {
        self.control_frames.drain(count);
    }

    /// A response was sent to its end: one that the peer waited for makes up for one that it did not.
    pub(crate) fn count_response(&mut self) {
        self.resets.drain(1);
        self.control_frames.drain(CONTROL_FRAMES_PER_RESPONSE);
    }

    /// Sends RST_STREAM, of which the peer may learn late.
    pub(crate) fn send_reset(&mut self, stream: u32, code: ErrorCode) {
        frame::rst_stream(&mut self.out, stream, code);
        if self.reset_streams.len() == RESET_STREAMS_REMEMBERED {
            self.reset_streams.pop_front();
        }
        self.reset_streams.push_back(stream);
    }
}
