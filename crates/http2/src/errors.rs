//! Why a stream or a connection ends before its time.

use std::fmt;

use crate::hpack::HpackError;

/// Error codes of RFC 9113, section 7.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Code {
    /// Nothing is wrong.
    No = 0x0,
    /// The peer did what the protocol does not allow.
    Protocol = 0x1,
    /// This side failed.
    Internal = 0x2,
    /// More was sent than a window allowed.
    FlowControl = 0x3,
    /// A frame for a stream that is over.
    StreamClosed = 0x5,
    /// A frame of the wrong size.
    FrameSize = 0x6,
    /// Not begun: it can be tried again elsewhere.
    RefusedStream = 0x7,
    /// Not wanted any more.
    Cancel = 0x8,
    /// Headers that cannot be read; what follows could not be either.
    Compression = 0x9,
    /// Too much of something.
    EnhanceYourCalm = 0xb,
}

/// What a peer did that ends its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Violation {
    /// What the peer is told.
    pub code: Code,
    /// What the log says.
    pub what: &'static str,
}

impl Violation {
    pub(crate) const fn new(code: Code, what: &'static str) -> Self {
        Self { code, what }
    }

    pub(crate) const fn protocol(what: &'static str) -> Self {
        Self::new(Code::Protocol, what)
    }

    pub(crate) const fn size(what: &'static str) -> Self {
        Self::new(Code::FrameSize, what)
    }
}

impl From<HpackError> for Violation {
    fn from(error: HpackError) -> Self {
        match error {
            HpackError::ListTooLarge => Self::new(Code::EnhanceYourCalm, "headers are too long"),
            _ => Self::new(Code::Compression, "headers cannot be read"),
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} ({:?})", self.what, self.code)
    }
}
