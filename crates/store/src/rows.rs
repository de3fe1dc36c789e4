//! How the contract's keys become row numbers of a database, and back.
//!
//! A history row's number is the run's number and its first event id side by side, an outbox row's the sender and its
//! sequence, a script state's the run and the slot. Rows of one run therefore lie together, new runs are appended at the
//! end of the tables, and no key needs an index of its own.
//!
//! What holds: row numbers order as the contract's keys do, and numbers out of range are `None`, never another row.

use std::ops::RangeInclusive;

use crate::{
    OutboxKey, RunKey,
    limits::{EVENT_ID_END, OUTBOX_SEQUENCE_END, RUN_KEY_END},
};

const PART_BITS: u32 = 20;
const _: () = assert!(EVENT_ID_END == 1 << PART_BITS && OUTBOX_SEQUENCE_END == 1 << PART_BITS);

/// A run's row number.
pub fn run_row(key: RunKey) -> Option<i64> {
    if key.0 < RUN_KEY_END { i64::try_from(key.0).ok() } else { None }
}

/// The run with a row number.
pub fn run_key(row: i64) -> RunKey {
    RunKey(row.unsigned_abs())
}

/// The row numbers a run's history batches, or its outbox rows, may have.
pub fn rows_of(key: RunKey) -> Option<RangeInclusive<i64>> {
    run_row(key).map(|row| row << PART_BITS..=(row << PART_BITS | (EVENT_ID_END - 1)))
}

/// The row number of a script state.
pub fn script_row(key: RunKey, slot: u8) -> Option<i64> {
    run_row(key).map(|row| row << 2 | i64::from(slot & 3))
}

/// A history batch's row number.
pub fn history_row(key: RunKey, first_event_id: i64) -> Option<i64> {
    if !(0..EVENT_ID_END).contains(&first_event_id) {
        return None;
    }
    run_row(key).map(|row| row << PART_BITS | first_event_id)
}

/// The first event id of a history batch with a row number.
pub fn first_event_id(row: i64) -> i64 {
    row & (EVENT_ID_END - 1)
}

/// An outbox row's number.
pub fn outbox_row(key: OutboxKey) -> Option<i64> {
    if key.sequence >= OUTBOX_SEQUENCE_END {
        return None;
    }
    run_row(key.sender).map(|row| row << PART_BITS | i64::from(key.sequence))
}

/// The outbox row with a number.
pub fn outbox_key(row: i64) -> OutboxKey {
    let sequence = u32::try_from(row & i64::from(OUTBOX_SEQUENCE_END - 1)).expect("masked to 20 bits");
    OutboxKey { sender: run_key(row >> PART_BITS), sequence }
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
