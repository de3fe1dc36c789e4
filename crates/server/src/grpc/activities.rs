//! The worker's side of activities: poll, heartbeat, complete, fail, cancel; by token and by id.

use prost_types::Duration;
use segno_engine::{
    Run,
    activity::{self, ActivityRef, HeartbeatReply},
    priority,
    repeats::{self, Call, Digest},
    standalone::WORKFLOW_ID_PREFIX,
};
use segno_node::{
    ActivityToken, CallError, Caller, ConnectionId, Namespace, Poll, PollOutcome, PollerVersion, QueueKey, QueueKind,
    RunSelector, StartedActivity, Token, WorkflowKey,
};
use segno_proto::{
    common::{ActivityType, Payloads, WorkerVersionStamp, WorkflowExecution, WorkflowType},
    failure::Failure,
    nanos_duration, nanos_timestamp,
    workflowservice::{
        PollActivityTaskQueueRequest, PollActivityTaskQueueResponse, RecordActivityTaskHeartbeatByIdRequest,
        RecordActivityTaskHeartbeatByIdResponse, RecordActivityTaskHeartbeatRequest,
        RecordActivityTaskHeartbeatResponse, RespondActivityTaskCanceledByIdRequest,
        RespondActivityTaskCanceledByIdResponse, RespondActivityTaskCanceledRequest,
        RespondActivityTaskCanceledResponse, RespondActivityTaskCompletedByIdRequest,
        RespondActivityTaskCompletedByIdResponse, RespondActivityTaskCompletedRequest,
        RespondActivityTaskCompletedResponse, RespondActivityTaskFailedByIdRequest,
        RespondActivityTaskFailedByIdResponse, RespondActivityTaskFailedRequest, RespondActivityTaskFailedResponse,
    },
};
use tokio::time::Instant;
use tonic::{Code, Request, Response, Status};

use super::{
    Workflows, failed, refused,
    routing::answer_there,
    standalone::{activity_key, failed_for},
    tokens::activity_of,
    workflow_tasks::{scaling, version_of},
};
use crate::{
    deadline,
    peers::{self, CallMetadata},
    security, validate,
};

/// A started activity as the wire has it.
pub(crate) fn response(namespace: &Namespace, task: StartedActivity) -> PollActivityTaskQueueResponse {
    let (info, activity, scheduled) = (&task.run.info, task.activity, task.scheduled);
    let standalone = activity.standalone;
    let token = ActivityToken {
        workflow_id: info.workflow_id.clone(),
        run_id: info.run_id.clone(),
        scheduled_event_id: activity.scheduled_event_id,
        attempt: activity.attempt,
        started_time: activity.started_time,
        activity_id: activity.activity_id.clone(),
    };
    // A standalone activity is told what its options are now, one of a workflow what it was scheduled with.
    let now_or = |scheduled: Option<Duration>, now| if standalone { Some(nanos_duration(now)) } else { scheduled };
    PollActivityTaskQueueResponse {
        task_token: token.seal(&namespace.token_key),
        workflow_namespace: info.namespace.clone(),
        workflow_type: (!standalone).then(|| WorkflowType { name: info.workflow_type.clone() }),
        // Temporal names an execution without ids here.
        workflow_execution: Some(if standalone { WorkflowExecution::default() } else { info.execution() }),
        activity_run_id: if standalone { info.run_id.clone() } else { String::new() },
        activity_type: Some(ActivityType { name: activity.activity_type }),
        activity_id: activity.activity_id,
        header: scheduled.header,
        input: scheduled.input,
        heartbeat_details: activity.heartbeat_details,
        scheduled_time: Some(nanos_timestamp(match standalone {
            true => info.start_time,
            false => activity.first_scheduled_time,
        })),
        current_attempt_scheduled_time: Some(nanos_timestamp(activity.scheduled_time)),
        started_time: Some(nanos_timestamp(activity.started_time)),
        attempt: activity.attempt,
        schedule_to_close_timeout: now_or(scheduled.schedule_to_close_timeout, activity.schedule_to_close),
        start_to_close_timeout: now_or(scheduled.start_to_close_timeout, activity.start_to_close),
        heartbeat_timeout: now_or(scheduled.heartbeat_timeout, activity.heartbeat),
        retry_policy: activity.retry_policy,
        priority: match standalone {
            true => activity.priority,
            false => priority::merged(info.priority.as_ref(), activity.priority.as_ref()),
        },
        ..Default::default()
    }
}

