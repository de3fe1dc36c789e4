//! Pending facts: those that are stored but not yet in the tables that lists read.
//!
//! A new run touches a page in each of those tables and their indexes, and a closed one several. Written with each
//! commit they would be most of what goes to the disk. So facts are appended to a small log, `pending_facts`, and listed
//! together once there are enough of them to share pages, or when a list asks. Of a run that began and ended meanwhile,
//! only the newest facts are listed.
//!
//! The log is a few rows of the length of a page, the slots, which are overwritten and never removed: a transaction
//! writes the slots that it changed, mostly one, and SQLite has no pages to free and to allocate again. When all facts
//! were listed, a new round begins: slots of another round than the first slot's are stale. The writer keeps a copy in
//! memory, so that the slots are read only after opening.
//!
//! What holds: facts become pending in the transaction that changes the run, and the tables are read as of a moment at
//! which nothing was pending (`SqliteStore::read_listed`): a list shows what was acknowledged before it was asked
//! for, and the filter sees the states that are shown. What is in memory of a transaction that was rolled back is dropped
//! when the next one begins.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::{Connection, ErrorCode, ffi, params};
use segno_store::RunKey;
use segno_store::visibility::VisibilityRow;

use super::encoded;
use super::write::{self, StatusChanges};
use crate::checksum;
use crate::statements::Statements;
use segno_store::rows;

/// All slots have this length, so that a row takes a page of 2 KiB and is written over in its place.
const SLOT_BYTES: usize = 2_000;
/// Checksum (4 bytes), how many bytes of facts follow (4), round (8).
const HEAD_BYTES: usize = 16;
const FACTS_BYTES: usize = SLOT_BYTES - HEAD_BYTES;
/// More than fits in so many is listed at once; they hold about 150 facts of short workflows.
const SLOTS_MAX: usize = 12;

/// The copy of the writing connection; see the module.
#[derive(Debug, Default)]
pub(crate) struct PendingFacts {
    /// How often all facts were listed.
    round: u64,
    /// Encoded, in order.
    facts: Vec<u8>,
    /// So many bytes of them were pending before this transaction.
    stored: usize,
    /// So many were listed by this transaction.
    listed: usize,
}

/// A moment in a transaction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    added: usize,
    listed: usize,
}

