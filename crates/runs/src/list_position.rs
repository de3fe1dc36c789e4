//! The position at which a list goes on.

use segno_store::visibility::Cursor;

/// Where a list goes on.
#[derive(Clone, Debug, PartialEq)]
pub struct ListPosition {
    /// When the first page was read.
    pub as_of: i64,
    /// The last run of the page before.
    pub after: Cursor,
}
