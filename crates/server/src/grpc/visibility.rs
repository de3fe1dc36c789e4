//! Lists and counts of workflow runs.

use std::sync::Arc;

use bytes::Bytes;
use segno_engine::{Run, validate::text};
use segno_node::{FoundRun, FoundRuns, ListCaller, ListPosition, Namespace, Token};
use segno_proto::{
    Nanos,
    common::{Memo, Payload, SearchAttributes, WorkflowExecution, WorkflowType},
    enums::{IndexedValueType, WorkflowExecutionStatus},
    filter::{StartTimeFilter, StatusFilter, WorkflowExecutionFilter, WorkflowTypeFilter},
    nanos_duration, nanos_timestamp, timestamp_nanos,
    workflow::WorkflowExecutionInfo,
    workflowservice::{
        CountWorkflowExecutionsRequest, CountWorkflowExecutionsResponse, ListArchivedWorkflowExecutionsRequest,
        ListArchivedWorkflowExecutionsResponse, ListClosedWorkflowExecutionsRequest,
        ListClosedWorkflowExecutionsResponse, ListOpenWorkflowExecutionsRequest, ListOpenWorkflowExecutionsResponse,
        ListWorkflowExecutionsRequest, ListWorkflowExecutionsResponse, ScanWorkflowExecutionsRequest,
        ScanWorkflowExecutionsResponse, count_workflow_executions_response::AggregationGroup,
    },
};
use segno_store::{
    RunKey,
    visibility::{Attribute, Comparison, Cursor, Filter, Kind, Order, Phase, Value, VisibilityRow},
};
use tonic::{Request, Status};

use super::{Workflows, describe, failed};
use crate::{deadline, peers};

/// Most runs on a page, and the default page size.
pub(super) const PAGE_MAX: usize = 1000;

/// Where a list goes on, as clients carry it.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ListToken {
    #[prost(bool, tag = "1")]
    second_phase: bool,
    #[prost(oneof = "TokenValue", tags = "2, 3, 4, 5")]
    value: Option<TokenValue>,
    #[prost(int64, tag = "6")]
    start_time: i64,
    #[prost(uint64, tag = "7")]
    key: u64,
    #[prost(int64, tag = "8")]
    as_of: i64,
    #[prost(int64, optional, tag = "10")]
    closed: Option<i64>,
    /// A token of one filter is of no use for another.
    #[prost(string, tag = "9")]
    filter: String,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum TokenValue {
    #[prost(int64, tag = "2")]
    Int(i64),
    #[prost(double, tag = "3")]
    Double(f64),
    #[prost(bool, tag = "4")]
    Bool(bool),
    #[prost(string, tag = "5")]
    Text(String),
}

impl Token for ListToken {
    const KIND: u8 = 5;
}

impl ListToken {
    pub(crate) fn seal_position(namespace: &Namespace, filter: &str, next: Option<ListPosition>) -> Bytes {
        let Some(ListPosition { as_of, after }) = next else { return Bytes::new() };
        let value = after.value.and_then(|value| match value {
            Value::Int(number) => Some(TokenValue::Int(number)),
            Value::Double(number) => Some(TokenValue::Double(number)),
            Value::Bool(truth) => Some(TokenValue::Bool(truth)),
            Value::Text(text) => Some(TokenValue::Text(text)),
            Value::List(items) => items.into_iter().next().map(TokenValue::Text),
        });
        let token = Self {
            second_phase: after.phase == Phase::Second,
            value,
            start_time: after.start_time,
            key: after.key.0,
            as_of,
            closed: after.closed,
            filter: filter.to_owned(),
        };
        token.seal(&namespace.token_key)
    }

    pub(crate) fn open_position(
        namespace: &Namespace,
        filter: &str,
        token: &Bytes,
    ) -> Result<Option<ListPosition>, Status> {
        if token.is_empty() {
            return Ok(None);
        }
        let invalid = |text: &str| Status::invalid_argument(text.to_owned());
        let token = Self::open(token, &namespace.token_key).map_err(|_| invalid("Invalid NextPageToken."))?;
        if token.filter != filter {
            return Err(invalid("Invalid NextPageToken: it belongs to a list with another query."));
        }
        let value = token.value.map(|value| match value {
            TokenValue::Int(number) => Value::Int(number),
            TokenValue::Double(number) => Value::Double(number),
            TokenValue::Bool(truth) => Value::Bool(truth),
            TokenValue::Text(text) => Value::Text(text),
        });
        let phase = if token.second_phase { Phase::Second } else { Phase::First };
        let after = Cursor { phase, value, closed: token.closed, start_time: token.start_time, key: RunKey(token.key) };
        Ok(Some(ListPosition { as_of: token.as_of, after }))
    }
}

