//! Standalone activities: start, describe, wait for the outcome, list, count, cancel, terminate, delete.
//!
//! Such an activity is a run (see `segno_engine::standalone`). Calls of its worker are in `activities`, calls of
//! operators in `activity_operations`.

use std::{sync::Arc, time::Duration};

use segno_engine::{
    Rejection, Run,
    schedule::DIVISION_ATTRIBUTE,
    search_attributes::Rules,
    standalone::{
        self, SCHEDULED_EVENT_ID, StandaloneStatus, WORKFLOW_ID_PREFIX,
        calls::{self, Terminate},
        state::{CancelRequest, StandaloneRun},
    },
    start::StartOptions,
    state::Activity,
};
use segno_node::{CallError, Current, FoundRun, HttpSender, Namespace, RunSelector, Standalone, Token, WorkflowKey};
use segno_proto::{
    Nanos,
    activity::{
        ActivityExecutionInfo, ActivityExecutionListInfo, ActivityExecutionOutcome, CallbackInfo,
        callback_info::{ActivityClosed, Trigger, trigger},
    },
    common::{ActivityType, Link, Payload, SearchAttributes, WorkflowType, link},
    enums::{
        ActivityExecutionStatus, PendingActivityState, WorkflowExecutionStatus, WorkflowIdConflictPolicy,
        WorkflowIdReusePolicy,
    },
    errordetails::ActivityExecutionAlreadyStartedFailure,
    events::ActivityTaskScheduledEventAttributes,
    nanos_duration, nanos_timestamp,
    workflow::OnConflictOptions,
    workflowservice::{
        CountActivityExecutionsRequest, CountActivityExecutionsResponse, DeleteActivityExecutionRequest,
        DeleteActivityExecutionResponse, DescribeActivityExecutionRequest, DescribeActivityExecutionResponse,
        ListActivityExecutionsRequest, ListActivityExecutionsResponse, PollActivityExecutionRequest,
        PollActivityExecutionResponse, RequestCancelActivityExecutionRequest, RequestCancelActivityExecutionResponse,
        StartActivityExecutionRequest, StartActivityExecutionResponse, TerminateActivityExecutionRequest,
        TerminateActivityExecutionResponse, count_activity_executions_response::AggregationGroup,
    },
};
use segno_store::visibility::{Attribute, Count};
use tonic::{Code, Request, Status};

use super::{
    Workflows, failed,
    nexus::describe::callbacks_of as callbacks_of_run,
    refused,
    visibility::{ListToken, PAGE_MAX, caller, payload},
};
use crate::{deadline, status, validate::standalone as checks};

/// How long a call waits for news before it answers that there is none.
pub(super) const WAIT_MAX: Duration = Duration::from_secs(20);

/// How far a caller has seen a run, as it carries that.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct SeenToken {
    #[prost(string, tag = "1")]
    run_id: String,
    #[prost(int64, tag = "2")]
    pub(super) transitions: i64,
}

impl Token for SeenToken {
    const KIND: u8 = 9;
}

impl SeenToken {
    /// All of a run.
    pub(super) fn of(run: &Run) -> Self {
        Self { run_id: run.info.run_id.clone(), transitions: run.state().transitions }
    }

    /// The token that a caller sent.
    pub(super) fn read(namespace: &Namespace, token: &[u8]) -> Result<Self, Status> {
        Self::open(token, &namespace.token_key).map_err(|_| Status::invalid_argument("invalid long poll token"))
    }

    /// Refuses the token of another run.
    pub(super) fn check(&self, run: &Run) -> Result<(), Status> {
        match self.run_id == run.info.run_id {
            true => Ok(()),
            false => Err(Status::invalid_argument("long poll token does not match execution")),
        }
    }

    /// Whether the run has changed since.
    pub(super) fn is_behind(&self, run: &Run) -> bool {
        run.state().transitions > self.transitions
    }
}

