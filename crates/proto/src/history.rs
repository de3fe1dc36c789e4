//! `temporal.api.history.v1.History` with its events left encoded.
//!
//! A history is a list of events; on the wire it is the concatenation of `tag, length, event` records. Storage keeps
//! exactly these bytes, so a reply is assembled from stored batches without decoding or copying a single event.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use prost::{
    DecodeError, Message,
    encoding::{DecodeContext, WireType, decode_varint, encode_varint, encoded_len_varint, skip_field},
};

use crate::{events::HistoryEvent, scratch::encoded};

/// Field number of `History.events`.
const EVENTS_TAG: u32 = 1;
/// The key byte in front of each event: field 1, length delimited.
const EVENT_KEY: u8 = 0x0a;

/// A list of history events in encoded form, as a sequence of batches.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct History {
    batches: Vec<Bytes>,
}

impl History {
    /// A history made of batches, each made by [`History::encode_batch`].
    pub fn from_batches(batches: Vec<Bytes>) -> Self {
        Self { batches }
    }

    /// Encodes events into one batch.
    pub fn encode_batch<'a>(events: impl IntoIterator<Item = &'a HistoryEvent>) -> Bytes {
        encoded(|buffer| events.into_iter().for_each(|event| put_event(buffer, event)))
    }

    /// Encodes the given events into a history of one batch.
    pub fn from_events(events: &[HistoryEvent]) -> Self {
        if events.is_empty() { Self::default() } else { Self { batches: vec![Self::encode_batch(events)] } }
    }

    /// Adds a batch at the end.
    pub fn push(&mut self, batch: Bytes) {
        self.batches.push(batch);
    }

    /// Whether there is no event at all.
    pub fn is_empty(&self) -> bool {
        self.batches.iter().all(Bytes::is_empty)
    }

    /// The last event of a batch. Nothing is decoded or copied.
    pub fn last_of_batch(batch: &Bytes) -> Result<Self, DecodeError> {
        let mut rest = &batch[..];
        let mut last = 0;
        while !rest.is_empty() {
            last = batch.len() - rest.len();
            let length = record_length(&mut rest)?;
            rest = &rest[length..];
        }
        Ok(if batch.is_empty() { Self::default() } else { Self { batches: vec![batch.slice(last..)] } })
    }

    /// Decodes all events.
    pub fn events(&self) -> Result<Vec<HistoryEvent>, DecodeError> {
        let mut events = Vec::new();
        for batch in &self.batches {
            Self::decode_batch(batch, &mut events)?;
        }
        Ok(events)
    }

    /// Decodes the events of one batch onto the end of `into`.
    pub fn decode_batch(batch: &Bytes, into: &mut Vec<HistoryEvent>) -> Result<(), DecodeError> {
        Self::split_batch(batch, |event| {
            into.push(HistoryEvent::decode(event)?);
            Ok(())
        })
    }

    /// Calls `visit` with the encoded form of each event in a batch.
    pub fn split_batch(
        batch: &Bytes,
        mut visit: impl FnMut(Bytes) -> Result<(), DecodeError>,
    ) -> Result<(), DecodeError> {
        let mut rest = batch.clone();
        while rest.has_remaining() {
            let length = record_length(&mut rest)?;
            visit(rest.split_to(length))?;
        }
        Ok(())
    }
}

/// Appends an event with its key and length. The length is known once the event is written: most have one of two bytes, for
/// which there is room in front of it; the others are moved.
fn put_event(buffer: &mut Vec<u8>, event: &HistoryEvent) {
    const ROOM: usize = 2;
    buffer.extend_from_slice(&[EVENT_KEY, 0, 0]);
    let begin = buffer.len();
    event.encode_raw(buffer);
    let length = buffer.len() - begin;
    let wanted = encoded_len_varint(length as u64);
    match wanted {
        ROOM => {}
        0..ROOM => {
            buffer.copy_within(begin.., begin - (ROOM - wanted));
            buffer.truncate(buffer.len() - (ROOM - wanted));
        }
        _ => {
            buffer.resize(buffer.len() + (wanted - ROOM), 0);
            buffer.copy_within(begin..begin + length, begin + (wanted - ROOM));
        }
    }
    let begin = begin - ROOM;
    encode_varint(length as u64, &mut &mut buffer[begin..begin + wanted]);
}

