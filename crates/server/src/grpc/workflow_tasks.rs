//! The worker's side of workflow tasks: poll, complete, fail, reset stickiness.

use bytes::Bytes;
use segno_engine::{
    Run,
    complete_task::CompleteTask,
    repeats::{self, Digest},
    task_calls::{self, FailTask},
};
use segno_node::{
    Caller, Namespace, Poll, PollOutcome, PollerVersion, QueryAnswer, QueryToken, QueueKey, QueueKind, RunSelector,
    StartedTask, TaskToken, Token,
};
use segno_proto::{
    command::{Command, command::Attributes},
    common::WorkerVersionStamp,
    deployment::{Deployment, WorkerDeploymentOptions, WorkerDeploymentVersion},
    enums::{TaskQueueKind, WorkerVersioningMode},
    nanos_timestamp,
    query::WorkflowQueryResult,
    taskqueue::{PollerScalingDecision, TaskQueue},
    workflowservice::{
        PollWorkflowTaskQueueRequest, PollWorkflowTaskQueueResponse, ResetStickyTaskQueueRequest,
        ResetStickyTaskQueueResponse, RespondWorkflowTaskCompletedRequest, RespondWorkflowTaskCompletedResponse,
        RespondWorkflowTaskFailedRequest, RespondWorkflowTaskFailedResponse,
    },
};
use tokio::time::Instant;
use tonic::{Request, Response, Status};

use super::{
    Workflows, activities, completion_pages, failed, key_of, refused,
    routing::answer_there,
    tokens::{PageToken, task_of},
};
use crate::{
    deadline,
    peers::{self, CallMetadata},
    security, status,
    validate::{self, size::Sizes},
};

/// Advice for workers that adapt their number of polls; none if it should stay as it is.
pub(crate) fn scaling(delta: i32) -> Option<PollerScalingDecision> {
    (delta != 0).then_some(PollerScalingDecision { poll_request_delta_suggestion: delta })
}

/// A started task as the wire has it.
pub(crate) fn task_response(namespace: &Namespace, task: StartedTask, backlog: usize) -> PollWorkflowTaskQueueResponse {
    let info = &task.run.info;
    let key = &namespace.token_key;
    let trial = task.query.as_ref().and_then(|query| query.trial.as_ref());
    let last_event_id = trial.map_or(0, |trial| trial.last_event_id);
    // A trial for workers that compare nothing for a query.
    let with_task = trial.is_some() && task.task.started_event_id > 0;
    let run_id = &info.run_id;
    let page = |event_id| PageToken { run_id: run_id.clone(), event_id, last_event_id, with_task }.seal(key);
    let next_page_token = task.history.next_event_id.map(page);
    let task_token = match &task.query {
        Some(query) => QueryToken { query_id: query.id, node: query.node }.seal(key),
        None => TaskToken {
            workflow_id: info.workflow_id.clone(),
            run_id: info.run_id.clone(),
            scheduled_event_id: task.task.scheduled_event_id,
            started_event_id: task.task.started_event_id,
            attempt: task.task.attempt,
            started_time: task.task.started_time,
        }
        .seal(key),
    };
    let time = |nanos| (nanos != 0).then(|| nanos_timestamp(nanos));
    PollWorkflowTaskQueueResponse {
        task_token,
        workflow_execution: Some(info.execution()),
        workflow_type: Some(segno_proto::common::WorkflowType { name: info.workflow_type.clone() }),
        previous_started_event_id: task.previous_started_event_id,
        started_event_id: task.task.started_event_id,
        attempt: task.task.attempt,
        backlog_count_hint: backlog as i64,
        next_page_token: next_page_token.unwrap_or_default(),
        history: Some(task.history.into_history()),
        query: task.query.filter(|_| !with_task).map(|query| query.query),
        workflow_execution_task_queue: Some(TaskQueue {
            name: info.task_queue.clone(),
            kind: TaskQueueKind::Normal as i32,
            normal_name: String::new(),
        }),
        scheduled_time: time(task.task.scheduled_time),
        started_time: time(task.task.started_time),
        queries: task.queries,
        messages: task.messages,
        ..Default::default()
    }
}

