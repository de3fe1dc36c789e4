//! Registrations of polls by worker versions, which the node that leads makes for all.

use std::sync::Arc;

use segno_deployments::{DeploymentError, MemberQueue, QueueType, calls::Registration, named_version};
use segno_runs::{error::CallError, ports::owner::Place};
use segno_store::NamespaceKey;

use super::{
    Cluster,
    wire::{RegisterPoller, ResponseBody},
};

impl RegisterPoller {
    pub(super) fn of(namespace: NamespaceKey, Registration { version, queue }: &Registration) -> Self {
        Self {
            namespace: namespace.0,
            deployment: version.deployment_name.clone(),
            build: version.build_id.clone(),
            queue: queue.name.clone(),
            kind: queue.kind.wire() as i32,
        }
    }

    fn registration(self) -> Option<Registration> {
        let kind = QueueType::from_wire(self.kind)?;
        let version = named_version(self.deployment, self.build);
        Some(Registration { version, queue: MemberQueue { name: self.queue, kind } })
    }
}

impl Cluster {
    /// Makes a queue a member of a version. It is made in what is stored, not in what this node had before another one led.
    pub(super) async fn register_here(&self, request: RegisterPoller) -> ResponseBody {
        if self.runs.leader() != Place::Here {
            return ResponseBody::Moved(Default::default());
        }
        let namespace = NamespaceKey(request.namespace);
        let Some(registration) = request.registration() else {
            return ResponseBody::Failed("the node does not know this type of queues".to_owned());
        };
        let runs = Arc::clone(&self.runs);
        let registered = match self.catch_up().await {
            Ok(()) => runs.register_here(namespace, registration).await,
            Err(error) => Err(error),
        };
        match registered {
            Ok(()) => ResponseBody::Done(Default::default()),
            Err(CallError::Deployment(DeploymentError::LimitReached(text))) => ResponseBody::LimitReached(text),
            Err(error) => ResponseBody::Failed(error.to_string()),
        }
    }
}
