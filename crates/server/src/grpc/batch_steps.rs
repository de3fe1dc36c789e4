//! The step of a batch job for one execution: a call that a client could make, with a request id derived from the job
//! and the execution, so that a repeated step is recognised.

use std::sync::{Arc, Weak};

use bytes::Bytes;
use prost::Message;
use segno_node::{BatchInfo, BatchPlan, BatchStep, BatchSteps, BatchTarget, Namespace, Step, StepError, step_id};
use segno_proto::{
    batch::{
        BatchOperationReset, batch_operation_reset_activities as reset_activities,
        batch_operation_unpause_activities as unpause, batch_operation_update_activity_options as update_activities,
    },
    common::{ResetOptions, WorkflowExecution, reset_options::Target},
    enums::{EventType, ResetType},
    workflowservice::{
        DeleteActivityExecutionRequest, DeleteWorkflowExecutionRequest, DescribeWorkflowExecutionRequest,
        GetWorkflowExecutionHistoryRequest, GetWorkflowExecutionHistoryReverseRequest,
        RequestCancelActivityExecutionRequest, RequestCancelWorkflowExecutionRequest, ResetActivityRequest,
        ResetWorkflowExecutionRequest, SignalWorkflowExecutionRequest, StartBatchOperationRequest,
        TerminateActivityExecutionRequest, TerminateWorkflowExecutionRequest, UnpauseActivityRequest,
        UpdateActivityOptionsRequest, UpdateWorkflowExecutionOptionsRequest, reset_activity_request,
        start_batch_operation_request::Operation, unpause_activity_request, update_activity_options_request,
    },
};
use tonic::{Code, Status};

use super::batch::targets;
use crate::{calls::Handlers, validate::batch::is_of_activities};

/// Only what is open can be changed by these.
const OPEN: &str = "CloseTime IS NULL";

/// The service's calls, as steps of jobs.
pub struct BatchCalls {
    /// Not held: the node has the steps, and the service has the node.
    service: Weak<Handlers>,
}

impl BatchCalls {
    /// Steps that are calls of a service.
    pub(crate) fn new(service: &Arc<Handlers>) -> Self {
        Self { service: Arc::downgrade(service) }
    }
}

impl BatchSteps for BatchCalls {
    fn prepare(&self, namespace: &Namespace, _: &BatchInfo, request: Bytes) -> Result<BatchPlan, String> {
        let mut request = StartBatchOperationRequest::decode(request).map_err(|error| error.to_string())?;
        // Its namespace may have another name by now.
        request.namespace.clone_from(&namespace.name);
        let filter = filter(&request);
        let of_activities = request.operation.as_ref().is_some_and(is_of_activities);
        let target =
            |target: segno_proto::common::Execution| BatchTarget { id: target.business_id, run_id: target.run_id };
        let targets = targets(&request).into_iter().map(target).collect();
        let per_second = f64::from(request.max_operations_per_second);
        let steps = Arc::new(Steps { service: self.service.clone(), request: Arc::new(request) });
        Ok(BatchPlan { filter, of_activities, targets, per_second, steps })
    }
}

/// The filter of a job, narrowed to executions to which its operation can be done.
fn filter(request: &StartBatchOperationRequest) -> Option<String> {
    let query = match &request.operation {
        // Only those that have such an activity paused.
        Some(Operation::UnpauseActivitiesOperation(operation)) => match &operation.activity {
            Some(unpause::Activity::Type(name)) if !request.visibility_query.is_empty() => {
                let name = name.replace('\\', "\\\\").replace('\'', "\\'");
                format!("({}) AND (TemporalPauseInfo = 'property:activityType={name}')", request.visibility_query)
            }
            _ => request.visibility_query.clone(),
        },
        _ => request.visibility_query.clone(),
    };
    if query.is_empty() {
        return None;
    }
    Some(match &request.operation {
        Some(
            Operation::DeletionOperation(_) | Operation::ResetOperation(_) | Operation::DeleteActivitiesOperation(_),
        ) => query,
        _ => format!("({query}) AND ({OPEN})"),
    })
}

