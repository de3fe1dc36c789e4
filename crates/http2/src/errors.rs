//! Stream errors and connection errors (RFC 9113, section 5.4).

use std::fmt;

use crate::hpack::HpackError;

/// Error codes of RFC 9113, section 7.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum ErrorCode {
    /// NO_ERROR.
    NoError = 0x0,
    /// PROTOCOL_ERROR.
    Protocol = 0x1,
    /// INTERNAL_ERROR.
    Internal = 0x2,
    /// FLOW_CONTROL_ERROR: more was sent than a flow-control window allowed.
    FlowControl = 0x3,
    /// STREAM_CLOSED: a frame for a closed stream.
    StreamClosed = 0x5,
    /// FRAME_SIZE_ERROR.
    FrameSize = 0x6,
    /// REFUSED_STREAM: not processed, so the request can be sent again.
    RefusedStream = 0x7,
    /// CANCEL.
    Cancel = 0x8,
    /// COMPRESSION_ERROR: the HPACK state of the connection is lost.
    Compression = 0x9,
    /// ENHANCE_YOUR_CALM: the peer causes too much load.
    EnhanceYourCalm = 0xb,
}

/// Why a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionError {
    /// The error code in GOAWAY.
    pub code: ErrorCode,
    /// The reason, for the log.
    pub reason: &'static str,
}

impl ConnectionError {
    pub(crate) const fn new(code: ErrorCode, reason: &'static str) -> Self {
        Self { code, reason }
    }

    pub(crate) const fn protocol(reason: &'static str) -> Self {
        Self::new(ErrorCode::Protocol, reason)
    }

    pub(crate) const fn frame_size(reason: &'static str) -> Self {
        Self::new(ErrorCode::FrameSize, reason)
    }
}

impl From<HpackError> for ConnectionError {
    fn from(error: HpackError) -> Self {
        match error {
            HpackError::ListTooLarge => Self::new(ErrorCode::EnhanceYourCalm, "a header list is much too large"),
            _ => Self::new(ErrorCode::Compression, "a header block cannot be decoded"),
        }
    }
}

impl fmt::Display for ConnectionError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} ({:?})", self.reason, self.code)
    }
}

impl std::error::Error for ConnectionError {}
