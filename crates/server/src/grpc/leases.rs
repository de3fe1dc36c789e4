//! Segno's own service for workers: leases by heartbeat, and lists of workers with their tasks.

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use segno_engine::{
    Run,
    lease::{Beat, BeatRefused, Hold},
    run_key_of,
};
use segno_node::{ActivityToken, LeaseView, Namespace, Node};
use segno_proto::{
    duration_nanos, nanos_duration, nanos_timestamp,
    segno_worker::{
        DescribeWorkerRequest, DescribeWorkerResponse, HeartbeatRequest, HeartbeatResponse, HeldActivity,
        HeldWorkflowTask, ListWorkersRequest, ListWorkersResponse, TokenMismatch, Worker, WorkerInactive, WorkerState,
    },
    worker::WorkerHeartbeat,
};
use tonic::{Code, Request, Response, Status};

use super::Workflows;
use crate::status;

/// Longest name of a worker, as for all names.
const KEY_BYTES_MAX: usize = 1000;

/// Segno's WorkerService.
pub struct WorkerLeases {
    node: Arc<Node>,
    workflows: Workflows,
}

impl WorkerLeases {
    /// The service on a node.
    pub fn new(node: Arc<Node>) -> Self {
        Self { workflows: Workflows::new(node.clone()), node }
    }

    /// Renews a lease.
    pub(crate) async fn heartbeat(
        &self,
        request: Request<HeartbeatRequest>,
    ) -> Result<Response<HeartbeatResponse>, Status> {
        let request = request.into_inner();
        let namespace = self.workflows.namespace(&request.namespace)?;
        let worker = &request.worker_instance_key;
        if worker.is_empty() || worker.len() > KEY_BYTES_MAX {
            return Err(Status::invalid_argument("worker_instance_key must have 1 to 1000 bytes"));
        }
        self.workflows.register_worker(namespace.key, worker)?;
        let beat = Beat {
            token: request.token.to_vec(),
            lease: duration_nanos(request.lease.as_ref()),
            bound: self.holds(&namespace, &request.bound_activities)?,
            unbound: self.holds(&namespace, &request.unbound_activities)?,
        };
        let token = self.node.workers.worker_heartbeat(namespace.key, worker, &beat).map_err(refused)?;
        let granted = self.node.workers.lease_of(namespace.key, worker).and_then(|lease| lease.remaining);
        let token = Bytes::copy_from_slice(&token);
        Ok(Response::new(HeartbeatResponse { token, lease: granted.map(nanos_duration) }))
    }

    /// The attempts that these task tokens name.
    fn holds(&self, namespace: &Namespace, tokens: &[Bytes]) -> Result<Vec<Hold>, Status> {
        let hold = |token: &Bytes| {
            let (_, token) = self.workflows.open::<ActivityToken>(&namespace.name, token)?;
            let run_key = run_key_of(&token.run_id).ok_or_else(|| Status::invalid_argument("not a task token"))?;
            Ok(Hold { run_key, scheduled_event_id: token.scheduled_event_id, started_time: token.started_time })
        };
        tokens.iter().map(hold).collect()
    }
}

impl WorkerLeases {
    pub(crate) async fn list_workers(
        &self,
        request: Request<ListWorkersRequest>,
    ) -> Result<Response<ListWorkersResponse>, Status> {
        let namespace = self.workflows.namespace(&request.into_inner().namespace)?;
        let told = self.node.workers.heartbeats.all(namespace.key, self.node.runs.now());
        let mut workers: BTreeMap<String, Worker> =
            told.iter().map(|heartbeat| (heartbeat.worker_instance_key.clone(), as_it_says(heartbeat))).collect();
        for lease in self.node.workers.leases_of(namespace.key) {
            let worker = workers.entry(lease.worker.clone()).or_default();
            add_lease(worker, &lease);
        }
        Ok(Response::new(ListWorkersResponse { workers: workers.into_values().collect() }))
    }

