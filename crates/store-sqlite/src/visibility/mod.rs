//! Finding runs in the file.
//!
//! Three tables. `visibility` has a row for each run with what filters look at. `attributes` has an entry for each
//! value of an attribute, so that runs can be found by it in the order in which lists show them. `status_counts` says
//! how many runs of a namespace have which status, so that the commonest count reads a handful of rows.

pub(crate) mod write;
