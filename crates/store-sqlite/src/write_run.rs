//! Writing a run: its row, which holds its newest history, and the rows its older history moves to.

use bytes::Bytes;
use rusqlite::{OptionalExtension, ToSql, params, params_from_iter};
use segno_store::{HistoryBatch, RunKey, RunRecord, RunWrite};

use crate::statements::Statements;
use crate::visibility::pending::PendingFacts;
use crate::write::Refusal;
use crate::{checksum, recent_history};
use segno_store::rows;

/// Writes a run, new or known, if it stands as the write expects it.
pub(crate) fn write_run(
    statements: &mut Statements<'_>,
    pending: &mut PendingFacts,
    write: &RunWrite,
) -> Result<(), Refusal> {
    let target = Target::new(write)?;
    let is_new = target.version == 1;
    let is_long = recent_history::length(&write.batches) > recent_history::BYTES_MAX;
    let newest = if is_long {
        Vec::new()
    } else {
        recent_history::encode(write.key, &write.batches).ok_or(Refusal::Conflict)?
    };
    let last_event = write.batches.last().map(|batch| batch.last_event_id);
    if is_new {
        let insert = "INSERT INTO runs (run_key, version, dispatchable, wake_at, checksum, state, open, last_event, recent_history) \
                      VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) ON CONFLICT DO NOTHING";
        one_row(target.execute(statements, insert, params![last_event.unwrap_or(0), newest])?)?;
    } else if is_long || !target.extend(statements, &newest)? {
        let known = StoredRow::find(statements, target.row)?;
        let known = known.filter(|known| known.fits(write, target.version)).ok_or(Refusal::Conflict)?;
        insert_batches(
            statements,
            write.key,
            &recent_history::decode(write.key, &known.recent_history).map_err(|_| Refusal::Damaged)?,
        )?;
        let update = "UPDATE runs SET version = ?2, dispatchable = ?3, wake_at = ?4, checksum = ?5, state = ?6, \
                      open = ?7, last_event = ?8, recent_history = ?9 WHERE run_key = ?1";
        one_row(target.execute(statements, update, params![last_event.unwrap_or(known.last_event), newest])?)?;
    }
    if is_long {
        insert_batches(statements, write.key, &write.batches)?;
    }
    if let Some(facts) = &write.visibility {
        pending.add(write.key, facts, is_new);
    }
    Ok(())
}

/// A run's row, and what it will say.
struct Target<'a> {
    write: &'a RunWrite,
    row: i64,
    version: i64,
    sum: u32,
}

impl<'a> Target<'a> {
    fn new(write: &'a RunWrite) -> Result<Self, Refusal> {
        let row = rows::run_row(write.key).ok_or(Refusal::Conflict)?;
        // No stored version is that large.
        let expected = i64::try_from(write.expected_version).map_err(|_| Refusal::Conflict)?;
        let version = expected.checked_add(1).ok_or(Refusal::Conflict)?;
        let sum = checksum::of_run(&RunRecord {
            key: write.key,
            version: version.unsigned_abs(),
            state: Bytes::clone(&write.state),
            open: write.open,
            wake_at: write.wake_at,
            dispatchable: write.dispatchable,
        });
        Ok(Self { write, row, version, sum })
    }

    /// Executes a statement with what the row will say as ?1 to ?7, and more. Returns how many rows changed.
    fn execute(
        &self,
        statements: &mut Statements<'_>,
        statement: &'static str,
        more: &[&dyn ToSql],
    ) -> rusqlite::Result<usize> {
        let write = self.write;
        let head =
            params![self.row, self.version, write.dispatchable, write.wake_at, self.sum, &write.state[..], write.open];
        let values = params_from_iter(head.iter().chain(more));
        statements.get(statement)?.execute(values)
    }

    /// The common case: the row is as expected and its recent history has room. `false` if not, and then nothing was changed.
    ///
    /// A statement that sets `open` rewrites the index of open runs even if the value stays, so an open run that stays
    /// open, which is the common case, has a statement that does not name it; and one without events does not read the
    /// recent history.
    fn extend(&self, statements: &mut Statements<'_>, newest: &[u8]) -> rusqlite::Result<bool> {
        let (Some(first), Some(last)) = (self.write.batches.first(), self.write.batches.last()) else {
            let statement = if self.write.open {
                "UPDATE runs SET version = ?2, dispatchable = ?3, wake_at = ?4, checksum = ?5, state = ?6 \
                 WHERE run_key = ?1 AND version = ?2 - 1 AND open = ?7"
            } else {
                "UPDATE runs SET version = ?2, dispatchable = ?3, wake_at = ?4, checksum = ?5, state = ?6, open = ?7 \
                 WHERE run_key = ?1 AND version = ?2 - 1"
            };
            return Ok(self.execute(statements, statement, &[])? == 1);
        };
        let statement = if self.write.open {
            "UPDATE runs SET version = ?2, dispatchable = ?3, wake_at = ?4, checksum = ?5, state = ?6, \
             last_event = ?8, recent_history = CAST(recent_history || ?9 AS BLOB) \
             WHERE run_key = ?1 AND version = ?2 - 1 AND open = ?7 AND last_event < ?10 AND length(recent_history) <= ?11"
        } else {
            "UPDATE runs SET version = ?2, dispatchable = ?3, wake_at = ?4, checksum = ?5, state = ?6, open = ?7, \
             last_event = ?8, recent_history = CAST(recent_history || ?9 AS BLOB) \
             WHERE run_key = ?1 AND version = ?2 - 1 AND last_event < ?10 AND length(recent_history) <= ?11"
        };
        let room = recent_history::BYTES_MAX - newest.len();
        let more = params![last.last_event_id, newest, first.first_event_id, room];
        Ok(self.execute(statements, statement, more)? == 1)
    }
}

/// The row of a run before a write.
struct StoredRow {
    version: i64,
    last_event: i64,
    recent_history: Bytes,
}

impl StoredRow {
    fn find(statements: &mut Statements<'_>, row: i64) -> rusqlite::Result<Option<Self>> {
        let select = "SELECT version, last_event, recent_history FROM runs WHERE run_key = ?1";
        let known = |row: &rusqlite::Row<'_>| {
            Ok(Self { version: row.get(0)?, last_event: row.get(1)?, recent_history: row.get::<_, Vec<u8>>(2)?.into() })
        };
        statements.get(select)?.query_row([row], known).optional()
    }

    fn fits(&self, write: &RunWrite, version: i64) -> bool {
        self.version == version - 1 && write.batches.first().is_none_or(|batch| batch.first_event_id > self.last_event)
    }
}

pub(crate) fn insert_batches(
    statements: &mut Statements<'_>,
    key: RunKey,
    batches: &[HistoryBatch],
) -> Result<(), Refusal> {
    let insert =
        "INSERT INTO history (id, last_event_id, checksum, events) VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING";
    for batch in batches {
        let id = rows::history_row(key, batch.first_event_id).ok_or(Refusal::Conflict)?;
        let sum = checksum::of_batch(id, batch.last_event_id, &batch.events);
        let values = params![id, batch.last_event_id, sum, &batch.events[..]];
        one_row(statements.get(insert)?.execute(values)?)?;
    }
    Ok(())
}

/// Exactly one row must have changed.
pub(crate) fn one_row(changed: usize) -> Result<(), Refusal> {
    if changed == 1 { Ok(()) } else { Err(Refusal::Conflict) }
}