impl Workflows {
    pub(crate) async fn poll_workflow_task(
        &self,
        request: Request<PollWorkflowTaskQueueRequest>,
    ) -> Result<Response<PollWorkflowTaskQueueResponse>, Status> {
        security::check_queue(&request, request.get_ref().task_queue.as_ref(), true)?;
        let (until, metadata) = (deadline::poll(&request), CallMetadata::of(&request));
        let (task, call) = self.poll_among_nodes(&request);
        let mut request = request.into_inner();
        let namespace = self.namespace(&request.namespace)?;
        validate::worker::poll_workflow_task(&mut request).map_err(refused)?;
        let queue = request.task_queue.unwrap_or_default();
        let sticky = queue.kind == TaskQueueKind::Sticky as i32;
        let poll = Poll {
            queue: match sticky {
                true => QueueKey::sticky(namespace.key, &queue.name, &queue.normal_name),
                false => QueueKey { namespace: namespace.key, kind: QueueKind::Workflow, name: queue.name },
            },
            identity: request.identity,
            caller: Caller {
                worker: request.worker_instance_key,
                control_queue: request.worker_control_task_queue,
                connection: metadata.connection,
            },
            sticky,
            deadline: until?,
            tasks_per_second: None,
            version: PollerVersion {
                capabilities: request.worker_version_capabilities,
                deployment: request.deployment_options,
            },
            sdk: metadata.sdk(),
        };
        let version = version_of(&poll.version);
        let begun = Instant::now();
        let polled: Option<PollOutcome<StartedTask>> = match task {
            Some(task) => {
                self.node.dispatch.begin_for(&poll, version, &task).await.map_err(failed)?.map(PollOutcome::Here)
            }
            None => {
                self.register_poll(&poll).await?;
                self.node.dispatch.poll(&poll, version, call.as_ref()).await.map_err(failed)?
            }
        };
        let started = match polled {
            Some(PollOutcome::Here(started)) => started,
            Some(PollOutcome::There { body, delivery }) => return answer_there(body, delivery),
            None => return Ok(Response::new(PollWorkflowTaskQueueResponse::default())),
        };
        // Of a sticky queue none is told: Go's workers keep to that queue alone as long as the last answer they read
        // named a backlog, and answers are read in another order than they were made.
        let backlog = if poll.sticky { 0 } else { self.node.matching.backlog_of(&poll.queue, &poll.version) };
        let delivery = started.delivery.clone();
        let poller_scaling_decision = scaling(self.node.matching.advice(&poll.queue, &poll.version, begun.elapsed()));
        let task = task_response(&namespace, started, backlog);
        let mut response = Response::new(PollWorkflowTaskQueueResponse { poller_scaling_decision, ..task });
        response.extensions_mut().insert(delivery);
        Ok(response)
    }

    pub(crate) async fn complete_workflow_task(
        &self,
        request: Request<RespondWorkflowTaskCompletedRequest>,
    ) -> Result<Response<RespondWorkflowTaskCompletedResponse>, Status> {
        let connection = peers::of(&request);
        let mut request = request.into_inner();
        let digest = Digest::of(repeats::Call::TaskCompleted, &request);
        validate::worker::workflow_task_completed(&mut request).map_err(refused)?;
        let (namespace, token) = match self.open_any::<TaskToken>(&request.namespace, &request.task_token) {
            Ok(opened) => opened,
            Err(refused) => {
                // It may be of a trial, which changes nothing.
                let Some(id) = self.query_id(&request.namespace, &request.task_token) else { return Err(refused) };
                return match self.node.dispatch.complete_trial(id, &request.commands) {
                    true => Ok(Response::new(RespondWorkflowTaskCompletedResponse::default())),
                    false => Err(refused),
                };
            }
        };
        let (key, task) = task_of(&namespace, &token);
        if request.intermediate_page || request.page_number > 0 {
            let found = self.node.runs.snapshot(&key, &token.run_id).await.map_err(failed)?;
            let current = task_calls::find(&found.run, &task).is_ok();
            if let Some(kept) = completion_pages::take(&self.node, &namespace, &mut request, &task, current)? {
                return Ok(Response::new(kept));
            }
        } else if let Some(pages) = &self.node.runs.completion_pages {
            pages.forget(&request.task_token);
        }
        let versioning_behavior = request.versioning_behavior();
        let caller = Caller {
            worker: request.worker_instance_key,
            control_queue: request.worker_control_task_queue,
            connection,
        };
        let worker_reports = self.node.workers.worker_called(namespace.key, &caller);
        if self.node.runs.options.workflow_rules && !namespace.detail.workflow_rules.is_empty() {
            request.commands.iter_mut().for_each(refuse_eager);
        }
        let eager = request.commands.iter().filter(|command| wants_eager(command)).count();
        let call = CompleteTask {
            token: task,
            commands: request.commands,
            identity: request.identity,
            sticky: request.sticky_attributes,
            return_new_task: request.return_new_workflow_task,
            force_new_task: request.force_create_new_workflow_task,
            binary_checksum: request.binary_checksum,
            worker_version: request.worker_version_stamp,
            sdk_metadata: request.sdk_metadata,
            metering_metadata: request.metering_metadata,
            versioning_behavior,
            version: completing_version(request.deployment_options.as_ref(), request.deployment.as_ref()),
            target: None,
            deployment_name: match request.deployment_options {
                Some(options) => options.deployment_name,
                None => request.deployment.map(|deployment| deployment.series_name).unwrap_or_default(),
            },
            messages: request.messages,
            discards_with_events: request
                .capabilities
                .as_ref()
                .is_some_and(|capabilities| capabilities.discard_speculative_workflow_task_with_events),
            update_limits: namespace.settings.updates,
            eager_request_ids: (0..eager).map(|_| self.node.runs.uuid()).collect(),
            worker: caller.worker,
            control_queue: caller.control_queue,
            worker_reports,
            script: None,
            digest,
        };
        let sizes = self.sizes();
        let answers = request.query_results.into_iter().map(|(id, result)| (id, answer(result, sizes))).collect();
        let reply = self
            .node
            .dispatch
            .complete_workflow_task(namespace.clone(), &key, &token.run_id, call, answers)
            .await
            .map_err(failed)?;
        if let Some(failure) = &reply.completed.failure {
            return Err(Status::invalid_argument(failure.worker_message()));
        }
        if reply.completed.heartbeat_timed_out {
            return Err(status::not_found("workflow task heartbeat timeout"));
        }
        let mut response = Response::new(RespondWorkflowTaskCompletedResponse {
            workflow_task: reply.new_task.map(|task| task_response(&namespace, task, 0)),
            activity_tasks: reply.activities.into_iter().map(|task| activities::response(&namespace, task)).collect(),
            reset_history_event_id: reply.completed.reset_history_event_id,
        });
        if let Some(delivery) = reply.delivery {
            response.extensions_mut().insert(delivery);
        }
        Ok(response)
    }

