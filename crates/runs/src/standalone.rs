//! Standalone activities: finding them, and waiting for their changes.

use std::sync::Arc;

use segno_engine::{Rejection, schedule::DIVISION_ATTRIBUTE, standalone};
use segno_store::{
    RunKey,
    visibility::{Attribute, BadFilter, Comparison, Count, Filter, Names, Value, parse_count, parse_list},
};
use tokio::time::Instant;

use crate::{
    error::CallError,
    list_limits::ListCaller,
    list_position::ListPosition,
    namespaces::Namespace,
    runs::Runs,
    schedules::{RUN_NAME, with_workflow_ids},
    slots::WorkflowKey,
    visibility::FoundRuns,
};

/// The names that filters of standalone activities know.
struct OfActivities<'a>(&'a Namespace);

impl Names for OfActivities<'_> {
    fn find(&self, name: &str) -> Option<Attribute> {
        match name {
            "ActivityId" => Some(RUN_NAME),
            "ActivityType" => Some(Attribute::WorkflowType),
            other => self.0.find(other),
        }
    }

    fn known(&self) -> Vec<String> {
        self.0.known()
    }
}

impl Runs {
    /// A page of the standalone activities that fit a filter.
    pub async fn list_activities(
        &self,
        caller: ListCaller,
        namespace: &Arc<Namespace>,
        filter: &str,
        position: Option<ListPosition>,
        limit: usize,
    ) -> Result<FoundRuns, CallError> {
        let (filter, order) = parse_list(filter, &OfActivities(namespace)).map_err(unreadable)?;
        let filter = of_activities(namespace, filter);
        self.list_matching(caller, namespace, filter, order, position, limit).await
    }

    /// How many standalone activities fit a filter, by their status if it asks for groups.
    pub async fn count_activities(
        &self,
        caller: ListCaller,
        namespace: &Arc<Namespace>,
        filter: &str,
    ) -> Result<(Option<Attribute>, Vec<Count>), CallError> {
        let (filter, by) = parse_count(filter, &OfActivities(namespace)).map_err(unreadable)?;
        if by.is_some_and(|by| by != Attribute::ExecutionStatus) {
            let text = "invalid query: GROUP BY works only for ExecutionStatus in counts of activities".to_owned();
            return Err(Rejection::InvalidArgument(text).into());
        }
        let filter = of_activities(namespace, filter);
        Ok((by, self.count_matching(caller, namespace.key, filter, by).await?))
    }

    /// Waits until a run has made more durable transitions than these, or is closed. False if time is up first.
    pub async fn wait_for_change(
        &self,
        key: &WorkflowKey,
        run_key: RunKey,
        transitions: i64,
        deadline: Instant,
    ) -> bool {
        let slot = self.slots.get(key);
        let mut progress = slot.progress.subscribe();
        let news = progress.wait_for(|progress| {
            progress.run_key != run_key.0 || progress.closed || progress.transitions > transitions
        });
        tokio::select! {
            biased;
            found = tokio::time::timeout_at(deadline, news) => found.is_ok(),
            () = self.lifecycle.stop.notified() => false,
        }
    }
}

fn unreadable(bad: BadFilter) -> CallError {
    Rejection::InvalidArgument(format!("invalid query: {bad}")).into()
}

/// A filter that finds standalone activities only.
fn of_activities(namespace: &Namespace, filter: Filter) -> Filter {
    let mut parts = Vec::new();
    if let Some(division) = namespace.attribute(DIVISION_ATTRIBUTE) {
        parts.push(Filter::Compare(division, Comparison::Equal, Value::Text(standalone::DIVISION.to_owned())));
    }
    parts.push(with_workflow_ids(filter, standalone::WORKFLOW_ID_PREFIX));
    Filter::All(parts)
}
