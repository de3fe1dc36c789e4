//! Writes the tables of searchable facts, inside the transaction that changes the run.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::sync::LazyLock;

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{OptionalExtension, ToSql, params};
use segno_store::NamespaceKey;
use segno_store::visibility::{Retry, Value, VisibilityRow};
use serde_json::{Map, Value as Json};

use crate::statements::Statements;
use crate::{checksum, read};

/// The close time of a run that is open: later than any other.
pub(crate) const OPEN: i64 = i64::MAX;

const IN_MEMORY: &str = "memory takes all that is written";

/// Attributes of different namespaces do not meet: their entries carry namespace and number in one integer.
pub(crate) fn attribute_entry(namespace: NamespaceKey, number: u32) -> i64 {
    i64::from(namespace.0) << 32 | i64::from(number)
}

/// The columns of `visibility` that its checksum is made of, in this order.
pub(crate) const CHECKED_COLUMNS: &str = "run_key, namespace, ended, start_time, status, execution_time, workflow_type, \
                                          workflow_id, run_id, task_queue, history_length, history_bytes, transitions, \
                                          parent_workflow_id, parent_run_id, root_workflow_id, root_run_id, \
                                          activity_attempts, activity_failure, task_attempts, task_failure, attributes";

/// Whether the row of a run matches its checksum.
pub(super) static IS_INTACT: LazyLock<String> =
    LazyLock::new(|| format!("SELECT checksum = row_checksum({CHECKED_COLUMNS}) FROM visibility WHERE run_key = ?1"));

/// The checksum of a row of `visibility`.
fn row_sum(run: i64, row: &VisibilityRow, ended: i64, attributes: Option<&str>) -> u32 {
    let integer = |number: Option<i64>| number.map_or(ValueRef::Null, ValueRef::Integer);
    fn text(text: Option<&str>) -> ValueRef<'_> {
        text.map_or(ValueRef::Null, |text| ValueRef::Text(text.as_bytes()))
    }
    let attempts = |retry: &Option<Retry>| integer(retry.as_ref().map(|retry| retry.attempt.into()));
    fn failure(retry: &Option<Retry>) -> ValueRef<'_> {
        text(retry.as_ref().and_then(|retry| retry.failure.as_deref()))
    }
    let (parent, root) = (row.parent.as_ref(), row.root.as_ref());
    checksum::of_values([
        ValueRef::Integer(run),
        ValueRef::Integer(row.namespace.0.into()),
        ValueRef::Integer(ended),
        ValueRef::Integer(row.start_time),
        ValueRef::Integer(row.status.into()),
        ValueRef::Integer(row.execution_time),
        text(Some(&row.workflow_type)),
        text(Some(&row.workflow_id)),
        text(Some(&row.run_id)),
        text(Some(&row.task_queue)),
        integer(row.closed.map(|closed| closed.history_length)),
        integer(row.closed.map(|closed| closed.history_bytes)),
        integer(row.closed.map(|closed| closed.transitions)),
        text(parent.map(|parent| parent.0.as_str())),
        text(parent.map(|parent| parent.1.as_str())),
        text(root.map(|root| root.0.as_str())),
        text(root.map(|root| root.1.as_str())),
        attempts(&row.activity_retry),
        failure(&row.activity_retry),
        attempts(&row.task_retry),
        failure(&row.task_retry),
        text(attributes),
    ])
}

/// The content of the tables about a run before a write.
struct Before {
    namespace: u32,
    ended: i64,
    start_time: i64,
    status: i32,
    attributes: Option<String>,
}

/// How many more runs there are by namespace and status. Nearly every transaction changes the same few counts, so they
/// are added up and written at its end.
#[derive(Clone, Debug, Default)]
pub(crate) struct StatusChanges(BTreeMap<(u32, i32), i64>);

impl StatusChanges {
    fn add(&mut self, namespace: u32, status: i32, runs: i64) {
        *self.0.entry((namespace, status)).or_default() += runs;
    }

    /// Writes them.
    pub(crate) fn write(self, statements: &mut Statements<'_>) -> rusqlite::Result<()> {
        let add = "INSERT INTO status_counts (namespace, status, runs) VALUES (?1, ?2, ?3) \
                   ON CONFLICT (namespace, status) DO UPDATE SET runs = runs + excluded.runs";
        for ((namespace, status), runs) in self.0.into_iter().filter(|(_, runs)| *runs != 0) {
            statements.get(add)?.execute(params![namespace, status, runs])?;
        }
        Ok(())
    }
}

