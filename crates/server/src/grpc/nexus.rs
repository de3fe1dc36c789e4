//! Nexus, as far as it goes: workers may poll, and wait in vain, because no endpoint can lead to them.

use segno_proto::workflowservice::{PollNexusTaskQueueRequest, PollNexusTaskQueueResponse};
use segno_runtime::{Poll, QueueKey, QueueKind};
use tonic::{Request, Status};

use super::{Workflows, failed, refused};
use crate::{deadline, validate};

impl Workflows {
    /// Waits like any other poll, and ends when its time is up or its worker says goodbye.
    pub(super) async fn poll_nexus_task(
        &self,
        request: Request<PollNexusTaskQueueRequest>,
    ) -> Result<PollNexusTaskQueueResponse, Status> {
        let until = deadline::poll(&request);
        let mut request = request.into_inner();
        let namespace = self.namespace(&request.namespace)?;
        validate::worker::poll_nexus_task(&mut request).map_err(refused)?;
        let poll = Poll {
            queue: QueueKey {
                namespace: namespace.key,
                kind: QueueKind::Nexus,
                name: request.task_queue.unwrap_or_default().name,
            },
            identity: request.identity,
            worker: request.worker_instance_key,
            deadline: until?,
        };
        self.node.poll_in_vain(&poll).await.map_err(failed)?;
        Ok(PollNexusTaskQueueResponse::default())
    }
}