/// Which activity a call means, and of which run.
struct Target {
    key: WorkflowKey,
    selector: RunSelector,
    activity: ActivityRef,
    /// Recognises the same result when it comes again.
    digest: Digest,
    /// The id of a standalone activity.
    standalone: Option<String>,
}

/// The status of a call about an activity that failed.
fn failed_at(standalone: Option<&str>, error: CallError) -> Status {
    match standalone {
        Some(activity_id) => failed_for(activity_id, error),
        None => failed(error),
    }
}

impl Target {
    /// A standalone activity whose end was reported is not found when that is reported again, as in Temporal.
    fn recognised_by(self, digest: Digest) -> Self {
        if self.standalone.is_some() { self } else { Self { digest, ..self } }
    }
}

impl Workflows {
    pub(crate) async fn poll_activity(
        &self,
        request: Request<PollActivityTaskQueueRequest>,
    ) -> Result<Response<PollActivityTaskQueueResponse>, Status> {
        security::check_queue(&request, request.get_ref().task_queue.as_ref(), false)?;
        let (until, metadata) = (deadline::poll(&request), CallMetadata::of(&request));
        let (task, call) = self.poll_among_nodes(&request);
        let mut request = request.into_inner();
        let namespace = self.namespace(&request.namespace)?;
        validate::worker::poll_activity_task(&mut request).map_err(refused)?;
        let poll = Poll {
            queue: QueueKey {
                namespace: namespace.key,
                kind: QueueKind::Activity,
                name: request.task_queue.unwrap_or_default().name,
            },
            identity: request.identity,
            caller: Caller {
                worker: request.worker_instance_key,
                control_queue: request.worker_control_task_queue,
                connection: metadata.connection,
            },
            sticky: false,
            deadline: until?,
            tasks_per_second: request.task_queue_metadata.and_then(|metadata| metadata.max_tasks_per_second),
            version: PollerVersion {
                capabilities: request.worker_version_capabilities,
                deployment: request.deployment_options,
            },
            sdk: metadata.sdk(),
        };
        let version = version_of(&poll.version);
        let begun = Instant::now();
        let polled: Option<PollOutcome<StartedActivity>> = match task {
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
            None => return Ok(Response::new(PollActivityTaskQueueResponse::default())),
        };
        let delivery = started.delivery.clone();
        let poller_scaling_decision = scaling(self.node.matching.advice(&poll.queue, &poll.version, begun.elapsed()));
        let task = response(&namespace, started);
        let mut response = Response::new(PollActivityTaskQueueResponse { poller_scaling_decision, ..task });
        response.extensions_mut().insert(delivery);
        Ok(response)
    }

    fn by_token(&self, namespace: &str, token: &bytes::Bytes) -> Result<Target, Status> {
        let (namespace, token) = self.open_any::<ActivityToken>(namespace, token)?;
        let (key, activity) = activity_of(&namespace, &token);
        let standalone = token.workflow_id.starts_with(WORKFLOW_ID_PREFIX).then_some(token.activity_id);
        Ok(Target { key, selector: RunSelector::run(token.run_id), activity, digest: Digest::default(), standalone })
    }

    fn by_id(&self, namespace: &str, workflow_id: &str, run_id: &str, activity_id: &str) -> Result<Target, Status> {
        let namespace = self.namespace(namespace)?;
        let standalone = workflow_id.is_empty().then(|| activity_id.to_owned());
        Ok(Target {
            key: match &standalone {
                Some(activity_id) => activity_key(&namespace, activity_id),
                None => WorkflowKey::new(namespace.key, workflow_id),
            },
            selector: RunSelector::run(run_id),
            activity: ActivityRef::Id(activity_id.to_owned()),
            // An id may be used again, so that the same result again may be meant for another activity.
            digest: Digest::default(),
            standalone,
        })
    }

