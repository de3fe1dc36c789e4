//! Searchable facts of runs, and the answers to lists and counts.

use std::sync::Arc;

use bytes::Bytes;
use segno_engine::{
    Run,
    search_attributes::{PREDEFINED, json, rfc3339_nanos},
    standalone::listed_status,
};
use segno_proto::{common::Payload, enums::IndexedValueType};
use segno_store::{
    NamespaceKey, RunKey, StateFacts,
    visibility::{
        Attribute, Closed, Count, Filter, Kind, ListQuery, ListedRun, Names, Order, Retry, Value, VisibilityRow,
        parse_count, parse_list,
    },
};

use crate::{
    error::CallError,
    list_limits::ListCaller,
    list_position::ListPosition,
    namespaces::{Namespace, Namespaces},
    operation_facts::{facts_of_operations, operation_retry, retry_attribute},
    runs::Runs,
};

/// The kind of values a type of the wire has.
pub fn kind_of(kind: IndexedValueType) -> Kind {
    match kind {
        IndexedValueType::Text => Kind::Text,
        IndexedValueType::Int => Kind::Int,
        IndexedValueType::Double => Kind::Double,
        IndexedValueType::Bool => Kind::Bool,
        IndexedValueType::Datetime => Kind::Datetime,
        IndexedValueType::KeywordList => Kind::KeywordList,
        IndexedValueType::Keyword | IndexedValueType::Unspecified => Kind::Keyword,
    }
}

impl Namespace {
    /// A custom or predefined attribute by its name. Predefined ones are numbered by their place in the table.
    pub fn attribute(&self, name: &str) -> Option<Attribute> {
        if let Some(custom) = self.attributes.get(name) {
            return Some(Attribute::Numbered(custom.number, kind_of(custom.kind())));
        }
        let predefined = PREDEFINED.iter().enumerate().find(|(_, known)| known.0 == name);
        let numbered = predefined.map(|(place, known)| Attribute::Numbered(place as u32 + 1, kind_of(known.1)));
        numbered.or_else(|| retry_attribute(name))
    }
}

impl Names for Namespace {
    fn find(&self, name: &str) -> Option<Attribute> {
        self.attribute(name)
    }
}

impl Runs {
    /// The searchable facts of a run if they are not what they were before.
    pub(crate) fn facts_changed(&self, before: Option<&Run>, run: &Run) -> Option<Box<VisibilityRow>> {
        let same = before.is_some_and(|before| {
            listed_status(before) == listed_status(run)
                && before.state().search_attributes == run.state().search_attributes
                && activity_retry(before) == activity_retry(run)
                && task_retry(before) == task_retry(run)
                && operation_retry(before) == operation_retry(run)
        });
        (!same).then(|| Box::new(self.facts(run)))
    }

    /// The searchable facts of a run.
    pub fn facts(&self, run: &Run) -> VisibilityRow {
        facts_of(&self.namespaces, run)
    }
}

/// The facts that a stored state has of its run, for checks of all that is stored.
pub fn state_facts(state: Bytes) -> Result<StateFacts, String> {
    let run = Run::decode(state).map_err(|error| error.to_string())?;
    Ok(StateFacts {
        namespace: NamespaceKey(run.info.namespace_key),
        workflow_id: run.info.workflow_id.clone(),
        run_id: run.info.run_id.clone(),
        status: listed_status(&run) as i32,
        is_running: run.is_running(),
        last_event_id: run.next_stored_event_id() - 1,
    })
}

