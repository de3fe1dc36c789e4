//! Workers as such: leaving, and who polls a queue.

use segno_engine::validate::task_queue;
use segno_proto::{
    enums::TaskQueueType,
    nanos_timestamp,
    taskqueue::{PollerInfo, TaskQueueVersioningInfo},
    workflowservice::{
        DescribeTaskQueueRequest, DescribeTaskQueueResponse, ShutdownWorkerRequest, ShutdownWorkerResponse,
    },
};
use segno_runtime::{QueueKey, QueueKind};
use tonic::Status;

use super::{Workflows, refused};
use crate::validate;

/// What Temporal reports when nothing limits a queue.
const RATE_UNLIMITED: f64 = 100_000.0;

impl Workflows {
    pub(super) fn shut_down_worker(
        &self,
        mut request: ShutdownWorkerRequest,
    ) -> Result<ShutdownWorkerResponse, Status> {
        let namespace = self.namespace(&request.namespace)?;
        validate::worker::shutdown(&mut request).map_err(refused)?;
        self.node.dismiss_worker(namespace.key, &request.worker_instance_key, &request.sticky_task_queue);
        Ok(ShutdownWorkerResponse::default())
    }

    pub(super) fn describe_queue(
        &self,
        mut request: DescribeTaskQueueRequest,
    ) -> Result<DescribeTaskQueueResponse, Status> {
        let namespace = self.namespace(&request.namespace)?;
        task_queue(request.task_queue.as_mut(), "").map_err(|invalid| Status::invalid_argument(invalid.0))?;
        let kind = match request.task_queue_type() {
            TaskQueueType::Activity => QueueKind::Activity,
            _ => QueueKind::Workflow,
        };
        let name = request.task_queue.unwrap_or_default().name;
        let key = QueueKey { namespace: namespace.key, kind, name };
        let pollers = self.node.pollers(&key).into_iter().map(|(identity, at)| PollerInfo {
            last_access_time: Some(nanos_timestamp(at)),
            identity,
            rate_per_second: RATE_UNLIMITED,
            ..Default::default()
        });
        Ok(DescribeTaskQueueResponse {
            pollers: pollers.collect(),
            versioning_info: Some(TaskQueueVersioningInfo {
                current_version: "__unversioned__".to_owned(),
                update_time: Some(prost_types::Timestamp { seconds: -62_135_596_800, nanos: 0 }),
                ..Default::default()
            }),
            ..Default::default()
        })
    }
}
