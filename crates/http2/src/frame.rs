//! Frame headers, and the frames that this side writes (RFC 9113, sections 4 and 6).

use crate::errors::ErrorCode;

/// Size of a frame header.
pub(crate) const FRAME_HEADER_BYTES: usize = 9;
/// SETTINGS_MAX_FRAME_SIZE: the default, which is also the minimum. This side neither raises it nor sends larger frames
/// to peers that raise theirs: larger frames only delay other streams.
pub(crate) const FRAME_BYTES_MAX: usize = 16_384;
/// The largest stream id there is.
pub(crate) const STREAM_ID_MAX: u32 = 0x7fff_ffff;

pub(crate) const DATA: u8 = 0x0;
pub(crate) const HEADERS: u8 = 0x1;
pub(crate) const PRIORITY: u8 = 0x2;
pub(crate) const RST_STREAM: u8 = 0x3;
pub(crate) const SETTINGS: u8 = 0x4;
pub(crate) const PUSH_PROMISE: u8 = 0x5;
pub(crate) const PING: u8 = 0x6;
pub(crate) const GOAWAY: u8 = 0x7;
pub(crate) const WINDOW_UPDATE: u8 = 0x8;
pub(crate) const CONTINUATION: u8 = 0x9;

/// Flag of SETTINGS and PING.
pub(crate) const ACK: u8 = 0x1;
pub(crate) const END_STREAM: u8 = 0x1;
pub(crate) const END_HEADERS: u8 = 0x4;
pub(crate) const PADDED: u8 = 0x8;
/// The flag PRIORITY of HEADERS.
pub(crate) const HAS_PRIORITY: u8 = 0x20;

pub(crate) const SETTINGS_HEADER_TABLE_SIZE: u16 = 0x1;
pub(crate) const SETTINGS_ENABLE_PUSH: u16 = 0x2;
pub(crate) const SETTINGS_MAX_CONCURRENT_STREAMS: u16 = 0x3;
pub(crate) const SETTINGS_INITIAL_WINDOW_SIZE: u16 = 0x4;
pub(crate) const SETTINGS_MAX_FRAME_SIZE: u16 = 0x5;
pub(crate) const SETTINGS_MAX_HEADER_LIST_SIZE: u16 = 0x6;

/// A frame header.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FrameHeader {
    pub(crate) length: usize,
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
}

impl FrameHeader {
    pub(crate) fn read(bytes: &[u8; FRAME_HEADER_BYTES]) -> Self {
        let [a, b, c, kind, flags, stream @ ..] = *bytes;
        Self {
            length: u32::from_be_bytes([0, a, b, c]) as usize,
            kind,
            flags,
            stream: u32::from_be_bytes(stream) & STREAM_ID_MAX,
        }
    }

    pub(crate) fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// Writes a frame header.
pub(crate) fn header(out: &mut Vec<u8>, length: usize, kind: u8, flags: u8, stream: u32) {
    let [_, a, b, c] = (length as u32).to_be_bytes();
    let [d, e, f, g] = stream.to_be_bytes();
    out.extend_from_slice(&[a, b, c, kind, flags, d, e, f, g]);
}

pub(crate) fn rst_stream(out: &mut Vec<u8>, stream: u32, code: ErrorCode) {
    header(out, 4, RST_STREAM, 0, stream);
    out.extend_from_slice(&(code as u32).to_be_bytes());
}

pub(crate) fn goaway(out: &mut Vec<u8>, last_stream: u32, code: ErrorCode) {
    header(out, 8, GOAWAY, 0, 0);
    out.extend_from_slice(&last_stream.to_be_bytes());
    out.extend_from_slice(&(code as u32).to_be_bytes());
}

pub(crate) fn window_update(out: &mut Vec<u8>, stream: u32, increment: u32) {
    header(out, 4, WINDOW_UPDATE, 0, stream);
    out.extend_from_slice(&increment.to_be_bytes());
}

pub(crate) fn ping(out: &mut Vec<u8>, flags: u8, opaque_data: [u8; 8]) {
    header(out, 8, PING, flags, 0);
    out.extend_from_slice(&opaque_data);
}

pub(crate) fn settings(out: &mut Vec<u8>, settings: &[(u16, u32)]) {
    header(out, settings.len() * 6, SETTINGS, 0, 0);
    for (identifier, value) in settings {
        out.extend_from_slice(&identifier.to_be_bytes());
        out.extend_from_slice(&value.to_be_bytes());
    }
}
