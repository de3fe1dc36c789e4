//! What a peer cannot do: make a connection hold more than its budget, or work without end.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use crate::common::*;
use bytes::Bytes;
use segno_http2::{ErrorCode, HeaderBlock, Settings, SharedBudget};

/// Many streams, and a budget of 4 MiB.
fn wide() -> Settings {
    Settings { streams_max: 4_096, ..settings() }
}

/// A request that is larger than a frame, without its end.
fn half_request(stream: u32, bytes: usize) -> Vec<u8> {
    let mut all = frame(HEADERS, END_HEADERS, stream, CALL);
    for part in vec![b'x'; bytes].chunks(16_384) {
        all.extend(frame(DATA, 0, stream, part));
    }
    all
}

#[test]
fn half_sent_requests_are_held_up_to_the_budget() {
    let mut pair = Pair::with(wide(), Arc::new(SharedBudget::new(1 << 30)));
    let mut refused = 0;
    for stream in (1..1_000).step_by(2) {
        pair.receives(&half_request(stream, 60_000));
        refused += usize::from(is_refused(&pair.sends(), stream, b"budget"));
        assert!(pair.connection.held_bytes() <= 4 * MIB, "{} bytes", pair.connection.held_bytes());
    }
    assert!(refused > 400, "{refused} of 500");
    assert!(pair.connection.open_streams() > 50, "and not all");
    // The handler's state went with the stream.
    assert_eq!(pair.recorder.dropped.get() as usize, 500 - pair.connection.open_streams());
}

#[test]
fn a_refused_request_gets_an_answer_and_the_rest_of_it_is_ignored() {
    let mut pair = Pair::with(Settings { held_bytes_max: 100_000, ..wide() }, Arc::new(SharedBudget::new(1 << 30)));
    pair.receives(&half_request(1, 60_000));
    pair.receives(&half_request(3, 20_000));
    pair.sends();
    pair.receives(&frame(DATA, 0, 3, &[0; 16_000]));
    let sent = pair.sends();
    assert!(is_refused(&sent, 3, b"budget"), "{sent:?}");
    assert_eq!(sent.last().map(|frame| (frame.kind, frame.stream)), Some((RST_STREAM, 3)));
    assert_eq!(sent.last().map(|frame| frame.payload[3]), Some(ErrorCode::NoError as u8));
    pair.receives(&frame(DATA, END_STREAM, 3, &[0; 16_000]));
    assert_eq!(pair.sends(), []);
    // The first is not concerned, and afterwards there is room again.
    pair.receives(&frame(DATA, END_STREAM, 1, &[]));
    pair.responds(1, b"fine");
    assert_eq!(data_of(&pair.sends(), 1), b"fine");
    assert_eq!(pair.connection.held_bytes(), 0);
    pair.receives(&half_request(5, 60_000));
    assert_eq!(pair.connection.open_streams(), 1);
}

#[test]
fn responses_without_a_window_are_held_up_to_the_budget() {
    let mut pair = Pair::with(wide(), Arc::new(SharedBudget::new(1 << 30)));
    pair.receives(&setting(INITIAL_WINDOW, 0));
    let streams: Vec<u32> = (1..201).step_by(2).collect();
    for stream in &streams {
        pair.receives(&call(*stream));
    }
    pair.sends();
    let mut refused = 0;
    for stream in &streams {
        pair.responds(*stream, &[1; 500_000]);
        refused += usize::from(is_refused(&pair.sends(), *stream, b"budget"));
        assert!(pair.connection.held_bytes() <= 4 * MIB + 510_000, "{} bytes", pair.connection.held_bytes());
    }
    assert!((85..95).contains(&refused), "{refused} of 100");
    // New requests are refused before their handler sees them, and those that wait get their response.
    pair.receives(&call(1_001));
    assert!(is_refused(&pair.sends(), 1_001, b"budget"));
    assert!(!pair.recorder.begun.contains(&1_001));
    pair.receives(&setting(INITIAL_WINDOW, 1 << 20));
    pair.receives(&window_update(0, 1 << 30));
    let sent = pair.sends();
    assert_eq!(data_of(&sent, 1).len(), 500_000);
    assert_eq!(pair.connection.held_bytes(), 0);
}

