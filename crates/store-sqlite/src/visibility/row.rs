//! Reads the row of a run in `visibility` back as the type of the contract.

use std::collections::BTreeMap;

use rusqlite::{Connection, OptionalExtension, Row, params};
use segno_store::visibility::{Closed, Retry, Value, VisibilityRow};
use segno_store::{NamespaceKey, ReadError, RunKey};
use serde_json::{Map, Value as Json};

use super::write::{IS_INTACT, OPEN};
use crate::read;
use segno_store::rows;

/// See [`segno_store::Store::facts`].
pub(crate) fn facts(connection: &Connection, key: RunKey) -> Result<Option<VisibilityRow>, ReadError> {
    let Some(row) = rows::run_row(key) else { return Ok(None) };
    let select = "SELECT namespace, status, start_time, execution_time, workflow_type, workflow_id, run_id, task_queue, \
                  parent_workflow_id, parent_run_id, root_workflow_id, root_run_id, ended, history_length, \
                  history_bytes, transitions, activity_attempts, activity_failure, task_attempts, task_failure, \
                  attributes FROM visibility WHERE run_key = ?1";
    check(connection, key)?;
    let found = connection
        .prepare_cached(select)
        .and_then(|mut statement| statement.query_row([row], |row| from_row(key, row)).optional());
    found.map_err(|error| read::read_error(&what(key), &error))
}

/// Refuses the row of a run that does not match its checksum.
pub(super) fn check(connection: &Connection, key: RunKey) -> Result<(), ReadError> {
    let Some(row) = rows::run_row(key) else { return Ok(()) };
    let intact = connection
        .prepare_cached(&IS_INTACT)
        .and_then(|mut statement| statement.query_row([row], |row| row.get::<_, bool>(0)).optional());
    match intact.map_err(|error| read::read_error(&what(key), &error))? {
        Some(false) => Err(read::mismatch(&what(key))),
        _ => Ok(()),
    }
}

fn what(key: RunKey) -> String {
    format!("searchable facts of run {}", key.0)
}

/// See [`segno_store::Store::runs_of_workflow`].
pub(crate) fn runs_of_workflow(
    connection: &Connection,
    namespace: NamespaceKey,
    workflow_id: &str,
    limit: usize,
) -> Result<Vec<RunKey>, ReadError> {
    let select = "SELECT run_key FROM visibility INDEXED BY visibility_workflow_id \
                  WHERE namespace = ?1 AND workflow_id = ?2 ORDER BY run_key DESC LIMIT ?3";
    read::keys(connection, select, params![namespace.0, workflow_id, read::count(limit)])
}

fn from_row(key: RunKey, row: &Row<'_>) -> rusqlite::Result<VisibilityRow> {
    let pair = |place: usize| {
        let (workflow_id, run_id): (Option<String>, Option<String>) = (row.get(place)?, row.get(place + 1)?);
        Ok::<_, rusqlite::Error>(workflow_id.zip(run_id))
    };
    let retry = |place: usize| {
        let (attempt, failure): (Option<i32>, _) = (row.get(place)?, row.get(place + 1)?);
        Ok::<_, rusqlite::Error>(attempt.map(|attempt| Retry { attempt, failure }))
    };
    let ended: i64 = row.get(12)?;
    let closed = if ended == OPEN {
        None
    } else {
        Some(Closed {
            time: ended,
            history_length: row.get(13)?,
            history_bytes: row.get(14)?,
            transitions: row.get(15)?,
        })
    };
    Ok(VisibilityRow {
        key,
        namespace: NamespaceKey(row.get(0)?),
        status: row.get(1)?,
        start_time: row.get(2)?,
        execution_time: row.get(3)?,
        workflow_type: row.get(4)?,
        workflow_id: row.get(5)?,
        run_id: row.get(6)?,
        task_queue: row.get(7)?,
        parent: pair(8)?,
        root: pair(10)?,
        closed,
        activity_retry: retry(16)?,
        task_retry: retry(18)?,
        attributes: attributes(row.get::<_, Option<String>>(20)?.as_deref())?,
    })
}

/// The attributes in the JSON of a row.
fn attributes(json: Option<&str>) -> rusqlite::Result<BTreeMap<u32, Value>> {
    let Some(json) = json else { return Ok(BTreeMap::new()) };
    let damaged = || rusqlite::Error::InvalidColumnType(20, "attributes".to_owned(), rusqlite::types::Type::Text);
    let written: Map<String, Json> = serde_json::from_str(json).map_err(|_| damaged())?;
    let entry = |(number, value): (String, Json)| {
        let value = match value {
            Json::String(text) => Value::Text(text),
            Json::Bool(truth) => Value::Bool(truth),
            Json::Number(number) => match number.as_i64() {
                Some(number) => Value::Int(number),
                None => Value::Double(number.as_f64()?),
            },
            Json::Array(items) => Value::List(items.into_iter().map(text).collect::<Option<_>>()?),
            Json::Null | Json::Object(_) => return None,
        };
        Some((number.parse().ok()?, value))
    };
    written.into_iter().map(entry).collect::<Option<_>>().ok_or_else(damaged)
}

fn text(json: Json) -> Option<String> {
    match json {
        Json::String(text) => Some(text),
        _ => None,
    }
}