/// The policy for a closed run, by its number, which activities and Nexus operations have in common.
pub(super) fn reuse_policy(number: i32) -> WorkflowIdReusePolicy {
    match number {
        2 => WorkflowIdReusePolicy::AllowDuplicateFailedOnly,
        3 => WorkflowIdReusePolicy::RejectDuplicate,
        _ => WorkflowIdReusePolicy::AllowDuplicate,
    }
}

/// The policy for an open run, likewise.
pub(super) fn conflict_policy(number: i32) -> WorkflowIdConflictPolicy {
    match number {
        2 => WorkflowIdConflictPolicy::UseExisting,
        _ => WorkflowIdConflictPolicy::Fail,
    }
}

/// Counts by status, if groups were asked for: by the names of the statuses, as in Temporal.
pub(super) fn groups_of(group_by: Option<Attribute>, counts: Vec<Count>) -> Vec<(Payload, i64)> {
    let Some(attribute) = group_by else { return Vec::new() };
    let group = |count: Count| (payload(attribute, count.group), count.runs.cast_signed());
    let mut groups: Vec<_> = counts.into_iter().map(group).collect();
    groups.sort_by(|(one, _), (other, _)| one.data.cmp(&other.data));
    groups
}

/// The run of an activity.
pub(crate) fn activity_key(namespace: &Namespace, activity_id: &str) -> WorkflowKey {
    WorkflowKey::new(namespace.key, &format!("{WORKFLOW_ID_PREFIX}{activity_id}"))
}

/// The status of a call about a standalone activity that failed.
pub(crate) fn failed_for(activity_id: &str, error: CallError) -> Status {
    match error {
        CallError::WorkflowNotFound { .. }
        | CallError::RunNotFound { .. }
        | CallError::Rejected(
            Rejection::Closed | Rejection::RunNotFound | Rejection::ActivityNotFound | Rejection::ActivityIdNotFound(_),
        ) => status::not_found(format!("activity not found for ID: {activity_id}")),
        other => failed(other),
    }
}

impl Workflows {
    pub(crate) async fn start_activity(
        &self,
        mut request: StartActivityExecutionRequest,
    ) -> Result<StartActivityExecutionResponse, Status> {
        let namespace = self.open_namespace(&request.namespace)?;
        let rules = Rules { namespace: &namespace.name, custom: &namespace.search_attributes };
        let targets = &self.node.http_sender.settings.callback_targets;
        let callbacks = self.node.runs.options.activity_callbacks.then_some(targets);
        let new = checks::start(&mut request, &rules, self.sizes(), callbacks, &|| self.node.runs.uuid());
        let new = new.map_err(refused)?;
        if let Some(search_attributes) = request.search_attributes.as_mut() {
            rules.apply_types(search_attributes);
        }
        let activity_id = request.activity_id.clone();
        let options = StartOptions {
            namespace: namespace.name.clone(),
            workflow_id: format!("{WORKFLOW_ID_PREFIX}{activity_id}"),
            workflow_type: request.activity_type.map(|kind| WorkflowType { name: kind.name }),
            task_queue: request.task_queue,
            identity: request.identity,
            request_id: request.request_id,
            reuse_policy: reuse_policy(request.id_reuse_policy),
            conflict_policy: conflict_policy(request.id_conflict_policy),
            on_conflict: request.on_conflict_options.map(|options| OnConflictOptions {
                attach_request_id: options.attach_request_id,
                attach_completion_callbacks: options.attach_completion_callbacks,
                attach_links: options.attach_links,
            }),
            search_attributes: request.search_attributes,
            start_delay: request.start_delay,
            user_metadata: request.user_metadata,
            links: request.links,
            completion_callbacks: request.completion_callbacks,
            priority: request.priority,
            standalone: Some(Box::new(new)),
            ..Default::default()
        };
        let start = namespace.start(options);
        let outcome = match self.node.runs.start_workflow(start).await {
            Ok(outcome) => outcome,
            Err(CallError::Rejected(Rejection::AlreadyStarted { start_request_id, run_id, .. })) => {
                return Err(already_started(start_request_id, run_id));
            }
            Err(error) => return Err(failed(error)),
        };
        let run_id = outcome.run.info.run_id.clone();
        let link = link::Activity { namespace: namespace.name.clone(), activity_id, run_id: run_id.clone() };
        Ok(StartActivityExecutionResponse {
            run_id,
            started: outcome.started,
            link: Some(Link { variant: Some(link::Variant::Activity(link)) }),
        })
    }