/// The searchable facts of a run.
pub fn facts_of(namespaces: &Namespaces, run: &Run) -> VisibilityRow {
    let (info, state) = (&run.info, run.state());
    let pair =
        |execution: &segno_proto::common::WorkflowExecution| (execution.workflow_id.clone(), execution.run_id.clone());
    VisibilityRow {
        key: RunKey(info.run_key),
        namespace: NamespaceKey(info.namespace_key),
        workflow_id: info.workflow_id.clone(),
        run_id: info.run_id.clone(),
        workflow_type: info.workflow_type.clone(),
        task_queue: info.task_queue.clone(),
        status: listed_status(run) as i32,
        start_time: info.start_time,
        execution_time: info.execution_time(),
        closed: (!run.is_running()).then(|| Closed {
            time: state.close_time,
            history_length: state.next_event_id - 1,
            history_bytes: state.history_bytes,
            transitions: state.transitions,
        }),
        parent: info.parent.as_ref().map(|parent| pair(&parent.execution)),
        root: info.root.as_ref().filter(|root| root.run_id != info.run_id).map(pair),
        activity_retry: activity_retry(run)
            .map(|(attempt, failure)| Retry { attempt, failure: failure.map(str::to_owned) }),
        task_retry: task_retry(run).map(|(attempt, failure)| Retry { attempt, failure: Some(failure.to_owned()) }),
        attributes: numbered(namespaces, run).into_iter().chain(facts_of_operations(run)).collect(),
    }
}

fn numbered(namespaces: &Namespaces, run: &Run) -> std::collections::BTreeMap<u32, Value> {
    if run.state().search_attributes.is_empty() {
        return Default::default();
    }
    let Some(namespace) = namespaces.by_key(NamespaceKey(run.info.namespace_key)) else {
        return Default::default();
    };
    let numbered = |(name, payload): (&String, &Payload)| match namespace.attribute(name)? {
        Attribute::Numbered(number, kind) => Some((number, value(payload, kind)?)),
        _ => None,
    };
    run.state().search_attributes.iter().filter_map(numbered).collect()
}

/// Highest attempt among activities that are being retried, with its last failure.
fn activity_retry(run: &Run) -> Option<(i32, Option<&str>)> {
    if !run.is_running() {
        return None;
    }
    let retried = run.state().activities.values().filter(|activity| activity.attempt > 1);
    let worst = retried.max_by_key(|activity| activity.attempt)?;
    Some((worst.attempt, worst.last_failure.as_ref().map(|failure| failure.message.as_str())))
}

/// The attempt of the workflow task after failures, with the last of them.
fn task_retry(run: &Run) -> Option<(i32, &str)> {
    let failed = run.is_running() && run.state().failures_since_success > 0;
    failed.then(|| (run.state().failures_since_success + 1, run.state().last_task_failure.as_str()))
}

/// A payload as a value of a kind; `None` if it is of another kind.
fn value(payload: &Payload, kind: Kind) -> Option<Value> {
    use serde_json::Value as Json;
    let mut json = json(payload)?;
    // Any type may come as a list; of a single value the first counts.
    if kind != Kind::KeywordList
        && let Json::Array(items) = json
    {
        json = items.into_iter().next()?;
    }
    match (kind, json) {
        (Kind::Keyword | Kind::Text, Json::String(text)) => Some(Value::Text(text)),
        (Kind::KeywordList, Json::Array(items)) => {
            let text = |item: Json| match item {
                Json::String(text) => Some(text),
                _ => None,
            };
            Some(Value::List(items.into_iter().filter_map(text).collect()))
        }
        (Kind::KeywordList, Json::String(text)) => Some(Value::List(vec![text])),
        (Kind::Int, Json::Number(number)) => number.as_i64().map(Value::Int),
        (Kind::Double, Json::Number(number)) => number.as_f64().map(Value::Double),
        (Kind::Bool, Json::Bool(truth)) => Some(Value::Bool(truth)),
        (Kind::Datetime, Json::String(text)) => rfc3339_nanos(&text).map(Value::Int),
        _ => None,
    }
}

/// A run on a page.
#[derive(Clone, Debug)]
pub enum FoundRun {
    /// As it is stored.
    Readable(Box<Run>),
    /// Its stored state cannot be read; its searchable facts, which are stored apart, tell what it is.
    Damaged(Box<VisibilityRow>),
}

/// A page of runs.
#[derive(Clone, Debug)]
pub struct FoundRuns {
    /// The runs, in order.
    pub runs: Vec<FoundRun>,
    /// Where to go on, if there may be more.
    pub next: Option<ListPosition>,
}

/// The attribute by which the server's own helpers differ from users' workflows.
const DIVISION: &str = "TemporalNamespaceDivision";

