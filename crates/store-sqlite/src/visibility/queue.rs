//! Facts that are stored but not yet in the tables that lists read.
//!
//! A new run touches a page in each of those tables and their indexes, and a closed one several. Written with each
//! commit they would be most of what goes to the disk. So facts wait in one short table, which grows at its end, until
//! there are enough of them to share pages, or until somebody asks. Of a run that began and ended meanwhile, only what
//! was said last is listed.
//!
//! What holds: facts are queued in the transaction that changes the run, and who reads the tables does so as of a moment
//! at which the queue was empty (`SqliteStore::read_listed`): a list shows whatever was acknowledged before it was asked
//! for, and the filter sees the states that are shown.

use std::collections::BTreeMap;

use rusqlite::{Connection, Row};
use segno_store::NamespaceKey;
use segno_store::visibility::{Closed, Retry, Value, VisibilityRow};
use serde_json::{Map, Value as Json};

use super::write::{self, OPEN, StatusChanges};
use crate::layout;

/// A transaction that leaves this many behind lists them.
const LENGTH_MAX: i64 = 128;

/// Queues the facts of a run. One that `is_new` has none in the tables.
pub(crate) fn add(connection: &Connection, run: i64, row: &VisibilityRow, is_new: bool) -> rusqlite::Result<()> {
    let insert =
        concat!("INSERT INTO facts (run_key, ", write::columns!(), ", is_new) VALUES (", write::places!(), ", ?23)");
    write::execute(connection, insert, run, row, write::as_json(row).as_deref(), Some(is_new))
}

/// Lists what is queued if it is much.
pub(crate) fn empty_if_long(connection: &Connection, changes: &mut StatusChanges) -> rusqlite::Result<()> {
    let select = "SELECT coalesce(max(position), 0) FROM facts";
    let length: i64 = connection.prepare_cached(select)?.query_row([], |row| row.get(0))?;
    if length < LENGTH_MAX { Ok(()) } else { empty(connection, changes) }
}

/// Lists what is queued.
pub(crate) fn empty(connection: &Connection, changes: &mut StatusChanges) -> rusqlite::Result<()> {
    let select = concat!("SELECT run_key, ", write::columns!(), ", is_new FROM facts ORDER BY position");
    let mut newest: BTreeMap<i64, (VisibilityRow, bool)> = BTreeMap::new();
    let mut statement = connection.prepare_cached(select)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (facts, is_new) = (read(row)?, row.get(22)?);
        let run = row.get(0)?;
        let was_new = newest.get(&run).is_some_and(|(_, is_new)| *is_new);
        newest.insert(run, (facts, is_new || was_new));
    }
    drop(rows);
    if newest.is_empty() {
        return Ok(());
    }
    for (run, (facts, is_new)) in newest {
        write::put(connection, run, &facts, is_new, changes)?;
    }
    connection.prepare_cached("DELETE FROM facts")?.execute([])?;
    Ok(())
}

/// The facts in a row, in the order of [`write::columns`].
fn read(row: &Row<'_>) -> rusqlite::Result<VisibilityRow> {
    let pair = |place: usize| -> rusqlite::Result<Option<(String, String)>> {
        Ok(row.get::<_, Option<String>>(place)?.zip(row.get(place + 1)?))
    };
    let retry = |place: usize| -> rusqlite::Result<Option<Retry>> {
        let failure = row.get(place + 1)?;
        Ok(row.get::<_, Option<i32>>(place)?.map(|attempt| Retry { attempt, failure }))
    };
    let ended: i64 = row.get(12)?;
    let closed = if ended == OPEN {
        None
    } else {
        Some(Closed {
            time: ended,
            history_length: row.get(14)?,
            history_bytes: row.get(15)?,
            transitions: row.get(16)?,
        })
    };
    Ok(VisibilityRow {
        key: row.get(0).map(layout::run_key)?,
        namespace: NamespaceKey(row.get(1)?),
        start_time: row.get(2)?,
        execution_time: row.get(3)?,
        workflow_type: row.get(4)?,
        workflow_id: row.get(5)?,
        run_id: row.get(6)?,
        task_queue: row.get(7)?,
        parent: pair(8)?,
        root: pair(10)?,
        status: row.get(13)?,
        closed,
        activity_retry: retry(17)?,
        task_retry: retry(19)?,
        attributes: row.get::<_, Option<String>>(21)?.map(|json| attributes(&json)).unwrap_or_default(),
    })
}

/// Attributes as they were before [`write::as_json`].
fn attributes(json: &str) -> BTreeMap<u32, Value> {
    let written: Map<String, Json> = serde_json::from_str(json).unwrap_or_default();
    let text = |item: Json| if let Json::String(text) = item { Some(text) } else { None };
    let value = |json: Json| match json {
        Json::String(text) => Some(Value::Text(text)),
        Json::Bool(truth) => Some(Value::Bool(truth)),
        Json::Array(items) => Some(Value::List(items.into_iter().filter_map(text).collect())),
        Json::Number(number) => match number.as_i64() {
            Some(whole) => Some(Value::Int(whole)),
            None => number.as_f64().map(Value::Double),
        },
        Json::Null | Json::Object(_) => None,
    };
    written.into_iter().filter_map(|(number, json)| Some((number.parse().ok()?, value(json)?))).collect()
}
