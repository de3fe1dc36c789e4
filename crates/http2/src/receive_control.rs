//! Control frames that arrive: SETTINGS, PING, WINDOW_UPDATE, RST_STREAM, PRIORITY, GOAWAY and unknown types.
//!
//! Each takes constant time, or logarithmic at most, however many streams are open, and each is counted.

use std::ops::RangeInclusive;

use crate::{
    connection::{Connection, Handler},
    errors::{ConnectionError, ErrorCode},
    frame::{self, ACK, FRAME_BYTES_MAX, FrameHeader, STREAM_ID_MAX},
    goaway::{SHUTDOWN_PING, Shutdown},
    receive::require_no_self_dependency,
};

const WINDOW_MAX: i64 = 0x7fff_ffff;
const WINDOW_TOO_LARGE: ConnectionError =
    ConnectionError::new(ErrorCode::FlowControl, "a flow-control window exceeds its maximum");
const OUT_OF_RANGE: ConnectionError = ConnectionError::protocol("a setting is out of range");
const FRAME_BYTES_ALLOWED: RangeInclusive<u32> = FRAME_BYTES_MAX as u32..=0x00ff_ffff;
/// A peer with a smaller dynamic table than this has to be sent a size update.
const TABLE_BYTES_DEFAULT: u32 = 4_096;
/// So many settings in one frame count as one frame more; likewise streams that have to be looked at.
const SETTINGS_PER_FRAME: usize = 16;

impl<H: Handler> Connection<H> {
    pub(crate) fn receive_control(&mut self, header: FrameHeader, payload: &[u8]) -> Result<(), ConnectionError> {
        self.count_control_frames(1)?;
        match header.kind {
            frame::PRIORITY => {
                let priority = payload.try_into();
                let priority = priority.map_err(|_| ConnectionError::frame_size("PRIORITY of the wrong size"))?;
                require_no_self_dependency(header.stream, priority)
            }
            frame::RST_STREAM => self.receive_reset(header, payload),
            frame::SETTINGS => self.receive_settings(header, payload),
            frame::PING => self.receive_ping(header, payload),
            frame::GOAWAY if payload.len() < 8 => Err(ConnectionError::frame_size("GOAWAY is too short")),
            frame::WINDOW_UPDATE => self.receive_window_update(header, payload),
            // A peer that sends GOAWAY still gets its responses. Unknown types are ignored.
            _ => Ok(()),
        }
    }

    fn receive_reset(&mut self, header: FrameHeader, payload: &[u8]) -> Result<(), ConnectionError> {
        if payload.len() != 4 {
            return Err(ConnectionError::frame_size("RST_STREAM of the wrong size"));
        }
        self.require_not_idle(header.stream)?;
        if self.remove(header.stream).is_some() { self.count_reset() } else { Ok(()) }
    }

    fn receive_settings(&mut self, header: FrameHeader, payload: &[u8]) -> Result<(), ConnectionError> {
        if header.has(ACK) {
            let is_empty = payload.is_empty();
            return if is_empty { Ok(()) } else { Err(ConnectionError::frame_size("SETTINGS with ACK is not empty")) };
        }
        if !payload.len().is_multiple_of(6) {
            return Err(ConnectionError::frame_size("SETTINGS of the wrong size"));
        }
        self.count_control_frames((payload.len() / (6 * SETTINGS_PER_FRAME)) as u64)?;
        self.settings_received = true;
        let mut window = self.peer_initial_window;
        for setting in payload.chunks_exact(6) {
            let value = u32::from_be_bytes([setting[2], setting[3], setting[4], setting[5]]);
            match u16::from_be_bytes([setting[0], setting[1]]) {
                frame::SETTINGS_HEADER_TABLE_SIZE => self.table_size_update_due |= value < TABLE_BYTES_DEFAULT,
                frame::SETTINGS_ENABLE_PUSH if value > 1 => return Err(OUT_OF_RANGE),
                frame::SETTINGS_INITIAL_WINDOW_SIZE if i64::from(value) > WINDOW_MAX => return Err(WINDOW_TOO_LARGE),
                frame::SETTINGS_INITIAL_WINDOW_SIZE => window = i64::from(value),
                frame::SETTINGS_MAX_FRAME_SIZE if !FRAME_BYTES_ALLOWED.contains(&value) => return Err(OUT_OF_RANGE),
                _ => {}
            }
        }
        frame::header(&mut self.out, 0, frame::SETTINGS, ACK, 0);
        self.change_initial_window(window)
    }

    /// Changes the send windows of all streams, without visiting them: a window is this value plus the stream's delta,
    /// and `blocked` is in the order of deltas.
    fn change_initial_window(&mut self, window: i64) -> Result<(), ConnectionError> {
        self.peer_initial_window = window;
        if window + self.send_delta_bound <= WINDOW_MAX {
            return Ok(());
        }
        // The bound may be that of a stream which is closed by now.
        self.count_control_frames((self.streams.len() / SETTINGS_PER_FRAME) as u64)?;
        self.send_delta_bound = self.streams.values().map(|open| open.send_delta).max().unwrap_or_default().max(0);
        if window + self.send_delta_bound <= WINDOW_MAX { Ok(()) } else { Err(WINDOW_TOO_LARGE) }
    }

    fn receive_ping(&mut self, header: FrameHeader, payload: &[u8]) -> Result<(), ConnectionError> {
        let opaque_data = payload.try_into().map_err(|_| ConnectionError::frame_size("PING of the wrong size"))?;
        if !header.has(ACK) {
            frame::ping(&mut self.out, ACK, opaque_data);
        } else if self.shutdown == Shutdown::Announced && opaque_data == SHUTDOWN_PING {
            self.finish_shut_down();
        }
        Ok(())
    }

    fn receive_window_update(&mut self, header: FrameHeader, payload: &[u8]) -> Result<(), ConnectionError> {
        let increment = payload.try_into();
        let increment = increment.map_err(|_| ConnectionError::frame_size("WINDOW_UPDATE of the wrong size"))?;
        let increment = i64::from(u32::from_be_bytes(increment) & STREAM_ID_MAX);
        if header.stream == 0 {
            self.send_window += increment;
            if increment == 0 {
                return Err(ConnectionError::protocol("WINDOW_UPDATE with an increment of zero"));
            }
            return if self.send_window <= WINDOW_MAX { Ok(()) } else { Err(WINDOW_TOO_LARGE) };
        }
        self.require_not_idle(header.stream)?;
        let Some(open) = self.streams.get_mut(&header.stream) else { return Ok(()) };
        if increment == 0 {
            return self.stream_error(header.stream, ErrorCode::Protocol);
        }
        open.send_delta += increment;
        if open.send_delta + self.peer_initial_window > WINDOW_MAX {
            return self.stream_error(header.stream, ErrorCode::FlowControl);
        }
        self.send_delta_bound = self.send_delta_bound.max(open.send_delta);
        if !open.pending.is_empty() && !open.is_ready {
            let entry = (open.send_delta, header.stream);
            self.block(entry);
        }
        Ok(())
    }
}
