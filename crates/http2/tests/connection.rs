//! A connection against a peer of a few lines: calls, windows, receipts, the end, and whatever else may arrive.

use std::{cell::Cell, collections::HashMap, rc::Rc};

use bytes::Bytes;
use segno_http2::{Answer, Block, Code, Connection, Requests, Settings};

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
/// POST, http, and a path.
const CALL: &[u8] = b"\x83\x86\x04\x04/a/B";

/// Notes what arrives.
#[derive(Default)]
struct Notes {
    begun: Vec<u32>,
    ended: Vec<u32>,
    bodies: HashMap<u32, Vec<u8>>,
    dropped: Rc<Cell<u32>>,
}

#[derive(Default)]
struct Kept(Option<Rc<Cell<u32>>>);

impl Drop for Kept {
    fn drop(&mut self) {
        if let Some(dropped) = &self.0 {
            dropped.set(dropped.get() + 1);
        }
    }
}

impl Requests for Notes {
    type Request = Kept;
    type Receipt = u32;

    fn field(&mut self, request: &mut Kept, _: &[u8], _: &[u8]) {
        request.0 = Some(self.dropped.clone());
    }

    fn begin(&mut self, stream: u32, _: &mut Kept, ended: bool) {
        self.begun.push(stream);
        self.ended.extend(ended.then_some(stream));
    }

    fn data(&mut self, stream: u32, _: &mut Kept, data: &[u8], ended: bool) -> Result<(), Code> {
        self.bodies.entry(stream).or_default().extend_from_slice(data);
        self.ended.extend(ended.then_some(stream));
        Ok(())
    }
}

/// A connection and what was noted of it.
struct Pair {
    connection: Connection<Notes>,
    notes: Notes,
}