/// The page a request asks for.
struct Page<'a> {
    caller: ListCaller,
    namespace: Arc<Namespace>,
    size: i32,
    token: &'a Bytes,
}

impl Page<'_> {
    fn limit(&self) -> usize {
        usize::try_from(self.size).ok().filter(|size| *size > 0).map_or(PAGE_MAX, |size| size.min(PAGE_MAX))
    }
}

impl Workflows {
    async fn page(&self, page: Page<'_>, query: &str) -> Result<(Vec<WorkflowExecutionInfo>, Bytes), Status> {
        let position = ListToken::open_position(&page.namespace, query, page.token)?;
        let found =
            self.node.runs.list(page.caller, &page.namespace, query, position, page.limit()).await.map_err(failed)?;
        Ok(answer(&page.namespace, query, found))
    }

    async fn page_matching(
        &self,
        page: Page<'_>,
        filter: Filter,
    ) -> Result<(Vec<WorkflowExecutionInfo>, Bytes), Status> {
        let told = format!("{filter:?}");
        let position = ListToken::open_position(&page.namespace, &told, page.token)?;
        let (caller, limit) = (page.caller, page.limit());
        let found = self.node.runs.list_matching(caller, &page.namespace, filter, Order::Newest, position, limit);
        Ok(answer(&page.namespace, &told, found.await.map_err(failed)?))
    }

    pub(crate) async fn list(
        &self,
        request: Request<ListWorkflowExecutionsRequest>,
    ) -> Result<ListWorkflowExecutionsResponse, Status> {
        let (caller, request) = (caller(&request), request.into_inner());
        let namespace = self.namespace(&request.namespace)?;
        let page = Page { caller, namespace, size: request.page_size, token: &request.next_page_token };
        let (executions, next_page_token) = self.page(page, &request.query).await?;
        Ok(ListWorkflowExecutionsResponse { executions, next_page_token })
    }

    pub(crate) async fn scan(
        &self,
        request: Request<ScanWorkflowExecutionsRequest>,
    ) -> Result<ScanWorkflowExecutionsResponse, Status> {
        let (caller, request) = (caller(&request), request.into_inner());
        let namespace = self.namespace(&request.namespace)?;
        let page = Page { caller, namespace, size: request.page_size, token: &request.next_page_token };
        let (executions, next_page_token) = self.page(page, &request.query).await?;
        Ok(ScanWorkflowExecutionsResponse { executions, next_page_token })
    }

    pub(crate) async fn list_open(
        &self,
        request: Request<ListOpenWorkflowExecutionsRequest>,
    ) -> Result<ListOpenWorkflowExecutionsResponse, Status> {
        use segno_proto::workflowservice::list_open_workflow_executions_request::Filters;
        let (caller, request) = (caller(&request), request.into_inner());
        let namespace = self.namespace(&request.namespace)?;
        let mut parts = vec![is_open()];
        between(&mut parts, Attribute::StartTime, request.start_time_filter);
        match request.filters {
            Some(Filters::ExecutionFilter(filter)) => execution(&mut parts, filter),
            Some(Filters::TypeFilter(filter)) => workflow_type(&mut parts, filter),
            None => {}
        }
        let page = Page { caller, namespace, size: request.maximum_page_size, token: &request.next_page_token };
        let (executions, next_page_token) = self.page_matching(page, Filter::All(parts)).await?;
        Ok(ListOpenWorkflowExecutionsResponse { executions, next_page_token })
    }