    pub(crate) async fn describe_worker(
        &self,
        request: Request<DescribeWorkerRequest>,
    ) -> Result<Response<DescribeWorkerResponse>, Status> {
        let request = request.into_inner();
        let namespace = self.workflows.namespace(&request.namespace)?;
        let key = &request.worker_instance_key;
        let told = self.node.workers.heartbeats.get(namespace.key, key, self.node.runs.now());
        let lease = self.node.workers.lease_of(namespace.key, key);
        if told.is_none() && lease.is_none() {
            return Err(status::not_found(format!("Worker {key} not found")));
        }
        let mut worker = told.map(|heartbeat| as_it_says(&heartbeat)).unwrap_or_default();
        if let Some(lease) = lease {
            add_lease(&mut worker, &lease);
            for run in self.node.workers.held_runs(&lease).await {
                add_holds(&mut worker, &run);
            }
        }
        Ok(Response::new(DescribeWorkerResponse { worker: Some(worker) }))
    }
}

fn refused(refused: BeatRefused) -> Status {
    let text = refused.to_string();
    match refused {
        BeatRefused::Inactive => {
            status::named(Code::FailedPrecondition, text, "segno.worker.v1.WorkerInactive", &WorkerInactive {})
        }
        BeatRefused::TokenMismatch { current } => {
            let detail = TokenMismatch { current_token: Bytes::copy_from_slice(&current) };
            status::named(Code::FailedPrecondition, text, "segno.worker.v1.TokenMismatch", &detail)
        }
        BeatRefused::TooMany => Status::resource_exhausted(text),
    }
}

fn as_it_says(heartbeat: &WorkerHeartbeat) -> Worker {
    let host = heartbeat.host_info.clone().unwrap_or_default();
    Worker {
        worker_instance_key: heartbeat.worker_instance_key.clone(),
        state: WorkerState::Gone as i32,
        identity: heartbeat.worker_identity.clone(),
        host_name: host.host_name,
        process_id: host.process_id,
        task_queue: heartbeat.task_queue.clone(),
        sdk_name: heartbeat.sdk_name.clone(),
        sdk_version: heartbeat.sdk_version.clone(),
        heartbeat_time: heartbeat.heartbeat_time,
        ..Default::default()
    }
}

fn add_lease(worker: &mut Worker, lease: &LeaseView) {
    worker.worker_instance_key.clone_from(&lease.worker);
    if worker.identity.is_empty() {
        worker.identity.clone_from(&lease.identity);
    }
    if worker.task_queue.is_empty() {
        worker.task_queue.clone_from(&lease.task_queue);
    }
    let state = if lease.detached { WorkerState::Detached } else { WorkerState::Active };
    worker.state = state as i32;
    worker.speaks_protocol = lease.speaks_protocol;
    worker.connections = lease.connections as i32;
    worker.lease_remaining = lease.remaining.map(nanos_duration);
    worker.activity_count = lease.holds.len() as i32;
    worker.workflow_task_count = lease.tasks.len() as i32;
}

fn add_holds(worker: &mut Worker, run: &Run) {
    let key = worker.worker_instance_key.clone();
    let (workflow_id, run_id) = (run.info.workflow_id.clone(), run.info.run_id.clone());
    for activity in run.state().activities.values().filter(|a| a.started_time != 0 && a.worker == key) {
        worker.activities.push(HeldActivity {
            workflow_id: workflow_id.clone(),
            run_id: run_id.clone(),
            activity_id: activity.activity_id.clone(),
            activity_type: activity.activity_type.clone(),
            attempt: activity.attempt,
            started_time: Some(nanos_timestamp(activity.started_time)),
        });
    }
    if run.state().task.as_ref().is_some_and(|task| task.started_event_id != 0 && task.worker == key) {
        worker.workflow_tasks.push(HeldWorkflowTask { workflow_id, run_id });
    }
}