/// A frame that came out.
#[derive(Debug, PartialEq, Eq)]
struct Frame {
    kind: u8,
    flags: u8,
    stream: u32,
    payload: Vec<u8>,
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

fn setting(setting: u16, value: u32) -> Vec<u8> {
    let payload = [&setting.to_be_bytes()[..], &value.to_be_bytes()].concat();
    frame(SETTINGS, 0, 0, &payload)
}

fn window(stream: u32, more: u32) -> Vec<u8> {
    frame(WINDOW_UPDATE, 0, stream, &more.to_be_bytes())
}

fn call(stream: u32) -> Vec<u8> {
    frame(HEADERS, END_HEADERS | END_STREAM, stream, CALL)
}

impl Pair {
    fn new() -> Self {
        let settings =
            Settings { connection_window: 1 << 20, stream_window: 1 << 16, streams_max: 100, headers_max: 8192 };
        let mut pair = Self { connection: Connection::new(settings), notes: Notes::default() };
        pair.hears(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
        pair.hears(&frame(SETTINGS, 0, 0, &[]));
        pair.says();
        pair
    }

    fn hears(&mut self, bytes: &[u8]) {
        let used = self.connection.receive(&mut self.notes, bytes);
        assert_eq!(used, Ok(bytes.len()), "understood whole");
    }

    /// Everything it has to say, as frames.
    fn says(&mut self) -> Vec<Frame> {
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
        frames(&all)
    }

    fn answers(&mut self, stream: u32, data: &[u8]) {
        let (head, trailers) = (Block::ok(), Block::default().with(b"grpc-status", b"0"));
        let answer = Answer { head: &head, data: data.to_vec(), trailers: &trailers };
        self.connection.answer(stream, answer, stream);
    }
}

fn frames(mut bytes: &[u8]) -> Vec<Frame> {
    let mut frames = Vec::new();
    while let Some((head, rest)) = bytes.split_first_chunk::<9>() {
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        frames.push(Frame { kind: head[3], flags: head[4], stream, payload: rest[..length].to_vec() });
        bytes = &rest[length..];
    }
    frames
}

fn data_of(frames: &[Frame], stream: u32) -> Vec<u8> {
    let of = frames.iter().filter(|frame| frame.kind == DATA && frame.stream == stream);
    of.flat_map(|frame| frame.payload.clone()).collect()
}

#[test]
fn a_call_is_answered() {
    let mut pair = Pair::new();
    pair.hears(&frame(HEADERS, END_HEADERS, 1, CALL));
    pair.hears(&frame(DATA, 0, 1, b"hel"));
    pair.hears(&frame(DATA, END_STREAM, 1, b"lo"));
    assert_eq!((pair.notes.begun.as_slice(), pair.notes.ended.as_slice()), (&[1][..], &[1][..]));
    assert_eq!(pair.notes.bodies[&1], b"hello");
    pair.answers(1, b"world");
    let said = pair.says();
    let kinds: Vec<_> = said.iter().map(|frame| (frame.kind, frame.flags)).collect();
    assert_eq!(kinds, [(HEADERS, END_HEADERS), (DATA, 0), (HEADERS, END_HEADERS | END_STREAM)]);
    assert_eq!(said[1].payload, b"world");
    assert_eq!(pair.connection.calls(), 0);
    assert_eq!(pair.notes.dropped.get(), 1);
}

#[test]
fn a_receipt_comes_with_the_last_byte() {
    let mut pair = Pair::new();
    pair.hears(&[call(1), call(3)].concat());
    pair.answers(1, b"first");
    pair.answers(3, b"second");
    let mut output = Vec::new();
    pair.connection.take_output(&mut output);
    let mut receipts = Vec::new();
    for _ in &output {
        let before = receipts.len();
        pair.connection.written(1, |stream| receipts.push(stream));
        assert!(receipts.len() <= before + 1);
    }
    assert_eq!(receipts, [1, 3]);
    pair.connection.answer(5, Answer { head: &Block::ok(), data: Vec::new(), trailers: &Block::ok() }, 5);
    assert!(!pair.connection.has_output(), "nobody asked on stream 5");
}

#[test]
fn one_that_cannot_go_on_does_not_hold_up_the_others() {
    let mut pair = Pair::new();
    pair.hears(&setting(4, 10));
    pair.hears(&[call(1), call(3)].concat());
    pair.says();
    pair.answers(1, &[7; 25]);
    pair.answers(3, &[8; 10]);
    let said = pair.says();
    assert_eq!((data_of(&said, 1).len(), data_of(&said, 3).len()), (10, 10));
    pair.hears(&window(1, 5));
    assert_eq!(data_of(&pair.says(), 1).len(), 5);
    // Less than nothing is left of stream 1, which then gets seven.
    pair.hears(&setting(4, 2));
    pair.hears(&window(1, 15));
    let said = pair.says();
    assert_eq!(data_of(&said, 1).len(), 7, "{said:?}");
    pair.hears(&window(1, 100));
    let said = pair.says();
    assert_eq!(data_of(&said, 1).len(), 3);
    assert_eq!(said.last().map(|frame| frame.flags & END_STREAM), Some(END_STREAM));
}

#[test]
fn who_leaves_answers_what_was_asked() {
    let mut pair = Pair::new();
    pair.hears(&call(1));
    pair.connection.leave();
    pair.hears(&call(3));
    let said = pair.says();
    let kinds: Vec<_> = said.iter().map(|frame| (frame.kind, frame.stream)).collect();
    assert_eq!(kinds, [(GOAWAY, 0), (RST_STREAM, 3)]);
    assert_eq!(said[1].payload, (Code::RefusedStream as u32).to_be_bytes());
    assert!(!pair.connection.is_done());
    pair.answers(1, b"bye");
    pair.says();
    assert!(pair.connection.is_done());
}

#[test]
fn a_call_that_is_given_up_is_dropped() {
    let mut pair = Pair::new();
    pair.hears(&frame(HEADERS, END_HEADERS, 1, CALL));
    pair.hears(&frame(RST_STREAM, 0, 1, &8u32.to_be_bytes()));
    assert_eq!(pair.notes.dropped.get(), 1);
    // What was under way does no harm, and an answer that comes too late goes nowhere.
    pair.answers(1, b"late");
    assert!(!pair.connection.has_output());
}

#[test]
fn a_long_answer_in_pieces_ends_the_request_too() {
    let mut pair = Pair::new();
    pair.hears(&frame(HEADERS, END_HEADERS, 1, CALL));
    pair.connection.head(1, &Block::status(200));
    pair.connection.data(1, Bytes::from(vec![1; 40_000]));
    pair.connection.data(1, Bytes::from(vec![2; 10]));
    pair.connection.end(1, None, 1);
    let said = pair.says();
    let lengths: Vec<_> = said.iter().map(|frame| (frame.kind, frame.payload.len())).collect();
    let data = [(DATA, 16_384), (DATA, 16_384), (DATA, 7_232), (DATA, 10)];
    assert_eq!(lengths, [&[(HEADERS, 5)][..], &data, &[(DATA, 0), (RST_STREAM, 4)]].concat());
    pair.hears(&frame(DATA, 0, 1, b"still sending"));
    assert_eq!(pair.says(), []);
}

#[test]
fn headers_that_do_not_fit_are_continued() {
    let mut pair = Pair::new();
    pair.hears(&call(1));
    pair.connection.refuse(1, &Block::ok().with(b"grpc-message", &[b'x'; 40_000]), 1);
    let said = pair.says();
    let kinds: Vec<_> = said.iter().map(|frame| (frame.kind, frame.flags)).collect();
    assert_eq!(kinds, [(HEADERS, END_STREAM), (9, 0), (9, END_HEADERS)]);
}

#[test]
fn a_peer_that_does_not_read_is_not_read_from() {
    let mut pair = Pair::new();
    let pings = frame(PING, 0, 0, b"pingping").repeat(1000);
    let mut rounds = 0;
    while !pair.connection.is_congested() {
        pair.hears(&pings);
        rounds += 1;
    }
    assert!(rounds < 30);
}

#[test]
fn calls_that_are_only_begun_and_given_up_end_the_connection() {
    let reset = |stream: u32| frame(RST_STREAM, 0, stream, &8u32.to_be_bytes());
    let mut pair = Pair::new();
    for stream in (1..20_000).step_by(2) {
        pair.hears(&[call(stream), reset(stream)].concat());
    }
    // One that is answered shows that this side keeps up.
    pair.hears(&call(20_001));
    pair.answers(20_001, b"");
    pair.says();
    let refused = (20_003..50_000).step_by(2).find(|stream| {
        let bytes = [call(*stream), reset(*stream)].concat();
        pair.connection.receive(&mut pair.notes, &bytes).is_err()
    });
    assert_eq!(refused, Some(20_003 + 2 * 10_000));
}

#[test]
fn an_answer_in_pieces_that_nobody_takes_ends() {
    let mut pair = Pair::new();
    pair.hears(&[setting(4, 0), call(1)].concat());
    pair.connection.head(1, &Block::ok());
    for _ in 0..40 {
        pair.connection.data(1, Bytes::from(vec![0; 100_000]));
    }
    assert_eq!(pair.connection.calls(), 0);
    assert_eq!(pair.says().last().map(|frame| (frame.kind, frame.stream)), Some((RST_STREAM, 1)));
}

#[test]
fn the_last_goodbye_names_no_later_stream() {
    let mut pair = Pair::new();
    pair.hears(&call(1));
    pair.connection.leave();
    pair.hears(&call(3));
    let violation = pair.connection.receive(&mut pair.notes, &frame(DATA, 0, 0, b"x")).expect_err("on no stream");
    pair.connection.give_up(violation);
    let goodbyes: Vec<_> = pair.says().into_iter().filter(|frame| frame.kind == GOAWAY).collect();
    assert_eq!(goodbyes.iter().map(|frame| frame.payload[3]).collect::<Vec<_>>(), [1, 1]);
}

/// The same numbers each time.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }
}

/// Answers of all sizes to a peer that opens its windows bit by bit: never more than it allowed, in the end all of it.
#[test]
fn windows_are_kept_whatever_their_order() {
    for seed in 0..200 {
        let mut dice = Dice(seed);
        let mut pair = Pair::new();
        let mut initial = dice.below(3000) as i64;
        pair.hears(&setting(4, initial as u32));
        let mut connection_room = 65_535;
        let sizes: HashMap<u32, usize> = (0..20).map(|n| (2 * n + 1, dice.below(9000))).collect();
        let mut rooms: HashMap<u32, i64> = HashMap::new();
        let mut got: HashMap<u32, usize> = HashMap::new();
        let (mut asked, mut waiting) = (0, Vec::new());
        for _ in 0..2000 {
            match dice.below(6) {
                0 if asked < 20 => {
                    let stream = 2 * asked + 1;
                    asked += 1;
                    pair.hears(&call(stream));
                    rooms.insert(stream, initial);
                    waiting.push(stream);
                }
                1 if !waiting.is_empty() => {
                    let stream = waiting.swap_remove(dice.below(waiting.len()));
                    pair.answers(stream, &vec![stream as u8; sizes[&stream]]);
                }
                2 if asked > 0 => {
                    let (stream, more) = (2 * dice.below(asked as usize) as u32 + 1, 1 + dice.below(2000));
                    pair.hears(&window(stream, more as u32));
                    *rooms.entry(stream).or_default() += more as i64;
                }
                3 if dice.below(20) == 0 => {
                    let next = dice.below(4000) as i64;
                    pair.hears(&setting(4, next as u32));
                    rooms.values_mut().for_each(|room| *room += next - initial);
                    initial = next;
                }
                _ => {
                    pair.hears(&window(0, 100));
                    connection_room += 100;
                }
            }
            for frame in pair.says().iter().filter(|frame| frame.kind == DATA) {
                let length = frame.payload.len();
                connection_room -= length as i64;
                let room = rooms.get_mut(&frame.stream).expect("an open stream");
                *room -= length as i64;
                assert!(length == 0 || (*room >= 0 && connection_room >= 0), "seed {seed}: beyond the window");
                *got.entry(frame.stream).or_default() += length;
            }
        }
        pair.hears(&window(0, 1 << 24));
        for stream in 0..asked {
            pair.hears(&window(2 * stream + 1, 1 << 20));
        }
        for stream in waiting {
            pair.answers(stream, &vec![0; sizes[&stream]]);
        }
        for frame in pair.says().iter().filter(|frame| frame.kind == DATA) {
            *got.entry(frame.stream).or_default() += frame.payload.len();
        }
        for stream in 0..asked {
            let stream = 2 * stream + 1;
            assert_eq!(got.get(&stream).copied().unwrap_or_default(), sizes[&stream], "seed {seed}, stream {stream}");
        }
        assert_eq!(pair.connection.calls(), 0, "seed {seed}");
    }
}

/// Frames of any kind, right and wrong: no panic, and never much more to say than was heard.
#[test]
fn whatever_arrives_does_no_harm() {
    let mut violations = 0;
    for seed in 0..20_000 {
        let mut dice = Dice(seed);
        let mut pair = Pair::new();
        let mut heard = 0;
        for _ in 0..30 {
            let stream = dice.below(8) as u32;
            let payload: Vec<u8> = match dice.below(4) {
                0 => CALL.to_vec(),
                1 => vec![0; dice.below(12)],
                2 => (0..dice.below(60)).map(|_| dice.below(256) as u8).collect(),
                _ => (dice.below(1 << 20) as u32).to_be_bytes().to_vec(),
            };
            let sent = frame(dice.below(11) as u8, dice.below(256) as u8, stream, &payload);
            heard += sent.len();
            if pair.connection.receive(&mut pair.notes, &sent).is_err() {
                violations += 1;
                break;
            }
            if dice.below(4) == 0 && stream > 0 {
                pair.answers(stream, b"something");
                heard += 100;
            }
            let said: usize = pair.says().iter().map(|frame| 9 + frame.payload.len()).sum();
            assert!(said <= 2 * heard + 100, "seed {seed}: {said} bytes for {heard}");
        }
    }
    assert!(violations > 10_000, "most of it is wrong: {violations}");
}

#[test]
fn input_may_be_cut_anywhere() {
    let all = [&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], &frame(SETTINGS, 0, 0, &[]), &call(1), &call(3)].concat();
    let settings = Settings { connection_window: 1 << 20, stream_window: 1 << 16, streams_max: 9, headers_max: 999 };
    let mut pair = Pair { connection: Connection::new(settings), notes: Notes::default() };
    let mut partial = Vec::new();
    for byte in all {
        partial.push(byte);
        let used = pair.connection.receive(&mut pair.notes, &partial).expect("no violation");
        partial.drain(..used);
    }
    assert_eq!(pair.notes.begun, [1, 3]);
}
