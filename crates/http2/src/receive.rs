//! What a peer says: frame by frame.

use std::{collections::VecDeque, ops::RangeInclusive};

use crate::{
    connection::{Connection, Gathering, Requests, Stream},
    errors::{Code, Violation},
    frame::{self, ACK, END_HEADERS, END_STREAM, FRAME_BYTES_MAX, HEAD_BYTES, Head, PADDED, WITH_PRIORITY},
    request::Check,
};

/// How a client begins.
const GREETING: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const WINDOW_MAX: i64 = 0x7fff_ffff;
const WINDOW_TOO_LARGE: Violation = Violation::new(Code::FlowControl, "a window is too large");
const FRAME_BYTES_ALLOWED: RangeInclusive<u32> = FRAME_BYTES_MAX as u32..=0x00ff_ffff;
/// Frames over which the headers of one request may be spread.
const CONTINUATIONS_MAX: u32 = 64;
/// A smaller table than this has to be acknowledged by who writes headers.
const TABLE_BYTES_DEFAULT: u32 = 4_096;

impl<R: Requests> Connection<R> {
    /// Takes what arrived; gives how much of it was understood. The rest, the beginning of a frame, has to come again
    /// with what follows it.
    pub fn receive(&mut self, requests: &mut R, bytes: &[u8]) -> Result<usize, Violation> {
        let mut used = 0;
        if !self.greeted {
            let length = bytes.len().min(GREETING.len());
            if bytes[..length] != GREETING[..length] {
                return Err(Violation::protocol("this is not HTTP/2"));
            }
            if length < GREETING.len() {
                return Ok(0);
            }
            self.greeted = true;
            used = length;
        }
        while let Some(head) = bytes[used..].first_chunk::<HEAD_BYTES>() {
            let head = Head::read(head);
            if head.length > FRAME_BYTES_MAX {
                return Err(Violation::size("a frame is too large"));
            }
            let begin = used + HEAD_BYTES;
            let Some(payload) = bytes.get(begin..begin + head.length) else { break };
            self.frame(requests, head, payload)?;
            used = begin + head.length;
        }
        Ok(used)
    }

    fn frame(&mut self, requests: &mut R, head: Head, payload: &[u8]) -> Result<(), Violation> {
        if !self.introduced && (head.kind != frame::SETTINGS || head.has(ACK)) {
            return Err(Violation::protocol("the first frame is not settings"));
        }
        if self.gathering.is_some() && head.kind != frame::CONTINUATION {
            return Err(Violation::protocol("headers were interrupted"));
        }
        let of_connection = matches!(head.kind, frame::SETTINGS | frame::PING | frame::GOAWAY);
        if (head.stream == 0) != of_connection && head.kind <= frame::CONTINUATION && head.kind != frame::WINDOW_UPDATE
        {
            return Err(Violation::protocol("a frame on the wrong stream"));
        }
        match head.kind {
            frame::DATA => self.receive_data(requests, head, payload),
            frame::HEADERS => self.receive_headers(requests, head, payload),
            frame::PRIORITY => receive_priority(head, payload),
            frame::RST_STREAM => self.receive_reset(head, payload),
            frame::SETTINGS => self.receive_settings(head, payload),
            frame::PUSH_PROMISE => Err(Violation::protocol("clients promise nothing")),
            frame::PING => self.receive_ping(head, payload),
            frame::GOAWAY if payload.len() < 8 => Err(Violation::size("a short goodbye")),
            frame::WINDOW_UPDATE => self.receive_window_update(head, payload),
            frame::CONTINUATION => self.receive_continuation(requests, head, payload),
            // A goodbye changes nothing: what was begun is answered. What is unknown is ignored.
            _ => Ok(()),
        }
    }

    fn receive_data(&mut self, requests: &mut R, head: Head, payload: &[u8]) -> Result<(), Violation> {
        let length = payload.len() as i64;
        let data = unpadded(head, payload)?;
        self.receive_window -= length;
        if self.receive_window < 0 {
            return Err(Violation::new(Code::FlowControl, "more data than the connection's window"));
        }
        let window = i64::from(self.settings.connection_window);
        if self.receive_window <= window / 2 {
            frame::window_update(&mut self.out, 0, (window - self.receive_window) as u32);
            self.receive_window = window;
        }
        self.must_have_begun(head.stream)?;
        let Some(open) = self.streams.get_mut(&head.stream) else {
            if !self.ended.contains(&head.stream) {
                self.say_reset(head.stream, Code::StreamClosed);
            }
            return Ok(());
        };
        if !open.receiving {
            self.reset(head.stream, Code::StreamClosed);
            return Ok(());
        }
        open.receive_window -= length;
        if open.receive_window < 0 {
            self.reset(head.stream, Code::FlowControl);
            return Ok(());
        }
        let ended = head.has(END_STREAM);
        open.receiving = !ended;
        if let Some(announced) = open.announced {
            open.announced = announced.checked_sub(data.len() as u64);
            if open.announced.is_none_or(|rest| ended && rest > 0) {
                self.reset(head.stream, Code::Protocol);
                return Ok(());
            }
        }
        let window = i64::from(self.settings.stream_window);
        if !ended && open.receive_window <= window / 2 {
            frame::window_update(&mut self.out, head.stream, (window - open.receive_window) as u32);
            open.receive_window = window;
        }
        if let Err(code) = requests.data(head.stream, &mut open.request, data, ended) {
            self.reset(head.stream, code);
        }
        Ok(())
    }

