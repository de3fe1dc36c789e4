//! HTTP/2 connections and header compression: for all input, output and memory stay bounded.

use std::{
    sync::{Arc, LazyLock},
    time::Duration,
};

use segno_http2::{
    Connection, ErrorCode, Handler, HeaderBlock, Refusals, Response, Settings, SharedBudget, hpack::Decoder,
};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const HEADER_LIST_BYTES_MAX: u32 = 600;
const HELD_BYTES_MAX: usize = 200_000;

static REFUSALS: LazyLock<Refusals> = LazyLock::new(|| Refusals {
    header_list_too_large: HeaderBlock::ok().with(b"grpc-message", b"header list"),
    over_budget: HeaderBlock::ok().with(b"grpc-message", b"budget"),
});

/// Remembers which requests ended.
#[derive(Default)]
struct EndedRequests(Vec<u32>);

impl Handler for EndedRequests {
    type Request = usize;
    type Receipt = ();

    fn field(&mut self, request: &mut usize, name: &[u8], value: &[u8]) {
        *request += name.len() + value.len();
    }

    fn headers_complete(&mut self, stream: u32, _: &mut usize, ended: bool) {
        self.0.extend(ended.then_some(stream));
    }

    fn data(&mut self, stream: u32, request: &mut usize, data: &[u8], ended: bool) -> Result<(), ErrorCode> {
        *request += data.len();
        self.0.extend(ended.then_some(stream));
        Ok(())
    }

    fn held_bytes(&self, request: &usize) -> usize {
        *request
    }
}

/// The first byte says in which pieces the rest arrives; each request that ends is answered.
pub(crate) fn run(input: &[u8]) {
    let Some((pieces, frames)) = input.split_first() else { return };
    let settings = Settings {
        connection_window: 1 << 17,
        stream_window: 1 << 16,
        streams_max: 10,
        header_list_bytes_max: HEADER_LIST_BYTES_MAX,
        held_bytes_max: HELD_BYTES_MAX,
    };
    let mut connection = Connection::new(settings, &REFUSALS, Arc::new(SharedBudget::new(1 << 20)));
    let mut ended = EndedRequests::default();
    let bytes = [PREFACE, &[0, 0, 0, 4, 0, 0, 0, 0, 0], frames].concat();
    let (mut begin, mut end) = (0, 0);
    let (mut sent, mut answers) = (0, 0);
    let headers = HeaderBlock::ok();
    let trailers = HeaderBlock::default().with(b"grpc-status", b"0");
    while end < bytes.len() {
        end = (end + 1 + usize::from(*pieces) * 8).min(bytes.len());
        let Ok(used) = connection.receive(&mut ended, &bytes[begin..end], Duration::from_millis(end as u64)) else {
            return;
        };
        begin += used;
        for stream in ended.0.drain(..) {
            answers += 1;
            connection.respond(
                stream,
                Response { headers: &headers, data: b"answer".to_vec(), trailers: &trailers },
                (),
            );
        }
        let mut output = Vec::new();
        while connection.has_output() {
            connection.take_output(&mut output);
            if output.is_empty() {
                break;
            }
            sent += output.len();
            connection.written(output.len(), |()| ());
            output.clear();
        }
        assert!(sent <= 200 + 4 * end + 200 * answers, "{sent} bytes for {end} and {answers} answers");
        assert!(connection.held_bytes() <= 2 * HELD_BYTES_MAX + bytes.len(), "{} held", connection.held_bytes());
    }
}

/// Blocks of one connection, each with its length before it.
pub(crate) fn run_hpack(input: &[u8]) {
    let mut decoder = Decoder::new(4096);
    let mut rest = input;
    while let Some((length, after)) = rest.split_first() {
        let (block, after) = after.split_at(usize::from(*length).min(after.len()));
        rest = after;
        let mut bytes = 0;
        if decoder
            .decode(block, HEADER_LIST_BYTES_MAX as usize, &mut |name, value| bytes += name.len() + value.len())
            .is_err()
        {
            return;
        }
        assert!(bytes <= HEADER_LIST_BYTES_MAX as usize, "{bytes} bytes of fields");
    }
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

pub(crate) fn seeds() -> Vec<(String, Vec<u8>)> {
    let call = b"\x83\x86\x04\x04/a/B";
    let large: Vec<u8> = (0..40).flat_map(|_| *b"\x40\x02ab\x03cde").collect();
    let conversations = [
        ("call", vec![frame(1, 5, 1, call)]),
        ("data", vec![frame(1, 4, 1, call), frame(0, 0, 1, b"\0\0\0\0\x02"), frame(0, 1, 1, b"ab")]),
        ("continuation", vec![frame(1, 1, 1, &call[..3]), frame(9, 4, 1, &call[3..])]),
        ("settings", vec![frame(4, 0, 0, &[0, 4, 0, 0, 0, 0]), frame(1, 5, 1, call), frame(8, 0, 1, &[0, 0, 0, 9])]),
        ("resets", vec![frame(1, 4, 1, call), frame(3, 0, 1, &[0, 0, 0, 8]), frame(1, 5, 3, call)]),
        ("control", vec![frame(6, 0, 0, &[7; 8]), frame(2, 0, 5, &[0; 5]), frame(7, 0, 0, &[0; 8])]),
        ("padded", vec![frame(1, 0x2d, 1, &[&[2, 0, 0, 0, 0, 7][..], call, &[0, 0]].concat())]),
        ("large", vec![frame(1, 5, 1, &[&call[..], &large].concat())]),
    ];
    let bytes = |frames: Vec<Vec<u8>>| [vec![200], frames.concat()].concat();
    conversations.into_iter().map(|(name, frames)| (name.to_owned(), bytes(frames))).collect()
}

pub(crate) fn hpack_seeds() -> Vec<(String, Vec<u8>)> {
    let blocks: [(&str, &[&[u8]]); 4] = [
        ("indexed", &[b"\x82\x86\x84"]),
        ("table", &[b"\x40\x02ab\x03cde", b"\xbe\xbe", b"\x20", b"\x3f\xe1\x1f"]),
        ("literal", &[b"\x00\x02ab\x03cde\x10\x02ab\x01z\x0f\x2f\x02zz"]),
        ("huffman", &[b"\x41\x8c\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff"]),
    ];
    let bytes = |blocks: &[&[u8]]| blocks.iter().flat_map(|block| [&[block.len() as u8], *block].concat()).collect();
    blocks.into_iter().map(|(name, blocks)| (name.to_owned(), bytes(blocks))).collect()
}
