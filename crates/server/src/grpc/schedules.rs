//! Schedules: create, describe, update, patch, list, count, delete, matching times.
//!
//! A schedule is a run (see `segno_engine::schedule`), and calls about it fail like calls about a workflow do.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use bytes::Bytes;
use segno_engine::{
    Rejection, Run,
    schedule::{
        self, DIVISION_ATTRIBUTE, PAUSED_ATTRIBUTE, WORKFLOW_ID_PREFIX,
        calls::{self, NewSchedule, Update},
        state::ScheduleRun,
    },
    search_attributes::Rules,
    start::StartOptions,
    terminate::{self, Terminate},
};
use segno_node::{CallError, FoundRun, Namespace, RunSelector, WorkflowKey};
use segno_proto::{
    common::{Memo, Payload, Priority, SearchAttributes, WorkflowExecution, WorkflowType},
    enums::{WorkflowIdConflictPolicy, WorkflowIdReusePolicy},
    errordetails::WorkflowExecutionAlreadyStartedFailure,
    failure::{ApplicationFailureInfo, Failure, failure::FailureInfo},
    schedule::ScheduleListEntry,
    taskqueue::TaskQueue,
    timestamp_nanos,
    workflowservice::{
        CountSchedulesRequest, CountSchedulesResponse, CreateScheduleRequest, CreateScheduleResponse,
        DeleteScheduleRequest, DeleteScheduleResponse, DescribeScheduleRequest, DescribeScheduleResponse,
        ListScheduleMatchingTimesRequest, ListScheduleMatchingTimesResponse, ListSchedulesRequest,
        ListSchedulesResponse, PatchScheduleRequest, PatchScheduleResponse, UpdateScheduleRequest,
        UpdateScheduleResponse,
    },
};
use tokio::time::Instant;
use tonic::{Code, Request, Status};

use super::{
    Workflows, failed, refused,
    visibility::{ListToken, PAGE_MAX, caller},
};
use crate::{status, validate};

/// The token of a schedule that was just created.
const FIRST_TOKEN: i64 = 1;
/// How long a description waits for actions that are being taken.
const ACTIONS_WAIT_MAX: Duration = Duration::from_secs(1);

impl Workflows {
    pub(crate) async fn create_schedule(
        &self,
        mut request: CreateScheduleRequest,
    ) -> Result<CreateScheduleResponse, Status> {
        let namespace = self.open_namespace(&request.namespace)?;
        let rules = Rules { namespace: &namespace.name, custom: &namespace.search_attributes };
        validate::schedule::create(&mut request, &rules, self.sizes()).map_err(refused)?;
        let id = request.schedule_id.clone();
        let new = NewSchedule {
            schedule_id: request.schedule_id.clone(),
            schedule: request.schedule.unwrap_or_default(),
            patch: request.initial_patch,
        };
        let options = StartOptions {
            namespace: namespace.name.clone(),
            workflow_id: format!("{WORKFLOW_ID_PREFIX}{id}"),
            workflow_type: Some(WorkflowType { name: schedule::WORKFLOW_TYPE.to_owned() }),
            task_queue: Some(TaskQueue { name: schedule::QUEUE.to_owned(), ..Default::default() }),
            identity: request.identity,
            request_id: request.request_id,
            reuse_policy: WorkflowIdReusePolicy::AllowDuplicate,
            conflict_policy: WorkflowIdConflictPolicy::Fail,
            memo: request.memo,
            search_attributes: request.search_attributes,
            priority: Some(Priority::default()),
            schedule: Some(Box::new(new)),
            ..Default::default()
        };
        let start = namespace.start(options);
        match self.node.runs.start_workflow(start).await {
            Ok(_) => Ok(CreateScheduleResponse { conflict_token: token(FIRST_TOKEN) }),
            Err(CallError::Rejected(Rejection::AlreadyStarted { .. })) => Err(exists(&id)),
            Err(error) => Err(failed(error)),
        }
    }

    pub(crate) async fn describe_schedule(
        &self,
        request: DescribeScheduleRequest,
    ) -> Result<DescribeScheduleResponse, Status> {
        let namespace = self.namespace(&request.namespace)?;
        let key = schedule_key(&namespace, &request.schedule_id)?;
        let run = self.settled(&key).await?;
        let Some(state) = calls::open_schedule(run.state()) else {
            return Err(status::not_found("schedule not found"));
        };
        let mut described = schedule::describe(&run, state, self.node.runs.clock_now());
        let mut running = Vec::new();
        for workflow in std::mem::take(&mut described.info.running_workflows) {
            if self.still_runs(&namespace, &workflow).await? {
                running.push(workflow);
            }
        }
        described.info.running_workflows = running;
        let memo = Memo { fields: run.state().memo.clone() };
        Ok(DescribeScheduleResponse {
            schedule: Some(described.schedule),
            info: Some(described.info),
            memo: Some(memo).filter(|memo| !memo.fields.is_empty()),
            search_attributes: of_user(&run.state().search_attributes),
            conflict_token: token(described.conflict_token),
        })
    }

