//! Lists and counts of schedules.

use std::sync::Arc;

use segno_engine::{Rejection, schedule, search_attributes::PREDEFINED};
use segno_proto::enums::WorkflowExecutionStatus;
use segno_store::visibility::{
    Attribute, BadFilter, Comparison, Count, Filter, Kind, Names, Order, Value, parse_count, parse_list,
};

use crate::{
    error::CallError, list_limits::ListCaller, list_position::ListPosition, namespaces::Namespace, runs::Runs,
    visibility::FoundRuns,
};

/// Stands for the id of a schedule or a standalone activity while a filter is read: a number that no attribute has.
pub(crate) const RUN_NAME: Attribute = Attribute::Numbered(u32::MAX, Kind::Keyword);

/// `ScheduleNextActionTime`. Filters know it as in Temporal, where schedules that are workflows have no value for it: a number
/// that no attribute has.
const NEXT_ACTION_TIME: Attribute = Attribute::Numbered(u32::MAX - 1, Kind::Datetime);

/// The names that filters of schedules know.
struct OfSchedules<'a>(&'a Namespace);

impl Names for OfSchedules<'_> {
    fn find(&self, name: &str) -> Option<Attribute> {
        let own = || match name {
            "ScheduleId" => Some(RUN_NAME),
            "ScheduleNextActionTime" => Some(NEXT_ACTION_TIME),
            _ => None,
        };
        self.0.find(name).or_else(own)
    }

    fn known(&self) -> Vec<String> {
        self.0.known()
    }
}

impl Runs {
    /// A page of the open schedules that fit a filter.
    pub async fn list_schedules(
        &self,
        caller: ListCaller,
        namespace: &Arc<Namespace>,
        filter: &str,
        position: Option<ListPosition>,
        limit: usize,
    ) -> Result<FoundRuns, CallError> {
        let (filter, order) = parse_list(filter, &OfSchedules(namespace)).map_err(unreadable)?;
        let by = match order {
            Order::Ascending(by) | Order::Descending(by) => Some(by),
            Order::Newest => None,
        };
        let filter = of_schedules(namespace, filter, by)?;
        self.list_matching(caller, namespace, filter, order, position, limit).await
    }

    /// How many open schedules fit a filter.
    pub async fn count_schedules(
        &self,
        caller: ListCaller,
        namespace: &Arc<Namespace>,
        filter: &str,
    ) -> Result<Vec<Count>, CallError> {
        let (filter, by) = parse_count(filter, &OfSchedules(namespace)).map_err(unreadable)?;
        let filter = of_schedules(namespace, filter, by)?;
        if by.is_some() {
            return Err(refused("invalid query: GROUP BY is not supported for schedules".to_owned()));
        }
        self.count_matching(caller, namespace.key, filter, None).await
    }
}

fn unreadable(bad: BadFilter) -> CallError {
    refused(format!("invalid query: {bad}"))
}

fn refused(text: String) -> CallError {
    Rejection::InvalidArgument(text).into()
}

/// A filter that finds open schedules only. It may be about the id, about being paused, and about what users define.
fn of_schedules(namespace: &Namespace, filter: Filter, order: Option<Attribute>) -> Result<Filter, CallError> {
    let mut attributes = Vec::from_iter(order);
    mentioned(&filter, &mut attributes);
    let reserved = attributes.into_iter().find_map(reserved_name);
    if let Some(name) = reserved.filter(|name| name != schedule::PAUSED_ATTRIBUTE) {
        return Err(refused(format!("invalid query filter for schedules: cannot filter on {name:?}")));
    }
    let running = Value::Int(WorkflowExecutionStatus::Running as i64);
    let mut parts = vec![Filter::Compare(Attribute::ExecutionStatus, Comparison::Equal, running)];
    if let Some(division) = namespace.attribute(schedule::DIVISION_ATTRIBUTE) {
        parts.push(Filter::Compare(division, Comparison::Equal, Value::Text(schedule::DIVISION.to_owned())));
    }
    parts.push(with_workflow_ids(filter, schedule::WORKFLOW_ID_PREFIX));
    Ok(Filter::All(parts))
}

/// The attributes of a filter, in its order.
fn mentioned(filter: &Filter, found: &mut Vec<Attribute>) {
    match filter {
        Filter::All(parts) | Filter::Any(parts) => parts.iter().for_each(|part| mentioned(part, found)),
        Filter::Not(part) => mentioned(part, found),
        Filter::Compare(attribute, ..)
        | Filter::In(attribute, _)
        | Filter::Between(attribute, ..)
        | Filter::IsNull(attribute)
        | Filter::StartsWith(attribute, _)
        | Filter::Like(attribute, _) => found.push(*attribute),
    }
}

/// The name of an attribute that is not the user's.
fn reserved_name(attribute: Attribute) -> Option<String> {
    match attribute {
        RUN_NAME => None,
        Attribute::Numbered(number, _) => {
            let known = PREDEFINED.get((number as usize).checked_sub(1)?)?;
            Some(known.0.to_owned())
        }
        // Variants are named like the attributes.
        system => Some(format!("{system:?}")),
    }
}

/// Writes workflow ids where a filter has ids of what such a run is.
pub(crate) fn with_workflow_ids(filter: Filter, prefix: &str) -> Filter {
    let id = |text: String| format!("{prefix}{text}");
    let value = |value: Value| match value {
        Value::Text(text) => Value::Text(id(text)),
        other => other,
    };
    let all = |parts: Vec<Filter>| parts.into_iter().map(|part| with_workflow_ids(part, prefix)).collect();
    match filter {
        Filter::All(parts) => Filter::All(all(parts)),
        Filter::Any(parts) => Filter::Any(all(parts)),
        Filter::Not(part) => Filter::Not(Box::new(with_workflow_ids(*part, prefix))),
        Filter::Compare(RUN_NAME, how, with) => Filter::Compare(Attribute::WorkflowId, how, value(with)),
        Filter::In(RUN_NAME, values) => Filter::In(Attribute::WorkflowId, values.into_iter().map(value).collect()),
        Filter::Between(RUN_NAME, from, to) => Filter::Between(Attribute::WorkflowId, value(from), value(to)),
        Filter::IsNull(RUN_NAME) => Filter::IsNull(Attribute::WorkflowId),
        Filter::StartsWith(RUN_NAME, text) => Filter::StartsWith(Attribute::WorkflowId, id(text)),
        Filter::Like(RUN_NAME, pattern) => Filter::Like(Attribute::WorkflowId, id(pattern)),
        other => other,
    }
}
