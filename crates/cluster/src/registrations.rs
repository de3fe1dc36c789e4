//! Requests about versions of workers: registrations of polls and reports of pinned workflows, for the node that leads; how workers
//! of a version use a queue, for its home; and runs that wait for a version, for the node that serves them.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use segno_deployments::{
    DeploymentError, MemberQueue, PinTimes, QueueType, Version, calls::Registration, named_version,
};
use segno_runs::{
    error::CallError,
    ports::{owner::Place, queue_use::QueueUse},
};
use segno_store::{NamespaceKey, RunKey, cluster::NodeId};
use tokio::time::Instant;

use super::{
    Cluster,
    wire::{PinMoments, PinReport, RequestBody, ResponseBody, VersionQueue, VersionWaits},
};

/// How long the home of a queue may take to say who uses it.
const USE_MAX: Duration = Duration::from_secs(5);
/// How long a node may take to note that its runs wait.
const NOTED_MAX: Duration = Duration::from_secs(30);
const UNKNOWN_TYPE: &str = "the node does not know this type of queues";

impl VersionQueue {
    pub(super) fn of(namespace: NamespaceKey, Registration { version, queue }: &Registration) -> Self {
        Self {
            namespace: namespace.0,
            deployment: version.deployment_name.clone(),
            build: version.build_id.clone(),
            queue: queue.name.clone(),
            kind: queue.kind.wire() as i32,
        }
    }

    /// A queue and a version; without a build id, which no version has, all versions and none.
    fn of_any(namespace: NamespaceKey, queue: &MemberQueue, version: Option<&Version>) -> Self {
        let version = version.cloned().unwrap_or_default();
        Self::of(namespace, &Registration { version, queue: queue.clone() })
    }

    fn registration(self) -> Option<Registration> {
        let kind = QueueType::from_wire(self.kind)?;
        let version = named_version(self.deployment, self.build);
        Some(Registration { version, queue: MemberQueue { name: self.queue, kind } })
    }
}

impl Cluster {
    /// Makes a queue a member of a version. It is made in what is stored, not in what this node had before another one led.
    pub(super) async fn register_here(&self, request: VersionQueue) -> ResponseBody {
        if self.runs.leader() != Place::Here {
            return ResponseBody::Moved(Default::default());
        }
        let namespace = NamespaceKey(request.namespace);
        let Some(registration) = request.registration() else {
            return ResponseBody::Failed(UNKNOWN_TYPE.to_owned());
        };
        let runs = Arc::clone(&self.runs);
        let registered = match self.catch_up().await {
            Ok(()) => runs.register_here(namespace, registration).await,
            Err(error) => Err(error),
        };
        match registered {
            Ok(()) => ResponseBody::Done(Default::default()),
            Err(CallError::Deployment(
                error @ (DeploymentError::LimitReached(_) | DeploymentError::VersionsFull { .. }),
            )) => ResponseBody::LimitReached(error.to_string()),
            Err(error) => ResponseBody::Failed(error.to_string()),
        }
    }

    /// How workers of a version use a queue whose home is this node; of all versions and of none, if none is named.
    pub(super) fn queue_use_here(&self, request: VersionQueue) -> ResponseBody {
        let namespace = NamespaceKey(request.namespace);
        if self.runs.home(namespace, &request.queue) != Place::Here {
            return ResponseBody::Moved(Default::default());
        }
        match request.registration() {
            Some(Registration { version, queue }) => {
                let version = Some(&version).filter(|version| !version.build_id.is_empty());
                ResponseBody::QueueUse(self.dispatch.queue_use_here(namespace, &queue, version))
            }
            None => ResponseBody::Failed(UNKNOWN_TYPE.to_owned()),
        }
    }

    /// The same of a queue whose home is another node.
    pub(super) async fn queue_use_at(
        &self,
        home: NodeId,
        namespace: NamespaceKey,
        queue: &MemberQueue,
        version: Option<&Version>,
    ) -> Result<QueueUse, CallError> {
        let request = VersionQueue::of_any(namespace, queue, version);
        let response = self.peers.request(home, RequestBody::QueueUse(request), Instant::now() + USE_MAX).await;
        match response.map(|response| response.body) {
            Ok(ResponseBody::QueueUse(found)) => Ok(found),
            Ok(ResponseBody::Moved(_)) => Err(CallError::Moved),
            Ok(ResponseBody::Failed(why)) => Err(CallError::Unavailable(why)),
            Ok(_) | Err(_) => Err(CallError::Unavailable("the home of the queue did not answer".to_owned())),
        }
    }

    /// Has runs of another node note that they wait for a version.
    pub(super) async fn note_waits_at(
        &self,
        owner: NodeId,
        runs: &[RunKey],
        version: &Version,
    ) -> Result<(), CallError> {
        let waits = VersionWaits {
            deployment: version.deployment_name.clone(),
            build: version.build_id.clone(),
            runs: runs.iter().map(|run| run.0).collect(),
        };
        let response = self.peers.request(owner, RequestBody::NoteWaits(waits), Instant::now() + NOTED_MAX).await;
        match response.map(|response| response.body) {
            Ok(ResponseBody::Done(_)) => Ok(()),
            Ok(ResponseBody::Failed(why)) => Err(CallError::Unavailable(why)),
            Ok(_) | Err(_) => Err(CallError::Unavailable("the node that serves the runs did not answer".to_owned())),
        }
    }

    /// Notes that runs of this node wait for a version.
    pub(super) async fn note_waits_here(&self, waits: VersionWaits) -> ResponseBody {
        let version = named_version(waits.deployment, waits.build);
        let runs: Vec<RunKey> = waits.runs.into_iter().map(RunKey).collect();
        match self.runs.note_version_waits(&runs, &version).await {
            Ok(()) => ResponseBody::Done(Default::default()),
            Err(error) => ResponseBody::Failed(error.to_string()),
        }
    }

    /// Writes when workflows of another node were pinned to versions, and no longer were.
    pub(super) async fn note_pins_here(&self, report: PinReport) -> ResponseBody {
        if self.runs.leader() != Place::Here {
            return ResponseBody::Moved(Default::default());
        }
        let times = report
            .times
            .into_iter()
            .map(|(build, PinMoments { pinned, unpinned })| (build, PinTimes { pinned, unpinned }));
        let runs = Arc::clone(&self.runs);
        let noted = match self.catch_up().await {
            Ok(()) => runs.note_drainage(NamespaceKey(report.namespace), &report.deployment, times.collect()).await,
            Err(error) => Err(error),
        };
        match noted {
            Ok(()) => ResponseBody::Done(Default::default()),
            Err(error) => ResponseBody::Failed(error.to_string()),
        }
    }
}

impl PinReport {
    pub(super) fn of(namespace: NamespaceKey, deployment: &str, times: &BTreeMap<String, PinTimes>) -> Self {
        let moments = |times: &PinTimes| PinMoments { pinned: times.pinned, unpinned: times.unpinned };
        Self {
            namespace: namespace.0,
            deployment: deployment.to_owned(),
            times: times.iter().map(|(build, times)| (build.clone(), moments(times))).collect(),
        }
    }
}
