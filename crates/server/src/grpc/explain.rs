//! Segno's own service about workflows: why one does not go on, and the pollers of a task queue.
//!
//! This module collects the data; [`crate::why`] makes the sentences.

use std::{collections::BTreeMap, sync::Arc};

use segno_engine::{Run, schedule, script, standalone};
use segno_node::{
    CallError, Current, EndpointTarget, LaneService, LeaseView, MemberQueue, Namespace, NamespaceName, Node, QueueKey,
    QueueKind, QueueService, QueueType, TaskRoute, WorkflowKey, named_version, route_of,
};
use segno_proto::{
    events::{HistoryEvent, history_event::Attributes},
    nanos_timestamp,
    segno_workflow::{
        DescribeQueueRequest, DescribeQueueResponse, ExplainRequest, ExplainResponse, QueueLane, QueueSide, Reason,
    },
    timestamp_nanos,
};
use tonic::{Request, Response, Status};

use super::{Workflows, failed};
use crate::calls::Handlers;
use crate::why::{
    self, CancelSnapshot, EndpointSnapshot, LaneSnapshot, QueueSnapshot, RunSnapshot, ScriptSnapshot, TargetCause,
    TaskTarget, UpdateSnapshot,
};

/// Generations of children that are explained with a run, and the most that a caller gets.
const GENERATIONS: i32 = 5;
const GENERATIONS_MAX: i32 = 10;
/// Children of a run that are explained with it.
const CHILDREN_MAX: usize = 3;
/// Updates whose names are read.
const UPDATES_MAX: usize = 20;
/// Batches of events, from the end, in which the request to cancel is searched for.
const CANCEL_BATCHES_MAX: usize = 200;

/// The subject of an explanation, other than a batch job.
struct Subject {
    /// The id of a schedule or of an activity; empty for a workflow.
    id: String,
    /// The workflow id of its run.
    workflow_id: String,
    is_activity: bool,
}

impl Subject {
    fn of(request: &ExplainRequest) -> Result<Self, Status> {
        let ExplainRequest { workflow_id, schedule_id, activity_id, .. } = request;
        let (id, prefix) = match (schedule_id.as_str(), activity_id.as_str()) {
            ("", "") => ("", ""),
            ("", activity_id) => (activity_id, standalone::WORKFLOW_ID_PREFIX),
            (schedule_id, _) => (schedule_id, schedule::WORKFLOW_ID_PREFIX),
        };
        if id.is_empty() && workflow_id.is_empty() {
            return Err(Status::invalid_argument("WorkflowId is not set on request."));
        }
        let workflow_id = if id.is_empty() { workflow_id.clone() } else { format!("{prefix}{id}") };
        Ok(Self { id: id.to_owned(), workflow_id, is_activity: prefix == standalone::WORKFLOW_ID_PREFIX })
    }

    /// Says what was not found by the name that the caller knows.
    fn failed(&self, error: CallError) -> Status {
        match error {
            CallError::WorkflowNotFound { .. } | CallError::RunNotFound { .. } if !self.id.is_empty() => {
                let what = if self.is_activity { "activity" } else { "schedule" };
                Status::not_found(format!("{what} not found for ID: {}", self.id))
            }
            other => failed(other),
        }
    }
}

/// Segno's WorkflowService.
#[derive(Clone)]
pub struct WorkflowExplanations {
    node: Arc<Node>,
    workflows: Arc<Workflows>,
}

impl WorkflowExplanations {
    /// The service on a node.
    pub fn new(node: Arc<Node>) -> Self {
        Self { workflows: Arc::new(Workflows::new(node.clone())), node }
    }

