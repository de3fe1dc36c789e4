//! Responses: whole or in parts, within the peer's flow-control windows.

use bytes::Bytes;

use crate::{
    connection::{CONTROL_FRAMES_PER_DATA, Connection, Handler},
    errors::ErrorCode,
    frame::{self, END_HEADERS, END_STREAM, FRAME_BYTES_MAX},
    header_block::HeaderBlock,
};

/// How much of a response in parts may wait for a window when the next part comes. More ends the stream: the peer does
/// not read it.
const PENDING_BYTES_MAX: usize = 1 << 20;
/// A response of at most this size for which the windows have room is sent without asking the budget.
const SMALL_BYTES: usize = 4 * 1024;
/// HPACK: dynamic table size update to zero.
const TABLE_SIZE_UPDATE: u8 = 0x20;

/// A whole response with one message.
pub struct Response<'a> {
    /// The header section.
    pub headers: &'a HeaderBlock,
    /// The message, with gRPC's five bytes in front.
    pub data: Vec<u8>,
    /// The trailer section.
    pub trailers: &'a HeaderBlock,
}

/// A part of a response that waits for a send window.
pub(crate) enum Pending<T> {
    /// The rest of the data, and the size of the whole, which stays in memory until the last byte is sent.
    Data(Bytes, usize),
    End(Option<HeaderBlock>, T),
}

impl<H: Handler> Connection<H> {
    /// Sends a whole response. Nothing happens if its stream is closed. If the budget has no room for it, the stream is
    /// refused and the receipt dropped.
    pub fn respond(&mut self, stream: u32, response: Response<'_>, receipt: H::Receipt) {
        let Response { headers, data, trailers } = response;
        let Some(open) = self.streams.get(&stream) else { return };
        let length = data.len();
        let window = self.send_window.min(open.send_delta + self.peer_initial_window);
        let fits = length <= FRAME_BYTES_MAX && length as i64 <= window && open.pending.is_empty();
        if !(fits && length <= SMALL_BYTES) && self.is_over_budget(0) {
            return self.refuse(stream);
        }
        self.send_headers(stream, headers);
        if fits {
            self.send_window -= length as i64;
            frame::header(&mut self.out, length, frame::DATA, 0, stream);
            self.out.extend_from_slice(&data);
            return self.close(stream, Some(trailers), Some(receipt));
        }
        self.queue_data(stream, data.into());
        self.send_end(stream, Some(trailers), receipt);
    }

    /// Sends the header section of a response in parts.
    pub fn send_headers(&mut self, stream: u32, headers: &HeaderBlock) {
        if let Some(open) = self.streams.get_mut(&stream) {
            open.headers_sent = true;
            self.write_headers(stream, headers, 0);
        }
    }

    /// Sends a part of a response. The stream is reset if the peer does not read it and too much waits.
    pub fn send_data(&mut self, stream: u32, data: Bytes) {
        let Some(open) = self.streams.get(&stream) else { return };
        if open.pending_bytes > PENDING_BYTES_MAX || self.is_over_budget(0) {
            self.reset(stream, ErrorCode::EnhanceYourCalm);
        } else {
            self.queue_data(stream, data);
        }
    }

    /// Ends a response.
    pub fn send_end(&mut self, stream: u32, trailers: Option<&HeaderBlock>, receipt: H::Receipt) {
        let Some(open) = self.streams.get_mut(&stream) else { return };
        if open.pending.is_empty() {
            self.close(stream, trailers, Some(receipt));
        } else {
            open.pending.push_back(Pending::End(trailers.cloned(), receipt));
        }
    }

    /// Sends a response that consists of one header block.
    pub fn send_trailers_only(&mut self, stream: u32, trailers: &HeaderBlock, receipt: H::Receipt) {
        self.send_end(stream, Some(trailers), receipt);
    }

    /// Answers an open stream with the refusal for an exhausted budget, or resets it if its response has begun.
    pub(crate) fn refuse(&mut self, stream: u32) {
        match self.streams.get(&stream) {
            None => {}
            Some(open) if open.headers_sent => self.reset(stream, ErrorCode::EnhanceYourCalm),
            Some(_) => self.close(stream, Some(&self.refusals.over_budget), None),
        }
    }

    fn queue_data(&mut self, stream: u32, data: Bytes) {
        if data.is_empty() {
            return;
        }
        let Some(open) = self.streams.get_mut(&stream) else { return };
        let length = data.len();
        open.pending_bytes += length;
        open.pending.push_back(Pending::Data(data, length));
        if !std::mem::replace(&mut open.is_ready, true) {
            self.ready.push_back(stream);
        }
        self.held_changed(0, length);
        // Entries of streams that are closed.
        if self.ready.len() > 2 * self.streams.len() + 64 {
            self.ready.retain(|stream| self.streams.contains_key(stream));
        }
    }