#[test]
fn a_response_counts_until_its_last_byte_is_sent() {
    let mut pair = Pair::with(wide(), Arc::new(SharedBudget::new(1 << 30)));
    pair.receives(&setting(INITIAL_WINDOW, 499_999));
    pair.receives(&window_update(0, 1 << 30));
    let mut most = 0;
    for stream in (1..101).step_by(2) {
        pair.receives(&call(stream));
        pair.responds(stream, &[1; 500_000]);
        pair.sends();
        most = most.max(pair.connection.held_bytes());
    }
    // All but a byte of each is sent, but the buffers are still there.
    assert!(most > 4 * MIB && most < 4 * MIB + 510_000, "{most}");
    assert!(pair.connection.open_streams() < 10);
}

#[test]
fn a_response_that_is_not_read_from_the_socket_counts() {
    let mut pair = Pair::with(wide(), Arc::new(SharedBudget::new(1 << 30)));
    pair.receives(&setting(INITIAL_WINDOW, 1 << 30));
    pair.receives(&window_update(0, 1 << 30));
    let mut output = Vec::new();
    for stream in (1..8_000).step_by(2) {
        pair.receives(&call(stream));
        pair.responds(stream, &[1; 10_000]);
        if output.is_empty() {
            // Taken by the socket, and never written.
            pair.connection.take_output(&mut output);
        }
    }
    assert!(pair.connection.held_bytes() < 5 * MIB, "{}", pair.connection.held_bytes());
    assert!(pair.connection.is_congested());
}

#[test]
fn a_stream_that_was_answered_in_part_is_reset() {
    let mut pair = Pair::with(Settings { held_bytes_max: 200_000, ..wide() }, Arc::new(SharedBudget::new(1 << 30)));
    pair.receives(&[setting(INITIAL_WINDOW, 0), call(1), call(3)].concat());
    pair.connection.send_headers(1, &HeaderBlock::ok());
    pair.connection.send_headers(3, &HeaderBlock::ok());
    pair.connection.send_data(1, Bytes::from(vec![0; 300_000]));
    pair.connection.send_data(3, Bytes::from(vec![0; 10]));
    let sent = pair.sends();
    let last = sent.last().expect("a frame");
    assert_eq!((last.kind, last.stream, last.payload[3]), (RST_STREAM, 3, ErrorCode::EnhanceYourCalm as u8));
}

#[test]
fn all_connections_together_stay_within_the_shared_budget() {
    let shared = Arc::new(SharedBudget::new(16 * MIB));
    let mut pairs: Vec<_> = (0..40).map(|_| Pair::with(wide(), shared.clone())).collect();
    for round in 0..100 {
        for pair in &mut pairs {
            pair.receives(&half_request(2 * round + 1, 60_000));
            pair.sends();
        }
    }
    let held: usize = pairs.iter().map(|pair| pair.connection.held_bytes()).sum();
    assert!(held <= 16 * MIB + 40 * 128 * 1024, "{held}");
    assert!(shared.reserved() <= 16 * MIB, "{}", shared.reserved());
    // Someone who comes later is served.
    let mut late = Pair::with(wide(), shared.clone());
    late.receives(&half_request(1, 60_000));
    late.responds(1, b"fine");
    assert_eq!(data_of(&late.sends(), 1), b"fine");
    drop(pairs);
    drop(late);
    assert_eq!(shared.reserved(), 0);
}

