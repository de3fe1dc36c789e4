//! The order of lists, and a simple implementation of pages and counts that reads every run.
//!
//! What holds: [`Cursor::compare`] is a total order of runs that is stable while pages are read, as long as only new
//! runs begin and open ones close.

use std::cmp::Ordering;

use super::{Attribute, Count, Cursor, Filter, ListQuery, Order, Phase, Value, VisibilityRow};
use crate::{NamespaceKey, ReadError, ReadLimit};

/// Rows between two looks at the limit of a read.
const CANCEL_CHECK_INTERVAL: usize = 64;

/// The status of a run that is open.
const RUNNING: i64 = 1;

impl Attribute {
    /// Whether a run may be without a value.
    pub fn may_be_absent(self) -> bool {
        !matches!(
            self,
            Self::WorkflowId
                | Self::RunId
                | Self::WorkflowType
                | Self::ExecutionStatus
                | Self::StartTime
                | Self::ExecutionTime
                | Self::TaskQueue
                | Self::RootWorkflowId
                | Self::RootRunId
        )
    }

    /// Whether only closed runs have it.
    pub fn is_set_by_close(self) -> bool {
        matches!(
            self,
            Self::CloseTime
                | Self::ExecutionDuration
                | Self::HistoryLength
                | Self::HistorySizeBytes
                | Self::StateTransitionCount
        )
    }
}

impl Cursor {
    /// Where a run stands in a list that began at `as_of`.
    pub fn of(row: &VisibilityRow, order: Order, as_of: i64) -> Self {
        let closed = row.closed.map(|closed| closed.time).filter(|time| *time <= as_of);
        let closed_since = row.closed.is_some() && closed.is_none();
        let value = order.attribute().and_then(|attribute| match attribute {
            Attribute::ExecutionStatus if closed_since => Some(Value::Int(RUNNING)),
            attribute if attribute.is_set_by_close() && closed_since => None,
            attribute => row.value(attribute),
        });
        let first = if order == Order::Newest { closed.is_none() } else { value.is_some() };
        let phase = if first { Phase::First } else { Phase::Second };
        Self { phase, value, closed, start_time: row.start_time, key: row.key }
    }

    /// Which of two runs comes first.
    pub fn compare(&self, other: &Self, order: Order) -> Ordering {
        // Open runs have not closed yet: later than any close.
        let age = |cursor: &Self| (cursor.closed.unwrap_or(i64::MAX), cursor.start_time, cursor.key);
        let newest_first = || age(other).cmp(&age(self));
        let by_value = || match (&self.value, &other.value) {
            (Some(one), Some(two)) => one.compare(two).unwrap_or(Ordering::Equal),
            _ => Ordering::Equal,
        };
        self.phase.cmp(&other.phase).then_with(|| match (order, self.phase) {
            (Order::Newest, _) | (_, Phase::Second) => newest_first(),
            (Order::Descending(_), Phase::First) => by_value().reverse().then_with(newest_first),
            (Order::Ascending(_), Phase::First) => by_value().then_with(|| newest_first().reverse()),
        })
    }
}

impl Order {
    /// The attribute of a user's order.
    pub fn attribute(self) -> Option<Attribute> {
        match self {
            Self::Newest => None,
            Self::Ascending(attribute) | Self::Descending(attribute) => Some(attribute),
        }
    }
}

/// The runs of a page, in order.
pub(crate) fn page<'a>(
    rows: impl Iterator<Item = &'a VisibilityRow>,
    query: &ListQuery,
    limit: &ReadLimit,
) -> Result<Vec<Cursor>, ReadError> {
    let wanted = wanted(rows, query.namespace, &query.filter, limit)?;
    let mut places: Vec<_> = wanted.iter().map(|row| Cursor::of(row, query.order, query.as_of)).collect();
    if let Some(after) = &query.after {
        places.retain(|place| after.compare(place, query.order).is_lt());
    }
    places.sort_by(|one, two| one.compare(two, query.order));
    places.truncate(query.limit);
    Ok(places)
}

/// The rows that fit a filter.
fn wanted<'a>(
    rows: impl Iterator<Item = &'a VisibilityRow>,
    namespace: NamespaceKey,
    filter: &Filter,
    limit: &ReadLimit,
) -> Result<Vec<&'a VisibilityRow>, ReadError> {
    limit.check()?;
    let mut wanted = Vec::new();
    for (place, row) in rows.enumerate() {
        if place.is_multiple_of(CANCEL_CHECK_INTERVAL) {
            limit.check()?;
        }
        if row.namespace == namespace && filter.evaluate(row) == Some(true) {
            wanted.push(row);
        }
    }
    Ok(wanted)
}

/// How many runs there are in each group.
pub(crate) fn count<'a>(
    rows: impl Iterator<Item = &'a VisibilityRow>,
    namespace: NamespaceKey,
    filter: &Filter,
    group_by: Option<Attribute>,
    limit: &ReadLimit,
) -> Result<Vec<Count>, ReadError> {
    let wanted = wanted(rows, namespace, filter, limit)?;
    let Some(attribute) = group_by else {
        return Ok(vec![Count { group: None, runs: wanted.len() as u64 }]);
    };
    let mut groups: Vec<Count> = Vec::new();
    let mut values: Vec<_> = wanted.into_iter().map(|row| row.value(attribute)).collect();
    values.sort_by(compare_groups);
    for group in values {
        match groups.last_mut() {
            Some(last) if compare_groups(&last.group, &group).is_eq() => last.runs += 1,
            _ => groups.push(Count { group, runs: 1 }),
        }
    }
    Ok(groups)
}

/// Puts groups in the order of their values; the one without a value first.
pub fn sort_counts(groups: &mut [Count]) {
    groups.sort_by(|one, two| compare_groups(&one.group, &two.group));
}

fn compare_groups(one: &Option<Value>, two: &Option<Value>) -> Ordering {
    match (one, two) {
        (Some(one), Some(two)) => one.compare(two).unwrap_or(Ordering::Equal),
        (one, two) => one.is_some().cmp(&two.is_some()),
    }
}
