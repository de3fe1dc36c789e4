//! A connection against a peer of a few lines: calls, flow control, receipts and shutdown.

use std::collections::HashMap;

use crate::common::*;
use bytes::Bytes;
use segno_http2::{ErrorCode, HeaderBlock, Response};

#[test]
fn a_call_is_answered() {
    let mut pair = Pair::new();
    pair.receives(&frame(HEADERS, END_HEADERS, 1, CALL));
    pair.receives(&frame(DATA, 0, 1, b"hel"));
    pair.receives(&frame(DATA, END_STREAM, 1, b"lo"));
    assert_eq!((pair.recorder.begun.as_slice(), pair.recorder.ended.as_slice()), (&[1][..], &[1][..]));
    assert_eq!(pair.recorder.bodies[&1], b"hello");
    pair.responds(1, b"world");
    let sent = pair.sends();
    let kinds: Vec<_> = sent.iter().map(|frame| (frame.kind, frame.flags)).collect();
    assert_eq!(kinds, [(HEADERS, END_HEADERS), (DATA, 0), (HEADERS, END_HEADERS | END_STREAM)]);
    assert_eq!(sent[1].payload, b"world");
    assert_eq!(pair.connection.open_streams(), 0);
    assert_eq!(pair.recorder.dropped.get(), 1);
}

#[test]
fn a_receipt_comes_with_the_last_byte() {
    let mut pair = Pair::new();
    pair.receives(&[call(1), call(3)].concat());
    pair.responds(1, b"first");
    pair.responds(3, b"second");
    let mut output = Vec::new();
    pair.connection.take_output(&mut output);
    let mut receipts = Vec::new();
    for _ in &output {
        let before = receipts.len();
        pair.connection.written(1, |stream| receipts.push(stream));
        assert!(receipts.len() <= before + 1);
    }
    assert_eq!(receipts, [1, 3]);
    pair.connection.respond(
        5,
        Response { headers: &HeaderBlock::ok(), data: Vec::new(), trailers: &HeaderBlock::ok() },
        5,
    );
    assert!(!pair.connection.has_output(), "there was no request on stream 5");
}

#[test]
fn one_that_cannot_go_on_does_not_hold_up_the_others() {
    let mut pair = Pair::new();
    pair.receives(&setting(INITIAL_WINDOW, 10));
    pair.receives(&[call(1), call(3)].concat());
    pair.sends();
    pair.responds(1, &[7; 25]);
    pair.responds(3, &[8; 10]);
    let sent = pair.sends();
    assert_eq!((data_of(&sent, 1).len(), data_of(&sent, 3).len()), (10, 10));
    pair.receives(&window_update(1, 5));
    assert_eq!(data_of(&pair.sends(), 1).len(), 5);
    // Less than nothing is left of stream 1, which then gets seven.
    pair.receives(&setting(INITIAL_WINDOW, 2));
    pair.receives(&window_update(1, 15));
    let sent = pair.sends();
    assert_eq!(data_of(&sent, 1).len(), 7, "{sent:?}");
    pair.receives(&window_update(1, 100));
    let sent = pair.sends();
    assert_eq!(data_of(&sent, 1).len(), 3);
    assert_eq!(sent.last().map(|frame| frame.flags & END_STREAM), Some(END_STREAM));
}

/// The last stream ids of all GOAWAY frames.
fn goaways(frames: &[Frame]) -> Vec<u32> {
    let last = |frame: &Frame| u32::from_be_bytes(frame.payload[..4].try_into().expect("four bytes"));
    frames.iter().filter(|frame| frame.kind == GOAWAY).map(last).collect()
}

