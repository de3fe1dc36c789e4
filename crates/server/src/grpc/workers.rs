//! Workers: their heartbeats, lists of them, and ShutdownWorker.

use std::sync::Arc;

use segno_node::{CONTROL_QUEUES, ConnectionId, QueueKind, WorkerQuery};
use segno_proto::{
    enums::{ResourceExhaustedCause, ResourceExhaustedScope, TaskQueueType, WorkerStatus},
    worker::{WorkerHeartbeat, WorkerInfo, WorkerListInfo},
    workflowservice::{
        CountWorkersRequest, CountWorkersResponse, DescribeWorkerRequest, DescribeWorkerResponse, ListWorkersRequest,
        ListWorkersResponse, RecordWorkerHeartbeatRequest, RecordWorkerHeartbeatResponse, ShutdownWorkerRequest,
        ShutdownWorkerResponse,
    },
};
use segno_store::NamespaceKey;
use tonic::{Request, Status};

use super::{Workflows, refused};
use crate::{peers, status, validate};

/// Most workers in one answer.
const PAGE_SIZE_MAX: usize = 1000;

impl Workflows {
    pub(crate) fn shut_down_worker(
        &self,
        request: Request<ShutdownWorkerRequest>,
    ) -> Result<ShutdownWorkerResponse, Status> {
        let connection = peers::of(&request);
        let mut request = request.into_inner();
        let namespace = self.namespace(&request.namespace)?;
        validate::worker::shutdown(&mut request).map_err(refused)?;
        // SDKs end what takes commands with the key of one of the workers that it serves. That worker may go on, as after
        // a change of its client.
        let is_control = request.task_queue.starts_with(CONTROL_QUEUES);
        let worker = if is_control { &request.task_queue } else { &request.worker_instance_key };
        let (queue, sticky) = (&request.task_queue, &request.sticky_task_queue);
        self.node.workers.dismiss_worker(namespace.key, worker, queue, sticky);
        if !worker.is_empty() && !request.task_queue.is_empty() {
            let kinds: &[QueueKind] = match &request.task_queue_types[..] {
                [] => &[QueueKind::Workflow, QueueKind::Activity, QueueKind::Nexus, QueueKind::WorkerCommand],
                named => &named.iter().filter_map(|kind| queue_kind(*kind)).collect::<Vec<_>>(),
            };
            let poller = (request.identity.as_str(), worker.as_str());
            self.node.workers.forget_poller(namespace.key, &request.task_queue, kinds, poller);
        }
        // Its polls end. What it holds stays its own, unless it says itself that it has shut down.
        if let Some(last) = request.worker_heartbeat {
            self.node.workers.workers_reported(namespace.key, vec![last], connection);
        }
        self.node.workers.heartbeats.leaving(namespace.key, worker);
        Ok(ShutdownWorkerResponse::default())
    }

    pub(crate) fn record_heartbeat(
        &self,
        request: Request<RecordWorkerHeartbeatRequest>,
    ) -> Result<RecordWorkerHeartbeatResponse, Status> {
        let connection = peers::of(&request);
        let request = request.into_inner();
        let namespace = self.namespace(&request.namespace)?;
        self.report_workers(namespace.key, request.worker_heartbeat, connection)?;
        Ok(RecordWorkerHeartbeatResponse::default())
    }

    /// Takes the heartbeats of workers that are known or may register, also if others are refused.
    pub(crate) fn report_workers(
        &self,
        namespace: NamespaceKey,
        mut heartbeats: Vec<WorkerHeartbeat>,
        connection: Option<ConnectionId>,
    ) -> Result<(), Status> {
        let mut answer = Ok(());
        heartbeats.retain(|heartbeat| {
            let registered = match heartbeat.status() {
                WorkerStatus::Shutdown => Ok(()),
                _ => self.register_worker(namespace, &heartbeat.worker_instance_key),
            };
            registered.map_err(|refused| answer = Err(refused)).is_ok()
        });
        self.node.workers.workers_reported(namespace, heartbeats, connection);
        answer
    }