    fn receive_headers(&mut self, requests: &mut R, head: Head, payload: &[u8]) -> Result<(), Violation> {
        let mut block = unpadded(head, payload)?;
        if head.has(WITH_PRIORITY) {
            let Some((priority, rest)) = block.split_first_chunk::<5>() else {
                return Err(Violation::size("headers without their priority"));
            };
            not_on_itself(head.stream, priority)?;
            block = rest;
        }
        let ended = head.has(END_STREAM);
        if head.has(END_HEADERS) {
            return self.receive_block(requests, head.stream, ended, block);
        }
        self.gathering = Some(Gathering { stream: head.stream, ended, block: block.to_vec(), frames: 1 });
        Ok(())
    }

    fn receive_continuation(&mut self, requests: &mut R, head: Head, payload: &[u8]) -> Result<(), Violation> {
        let gathering = self.gathering.as_mut().filter(|gathering| gathering.stream == head.stream);
        let Some(gathering) = gathering else { return Err(Violation::protocol("headers go on that did not begin")) };
        gathering.block.extend_from_slice(payload);
        gathering.frames += 1;
        if gathering.block.len() > self.settings.headers_max as usize || gathering.frames > CONTINUATIONS_MAX {
            return Err(Violation::new(Code::EnhanceYourCalm, "headers without end"));
        }
        if head.has(END_HEADERS)
            && let Some(Gathering { stream, ended, block, .. }) = self.gathering.take()
        {
            return self.receive_block(requests, stream, ended, &block);
        }
        Ok(())
    }

    fn receive_block(&mut self, requests: &mut R, stream: u32, ended: bool, block: &[u8]) -> Result<(), Violation> {
        if stream <= self.last_stream || stream.is_multiple_of(2) {
            return self.receive_late_block(requests, stream, ended, block);
        }
        self.last_stream = stream;
        let mut request = R::Request::default();
        let mut check = Check::default();
        self.decoder.decode(block, self.settings.headers_max as usize, &mut |name, value| {
            check.field(name, value);
            requests.field(&mut request, name, value);
        })?;
        let announced = check.content_length;
        if !check.is_well_formed() || (ended && announced.is_some_and(|length| length > 0)) {
            self.say_reset(stream, Code::Protocol);
            return Ok(());
        }
        if self.leaving.is_some() || self.streams.len() >= self.settings.streams_max as usize {
            self.say_reset(stream, Code::RefusedStream);
            return Ok(());
        }
        requests.begin(stream, &mut request, ended);
        let open = Stream {
            request,
            receiving: !ended,
            announced,
            receive_window: i64::from(self.settings.stream_window),
            send_window: self.peer_window,
            waiting: VecDeque::new(),
            is_ready: false,
        };
        self.streams.insert(stream, open);
        Ok(())
    }

    /// Headers of a stream that has begun: trailers, which gRPC clients do not send, or a mistake.
    fn receive_late_block(
        &mut self,
        requests: &mut R,
        stream: u32,
        ended: bool,
        block: &[u8],
    ) -> Result<(), Violation> {
        self.must_have_begun(stream)?;
        // Later headers refer to these, whatever becomes of them.
        self.decoder.decode(block, self.settings.headers_max as usize, &mut |_, _| {})?;
        let Some(open) = self.streams.get_mut(&stream) else {
            if self.ended.contains(&stream) {
                return Ok(());
            }
            return Err(Violation::new(Code::StreamClosed, "headers of a stream that is over"));
        };
        if !open.receiving {
            self.reset(stream, Code::StreamClosed);
        } else if !ended {
            self.reset(stream, Code::Protocol);
        } else {
            open.receiving = false;
            if let Err(code) = requests.data(stream, &mut open.request, &[], true) {
                self.reset(stream, code);
            }
        }
        Ok(())
    }

    fn receive_reset(&mut self, head: Head, payload: &[u8]) -> Result<(), Violation> {
        if payload.len() != 4 {
            return Err(Violation::size("a reset of the wrong size"));
        }
        self.must_have_begun(head.stream)?;
        self.give_up_call(head.stream)
    }