#[test]
fn shutdown_takes_two_steps() {
    let mut pair = Pair::new();
    pair.receives(&call(1));
    pair.connection.shut_down();
    let sent = pair.sends();
    assert_eq!(goaways(&sent), [0x7fff_ffff]);
    let ping = sent.iter().find(|frame| frame.kind == PING).expect("a PING after the first GOAWAY");
    // The client has not read the GOAWAY when it sends this: it is served.
    pair.receives(&call(3));
    assert_eq!(pair.recorder.begun, [1, 3]);
    // Another acknowledgement proves nothing.
    pair.receives(&frame(PING, ACK, 0, b"whatever"));
    assert_eq!(pair.sends(), []);
    pair.receives(&frame(PING, ACK, 0, &ping.payload));
    pair.receives(&call(5));
    let sent = pair.sends();
    assert_eq!(goaways(&sent), [3]);
    assert_eq!((sent[1].kind, sent[1].stream), (RST_STREAM, 5));
    assert_eq!(sent[1].payload, (ErrorCode::RefusedStream as u32).to_be_bytes());
    pair.responds(1, b"bye");
    assert!(!pair.connection.is_shut_down());
    pair.responds(3, b"bye");
    pair.sends();
    assert!(pair.connection.is_shut_down());
}

#[test]
fn shutdown_does_not_depend_on_the_peer() {
    let mut pair = Pair::new();
    pair.connection.shut_down();
    assert_eq!(goaways(&pair.sends()), [0x7fff_ffff]);
    assert!(!pair.connection.is_shut_down(), "streams may be on their way");
    pair.connection.finish_shut_down();
    pair.connection.finish_shut_down();
    assert_eq!(goaways(&pair.sends()), [0]);
    assert!(pair.connection.is_shut_down());
    // Before the handshake there is nothing to wait for.
    let mut fresh = Pair::fresh(settings());
    fresh.connection.shut_down();
    assert_eq!(goaways(&fresh.sends()), [0]);
    assert!(fresh.connection.is_shut_down());
}

#[test]
fn a_call_that_is_given_up_is_dropped() {
    let mut pair = Pair::new();
    pair.receives(&frame(HEADERS, END_HEADERS, 1, CALL));
    pair.receives(&reset(1));
    assert_eq!(pair.recorder.dropped.get(), 1);
    // What was under way does no harm, and an answer that comes too late goes nowhere.
    pair.responds(1, b"late");
    assert!(!pair.connection.has_output());
}

#[test]
fn a_long_answer_in_pieces_ends_the_request_too() {
    let mut pair = Pair::new();
    pair.receives(&frame(HEADERS, END_HEADERS, 1, CALL));
    pair.connection.send_headers(1, &HeaderBlock::status(200));
    pair.connection.send_data(1, Bytes::from(vec![1; 40_000]));
    pair.connection.send_data(1, Bytes::from(vec![2; 10]));
    pair.connection.send_end(1, None, 1);
    let sent = pair.sends();
    let lengths: Vec<_> = sent.iter().map(|frame| (frame.kind, frame.payload.len())).collect();
    let data = [(DATA, 16_384), (DATA, 16_384), (DATA, 7_232), (DATA, 10)];
    assert_eq!(lengths, [&[(HEADERS, 5)][..], &data, &[(DATA, 0), (RST_STREAM, 4)]].concat());
    pair.receives(&frame(DATA, 0, 1, b"still sending"));
    assert_eq!(pair.sends(), []);
}

#[test]
fn headers_that_do_not_fit_are_continued() {
    let mut pair = Pair::new();
    pair.receives(&call(1));
    pair.connection.send_trailers_only(1, &HeaderBlock::ok().with(b"grpc-message", &[b'x'; 40_000]), 1);
    let sent = pair.sends();
    let kinds: Vec<_> = sent.iter().map(|frame| (frame.kind, frame.flags)).collect();
    assert_eq!(kinds, [(HEADERS, END_STREAM), (CONTINUATION, 0), (CONTINUATION, END_HEADERS)]);
}

#[test]
fn a_peer_that_does_not_read_is_not_read_from() {
    let mut pair = Pair::new();
    let pings = frame(PING, 0, 0, b"pingping").repeat(1000);
    let mut rounds = 0;
    while !pair.connection.is_congested() {
        pair.receives(&pings);
        rounds += 1;
    }
    assert!(rounds < 30);
}

#[test]
fn an_answer_in_pieces_that_nobody_takes_ends() {
    let mut pair = Pair::new();
    pair.receives(&[setting(INITIAL_WINDOW, 0), call(1)].concat());
    pair.connection.send_headers(1, &HeaderBlock::ok());
    for _ in 0..40 {
        pair.connection.send_data(1, Bytes::from(vec![0; 100_000]));
    }
    assert_eq!(pair.connection.open_streams(), 0);
    assert_eq!(pair.sends().last().map(|frame| (frame.kind, frame.stream)), Some((RST_STREAM, 1)));
}

