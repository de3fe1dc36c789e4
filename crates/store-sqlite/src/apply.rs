//! Writes the commits of a group, inside the transaction of the group.
//!
//! What holds: a commit that conflicts with stored data is refused with [`Refusal::Conflict`]; the caller rolls back
//! what it had written until then.

use rusqlite::{Connection, OptionalExtension, params};
use segno_store::{Commit, CurrentReset, CurrentWrite, DocumentWrite, RunKey};

use crate::checksum;
use crate::statements::Statements;
use crate::visibility::{self, pending::PendingFacts, write::StatusChanges};
use crate::write::Refusal;
use crate::write_run::{insert_batches, one_row, write_run};
use segno_store::rows;

/// A transaction under way: the facts that are not listed yet and the counts of runs go with it and are written at its end.
pub(crate) struct Work<'a> {
    pub(crate) statements: Statements<'a>,
    pending: &'a mut PendingFacts,
    changes: StatusChanges,
}

impl<'a> Work<'a> {
    pub(crate) fn new(connection: &'a Connection, pending: &'a mut PendingFacts) -> Self {
        Self { statements: Statements::new(connection), pending, changes: StatusChanges::default() }
    }

    /// Everything in a commit, in the order of its fields.
    pub(crate) fn apply(&mut self, commit: &Commit) -> Result<(), Refusal> {
        for write in &commit.runs {
            write_run(&mut self.statements, self.pending, write)?;
        }
        for write in &commit.scripts {
            let id = rows::script_row(write.run, write.slot).ok_or(Refusal::Conflict)?;
            let replace = "REPLACE INTO script_states (id, checksum, state) VALUES (?1, ?2, ?3)";
            let sum = checksum::of_script(id, &write.state);
            self.statements.get(replace)?.execute(params![id, sum, &write.state[..]])?;
        }
        for write in &commit.current {
            move_current(&mut self.statements, write)?;
        }
        for reset in &commit.current_reset {
            reset_current(&mut self.statements, reset)?;
        }
        for row in &commit.outbox_add {
            let id = rows::outbox_row(row.key).ok_or(Refusal::Conflict)?;
            let insert = "INSERT INTO outbox (id, checksum, message) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING";
            let sum = checksum::of_message(id, &row.message);
            one_row(self.statements.get(insert)?.execute(params![id, sum, &row.message[..]])?)?;
        }
        for id in commit.outbox_remove.iter().filter_map(|key| rows::outbox_row(*key)) {
            self.statements.get("DELETE FROM outbox WHERE id = ?1")?.execute([id])?;
        }
        for compaction in &commit.compactions {
            let (run, batch) = (compaction.run, &compaction.batch);
            let row = |event| rows::history_row(run, event).ok_or(Refusal::Conflict);
            let ends = [row(batch.first_event_id)?, row(batch.last_event_id)?];
            self.statements.get("DELETE FROM history WHERE id BETWEEN ?1 AND ?2")?.execute(ends)?;
            insert_batches(&mut self.statements, run, std::slice::from_ref(batch))?;
        }
        for write in &commit.documents {
            self.write_document(write)?;
        }
        for key in &commit.delete_runs {
            self.delete_run(*key)?;
        }
        Ok(())
    }

    /// The same, but of a commit that conflicts nothing stays.
    pub(crate) fn apply_or_undo(&mut self, commit: &Commit) -> Result<(), Refusal> {
        self.statements.get("SAVEPOINT one")?.execute([])?;
        let (mark, before) = (self.pending.mark(), self.changes.clone());
        let applied = self.apply(commit);
        if let Err(Refusal::Conflict) = &applied {
            self.statements.get("ROLLBACK TO one")?.execute([])?;
            self.pending.roll_back(mark);
            self.changes = before;
        }
        self.statements.get("RELEASE one")?.execute([])?;
        applied
    }

    /// Brings the tables that lists read up to date.
    pub(crate) fn list_pending(&mut self) -> rusqlite::Result<()> {
        self.pending.empty(&mut self.statements, &mut self.changes)
    }

    /// Writes what was gathered on the way.
    pub(crate) fn finish(mut self) -> Result<(), Refusal> {
        self.pending.store(&mut self.statements, &mut self.changes)?;
        Ok(self.changes.write(&mut self.statements)?)
    }