/// Reads what stands before an event in a batch that is not empty; the length of the event, which is there.
fn record_length(rest: &mut impl Buf) -> Result<usize, DecodeError> {
    if rest.get_u8() != EVENT_KEY {
        return Err(corrupt());
    }
    let length = decode_varint(rest)?;
    if (rest.remaining() as u64) < length {
        return Err(corrupt());
    }
    Ok(length as usize)
}

/// An error of the kind prost gives for bytes that are no message.
fn corrupt() -> DecodeError {
    // A lone continuation byte is never a varint; prost has no public constructor for its error.
    match decode_varint(&mut Bytes::from_static(&[0x80])) {
        Err(error) => error,
        Ok(_) => DecodeError::new_unexpected_type_url("history batch", "event"),
    }
}

impl Message for History {
    fn encode_raw(&self, buffer: &mut impl BufMut) {
        for batch in &self.batches {
            buffer.put_slice(batch);
        }
    }

    fn merge_field(
        &mut self,
        tag: u32,
        wire_type: WireType,
        buffer: &mut impl Buf,
        context: DecodeContext,
    ) -> Result<(), DecodeError> {
        if tag != EVENTS_TAG || wire_type != WireType::LengthDelimited {
            return skip_field(wire_type, tag, buffer, context);
        }
        let length = decode_varint(buffer)?;
        if (buffer.remaining() as u64) < length {
            return Err(corrupt());
        }
        let mut record = BytesMut::with_capacity(1 + encoded_len_varint(length) + length as usize);
        record.put_u8(EVENT_KEY);
        encode_varint(length, &mut record);
        record.put(buffer.take(length as usize));
        self.batches.push(record.freeze());
        Ok(())
    }

    fn encoded_len(&self) -> usize {
        self.batches.iter().map(Bytes::len).sum()
    }

    fn clear(&mut self) {
        self.batches.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip_keeps_events() {
        let events: Vec<_> = (1..4).map(|id| HistoryEvent { event_id: id, ..Default::default() }).collect();
        let history = History::from_events(&events);
        let decoded = History::decode(history.encode_to_vec().as_slice()).expect("decodes");
        assert_eq!(decoded.events().expect("events"), events);
    }

    #[test]
    fn events_of_any_length_have_their_length_before_them() {
        let event = |length: usize| HistoryEvent {
            worker_may_ignore: true,
            user_metadata: Some(crate::sdk::UserMetadata {
                summary: Some(crate::common::Payload { data: vec![1; length].into(), ..Default::default() }),
                details: None,
            }),
            ..Default::default()
        };
        let lengths = (0..300).chain(16_300..16_450).chain([3_000_000]);
        let events: Vec<_> = lengths.map(event).collect();
        let mut expected = Vec::new();
        for event in &events {
            expected.push(EVENT_KEY);
            event.encode_length_delimited(&mut expected).expect("room");
        }
        assert!(History::encode_batch(&events) == expected);
    }

    #[test]
    fn the_last_event_of_a_batch_is_found() {
        let events: Vec<_> = (1..4).map(|id| HistoryEvent { event_id: id << 40, ..Default::default() }).collect();
        for length in 0..=events.len() {
            let history = History::last_of_batch(&History::encode_batch(&events[..length])).expect("a batch");
            assert_eq!(history.events().expect("events"), events[length.saturating_sub(1)..length]);
        }
    }

    #[test]
    fn damaged_batches_are_refused() {
        let mut events = Vec::new();
        for damaged in [&b"\x0a\x7fxx"[..], b"\x11xx", b"\x0a", b"\x0a\x00\x0a\x01"] {
            let damaged = Bytes::from_static(damaged);
            assert!(History::decode_batch(&damaged, &mut events).is_err());
            assert!(History::last_of_batch(&damaged).is_err());
        }
    }
}
