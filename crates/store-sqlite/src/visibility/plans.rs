//! How SQLite means to answer the statements of lists and counts, for tests.

use std::cell::RefCell;

use rusqlite::Connection;

use super::sql::Statement;

thread_local! {
    static PLANS: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Notes the plan of a statement.
pub(super) fn note(connection: &Connection, statement: &Statement) {
    let mut explain = connection.prepare(&format!("EXPLAIN QUERY PLAN {}", statement.text)).expect("a statement");
    let values = rusqlite::params_from_iter(&statement.values);
    let steps = explain.query_map(values, |row| row.get::<_, String>(3)).expect("a plan");
    let steps: Vec<_> = steps.map(|step| step.expect("a step")).collect();
    PLANS.with_borrow_mut(|plans| plans.push(steps.join("; ")));
}

/// The plans noted on this thread since the last call.
pub(super) fn take() -> Vec<String> {
    PLANS.take()
}
