//! Lists and counts, with every name and value already checked.
//!
//! Filters follow the logic of SQL: a comparison with an attribute that a run does not have is neither true nor false,
//! and a run is found only if the whole filter is true.
//!
//! Order and pages. By default open runs come first, newest first, then closed ones, last closed first. A list has the
//! state of the moment of its first page: a run that closes while pages are read keeps its place among the open ones,
//! so none is shown twice or left out. With an explicit order, runs without a value come last, in the default order.
//! Runs with the same value are in the default order if the greatest value comes first; smallest first is exactly the
//! reverse, so that one index serves both.

use bytes::Bytes;

use super::{Attribute, Value};
use crate::{NamespaceKey, ReadError, RunKey};

/// How an attribute is compared with one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// `=`
    Equal,
    /// `!=`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
}

/// Which runs are wanted. Texts and lists are searched, not compared: equal is a text that has one of the words, and a
/// list that holds the value; a run without them is not equal.
#[derive(Clone, Debug, PartialEq)]
pub enum Filter {
    /// Each of these; all runs if there is none.
    All(Vec<Filter>),
    /// One of these at least; no run if there is none.
    Any(Vec<Filter>),
    /// Not this.
    Not(Box<Filter>),
    /// A comparison with one value of the attribute's kind (a text for a list; an Int may meet a Double).
    Compare(Attribute, Comparison, Value),
    /// One of these values.
    In(Attribute, Vec<Value>),
    /// From the first to the second, both included.
    Between(Attribute, Value, Value),
    /// No value.
    IsNull(Attribute),
    /// A text that begins so, or a list with such an item.
    StartsWith(Attribute, String),
    /// A text that fits a pattern, or a list with such an item: `%` is any text, `_` any character, a backslash makes the next one plain.
    Like(Attribute, String),
}

/// The order of a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// See the module.
    #[default]
    Newest,
    /// By an attribute, smallest first.
    Ascending(Attribute),
    /// By an attribute, greatest first.
    Descending(Attribute),
}

/// A list has two parts, each in an order of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Open runs, or those that have the attribute of the order.
    First,
    /// Closed runs, or those that do not have it.
    Second,
}

/// The last run of a page; the next page begins after it.
#[derive(Clone, Debug, PartialEq)]
pub struct Cursor {
    /// The part it was in.
    pub phase: Phase,
    /// The value of the attribute of the order (own order, first part).
    pub value: Option<Value>,
    /// Its close time, if it was closed when the first page was read.
    pub closed: Option<i64>,
    /// Its start time.
    pub start_time: i64,
    /// Its key.
    pub key: RunKey,
}

/// A question for a page of runs.
#[derive(Clone, Debug, PartialEq)]
pub struct ListQuery {
    /// Where to look.
    pub namespace: NamespaceKey,
    /// The condition that a run must meet.
    pub filter: Filter,
    /// In which order.
    pub order: Order,
    /// When the first page was read.
    pub as_of: i64,
    /// Where the last page ended.
    pub after: Option<Cursor>,
    /// Most runs wanted.
    pub limit: usize,
}

/// A run that was found.
#[derive(Clone, Debug, PartialEq)]
pub struct ListedRun {
    /// The run.
    pub key: RunKey,
    /// Its stored state, of the same moment as the filter's answer; [`ReadError::Damaged`] if it cannot be read.
    pub state: Result<Bytes, ReadError>,
}

/// A page of runs.
#[derive(Clone, Debug, PartialEq)]
pub struct ListPage {
    /// The runs, in order.
    pub runs: Vec<ListedRun>,
    /// Where to go on, if there may be more.
    pub next: Option<Cursor>,
}

/// How many runs of a group there are.
#[derive(Clone, Debug, PartialEq)]
pub struct Count {
    /// The value all of them have; `None` if they have none, or if nothing was grouped.
    pub group: Option<Value>,
    /// How many.
    pub runs: u64,
}
