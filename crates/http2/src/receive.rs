//! Frames that arrive: the connection preface, requests, and which frame is handled where.

use std::{collections::VecDeque, time::Duration};

use crate::{
    connection::{Connection, Handler, PartialBlock, STREAM_BYTES, Stream},
    errors::{ConnectionError, ErrorCode},
    frame::{
        self, ACK, END_HEADERS, END_STREAM, FRAME_BYTES_MAX, FRAME_HEADER_BYTES, FrameHeader, HAS_PRIORITY, PADDED,
        STREAM_ID_MAX,
    },
    goaway::Shutdown,
    hpack::HeaderList,
    request::Check,
};

/// The beginning of the connection preface (RFC 9113, section 3.4).
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Frames over which a header block may be spread.
const CONTINUATIONS_MAX: u32 = 64;
/// A header block in several frames may be larger than a header list by this factor. The list is then refused for its
/// stream alone; a larger block ends the connection, because it would have to be decoded to keep the dynamic table.
const BLOCK_TO_LIST_MAX: usize = 2;

impl<H: Handler> Connection<H> {
    /// Takes bytes that were read; gives how many were processed. The rest, the beginning of a frame, has to be passed
    /// again together with what follows it.
    ///
    /// `now` is the time since the connection was accepted.
    pub fn receive(&mut self, handler: &mut H, bytes: &[u8], now: Duration) -> Result<usize, ConnectionError> {
        self.now_ms = now.as_millis() as u64;
        let mut used = 0;
        if !self.preface_received {
            let length = bytes.len().min(PREFACE.len());
            if bytes[..length] != PREFACE[..length] {
                return Err(ConnectionError::protocol("no HTTP/2 connection preface"));
            }
            if length < PREFACE.len() {
                return Ok(0);
            }
            self.preface_received = true;
            used = length;
        }
        while let Some(header) = bytes[used..].first_chunk::<FRAME_HEADER_BYTES>() {
            let header = FrameHeader::read(header);
            if header.length > FRAME_BYTES_MAX {
                return Err(ConnectionError::frame_size("a frame is larger than SETTINGS_MAX_FRAME_SIZE"));
            }
            let begin = used + FRAME_HEADER_BYTES;
            let Some(payload) = bytes.get(begin..begin + header.length) else { break };
            self.receive_frame(handler, header, payload)?;
            used = begin + header.length;
        }
        Ok(used)
    }

    fn receive_frame(&mut self, handler: &mut H, header: FrameHeader, payload: &[u8]) -> Result<(), ConnectionError> {
        if !self.settings_received && (header.kind != frame::SETTINGS || header.has(ACK)) {
            return Err(ConnectionError::protocol("the first frame is not SETTINGS"));
        }
        if self.partial_block.is_some() && header.kind != frame::CONTINUATION {
            return Err(ConnectionError::protocol("a header block is interrupted"));
        }
        let of_connection = matches!(header.kind, frame::SETTINGS | frame::PING | frame::GOAWAY);
        if (header.stream == 0) != of_connection
            && header.kind <= frame::CONTINUATION
            && header.kind != frame::WINDOW_UPDATE
        {
            return Err(ConnectionError::protocol("a frame on the wrong stream"));
        }
        match header.kind {
            frame::DATA => self.receive_data(handler, header, payload),
            frame::HEADERS => self.receive_headers(handler, header, payload),
            frame::CONTINUATION => self.receive_continuation(handler, header, payload),
            frame::PUSH_PROMISE => Err(ConnectionError::protocol("a client sent PUSH_PROMISE")),
            _ => self.receive_control(header, payload),
        }
    }

