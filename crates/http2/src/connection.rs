//! One connection: its streams, its windows, what it has to say.

use std::collections::{HashMap, VecDeque};

use crate::{
    errors::{Code, Violation},
    frame,
    hpack::Decoder,
    send::Piece,
};

/// Our table of headers a peer may refer to; the protocol's default.
const TABLE_BYTES: usize = 4_096;
/// Window of a connection and of a stream until somebody says otherwise.
const WINDOW_DEFAULT: i64 = 65_535;
/// Streams we ended that the peer may still send to.
const REMEMBERED: usize = 256;
/// Calls that a peer may give up, one after the other, without waiting for a single answer.
const GIVEN_UP_MAX: u32 = 10_000;
/// Larger buffers are not kept while there is nothing to write.
const KEPT_BYTES: usize = 16 * 1024;
/// With this much to be written, a peer is not read from until it reads itself.
const OUTPUT_BYTES_MAX: usize = 256 * 1024;

/// What a connection allows its peer.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Bytes that may be under way on all streams together.
    pub connection_window: u32,
    /// Bytes that may be under way on one stream.
    pub stream_window: u32,
    /// Calls at the same time.
    pub streams_max: u32,
    /// Bytes of the headers of one request.
    pub headers_max: u32,
}

/// Who answers the requests of a connection.
pub trait Requests {
    /// What is kept of a request until it is answered. It is dropped when its stream ends, in whichever way.
    type Request: Default;
    /// What comes back when an answer was written. It is dropped if that never happens.
    type Receipt;

    /// One header of a request.
    fn field(&mut self, request: &mut Self::Request, name: &[u8], value: &[u8]);

    /// All headers are there. No data follows if it has `ended`.
    fn begin(&mut self, stream: u32, request: &mut Self::Request, ended: bool);

    /// Data of a request, the last if it has `ended`. Refusing it ends the stream.
    fn data(&mut self, stream: u32, request: &mut Self::Request, data: &[u8], ended: bool) -> Result<(), Code>;
}

/// See the crate.
pub struct Connection<R: Requests> {
    pub(crate) settings: Settings,
    /// The peer has said that it speaks HTTP/2.
    pub(crate) greeted: bool,
    /// The peer has sent its settings, which must be the first it says.
    pub(crate) introduced: bool,
    pub(crate) decoder: Decoder,
    /// Headers that are not complete yet.
    pub(crate) gathering: Option<Gathering>,
    pub(crate) streams: HashMap<u32, Stream<R>>,
    /// The newest stream of the peer.
    pub(crate) last_stream: u32,
    pub(crate) receive_window: i64,
    /// Streams after this one are refused.
    pub(crate) leaving: Option<u32>,
    /// Calls given up since one was answered.
    given_up: u32,
    /// Ended by us, with the peer perhaps not knowing yet.
    pub(crate) ended: VecDeque<u32>,

    pub(crate) out: Vec<u8>,
    /// All bytes ever put into `out`.
    pub(crate) said: u64,
    /// All bytes ever written.
    pub(crate) written: u64,
    /// Answers with the place at which they end, in order.
    pub(crate) receipts: VecDeque<(u64, R::Receipt)>,
    pub(crate) send_window: i64,
    /// Window of a new stream.
    pub(crate) peer_window: i64,
    /// The peer wants a smaller table than the default: it has to be told that none is used.
    pub(crate) disown_table: bool,
    /// Streams that have data to send and, as far as known, a window to send it.
    pub(crate) ready: VecDeque<u32>,
}

/// A request or its answer under way.
pub(crate) struct Stream<R: Requests> {
    pub(crate) request: R::Request,
    /// The peer has not ended its side.
    pub(crate) receiving: bool,
    /// How much data is still to come, if the request said so.
    pub(crate) announced: Option<u64>,
    pub(crate) receive_window: i64,
    pub(crate) send_window: i64,
    /// What waits for a window.
    pub(crate) waiting: VecDeque<Piece<R::Receipt>>,
    /// In [`Connection::ready`].
    pub(crate) is_ready: bool,
}

/// Headers of which the end has not come.
pub(crate) struct Gathering {
    pub(crate) stream: u32,
    pub(crate) ended: bool,
    pub(crate) block: Vec<u8>,
    pub(crate) frames: u32,
}