/// The steps of one job.
struct Steps {
    service: Weak<Handlers>,
    request: Arc<StartBatchOperationRequest>,
}

impl BatchStep for Steps {
    fn carry_out(&self, target: BatchTarget) -> Step {
        let (service, request) = (self.service.upgrade(), self.request.clone());
        Box::pin(async move {
            let Some(service) = service else { return Err(StepError::Temporary) };
            match service.step(&request, target).await {
                Ok(()) => Ok(()),
                Err(status) => match status.code() {
                    // A run that is not there, or no longer open, needs nothing done to it.
                    Code::NotFound => Ok(()),
                    Code::Unavailable | Code::ResourceExhausted | Code::DeadlineExceeded | Code::Aborted => {
                        Err(StepError::Temporary)
                    }
                    _ => {
                        tracing::debug!(job = request.job_id, %status, "a step of a batch operation was refused");
                        Err(StepError::Final)
                    }
                },
            }
        })
    }
}

impl Handlers {
    /// Does to one execution what a job is to do.
    async fn step(self: &Arc<Self>, request: &StartBatchOperationRequest, target: BatchTarget) -> Result<(), Status> {
        let namespace = request.namespace.clone();
        let request_id = |what: &str| step_id(&[&request.job_id, what, &target.id, &target.run_id]);
        let workflow = WorkflowExecution { workflow_id: target.id.clone(), run_id: target.run_id.clone() };
        let execution = Some(workflow.clone());
        let Some(operation) = &request.operation else { return Ok(()) };
        match operation {
            Operation::TerminationOperation(_) => {
                let call = TerminateWorkflowExecutionRequest {
                    namespace,
                    workflow_execution: execution,
                    reason: request.reason.clone(),
                    identity: worker_identity(),
                    ..Default::default()
                };
                self.make(&call).await.map(drop)
            }
            Operation::CancellationOperation(_) => {
                let call = RequestCancelWorkflowExecutionRequest {
                    namespace,
                    workflow_execution: execution,
                    request_id: request_id("cancel"),
                    identity: worker_identity(),
                    ..Default::default()
                };
                self.make(&call).await.map(drop)
            }
            Operation::SignalOperation(signal) => {
                let call = SignalWorkflowExecutionRequest {
                    namespace,
                    workflow_execution: execution,
                    signal_name: signal.signal.clone(),
                    input: signal.input.clone(),
                    identity: signal.identity.clone(),
                    request_id: request_id("signal"),
                    ..Default::default()
                };
                self.make(&call).await.map(drop)
            }
            Operation::DeletionOperation(_) => {
                let call = DeleteWorkflowExecutionRequest { namespace, workflow_execution: execution };
                self.make(&call).await.map(drop)
            }
            Operation::ResetOperation(reset) => self.reset_step(request, reset, workflow, request_id("reset")).await,
            Operation::UnpauseActivitiesOperation(operation) => {
                let call = UnpauseActivityRequest {
                    namespace,
                    execution,
                    identity: operation.identity.clone(),
                    reset_attempts: operation.reset_attempts,
                    reset_heartbeat: operation.reset_heartbeat,
                    jitter: operation.jitter,
                    activity: operation.activity.clone().map(|activity| match activity {
                        unpause::Activity::Type(name) => unpause_activity_request::Activity::Type(name),
                        unpause::Activity::MatchAll(all) => unpause_activity_request::Activity::UnpauseAll(all),
                    }),
                };
                self.make(&call).await.map(drop)
            }
            Operation::ResetActivitiesOperation(operation) => {
                let call = ResetActivityRequest {
                    namespace,
                    execution,
                    identity: operation.identity.clone(),
                    reset_heartbeat: operation.reset_heartbeat,
                    keep_paused: operation.keep_paused,
                    jitter: operation.jitter,
                    restore_original_options: operation.restore_original_options,
                    activity: operation.activity.clone().map(|activity| match activity {
                        reset_activities::Activity::Type(name) => reset_activity_request::Activity::Type(name),
                        reset_activities::Activity::MatchAll(all) => reset_activity_request::Activity::MatchAll(all),
                    }),
                };
                self.make(&call).await.map(drop)
            }
            Operation::UpdateActivityOptionsOperation(operation) => {
                let Some(activity) = operation.activity.clone() else {
                    return Err(Status::invalid_argument("unknown activity type: <nil>"));
                };
                let call = UpdateActivityOptionsRequest {
                    namespace,
                    execution,
                    identity: operation.identity.clone(),
                    activity_options: operation.activity_options.clone(),
                    update_mask: Some(operation.update_mask.clone().unwrap_or_default()),
                    restore_original: operation.restore_original,
                    activity: Some(match activity {
                        update_activities::Activity::Type(name) => {
                            update_activity_options_request::Activity::Type(name)
                        }
                        update_activities::Activity::MatchAll(all) => {
                            update_activity_options_request::Activity::MatchAll(all)
                        }
                    }),
                };
                self.make(&call).await.map(drop)
            }
            Operation::UpdateWorkflowOptionsOperation(operation) => {
                let call = UpdateWorkflowExecutionOptionsRequest {
                    namespace,
                    workflow_execution: execution,
                    workflow_execution_options: operation.workflow_execution_options.clone(),
                    update_mask: operation.update_mask.clone(),
                    identity: operation.identity.clone(),
                };
                self.make(&call).await.map(drop)
            }
            Operation::CancelActivitiesOperation(operation) => {
                let call = RequestCancelActivityExecutionRequest {
                    namespace,
                    request_id: request_id("cancel"),
                    activity_id: target.id,
                    run_id: target.run_id,
                    identity: operation.identity.clone(),
                    reason: operation.reason.clone(),
                };
                self.make(&call).await.map(drop)
            }
            Operation::TerminateActivitiesOperation(operation) => {
                let call = TerminateActivityExecutionRequest {
                    namespace,
                    request_id: request_id("terminate"),
                    activity_id: target.id,
                    run_id: target.run_id,
                    identity: operation.identity.clone(),
                    reason: operation.reason.clone(),
                };
                self.make(&call).await.map(drop)
            }
            Operation::DeleteActivitiesOperation(_) => {
                let call = DeleteActivityExecutionRequest { namespace, activity_id: target.id, run_id: target.run_id };
                self.make(&call).await.map(drop)
            }
        }
    }