    /// The run that a call names, which must be a standalone activity.
    async fn activity(
        &self,
        namespace: &Namespace,
        activity_id: &str,
        run_id: &str,
    ) -> Result<(WorkflowKey, Arc<Current>), Status> {
        let key = activity_key(namespace, activity_id);
        let found = self.node.runs.snapshot(&key, run_id).await.map_err(|error| failed_for(activity_id, error))?;
        Ok((key, found))
    }

    pub(crate) async fn describe_activity(
        &self,
        request: Request<DescribeActivityExecutionRequest>,
    ) -> Result<DescribeActivityExecutionResponse, Status> {
        let until = deadline::long_read(&request, WAIT_MAX);
        let request = request.into_inner();
        let namespace = self.namespace(&request.namespace)?;
        checks::describe(&request.activity_id, &request.run_id, &request.long_poll_token).map_err(refused)?;
        let (key, mut current) = self.activity(&namespace, &request.activity_id, &request.run_id).await?;
        if !request.long_poll_token.is_empty() {
            let seen = SeenToken::read(&namespace, &request.long_poll_token)?;
            seen.check(&current.run)?;
            if !seen.is_behind(&current.run) {
                self.node.runs.wait_for_change(&key, current.key(), seen.transitions, until).await;
                current = self.activity(&namespace, &request.activity_id, &request.run_id).await?.1;
            }
            if !seen.is_behind(&current.run) {
                return Ok(DescribeActivityExecutionResponse::default());
            }
        }
        let scheduled = self.node.runs.scheduled_attributes(&current, SCHEDULED_EVENT_ID).await.map_err(failed)?;
        let run = &current.run;
        let (Some(standalone), Some(activity)) = (&run.state().standalone, standalone::activity_of(run.state())) else {
            return Err(status::not_found(format!("activity not found for ID: {}", request.activity_id)));
        };
        let now = self.node.runs.clock_now();
        let mut info = describe(run, standalone, activity, &scheduled, now);
        if !request.include_heartbeat_details {
            info.heartbeat_details = None;
        }
        if !request.include_last_failure {
            info.last_failure = None;
        }
        Ok(DescribeActivityExecutionResponse {
            run_id: run.info.run_id.clone(),
            info: Some(info),
            input: scheduled.input.filter(|_| request.include_input),
            outcome: outcome_of(run).filter(|_| request.include_outcome),
            long_poll_token: SeenToken::of(run).seal(&namespace.token_key),
            callbacks: callbacks_of(run, now, &self.node.http_sender),
        })
    }

    pub(crate) async fn poll_activity_outcome(
        &self,
        request: Request<PollActivityExecutionRequest>,
    ) -> Result<PollActivityExecutionResponse, Status> {
        let until = deadline::long_read(&request, WAIT_MAX);
        let request = request.into_inner();
        let namespace = self.namespace(&request.namespace)?;
        checks::named(&request.activity_id, &request.run_id).map_err(refused)?;
        let (key, mut current) = self.activity(&namespace, &request.activity_id, &request.run_id).await?;
        if current.run.is_running() {
            self.node.runs.wait_for_news(&key, current.key(), 0, true, until).await;
            let run_id = current.run.info.run_id.clone();
            current = self.activity(&namespace, &request.activity_id, &run_id).await?.1;
        }
        if current.run.is_running() {
            return Ok(PollActivityExecutionResponse::default());
        }
        let outcome = outcome_of(&current.run);
        Ok(PollActivityExecutionResponse { run_id: current.run.info.run_id.clone(), outcome })
    }

