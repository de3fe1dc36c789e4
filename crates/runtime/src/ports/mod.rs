//! What the runs need of the parts above them: a trait for each, which the part implements.

pub(crate) mod turn;

pub(crate) use turn::{AfterCommit, Pending, ScriptAt, Turn};