    async fn reset_step(
        self: &Arc<Self>,
        request: &StartBatchOperationRequest,
        reset: &BatchOperationReset,
        mut execution: WorkflowExecution,
        request_id: String,
    ) -> Result<(), Status> {
        let options = reset.options.clone().unwrap_or_else(|| older_options(reset));
        let finish_event_id = self.reset_point(&request.namespace, &options, &mut execution).await?;
        #[allow(deprecated)]
        let call = ResetWorkflowExecutionRequest {
            namespace: request.namespace.clone(),
            workflow_execution: Some(execution),
            reason: request.reason.clone(),
            request_id,
            workflow_task_finish_event_id: finish_event_id,
            reset_reapply_type: options.reset_reapply_type,
            reset_reapply_exclude_types: options.reset_reapply_exclude_types,
            post_reset_operations: reset.post_reset_operations.clone(),
            identity: reset.identity.clone(),
        };
        self.make(&call).await.map(drop)
    }

    /// The event to which an execution is reset. A point of an older run makes that one the execution.
    async fn reset_point(
        self: &Arc<Self>,
        namespace: &str,
        options: &ResetOptions,
        execution: &mut WorkflowExecution,
    ) -> Result<i64, Status> {
        match &options.target {
            Some(Target::FirstWorkflowTask(())) => self.first_task(namespace, execution).await.map_err(unread),
            Some(Target::LastWorkflowTask(())) => self.last_task(namespace, execution).await.map_err(unread),
            Some(Target::WorkflowTaskId(id)) => Ok(*id),
            Some(Target::BuildId(build_id)) => {
                let call = DescribeWorkflowExecutionRequest {
                    namespace: namespace.to_owned(),
                    execution: Some(execution.clone()),
                };
                let described = self.make(&call).await?.workflow_execution_info.unwrap_or_default();
                let points = described.auto_reset_points.unwrap_or_default().points;
                let point = points.into_iter().find(|point| point.build_id == *build_id);
                let refuse = |why: &str| Err(Status::failed_precondition(format!("Reset point for {build_id} {why}")));
                match point {
                    None => Err(Status::failed_precondition(format!("Can't find reset point for {build_id}"))),
                    Some(point) if !point.resettable => refuse("is not resettable"),
                    Some(point) if options.current_run_only && point.run_id != execution.run_id => {
                        refuse("points to previous run and CurrentRunOnly is set")
                    }
                    Some(point) => {
                        execution.run_id = point.run_id;
                        Ok(point.first_workflow_task_completed_id)
                    }
                }
            }
            None => Err(Status::invalid_argument("provided reset target is not supported.")),
        }
    }

