//! Finding runs: what of a run can be searched, the filters that search it, and how pages follow each other.
//!
//! A [`VisibilityRow`] is written in the commit that changes it, so a list shows what a call just did. Lists give back
//! stored runs; a row holds only what filters and orders look at.
//!
//! A filter comes as text ([`parse_list`], [`parse_count`]), becomes a [`Filter`] whose names and values are checked,
//! and is answered by the store. [`Filter::evaluate`] says what it means.

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
pub use query::{Comparison, Count, Cursor, Filter, ListPage, ListQuery, Listed, Order, Phase};
pub use resolve::{Names, parse_count, parse_list};
pub use row::{Closed, Retry, Value, VisibilityRow, key_in_run_id};