    pub(crate) async fn cancel_activity(
        &self,
        request: RequestCancelActivityExecutionRequest,
    ) -> Result<RequestCancelActivityExecutionResponse, Status> {
        let namespace = self.namespace(&request.namespace)?;
        let RequestCancelActivityExecutionRequest { activity_id, run_id, request_id, identity, reason, .. } = request;
        checks::operation(&activity_id, &run_id, &request_id, &identity, &reason, self.sizes()).map_err(refused)?;
        let request_id = self.request_id(request_id);
        let call = CancelRequest { identity, reason, request_id };
        let apply = move |run: &Run, context| calls::request_cancel(run, context, call);
        self.operate_standalone(&namespace.name, &activity_id, run_id, apply).await?;
        Ok(RequestCancelActivityExecutionResponse::default())
    }

    pub(crate) async fn terminate_activity(
        &self,
        request: TerminateActivityExecutionRequest,
    ) -> Result<TerminateActivityExecutionResponse, Status> {
        let namespace = self.namespace(&request.namespace)?;
        let TerminateActivityExecutionRequest { activity_id, run_id, request_id, identity, reason, .. } = request;
        checks::operation(&activity_id, &run_id, &request_id, &identity, &reason, self.sizes()).map_err(refused)?;
        let request_id = self.request_id(request_id);
        let call = Terminate { reason, identity, request_id };
        let apply = move |run: &Run, context| calls::terminate(run, context, call);
        let key = activity_key(&namespace, &activity_id);
        let terminated = self.node.runs.terminate_run(&key, &RunSelector::run(run_id), "", apply).await;
        terminated.map_err(|error| failed_for(&activity_id, error))?;
        Ok(TerminateActivityExecutionResponse::default())
    }

    pub(crate) async fn delete_activity(
        &self,
        request: DeleteActivityExecutionRequest,
    ) -> Result<DeleteActivityExecutionResponse, Status> {
        let namespace = self.namespace(&request.namespace)?;
        checks::named(&request.activity_id, &request.run_id).map_err(refused)?;
        let key = activity_key(&namespace, &request.activity_id);
        let deleted = self.node.runs.delete_run(&key, &request.run_id).await;
        deleted.map_err(|error| failed_for(&request.activity_id, error))?;
        Ok(DeleteActivityExecutionResponse::default())
    }

    pub(crate) async fn list_activities(
        &self,
        request: Request<ListActivityExecutionsRequest>,
    ) -> Result<ListActivityExecutionsResponse, Status> {
        let (caller, request) = (caller(&request), request.into_inner());
        let namespace = self.namespace(&request.namespace)?;
        let size = usize::try_from(request.page_size).ok().filter(|size| *size > 0);
        let limit = size.map_or(PAGE_MAX, |size| size.min(PAGE_MAX));
        let position = ListToken::open_position(&namespace, &request.query, &request.next_page_token)?;
        let found =
            self.node.runs.list_standalone(Standalone::Activity, caller, &namespace, &request.query, position, limit);
        let found = found.await.map_err(failed)?;
        let next_page_token = ListToken::seal_position(&namespace, &request.query, found.next);
        let executions = found.runs.into_iter().map(|found| match found {
            FoundRun::Readable(run) => listed(&run),
            FoundRun::Damaged(facts) => ActivityExecutionListInfo {
                activity_id: facts.workflow_id.trim_start_matches(WORKFLOW_ID_PREFIX).to_owned(),
                run_id: facts.run_id,
                ..Default::default()
            },
        });
        Ok(ListActivityExecutionsResponse { executions: executions.collect(), next_page_token })
    }

    pub(crate) async fn count_activities(
        &self,
        request: Request<CountActivityExecutionsRequest>,
    ) -> Result<CountActivityExecutionsResponse, Status> {
        let (caller, request) = (caller(&request), request.into_inner());
        let namespace = self.namespace(&request.namespace)?;
        let counted = self.node.runs.count_standalone(Standalone::Activity, caller, &namespace, &request.query).await;
        let (group_by, counts) = counted.map_err(failed)?;
        let count = counts.iter().map(|group| group.runs).sum::<u64>().cast_signed();
        let groups = groups_of(group_by, counts).into_iter();
        let groups = groups.map(|(value, count)| AggregationGroup { group_values: vec![value], count });
        Ok(CountActivityExecutionsResponse { count, groups: groups.collect() })
    }