    /// Why a run does not go on.
    pub(crate) async fn explain(
        &self,
        handlers: &Arc<Handlers>,
        request: Request<ExplainRequest>,
    ) -> Result<Response<ExplainResponse>, Status> {
        let request = request.into_inner();
        let namespace = self.workflows.namespace(&request.namespace)?;
        if !request.job_id.is_empty() {
            return self.explain_batch(&namespace, request.job_id).await;
        }
        let subject = Subject::of(&request)?;
        let key = WorkflowKey::new(namespace.key, &subject.workflow_id);
        let current = self.node.runs.snapshot(&key, &request.run_id).await.map_err(|error| subject.failed(error))?;
        let run = &current.run;
        let has_history = !run.is_running() && run.state().standalone.is_none();
        let close_event = match has_history {
            false => None,
            true => self.node.runs.last_event(&current).await.map_err(failed)?,
        };
        let generations = request.generations.unwrap_or(GENERATIONS).clamp(0, GENERATIONS_MAX);
        let script = self.script(&namespace, &key, run).await;
        let leases = self.node.workers.leases_of(namespace.key);
        let (workflow_queue, activity_queues) = self.queues(handlers, &namespace, run, &leases).await?;
        let seen = RunSnapshot {
            run,
            now: self.node.runs.clock_now(),
            workflow_queue,
            activity_queues,
            endpoints: self.endpoints(handlers, run).await?,
            workers: leases.into_iter().map(|lease| (lease.worker.clone(), lease)).collect(),
            script,
            namesake: self.node.scripts.current_version(&namespace, &run.info.workflow_type).is_some(),
            close_event,
            children: self.children(handlers, run, generations).await,
            updates: self.updates(&current).await,
            cancel: self.cancel(&current).await,
        };
        let activity_type = run.state().activities.values().next().map(|activity| activity.activity_type.clone());
        Ok(Response::new(ExplainResponse {
            workflow_id: if subject.id.is_empty() { run.info.workflow_id.clone() } else { String::new() },
            id: subject.id,
            run_id: run.info.run_id.clone(),
            workflow_type: activity_type
                .filter(|_| run.state().standalone.is_some())
                .unwrap_or_else(|| run.info.workflow_type.clone()),
            status: run.status().as_str_name().trim_start_matches("WORKFLOW_EXECUTION_STATUS_").to_owned(),
            reasons: why::reasons(&seen),
            last_task_failure: why::last_task_failure(run.state()),
            executed_by: script::executor(run).unwrap_or_default(),
        }))
    }

    /// How far a batch job has come.
    async fn explain_batch(&self, namespace: &Namespace, job_id: String) -> Result<Response<ExplainResponse>, Status> {
        let (info, _) = self.node.batches.describe(namespace, &job_id).await.map_err(failed)?;
        Ok(Response::new(ExplainResponse {
            id: job_id,
            status: info.state().as_str_name().trim_start_matches("BATCH_OPERATION_STATE_").to_owned(),
            reasons: why::reasons_of_batch(&namespace.name, &info, self.node.runs.clock_now()),
            ..Default::default()
        }))
    }

    /// The reasons of the first open children, by their workflow ids. One that cannot be asked is left out.
    async fn children(&self, handlers: &Arc<Handlers>, run: &Run, generations: i32) -> BTreeMap<String, Vec<Reason>> {
        let mut explained = BTreeMap::new();
        if generations == 0 || !run.is_running() {
            return explained;
        }
        let open = run.state().children.values().filter(|child| child.started_event_id != 0);
        for child in open.take(CHILDREN_MAX) {
            let namespace = if child.namespace.is_empty() { &run.info.namespace } else { &child.namespace };
            // The caller may read this namespace; whether it may read another one is not known here.
            if *namespace != run.info.namespace {
                continue;
            }
            let request = ExplainRequest {
                namespace: namespace.clone(),
                workflow_id: child.workflow_id.clone(),
                generations: Some(generations - 1),
                ..Default::default()
            };
            if let Ok(answer) = handlers.make(&request).await {
                explained.insert(child.workflow_id.clone(), answer.reasons);
            }
        }
        explained
    }

