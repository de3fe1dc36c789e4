//! What a request says of its caller besides the message: its connection, its deadline, its SDK.

use std::{fmt, time::Duration};

use segno_node::{ConnectionId, Sdk};
use tonic::Request;

/// The protocol allows no more.
const TIMEOUT_DIGITS_MAX: usize = 8;
/// More of an SDK's name and version is not kept.
const SHORT_TEXT_BYTES_MAX: usize = 31;

/// The value of a header, kept in place so that a call costs no allocation for it. What is longer is cut.
#[derive(Clone, Copy, Debug, Default)]
pub struct ShortText {
    length: u8,
    bytes: [u8; SHORT_TEXT_BYTES_MAX],
}

impl ShortText {
    /// A copy of a value.
    pub fn new(value: &[u8]) -> Self {
        let mut text = Self::default();
        let length = value.len().min(SHORT_TEXT_BYTES_MAX);
        text.bytes[..length].copy_from_slice(&value[..length]);
        text.length = length as u8;
        text
    }
}

impl fmt::Display for ShortText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.bytes[..usize::from(self.length)]))
    }
}

/// The part of a request that describes its caller, besides the message.
#[derive(Clone, Copy, Debug, Default)]
pub struct CallMetadata {
    /// The connection that it came on.
    pub connection: Option<ConnectionId>,
    /// How long the caller waits (`grpc-timeout`).
    pub timeout: Option<Duration>,
    /// One of people's tools, not an SDK (`client-name`).
    pub is_tool: bool,
    /// The caller's SDK (`client-name`).
    pub client_name: ShortText,
    /// Its version (`client-version`).
    pub client_version: ShortText,
}

impl CallMetadata {
    /// Notes a header if it describes the caller.
    pub fn field(&mut self, name: &[u8], value: &[u8]) {
        match name {
            b"grpc-timeout" => self.timeout = timeout(value),
            b"client-name" => {
                self.is_tool = matches!(value, b"temporal-cli" | b"temporal-ui");
                self.client_name = ShortText::new(value);
            }
            b"client-version" => self.client_version = ShortText::new(value),
            _ => {}
        }
    }

    /// The caller's SDK.
    pub fn sdk(&self) -> Sdk {
        Sdk { name: self.client_name.to_string(), version: self.client_version.to_string() }
    }

    /// Who sent a request.
    pub fn of<T>(request: &Request<T>) -> Self {
        request.extensions().get().copied().unwrap_or_default()
    }
}

fn timeout(value: &[u8]) -> Option<Duration> {
    let (unit, digits) = value.split_last()?;
    if digits.len() > TIMEOUT_DIGITS_MAX {
        return None;
    }
    let amount: u64 = std::str::from_utf8(digits).ok()?.parse().ok()?;
    Some(match unit {
        b'H' => Duration::from_secs(amount.saturating_mul(3600)),
        b'M' => Duration::from_secs(amount.saturating_mul(60)),
        b'S' => Duration::from_secs(amount),
        b'm' => Duration::from_millis(amount),
        b'u' => Duration::from_micros(amount),
        b'n' => Duration::from_nanos(amount),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_have_units() {
        for (header, expected) in [("2S", 2000), ("1500m", 1500), ("1M", 60_000), ("3000000u", 3000)] {
            assert_eq!(timeout(header.as_bytes()), Some(Duration::from_millis(expected)));
        }
        for junk in ["junk", "", "5", "S", "123456789S"] {
            assert_eq!(timeout(junk.as_bytes()), None, "{junk}");
        }
    }

    #[test]
    fn tools_are_known_by_name() {
        let mut caller = CallMetadata::default();
        caller.field(b"client-name", b"temporal-go");
        assert!(!caller.is_tool);
        caller.field(b"client-name", b"temporal-cli");
        assert!(caller.is_tool);
    }

    #[test]
    fn the_sdk_is_kept_and_what_is_too_long_is_cut() {
        let mut caller = CallMetadata::default();
        assert_eq!(caller.sdk(), Sdk::default());
        caller.field(b"client-name", b"temporal-typescript");
        caller.field(b"client-version", &[b'1'; 100]);
        assert_eq!(caller.sdk(), Sdk { name: "temporal-typescript".to_owned(), version: "1".repeat(31) });
    }
}