    fn receive_settings(&mut self, head: Head, payload: &[u8]) -> Result<(), Violation> {
        if head.has(ACK) {
            return if payload.is_empty() { Ok(()) } else { Err(Violation::size("settings acknowledged with more")) };
        }
        if !payload.len().is_multiple_of(6) {
            return Err(Violation::size("settings of the wrong size"));
        }
        self.introduced = true;
        let mut window = self.peer_window;
        for setting in payload.chunks_exact(6) {
            let value = u32::from_be_bytes([setting[2], setting[3], setting[4], setting[5]]);
            match u16::from_be_bytes([setting[0], setting[1]]) {
                frame::SETTING_TABLE_BYTES => self.disown_table |= value < TABLE_BYTES_DEFAULT,
                frame::SETTING_PUSH if value > 1 => return Err(Violation::protocol("a setting is out of range")),
                frame::SETTING_WINDOW if i64::from(value) > WINDOW_MAX => return Err(WINDOW_TOO_LARGE),
                frame::SETTING_WINDOW => window = i64::from(value),
                frame::SETTING_FRAME_BYTES if !FRAME_BYTES_ALLOWED.contains(&value) => {
                    return Err(Violation::protocol("a setting is out of range"));
                }
                _ => {}
            }
        }
        frame::head(&mut self.out, 0, frame::SETTINGS, ACK, 0);
        self.change_windows(window)
    }

    /// Streams that exist get the difference, and may be left with less than nothing.
    fn change_windows(&mut self, window: i64) -> Result<(), Violation> {
        let more = window - self.peer_window;
        if more == 0 {
            return Ok(());
        }
        self.peer_window = window;
        for (stream, open) in &mut self.streams {
            open.send_window += more;
            if open.send_window > WINDOW_MAX {
                return Err(WINDOW_TOO_LARGE);
            }
            if !open.waiting.is_empty() && !std::mem::replace(&mut open.is_ready, true) {
                self.ready.push_back(*stream);
            }
        }
        Ok(())
    }

    fn receive_ping(&mut self, head: Head, payload: &[u8]) -> Result<(), Violation> {
        let content = payload.try_into().map_err(|_| Violation::size("a ping of the wrong size"))?;
        if !head.has(ACK) {
            frame::ping(&mut self.out, ACK, content);
        }
        Ok(())
    }

    fn receive_window_update(&mut self, head: Head, payload: &[u8]) -> Result<(), Violation> {
        let more = payload.try_into().map_err(|_| Violation::size("a window update of the wrong size"))?;
        let more = i64::from(u32::from_be_bytes(more) & 0x7fff_ffff);
        if head.stream == 0 {
            self.send_window += more;
            if more == 0 {
                return Err(Violation::protocol("a window does not grow"));
            }
            if self.send_window > WINDOW_MAX {
                return Err(WINDOW_TOO_LARGE);
            }
            return Ok(());
        }
        self.must_have_begun(head.stream)?;
        let Some(open) = self.streams.get_mut(&head.stream) else { return Ok(()) };
        open.send_window += more;
        if more == 0 || open.send_window > WINDOW_MAX {
            let code = if more == 0 { Code::Protocol } else { Code::FlowControl };
            self.reset(head.stream, code);
        } else if !open.waiting.is_empty() && !std::mem::replace(&mut open.is_ready, true) {
            self.ready.push_back(head.stream);
        }
        Ok(())
    }

    fn must_have_begun(&self, stream: u32) -> Result<(), Violation> {
        if stream > self.last_stream || stream.is_multiple_of(2) {
            return Err(Violation::protocol("a frame for a stream that did not begin"));
        }
        Ok(())
    }
}

/// What is in a frame, without the padding around it.
fn unpadded(head: Head, payload: &[u8]) -> Result<&[u8], Violation> {
    if !head.has(PADDED) {
        return Ok(payload);
    }
    let padded = payload
        .split_first()
        .and_then(|(padding, rest)| rest.len().checked_sub(usize::from(*padding)).map(|length| &rest[..length]));
    padded.ok_or(Violation::protocol("more padding than frame"))
}

fn receive_priority(head: Head, payload: &[u8]) -> Result<(), Violation> {
    let priority = payload.try_into().map_err(|_| Violation::size("a priority of the wrong size"))?;
    not_on_itself(head.stream, priority)
}

fn not_on_itself(stream: u32, priority: &[u8; 5]) -> Result<(), Violation> {
    let [a, b, c, d, _] = *priority;
    if u32::from_be_bytes([a, b, c, d]) & 0x7fff_ffff == stream {
        return Err(Violation::protocol("a stream depends on itself"));
    }
    Ok(())
}