    /// A schedule without actions that are being taken: a client that triggers an action and then describes finds it, as in Temporal.
    async fn settled(&self, key: &WorkflowKey) -> Result<Arc<Run>, Status> {
        let deadline = Instant::now() + ACTIONS_WAIT_MAX;
        loop {
            let current = self.node.runs.snapshot(key, "").await.map_err(failed)?;
            let state = current.run.state();
            let is_acting = calls::open_schedule(state).is_some_and(|state| !state.starting.is_empty());
            if !is_acting || !self.node.runs.wait_for_change(key, current.key(), state.transitions, deadline).await {
                return Ok(current.run.clone());
            }
        }
    }

    /// Whether the chain of runs goes on that began with this one.
    async fn still_runs(&self, namespace: &Arc<Namespace>, workflow: &WorkflowExecution) -> Result<bool, Status> {
        let key = WorkflowKey::new(namespace.key, &workflow.workflow_id);
        match self.node.runs.snapshot(&key, "").await {
            Ok(current) => Ok(current.run.is_running() && current.run.info.first_run_id == workflow.run_id),
            Err(CallError::WorkflowNotFound { .. } | CallError::RunNotFound { .. }) => Ok(false),
            Err(error) => Err(failed(error)),
        }
    }

    pub(crate) async fn update_schedule(
        &self,
        mut request: UpdateScheduleRequest,
    ) -> Result<UpdateScheduleResponse, Status> {
        let namespace = self.namespace(&request.namespace)?;
        let rules = Rules { namespace: &namespace.name, custom: &namespace.search_attributes };
        validate::schedule::update(&mut request, &rules, self.sizes()).map_err(refused)?;
        if request.memo.is_some() {
            let text = "memo updates are not supported on workflow-backed schedules";
            return Err(Status::failed_precondition(text));
        }
        let key = schedule_key(&namespace, &request.schedule_id)?;
        let expected = request.conflict_token.first_chunk::<8>().map_or(0, |bytes| i64::from_be_bytes(*bytes));
        let call = Update {
            schedule: request.schedule.unwrap_or_default(),
            search_attributes: request.search_attributes,
            conflict_token: expected,
            request_id: request.request_id,
        };
        let apply = move |run: &Run, context| calls::update(run, context, call);
        self.node.runs.transact(&key, &RunSelector::default(), apply).await.map_err(failed)?;
        Ok(UpdateScheduleResponse::default())
    }

    pub(crate) async fn patch_schedule(&self, request: PatchScheduleRequest) -> Result<PatchScheduleResponse, Status> {
        let namespace = self.namespace(&request.namespace)?;
        validate::schedule::patch(&request, self.sizes()).map_err(refused)?;
        let key = schedule_key(&namespace, &request.schedule_id)?;
        let (patch, request_id) = (request.patch.unwrap_or_default(), request.request_id);
        let apply = move |run: &Run, context| calls::patch(run, context, patch, &request_id);
        self.node.runs.transact(&key, &RunSelector::default(), apply).await.map_err(failed)?;
        Ok(PatchScheduleResponse::default())
    }

    pub(crate) async fn delete_schedule(
        &self,
        request: DeleteScheduleRequest,
    ) -> Result<DeleteScheduleResponse, Status> {
        let namespace = self.namespace(&request.namespace)?;
        let key = schedule_key(&namespace, &request.schedule_id)?;
        let call = Terminate {
            reason: "terminated by DeleteSchedule".to_owned(),
            identity: request.identity,
            ..Default::default()
        };
        let apply = move |run: &Run, context| terminate::terminate(run, context, call);
        self.node.runs.terminate_run(&key, &RunSelector::default(), "", apply).await.map_err(failed)?;
        Ok(DeleteScheduleResponse::default())
    }

