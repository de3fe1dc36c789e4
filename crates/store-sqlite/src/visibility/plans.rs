//! Query plans of the statements of lists and counts, for tests.

use std::sync::Mutex;

use rusqlite::Connection;

use super::sql::Statement;
use segno_store::lock::lock;

/// Reads are made on threads of the store, so that the plans of all tests meet here: one test at a time takes them.
static PLANS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Notes the plan of a statement.
pub(super) fn note(connection: &Connection, statement: &Statement) {
    let mut explain = connection.prepare(&format!("EXPLAIN QUERY PLAN {}", statement.text)).expect("a statement");
    let values = rusqlite::params_from_iter(&statement.values);
    let steps = explain.query_map(values, |row| row.get::<_, String>(3)).expect("a plan");
    let steps: Vec<_> = steps.map(|step| step.expect("a step")).collect();
    lock(&PLANS).push(steps.join("; "));
}

/// The plans noted since the last call.
pub(super) fn take() -> Vec<String> {
    std::mem::take(&mut *lock(&PLANS))
}
