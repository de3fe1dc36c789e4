//! The newest history of a run, which stands in the run's own row until it is too long for it.
//!
//! Each commit writes that row anyway. A short run thus never has a history row, and a long one gets its rows several
//! at a time: fewer statements, and fewer pages in the log, than one history row for each commit.
//!
//! What holds: a tail is newer than all history rows of its run; a batch is read back only if it matches its checksum.

use bytes::Bytes;
use segno_store::{HistoryBatch, RunKey};

use crate::{checksum, layout};

/// A tail that would be longer is moved to history rows. A row with it still fits a page, unless its state is large.
pub(crate) const BYTES_MAX: usize = 2_048;

/// First event, last event, checksum, length: four bytes each, before the events.
const HEAD_BYTES: usize = 16;

/// A tail that is not one.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Damaged;

/// How long the batches would be in a tail.
pub(crate) fn length(batches: &[HistoryBatch]) -> usize {
    batches.iter().map(|batch| HEAD_BYTES + batch.events.len()).sum()
}

/// The batches as they stand in a tail; `None` if a number is out of range.
pub(crate) fn encode(key: RunKey, batches: &[HistoryBatch]) -> Option<Vec<u8>> {
    let mut tail = Vec::with_capacity(length(batches));
    for batch in batches {
        let sum =
            checksum::of_batch(layout::history_row(key, batch.first_event_id)?, batch.last_event_id, &batch.events);
        tail.extend_from_slice(&u32::try_from(batch.first_event_id).ok()?.to_le_bytes());
        tail.extend_from_slice(&u32::try_from(batch.last_event_id).ok()?.to_le_bytes());
        tail.extend_from_slice(&sum.to_le_bytes());
        tail.extend_from_slice(&u32::try_from(batch.events.len()).ok()?.to_le_bytes());
        tail.extend_from_slice(&batch.events);
    }
    Some(tail)
}

/// The batches of a tail, oldest first.
pub(crate) fn decode(key: RunKey, tail: &Bytes) -> Result<Vec<HistoryBatch>, Damaged> {
    let mut batches = Vec::new();
    let mut rest = tail.clone();
    while !rest.is_empty() {
        if rest.len() < HEAD_BYTES {
            return Err(Damaged);
        }
        let head = rest.split_to(HEAD_BYTES);
        let number =
            |place: usize| u32::from_le_bytes([head[place], head[place + 1], head[place + 2], head[place + 3]]);
        let length = number(12) as usize;
        if rest.len() < length {
            return Err(Damaged);
        }
        let batch = HistoryBatch {
            first_event_id: i64::from(number(0)),
            last_event_id: i64::from(number(4)),
            events: rest.split_to(length),
        };
        let row = layout::history_row(key, batch.first_event_id).ok_or(Damaged)?;
        if checksum::of_batch(row, batch.last_event_id, &batch.events) != number(8) {
            return Err(Damaged);
        }
        batches.push(batch);
    }
    Ok(batches)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_changed_or_cut_is_found() {
        let batch = |first, last, events: &'static [u8]| HistoryBatch {
            first_event_id: first,
            last_event_id: last,
            events: Bytes::from_static(events),
        };
        let batches = vec![batch(1, 2, b"started"), batch(3, 3, b""), batch(4, 9, b"more")];
        let tail = Bytes::from(encode(RunKey(7), &batches).expect("in range"));
        assert_eq!(decode(RunKey(7), &tail), Ok(batches.clone()));
        assert_eq!(decode(RunKey(8), &tail), Err(Damaged), "of another run");
        for place in 0..tail.len() {
            let mut changed = tail.to_vec();
            changed[place] ^= 1;
            assert_eq!(decode(RunKey(7), &changed.into()), Err(Damaged), "byte {place} changed");
            let cut = decode(RunKey(7), &tail.slice(..place));
            assert!(cut.is_err() || cut.is_ok_and(|some| batches.starts_with(&some)), "cut at {place}");
        }
    }
}
