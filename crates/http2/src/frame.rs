//! Frames: their heads, and those that this side writes.

use crate::errors::Code;

/// Bytes in front of each frame.
pub(crate) const HEAD_BYTES: usize = 9;
/// Largest frame a peer may send unless told otherwise; nobody is told otherwise here.
pub(crate) const FRAME_BYTES_MAX: usize = 16_384;

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

/// Of SETTINGS and PING.
pub(crate) const ACK: u8 = 0x1;
pub(crate) const END_STREAM: u8 = 0x1;
pub(crate) const END_HEADERS: u8 = 0x4;
pub(crate) const PADDED: u8 = 0x8;
pub(crate) const WITH_PRIORITY: u8 = 0x20;

pub(crate) const SETTING_TABLE_BYTES: u16 = 0x1;
pub(crate) const SETTING_PUSH: u16 = 0x2;
pub(crate) const SETTING_STREAMS_MAX: u16 = 0x3;
pub(crate) const SETTING_WINDOW: u16 = 0x4;
pub(crate) const SETTING_FRAME_BYTES: u16 = 0x5;
pub(crate) const SETTING_LIST_BYTES: u16 = 0x6;

/// The head of a frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head {
    pub(crate) length: usize,
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
}

impl Head {
    pub(crate) fn read(bytes: &[u8; HEAD_BYTES]) -> Self {
        let [a, b, c, kind, flags, stream @ ..] = *bytes;
        Self {
            length: u32::from_be_bytes([0, a, b, c]) as usize,
            kind,
            flags,
            stream: u32::from_be_bytes(stream) & 0x7fff_ffff,
        }
    }

    pub(crate) fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// Writes the head of a frame.
pub(crate) fn head(out: &mut Vec<u8>, length: usize, kind: u8, flags: u8, stream: u32) {
    let [_, a, b, c] = (length as u32).to_be_bytes();
    let [d, e, f, g] = stream.to_be_bytes();
    out.extend_from_slice(&[a, b, c, kind, flags, d, e, f, g]);
}

pub(crate) fn reset(out: &mut Vec<u8>, stream: u32, code: Code) {
    head(out, 4, RST_STREAM, 0, stream);
    out.extend_from_slice(&(code as u32).to_be_bytes());
}

pub(crate) fn go_away(out: &mut Vec<u8>, last: u32, code: Code) {
    head(out, 8, GOAWAY, 0, 0);
    out.extend_from_slice(&last.to_be_bytes());
    out.extend_from_slice(&(code as u32).to_be_bytes());
}

pub(crate) fn window_update(out: &mut Vec<u8>, stream: u32, bytes: u32) {
    head(out, 4, WINDOW_UPDATE, 0, stream);
    out.extend_from_slice(&bytes.to_be_bytes());
}

pub(crate) fn ping(out: &mut Vec<u8>, flags: u8, content: [u8; 8]) {
    head(out, 8, PING, flags, 0);
    out.extend_from_slice(&content);
}

pub(crate) fn settings(out: &mut Vec<u8>, settings: &[(u16, u32)]) {
    head(out, settings.len() * 6, SETTINGS, 0, 0);
    for (setting, value) in settings {
        out.extend_from_slice(&setting.to_be_bytes());
        out.extend_from_slice(&value.to_be_bytes());
    }
}