    /// Names and times of the first updates that are not finished.
    async fn updates(&self, current: &Current) -> BTreeMap<String, UpdateSnapshot> {
        let mut found = BTreeMap::new();
        let waiting = current.run.updates().waiting();
        for update in waiting.iter().take(UPDATES_MAX) {
            let request = update.request.as_ref().or(update.admitted.as_ref());
            if let Some(input) = request.and_then(|request| request.input.as_ref()) {
                found.insert(update.id.clone(), UpdateSnapshot { name: input.name.clone(), time: 0 });
            }
        }
        let stored = current.run.state().updates.iter().filter(|(_, record)| !record.is_finished());
        for (id, record) in stored.take(UPDATES_MAX) {
            let event_id =
                if record.accepted_event_id > 0 { record.accepted_event_id } else { record.admitted_event_id };
            let Some(event) = self.event(current, event_id).await else { continue };
            let request = match &event.attributes {
                Some(Attributes::WorkflowExecutionUpdateAcceptedEventAttributes(event)) => {
                    event.accepted_request.as_ref()
                }
                Some(Attributes::WorkflowExecutionUpdateAdmittedEventAttributes(event)) => event.request.as_ref(),
                _ => None,
            };
            let name = request.and_then(|request| request.input.as_ref()).map(|input| input.name.clone());
            // The acceptance of an update that an event admitted has no request.
            let name = name.or_else(|| found.get(id).map(|update| update.name.clone())).unwrap_or_default();
            let time = event.event_time.as_ref().map_or(0, timestamp_nanos);
            found.insert(id.clone(), UpdateSnapshot { name, time });
        }
        found.retain(|_, update| !update.name.is_empty());
        found
    }

    /// An event, stored or in the tail; none if it cannot be read.
    async fn event(&self, current: &Current, id: i64) -> Option<HistoryEvent> {
        match current.run.tail().iter().find(|event| event.event_id == id) {
            Some(event) => Some(event.clone()),
            None if id > 0 => self.node.runs.stored_event(current, id).await.ok(),
            None => None,
        }
    }

    /// The request to cancel a run, if one of its newest events is that.
    async fn cancel(&self, current: &Current) -> Option<CancelSnapshot> {
        let state = current.run.state();
        if let Some(standalone) = &state.standalone {
            let asked = standalone.cancel.as_ref()?;
            let (identity, cause) = (asked.identity.clone(), asked.reason.clone());
            return Some(CancelSnapshot { identity, cause, ..Default::default() });
        }
        if !state.cancel_requested {
            return None;
        }
        let newest = self.node.runs.history_reverse(current, i64::MAX, CANCEL_BATCHES_MAX).await.ok()?;
        let buffered = state.buffered.iter();
        newest.events.iter().chain(buffered).find_map(|event| match &event.attributes {
            Some(Attributes::WorkflowExecutionCancelRequestedEventAttributes(asked)) => Some(CancelSnapshot {
                identity: asked.identity.clone(),
                workflow_id: asked.external_workflow_execution.clone().unwrap_or_default().workflow_id,
                cause: asked.cause.clone(),
                time: event.event_time.as_ref().map_or(0, timestamp_nanos),
            }),
            _ => None,
        })
    }

    /// Where a script stands. Nothing if the run is none, or if it has not taken its first turn.
    async fn script(&self, namespace: &Namespace, key: &WorkflowKey, run: &Run) -> Option<ScriptSnapshot> {
        run.state().script.as_ref().filter(|_| run.is_running())?;
        let view = self.node.scripts.describe_run(namespace, key, &run.info.run_id, 0).await.ok()?;
        ScriptSnapshot::new(&view.state, view.file_name, &view.source)
    }

