//! The end of a connection: graceful shutdown in two steps (RFC 9113, section 6.8), or at once with an error.

use crate::{
    connection::{Connection, Handler},
    errors::{ConnectionError, ErrorCode},
    frame::{self, STREAM_ID_MAX},
};

/// Marks the PING whose acknowledgement shows that the peer has read the first GOAWAY.
pub(crate) const SHUTDOWN_PING: [u8; 8] = *b"shutdown";
const KEEPALIVE_PING: [u8; 8] = *b"still on";

/// How far the shutdown of a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shutdown {
    No,
    /// GOAWAY with the largest stream id was sent. Streams that the peer opens before it has read it are served.
    Announced,
    /// GOAWAY with this last stream id was sent. Later streams are refused.
    LastStream(u32),
}

impl<H: Handler> Connection<H> {
    /// Begins a graceful shutdown: GOAWAY without a last stream, and a PING. When the PING is acknowledged, or
    /// [`Connection::finish_shut_down`] is called, a second GOAWAY names the last stream that is served.
    pub fn shut_down(&mut self) {
        if self.shutdown != Shutdown::No {
            return;
        }
        self.shutdown = Shutdown::Announced;
        if self.settings_received {
            frame::goaway(&mut self.out, STREAM_ID_MAX, ErrorCode::NoError);
            frame::ping(&mut self.out, 0, SHUTDOWN_PING);
        } else {
            // The peer has not completed the handshake, so there is no request under way.
            self.finish_shut_down();
        }
    }

    /// The second step of a shutdown that has begun.
    pub fn finish_shut_down(&mut self) {
        if self.shutdown == Shutdown::Announced {
            self.shutdown = Shutdown::LastStream(self.last_stream);
            frame::goaway(&mut self.out, self.last_stream, ErrorCode::NoError);
        }
    }

    /// Whether the shutdown is complete: no stream is open and everything was taken for writing.
    pub fn is_shut_down(&self) -> bool {
        matches!(self.shutdown, Shutdown::LastStream(_)) && self.streams.is_empty() && self.out.is_empty()
    }

    /// Ends the connection with an error: all streams are dropped, and GOAWAY is the last frame.
    pub fn abort(&mut self, error: ConnectionError) {
        // The last stream id of a GOAWAY may not be larger than that of an earlier one.
        let last = if let Shutdown::LastStream(last) = self.shutdown { last } else { self.last_stream };
        self.shutdown = Shutdown::LastStream(last);
        self.clear_streams();
        frame::goaway(&mut self.out, last, error.code);
    }

    /// Sends a PING, which a peer that is alive acknowledges.
    pub fn ping(&mut self) {
        frame::ping(&mut self.out, 0, KEEPALIVE_PING);
    }
}