    fn write_document(&mut self, write: &DocumentWrite) -> Result<(), Refusal> {
        let (namespace, name) = (write.namespace.0, &write.name);
        match &write.content {
            Some(content) => {
                let replace = "REPLACE INTO documents (namespace, name, checksum, content) VALUES (?1, ?2, ?3, ?4)";
                let sum = checksum::of_document(namespace, name, content);
                self.statements.get(replace)?.execute(params![namespace, name, sum, &content[..]])?;
            }
            None => {
                let delete = "DELETE FROM documents WHERE namespace = ?1 AND name = ?2";
                self.statements.get(delete)?.execute(params![namespace, name])?;
            }
        }
        Ok(())
    }

    fn delete_run(&mut self, key: RunKey) -> Result<(), Refusal> {
        let (Some(row), Some(rows)) = (rows::run_row(key), rows::rows_of(key)) else { return Ok(()) };
        let ends = [*rows.start(), *rows.end()];
        self.list_pending()?;
        let was_listed = visibility::write::delete(&mut self.statements, row, &mut self.changes)?;
        let removed = self.statements.get("DELETE FROM runs WHERE run_key = ?1")?.execute([row])?;
        if removed == 1 && !was_listed {
            // Its facts were lost; entries that lead to it may be left.
            visibility::write::scan_for_entries(&mut self.statements, row)?;
        }
        self.statements.get("DELETE FROM history WHERE id BETWEEN ?1 AND ?2")?.execute(ends)?;
        let scripts = [row << 2, row << 2 | 3];
        self.statements.get("DELETE FROM script_states WHERE id BETWEEN ?1 AND ?2")?.execute(scripts)?;
        self.statements.get("DELETE FROM outbox WHERE id BETWEEN ?1 AND ?2")?.execute(ends)?;
        Ok(())
    }
}

fn reset_current(statements: &mut Statements<'_>, reset: &CurrentReset) -> Result<(), Refusal> {
    let (namespace, workflow_id) = (reset.namespace.0, &reset.workflow_id);
    match reset.current {
        Some(key) => {
            let row = rows::run_row(key).ok_or(Refusal::Conflict)?;
            let replace = "REPLACE INTO current (namespace, workflow_id, run_key, checksum) VALUES (?1, ?2, ?3, ?4)";
            let sum = checksum::of_pointer(namespace, workflow_id, row);
            statements.get(replace)?.execute(params![namespace, workflow_id, row, sum])?;
        }
        None => {
            let delete = "DELETE FROM current WHERE namespace = ?1 AND workflow_id = ?2";
            statements.get(delete)?.execute(params![namespace, workflow_id])?;
        }
    }
    Ok(())
}

fn move_current(statements: &mut Statements<'_>, write: &CurrentWrite) -> Result<(), Refusal> {
    let (namespace, workflow_id) = (write.namespace.0, &write.workflow_id);
    let row = |key: RunKey| rows::run_row(key).ok_or(Refusal::Conflict);
    match (write.expected, write.current) {
        (None, Some(to)) => {
            let insert = "INSERT INTO current (namespace, workflow_id, run_key, checksum) VALUES (?1, ?2, ?3, ?4) \
                          ON CONFLICT DO NOTHING";
            let to = row(to)?;
            let sum = checksum::of_pointer(namespace, workflow_id, to);
            one_row(statements.get(insert)?.execute(params![namespace, workflow_id, to, sum])?)
        }
        (Some(from), Some(to)) => {
            let update = "UPDATE current SET run_key = ?4, checksum = ?5 \
                          WHERE namespace = ?1 AND workflow_id = ?2 AND run_key = ?3";
            let to = row(to)?;
            let sum = checksum::of_pointer(namespace, workflow_id, to);
            let values = params![namespace, workflow_id, row(from)?, to, sum];
            one_row(statements.get(update)?.execute(values)?)
        }
        (Some(from), None) => {
            let delete = "DELETE FROM current WHERE namespace = ?1 AND workflow_id = ?2 AND run_key = ?3";
            one_row(statements.get(delete)?.execute(params![namespace, workflow_id, row(from)?])?)
        }
        (None, None) => {
            let find = "SELECT 1 FROM current WHERE namespace = ?1 AND workflow_id = ?2";
            let found = statements.get(find)?.query_row(params![namespace, workflow_id], |_| Ok(()));
            if found.optional()?.is_none() { Ok(()) } else { Err(Refusal::Conflict) }
        }
    }
}