    fn receive_data(&mut self, handler: &mut H, header: FrameHeader, payload: &[u8]) -> Result<(), ConnectionError> {
        let length = payload.len() as i64;
        let data = unpadded(header, payload)?;
        let ended = header.has(END_STREAM);
        if data.is_empty() && !ended {
            self.count_control_frames(1)?;
        }
        self.receive_window -= length;
        if self.receive_window < 0 {
            return Err(ConnectionError::new(ErrorCode::FlowControl, "DATA exceeds the connection's receive window"));
        }
        let window = i64::from(self.settings.connection_window);
        if self.receive_window <= window / 2 {
            frame::window_update(&mut self.out, 0, (window - self.receive_window) as u32);
            self.receive_window = window;
        }
        self.require_not_idle(header.stream)?;
        let is_over_budget = self.is_over_budget(data.len());
        let Some(open) = self.streams.get_mut(&header.stream) else {
            if self.reset_streams.contains(&header.stream) {
                return Ok(());
            }
            return self.stream_error(header.stream, ErrorCode::StreamClosed);
        };
        if !open.is_receiving {
            return self.stream_error(header.stream, ErrorCode::StreamClosed);
        }
        open.receive_window -= length;
        if open.receive_window < 0 {
            return self.stream_error(header.stream, ErrorCode::FlowControl);
        }
        if let Some(left) = open.content_left {
            open.content_left = left.checked_sub(data.len() as u64);
            if open.content_left.is_none_or(|left| ended && left > 0) {
                return self.stream_error(header.stream, ErrorCode::Protocol);
            }
        }
        open.is_receiving = !ended;
        if is_over_budget && !data.is_empty() {
            self.refuse(header.stream);
            return self.count_reset();
        }
        let window = i64::from(self.settings.stream_window);
        if !ended && open.receive_window <= window / 2 {
            frame::window_update(&mut self.out, header.stream, (window - open.receive_window) as u32);
            open.receive_window = window;
        }
        let outcome = handler.data(header.stream, &mut open.request, data, ended);
        let held = handler.held_bytes(&open.request);
        let before = std::mem::replace(&mut open.request_bytes, held);
        self.held_changed(before, held);
        match outcome {
            Ok(()) => Ok(()),
            Err(code) => self.stream_error(header.stream, code),
        }
    }

    fn receive_headers(&mut self, handler: &mut H, header: FrameHeader, payload: &[u8]) -> Result<(), ConnectionError> {
        let mut block = unpadded(header, payload)?;
        if header.has(HAS_PRIORITY) {
            let Some((priority, rest)) = block.split_first_chunk::<5>() else {
                return Err(ConnectionError::frame_size("HEADERS is too short for its priority fields"));
            };
            require_no_self_dependency(header.stream, priority)?;
            block = rest;
        }
        let ended = header.has(END_STREAM);
        if header.has(END_HEADERS) {
            return self.receive_block(handler, header.stream, ended, block);
        }
        self.partial_block = Some(PartialBlock { stream: header.stream, ended, block: block.to_vec(), frames: 1 });
        Ok(())
    }

    fn receive_continuation(
        &mut self,
        handler: &mut H,
        header: FrameHeader,
        payload: &[u8],
    ) -> Result<(), ConnectionError> {
        let partial = self.partial_block.as_mut().filter(|partial| partial.stream == header.stream);
        let Some(partial) = partial else { return Err(ConnectionError::protocol("CONTINUATION without HEADERS")) };
        partial.block.extend_from_slice(payload);
        partial.frames += 1;
        let bytes_max = BLOCK_TO_LIST_MAX * self.settings.header_list_bytes_max as usize;
        if partial.block.len() > bytes_max || partial.frames > CONTINUATIONS_MAX {
            return Err(ConnectionError::new(ErrorCode::EnhanceYourCalm, "a header block is too large"));
        }
        if header.has(END_HEADERS)
            && let Some(PartialBlock { stream, ended, block, .. }) = self.partial_block.take()
        {
            return self.receive_block(handler, stream, ended, &block);
        }
        Ok(())
    }