    pub(crate) async fn list_closed(
        &self,
        request: Request<ListClosedWorkflowExecutionsRequest>,
    ) -> Result<ListClosedWorkflowExecutionsResponse, Status> {
        use segno_proto::workflowservice::list_closed_workflow_executions_request::Filters;
        let (caller, request) = (caller(&request), request.into_inner());
        let namespace = self.namespace(&request.namespace)?;
        let mut parts = vec![Filter::Not(Box::new(is_open()))];
        between(&mut parts, Attribute::CloseTime, request.start_time_filter);
        match request.filters {
            Some(Filters::ExecutionFilter(filter)) => execution(&mut parts, filter),
            Some(Filters::TypeFilter(filter)) => workflow_type(&mut parts, filter),
            Some(Filters::StatusFilter(filter)) => closed_status(&mut parts, filter)?,
            None => {}
        }
        let page = Page { caller, namespace, size: request.maximum_page_size, token: &request.next_page_token };
        let (executions, next_page_token) = self.page_matching(page, Filter::All(parts)).await?;
        Ok(ListClosedWorkflowExecutionsResponse { executions, next_page_token })
    }

    /// Nothing is ever archived, which is what Temporal says too unless it was told where to.
    pub(crate) fn list_archived(
        &self,
        request: ListArchivedWorkflowExecutionsRequest,
    ) -> Result<ListArchivedWorkflowExecutionsResponse, Status> {
        self.namespace(&request.namespace)?;
        Err(Status::invalid_argument("Cluster is not configured for visibility archival."))
    }

    pub(crate) async fn count(
        &self,
        request: Request<CountWorkflowExecutionsRequest>,
    ) -> Result<CountWorkflowExecutionsResponse, Status> {
        let (caller, request) = (caller(&request), request.into_inner());
        let namespace = self.namespace(&request.namespace)?;
        let (group_by, counts) = self.node.runs.count(caller, &namespace, &request.query).await.map_err(failed)?;
        let total = counts.iter().map(|group| group.runs).sum::<u64>();
        let groups = group_by.map(|attribute| {
            let group = |count: segno_store::visibility::Count| AggregationGroup {
                group_values: vec![payload(attribute, count.group)],
                count: count.runs.cast_signed(),
            };
            counts.into_iter().map(group).collect()
        });
        Ok(CountWorkflowExecutionsResponse { count: total.cast_signed(), groups: groups.unwrap_or_default() })
    }
}

/// Who asks, and until when the answer is of use.
pub(crate) fn caller<T>(request: &Request<T>) -> ListCaller {
    ListCaller { connection: peers::of(request), deadline: Some(deadline::call(request)) }
}

fn answer(namespace: &Namespace, filter: &str, found: FoundRuns) -> (Vec<WorkflowExecutionInfo>, Bytes) {
    let token = ListToken::seal_position(namespace, filter, found.next);
    let info = |run| match run {
        FoundRun::Readable(run) => listed(*run),
        FoundRun::Damaged(facts) => listed_damaged(*facts),
    };
    (found.runs.into_iter().map(info).collect(), token)
}

/// The entry of lists for a run whose state cannot be read: enough to identify the run and to delete it.
fn listed_damaged(facts: VisibilityRow) -> WorkflowExecutionInfo {
    let execution = |(workflow_id, run_id)| WorkflowExecution { workflow_id, run_id };
    WorkflowExecutionInfo {
        execution: Some(WorkflowExecution { workflow_id: facts.workflow_id, run_id: facts.run_id }),
        r#type: Some(WorkflowType { name: facts.workflow_type }),
        start_time: describe::time(facts.start_time),
        close_time: facts.closed.and_then(|closed| describe::time(closed.time)),
        status: facts.status,
        parent_execution: facts.parent.map(execution),
        execution_time: describe::time(facts.execution_time),
        task_queue: facts.task_queue,
        root_execution: facts.root.map(execution),
        ..Default::default()
    }
}

/// The entry of lists for a run: as describing it does, except for fields of closed runs and fields that lists lack. A page has
/// many runs, so they are taken apart instead of copied.
fn listed(run: Run) -> WorkflowExecutionInfo {
    let closed = !run.is_running();
    let (info, state) = run.into_parts();
    let info = Arc::unwrap_or_clone(info);
    let execution_time = info.execution_time();
    let of_closed = |number: i64| if closed { number } else { 0 };
    WorkflowExecutionInfo {
        execution: Some(WorkflowExecution { workflow_id: info.workflow_id, run_id: info.run_id }),
        r#type: Some(WorkflowType { name: info.workflow_type }),
        start_time: describe::time(info.start_time),
        close_time: describe::time(state.close_time),
        status: state.status,
        history_length: of_closed(state.next_event_id - 1),
        parent_execution: info.parent.map(|parent| parent.execution),
        execution_time: describe::time(execution_time),
        memo: Some(Memo { fields: state.memo }),
        search_attributes: Some(SearchAttributes { indexed_fields: state.search_attributes }),
        task_queue: info.task_queue,
        state_transition_count: of_closed(state.transitions),
        history_size_bytes: of_closed(state.history_bytes),
        execution_duration: closed.then(|| nanos_duration(state.close_time - execution_time)),
        root_execution: info.root,
        ..Default::default()
    }
}