    /// Also answered for a schedule that was deleted, as in Temporal.
    pub(crate) async fn matching_times(
        &self,
        request: ListScheduleMatchingTimesRequest,
    ) -> Result<ListScheduleMatchingTimesResponse, Status> {
        let namespace = self.namespace(&request.namespace)?;
        let key = schedule_key(&namespace, &request.schedule_id)?;
        let run = self.node.runs.snapshot(&key, "").await.map_err(failed)?.run.clone();
        let Some(state) = &run.state().schedule else { return Err(status::not_found("schedule not found")) };
        let (Some(start), Some(end)) = (&request.start_time, &request.end_time) else {
            return Err(failed(query_failed("missing or invalid query")));
        };
        let times = schedule::matching_times(&run, state, timestamp_nanos(start), timestamp_nanos(end));
        let start_time = times.map_err(|why| failed(query_failed(&format!("invalid schedule: {why}"))))?;
        Ok(ListScheduleMatchingTimesResponse { start_time })
    }

    pub(crate) async fn list_schedules(
        &self,
        request: Request<ListSchedulesRequest>,
    ) -> Result<ListSchedulesResponse, Status> {
        let (caller, request) = (caller(&request), request.into_inner());
        let namespace = self.namespace(&request.namespace)?;
        let size = usize::try_from(request.maximum_page_size).ok().filter(|size| *size > 0);
        let limit = size.map_or(PAGE_MAX, |size| size.min(PAGE_MAX));
        let position = ListToken::open_position(&namespace, &request.query, &request.next_page_token)?;
        let found = self.node.runs.list_schedules(caller, &namespace, &request.query, position, limit);
        let found = found.await.map_err(failed)?;
        let next_page_token = ListToken::seal_position(&namespace, &request.query, found.next);
        let now = self.node.runs.clock_now();
        let schedules = found.runs.into_iter().filter_map(|found| match found {
            FoundRun::Readable(run) => run.state().schedule.as_deref().map(|state| entry(&run, state, now)),
            FoundRun::Damaged(facts) => Some(ScheduleListEntry {
                schedule_id: facts.workflow_id.trim_start_matches(WORKFLOW_ID_PREFIX).to_owned(),
                ..Default::default()
            }),
        });
        Ok(ListSchedulesResponse { schedules: schedules.collect(), next_page_token })
    }

    pub(crate) async fn count_schedules(
        &self,
        request: Request<CountSchedulesRequest>,
    ) -> Result<CountSchedulesResponse, Status> {
        let (caller, request) = (caller(&request), request.into_inner());
        let namespace = self.namespace(&request.namespace)?;
        let counts = self.node.runs.count_schedules(caller, &namespace, &request.query).await.map_err(failed)?;
        let count = counts.iter().map(|group| group.runs).sum::<u64>().cast_signed();
        Ok(CountSchedulesResponse { count, ..Default::default() })
    }
}

fn schedule_key(namespace: &Namespace, id: &str) -> Result<WorkflowKey, Status> {
    validate::schedule::schedule_id(id).map_err(refused)?;
    Ok(WorkflowKey::new(namespace.key, &format!("{WORKFLOW_ID_PREFIX}{id}")))
}

fn token(number: i64) -> Bytes {
    Bytes::copy_from_slice(&number.to_be_bytes())
}

fn exists(id: &str) -> Status {
    let detail = WorkflowExecutionAlreadyStartedFailure::default();
    let kind = "temporal.api.errordetails.v1.WorkflowExecutionAlreadyStartedFailure";
    status::named(Code::AlreadyExists, format!("schedule {id:?} is already registered"), kind, &detail)
}

/// In Temporal a schedule is a workflow that is queried for its times.
fn query_failed(text: &str) -> CallError {
    let failure = Failure {
        message: text.to_owned(),
        source: "GoSDK".to_owned(),
        failure_info: Some(FailureInfo::ApplicationFailureInfo(ApplicationFailureInfo::default())),
        ..Default::default()
    };
    CallError::QueryFailed(text.to_owned(), Some(Box::new(failure)))
}

fn entry(run: &Run, state: &ScheduleRun, now: i64) -> ScheduleListEntry {
    ScheduleListEntry {
        schedule_id: state.schedule_id.clone(),
        memo: Some(Memo { fields: run.state().memo.clone() }),
        search_attributes: of_user(&run.state().search_attributes),
        info: Some(schedule::list_info(run, state, now)),
    }
}

/// The search attributes that a user gave a schedule.
fn of_user(attributes: &BTreeMap<String, Payload>) -> Option<SearchAttributes> {
    let mut attributes = attributes.clone();
    for own in [PAUSED_ATTRIBUTE, DIVISION_ATTRIBUTE] {
        attributes.remove(own);
    }
    Some(SearchAttributes { indexed_fields: attributes }).filter(|kept| !kept.indexed_fields.is_empty())
}