    /// The refusal of a completion by id after the end: it says how the activity ended.
    pub(crate) async fn completed_after_end(&self, namespace: &str, activity_id: &str, run_id: &str) -> Status {
        let namespace = match self.namespace(namespace) {
            Ok(namespace) => namespace,
            Err(status) => return status,
        };
        match self.activity(&namespace, activity_id, run_id).await {
            Ok((_, current)) => {
                let text = format!("invalid transition from {}", standalone::status_of(&current.run));
                Status::failed_precondition(text)
            }
            Err(status) => status,
        }
    }
}

fn already_started(start_request_id: String, run_id: String) -> Status {
    let detail = ActivityExecutionAlreadyStartedFailure { start_request_id, run_id };
    let kind = "temporal.api.errordetails.v1.ActivityExecutionAlreadyStartedFailure";
    status::named(Code::AlreadyExists, "activity execution already started", kind, &detail)
}

/// How it ended, if it did.
fn outcome_of(run: &Run) -> Option<ActivityExecutionOutcome> {
    run.state().standalone.as_ref().and_then(|standalone| standalone.outcome.clone())
}

fn status_of(run: &Run) -> ActivityExecutionStatus {
    use WorkflowExecutionStatus as Of;
    match standalone::listed_status(run) {
        Of::Running => ActivityExecutionStatus::Running,
        Of::Completed => ActivityExecutionStatus::Completed,
        Of::Failed => ActivityExecutionStatus::Failed,
        Of::Canceled => ActivityExecutionStatus::Canceled,
        Of::Terminated => ActivityExecutionStatus::Terminated,
        Of::TimedOut => ActivityExecutionStatus::TimedOut,
        Of::Paused => ActivityExecutionStatus::Paused,
        Of::Unspecified | Of::ContinuedAsNew => ActivityExecutionStatus::Unspecified,
    }
}

fn state_of(run: &Run, activity: &Activity) -> PendingActivityState {
    match standalone::status_of(run) {
        StandaloneStatus::Scheduled => PendingActivityState::Scheduled,
        StandaloneStatus::Started => PendingActivityState::Started,
        StandaloneStatus::ResetRequested if activity.pause.is_some() => PendingActivityState::PauseRequested,
        StandaloneStatus::ResetRequested => PendingActivityState::Started,
        StandaloneStatus::CancelRequested => PendingActivityState::CancelRequested,
        StandaloneStatus::Paused => PendingActivityState::Paused,
        StandaloneStatus::PauseRequested => PendingActivityState::PauseRequested,
        StandaloneStatus::Over(_) => PendingActivityState::Unspecified,
    }
}

/// The activity id of a run.
fn id_of(run: &Run) -> String {
    run.info.workflow_id.trim_start_matches(WORKFLOW_ID_PREFIX).to_owned()
}

