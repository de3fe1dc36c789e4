//! Tasks that wait for a version of workers of which no worker polls. The home of their queue sees it, and the nodes that serve their
//! runs note it, so that lists find these runs by the search attribute `WaitsForVersion`.

use std::{sync::Arc, time::Duration};

use segno_deployments::Version;
use segno_environment::hash::{HashMap, HashSet};
use segno_matching::VersionWait;
use segno_proto::Nanos;
use segno_runs::error::CallError;
use segno_store::{RunKey, cluster::NodeId};

use super::Dispatch;

/// How often queues are looked at.
const LOOK_INTERVAL: Duration = Duration::from_secs(5);
/// How long a task waits before its run notes it. Workers that are started again take less.
const NOTED_AFTER: Nanos = 10_000_000_000;
/// Each note is a commit: at most so many each time.
const NOTES_MAX: usize = 500;

/// Has runs note for which version they wait, until the node stops.
pub async fn run(dispatch: Arc<Dispatch>) {
    let mut known = HashSet::default();
    loop {
        let stopped = dispatch.runs.lifecycle.stop.notified();
        if dispatch.runs.is_stopping() {
            return;
        }
        tokio::select! {
            biased;
            () = stopped => return,
            () = tokio::time::sleep(LOOK_INTERVAL) => {}
        }
        dispatch.note_version_waits(&mut known).await;
    }
}

impl Dispatch {
    async fn note_version_waits(&self, known: &mut HashSet<VersionWait>) {
        let mut by_version: HashMap<(Version, Option<NodeId>), Vec<RunKey>> = HashMap::default();
        for VersionWait { version, run, owner } in self.matching.new_version_waits(NOTED_AFTER, known, NOTES_MAX) {
            by_version.entry((version, owner)).or_default().push(run);
        }
        for ((version, owner), runs) in by_version {
            match self.note_waits_at(owner, &runs, &version).await {
                Ok(()) => {
                    let version = &version;
                    known.extend(runs.into_iter().map(|run| VersionWait { version: version.clone(), run, owner }));
                }
                Err(error) => {
                    tracing::debug!(build = version.build_id, %error, "runs did not note that they wait; they are told again");
                }
            }
        }
    }

    async fn note_waits_at(&self, owner: Option<NodeId>, runs: &[RunKey], version: &Version) -> Result<(), CallError> {
        match (owner, self.remote_queues()) {
            (None, _) => self.runs.note_version_waits(runs, version).await,
            (Some(owner), Some(remote)) => remote.note_version_waits(owner, runs, version).await,
            (Some(_), None) => Err(CallError::Moved),
        }
    }
}
