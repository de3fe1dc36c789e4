//! Searchable facts of runs, the filters on them, and the order of pages.
//!
//! A [`VisibilityRow`] is written in the commit that changes it, so a list shows every acknowledged change. Lists
//! return stored runs; a row holds only the fields of filters and orders.
//!
//! A filter comes as text ([`parse_list`], [`parse_count`]), becomes a [`Filter`] whose names and values are checked,
//! and is answered by the store. [`Filter::evaluate`] defines its meaning.

mod attribute;
mod evaluate;
mod literal;
mod page;
pub mod parse;
mod query;
mod resolve;
mod row;
mod token;
pub mod words;

pub use attribute::{Attribute, Kind};
pub use page::sort_counts;
pub(crate) use page::{count, page};
pub use parse::BadFilter;
pub use query::{Comparison, Count, Cursor, Filter, ListPage, ListQuery, ListedRun, Order, Phase};
pub use resolve::{Names, parse_count, parse_list};
pub use row::{Closed, Retry, Value, VisibilityRow, key_in_run_id};