    /// The first workflow task that was completed, else the event after the first that was scheduled.
    async fn first_task(self: &Arc<Self>, namespace: &str, execution: &WorkflowExecution) -> Result<i64, Status> {
        let mut call = GetWorkflowExecutionHistoryRequest {
            namespace: namespace.to_owned(),
            execution: Some(execution.clone()),
            ..Default::default()
        };
        let mut scheduled = None;
        loop {
            let page = self.make(&call).await?;
            for event in page.history.map(|history| history.events().unwrap_or_default()).unwrap_or_default() {
                match event.event_type() {
                    EventType::WorkflowTaskCompleted => return Ok(event.event_id),
                    EventType::WorkflowTaskScheduled => scheduled = scheduled.or(Some(event.event_id + 1)),
                    _ => {}
                }
            }
            if page.next_page_token.is_empty() {
                return scheduled.ok_or_else(no_task);
            }
            call.next_page_token = page.next_page_token;
        }
    }

    /// The last workflow task that was completed, else the event after the first that was scheduled.
    async fn last_task(self: &Arc<Self>, namespace: &str, execution: &WorkflowExecution) -> Result<i64, Status> {
        let mut call = GetWorkflowExecutionHistoryReverseRequest {
            namespace: namespace.to_owned(),
            execution: Some(execution.clone()),
            ..Default::default()
        };
        let mut scheduled = None;
        loop {
            let page = self.make(&call).await?;
            for event in page.history.map(|history| history.events().unwrap_or_default()).unwrap_or_default() {
                match event.event_type() {
                    EventType::WorkflowTaskCompleted => return Ok(event.event_id),
                    EventType::WorkflowTaskScheduled => scheduled = Some(event.event_id + 1),
                    _ => {}
                }
            }
            if page.next_page_token.is_empty() {
                return scheduled.ok_or_else(no_task);
            }
            call.next_page_token = page.next_page_token;
        }
    }
}

fn no_task() -> Status {
    Status::failed_precondition("unable to find any scheduled or completed task")
}

/// A history that cannot be read is a failure, also if it is not there.
fn unread(status: Status) -> Status {
    match status.code() {
        Code::NotFound => Status::failed_precondition("failed to get workflow execution history"),
        _ => status,
    }
}

/// The older way to say what to reset to.
#[allow(deprecated)]
fn older_options(reset: &BatchOperationReset) -> ResetOptions {
    let target = match reset.reset_type() {
        ResetType::FirstWorkflowTask => Some(Target::FirstWorkflowTask(())),
        ResetType::LastWorkflowTask => Some(Target::LastWorkflowTask(())),
        ResetType::Unspecified => None,
    };
    ResetOptions { reset_reapply_type: reset.reset_reapply_type, target, ..Default::default() }
}

/// Who cancels and terminates, as far as histories tell: the process, as in Temporal.
fn worker_identity() -> String {
    static HOST: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    let host = HOST.get_or_init(|| {
        let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        if name.trim().is_empty() { "unknown".to_owned() } else { name.trim().to_owned() }
    });
    format!("{}@{host}@", std::process::id())
}
