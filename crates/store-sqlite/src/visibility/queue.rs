//! Facts that are stored but not yet in the tables that lists read.
//!
//! A new run touches a page in each of those tables and their indexes, and a closed one several. Written with each
//! commit they would be most of what goes to the disk. So facts wait, one after the other, until there are enough of
//! them to share pages, or until somebody asks. Of a run that began and ended meanwhile, only what was said last is
//! listed.
//!
//! In the file they wait in a few rows of the length of a page, the slots, which are written over and never removed:
//! a transaction writes those that it changed, mostly one, and SQLite has no pages to free and to find again. Emptying
//! begins a new round: slots that carry another round than the first do not count. The writer remembers what is
//! queued, so that it is read from the file only after opening.
//!
//! What holds: facts are queued in the transaction that changes the run, and who reads the tables does so as of a moment
//! at which the queue was empty (`SqliteStore::read_listed`): a list shows whatever was acknowledged before it was asked
//! for, and the filter sees the states that are shown. What is remembered of a transaction that did not happen is
//! forgotten when the next one begins.

use std::collections::BTreeMap;

use rusqlite::{Connection, ErrorCode, ffi, params};
use segno_store::RunKey;
use segno_store::visibility::VisibilityRow;

use super::encoded;
use super::write::{self, StatusChanges};
use crate::statements::Statements;
use crate::{checksum, layout};

/// All slots have this length, so that a row takes a page of 2 KiB and is written over in its place.
const SLOT_BYTES: usize = 2_000;
/// Checksum (4 bytes), how many bytes of facts follow (4), round (8).
const HEAD_BYTES: usize = 16;
const FACTS_BYTES: usize = SLOT_BYTES - HEAD_BYTES;
/// What does not fit in so many does not wait; they hold about 150 facts of short workflows.
const SLOTS_MAX: usize = 12;

/// What the one connection that writes knows of the queue; see the module.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    /// How often it was emptied.
    round: u64,
    /// Encoded, in order.
    facts: Vec<u8>,
    /// So many bytes of them were queued before this transaction.
    stored: usize,
    /// So many were listed by this transaction.
    listed: usize,
}

/// A moment in a transaction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    queued: usize,
    listed: usize,
}

impl Queue {
    /// Reads what is queued from the file.
    pub(crate) fn read(connection: &Connection) -> rusqlite::Result<Self> {
        let mut queue = Self::default();
        let mut statement = connection.prepare("SELECT position, slot FROM queue ORDER BY position")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let position: usize = row.get(0)?;
            if queue.facts.len() < position * FACTS_BYTES {
                break;
            }
            let (round, facts) = open_slot(position, row.get_ref(1)?.as_blob()?).ok_or_else(damaged)?;
            if position == 0 {
                queue.round = round;
            } else if queue.round != round {
                break;
            }
            queue.facts.extend_from_slice(facts);
        }
        queue.stored = queue.facts.len();
        Ok(queue)
    }

    /// Nothing waits that was queued before this transaction.
    pub(crate) fn is_empty(&self) -> bool {
        self.stored == 0
    }

    /// A transaction begins. Whatever came after the last that was [committed](Self::committed) is forgotten.
    pub(crate) fn begin(&mut self) {
        self.roll_back(Mark { queued: self.stored, listed: 0 });
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
        Mark { queued: self.facts.len(), listed: self.listed }
    }

    /// What this transaction did after the mark did not happen.
    pub(crate) fn roll_back(&mut self, mark: Mark) {
        self.facts.truncate(mark.queued);
        self.listed = mark.listed;
    }

    /// Queues the facts of a run. One that `is_new` has none in the tables.
    pub(crate) fn add(&mut self, run: RunKey, row: &VisibilityRow, is_new: bool) {
        encoded::append(&mut self.facts, run, row, is_new);
    }

    /// Lists what is queued.
    pub(crate) fn empty(
        &mut self,
        statements: &mut Statements<'_>,
        changes: &mut StatusChanges,
    ) -> rusqlite::Result<()> {
        let mut newest = BTreeMap::new();
        let mut rest = &self.facts[self.listed..];
        while let Some(mut facts) = encoded::next(&mut rest).map_err(|_| damaged())? {
            let run = layout::run_row(facts.run).ok_or_else(damaged)?;
            let was_new = newest.get(&run).is_some_and(|facts: &encoded::Encoded<'_>| facts.is_new);
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

    /// Writes what this transaction queued, or lists all if it is much. The last thing it does to the queue.
    pub(crate) fn store(
        &mut self,
        statements: &mut Statements<'_>,
        changes: &mut StatusChanges,
    ) -> rusqlite::Result<()> {
        if self.facts.len() - self.listed > SLOTS_MAX * FACTS_BYTES {
            self.empty(statements, changes)?;
        }
        let unchanged = if self.listed == 0 { self.stored } else { 0 };
        let (round, queued) = (self.next_round(), &self.facts[self.listed..]);
        if round == self.round && queued.len() == unchanged {
            return Ok(());
        }
        let write = statements.get("REPLACE INTO queue (position, slot) VALUES (?1, ?2)")?;
        let first = unchanged / FACTS_BYTES;
        for position in first..queued.len().div_ceil(FACTS_BYTES).max(first + 1) {
            let begin = position * FACTS_BYTES;
            let end = queued.len().min(begin + FACTS_BYTES);
            write.execute(params![position, slot(position, round, &queued[begin..end])])?;
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
    rusqlite::Error::SqliteFailure(code, Some("the queue of searchable facts does not match its checksum".to_owned()))
}
