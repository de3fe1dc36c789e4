//! Notes of drainage: a version is draining from when a workflow was pinned to it, and drained from when the last one was gone. Whether a
//! version is drained follows from the count of its open workflows at any time; only since when, and that it was ever used, is noted here.
//!
//! Each node notes the workflows that it serves, in memory, and reports them to the node that leads, which writes them with the deployment.
//! A report that fails is repeated. A node that fails before its report loses the time of the change, not the change.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use segno_deployments::{Deployment, PinTimes, names};
use segno_engine::{Run, versioning::pinned_version};
use segno_environment::{clock::until, hash::HashMap, lock::lock};
use segno_proto::{Nanos, deployment::WorkerDeploymentVersion};
use segno_store::NamespaceKey;
use tokio::sync::Notify;

use super::DeploymentKey;
use crate::{error::CallError, list_limits::ListCaller, ports::owner::Place, runs::Runs};

const SECOND: Nanos = 1_000_000_000;
/// A deployment is looked at this often at most, while its workflows close.
const LOOK_INTERVAL: Nanos = SECOND;
/// The longest sleep of the loop.
const SLEEP_MAX: Duration = Duration::from_secs(60);
/// Versions for which the last unpinning is remembered; then all are forgotten, because a version that is drained is noted.
const UNPINNED_MAX: usize = 10_000;

/// The pins of a deployment's workflows that changed since the last report.
#[derive(Clone, Debug, Default)]
struct Sighting {
    /// When it is reported.
    due: Nanos,
    /// By build id.
    times: BTreeMap<String, PinTimes>,
}

/// The changed pins of workflows, by deployment.
#[derive(Default)]
pub(crate) struct PinSightings {
    waiting: Mutex<HashMap<DeploymentKey, Sighting>>,
    /// When a workflow was last unpinned, by deployment and by version as attributes spell it.
    unpinned: Mutex<HashMap<DeploymentKey, BTreeMap<String, Nanos>>>,
    changed: Notify,
}

impl PinSightings {
    /// When workflows were last unpinned from versions of a deployment, as far as this node knows.
    pub(super) fn last_unpinned(&self, namespace: NamespaceKey, name: &str) -> BTreeMap<String, Nanos> {
        lock(&self.unpinned).get(&(namespace, name.to_owned())).cloned().unwrap_or_default()
    }

    fn note_unpinned(&self, key: &DeploymentKey, build: &str, at: Nanos) {
        let mut unpinned = lock(&self.unpinned);
        if unpinned.len() >= UNPINNED_MAX {
            unpinned.clear();
        }
        let last = unpinned.entry(key.clone()).or_default().entry(names::colon(&key.1, Some(build))).or_default();
        *last = at.max(*last);
    }

    /// A sighting is to be reported at a time.
    pub(super) fn add(&self, key: DeploymentKey, due: Nanos, times: impl IntoIterator<Item = (String, PinTimes)>) {
        let mut waiting = lock(&self.waiting);
        let sighting = waiting.entry(key).or_insert_with(|| Sighting { due, times: BTreeMap::new() });
        sighting.due = sighting.due.min(due);
        for (build, seen) in times {
            sighting.times.entry(build).or_default().add(seen);
        }
        drop(waiting);
        self.changed.notify_one();
    }

    /// Takes what is due, and says when the next is.
    fn take_due(
        &self,
        now: Nanos,
        pauses: &HashMap<DeploymentKey, Nanos>,
    ) -> (Vec<(DeploymentKey, Sighting)>, Option<Nanos>) {
        let mut waiting = lock(&self.waiting);
        let due =
            |key: &DeploymentKey, sighting: &Sighting| sighting.due.max(pauses.get(key).copied().unwrap_or_default());
        let ready: Vec<_> =
            waiting.iter().filter(|(key, sighting)| due(key, sighting) <= now).map(|(key, _)| key.clone()).collect();
        let ready = ready.into_iter().filter_map(|key| waiting.remove_entry(&key)).collect();
        (ready, waiting.iter().map(|(key, sighting)| due(key, sighting)).min())
    }
}

/// Reports what is seen until the node stops.
pub(crate) async fn run(runs: Arc<Runs>) {
    let mut pauses: HashMap<DeploymentKey, Nanos> = HashMap::default();
    loop {
        let (stopped, changed) = (runs.lifecycle.stop.notified(), runs.pins.changed.notified());
        if runs.is_stopping() {
            return;
        }
        let now = runs.clock_now();
        pauses.retain(|_, until| *until > now);
        let (ready, next) = runs.pins.take_due(now, &pauses);
        if ready.is_empty() {
            let sleep = next.map_or(SLEEP_MAX, |next| until(now, next).min(SLEEP_MAX));
            tokio::select! {
                biased;
                () = stopped => return,
                () = changed => {}
                () = tokio::time::sleep(sleep) => {}
            }
            continue;
        }
        for (key, sighting) in ready {
            let reported = runs.report_pins(key.0, &key.1, sighting.times.clone()).await;
            let took = runs.clock_now() - now;
            // Counting takes a twentieth of the time at most.
            pauses.insert(key.clone(), now + LOOK_INTERVAL.max(20 * took));
            if let Err(error) = reported {
                tracing::debug!(deployment = key.1, %error, "what is pinned to versions was not noted; it is tried again");
                runs.pins.add(key, now + LOOK_INTERVAL, sighting.times);
            }
        }
    }
}