#[test]
fn the_last_stream_of_goaway_never_grows() {
    let mut pair = Pair::new();
    pair.receives(&call(1));
    pair.connection.shut_down();
    pair.connection.finish_shut_down();
    pair.receives(&call(3));
    let error = pair.try_receive(&frame(DATA, 0, 0, b"x")).expect_err("on no stream");
    pair.connection.abort(error);
    assert_eq!(goaways(&pair.sends()), [0x7fff_ffff, 1, 1]);
}

/// Answers of all sizes to a peer that opens its windows bit by bit: never more than it allowed, in the end all of it.
#[test]
fn windows_are_kept_whatever_their_order() {
    for seed in 0..200 {
        let mut random = Random(seed);
        let mut pair = Pair::new();
        let mut initial = random.below(3000) as i64;
        pair.receives(&setting(INITIAL_WINDOW, initial as u32));
        let mut connection_room = 65_535;
        let sizes: HashMap<u32, usize> = (0..20).map(|n| (2 * n + 1, random.below(9000))).collect();
        let mut rooms: HashMap<u32, i64> = HashMap::new();
        let mut got: HashMap<u32, usize> = HashMap::new();
        let (mut asked, mut waiting) = (0, Vec::new());
        for _ in 0..2000 {
            match random.below(6) {
                0 if asked < 20 => {
                    let stream = 2 * asked + 1;
                    asked += 1;
                    pair.receives(&call(stream));
                    rooms.insert(stream, initial);
                    waiting.push(stream);
                }
                1 if !waiting.is_empty() => {
                    let stream = waiting.swap_remove(random.below(waiting.len()));
                    pair.responds(stream, &vec![stream as u8; sizes[&stream]]);
                }
                2 if asked > 0 => {
                    let (stream, more) = (2 * random.below(asked as usize) as u32 + 1, 1 + random.below(2000));
                    pair.receives(&window_update(stream, more as u32));
                    *rooms.entry(stream).or_default() += more as i64;
                }
                3 if random.below(20) == 0 => {
                    let next = random.below(4000) as i64;
                    pair.receives(&setting(INITIAL_WINDOW, next as u32));
                    rooms.values_mut().for_each(|room| *room += next - initial);
                    initial = next;
                }
                _ => {
                    pair.receives(&window_update(0, 100));
                    connection_room += 100;
                }
            }
            for frame in pair.sends().iter().filter(|frame| frame.kind == DATA) {
                let length = frame.payload.len();
                connection_room -= length as i64;
                let room = rooms.get_mut(&frame.stream).expect("an open stream");
                *room -= length as i64;
                assert!(length == 0 || (*room >= 0 && connection_room >= 0), "seed {seed}: beyond the window");
                *got.entry(frame.stream).or_default() += length;
            }
        }
        pair.receives(&window_update(0, 1 << 24));
        for stream in 0..asked {
            pair.receives(&window_update(2 * stream + 1, 1 << 20));
        }
        for stream in waiting {
            pair.responds(stream, &vec![0; sizes[&stream]]);
        }
        for frame in pair.sends().iter().filter(|frame| frame.kind == DATA) {
            *got.entry(frame.stream).or_default() += frame.payload.len();
        }
        for stream in 0..asked {
            let stream = 2 * stream + 1;
            assert_eq!(got.get(&stream).copied().unwrap_or_default(), sizes[&stream], "seed {seed}, stream {stream}");
        }
        assert_eq!(pair.connection.open_streams(), 0, "seed {seed}");
    }
}

#[test]
fn input_may_be_cut_anywhere() {
    let mut pair = Pair::fresh(settings());
    let mut partial = Vec::new();
    for byte in [PREFACE, &frame(SETTINGS, 0, 0, &[]), &call(1), &call(3)].concat() {
        partial.push(byte);
        let used = pair.try_receive(&partial).expect("no error");
        partial.drain(..used);
    }
    assert_eq!(pair.recorder.begun, [1, 3]);
}
