//! `temporal.api.history.v1.History` with its events left encoded.
//!
//! A history is a list of events; on the wire it is the concatenation of `tag, length, event` records. Storage keeps
//! exactly these bytes, so a reply is assembled from stored batches without decoding or copying a single event.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use prost::{
    DecodeError, Message,
    encoding::{DecodeContext, WireType, decode_varint, encode_varint, encoded_len_varint, skip_field},
};

use crate::events::HistoryEvent;

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
    pub fn encode_batch<'a>(events: impl IntoIterator<Item = &'a HistoryEvent> + Clone) -> Bytes {
        let lengths: Vec<usize> = events.clone().into_iter().map(Message::encoded_len).collect();
        let size = lengths.iter().map(|length| 1 + encoded_len_varint(*length as u64) + length).sum();
        // A vector is quicker to write than `BytesMut`, and one that is full becomes `Bytes` without a copy.
        let mut buffer = Vec::with_capacity(size);
        for (event, length) in events.into_iter().zip(lengths) {
            buffer.push(EVENT_KEY);
            encode_varint(length as u64, &mut buffer);
            event.encode_raw(&mut buffer);
        }
        buffer.into()
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
