//! Finding runs: what of a run can be searched, the filters that search it, and how pages follow each other.
//!
//! A [`VisibilityRow`] is written in the commit that changes it, so a list shows what a call just did. Lists give back
//! stored runs; a row holds only what filters and orders look at.

mod attribute;
mod query;
mod row;

pub use attribute::{Attribute, Kind};
pub use query::{Comparison, Count, Cursor, Filter, ListPage, ListQuery, Listed, Order, Phase};
pub use row::{Closed, Retry, Value, VisibilityRow};