    /// Details that are too large fail the activity instead.
    async fn heartbeat_or_fail(
        &self,
        target: Target,
        instead: Option<Failure>,
        details: Option<Payloads>,
        identity: String,
        connection: Option<ConnectionId>,
    ) -> Result<HeartbeatReply, Status> {
        if instead.is_some() {
            self.fail_at(target, instead, identity, None, None).await?;
            return Ok(HeartbeatReply { cancel_requested: true, ..Default::default() });
        }
        let Target { key, selector, activity, standalone, .. } = target;
        let taken = self.node.workers.activity_heartbeat(&key, &selector, activity, details, identity, connection);
        taken.await.map_err(|error| failed_at(standalone.as_deref(), error))
    }

    async fn complete_at(
        &self,
        target: Target,
        result: Option<Payloads>,
        identity: String,
        version: Option<WorkerVersionStamp>,
    ) -> Result<(), Status> {
        let Target { key, selector, activity, digest, standalone } = target;
        let workers = self.node.workers.clone();
        let apply = move |run: &Run, context| {
            workers.note_arrival(run, &activity);
            let completed = activity::complete(run, context, &activity, result, identity, version);
            repeats::result(run, context, digest, completed)
        };
        let taken = self.node.runs.transact(&key, &selector, apply).await;
        taken.map_err(|error| failed_at(standalone.as_deref(), error))
    }

    async fn fail_at(
        &self,
        target: Target,
        failure: Option<Failure>,
        identity: String,
        details: Option<Payloads>,
        version: Option<WorkerVersionStamp>,
    ) -> Result<(), Status> {
        let Target { key, selector, activity, digest, standalone } = target;
        let workers = self.node.workers.clone();
        let apply = move |run: &Run, context| {
            workers.note_arrival(run, &activity);
            let failed = activity::fail(run, context, &activity, failure, identity, details, version);
            repeats::result(run, context, digest, failed)
        };
        let taken = self.node.runs.transact(&key, &selector, apply).await;
        taken.map_err(|error| failed_at(standalone.as_deref(), error))
    }

    async fn cancel_at(
        &self,
        target: Target,
        details: Option<Payloads>,
        identity: String,
        version: Option<WorkerVersionStamp>,
    ) -> Result<(), Status> {
        let Target { key, selector, activity, digest, standalone } = target;
        let workers = self.node.workers.clone();
        let apply = move |run: &Run, context| {
            workers.note_arrival(run, &activity);
            let canceled = activity::cancel(run, context, &activity, details, identity, version);
            repeats::result(run, context, digest, canceled)
        };
        let taken = self.node.runs.transact(&key, &selector, apply).await;
        taken.map_err(|error| failed_at(standalone.as_deref(), error))
    }

    pub(crate) async fn heartbeat(
        &self,
        request: Request<RecordActivityTaskHeartbeatRequest>,
    ) -> Result<RecordActivityTaskHeartbeatResponse, Status> {
        let connection = peers::of(&request);
        let mut request = request.into_inner();
        let instead = validate::activity::heartbeat(&mut request, self.sizes()).map_err(refused)?;
        let target = self.by_token(&request.namespace, &request.task_token)?;
        let HeartbeatReply { cancel_requested, paused: activity_paused, reset: activity_reset } =
            self.heartbeat_or_fail(target, instead, request.details, request.identity, connection).await?;
        Ok(RecordActivityTaskHeartbeatResponse { cancel_requested, activity_paused, activity_reset })
    }

    pub(crate) async fn heartbeat_by_id(
        &self,
        mut request: RecordActivityTaskHeartbeatByIdRequest,
    ) -> Result<RecordActivityTaskHeartbeatByIdResponse, Status> {
        let instead = validate::activity::heartbeat_by_id(&mut request, self.sizes()).map_err(refused)?;
        let target = self.by_id(&request.namespace, &request.workflow_id, &request.run_id, &request.activity_id)?;
        let HeartbeatReply { cancel_requested, paused: activity_paused, reset: activity_reset } =
            self.heartbeat_or_fail(target, instead, request.details, request.identity, None).await?;
        Ok(RecordActivityTaskHeartbeatByIdResponse { cancel_requested, activity_paused, activity_reset })
    }

