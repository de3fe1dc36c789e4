//! Compressed messages (gzip). The SDKs for Go and Java compress all messages by default.

use std::io::{Read, Write};

use bytes::Bytes;
use flate2::{Compression as Level, read::GzDecoder, write::GzEncoder};
use http::{HeaderMap, HeaderValue};
use segno_calls::MESSAGE_BYTES_MAX;
use tonic::Status;

use crate::reply::PREFIX_BYTES;

/// The field that says how a request is compressed.
pub(super) const ENCODING: &str = "grpc-encoding";
/// The field that says which compressions the caller understands.
pub(super) const ACCEPTED: &str = "grpc-accept-encoding";
/// Shorter responses are not compressed.
const COMPRESSED_FROM: usize = 1_024;

/// The compression of a call.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Compression {
    /// Its messages may be compressed.
    pub(super) gzip: bool,
    /// It understands compressed responses.
    pub(super) accepts: bool,
}

impl Compression {
    /// Notes a field; false if it is not about compression, or about one that is unknown here.
    pub(super) fn field(&mut self, name: &[u8], value: &[u8]) -> bool {
        if name == ACCEPTED.as_bytes() {
            self.accepts = value.windows(4).any(|part| part == b"gzip");
            return true;
        }
        self.gzip |= name == ENCODING.as_bytes() && value == b"gzip";
        name == ENCODING.as_bytes() && matches!(value, b"gzip" | b"identity")
    }

    /// Adds the fields that were noted.
    pub(super) fn put(self, headers: &mut HeaderMap) {
        let gzip = HeaderValue::from_static("gzip");
        for (name, said) in [(ENCODING, self.gzip), (ACCEPTED, self.accepts)] {
            if said {
                headers.insert(name, gzip.clone());
            }
        }
    }

    /// Whether responses may be compressed: for callers that compress their requests.
    pub(super) fn is_agreed(self) -> bool {
        self.gzip && self.accepts
    }

    /// Whether a response of this length is compressed.
    pub(super) fn applies_to(self, length: usize) -> bool {
        self.is_agreed() && length >= COMPRESSED_FROM
    }
}

/// The length of a compressed message after decompression, as its last four bytes have it (RFC 1952, ISIZE).
/// [`decompress`] does not produce more.
pub(super) fn decompressed_length(compressed: &[u8]) -> usize {
    compressed.last_chunk().map_or(0, |length| u32::from_le_bytes(*length) as usize)
}

/// Decompresses a message.
pub(super) fn decompress(message: &Bytes) -> Result<Bytes, Status> {
    let length = decompressed_length(message);
    let length_max = length.min(MESSAGE_BYTES_MAX);
    let mut decompressed = Vec::new();
    let mut limited = GzDecoder::new(&message[..]).take(length_max as u64 + 1);
    let read = limited.read_to_end(&mut decompressed);
    read.map_err(|error| Status::internal(format!("Error decompressing: {error}")))?;
    if decompressed.len() > MESSAGE_BYTES_MAX {
        let text = "grpc: received message after decompression larger than max 4194304";
        return Err(Status::resource_exhausted(text));
    }
    if decompressed.len() != length {
        return Err(Status::internal("Error decompressing: the message does not have the length that it ends with"));
    }
    decompressed.shrink_to_fit();
    Ok(decompressed.into())
}

/// A message compressed, with its prefix in front as before.
pub(super) fn compress(plain: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(vec![1; PREFIX_BYTES], Level::fast());
    encoder.write_all(plain.get(PREFIX_BYTES..).unwrap_or_default())?;
    let mut data = encoder.finish()?;
    let length = (data.len() - PREFIX_BYTES) as u32;
    data[1..PREFIX_BYTES].copy_from_slice(&length.to_be_bytes());
    Ok(data)
}

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::*;
    use crate::reply::reply_of;

    #[test]
    fn messages_survive() {
        let message = "x".repeat(5_000);
        let data = compress(&reply_of(&message.encode_to_vec()).into_inner()).expect("compresses");
        assert_eq!(data[0], 1);
        assert_eq!(u32::from_be_bytes([data[1], data[2], data[3], data[4]]) as usize, data.len() - PREFIX_BYTES);
        assert!(data.len() < 200);
        let decompressed = decompress(&Bytes::from(data).slice(PREFIX_BYTES..)).expect("decompresses");
        assert_eq!(String::decode(decompressed), Ok(message));
    }

    #[test]
    fn a_message_that_grows_too_large_or_is_broken_is_refused() {
        let compressed = |length: usize| {
            let mut encoder = GzEncoder::new(Vec::new(), Level::fast());
            encoder.write_all(&vec![0; length]).expect("compresses");
            encoder.finish().expect("compresses")
        };
        let bomb = decompress(&compressed(MESSAGE_BYTES_MAX + 1).into()).expect_err("too large");
        assert_eq!(bomb.code(), tonic::Code::ResourceExhausted);
        assert_eq!(decompress(&Bytes::from_static(b"abcd")).expect_err("broken").code(), tonic::Code::Internal);
        // A length that promises less than comes.
        let mut lie = compressed(100_000);
        lie.extend([10, 0, 0, 0]);
        assert_eq!(decompressed_length(&lie), 10);
        assert_eq!(decompress(&lie.into()).expect_err("more than announced").code(), tonic::Code::Internal);
    }

    #[test]
    fn fields_are_noted() {
        let mut compression = Compression::default();
        assert!(
            compression.field(b"grpc-encoding", b"gzip") && compression.field(b"grpc-accept-encoding", b"deflate,gzip")
        );
        assert!(compression.applies_to(5_000) && !compression.applies_to(10));
        assert!(!Compression::default().field(b"grpc-encoding", b"br"));
        assert!(!Compression::default().field(b"te", b"trailers"));
    }
}