    /// Sends a DATA frame of a stream that is ready; false when nothing can be sent.
    ///
    /// Each call moves at most one stream from `blocked` to `ready`. So work is proportional to the frames sent, however
    /// often the peer changes SETTINGS_INITIAL_WINDOW_SIZE.
    pub(crate) fn send_pending(&mut self) -> bool {
        if self.send_window <= 0 {
            return false;
        }
        self.unblock_one();
        let Some(stream) = self.ready.pop_front() else { return false };
        let Some(open) = self.streams.get_mut(&stream) else { return true };
        open.is_ready = false;
        if let Some(Pending::Data(data, whole)) = open.pending.front_mut() {
            let window = self.send_window.min(open.send_delta + self.peer_initial_window).max(0) as usize;
            let length = data.len().min(window).min(FRAME_BYTES_MAX);
            if length == 0 {
                let entry = (open.send_delta, stream);
                self.block(entry);
                return true;
            }
            open.send_delta -= length as i64;
            self.send_window -= length as i64;
            frame::header(&mut self.out, length, frame::DATA, 0, stream);
            self.out.extend_from_slice(&data.split_to(length));
            if data.is_empty() {
                let whole = *whole;
                open.pending_bytes -= whole;
                open.pending.pop_front();
                self.held_changed(whole, 0);
            }
            self.allow_control_frames(CONTROL_FRAMES_PER_DATA);
        }
        let Some(open) = self.streams.get_mut(&stream) else { return true };
        match open.pending.front() {
            Some(Pending::Data(..)) => {
                open.is_ready = true;
                self.ready.push_back(stream);
            }
            Some(Pending::End(..)) => {
                if let Some(Pending::End(trailers, receipt)) = open.pending.pop_front() {
                    self.close(stream, trailers.as_ref(), Some(receipt));
                }
            }
            None => {}
        }
        true
    }

    /// Notes that a stream has pending data and no send window.
    pub(crate) fn block(&mut self, entry: (i64, u32)) {
        self.blocked.push(entry);
        if self.blocked.len() > 2 * self.streams.len() + 64 {
            let streams = &self.streams;
            self.blocked.retain(|(delta, stream)| streams.get(stream).is_some_and(|open| open.send_delta == *delta));
        }
    }

    /// Moves the blocked stream with the largest window to `ready`, if it has one now.
    fn unblock_one(&mut self) {
        while let Some((delta, stream)) = self.blocked.peek().copied() {
            let open = self.streams.get_mut(&stream);
            let open = open.filter(|open| open.send_delta == delta && !open.is_ready && !open.pending.is_empty());
            match open {
                Some(_) if delta + self.peer_initial_window <= 0 => return,
                Some(open) => {
                    open.is_ready = true;
                    self.ready.push_back(stream);
                    self.blocked.pop();
                    return;
                }
                None => _ = self.blocked.pop(),
            }
        }
    }

    /// Sends the end of a response and closes its stream.
    fn close(&mut self, stream: u32, trailers: Option<&HeaderBlock>, receipt: Option<H::Receipt>) {
        match trailers {
            Some(trailers) => self.write_headers(stream, trailers, END_STREAM),
            None => frame::header(&mut self.out, 0, frame::DATA, END_STREAM, stream),
        }
        if self.remove(stream).is_some_and(|open| open.is_receiving) {
            // The rest of the request is not needed (RFC 9113, section 8.1).
            self.send_reset(stream, ErrorCode::NoError);
        }
        if let Some(receipt) = receipt {
            self.count_response();
            self.receipts.push_back((self.taken + self.out.len() as u64, receipt));
        }
    }

    pub(crate) fn write_headers(&mut self, stream: u32, block: &HeaderBlock, flags: u8) {
        let prefix: &[u8] = if std::mem::take(&mut self.table_size_update_due) { &[TABLE_SIZE_UPDATE] } else { &[] };
        let block = block.bytes();
        let length = prefix.len() + block.len();
        if length <= FRAME_BYTES_MAX {
            frame::header(&mut self.out, length, frame::HEADERS, flags | END_HEADERS, stream);
            self.out.extend_from_slice(prefix);
            self.out.extend_from_slice(block);
            return;
        }
        let block = [prefix, block].concat();
        let last = block.len().div_ceil(FRAME_BYTES_MAX) - 1;
        for (number, part) in block.chunks(FRAME_BYTES_MAX).enumerate() {
            let kind = if number == 0 { frame::HEADERS } else { frame::CONTINUATION };
            let flags = if number == 0 { flags } else { 0 } | if number == last { END_HEADERS } else { 0 };
            frame::header(&mut self.out, part.len(), kind, flags, stream);
            self.out.extend_from_slice(part);
        }
    }
}
