//! Finding runs in the file.
//!
//! Facts are first pending ([`pending`]), then listed in three tables. `visibility` has a row for each run with what filters look
//! at. `attributes` has an entry for each value of an attribute, so that runs can be found by it in the order in which
//! lists show them. `status_counts` says how many runs of a namespace have which status, so that the commonest count
//! reads a handful of rows.
//!
//! A question is answered in three steps: `search` finds the index that leads to few runs or has them in order, `sql`
//! says the rest of the filter, `list` and `count` put the statement together.

mod count;
mod encoded;
mod functions;
mod list;
pub(crate) mod pending;
#[cfg(test)]
mod plans;
mod row;
mod search;
mod source;
mod sql;
#[cfg(test)]
mod tests;
pub(crate) mod write;

pub(crate) use count::count;
pub(crate) use functions::register;
pub(crate) use list::list;
pub(crate) use row::{facts, runs_of_workflow};