impl Runs {
    /// A page of the runs that fit a filter.
    pub async fn list(
        &self,
        caller: ListCaller,
        namespace: &Arc<Namespace>,
        filter: &str,
        position: Option<ListPosition>,
        limit: usize,
    ) -> Result<FoundRuns, CallError> {
        let (filter, order) = parse_list(filter, &**namespace).map_err(refused)?;
        self.list_matching(caller, namespace, filter, order, position, limit).await
    }

    /// A page of the runs that fit a filter that is already understood.
    pub async fn list_matching(
        &self,
        caller: ListCaller,
        namespace: &Arc<Namespace>,
        filter: Filter,
        order: Order,
        position: Option<ListPosition>,
        limit: usize,
    ) -> Result<FoundRuns, CallError> {
        let (as_of, after) = match position {
            Some(position) => (position.as_of, Some(position.after)),
            None => (self.now(), None),
        };
        let filter = undivided(namespace, filter);
        let query = ListQuery { namespace: namespace.key, filter, order, as_of, after, limit };
        let store = self.store.clone();
        let page = self.list_limits.run(caller, move |limit| store.list_within(&query, limit)).await?;
        let mut runs = Vec::with_capacity(page.runs.len());
        for ListedRun { key, state } in page.runs {
            let run = state.map_err(|error| error.to_string());
            match run.and_then(|state| Run::decode(state).map_err(|error| error.to_string())) {
                Ok(run) => runs.push(FoundRun::Readable(Box::new(run))),
                Err(error) => {
                    tracing::error!(run = key.0, error, "a listed run is damaged; it can be deleted");
                    // If its facts are damaged as well, or instead, it is unknown whether it belongs here.
                    let facts = self.store.facts(key).await?;
                    runs.extend(facts.map(|facts| FoundRun::Damaged(Box::new(facts))));
                }
            }
        }
        Ok(FoundRuns { runs, next: page.next.map(|after| ListPosition { as_of, after }) })
    }

    /// How many runs fit a filter, by groups if it asks for them; the attribute of the groups is given back.
    pub async fn count(
        &self,
        caller: ListCaller,
        namespace: &Arc<Namespace>,
        filter: &str,
    ) -> Result<(Option<Attribute>, Vec<Count>), CallError> {
        let (filter, group_by) = parse_count(filter, &**namespace).map_err(refused)?;
        let by_division = group_by.is_some() && group_by == namespace.attribute(DIVISION);
        let filter = if by_division { filter } else { undivided(namespace, filter) };
        let counts = self.count_matching(caller, namespace.key, filter, group_by).await?;
        Ok((group_by, counts))
    }

    /// How many runs fit a filter that is already understood.
    pub(crate) async fn count_matching(
        &self,
        caller: ListCaller,
        key: NamespaceKey,
        filter: Filter,
        group_by: Option<Attribute>,
    ) -> Result<Vec<Count>, CallError> {
        let store = self.store.clone();
        self.list_limits.run(caller, move |limit| store.count_within(key, &filter, group_by, limit)).await
    }
}

/// Unless a query speaks of divisions, only what belongs to none is meant.
fn undivided(namespace: &Namespace, filter: Filter) -> Filter {
    match namespace.attribute(DIVISION) {
        Some(division) if !filter.mentions(division) => match filter {
            Filter::All(mut parts) => {
                parts.push(Filter::IsNull(division));
                Filter::All(parts)
            }
            other => Filter::All(vec![other, Filter::IsNull(division)]),
        },
        _ => filter,
    }
}

fn refused(bad: segno_store::visibility::BadFilter) -> CallError {
    segno_engine::Rejection::InvalidArgument(format!("invalid query: {bad}")).into()
}

#[cfg(test)]
mod tests {
    use segno_engine::{run_id, run_key_of};
    use segno_store::visibility::key_in_run_id;

    /// The store reads keys out of run ids by itself, since it does not know the engine that makes them.
    #[test]
    fn engine_and_store_find_the_same_key_in_a_run_id() {
        for key in [1, 0xffff, 0x1_0000, 0x7ff_ffff_ffff] {
            let id = run_id(key, 0x1234_5678_9abc_def0);
            assert_eq!(key_in_run_id(&id).map(|found| found.0), run_key_of(&id));
        }
    }
}
