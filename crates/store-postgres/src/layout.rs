//! How the contract's names become row numbers, and checksums over what a row means.
//!
//! A history row's number is the run's number and its first event id side by side, an outbox row's the sender and its
//! sequence, a script state's the run and the slot: rows of one run lie together.
//!
//! What holds: row numbers order as the contract's keys do, and numbers out of range are `None`, never another row.

use std::ops::RangeInclusive;

use crc32fast::Hasher;
use segno_store::limits::{EVENT_ID_END, OUTBOX_SEQUENCE_END, RUN_KEY_END};
use segno_store::{OutboxKey, RunKey};

const PART_BITS: u32 = 20;

pub(crate) fn run_row(key: RunKey) -> Option<i64> {
    if key.0 < RUN_KEY_END { i64::try_from(key.0).ok() } else { None }
}

pub(crate) fn run_key(row: i64) -> RunKey {
    RunKey(row.unsigned_abs())
}

/// The row numbers a run's history batches, or its outbox rows, may have.
pub(crate) fn rows_of(key: RunKey) -> Option<RangeInclusive<i64>> {
    run_row(key).map(|row| row << PART_BITS..=(row << PART_BITS | (EVENT_ID_END - 1)))
}

pub(crate) fn history_row(key: RunKey, first_event_id: i64) -> Option<i64> {
    if !(0..EVENT_ID_END).contains(&first_event_id) {
        return None;
    }
    run_row(key).map(|row| row << PART_BITS | first_event_id)
}

pub(crate) fn first_event_id(row: i64) -> i64 {
    row & (EVENT_ID_END - 1)
}

pub(crate) fn outbox_row(key: OutboxKey) -> Option<i64> {
    if key.sequence >= OUTBOX_SEQUENCE_END {
        return None;
    }
    run_row(key.sender).map(|row| row << PART_BITS | i64::from(key.sequence))
}

pub(crate) fn outbox_key(row: i64) -> OutboxKey {
    let sequence = u32::try_from(row & i64::from(OUTBOX_SEQUENCE_END - 1)).expect("masked to 20 bits");
    OutboxKey { sender: run_key(row >> PART_BITS), sequence }
}

pub(crate) fn script_row(key: RunKey, slot: u8) -> Option<i64> {
    run_row(key).map(|row| row << 2 | i64::from(slot & 3))
}

/// Over a run's row: a flag that flipped is found as well as a damaged state.
pub(crate) fn run_checksum(row: i64, version: i64, wake_at: Option<i64>, flags: [bool; 2], state: &[u8]) -> i32 {
    let mut head = [0; 26];
    head[..8].copy_from_slice(&row.to_le_bytes());
    head[8..16].copy_from_slice(&version.to_le_bytes());
    head[16..24].copy_from_slice(&wake_at.unwrap_or(0).to_le_bytes());
    head[24] = u8::from(wake_at.is_some());
    head[25] = u8::from(flags[0]) | u8::from(flags[1]) << 1;
    of(&head, state)
}

/// Over a history row.
pub(crate) fn batch_checksum(row: i64, last_event_id: i64, events: &[u8]) -> i32 {
    let mut head = [0; 16];
    head[..8].copy_from_slice(&row.to_le_bytes());
    head[8..].copy_from_slice(&last_event_id.to_le_bytes());
    of(&head, events)
}

/// Over a row that is a number and a value.
pub(crate) fn row_checksum(row: i64, value: &[u8]) -> i32 {
    of(&row.to_le_bytes(), value)
}

/// Over a document.
pub(crate) fn document_checksum(namespace: i32, name: &[u8], content: &[u8]) -> i32 {
    let mut head = Vec::with_capacity(12 + name.len());
    head.extend_from_slice(&namespace.to_le_bytes());
    head.extend_from_slice(&(name.len() as u64).to_le_bytes());
    head.extend_from_slice(name);
    of(&head, content)
}

fn of(head: &[u8], value: &[u8]) -> i32 {
    let mut hasher = Hasher::new();
    hasher.update(head);
    hasher.update(value);
    hasher.finalize().cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_numbers_fit_and_larger_ones_are_refused() {
        let last = RunKey(RUN_KEY_END - 1);
        assert_eq!(history_row(last, EVENT_ID_END - 1), Some(i64::MAX));
        assert_eq!(history_row(RunKey(RUN_KEY_END), 1), None);
        assert_eq!(history_row(last, EVENT_ID_END), None);
        assert_eq!(history_row(last, -1), None);
        let key = OutboxKey { sender: last, sequence: OUTBOX_SEQUENCE_END - 1 };
        assert_eq!(outbox_row(key).map(outbox_key), Some(key));
    }
}