/// Writes the facts of a run. One that `is_new` has none yet.
pub(crate) fn put(
    statements: &mut Statements<'_>,
    run: i64,
    row: &VisibilityRow,
    is_new: bool,
    changes: &mut StatusChanges,
) -> rusqlite::Result<()> {
    let ended = row.closed.map_or(OPEN, |closed| closed.time);
    let attributes = as_json(row);
    let before = if is_new { None } else { before(statements, run)? };
    let sum = row_sum(run, row, ended, attributes.as_deref());
    match &before {
        None => insert(statements, run, row, attributes.as_deref(), sum)?,
        Some(_) => update(statements, run, row, ended, attributes.as_deref(), sum)?,
    }
    if before.as_ref().is_none_or(|before| before.status != row.status) {
        if let Some(before) = &before {
            changes.add(before.namespace, before.status, -1);
        }
        changes.add(row.namespace.0, row.status, 1);
    }
    if before.as_ref().is_some_and(|before| before.ended == ended && before.attributes == attributes) {
        return Ok(());
    }
    if let Some(before) = &before {
        remove_entries(statements, run, before)?;
    }
    add_entries(statements, run, row, ended)
}

/// Forgets a run, also if its row is damaged. `false` if it has none.
pub(crate) fn delete(statements: &mut Statements<'_>, run: i64, changes: &mut StatusChanges) -> rusqlite::Result<bool> {
    let before = match before(statements, run) {
        Ok(Some(before)) => before,
        Ok(None) => return Ok(false),
        // A column holds what was never written there: neither the entries nor the count can be told from the row.
        Err(error) if read::is_damage(&error) => {
            scan_for_entries(statements, run)?;
            statements.get("DELETE FROM visibility WHERE run_key = ?1")?.execute([run])?;
            return Ok(true);
        }
        Err(error) => return Err(error),
    };
    let all_found = remove_entries(statements, run, &before)?;
    if !all_found || !is_intact(statements, run)? {
        scan_for_entries(statements, run)?;
    }
    changes.add(before.namespace, before.status, -1);
    statements.get("DELETE FROM visibility WHERE run_key = ?1")?.execute([run])?;
    Ok(true)
}

fn is_intact(statements: &mut Statements<'_>, run: i64) -> rusqlite::Result<bool> {
    statements.get(IS_INTACT.as_str())?.query_row([run], |row| row.get(0))
}

fn before(statements: &mut Statements<'_>, run: i64) -> rusqlite::Result<Option<Before>> {
    let select = "SELECT namespace, ended, start_time, status, attributes FROM visibility WHERE run_key = ?1";
    let found = statements.get(select)?.query_row([run], |row| {
        Ok(Before {
            namespace: row.get(0)?,
            ended: row.get(1)?,
            start_time: row.get(2)?,
            status: row.get(3)?,
            attributes: row.get(4)?,
        })
    });
    found.optional()
}

fn insert(
    statements: &mut Statements<'_>,
    run: i64,
    row: &VisibilityRow,
    attributes: Option<&str>,
    sum: u32,
) -> rusqlite::Result<()> {
    let insert = "INSERT INTO visibility (run_key, namespace, start_time, execution_time, workflow_type, workflow_id, \
                  run_id, task_queue, parent_workflow_id, parent_run_id, root_workflow_id, root_run_id, ended, status, \
                  history_length, history_bytes, transitions, activity_attempts, activity_failure, task_attempts, \
                  task_failure, attributes, checksum) \
                  VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, \
                  ?21, ?22, ?23)";
    let (parent, root) = (row.parent.as_ref(), row.root.as_ref());
    let values = params![
        run,
        row.namespace.0,
        row.start_time,
        row.execution_time,
        row.workflow_type,
        row.workflow_id,
        row.run_id,
        row.task_queue,
        parent.map(|parent| &parent.0),
        parent.map(|parent| &parent.1),
        root.map(|root| &root.0),
        root.map(|root| &root.1),
        row.closed.map_or(OPEN, |closed| closed.time),
        row.status,
        row.closed.map(|closed| closed.history_length),
        row.closed.map(|closed| closed.history_bytes),
        row.closed.map(|closed| closed.transitions),
        row.activity_retry.as_ref().map(|retry| retry.attempt),
        row.activity_retry.as_ref().and_then(|retry| retry.failure.as_deref()),
        row.task_retry.as_ref().map(|retry| retry.attempt),
        row.task_retry.as_ref().and_then(|retry| retry.failure.as_deref()),
        attributes,
        sum
    ];
    statements.get(insert)?.execute(values)?;
    Ok(())
}