    /// A complete header block. It is decoded even if its stream is refused: later blocks refer to the dynamic table
    /// that it changes.
    fn receive_block(
        &mut self,
        handler: &mut H,
        stream: u32,
        ended: bool,
        block: &[u8],
    ) -> Result<(), ConnectionError> {
        if stream <= self.last_stream || stream.is_multiple_of(2) {
            return self.receive_trailers(handler, stream, ended, block);
        }
        self.last_stream = stream;
        let mut request = H::Request::default();
        let mut check = Check::default();
        let list = self.decoder.decode(block, self.settings.header_list_bytes_max as usize, &mut |name, value| {
            check.field(name, value);
            handler.field(&mut request, name, value);
        })?;
        if list == HeaderList::TooLarge {
            return self.refuse_new(stream, ended, |refusals| &refusals.header_list_too_large);
        }
        let content_length = check.content_length;
        if !check.is_well_formed() || (ended && content_length.is_some_and(|length| length > 0)) {
            return self.stream_error(stream, ErrorCode::Protocol);
        }
        let is_shut_down = matches!(self.shutdown, Shutdown::LastStream(_));
        if is_shut_down || self.streams.len() >= self.settings.streams_max as usize {
            return self.stream_error(stream, ErrorCode::RefusedStream);
        }
        let request_bytes = handler.held_bytes(&request);
        if self.is_over_budget(STREAM_BYTES + request_bytes) {
            return self.refuse_new(stream, ended, |refusals| &refusals.over_budget);
        }
        handler.headers_complete(stream, &mut request, ended);
        let open = Stream {
            request_bytes: handler.held_bytes(&request),
            request,
            is_receiving: !ended,
            headers_sent: false,
            content_left: content_length,
            receive_window: i64::from(self.settings.stream_window),
            send_delta: 0,
            pending: VecDeque::new(),
            pending_bytes: 0,
            is_ready: false,
        };
        self.insert(stream, open);
        Ok(())
    }

    /// Answers a request that no handler sees.
    fn refuse_new(
        &mut self,
        stream: u32,
        ended: bool,
        which: fn(&crate::Refusals) -> &crate::HeaderBlock,
    ) -> Result<(), ConnectionError> {
        self.write_headers(stream, which(self.refusals), END_STREAM);
        if !ended {
            self.send_reset(stream, ErrorCode::NoError);
        }
        self.count_reset()
    }

    /// The header block of a stream that is not idle: trailers, which gRPC clients do not send, or a mistake.
    fn receive_trailers(
        &mut self,
        handler: &mut H,
        stream: u32,
        ended: bool,
        block: &[u8],
    ) -> Result<(), ConnectionError> {
        self.require_not_idle(stream)?;
        // Trailers are not used, so their size does not matter.
        let _ = self.decoder.decode(block, self.settings.header_list_bytes_max as usize, &mut |_, _| {})?;
        let Some(open) = self.streams.get_mut(&stream) else {
            if self.reset_streams.contains(&stream) {
                return Ok(());
            }
            return Err(ConnectionError::new(ErrorCode::StreamClosed, "HEADERS on a closed stream"));
        };
        if !open.is_receiving {
            return self.stream_error(stream, ErrorCode::StreamClosed);
        }
        if !ended {
            return self.stream_error(stream, ErrorCode::Protocol);
        }
        open.is_receiving = false;
        let outcome = handler.data(stream, &mut open.request, &[], true);
        let held = handler.held_bytes(&open.request);
        let before = std::mem::replace(&mut open.request_bytes, held);
        self.held_changed(before, held);
        match outcome {
            Ok(()) => Ok(()),
            Err(code) => self.stream_error(stream, code),
        }
    }

    /// Refuses frames on streams in the state "idle".
    pub(crate) fn require_not_idle(&self, stream: u32) -> Result<(), ConnectionError> {
        if stream > self.last_stream || stream.is_multiple_of(2) {
            return Err(ConnectionError::protocol("a frame on an idle stream"));
        }
        Ok(())
    }
}

/// The payload of a frame without its padding.
fn unpadded(header: FrameHeader, payload: &[u8]) -> Result<&[u8], ConnectionError> {
    if !header.has(PADDED) {
        return Ok(payload);
    }
    let unpadded = payload
        .split_first()
        .and_then(|(padding, rest)| rest.len().checked_sub(usize::from(*padding)).map(|length| &rest[..length]));
    unpadded.ok_or(ConnectionError::protocol("padding exceeds the frame"))
}

/// Checks the deprecated priority fields, which mean nothing here.
pub(crate) fn require_no_self_dependency(stream: u32, priority: &[u8; 5]) -> Result<(), ConnectionError> {
    let [a, b, c, d, _] = *priority;
    if u32::from_be_bytes([a, b, c, d]) & STREAM_ID_MAX == stream {
        return Err(ConnectionError::protocol("a stream depends on itself"));
    }
    Ok(())
}