fn describe(
    run: &Run,
    standalone: &StandaloneRun,
    activity: &Activity,
    scheduled: &ActivityTaskScheduledEventAttributes,
    now: Nanos,
) -> ActivityExecutionInfo {
    let (info, state) = (&run.info, run.state());
    let time = |at: Nanos| (at != 0).then(|| nanos_timestamp(at));
    let closed = !run.is_running();
    let first_due = standalone::first_due(run);
    let waits = standalone::status_of(run) == StandaloneStatus::Scheduled && activity.scheduled_time > now;
    let mut attributes = state.search_attributes.clone();
    attributes.remove(DIVISION_ATTRIBUTE);
    ActivityExecutionInfo {
        activity_id: id_of(run),
        run_id: info.run_id.clone(),
        activity_type: Some(ActivityType { name: activity.activity_type.clone() }),
        status: status_of(run) as i32,
        run_state: state_of(run, activity) as i32,
        task_queue: activity.queue.clone(),
        schedule_to_close_timeout: Some(nanos_duration(activity.schedule_to_close)),
        schedule_to_start_timeout: Some(nanos_duration(activity.schedule_to_start)),
        start_to_close_timeout: Some(nanos_duration(activity.start_to_close)),
        heartbeat_timeout: Some(nanos_duration(activity.heartbeat)),
        retry_policy: activity.retry_policy.clone(),
        heartbeat_details: activity.heartbeat_details.clone(),
        last_heartbeat_time: time(activity.last_heartbeat_time),
        last_started_time: time(standalone.last_started_time),
        attempt: activity.attempt,
        execution_duration: closed.then(|| nanos_duration(state.close_time - info.start_time)),
        schedule_time: time(info.start_time),
        expiration_time: time(match activity.schedule_to_close {
            0 => 0,
            timeout => first_due.saturating_add(timeout),
        }),
        close_time: time(state.close_time).filter(|_| closed),
        last_failure: activity.last_failure.clone(),
        last_worker_identity: activity.last_identity.clone(),
        sdk_name: standalone.sdk_name.clone(),
        sdk_version: standalone.sdk_version.clone(),
        current_retry_interval: (waits && standalone.retry_interval > 0)
            .then(|| nanos_duration(standalone.retry_interval)),
        last_attempt_complete_time: time(activity.last_attempt_end),
        next_attempt_schedule_time: time(activity.scheduled_time).filter(|_| waits),
        priority: activity.priority.clone(),
        state_transition_count: state.transitions,
        state_size_bytes: run.encode().len() as i64,
        search_attributes: Some(SearchAttributes { indexed_fields: attributes }),
        header: scheduled.header.clone(),
        user_metadata: info.user_metadata.clone(),
        canceled_reason: standalone.cancel.as_ref().map(|cancel| cancel.reason.clone()).unwrap_or_default(),
        links: standalone.links.iter().flat_map(|known| known.links.iter().cloned()).collect(),
        total_heartbeat_count: activity.heartbeats,
        start_delay: (standalone.start_delay > 0).then(|| nanos_duration(standalone.start_delay)),
        execution_time: time(first_due),
        ..Default::default()
    }
}

/// The completion callbacks of an activity.
fn callbacks_of(run: &Run, now: Nanos, sender: &HttpSender) -> Vec<CallbackInfo> {
    let trigger = Trigger { variant: Some(trigger::Variant::ActivityClosed(ActivityClosed {})) };
    let callback = |known: segno_proto::workflow::CallbackInfo| {
        let mut told = CallbackInfo { trigger: Some(trigger), info: None };
        let info = told.info.get_or_insert_default();
        info.callback = known.callback;
        info.registration_time = known.registration_time;
        info.state = known.state;
        info.attempt = known.attempt;
        info.last_attempt_complete_time = known.last_attempt_complete_time;
        info.last_attempt_failure = known.last_attempt_failure;
        info.next_attempt_schedule_time = known.next_attempt_schedule_time;
        info.blocked_reason = known.blocked_reason;
        told
    };
    callbacks_of_run(run, now, sender).into_iter().map(callback).collect()
}

fn listed(run: &Run) -> ActivityExecutionListInfo {
    let (info, state) = (&run.info, run.state());
    let activity = standalone::activity_of(state);
    let closed = !run.is_running();
    ActivityExecutionListInfo {
        activity_id: id_of(run),
        run_id: info.run_id.clone(),
        activity_type: Some(ActivityType { name: info.workflow_type.clone() }),
        schedule_time: Some(nanos_timestamp(info.start_time)),
        close_time: closed.then(|| nanos_timestamp(state.close_time)),
        status: status_of(run) as i32,
        search_attributes: Some(SearchAttributes { indexed_fields: state.search_attributes.clone() }),
        task_queue: activity.map_or_else(|| info.task_queue.clone(), |activity| activity.queue.clone()),
        state_transition_count: if closed { state.transitions } else { 0 },
        state_size_bytes: 0,
        execution_duration: closed.then(|| nanos_duration(state.close_time - info.start_time)),
        execution_time: Some(nanos_timestamp(standalone::first_due(run))),
    }
}
