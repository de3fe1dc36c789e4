//! Recent history: the newest batches of a run, which are stored in the run's own row until they are too long for it.
//!
//! Each commit writes that row anyway. A short run thus never has a history row, and a long one gets its rows several
//! at a time: fewer statements, and fewer pages in the log, than one history row for each commit.
//!
//! What holds: recent history is newer than all history rows of its run; a batch is read back only if it matches its checksum.

use bytes::Bytes;
use segno_store::{HistoryBatch, RunKey};

use crate::checksum;
use segno_store::rows;

/// Recent history that would be longer is moved to history rows. A row with it still fits a page, unless its state is large.
pub(crate) const BYTES_MAX: usize = 2_048;

/// First event, last event, checksum, length: four bytes each, before the events.
const HEAD_BYTES: usize = 16;

/// Bytes that are no recent history.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct DamagedHistory;

/// How long the batches would be as recent history.
pub(crate) fn length(batches: &[HistoryBatch]) -> usize {
    batches.iter().map(|batch| HEAD_BYTES + batch.events.len()).sum()
}

/// The batches as recent history; `None` if a number is out of range.
pub(crate) fn encode(key: RunKey, batches: &[HistoryBatch]) -> Option<Vec<u8>> {
    let mut recent = Vec::with_capacity(length(batches));
    for batch in batches {
        let sum = checksum::of_batch(rows::history_row(key, batch.first_event_id)?, batch.last_event_id, &batch.events);
        recent.extend_from_slice(&u32::try_from(batch.first_event_id).ok()?.to_le_bytes());
        recent.extend_from_slice(&u32::try_from(batch.last_event_id).ok()?.to_le_bytes());
        recent.extend_from_slice(&sum.to_le_bytes());
        recent.extend_from_slice(&u32::try_from(batch.events.len()).ok()?.to_le_bytes());
        recent.extend_from_slice(&batch.events);
    }
    Some(recent)
}

/// The batches of recent history, oldest first.
pub(crate) fn decode(key: RunKey, recent: &Bytes) -> Result<Vec<HistoryBatch>, DamagedHistory> {
    let mut batches = Vec::new();
    let mut rest = recent.clone();
    while !rest.is_empty() {
        if rest.len() < HEAD_BYTES {
            return Err(DamagedHistory);
        }
        let head = rest.split_to(HEAD_BYTES);
        let number =
            |place: usize| u32::from_le_bytes([head[place], head[place + 1], head[place + 2], head[place + 3]]);
        let length = number(12) as usize;
        if rest.len() < length {
            return Err(DamagedHistory);
        }
        let batch = HistoryBatch {
            first_event_id: i64::from(number(0)),
            last_event_id: i64::from(number(4)),
            events: rest.split_to(length),
        };
        let row = rows::history_row(key, batch.first_event_id).ok_or(DamagedHistory)?;
        if checksum::of_batch(row, batch.last_event_id, &batch.events) != number(8) {
            return Err(DamagedHistory);
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
        let recent = Bytes::from(encode(RunKey(7), &batches).expect("in range"));
        assert_eq!(decode(RunKey(7), &recent), Ok(batches.clone()));
        assert_eq!(decode(RunKey(8), &recent), Err(DamagedHistory), "of another run");
        for place in 0..recent.len() {
            let mut changed = recent.to_vec();
            changed[place] ^= 1;
            assert_eq!(decode(RunKey(7), &changed.into()), Err(DamagedHistory), "byte {place} changed");
            let cut = decode(RunKey(7), &recent.slice(..place));
            assert!(cut.is_err() || cut.is_ok_and(|some| batches.starts_with(&some)), "cut at {place}");
        }
    }
}
