//! Compressed messages. The SDKs for Go and Java compress all they send unless told otherwise.

use std::io::{Read, Write};

use bytes::Bytes;
use flate2::{Compression, read::GzDecoder, write::GzEncoder};
use http::{HeaderMap, HeaderValue};
use prost::Message;
use tonic::Status;

use super::{MESSAGE_BYTES_MAX, incoming::PREFIX_BYTES};

/// Says how a request is compressed, if it is.
pub(super) const ENCODING: &str = "grpc-encoding";
/// Says what the caller understands.
pub(super) const ACCEPTED: &str = "grpc-accept-encoding";
/// Shorter answers are not worth the work.
const COMPRESSED_FROM: usize = 1_024;

/// What a call says of compression.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Packing {
    /// Its messages may be compressed.
    pub(super) gzip: bool,
    /// It understands compressed answers.
    pub(super) accepts: bool,
}

impl Packing {
    /// Notes a header; false if it is not about compression, or about one that is unknown here.
    pub(super) fn field(&mut self, name: &[u8], value: &[u8]) -> bool {
        if name == ACCEPTED.as_bytes() {
            self.accepts = value.windows(4).any(|part| part == b"gzip");
            return true;
        }
        self.gzip |= name == ENCODING.as_bytes() && value == b"gzip";
        name == ENCODING.as_bytes() && matches!(value, b"gzip" | b"identity")
    }

    /// The headers that were noted.
    pub(super) fn put(self, headers: &mut HeaderMap) {
        let gzip = HeaderValue::from_static("gzip");
        for (name, said) in [(ENCODING, self.gzip), (ACCEPTED, self.accepts)] {
            if said {
                headers.insert(name, gzip.clone());
            }
        }
    }

    /// Whether answers may be compressed: for who compresses, too.
    pub(super) fn is_agreed(self) -> bool {
        self.gzip && self.accepts
    }

    /// Whether an answer of this length is compressed.
    pub(super) fn compresses(self, length: usize) -> bool {
        self.is_agreed() && length >= COMPRESSED_FROM
    }
}

/// A message that was compressed.
pub(super) fn unpacked(message: &Bytes) -> Result<Bytes, Status> {
    let mut unpacked = Vec::new();
    let mut limited = GzDecoder::new(&message[..]).take(MESSAGE_BYTES_MAX as u64 + 1);
    let read = limited.read_to_end(&mut unpacked);
    read.map_err(|error| Status::internal(format!("Error decompressing: {error}")))?;
    if unpacked.len() > MESSAGE_BYTES_MAX {
        let text = "grpc: received message after decompression larger than max 4194304";
        return Err(Status::resource_exhausted(text));
    }
    unpacked.shrink_to_fit();
    Ok(unpacked.into())
}

/// A message with its length in front, compressed.
pub(super) fn packed(message: &impl Message, length: usize) -> std::io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(vec![1; PREFIX_BYTES], Compression::fast());
    let mut plain = Vec::with_capacity(length);
    message.encode_raw(&mut plain);
    encoder.write_all(&plain)?;
    let mut data = encoder.finish()?;
    let length = (data.len() - PREFIX_BYTES) as u32;
    data[1..PREFIX_BYTES].copy_from_slice(&length.to_be_bytes());
    Ok(data)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_survive() {
        let message = "x".repeat(5_000);
        let data = packed(&message, message.encoded_len()).expect("packs");
        assert_eq!(data[0], 1);
        assert_eq!(u32::from_be_bytes([data[1], data[2], data[3], data[4]]) as usize, data.len() - PREFIX_BYTES);
        assert!(data.len() < 200);
        let unpacked = unpacked(&Bytes::from(data).slice(PREFIX_BYTES..)).expect("unpacks");
        assert_eq!(String::decode(unpacked), Ok(message));
    }

    #[test]
    fn what_grows_too_large_or_is_broken_is_refused() {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(&vec![0; MESSAGE_BYTES_MAX + 1]).expect("packs");
        let bomb = unpacked(&encoder.finish().expect("packs").into()).expect_err("too large");
        assert_eq!(bomb.code(), tonic::Code::ResourceExhausted);
        assert_eq!(unpacked(&Bytes::from_static(b"abcd")).expect_err("broken").code(), tonic::Code::Internal);
    }

    #[test]
    fn headers_are_noted() {
        let mut packing = Packing::default();
        assert!(packing.field(b"grpc-encoding", b"gzip") && packing.field(b"grpc-accept-encoding", b"deflate,gzip"));
        assert!(packing.compresses(5_000) && !packing.compresses(10));
        assert!(!Packing::default().field(b"grpc-encoding", b"br"));
        assert!(!Packing::default().field(b"te", b"trailers"));
    }
}