    /// The query of a token, if it is one of a query.
    fn query_id(&self, namespace: &str, token: &Bytes) -> Option<u64> {
        self.open::<QueryToken>(namespace, token).ok().map(|(_, token)| token.query_id)
    }

    pub(crate) async fn fail_workflow_task(
        &self,
        mut request: RespondWorkflowTaskFailedRequest,
    ) -> Result<RespondWorkflowTaskFailedResponse, Status> {
        validate::worker::workflow_task_failed(&mut request, self.sizes()).map_err(refused)?;
        let (namespace, token) = match self.open_any::<TaskToken>(&request.namespace, &request.task_token) {
            Ok(opened) => opened,
            Err(refused) => {
                // It may be of a trial.
                let Some(id) = self.query_id(&request.namespace, &request.task_token) else { return Err(refused) };
                return match self.node.dispatch.fail_trial(id, request.cause(), request.failure) {
                    true => Ok(RespondWorkflowTaskFailedResponse::default()),
                    false => Err(refused),
                };
            }
        };
        let (key, task) = task_of(&namespace, &token);
        let cause = request.cause();
        let call = FailTask {
            token: task,
            cause,
            failure: request.failure,
            identity: request.identity,
            binary_checksum: request.binary_checksum,
            worker_version: request.worker_version,
        };
        let apply = move |run: &Run, context| task_calls::fail(run, context, call);
        self.node.runs.transact(&key, &RunSelector::run(token.run_id), apply).await.map_err(failed)?;
        Ok(RespondWorkflowTaskFailedResponse::default())
    }

    pub(crate) async fn reset_sticky(
        &self,
        mut request: ResetStickyTaskQueueRequest,
    ) -> Result<ResetStickyTaskQueueResponse, Status> {
        let namespace = self.namespace(&request.namespace)?;
        validate::workflow::reset_sticky(&mut request).map_err(refused)?;
        let (key, run_id) = key_of(&namespace, request.execution.as_ref());
        let apply = move |run: &Run, context| task_calls::reset_sticky(run, context);
        self.node.runs.transact(&key, &RunSelector::run(run_id), apply).await.map_err(failed)?;
        Ok(ResetStickyTaskQueueResponse::default())
    }
}

/// The worker's answer to a query that came with a task.
fn answer(result: WorkflowQueryResult, sizes: Sizes) -> QueryAnswer {
    match sizes.is_too_large(result.answer.as_ref()) {
        true => QueryAnswer::TooLarge,
        false => result.into(),
    }
}

/// The version of the worker that completes a task, if it uses versioning. Older workers name a deployment alone.
fn completing_version(
    options: Option<&WorkerDeploymentOptions>,
    older: Option<&Deployment>,
) -> Option<WorkerDeploymentVersion> {
    let version = |name: &str, build_id: &str| WorkerDeploymentVersion {
        deployment_name: name.to_owned(),
        build_id: build_id.to_owned(),
    };
    match options {
        Some(options) => (options.worker_versioning_mode() == WorkerVersioningMode::Versioned)
            .then(|| version(&options.deployment_name, &options.build_id)),
        None => older.map(|older| version(&older.series_name, &older.build_id)),
    }
}

/// Whether a command asks for an activity that its own worker runs.
fn wants_eager(command: &Command) -> bool {
    matches!(&command.attributes, Some(Attributes::ScheduleActivityTaskCommandAttributes(a)) if a.request_eager_execution)
}

/// Lets an activity go through its queue, where workflow rules are looked at.
fn refuse_eager(command: &mut Command) {
    if let Some(Attributes::ScheduleActivityTaskCommandAttributes(activity)) = &mut command.attributes {
        activity.request_eager_execution = false;
    }
}

/// The version stamp of events, from what a poll says of itself. Only workers that use versioning leave one.
pub(crate) fn version_of(version: &PollerVersion) -> Option<WorkerVersionStamp> {
    let capabilities = version.capabilities.as_ref().filter(|capabilities| capabilities.use_versioning)?;
    Some(WorkerVersionStamp { build_id: capabilities.build_id.clone(), use_versioning: true })
}
