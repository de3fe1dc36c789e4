//! Answers: whole or in pieces, within the windows the peer gave.

use bytes::Bytes;

use crate::{
    connection::{Connection, Requests},
    errors::Code,
    frame::{self, END_HEADERS, END_STREAM, FRAME_BYTES_MAX},
};

/// What may wait of an answer in pieces before its next piece ends it: the peer does not take it.
const WAITING_BYTES_MAX: usize = 1 << 20;
/// Says that this side keeps no table of headers.
const NO_TABLE: u8 = 0x20;

/// Headers as the wire has them, without reference to any table of the connection, so that they can be made once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Block(Vec<u8>);

impl Block {
    /// `:status: 200`.
    pub fn ok() -> Self {
        Self(vec![0x88])
    }

    /// `:status` with three digits.
    pub fn status(status: u16) -> Self {
        // A literal with the name of entry 8 of the fixed table.
        let mut block = Self(vec![0x08]);
        block.text(status.to_string().as_bytes());
        block
    }

    /// The same with one header more.
    #[must_use]
    pub fn with(mut self, name: &[u8], value: &[u8]) -> Self {
        self.push(name, value);
        self
    }

    /// Adds a header.
    pub fn push(&mut self, name: &[u8], value: &[u8]) {
        self.0.push(0);
        self.text(name);
        self.text(value);
    }

    /// A text that is not compressed: its length with a prefix of seven bits, then itself.
    fn text(&mut self, text: &[u8]) {
        let mut rest = text.len();
        if rest < 127 {
            self.0.push(rest as u8);
        } else {
            self.0.push(127);
            rest -= 127;
            while rest >= 128 {
                self.0.push((rest % 128) as u8 | 128);
                rest /= 128;
            }
            self.0.push(rest as u8);
        }
        self.0.extend_from_slice(text);
    }
}

/// A whole answer.
pub struct Answer<'a> {
    /// What comes first.
    pub head: &'a Block,
    /// The message, with its length in front as gRPC wants it.
    pub data: Vec<u8>,
    /// What comes last.
    pub trailers: &'a Block,
}

/// What waits for a window. Frames are as large as any peer must accept: larger ones would only make others wait.
pub(crate) enum Piece<T> {
    Data(Bytes),
    End(Option<Block>, T),
}

impl<R: Requests> Connection<R> {
    /// Answers a request. Nothing happens if its stream is over.
    pub fn answer(&mut self, stream: u32, answer: Answer<'_>, receipt: R::Receipt) {
        let Answer { head, data, trailers } = answer;
        let Some(open) = self.streams.get(&stream) else { return };
        let length = data.len();
        let fits = length <= FRAME_BYTES_MAX && length as i64 <= open.send_window.min(self.send_window);
        if !fits || !open.waiting.is_empty() {
            self.head(stream, head);
            self.data(stream, data.into());
            return self.end(stream, Some(trailers), receipt);
        }
        self.head(stream, head);
        self.send_window -= length as i64;
        frame::head(&mut self.out, length, frame::DATA, 0, stream);
        self.out.extend_from_slice(&data);
        self.last(stream, Some(trailers), receipt);
    }

    /// Begins an answer.
    pub fn head(&mut self, stream: u32, head: &Block) {
        if self.streams.contains_key(&stream) {
            self.headers(stream, head, 0);
        }
    }

    /// Goes on with an answer.
    pub fn data(&mut self, stream: u32, data: Bytes) {
        let Some(open) = self.streams.get(&stream) else { return };
        let waiting = open.waiting.iter().map(|piece| if let Piece::Data(data) = piece { data.len() } else { 0 });
        if waiting.sum::<usize>() > WAITING_BYTES_MAX {
            self.reset(stream, Code::EnhanceYourCalm);
        } else if !data.is_empty() {
            self.wait(stream, Piece::Data(data));
        }
    }

