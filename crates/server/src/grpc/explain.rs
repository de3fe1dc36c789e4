//! Segno's own service about workflows: why one does not go on, and the pollers of a task queue.
//!
//! This module collects the data; [`crate::why`] makes the sentences.

use std::{collections::BTreeMap, sync::Arc};

use segno_engine::{Run, script};
use segno_node::{
    EndpointTarget, LaneService, LeaseView, MemberQueue, Namespace, NamespaceName, Node, QueueKey, QueueKind,
    QueueService, QueueType, TaskRoute, WorkflowKey, named_version, route_of,
};
use segno_proto::{
    nanos_timestamp,
    segno_workflow::{
        DescribeQueueRequest, DescribeQueueResponse, ExplainRequest, ExplainResponse, QueueLane, QueueSide,
    },
    timestamp_nanos,
};
use tonic::{Request, Response, Status};

use super::{Workflows, failed};
use crate::calls::Handlers;
use crate::why::{
    self, EndpointSnapshot, LaneSnapshot, QueueSnapshot, RunSnapshot, ScriptSnapshot, TargetCause, TaskTarget,
};

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
        let ExplainRequest { namespace, workflow_id, run_id } = request.into_inner();
        let namespace = self.workflows.namespace(&namespace)?;
        if workflow_id.is_empty() {
            return Err(Status::invalid_argument("WorkflowId is not set on request."));
        }
        let key = WorkflowKey::new(namespace.key, &workflow_id);
        let current = self.node.runs.snapshot(&key, &run_id).await.map_err(failed)?;
        let run = &current.run;
        let close_event = match run.is_running() {
            true => None,
            false => self.node.runs.last_event(&current).await.map_err(failed)?,
        };
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
        };
        Ok(Response::new(ExplainResponse {
            workflow_id: run.info.workflow_id.clone(),
            run_id: run.info.run_id.clone(),
            workflow_type: run.info.workflow_type.clone(),
            status: run.status().as_str_name().trim_start_matches("WORKFLOW_EXECUTION_STATUS_").to_owned(),
            reasons: why::reasons(&seen),
            last_task_failure: why::last_task_failure(run.state()),
            executed_by: script::executor(run).unwrap_or_default(),
        }))
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