#[test]
fn a_header_list_that_is_too_large_is_refused_for_its_stream() {
    let mut pair = Pair::new();
    let field = |name: u8, length: usize| {
        let mut field = vec![0x40, 1, name, 127];
        let rest = length - 127;
        field.extend([(rest % 128) as u8 | 128, (rest / 128) as u8]);
        field.extend(vec![b'v'; length]);
        field
    };
    // 12,000 bytes in three fields, of which the last goes into the dynamic table.
    let block = [CALL, &field(b'a', 4_000), &field(b'b', 4_000), &field(b'c', 3_900)].concat();
    pair.receives(&frame(HEADERS, END_HEADERS, 1, &block));
    let sent = pair.sends();
    assert!(is_refused(&sent, 1, b"header list"), "{sent:?}");
    assert_eq!(pair.recorder.begun, []);
    assert_eq!(pair.connection.open_streams(), 0);
    // The dynamic table was kept: entry 62 is the last field of that block.
    pair.receives(&frame(HEADERS, END_HEADERS, 3, &[CALL, &[0xbe]].concat()));
    assert_eq!(pair.recorder.begun, [3]);
    assert!(pair.connection.held_bytes() > 3_900, "and what it stands for counts");
    // Twice the limit, from a block of a few bytes, ends the connection.
    let error = pair.try_receive(&frame(HEADERS, END_HEADERS, 5, &[CALL, &[0xbe; 5]].concat())).expect_err("too much");
    assert_eq!(error.code, ErrorCode::EnhanceYourCalm);
}

#[test]
fn header_blocks_without_end_are_not_collected() {
    let mut pair = Pair::new();
    pair.receives(&frame(HEADERS, 0, 1, CALL));
    let more = frame(CONTINUATION, 0, 1, &[0x90; 8_000]);
    let error = (0..4).find_map(|_| pair.try_receive(&more).err()).expect("too much");
    assert_eq!(error.code, ErrorCode::EnhanceYourCalm);
    assert!(pair.connection.held_bytes() < 50_000);
}

/// How many of these can be sent at once before the connection ends, and how many more per second.
fn allowed(mut each: impl FnMut(u32) -> Vec<u8>) -> (usize, usize) {
    let mut pair = Pair::new();
    pair.receives(&frame(HEADERS, END_HEADERS, 1, CALL));
    let mut count = 0;
    let mut until_refused = |pair: &mut Pair, most: usize| {
        let before = count;
        while count - before < most {
            count += 1;
            if pair.try_receive(&each(2 * count as u32 + 1)).is_err() {
                break;
            }
            if count.is_multiple_of(1_000) {
                pair.sends();
            }
        }
        count - before
    };
    let burst = until_refused(&mut pair, 300_000);
    pair.now = Duration::from_secs(1);
    (burst, until_refused(&mut pair, 300_000))
}

#[test]
fn resets_of_both_kinds_are_limited() {
    let stream_error = |stream| [call(stream), window_update(stream, 0)].concat();
    let malformed = |stream| frame(HEADERS, END_HEADERS | END_STREAM, stream, b"\x83");
    let closed = |_: u32| frame(DATA, 0, 1, &[]);
    assert_eq!(allowed(|stream| [call(stream), reset(stream)].concat()), (10_001, 1_000));
    assert_eq!(allowed(stream_error), (10_001, 1_000));
    assert_eq!(allowed(malformed), (10_001, 1_000));
    assert!(allowed(closed).0 <= 100_001, "empty DATA");
}

#[test]
fn streams_beyond_the_limit_are_refused_and_counted() {
    let mut pair = Pair::new();
    let streams = (1..).step_by(2);
    let end = streams.take(20_000).position(|stream| pair.try_receive(&call(stream)).is_err());
    assert_eq!((pair.connection.open_streams(), end), (100, Some(100 + 10_000)));
}

#[test]
fn responses_make_up_for_resets() {
    let mut pair = Pair::new();
    for stream in (1..120_000).step_by(4) {
        pair.receives(&[call(stream), reset(stream), call(stream + 2)].concat());
        pair.responds(stream + 2, b"");
        pair.sends();
    }
    // One response does not make up for thousands of resets.
    let error = (120_001..200_000).step_by(2).position(|stream| {
        let error = pair.try_receive(&[call(stream), reset(stream)].concat()).is_err();
        if !error && stream % 1_000 == 1 {
            pair.receives(&call(stream + 500));
            pair.responds(stream + 500, b"");
        }
        error
    });
    assert!(error.is_some());
}

