//! Values that are bytes.

use std::{fmt, ops::Deref};

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{SeqAccess, Visitor},
};

/// Bytes that travel as they are, in a payload `binary/plain`, if they are a whole input, output or value. As a part of
/// something else they are a list of numbers, because JSON has no bytes. Cheap to clone.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(bytes::Bytes);

impl Bytes {
    /// Bytes that are part of the program.
    pub const fn from_static(bytes: &'static [u8]) -> Self {
        Self(bytes::Bytes::from_static(bytes))
    }
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl AsRef<[u8]> for Bytes {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl From<Vec<u8>> for Bytes {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes.into())
    }
}

impl From<&[u8]> for Bytes {
    fn from(bytes: &[u8]) -> Self {
        bytes.to_vec().into()
    }
}

impl From<bytes::Bytes> for Bytes {
    fn from(bytes: bytes::Bytes) -> Self {
        Self(bytes)
    }
}

impl From<Bytes> for bytes::Bytes {
    fn from(bytes: Bytes) -> Self {
        bytes.0
    }
}

impl From<Bytes> for Vec<u8> {
    fn from(bytes: Bytes) -> Self {
        bytes.0.into()
    }
}

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.0)
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_byte_buf(List)
    }
}

struct List;

impl<'de> Visitor<'de> for List {
    type Value = Bytes;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("bytes, or a list of numbers from 0 to 255")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Bytes, A::Error> {
        let mut bytes = Vec::with_capacity(list.size_hint().unwrap_or_default().min(4096));
        while let Some(byte) = list.next_element()? {
            bytes.push(byte);
        }
        Ok(bytes.into())
    }

    fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Bytes, E> {
        Ok(bytes.into())
    }

    fn visit_byte_buf<E>(self, bytes: Vec<u8>) -> Result<Bytes, E> {
        Ok(bytes.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::converter::{ENCODING, decode, encode};

    #[test]
    fn alone_they_are_plain_and_inside_a_list() {
        let bytes = Bytes::from(vec![0, 159, 255]);
        let payloads = encode(&bytes, 1).unwrap();
        assert_eq!(payloads[0].metadata[ENCODING], "binary/plain");
        assert_eq!(payloads[0].data.as_ref(), [0, 159, 255]);
        assert_eq!(decode::<Bytes>(&payloads, 1).unwrap(), bytes);
        let payloads = encode(&(bytes.clone(), "x".to_owned()), 2).unwrap();
        assert_eq!(payloads[0].data.as_ref(), b"[0,159,255]");
        assert_eq!(decode::<(Bytes, String)>(&payloads, 2).unwrap(), (bytes, "x".to_owned()));
    }
}