    /// The queues in which tasks of the run wait.
    async fn queues(
        &self,
        handlers: &Arc<Handlers>,
        namespace: &Namespace,
        run: &Run,
        leases: &[LeaseView],
    ) -> Result<(QueueSnapshot, BTreeMap<String, QueueSnapshot>), Status> {
        let state = run.state();
        let mut workflow = QueueSnapshot::default();
        let waits = state.task.as_ref().filter(|task| task.started_event_id == 0 && !task.sticky);
        if let Some(task) = waits.filter(|_| state.script.is_none()) {
            workflow = self.queue(handlers, namespace, run, (&task.queue, QueueKind::Workflow), leases).await?;
        }
        let mut activities = BTreeMap::new();
        for activity in state.activities.values().filter(|activity| activity.started_time == 0) {
            if !activities.contains_key(&activity.queue) {
                let queue = (activity.queue.as_str(), QueueKind::Activity);
                let seen = self.queue(handlers, namespace, run, queue, leases).await?;
                activities.insert(activity.queue.clone(), seen);
            }
        }
        Ok((workflow, activities))
    }

    /// The endpoints of pending Nexus operations, by their ids.
    async fn endpoints(
        &self,
        handlers: &Arc<Handlers>,
        run: &Run,
    ) -> Result<BTreeMap<String, EndpointSnapshot>, Status> {
        let mut endpoints = BTreeMap::new();
        for operation in run.state().operations.values() {
            let id = &operation.endpoint_id;
            let Some(endpoint) = self.node.runs.endpoints.find(id, &operation.endpoint) else { continue };
            if endpoints.contains_key(id) {
                continue;
            }
            let target = match &endpoint.target {
                Some(EndpointTarget::Worker(target)) if target.queue == script::QUEUE => EndpointSnapshot::Server,
                Some(EndpointTarget::Worker(target)) => {
                    let id = NamespaceName::Id(target.namespace_id.clone());
                    let Some(namespace) = self.node.runs.namespaces.find(&id) else { continue };
                    let leases = self.node.workers.leases_of(namespace.key);
                    let key = (target.queue.as_str(), QueueKind::Nexus);
                    let seen = self.queue(handlers, &namespace, run, key, &leases).await?;
                    EndpointSnapshot::Queue { namespace: namespace.name.clone(), queue: target.queue.clone(), seen }
                }
                Some(EndpointTarget::External(url)) => {
                    let namespace = segno_store::NamespaceKey(run.info.namespace_key);
                    let is_blocked = self.node.http_sender.blocks_endpoint(namespace, id, &operation.endpoint);
                    EndpointSnapshot::Url { url: url.clone(), is_blocked }
                }
                None => continue,
            };
            endpoints.insert(id.clone(), target);
        }
        Ok(endpoints)
    }

    /// A queue in which a task of a run waits, as its home knows it.
    async fn queue(
        &self,
        handlers: &Arc<Handlers>,
        namespace: &Namespace,
        run: &Run,
        (name, kind): (&str, QueueKind),
        leases: &[LeaseView],
    ) -> Result<QueueSnapshot, Status> {
        let request = DescribeQueueRequest { namespace: namespace.name.clone(), task_queue: name.to_owned() };
        let told = handlers.make(&request).await?;
        let side = match kind {
            QueueKind::Workflow => told.workflow,
            QueueKind::Nexus => told.nexus,
            _ => told.activity,
        };
        let side = side.unwrap_or_default();
        let serves = |lease: &&LeaseView| lease.task_queue == name && !lease.leaving && !lease.detached;
        let key = QueueKey { namespace: namespace.key, kind, name: name.to_owned() };
        let (_, is_limited) = self.node.matching.limit_of(&key);
        let service = QueueService {
            polls_waiting: side.polls_waiting.max(0) as usize,
            last_poll: side.last_poll.as_ref().map(timestamp_nanos),
            backlog: side.backlog.max(0) as usize,
        };
        let target = self.target(run, &key, side.lanes);
        let Some(lane) = target.as_ref().map(TaskTarget::lane) else {
            let live_workers = leases.iter().filter(serves).count();
            return Ok(QueueSnapshot { service, live_workers, is_limited, target });
        };
        let (service, live_workers) = lane.map(|lane| (lane.service, lane.pollers)).unwrap_or_default();
        Ok(QueueSnapshot { service, live_workers, is_limited, target })
    }