    pub(crate) async fn activity_completed(
        &self,
        mut request: RespondActivityTaskCompletedRequest,
    ) -> Result<RespondActivityTaskCompletedResponse, Status> {
        let digest = Digest::of(Call::ActivityCompleted, &request);
        let instead = validate::activity::completed(&mut request, self.sizes()).map_err(refused)?;
        let target = self.by_token(&request.namespace, &request.task_token)?.recognised_by(digest);
        match instead {
            Some(failure) => {
                self.fail_at(target, Some(failure), request.identity, None, request.worker_version).await?
            }
            None => self.complete_at(target, request.result, request.identity, request.worker_version).await?,
        }
        Ok(RespondActivityTaskCompletedResponse::default())
    }

    pub(crate) async fn activity_completed_by_id(
        &self,
        mut request: RespondActivityTaskCompletedByIdRequest,
    ) -> Result<RespondActivityTaskCompletedByIdResponse, Status> {
        let instead = validate::activity::completed_by_id(&mut request, self.sizes()).map_err(refused)?;
        let target = self.by_id(&request.namespace, &request.workflow_id, &request.run_id, &request.activity_id)?;
        match instead {
            Some(failure) => self.fail_at(target, Some(failure), request.identity, None, None).await?,
            None => {
                let standalone = target.standalone.clone();
                let completed = self.complete_at(target, request.result, request.identity, None).await;
                match (completed, standalone) {
                    (Err(refusal), Some(id)) if refusal.code() == Code::NotFound => {
                        return Err(self.completed_after_end(&request.namespace, &id, &request.run_id).await);
                    }
                    (completed, _) => completed?,
                }
            }
        }
        Ok(RespondActivityTaskCompletedByIdResponse::default())
    }

    pub(crate) async fn activity_failed(
        &self,
        mut request: RespondActivityTaskFailedRequest,
    ) -> Result<RespondActivityTaskFailedResponse, Status> {
        let digest = Digest::of(Call::ActivityFailed, &request);
        let failures = validate::activity::failed(&mut request, self.sizes()).map_err(refused)?;
        let target = self.by_token(&request.namespace, &request.task_token)?.recognised_by(digest);
        let (details, version) = (request.last_heartbeat_details, request.worker_version);
        self.fail_at(target, request.failure, request.identity, details, version).await?;
        Ok(RespondActivityTaskFailedResponse { failures })
    }

    pub(crate) async fn activity_failed_by_id(
        &self,
        mut request: RespondActivityTaskFailedByIdRequest,
    ) -> Result<RespondActivityTaskFailedByIdResponse, Status> {
        let failures = validate::activity::failed_by_id(&mut request, self.sizes()).map_err(refused)?;
        let target = self.by_id(&request.namespace, &request.workflow_id, &request.run_id, &request.activity_id)?;
        self.fail_at(target, request.failure, request.identity, request.last_heartbeat_details, None).await?;
        Ok(RespondActivityTaskFailedByIdResponse { failures })
    }

    pub(crate) async fn activity_canceled(
        &self,
        mut request: RespondActivityTaskCanceledRequest,
    ) -> Result<RespondActivityTaskCanceledResponse, Status> {
        let digest = Digest::of(Call::ActivityCanceled, &request);
        let instead = validate::activity::canceled(&mut request, self.sizes()).map_err(refused)?;
        let target = self.by_token(&request.namespace, &request.task_token)?.recognised_by(digest);
        match instead {
            Some(failure) => {
                self.fail_at(target, Some(failure), request.identity, None, request.worker_version).await?
            }
            None => self.cancel_at(target, request.details, request.identity, request.worker_version).await?,
        }
        Ok(RespondActivityTaskCanceledResponse::default())
    }

    pub(crate) async fn activity_canceled_by_id(
        &self,
        mut request: RespondActivityTaskCanceledByIdRequest,
    ) -> Result<RespondActivityTaskCanceledByIdResponse, Status> {
        let instead = validate::activity::canceled_by_id(&mut request, self.sizes()).map_err(refused)?;
        let target = self.by_id(&request.namespace, &request.workflow_id, &request.run_id, &request.activity_id)?;
        match instead {
            Some(failure) => self.fail_at(target, Some(failure), request.identity, None, None).await?,
            None => self.cancel_at(target, request.details, request.identity, None).await?,
        }
        Ok(RespondActivityTaskCanceledByIdResponse::default())
    }
}