    /// Ends an answer.
    pub fn end(&mut self, stream: u32, trailers: Option<&Block>, receipt: R::Receipt) {
        match self.streams.get(&stream) {
            None => {}
            Some(open) if open.waiting.is_empty() => self.last(stream, trailers, receipt),
            Some(_) => self.wait(stream, Piece::End(trailers.cloned(), receipt)),
        }
    }

    /// An answer that is only headers.
    pub fn refuse(&mut self, stream: u32, headers: &Block, receipt: R::Receipt) {
        self.end(stream, Some(headers), receipt);
    }

    fn wait(&mut self, stream: u32, piece: Piece<R::Receipt>) {
        let Some(open) = self.streams.get_mut(&stream) else { return };
        open.waiting.push_back(piece);
        if !std::mem::replace(&mut open.is_ready, true) {
            self.ready.push_back(stream);
        }
        // Of streams that are over.
        if self.ready.len() > 2 * self.streams.len() + 64 {
            self.ready.retain(|stream| self.streams.contains_key(stream));
        }
    }

    /// Sends a frame of a stream that is ready; false when nothing can be sent.
    pub(crate) fn send_ready(&mut self) -> bool {
        if self.send_window <= 0 {
            return false;
        }
        let Some(stream) = self.ready.pop_front() else { return false };
        let Some(open) = self.streams.get_mut(&stream) else { return true };
        open.is_ready = false;
        if let Some(Piece::Data(data)) = open.waiting.front_mut() {
            let window = open.send_window.min(self.send_window).max(0) as usize;
            let length = data.len().min(window).min(FRAME_BYTES_MAX);
            if length == 0 {
                // Ready again when the stream's window opens.
                return true;
            }
            open.send_window -= length as i64;
            self.send_window -= length as i64;
            frame::head(&mut self.out, length, frame::DATA, 0, stream);
            self.out.extend_from_slice(&data.split_to(length));
            if data.is_empty() {
                open.waiting.pop_front();
            }
        }
        match open.waiting.front() {
            Some(Piece::Data(_)) => {
                open.is_ready = true;
                self.ready.push_back(stream);
            }
            Some(Piece::End(..)) => {
                if let Some(Piece::End(trailers, receipt)) = open.waiting.pop_front() {
                    self.last(stream, trailers.as_ref(), receipt);
                }
            }
            None => {}
        }
        true
    }

    /// The end of an answer; the stream is over.
    fn last(&mut self, stream: u32, trailers: Option<&Block>, receipt: R::Receipt) {
        match trailers {
            Some(trailers) => self.headers(stream, trailers, END_STREAM),
            None => frame::head(&mut self.out, 0, frame::DATA, END_STREAM, stream),
        }
        let over = self.streams.remove(&stream);
        if over.is_some_and(|open| open.receiving) {
            // The rest of the request is not wanted.
            self.say_reset(stream, Code::No);
        }
        self.answered();
        self.receipts.push_back((self.said + self.out.len() as u64, receipt));
    }

    fn headers(&mut self, stream: u32, block: &Block, flags: u8) {
        let prefix: &[u8] = if std::mem::take(&mut self.disown_table) { &[NO_TABLE] } else { &[] };
        let length = prefix.len() + block.0.len();
        if length <= FRAME_BYTES_MAX {
            frame::head(&mut self.out, length, frame::HEADERS, flags | END_HEADERS, stream);
            self.out.extend_from_slice(prefix);
            self.out.extend_from_slice(&block.0);
            return;
        }
        let block = [prefix, &block.0].concat();
        let last = block.len().div_ceil(FRAME_BYTES_MAX) - 1;
        for (number, part) in block.chunks(FRAME_BYTES_MAX).enumerate() {
            let kind = if number == 0 { frame::HEADERS } else { frame::CONTINUATION };
            let flags = if number == 0 { flags } else { 0 } | if number == last { END_HEADERS } else { 0 };
            frame::head(&mut self.out, part.len(), kind, flags, stream);
            self.out.extend_from_slice(part);
        }
    }
}
