//! A message under construction, by its descriptor: collects fields from JSON, path and query, and writes the wire
//! form.

use std::collections::BTreeMap;

use prost::encoding::{WireType, encode_key, encode_varint};

use super::schema::Message;

/// Fields by number. Those that are set later replace earlier ones.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Dynamic {
    fields: BTreeMap<u32, Content>,
}

/// What a field has.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Content {
    /// One value, on the wire without its key.
    Scalar(Scalar),
    Message(Dynamic),
    /// Several values. None if there are none.
    List(Vec<Content>),
}

/// One value on the wire.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Scalar {
    Varint(u64),
    Fixed32([u8; 4]),
    Fixed64([u8; 8]),
    Bytes(Vec<u8>),
}

impl Dynamic {
    /// Sets a field.
    pub(super) fn set(&mut self, number: u32, content: Content) {
        self.fields.insert(number, content);
    }

    /// Whether a field is set.
    pub(super) fn has(&self, number: u32) -> bool {
        self.fields.contains_key(&number)
    }

    /// Whether a field of a oneof is set.
    pub(super) fn has_oneof(&self, message: &Message, oneof: usize) -> Option<u32> {
        let is_set = |number: &u32| self.has(*number);
        message.fields.iter().filter(|field| field.oneof == Some(oneof)).map(|field| field.number).find(is_set)
    }

    /// The message in a field, which is made if there is none.
    pub(super) fn message(&mut self, number: u32) -> &mut Dynamic {
        let content = self.fields.entry(number).or_insert_with(|| Content::Message(Dynamic::default()));
        if !matches!(content, Content::Message(_)) {
            *content = Content::Message(Dynamic::default());
        }
        match content {
            Content::Message(message) => message,
            Content::Scalar(_) | Content::List(_) => unreachable!("it was just made one"),
        }
    }

    /// Adds to the list in a field.
    pub(super) fn push(&mut self, number: u32, content: Content) {
        match self.fields.entry(number).or_insert_with(|| Content::List(Vec::new())) {
            Content::List(items) => items.push(content),
            other => *other = Content::List(vec![content]),
        }
    }

    /// The wire form.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.encode_to(&mut out);
        out
    }

    fn encode_to(&self, out: &mut Vec<u8>) {
        for (number, content) in &self.fields {
            content.encode_to(*number, out);
        }
    }
}

impl Content {
    fn encode_to(&self, number: u32, out: &mut Vec<u8>) {
        match self {
            // Lists of numbers may be packed or not.
            Self::List(items) => items.iter().for_each(|item| item.encode_to(number, out)),
            Self::Message(message) => {
                encode_key(number, WireType::LengthDelimited, out);
                let inner = message.encode();
                encode_varint(inner.len() as u64, out);
                out.extend_from_slice(&inner);
            }
            Self::Scalar(Scalar::Varint(value)) => {
                encode_key(number, WireType::Varint, out);
                encode_varint(*value, out);
            }
            Self::Scalar(Scalar::Fixed32(bytes)) => {
                encode_key(number, WireType::ThirtyTwoBit, out);
                out.extend_from_slice(bytes);
            }
            Self::Scalar(Scalar::Fixed64(bytes)) => {
                encode_key(number, WireType::SixtyFourBit, out);
                out.extend_from_slice(bytes);
            }
            Self::Scalar(Scalar::Bytes(bytes)) => {
                encode_key(number, WireType::LengthDelimited, out);
                encode_varint(bytes.len() as u64, out);
                out.extend_from_slice(bytes);
            }
        }
    }

    /// A string.
    pub(super) fn text(text: &str) -> Self {
        Self::Scalar(Scalar::Bytes(text.as_bytes().to_vec()))
    }
}

/// A message with seconds and nanoseconds: a point in time or a span.
pub(super) fn seconds_and_nanos(seconds: i64, nanos: i32) -> Dynamic {
    let mut message = Dynamic::default();
    message.set(1, Content::Scalar(Scalar::Varint(seconds as u64)));
    message.set(2, Content::Scalar(Scalar::Varint(i64::from(nanos) as u64)));
    message
}
