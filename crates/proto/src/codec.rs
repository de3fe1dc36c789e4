//! Encodes and decodes messages, with buffers of the size of the messages.
//!
//! Tonic's own codec allocates 8 KiB for each request and for each answer. Most messages have a few hundred bytes, and
//! a part that is kept (a payload in a run's state) keeps its whole buffer.

use std::marker::PhantomData;

use bytes::{Buf, BufMut, Bytes};
use prost::Message;
use tonic::{
    Status,
    codec::{BufferSettings, Codec as Both, DecodeBuf, Decoder as Decodes, EncodeBuf, Encoder as Encodes},
};

use crate::decode::{DecodeRefused, decode};

/// Most answers are shorter; others get what they need.
const ANSWER_BYTES: usize = 512;
/// Most requests are shorter; others grow once.
const REQUEST_BYTES: usize = 1_024;
/// Only of streams: how much is gathered before it is sent on.
const YIELD_BYTES: usize = 32 * 1024;

/// See the module.
#[derive(Debug)]
pub struct Codec<T, U>(PhantomData<(T, U)>);

impl<T, U> Default for Codec<T, U> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<T, U> Both for Codec<T, U>
where
    T: Message + Send + 'static,
    U: Message + Default + Send + 'static,
{
    type Encode = T;
    type Decode = U;
    type Encoder = Encoder<T>;
    type Decoder = Decoder<U>;

    fn encoder(&mut self) -> Self::Encoder {
        Encoder(PhantomData)
    }

    fn decoder(&mut self) -> Self::Decoder {
        Decoder(PhantomData)
    }
}

/// Reads a message, unless it has too many parts (see [`crate::decode`]).
#[derive(Debug)]
pub struct Decoder<U>(PhantomData<U>);

impl<U: Message + Default> Decodes for Decoder<U> {
    type Item = U;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<U>, Status> {
        decode(buffer).map(Some).map_err(Status::from)
    }

    fn buffer_settings(&self) -> BufferSettings {
        BufferSettings::new(REQUEST_BYTES, YIELD_BYTES)
    }
}

impl From<DecodeRefused> for Status {
    fn from(refused: DecodeRefused) -> Self {
        match refused {
            DecodeRefused::Malformed(error) => Self::internal(error.to_string()),
            DecodeRefused::TooManyFields => Self::resource_exhausted(refused.to_string()),
        }
    }
}

/// Writes a message into a buffer that fits it.
#[derive(Debug)]
pub struct Encoder<T>(PhantomData<T>);

impl<T: Message> Encodes for Encoder<T> {
    type Item = T;
    type Error = Status;

    fn encode(&mut self, item: T, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.reserve(item.encoded_len());
        item.encode_raw(buffer);
        Ok(())
    }

    fn buffer_settings(&self) -> BufferSettings {
        BufferSettings::new(ANSWER_BYTES, YIELD_BYTES)
    }
}

/// Messages as they are, encoded.
#[derive(Clone, Copy, Debug, Default)]
pub struct BytesCodec;

impl Both for BytesCodec {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encodes for BytesCodec {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, message: Bytes, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put(message);
        Ok(())
    }
}

impl Decodes for BytesCodec {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(buffer.copy_to_bytes(buffer.remaining())))
    }
}