impl PendingFacts {
    /// Reads the slots.
    pub(crate) fn read(connection: &Connection) -> rusqlite::Result<Self> {
        let mut pending = Self::default();
        let mut statement = connection.prepare("SELECT position, slot FROM pending_facts ORDER BY position")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let position: usize = row.get(0)?;
            if pending.facts.len() < position * FACTS_BYTES {
                break;
            }
            let (round, facts) = open_slot(position, row.get_ref(1)?.as_blob()?).ok_or_else(damaged)?;
            if position == 0 {
                pending.round = round;
            } else if pending.round != round {
                break;
            }
            pending.facts.extend_from_slice(facts);
        }
        pending.stored = pending.facts.len();
        Ok(pending)
    }

    /// Nothing is pending from before this transaction.
    pub(crate) fn is_empty(&self) -> bool {
        self.stored == 0
    }

    /// A transaction begins. What came after the last that was [committed](Self::committed) is forgotten.
    pub(crate) fn begin(&mut self) {
        self.roll_back(Mark { added: self.stored, listed: 0 });
    }

    /// The transaction is durable.
    pub(crate) fn committed(&mut self) {
        self.round = self.next_round();
        self.facts.drain(..self.listed);
        // A large group is listed at once and leaves nothing behind, nor its memory.
        self.facts.shrink_to(2 * SLOTS_MAX * FACTS_BYTES);
        self.stored = self.facts.len();
        self.listed = 0;
    }

    pub(crate) fn mark(&self) -> Mark {
        Mark { added: self.facts.len(), listed: self.listed }
    }

    /// Takes back all changes of this transaction since the mark.
    pub(crate) fn roll_back(&mut self, mark: Mark) {
        self.facts.truncate(mark.added);
        self.listed = mark.listed;
    }

    /// Adds the facts of a run. One that `is_new` has none in the tables.
    pub(crate) fn add(&mut self, run: RunKey, row: &VisibilityRow, is_new: bool) {
        encoded::append(&mut self.facts, run, row, is_new);
    }

    /// The rows of the runs that have some.
    pub(crate) fn runs(&self) -> rusqlite::Result<BTreeSet<i64>> {
        let (mut runs, mut rest) = (BTreeSet::new(), &self.facts[..]);
        while let Some(facts) = encoded::next(&mut rest).map_err(|_| damaged())? {
            runs.insert(rows::run_row(facts.run).ok_or_else(damaged)?);
        }
        Ok(runs)
    }

    /// Lists all of them.
    pub(crate) fn empty(
        &mut self,
        statements: &mut Statements<'_>,
        changes: &mut StatusChanges,
    ) -> rusqlite::Result<()> {
        let mut newest = BTreeMap::new();
        let mut rest = &self.facts[self.listed..];
        while let Some(mut facts) = encoded::next(&mut rest).map_err(|_| damaged())? {
            let run = rows::run_row(facts.run).ok_or_else(damaged)?;
            let was_new = newest.get(&run).is_some_and(|facts: &encoded::EncodedFacts<'_>| facts.is_new);
            facts.is_new |= was_new;
            newest.insert(run, facts);
        }
        for (run, facts) in newest {
            let row = facts.read().map_err(|_| damaged())?;
            write::put(statements, run, &row, facts.is_new, changes)?;
        }
        self.listed = self.facts.len();
        Ok(())
    }

    /// Writes what this transaction added, or lists all if it is much. The last thing it does to the pending.
    pub(crate) fn store(
        &mut self,
        statements: &mut Statements<'_>,
        changes: &mut StatusChanges,
    ) -> rusqlite::Result<()> {
        if self.facts.len() - self.listed > SLOTS_MAX * FACTS_BYTES {
            self.empty(statements, changes)?;
        }
        let unchanged = if self.listed == 0 { self.stored } else { 0 };
        let (round, added) = (self.next_round(), &self.facts[self.listed..]);
        if round == self.round && added.len() == unchanged {
            return Ok(());
        }
        let write = statements.get("REPLACE INTO pending_facts (position, slot) VALUES (?1, ?2)")?;
        let first = unchanged / FACTS_BYTES;
        for position in first..added.len().div_ceil(FACTS_BYTES).max(first + 1) {
            let begin = position * FACTS_BYTES;
            let end = added.len().min(begin + FACTS_BYTES);
            write.execute(params![position, slot(position, round, &added[begin..end])])?;
        }
        Ok(())
    }

    /// The round after this transaction. If nothing was stored, what stands in the slots counts as empty already.
    fn next_round(&self) -> u64 {
        if self.listed > 0 && self.stored > 0 { self.round + 1 } else { self.round }
    }
}

fn slot(position: usize, round: u64, facts: &[u8]) -> [u8; SLOT_BYTES] {
    let mut slot = [0; SLOT_BYTES];
    let length = u32::try_from(facts.len()).expect("shorter than a slot");
    slot[..4].copy_from_slice(&checksum::of_slot(position, round, facts).to_le_bytes());
    slot[4..8].copy_from_slice(&length.to_le_bytes());
    slot[8..16].copy_from_slice(&round.to_le_bytes());
    slot[HEAD_BYTES..][..facts.len()].copy_from_slice(facts);
    slot
}

/// The round of a slot and the facts in it, if it is as it was written.
fn open_slot(position: usize, slot: &[u8]) -> Option<(u64, &[u8])> {
    let (sum, rest) = slot.split_first_chunk()?;
    let (length, rest) = rest.split_first_chunk()?;
    let (round, rest) = rest.split_first_chunk()?;
    let round = u64::from_le_bytes(*round);
    let facts = rest.get(..usize::try_from(u32::from_le_bytes(*length)).ok()?)?;
    (checksum::of_slot(position, round, facts) == u32::from_le_bytes(*sum)).then_some((round, facts))
}

fn damaged() -> rusqlite::Error {
    let code = ffi::Error { code: ErrorCode::DatabaseCorrupt, extended_code: ffi::SQLITE_CORRUPT };
    rusqlite::Error::SqliteFailure(code, Some("the pending searchable facts do not match their checksum".to_owned()))
}
