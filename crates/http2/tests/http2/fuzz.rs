//! Fuzzing with a fixed seed: for all input nothing panics, output and memory stay bounded.
//!
//! Two generators: frames of any kind with any content, and conversations of correct frames that are then mutated, cut
//! and reordered, which get further. Each seed repeats exactly; a failure names its seed. `FUZZ_ROUNDS` multiplies the
//! number of seeds, for a longer run by hand.

use std::{sync::Arc, time::Duration};

use crate::common::*;
use bytes::Bytes;
use segno_http2::{ErrorCode, HeaderBlock, Settings, SharedBudget};

fn rounds(usual: u64) -> u64 {
    usual * std::env::var("FUZZ_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(1)
}

/// Small limits, so that they are reached.
fn narrow(random: &mut Random) -> Settings {
    Settings {
        connection_window: 1 << 17,
        stream_window: 1 << 16,
        streams_max: 1 + random.below(20) as u32,
        header_list_bytes_max: 200 + random.below(400) as u32,
        held_bytes_max: 150_000 + random.below(100_000),
    }
}

/// Frames of any kind, right and wrong: never much more output than input.
#[test]
fn random_frames() {
    let mut errors = 0;
    let seeds = rounds(20_000);
    for seed in 0..seeds {
        let mut random = Random(seed);
        let mut pair = Pair::new();
        let mut received = 0;
        for _ in 0..30 {
            let stream = random.below(8) as u32;
            let payload: Vec<u8> = match random.below(4) {
                0 => CALL.to_vec(),
                1 => vec![0; random.below(12)],
                2 => (0..random.below(60)).map(|_| random.below(256) as u8).collect(),
                _ => (random.below(1 << 20) as u32).to_be_bytes().to_vec(),
            };
            let bytes = frame(random.below(11) as u8, random.below(256) as u8, stream, &payload);
            received += bytes.len();
            if pair.try_receive(&bytes).is_err() {
                errors += 1;
                break;
            }
            if random.below(4) == 0 && stream > 0 {
                pair.responds(stream, b"something");
                received += 100;
            }
            let sent = pair.sends_bytes().len();
            assert!(sent <= 2 * received + 100, "seed {seed}: {sent} bytes for {received}");
        }
    }
    assert!(errors > seeds / 2, "most of it is wrong: {errors}");
}

/// A correct frame for a connection with these streams.
fn correct_frame(random: &mut Random, next_stream: &mut u32) -> Vec<u8> {
    if *next_stream == 1 {
        *next_stream = 3;
        return call(1);
    }
    let stream = 2 * random.below(*next_stream as usize / 2) as u32 + 1;
    match random.below(12) {
        0..=2 => {
            let stream = *next_stream;
            *next_stream += 2;
            let end = if random.below(2) == 0 { END_STREAM } else { 0 };
            // A field with indexing, and perhaps references to it.
            let field = [&[0x40, 3][..], b"x-a", &[60], &[b'v'; 60]].concat();
            let references = vec![0xbe; random.below(4)];
            let block = match random.below(4) {
                0 => [CALL, &field, &references].concat(),
                _ => CALL.to_vec(),
            };
            let cut = random.below(block.len());
            match random.below(5) {
                0 => [
                    frame(HEADERS, end, stream, &block[..cut]),
                    frame(CONTINUATION, END_HEADERS, stream, &block[cut..]),
                ]
                .concat(),
                _ => frame(HEADERS, END_HEADERS | end, stream, &block),
            }
        }
        3..=5 => {
            let size = [0, 1, 100, 5_000, 16_384][random.below(5)];
            frame(DATA, (random.below(4) == 0) as u8 * END_STREAM, stream, &vec![b'd'; size])
        }
        6 => reset(stream),
        7 => frame(PING, 0, 0, b"fuzzfuzz"),
        8 => setting(INITIAL_WINDOW, [0, 1, 1_000, 65_535, 1 << 20][random.below(5)]),
        9 => setting(1, [0, 4_096][random.below(2)]),
        10 => window_update(stream, 1 + random.below(50_000) as u32),
        _ => window_update(0, 1 + random.below(100_000) as u32),
    }
}

fn mutate(random: &mut Random, bytes: &mut Vec<u8>) {
    match random.below(4) {
        0 if !bytes.is_empty() => {
            let at = random.below(bytes.len());
            bytes[at] ^= 1 << random.below(8);
        }
        1 => bytes.truncate(random.below(bytes.len() + 1)),
        2 => bytes.extend_from_within(..random.below(bytes.len() + 1)),
        _ => {
            let at = random.below(bytes.len() + 1);
            bytes.insert(at, random.below(256) as u8);
        }
    }
}

/// Conversations that are mostly correct, with responses of all kinds: the budget holds at every step.
#[test]
fn mutated_conversations() {
    let (mut errors, mut completed, mut refused) = (0, 0, 0);
    for seed in 0..rounds(4_000) {
        let mut random = Random(seed);
        let settings = narrow(&mut random);
        let shared = Arc::new(SharedBudget::new(1 << 20));
        let mut pair = Pair::with(settings, shared.clone());
        let (mut next_stream, mut partial) = (1, Vec::new());
        for step in 0..120 {
            pair.now += Duration::from_millis(random.below(3) as u64);
            let mut bytes = correct_frame(&mut random, &mut next_stream);
            if random.below(150) == 0 {
                mutate(&mut random, &mut bytes);
            }
            partial.extend(bytes);
            match pair.try_receive(&partial) {
                Ok(used) => drop(partial.drain(..used)),
                Err(error) => {
                    errors += 1;
                    pair.connection.abort(error);
                    assert_eq!(pair.connection.open_streams(), 0, "seed {seed}");
                    let last = pair.sends().pop().expect("a last frame");
                    assert_eq!(last.kind, GOAWAY, "seed {seed}");
                    break;
                }
            }
            let stream = 2 * random.below(next_stream as usize / 2) as u32 + 1;
            let size = [0, 10, 3_000, 20_000, 70_000][random.below(5)];
            match random.below(8) {
                0..=2 => pair.responds(stream, &vec![1; size]),
                3 => {
                    pair.connection.send_headers(stream, &HeaderBlock::ok());
                    pair.connection.send_data(stream, Bytes::from(vec![2; size]));
                    if random.below(2) == 0 {
                        pair.connection.send_end(stream, None, stream);
                    }
                }
                4 => pair.connection.reset(stream, ErrorCode::Internal),
                5 if random.below(40) == 0 => pair.connection.shut_down(),
                _ => {}
            }
            // One response above the budget, and what is too small to be refused.
            let held = pair.connection.held_bytes();
            let most = settings.held_bytes_max + 70_000 + 16_384 + 8_192;
            assert!(held <= most, "seed {seed}, step {step}: {held} bytes of {most}");
            assert!(pair.connection.open_streams() <= settings.streams_max as usize, "seed {seed}");
            if random.below(3) > 0 {
                let sent = pair.sends();
                let is_refusal = |frame: &&Frame| is_refused(std::slice::from_ref(*frame), frame.stream, b"budget");
                refused += sent.iter().filter(is_refusal).count();
                completed += sent.iter().filter(|frame| frame.kind <= HEADERS && frame.flags & END_STREAM > 0).count();
            }
        }
        pair.connection.shut_down();
        pair.connection.finish_shut_down();
        drop(pair);
        assert_eq!(shared.reserved(), 0, "seed {seed}: all of the shared budget is given back");
    }
    // The generator reaches what it is meant to reach.
    assert!(
        errors > 500 && completed > 10_000 && refused > 100,
        "{errors} errors, {completed} ends, {refused} refused"
    );
}