/// The version to which an open run is pinned.
fn open_pin(run: &Run) -> Option<&WorkerDeploymentVersion> {
    run.state().versioning.as_ref()?;
    pinned_version(run).filter(|_| run.is_running())
}

impl Runs {
    /// A transition is stored: notes the version to which a run is pinned now, and the one to which it no longer is.
    pub(crate) fn note_pins(&self, before: Option<&Run>, after: &Run) {
        let (from, to) = (before.and_then(open_pin), open_pin(after));
        if from == to {
            return;
        }
        let now = self.clock_now();
        let namespace = NamespaceKey(after.info.namespace_key);
        let changes = [
            (from, PinTimes { unpinned: Some(now), pinned: None }),
            (to, PinTimes { pinned: Some(now), unpinned: None }),
        ];
        for (version, times) in changes {
            let Some(version) = version else { continue };
            let (name, build) = (&version.deployment_name, &version.build_id);
            let is_routed = |deployment: Arc<Deployment>| deployment.is_routed(build);
            if self.deployments.deployment(namespace, name).is_none_or(is_routed) {
                continue;
            }
            let key = (namespace, name.clone());
            if let Some(at) = times.unpinned {
                self.pins.note_unpinned(&key, build, at);
            }
            self.pins.add(key, now, [(build.clone(), times)]);
        }
    }

    /// Looks at a deployment when the grace of a version is over that was deactivated.
    pub(super) fn watch_grace(&self, namespace: NamespaceKey, before: Option<&Deployment>, after: &Deployment) {
        let is_new = |build: &&segno_deployments::BuildRecord| {
            let before = before.and_then(|before| before.build(&build.build));
            before.is_none_or(|before| before.deactivated != build.deactivated)
        };
        let deactivated = after.record.builds.iter().filter(|build| build.deactivated != 0).filter(is_new);
        let grace = self.deployment_limits.drainage_grace;
        if let Some(due) = deactivated.map(|build| build.deactivated.saturating_add(grace)).max() {
            self.pins.add((namespace, after.name.clone()), due, []);
        }
    }

    async fn report_pins(
        self: &Arc<Self>,
        namespace: NamespaceKey,
        name: &str,
        times: BTreeMap<String, PinTimes>,
    ) -> Result<(), CallError> {
        match self.leader() {
            Place::Here => self.note_drainage(namespace, name, times).await,
            // The grace is watched by the node that leads.
            _ if times.is_empty() => Ok(()),
            Place::There(leader) => self.owner.report_pins(leader, namespace, name, &times).await,
            Place::Nowhere => Err(CallError::Unavailable("no node leads".to_owned())),
        }
    }

    /// Writes since when versions of a deployment are draining or drained, at the node that leads.
    pub async fn note_drainage(
        self: &Arc<Self>,
        namespace: NamespaceKey,
        name: &str,
        times: BTreeMap<String, PinTimes>,
    ) -> Result<(), CallError> {
        let Some(known) = self.namespaces.by_key(namespace) else { return Ok(()) };
        let Some(deployment) = self.deployments.deployment(namespace, name) else { return Ok(()) };
        let key = (namespace, name.to_owned());
        for (build, times) in &times {
            times.unpinned.into_iter().for_each(|at| self.pins.note_unpinned(&key, build, at));
        }
        let pinned = self.pinned_counts(ListCaller::default(), &known, &deployment).await?;
        let at = self.drainage_view();
        let mut noted = Deployment::clone(&deployment);
        noted.note_drainages(&pinned, &times, at);
        if noted == *deployment {
            return Ok(());
        }
        let note = move |before: Option<&Deployment>, _: Nanos, _: &super::Uses| {
            let mut after = before.cloned();
            if let Some(after) = &mut after {
                after.note_drainages(&pinned, &times, at);
            }
            Ok((after, ()))
        };
        self.change_deployment(namespace, name, note).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sightings_wait_until_they_are_due_and_are_joined() {
        let sightings = PinSightings::default();
        let key = (NamespaceKey(1), "d".to_owned());
        let seen = |pinned, unpinned| [("b".to_owned(), PinTimes { pinned, unpinned })];
        sightings.add(key.clone(), 100, []);
        let none = HashMap::default();
        assert_eq!(sightings.take_due(50, &none).1, Some(100));
        sightings.add(key.clone(), 60, seen(Some(55), None));
        sightings.add(key.clone(), 70, seen(None, Some(65)));
        let paused: HashMap<_, _> = [(key.clone(), 90)].into_iter().collect();
        let (ready, next) = sightings.take_due(80, &paused);
        assert!(ready.is_empty());
        assert_eq!(next, Some(90), "it was looked at a moment ago");
        let (ready, next) = sightings.take_due(80, &none);
        assert_eq!((ready.len(), next), (1, None));
        assert_eq!(ready[0].1.times["b"], PinTimes { pinned: Some(55), unpinned: Some(65) });
        sightings.note_unpinned(&key, "b", 65);
        sightings.note_unpinned(&key, "b", 60);
        assert_eq!(sightings.last_unpinned(key.0, "d"), [("d:b".to_owned(), 65)].into());
    }
}