    /// A worker that is not known registers, unless too many do.
    pub(crate) fn register_worker(&self, namespace: NamespaceKey, worker: &str) -> Result<(), Status> {
        self.node.workers.register(namespace, worker).map_err(|refused| {
            let (cause, scope) = (ResourceExhaustedCause::RpsLimit, ResourceExhaustedScope::Namespace);
            status::exhausted(refused.to_string(), cause, scope, refused.after)
        })
    }

    /// In the order of their keys; a page's token names its last worker.
    pub(crate) fn list_workers(&self, request: ListWorkersRequest) -> Result<ListWorkersResponse, Status> {
        let mut found = self.find(&request.namespace, &request.query)?;
        if !request.next_page_token.is_empty() {
            let last =
                std::str::from_utf8(&request.next_page_token).ok().and_then(|token| token.strip_prefix("after:"));
            let last = last.ok_or_else(|| Status::invalid_argument("invalid next_page_token"))?;
            found.retain(|worker| worker.worker_instance_key.as_str() > last);
        }
        let size = usize::try_from(request.page_size).ok().filter(|size| *size > 0).unwrap_or(PAGE_SIZE_MAX);
        let size = size.min(PAGE_SIZE_MAX);
        let more = found.len() > size;
        found.truncate(size);
        let last = found.last().filter(|_| more);
        let next_page_token = last.map(|last| format!("after:{}", last.worker_instance_key).into()).unwrap_or_default();
        let info =
            |worker: &Arc<WorkerHeartbeat>| WorkerInfo { worker_heartbeat: Some(WorkerHeartbeat::clone(worker)) };
        #[expect(deprecated, reason = "clients may still read the older field")]
        Ok(ListWorkersResponse {
            workers_info: found.iter().map(info).collect(),
            workers: found.iter().map(|worker| in_brief(worker)).collect(),
            next_page_token,
        })
    }

    pub(crate) fn count_workers(&self, request: CountWorkersRequest) -> Result<CountWorkersResponse, Status> {
        let found = self.find(&request.namespace, &request.query)?;
        Ok(CountWorkersResponse { count: found.len() as i64 })
    }

    pub(crate) fn describe_worker(&self, request: DescribeWorkerRequest) -> Result<DescribeWorkerResponse, Status> {
        let namespace = self.namespace(&request.namespace)?;
        let worker = self.node.workers.find_worker(namespace.key, &request.worker_instance_key);
        let missing = || status::not_found(format!("Worker {} not found", request.worker_instance_key));
        let heartbeat = WorkerHeartbeat::clone(&*worker.ok_or_else(missing)?);
        Ok(DescribeWorkerResponse { worker_info: Some(WorkerInfo { worker_heartbeat: Some(heartbeat) }) })
    }

    fn find(&self, namespace: &str, query: &str) -> Result<Vec<Arc<WorkerHeartbeat>>, Status> {
        let namespace = self.namespace(namespace)?;
        let query = WorkerQuery::parse(query).map_err(|error| Status::invalid_argument(error.to_string()))?;
        Ok(self.node.workers.find_workers(namespace.key, &query))
    }
}

fn queue_kind(kind: i32) -> Option<QueueKind> {
    match TaskQueueType::try_from(kind).ok()? {
        TaskQueueType::Workflow => Some(QueueKind::Workflow),
        TaskQueueType::Activity => Some(QueueKind::Activity),
        TaskQueueType::Nexus => Some(QueueKind::Nexus),
        TaskQueueType::Unspecified => None,
    }
}

fn in_brief(worker: &WorkerHeartbeat) -> WorkerListInfo {
    let host = worker.host_info.clone().unwrap_or_default();
    WorkerListInfo {
        worker_instance_key: worker.worker_instance_key.clone(),
        worker_identity: worker.worker_identity.clone(),
        task_queue: worker.task_queue.clone(),
        deployment_version: worker.deployment_version.clone(),
        sdk_name: worker.sdk_name.clone(),
        sdk_version: worker.sdk_version.clone(),
        status: worker.status,
        start_time: worker.start_time,
        host_name: host.host_name,
        worker_grouping_key: host.worker_grouping_key,
        process_id: host.process_id,
        plugins: worker.plugins.clone(),
        drivers: worker.drivers.clone(),
    }
}
