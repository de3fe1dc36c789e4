//! Standalone activities and Nexus operations: finding them, and waiting for their changes.

use std::sync::Arc;

use segno_engine::{Rejection, schedule::DIVISION_ATTRIBUTE, standalone, standalone_nexus};
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
    operation_facts,
    runs::Runs,
    schedules::{RUN_NAME, with_workflow_ids},
    slots::WorkflowKey,
    visibility::FoundRuns,
};

/// A kind of run that is no workflow, and that clients list for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standalone {
    /// An activity.
    Activity,
    /// A Nexus operation.
    Operation,
}

impl Standalone {
    fn division(self) -> &'static str {
        match self {
            Self::Activity => standalone::DIVISION,
            Self::Operation => standalone_nexus::DIVISION,
        }
    }

    fn workflow_id_prefix(self) -> &'static str {
        match self {
            Self::Activity => standalone::WORKFLOW_ID_PREFIX,
            Self::Operation => standalone_nexus::WORKFLOW_ID_PREFIX,
        }
    }

    fn plural(self) -> &'static str {
        match self {
            Self::Activity => "activities",
            Self::Operation => "Nexus operations",
        }
    }

    /// The names that only filters of this kind know.
    fn attribute(self, name: &str) -> Option<Attribute> {
        match (self, name) {
            (Self::Activity, "ActivityId") | (Self::Operation, "OperationId") => Some(RUN_NAME),
            (Self::Activity, "ActivityType") => Some(Attribute::WorkflowType),
            (Self::Operation, _) => operation_facts::standalone_attribute(name),
            (Self::Activity, _) => None,
        }
    }
}

/// The names that filters of a kind know.
struct NamesOf<'a>(Standalone, &'a Namespace);

impl Names for NamesOf<'_> {
    fn find(&self, name: &str) -> Option<Attribute> {
        self.0.attribute(name).or_else(|| self.1.find(name))
    }

    fn known(&self) -> Vec<String> {
        self.1.known()
    }
}

impl Runs {
    /// A page of the standalone activities or operations that fit a filter.
    pub async fn list_standalone(
        &self,
        kind: Standalone,
        caller: ListCaller,
        namespace: &Arc<Namespace>,
        filter: &str,
        position: Option<ListPosition>,
        limit: usize,
    ) -> Result<FoundRuns, CallError> {
        let (filter, order) = parse_list(filter, &NamesOf(kind, namespace)).map_err(unreadable)?;
        let filter = only(kind, namespace, filter);
        self.list_matching(caller, namespace, filter, order, position, limit).await
    }

    /// How many standalone activities or operations fit a filter, by their status if it asks for groups.
    pub async fn count_standalone(
        &self,
        kind: Standalone,
        caller: ListCaller,
        namespace: &Arc<Namespace>,
        filter: &str,
    ) -> Result<(Option<Attribute>, Vec<Count>), CallError> {
        let (filter, by) = parse_count(filter, &NamesOf(kind, namespace)).map_err(unreadable)?;
        if by.is_some_and(|by| by != Attribute::ExecutionStatus) {
            let plural = kind.plural();
            let text = format!("invalid query: GROUP BY works only for ExecutionStatus in counts of {plural}");
            return Err(Rejection::InvalidArgument(text).into());
        }
        let filter = only(kind, namespace, filter);
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

/// A filter that finds one kind only.
fn only(kind: Standalone, namespace: &Namespace, filter: Filter) -> Filter {
    let mut parts = Vec::new();
    if let Some(division) = namespace.attribute(DIVISION_ATTRIBUTE) {
        parts.push(Filter::Compare(division, Comparison::Equal, Value::Text(kind.division().to_owned())));
    }
    parts.push(with_workflow_ids(filter, kind.workflow_id_prefix()));
    Filter::All(parts)
}
