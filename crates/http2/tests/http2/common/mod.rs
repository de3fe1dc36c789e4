//! What the tests of a connection share: a handler that records, a peer of a few lines, pseudo-random numbers.

#![allow(dead_code, reason = "each test file uses its own part")]

use std::{
    cell::Cell,
    collections::HashMap,
    rc::Rc,
    sync::{Arc, LazyLock},
    time::Duration,
};

use segno_http2::{
    Connection, ConnectionError, ErrorCode, Handler, HeaderBlock, Refusals, Response, Settings, SharedBudget,
};

pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const PRIORITY: u8 = 2;
pub const RST_STREAM: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const PING: u8 = 6;
pub const GOAWAY: u8 = 7;
pub const WINDOW_UPDATE: u8 = 8;
pub const CONTINUATION: u8 = 9;
pub const ACK: u8 = 1;
pub const END_STREAM: u8 = 1;
pub const END_HEADERS: u8 = 4;
/// SETTINGS_INITIAL_WINDOW_SIZE.
pub const INITIAL_WINDOW: u16 = 4;
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// POST, http, and a path.
pub const CALL: &[u8] = b"\x83\x86\x04\x04/a/B";
pub const MIB: usize = 1 << 20;

pub static REFUSALS: LazyLock<Refusals> = LazyLock::new(|| Refusals {
    header_list_too_large: HeaderBlock::ok().with(b"grpc-message", b"header list"),
    over_budget: HeaderBlock::ok().with(b"grpc-message", b"budget"),
});

/// Records what arrives.
#[derive(Default)]
pub struct Recorder {
    pub begun: Vec<u32>,
    pub ended: Vec<u32>,
    pub bodies: HashMap<u32, Vec<u8>>,
    /// How many requests were dropped.
    pub dropped: Rc<Cell<u32>>,
}

/// A request's state: how much it holds.
#[derive(Default)]
pub struct Held {
    bytes: usize,
    dropped: Option<Rc<Cell<u32>>>,
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(dropped) = &self.dropped {
            dropped.set(dropped.get() + 1);
        }
    }
}

impl Handler for Recorder {
    type Request = Held;
    type Receipt = u32;

    fn field(&mut self, request: &mut Held, name: &[u8], value: &[u8]) {
        request.dropped = Some(self.dropped.clone());
        request.bytes += name.len() + value.len();
    }

    fn headers_complete(&mut self, stream: u32, _: &mut Held, ended: bool) {
        self.begun.push(stream);
        self.ended.extend(ended.then_some(stream));
    }

    fn data(&mut self, stream: u32, request: &mut Held, data: &[u8], ended: bool) -> Result<(), ErrorCode> {
        request.bytes += data.len();
        self.bodies.entry(stream).or_default().extend_from_slice(data);
        self.ended.extend(ended.then_some(stream));
        Ok(())
    }

    fn held_bytes(&self, request: &Held) -> usize {
        request.bytes
    }
}

/// A connection with its recorder, and a peer that reads all that is written.
pub struct Pair {
    pub connection: Connection<Recorder>,
    pub recorder: Recorder,
    pub now: Duration,
}

/// A frame that came out.
#[derive(Debug, PartialEq, Eq)]
pub struct Frame {
    pub kind: u8,
    pub flags: u8,
    pub stream: u32,
    pub payload: Vec<u8>,
}

pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

pub fn setting(setting: u16, value: u32) -> Vec<u8> {
    let payload = [&setting.to_be_bytes()[..], &value.to_be_bytes()].concat();
    frame(SETTINGS, 0, 0, &payload)
}

pub fn window_update(stream: u32, increment: u32) -> Vec<u8> {
    frame(WINDOW_UPDATE, 0, stream, &increment.to_be_bytes())
}

pub fn call(stream: u32) -> Vec<u8> {
    frame(HEADERS, END_HEADERS | END_STREAM, stream, CALL)
}

pub fn reset(stream: u32) -> Vec<u8> {
    frame(RST_STREAM, 0, stream, &8u32.to_be_bytes())
}

/// Settings of most tests.
pub fn settings() -> Settings {
    Settings {
        connection_window: 1 << 20,
        stream_window: 1 << 16,
        streams_max: 100,
        header_list_bytes_max: 8192,
        held_bytes_max: 4 * MIB,
    }
}

impl Pair {
    /// A connection whose preface is complete.
    pub fn new() -> Self {
        Self::with(settings(), Arc::new(SharedBudget::new(1 << 30)))
    }

    /// A connection to which nothing was sent.
    pub fn fresh(settings: Settings) -> Self {
        let connection = Connection::new(settings, &REFUSALS, Arc::new(SharedBudget::new(1 << 30)));
        Self { connection, recorder: Recorder::default(), now: Duration::ZERO }
    }

    pub fn with(settings: Settings, shared: Arc<SharedBudget>) -> Self {
        let mut pair = Self::fresh(settings);
        pair.connection = Connection::new(settings, &REFUSALS, shared);
        pair.receives(PREFACE);
        pair.receives(&frame(SETTINGS, 0, 0, &[]));
        pair.sends();
        pair
    }

    pub fn try_receive(&mut self, bytes: &[u8]) -> Result<usize, ConnectionError> {
        self.connection.receive(&mut self.recorder, bytes, self.now)
    }

    pub fn receives(&mut self, bytes: &[u8]) {
        assert_eq!(self.try_receive(bytes), Ok(bytes.len()), "processed to the end");
    }

    /// All output, as bytes.
    pub fn sends_bytes(&mut self) -> Vec<u8> {
        let mut all = Vec::new();
        let mut output = Vec::new();
        while self.connection.has_output() {
            self.connection.take_output(&mut output);
            if output.is_empty() {
                break;
            }
            self.connection.written(output.len(), |_| ());
            all.append(&mut output);
        }
        all
    }

    /// All output, as frames.
    pub fn sends(&mut self) -> Vec<Frame> {
        frames(&self.sends_bytes())
    }

    pub fn responds(&mut self, stream: u32, data: &[u8]) {
        let (headers, trailers) = (HeaderBlock::ok(), HeaderBlock::default().with(b"grpc-status", b"0"));
        let response = Response { headers: &headers, data: data.to_vec(), trailers: &trailers };
        self.connection.respond(stream, response, stream);
    }
}

pub fn frames(mut bytes: &[u8]) -> Vec<Frame> {
    let mut frames = Vec::new();
    while let Some((head, rest)) = bytes.split_first_chunk::<9>() {
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        frames.push(Frame { kind: head[3], flags: head[4], stream, payload: rest[..length].to_vec() });
        bytes = &rest[length..];
    }
    frames
}

/// Whether a stream was answered with a refusal that says this.
pub fn is_refused(frames: &[Frame], stream: u32, text: &[u8]) -> bool {
    let says = |frame: &Frame| frame.payload.windows(text.len()).any(|part| part == text);
    frames.iter().any(|frame| (frame.kind, frame.stream) == (HEADERS, stream) && frame.flags & 1 == 1 && says(frame))
}

pub fn data_of(frames: &[Frame], stream: u32) -> Vec<u8> {
    let of = frames.iter().filter(|frame| frame.kind == DATA && frame.stream == stream);
    of.flat_map(|frame| frame.payload.clone()).collect()
}

/// Pseudo-random numbers: a seed repeats exactly.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }
}
