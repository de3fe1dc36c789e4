//! Limits of all backends, checked before a write: ranges of the numbers in the contract.
//!
//! Backends pack a run's number and an event id or outbox sequence into one 64-bit integer, so a number out of range
//! would silently name another run's row. The engine keeps its own, much lower limits; a refusal here is a defect of
//! the server.
//!
//! What holds: every backend can store the numbers of a commit that passed [`check_commit`].

use crate::{Commit, CommitError, HistoryBatch, RunKey};

/// Run keys are below this.
pub const RUN_KEY_END: u64 = 1 << 43;

/// Event ids are below this.
pub const EVENT_ID_END: i64 = 1 << 20;

/// Outbox sequences are below this.
pub const OUTBOX_SEQUENCE_END: u32 = 1 << 20;

/// States of a script that a run may have.
pub const SCRIPT_SLOTS: u8 = 4;

/// No single state, batch, message or detail is longer than this. SQLite's own limit is just under 1 GB.
pub const VALUE_BYTES_MAX: usize = 512 << 20;

/// Refuses a commit whose numbers are out of range. The commit is not made, which the message says.
pub fn check_commit(commit: &Commit) -> Result<(), CommitError> {
    for write in &commit.runs {
        check_run_key(write.key)?;
        check_value(write.state.len())?;
        check_batches(&write.batches)?;
    }
    for write in &commit.current {
        write.current.map_or(Ok(()), check_run_key)?;
    }
    for reset in &commit.current_reset {
        reset.current.map_or(Ok(()), check_run_key)?;
    }
    for write in &commit.scripts {
        check_run_key(write.run)?;
        check_value(write.state.len())?;
        if write.slot >= SCRIPT_SLOTS {
            return Err(refused(format!("script slot {} is too large", write.slot)));
        }
    }
    for compaction in &commit.compactions {
        check_run_key(compaction.run)?;
        check_batches(std::slice::from_ref(&compaction.batch))?;
    }
    for write in &commit.documents {
        check_value(write.content.as_ref().map_or(0, |content| content.len()))?;
    }
    for row in &commit.outbox_add {
        check_run_key(row.key.sender)?;
        check_value(row.message.len())?;
        if row.key.sequence >= OUTBOX_SEQUENCE_END {
            return Err(refused(format!("outbox sequence {} is too large", row.key.sequence)));
        }
    }
    Ok(())
}

/// Refuses a value that is too long.
pub fn check_value(bytes: usize) -> Result<(), CommitError> {
    if bytes <= VALUE_BYTES_MAX { Ok(()) } else { Err(refused(format!("a value of {bytes} bytes is too long"))) }
}

/// The first of `count` keys from `next` on, and the key after them.
pub fn reserve(next: u64, count: u64) -> Result<(RunKey, u64), CommitError> {
    match next.checked_add(count) {
        Some(end) if end <= RUN_KEY_END => Ok((RunKey(next), end)),
        _ => Err(refused(format!("{count} run keys after {next} are more than there are"))),
    }
}

fn check_run_key(key: RunKey) -> Result<(), CommitError> {
    if key.0 < RUN_KEY_END { Ok(()) } else { Err(refused(format!("run key {} is too large", key.0))) }
}

fn check_batches(batches: &[HistoryBatch]) -> Result<(), CommitError> {
    let mut next = 0;
    for batch in batches {
        let (first, last) = (batch.first_event_id, batch.last_event_id);
        if first < next || last < first || last >= EVENT_ID_END {
            return Err(refused(format!("history batch {first}..={last} is out of order or out of range")));
        }
        check_value(batch.events.len())?;
        next = last + 1;
    }
    Ok(())
}

fn refused(why: String) -> CommitError {
    CommitError::Unknown(format!("refused, nothing was changed: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_run_out_cleanly() {
        assert_eq!(reserve(1, 10), Ok((RunKey(1), 11)));
        assert_eq!(reserve(RUN_KEY_END - 1, 1), Ok((RunKey(RUN_KEY_END - 1), RUN_KEY_END)));
        assert!(reserve(RUN_KEY_END, 1).is_err());
        assert!(reserve(5, u64::MAX).is_err());
    }
}