/// A paused run is open. (Temporal lists it among the closed ones.)
fn is_open() -> Filter {
    Filter::IsNull(Attribute::CloseTime)
}

fn status_is(status: WorkflowExecutionStatus) -> Filter {
    Filter::Compare(Attribute::ExecutionStatus, Comparison::Equal, Value::Int(status as i64))
}

fn between(parts: &mut Vec<Filter>, attribute: Attribute, filter: Option<StartTimeFilter>) {
    let Some(filter) = filter else { return };
    if let Some(earliest) = filter.earliest_time.as_ref().map(timestamp_nanos).filter(|time| *time != 0) {
        parts.push(Filter::Compare(attribute, Comparison::GreaterOrEqual, Value::Int(earliest)));
    }
    if let Some(latest) = filter.latest_time.as_ref().map(timestamp_nanos).filter(|time| *time != 0) {
        parts.push(Filter::Compare(attribute, Comparison::LessOrEqual, Value::Int(latest)));
    }
}

fn equals(parts: &mut Vec<Filter>, attribute: Attribute, text: String) {
    if !text.is_empty() {
        parts.push(Filter::Compare(attribute, Comparison::Equal, Value::Text(text)));
    }
}

fn execution(parts: &mut Vec<Filter>, filter: WorkflowExecutionFilter) {
    equals(parts, Attribute::WorkflowId, filter.workflow_id);
    equals(parts, Attribute::RunId, filter.run_id);
}

fn workflow_type(parts: &mut Vec<Filter>, filter: WorkflowTypeFilter) {
    equals(parts, Attribute::WorkflowType, filter.name);
}

fn closed_status(parts: &mut Vec<Filter>, filter: StatusFilter) -> Result<(), Status> {
    match filter.status() {
        WorkflowExecutionStatus::Unspecified | WorkflowExecutionStatus::Running | WorkflowExecutionStatus::Paused => {
            Err(Status::invalid_argument("StatusFilter must be specified and must be not Running."))
        }
        status => {
            parts.push(status_is(status));
            Ok(())
        }
    }
}

/// The value of a group as a search attribute's payload.
pub(crate) fn payload(attribute: Attribute, value: Option<Value>) -> Payload {
    let status = |number: i64| {
        let status = i32::try_from(number).ok().and_then(|number| WorkflowExecutionStatus::try_from(number).ok());
        text::execution_status(status.unwrap_or_default())
    };
    let json = match (attribute, value) {
        // As Temporal has it.
        (attribute, None) if attribute.kind() == Kind::Keyword => "".into(),
        (_, None) => serde_json::Value::Null,
        (Attribute::ExecutionStatus, Some(Value::Int(number))) => status(number).into(),
        (_, Some(Value::Text(text))) => text.into(),
        (_, Some(Value::List(items))) => items.into(),
        (_, Some(Value::Double(number))) => number.into(),
        (_, Some(Value::Bool(truth))) => truth.into(),
        (attribute, Some(Value::Int(number))) if attribute.kind() == Kind::Datetime => rfc3339(number).into(),
        (_, Some(Value::Int(number))) => number.into(),
    };
    let kind = match attribute {
        Attribute::ExecutionStatus => IndexedValueType::Keyword,
        other => match other.kind() {
            Kind::Keyword => IndexedValueType::Keyword,
            Kind::KeywordList => IndexedValueType::KeywordList,
            Kind::Text => IndexedValueType::Text,
            Kind::Int => IndexedValueType::Int,
            Kind::Double => IndexedValueType::Double,
            Kind::Bool => IndexedValueType::Bool,
            Kind::Datetime => IndexedValueType::Datetime,
        },
    };
    let metadata = [("encoding", "json/plain".into()), ("type", text::indexed_value_type(kind).into())];
    let metadata = metadata.map(|(key, value)| (key.to_owned(), value));
    Payload { metadata: metadata.into(), data: json.to_string().into(), ..Default::default() }
}

fn rfc3339(nanos: Nanos) -> String {
    nanos_timestamp(nanos).to_string()
}