    /// The version whose workers get a task of a run; `None` if versions do not use the queue.
    fn target(&self, run: &Run, key: &QueueKey, lanes: Vec<QueueLane>) -> Option<TaskTarget> {
        let lanes: Vec<_> = lanes.into_iter().map(lane_snapshot).collect();
        let route = if key.kind == QueueKind::Nexus { TaskRoute::default() } else { route_of(run) };
        let version = self.node.matching.version_for(key, &route);
        if version.is_none() && lanes.iter().all(|lane| lane.version.is_none()) {
            return None;
        }
        let deployments = &self.node.runs.deployments;
        let kind = match key.kind {
            QueueKind::Workflow => QueueType::Workflow,
            QueueKind::Nexus => QueueType::Nexus,
            _ => QueueType::Activity,
        };
        let routing = deployments.routing(key.namespace, &MemberQueue { name: key.name.clone(), kind });
        let ramp = routing.and_then(|routing| routing.ramp.clone()).filter(|ramp| ramp.target.version == version);
        let cause = match ramp {
            _ if version.is_some() && route.pinned == version => TargetCause::Pinned,
            Some(ramp) => TargetCause::Ramping(ramp.percentage),
            None => TargetCause::Current,
        };
        let is_registered = version.as_ref().is_none_or(|version| {
            let deployment = deployments.deployment(key.namespace, &version.deployment_name);
            deployment.is_some_and(|deployment| deployment.build(&version.build_id).is_some())
        });
        Some(TaskTarget { version, cause, is_registered, lanes })
    }

    /// The workers and tasks of a queue, as its home knows them.
    pub(crate) async fn describe_queue(
        &self,
        request: Request<DescribeQueueRequest>,
    ) -> Result<Response<DescribeQueueResponse>, Status> {
        let DescribeQueueRequest { namespace, task_queue } = request.into_inner();
        let namespace = self.workflows.namespace(&namespace)?;
        if task_queue.is_empty() {
            return Err(Status::invalid_argument("missing task queue name"));
        }
        let side = |kind| {
            let key = QueueKey { namespace: namespace.key, kind, name: task_queue.clone() };
            let service = self.node.matching.service(&key);
            Some(QueueSide {
                polls_waiting: service.polls_waiting.try_into().unwrap_or(i32::MAX),
                last_poll: service.last_poll.map(nanos_timestamp),
                backlog: service.backlog.try_into().unwrap_or(i64::MAX),
                lanes: self.node.matching.lanes(&key).into_iter().map(queue_lane).collect(),
            })
        };
        Ok(Response::new(DescribeQueueResponse {
            workflow: side(QueueKind::Workflow),
            activity: side(QueueKind::Activity),
            nexus: side(QueueKind::Nexus),
        }))
    }
}

fn queue_lane(lane: LaneService) -> QueueLane {
    let LaneService { version, service, pollers } = lane;
    let (deployment_name, build_id) =
        version.map(|version| (version.deployment_name.clone(), version.build_id.clone())).unwrap_or_default();
    QueueLane {
        deployment_name,
        build_id,
        polls_waiting: service.polls_waiting.try_into().unwrap_or(i32::MAX),
        last_poll: service.last_poll.map(nanos_timestamp),
        backlog: service.backlog.try_into().unwrap_or(i64::MAX),
        pollers: pollers.try_into().unwrap_or(i32::MAX),
    }
}

fn lane_snapshot(lane: QueueLane) -> LaneSnapshot {
    let is_versioned = !lane.build_id.is_empty();
    LaneSnapshot {
        version: is_versioned.then(|| named_version(lane.deployment_name, lane.build_id)),
        service: QueueService {
            polls_waiting: lane.polls_waiting.max(0) as usize,
            last_poll: lane.last_poll.as_ref().map(timestamp_nanos),
            backlog: lane.backlog.max(0) as usize,
        },
        pollers: lane.pollers.max(0) as usize,
    }
}