/// Only what can change after the start.
fn update(
    statements: &mut Statements<'_>,
    run: i64,
    row: &VisibilityRow,
    ended: i64,
    attributes: Option<&str>,
    sum: u32,
) -> rusqlite::Result<()> {
    let update = "UPDATE visibility SET ended = ?2, status = ?3, history_length = ?4, history_bytes = ?5, \
                  transitions = ?6, activity_attempts = ?7, activity_failure = ?8, task_attempts = ?9, \
                  task_failure = ?10, attributes = ?11, checksum = ?12 WHERE run_key = ?1";
    let values = params![
        run,
        ended,
        row.status,
        row.closed.map(|closed| closed.history_length),
        row.closed.map(|closed| closed.history_bytes),
        row.closed.map(|closed| closed.transitions),
        row.activity_retry.as_ref().map(|retry| retry.attempt),
        row.activity_retry.as_ref().and_then(|retry| retry.failure.as_deref()),
        row.task_retry.as_ref().map(|retry| retry.attempt),
        row.task_retry.as_ref().and_then(|retry| retry.failure.as_deref()),
        attributes,
        sum
    ];
    statements.get(update)?.execute(values)?;
    Ok(())
}

fn add_entries(statements: &mut Statements<'_>, run: i64, row: &VisibilityRow, ended: i64) -> rusqlite::Result<()> {
    if row.attributes.is_empty() {
        return Ok(());
    }
    let insert = "INSERT OR IGNORE INTO attributes (attribute, value, ended, start_time, run_key, checksum) \
                  VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
    let insert = statements.get(insert)?;
    for (number, value) in &row.attributes {
        let attribute = attribute_entry(row.namespace, *number);
        let numbers = [attribute, ended, row.start_time, run].map(ValueRef::Integer);
        let mut entry = |value: ValueRef<'_>| {
            let sum = checksum::of_values([numbers[0], value, numbers[1], numbers[2], numbers[3]]);
            let value = ToSqlOutput::Borrowed(value);
            insert.execute(params![attribute, value, ended, row.start_time, run, sum])
        };
        match value {
            Value::Text(text) => entry(ValueRef::Text(text.as_bytes()))?,
            Value::Int(number) => entry(ValueRef::Integer(*number))?,
            Value::Double(number) => entry(ValueRef::Real(*number))?,
            Value::Bool(truth) => entry(ValueRef::Integer((*truth).into()))?,
            Value::List(items) => items.iter().try_fold(0, |_, item| entry(ValueRef::Text(item.as_bytes())))?,
        };
    }
    Ok(())
}

/// Removes all entries of a run by looking at the whole table: nothing tells what they are.
pub(crate) fn scan_for_entries(statements: &mut Statements<'_>, run: i64) -> rusqlite::Result<()> {
    statements.get("DELETE FROM attributes WHERE run_key = ?1")?.execute([run])?;
    Ok(())
}

/// Removes the entries of a run that its row tells of. `false` if one was not there, or if the row cannot be read.
fn remove_entries(statements: &mut Statements<'_>, run: i64, before: &Before) -> rusqlite::Result<bool> {
    let Some(attributes) = &before.attributes else { return Ok(true) };
    let delete = "DELETE FROM attributes WHERE attribute = ?1 AND value = ?2 AND ended = ?3 AND start_time = ?4 \
                  AND run_key = ?5";
    let delete = statements.get(delete)?;
    let namespace = NamespaceKey(before.namespace);
    let Ok(written) = serde_json::from_str::<Map<String, Json>>(attributes) else { return Ok(false) };
    let mut all_found = true;
    for (number, value) in &written {
        let attribute = attribute_entry(namespace, number.parse().unwrap_or_default());
        let mut entry = |value: &dyn ToSql| {
            let removed = delete.execute(params![attribute, value, before.ended, before.start_time, run])?;
            all_found &= removed == 1;
            Ok::<_, rusqlite::Error>(())
        };
        match value {
            Json::String(text) => entry(text)?,
            Json::Bool(truth) => entry(truth)?,
            Json::Number(number) => match number.as_i64() {
                Some(number) => entry(&number)?,
                None => entry(&number.as_f64())?,
            },
            Json::Array(items) => {
                // Equal items share an entry.
                let distinct: BTreeSet<_> = items.iter().map(Json::as_str).collect();
                distinct.iter().try_for_each(|item| entry(item))?;
            }
            Json::Null | Json::Object(_) => all_found = false,
        };
    }
    Ok(all_found)
}

/// Attributes as SQL reads them: an object from numbers to values; `None` if there is none.
fn as_json(row: &VisibilityRow) -> Option<String> {
    if row.attributes.is_empty() {
        return None;
    }
    let mut json = Vec::with_capacity(64);
    for (number, value) in &row.attributes {
        json.push(if json.is_empty() { b'{' } else { b',' });
        write!(json, "\"{number}\":").expect(IN_MEMORY);
        let written = match value {
            Value::Text(text) => serde_json::to_writer(&mut json, text),
            Value::List(items) => serde_json::to_writer(&mut json, items),
            Value::Int(number) => serde_json::to_writer(&mut json, number),
            Value::Double(number) => serde_json::to_writer(&mut json, number),
            Value::Bool(truth) => serde_json::to_writer(&mut json, truth),
        };
        written.expect(IN_MEMORY);
    }
    json.push(b'}');
    Some(String::from_utf8(json).expect("made of texts"))
}
