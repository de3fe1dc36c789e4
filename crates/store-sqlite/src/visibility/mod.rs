//! Searchable facts of runs in the file.
//!
//! Facts are first pending ([`pending`]), then listed in three tables. `visibility` has a row for each run with the
//! columns of filters. `attributes` has an entry for each value of an attribute, so that runs can be found by it in the
//! order in which lists show them. `status_counts` has the number of runs of each status of a namespace, so that the
//! commonest count reads a handful of rows.
//!
//! A list or count is answered in three steps: `search` chooses the index that matches few runs or has them in order,
//! `sql` expresses the rest of the filter, `list` and `count` build the statement.

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