#[test]
fn control_frames_are_limited() {
    for each in [
        frame(PING, 0, 0, b"pingping"),
        frame(SETTINGS, 0, 0, &[]),
        frame(PRIORITY, 0, 7, &[0; 5]),
        frame(0x42, 0, 0, b"unknown"),
        frame(DATA, 0, 1, &[]),
        frame(GOAWAY, 0, 0, &[0; 8]),
    ] {
        let (burst, second) = allowed(|_| each.clone());
        assert!((99_990..=100_001).contains(&burst), "{burst} of {}", each[3]);
        assert!((19_990..=20_001).contains(&second), "{second} of {}", each[3]);
    }
    let full = frame(SETTINGS, 0, 0, &[0, 3, 0, 0, 0, 1].repeat(2_730));
    assert!(allowed(|_| full.clone()).0 < 700, "a large frame counts as many");
}

#[test]
fn a_client_that_gets_data_may_update_its_windows() {
    let mut pair = Pair::new();
    for stream in (1..200_000).step_by(2) {
        pair.receives(&[call(stream), frame(PING, 0, 0, b"roundtrp")].concat());
        pair.responds(stream, &[0; 100]);
        pair.receives(&[window_update(0, 100), frame(PING, 0, 0, b"roundtrp")].concat());
        pair.sends();
    }
}

/// With as many streams as possible, all blocked, a change of the initial window costs no more than with one.
#[test]
fn settings_take_constant_time() {
    let time_with = |streams: u32| {
        let settings = Settings { held_bytes_max: 1 << 30, ..wide() };
        let mut pair = Pair::with(settings, Arc::new(SharedBudget::new(1 << 33)));
        pair.receives(&setting(INITIAL_WINDOW, 0));
        for stream in 0..streams {
            pair.receives(&call(2 * stream + 1));
            pair.responds(2 * stream + 1, &[0; 50_000]);
        }
        pair.sends();
        assert_eq!(pair.connection.open_streams(), streams as usize);
        let changes = [setting(INITIAL_WINDOW, 1), setting(INITIAL_WINDOW, 0)].concat();
        let mut least = Duration::MAX;
        for _ in 0..20 {
            let began = Instant::now();
            for _ in 0..1_000 {
                pair.receives(&changes);
            }
            least = least.min(began.elapsed());
            assert!(data_of(&pair.sends(), 1).is_empty());
        }
        least
    };
    let (one, many) = (time_with(1), time_with(4_096));
    // Visiting 4,096 streams for each frame would take a thousand times as long.
    assert!(many < 20 * one + Duration::from_millis(5), "{one:?} with one stream, {many:?} with 4096");
}

#[test]
fn windows_opened_by_settings_reach_every_blocked_stream() {
    let mut pair = Pair::with(wide(), Arc::new(SharedBudget::new(1 << 30)));
    pair.receives(&[setting(INITIAL_WINDOW, 0), window_update(0, 1 << 30)].concat());
    for stream in 0..50 {
        pair.receives(&call(2 * stream + 1));
        pair.responds(2 * stream + 1, &[0; 10]);
    }
    pair.sends();
    for round in 1..=10 {
        pair.receives(&setting(INITIAL_WINDOW, round));
        let sent = pair.sends();
        for stream in 0..50 {
            assert_eq!(data_of(&sent, 2 * stream + 1).len(), 1, "stream {}, round {round}", 2 * stream + 1);
        }
    }
    assert_eq!(pair.connection.open_streams(), 0);
}

#[test]
fn a_window_that_settings_make_too_large_is_an_error() {
    let mut pair = Pair::new();
    pair.receives(&[call(1), call(3), window_update(1, 0x7fff_0000)].concat());
    // The stream with the large window is closed: no window is too large.
    pair.receives(&[reset(1), setting(INITIAL_WINDOW, 0x7000_0000)].concat());
    pair.receives(&[window_update(3, 0x0fff_0000), setting(INITIAL_WINDOW, 0)].concat());
    let error = pair.try_receive(&setting(INITIAL_WINDOW, 0x7001_0000)).expect_err("too large");
    assert_eq!(error.code, ErrorCode::FlowControl);
}