impl<R: Requests> Connection<R> {
    /// A connection that was just made; it has its own settings to say.
    pub fn new(settings: Settings) -> Self {
        let mut out = Vec::new();
        frame::settings(
            &mut out,
            &[
                (frame::SETTING_STREAMS_MAX, settings.streams_max),
                (frame::SETTING_WINDOW, settings.stream_window),
                (frame::SETTING_LIST_BYTES, settings.headers_max),
            ],
        );
        let more = i64::from(settings.connection_window) - WINDOW_DEFAULT;
        if let Ok(more @ 1..) = u32::try_from(more) {
            frame::window_update(&mut out, 0, more);
        }
        Self {
            settings,
            greeted: false,
            introduced: false,
            decoder: Decoder::new(TABLE_BYTES),
            gathering: None,
            streams: HashMap::new(),
            last_stream: 0,
            receive_window: i64::from(settings.connection_window).max(WINDOW_DEFAULT),
            leaving: None,
            given_up: 0,
            ended: VecDeque::new(),
            out,
            said: 0,
            written: 0,
            receipts: VecDeque::new(),
            send_window: WINDOW_DEFAULT,
            peer_window: WINDOW_DEFAULT,
            disown_table: false,
            ready: VecDeque::new(),
        }
    }

    /// Whether the peer should not be read from, because it does not read what it was answered.
    pub fn is_congested(&self) -> bool {
        self.out.len() > OUTPUT_BYTES_MAX
    }

    /// Whether there is something to write.
    pub fn has_output(&self) -> bool {
        !self.out.is_empty() || (!self.ready.is_empty() && self.send_window > 0)
    }

    /// Moves what is to be written into `output`, which is empty.
    pub fn take_output(&mut self, output: &mut Vec<u8>) {
        while self.out.len() <= OUTPUT_BYTES_MAX && self.send_ready() {}
        self.said += self.out.len() as u64;
        std::mem::swap(&mut self.out, output);
    }

    /// So many bytes of what was taken are written; gives the receipts of answers that are written to their end.
    pub fn written(&mut self, bytes: usize, mut delivered: impl FnMut(R::Receipt)) {
        self.written += bytes as u64;
        while self.receipts.front().is_some_and(|(end, _)| *end <= self.written) {
            if let Some((_, receipt)) = self.receipts.pop_front() {
                delivered(receipt);
            }
        }
    }

    /// Asks the peer whether it is there.
    pub fn ping(&mut self) {
        frame::ping(&mut self.out, 0, *b"still on");
    }

    /// Refuses new streams from now on, and says so.
    pub fn leave(&mut self) {
        if self.leaving.is_none() {
            self.leaving = Some(self.last_stream);
            frame::go_away(&mut self.out, self.last_stream, Code::No);
        }
    }

    /// Whether it left and everything is answered.
    pub fn is_done(&self) -> bool {
        self.leaving.is_some() && self.streams.is_empty() && self.out.is_empty()
    }

    /// Says why the connection ends now.
    pub fn give_up(&mut self, violation: Violation) {
        let last = *self.leaving.get_or_insert(self.last_stream);
        self.streams.clear();
        frame::go_away(&mut self.out, last, violation.code);
    }

    /// How many calls are under way.
    pub fn calls(&self) -> usize {
        self.streams.len()
    }

    /// Ends a stream without an answer. Nothing happens if it is over.
    pub fn reset(&mut self, stream: u32, code: Code) {
        if self.streams.remove(&stream).is_some() {
            self.say_reset(stream, code);
        }
    }

    /// The peer gave a call up. One after the other costs it nothing, and this side the beginning of each.
    pub(crate) fn give_up_call(&mut self, stream: u32) -> Result<(), Violation> {
        if self.streams.remove(&stream).is_some() {
            self.given_up += 1;
        }
        if self.given_up > GIVEN_UP_MAX {
            return Err(Violation::new(Code::EnhanceYourCalm, "calls are only begun and given up"));
        }
        Ok(())
    }

    /// A call was answered to its end.
    pub(crate) fn answered(&mut self) {
        self.given_up = 0;
    }

    /// Nothing is to be written for now.
    pub fn rest(&mut self) {
        if self.out.capacity() > KEPT_BYTES && self.out.is_empty() {
            self.out = Vec::new();
        }
    }

    /// Tells the peer that a stream is over, which it may notice late.
    pub(crate) fn say_reset(&mut self, stream: u32, code: Code) {
        frame::reset(&mut self.out, stream, code);
        if self.ended.len() == REMEMBERED {
            self.ended.pop_front();
        }
        self.ended.push_back(stream);
    }
}
