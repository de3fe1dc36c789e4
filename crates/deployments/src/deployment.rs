//! A deployment in memory, and what follows from its records: versions, statuses, documents.

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use prost::Message;
use segno_proto::{
    Nanos,
    deployment::WorkerDeploymentVersion,
    enums::{VersionDrainageStatus as DrainageStatus, WorkerDeploymentVersionStatus as Status},
};

use crate::{
    describe::PinnedCounts,
    names,
    records::{BuildRecord, DeploymentRecord, PREFIX, RampingRecord, VersionRecord},
    routing::{MemberQueue, Version},
};

/// A deployment with its versions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Deployment {
    /// Its name.
    pub name: String,
    /// Its routing and the list of its versions.
    pub record: DeploymentRecord,
    /// What else is stored of each version, by build id.
    pub versions: BTreeMap<String, Arc<VersionRecord>>,
}

/// What the runs and the workers of a version say about its use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VersionUse {
    /// Open workflows that are pinned to it.
    pub pinned: Pins,
    /// Whether a worker of it polled lately.
    pub has_pollers: bool,
}

/// What is known of the workflows that are pinned to a version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pins {
    /// Those that are open.
    pub open: u64,
    /// When one of them closed or was pinned to another version, if that is known.
    pub last_unpinned: Option<Nanos>,
}

impl Pins {
    /// So many open workflows.
    pub fn of(open: u64) -> Self {
        Self { open, last_unpinned: None }
    }
}

/// When workflows were pinned to a version, and no longer were, as a node saw it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PinTimes {
    /// When a workflow was first pinned to it.
    pub pinned: Option<Nanos>,
    /// When the last one closed, or was pinned to another version.
    pub unpinned: Option<Nanos>,
}

impl PinTimes {
    /// Adds what came later, or was seen at another node.
    pub fn add(&mut self, other: Self) {
        self.pinned = self.pinned.into_iter().chain(other.pinned).min();
        self.unpinned = self.unpinned.max(other.unpinned);
    }
}

/// How far a version is from being unused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drainage {
    /// Whether it is unused.
    pub drained: bool,
    /// Since when it is so.
    pub changed: Nanos,
}

/// When the drainage of a version is looked at.
#[derive(Clone, Copy, Debug)]
pub struct DrainageView {
    /// Now.
    pub now: Nanos,
    /// How long a version that was deactivated is draining at least.
    pub grace: Nanos,
}

fn drainage_status(drained: bool) -> DrainageStatus {
    if drained { DrainageStatus::Drained } else { DrainageStatus::Draining }
}

impl Deployment {
    /// A deployment without versions.
    pub(crate) fn new(name: &str, now: Nanos) -> Self {
        let record = DeploymentRecord { created: now, conflict_time: now, ..Default::default() };
        Self { name: name.to_owned(), record, versions: BTreeMap::new() }
    }

    /// What it has of a version.
    pub fn build(&self, build: &str) -> Option<&BuildRecord> {
        self.record.builds.iter().find(|known| known.build == build)
    }

    pub(crate) fn build_mut(&mut self, build: &str) -> Option<&mut BuildRecord> {
        self.record.builds.iter_mut().find(|known| known.build == build)
    }

    /// Adds a version.
    pub(crate) fn add_build(&mut self, build: &str, now: Nanos) -> &mut BuildRecord {
        self.versions.insert(build.to_owned(), Arc::default());
        let record = BuildRecord { build: build.to_owned(), created: now, ..Default::default() };
        let builds = &mut self.record.builds;
        builds.push(record);
        let last = builds.len() - 1;
        &mut builds[last]
    }

    /// Removes a version.
    pub fn remove_build(&mut self, build: &str) {
        self.record.builds.retain(|known| known.build != build);
        self.versions.remove(build);
    }

    /// What else is stored of a version.
    pub(crate) fn version_mut(&mut self, build: &str) -> &mut VersionRecord {
        Arc::make_mut(self.versions.entry(build.to_owned()).or_default())
    }

    /// A version in the words of the protocol.
    pub fn version(&self, build: &str) -> WorkerDeploymentVersion {
        WorkerDeploymentVersion { deployment_name: self.name.clone(), build_id: build.to_owned() }
    }

    pub(crate) fn shared_version(&self, build: &str) -> Version {
        Arc::new(self.version(build))
    }

    /// Whether workers of a version polled a queue.
    pub fn has(&self, build: &str, queue: &MemberQueue) -> bool {
        self.versions.get(build).is_some_and(|version| version.has(queue))
    }

    /// Whether a version is the current one.
    pub fn is_current(&self, build: &str) -> bool {
        self.record.current.as_deref() == Some(build)
    }

    /// Whether a version ramps.
    pub fn is_ramping(&self, build: &str) -> bool {
        self.ramping_build() == Some(Some(build))
    }

    /// What ramps: a version or, if that is `None`, workers without one.
    pub fn ramping_build(&self) -> Option<Option<&str>> {
        self.record.ramping.as_ref().map(|ramping| ramping.build.as_deref())
    }

    /// The conflict token: a time in the binary form of the language Go, as the real server has it.
    pub fn conflict_token(&self) -> Bytes {
        const YEAR_ONE: i64 = -62_135_596_800;
        const SECOND: Nanos = 1_000_000_000;
        let time = self.record.conflict_time;
        let mut token = vec![1];
        token.extend((time.div_euclid(SECOND) - YEAR_ONE).to_be_bytes());
        token.extend((time.rem_euclid(SECOND) as u32).to_be_bytes());
        token.extend([0xff, 0xff]);
        token.into()
    }

    /// How a version drains; `None` if it was never used, or is current or ramping. A version to which workflows are pinned is
    /// draining, whatever it was before.
    pub fn drainage(&self, build: &BuildRecord, pinned: Pins, at: DrainageView) -> Option<Drainage> {
        let stored = build.drainage();
        // A version of the same name that was removed is another one.
        let unpinned = pinned.last_unpinned.filter(|at| *at >= build.created);
        let was_used = stored != DrainageStatus::Unspecified || pinned.open > 0 || unpinned.is_some();
        if self.is_routed(&build.build) || !was_used {
            return None;
        }
        let grace_over = if build.deactivated == 0 { 0 } else { build.deactivated.saturating_add(at.grace) };
        let drained = pinned.open == 0 && at.now >= grace_over;
        let changed = match drained {
            _ if stored == drainage_status(drained) => build.drainage_changed,
            // Since the grace was over and the last workflow was gone.
            true => grace_over.max(unpinned.unwrap_or_default()).max(build.drainage_changed).min(at.now),
            false => at.now,
        };
        Some(Drainage { drained, changed })
    }

    /// Whether a version is the current one, or ramps.
    pub fn is_routed(&self, build: &str) -> bool {
        self.is_current(build) || self.is_ramping(build)
    }

    /// Notes how far versions are from being unused. `times` say of some of them when workflows were pinned to them and no longer were.
    pub fn note_drainages(&mut self, pinned: &PinnedCounts, times: &BTreeMap<String, PinTimes>, at: DrainageView) {
        for place in 0..self.record.builds.len() {
            let mut build = self.record.builds[place].clone();
            if self.is_routed(&build.build) {
                continue;
            }
            let times = times.get(&build.build).copied().unwrap_or_default();
            if let Some(pinned) = times.pinned.filter(|_| build.drainage() != DrainageStatus::Draining) {
                build.set_drainage(DrainageStatus::Draining);
                build.drainage_changed = pinned;
            }
            let known = pinned.of(&self.name, &build.build);
            let pins = Pins { last_unpinned: known.last_unpinned.max(times.unpinned), ..known };
            if let Some(Drainage { drained, changed }) = self.drainage(&build, pins, at) {
                build.set_drainage(drainage_status(drained));
                build.drainage_changed = changed;
            }
            self.record.builds[place] = build;
        }
    }

    /// The status of a version to which open workflows may be pinned.
    pub fn status(&self, build: &BuildRecord, pinned: Pins, at: DrainageView) -> Status {
        if self.is_current(&build.build) {
            return Status::Current;
        }
        if self.is_ramping(&build.build) {
            return Status::Ramping;
        }
        match self.drainage(build, pinned, at) {
            Some(Drainage { drained: true, .. }) => Status::Drained,
            Some(_) => Status::Draining,
            None if build.polled => Status::Inactive,
            None => Status::Created,
        }
    }

    /// The name of the document of a deployment. No name has a colon.
    fn document(name: &str) -> String {
        format!("{PREFIX}{name}")
    }

    fn version_document(name: &str, build: &str) -> String {
        format!("{PREFIX}{}", names::colon(name, Some(build)))
    }

    /// The documents that differ after a change; without content those that go.
    pub fn changed_documents(before: Option<&Self>, after: Option<&Self>) -> Vec<(String, Option<Bytes>)> {
        let Some(name) = after.or(before).map(|deployment| &deployment.name) else { return Vec::new() };
        let mut changed = Vec::new();
        if before.map(|before| &before.record) != after.map(|after| &after.record) {
            changed.push((Self::document(name), after.map(|after| after.record.encode_to_vec().into())));
        }
        let versions = |deployment: Option<&Self>| -> BTreeMap<String, Arc<VersionRecord>> {
            deployment.map(|deployment| deployment.versions.clone()).unwrap_or_default()
        };
        let (old, new) = (versions(before), versions(after));
        for build in old.keys().filter(|build| !new.contains_key(*build)) {
            changed.push((Self::version_document(name, build), None));
        }
        for (build, version) in &new {
            if old.get(build) != Some(version) {
                changed.push((Self::version_document(name, build), Some(version.encode_to_vec().into())));
            }
        }
        changed
    }
}

/// Puts deployments together from documents, which come in any order.
#[derive(Debug, Default)]
pub struct StoredDeployments(BTreeMap<String, StoredDocuments>);

/// The documents of one deployment.
#[derive(Debug, Default)]
struct StoredDocuments {
    record: Option<Bytes>,
    /// By build id.
    versions: BTreeMap<String, Bytes>,
}

/// What documents contain.
#[derive(Debug, Default)]
pub struct LoadedDeployments {
    /// The deployments whose documents can be read.
    pub deployments: Vec<Deployment>,
    /// The names of the others, and why they cannot be read.
    pub unreadable: BTreeMap<String, String>,
}

impl StoredDeployments {
    /// Takes a document.
    pub fn add(&mut self, document: &str, content: Bytes) {
        let rest = document.strip_prefix(PREFIX).unwrap_or(document);
        let (name, build) = rest.split_once(':').map_or((rest, None), |(name, build)| (name, Some(build)));
        let stored = self.0.entry(name.to_owned()).or_default();
        match build {
            None => stored.record = Some(content),
            Some(build) => drop(stored.versions.insert(build.to_owned(), content)),
        }
    }

    /// Reads the deployments. One that cannot be read does not affect the others.
    pub fn finish(self) -> LoadedDeployments {
        let mut loaded = LoadedDeployments::default();
        for (name, stored) in self.0 {
            match stored.read(&name) {
                Ok(deployment) => loaded.deployments.push(deployment),
                Err(why) => drop(loaded.unreadable.insert(name, why)),
            }
        }
        loaded
    }
}

impl StoredDocuments {
    /// Documents of versions that the deployment does not list are left out of account.
    fn read(mut self, name: &str) -> Result<Deployment, String> {
        let unreadable = |document: String, error| format!("document {document:?}: {error}");
        let record = self.record.ok_or_else(|| format!("document {:?} is missing", Deployment::document(name)))?;
        let record = DeploymentRecord::decode(record).map_err(|error| unreadable(Deployment::document(name), error))?;
        let mut versions = BTreeMap::new();
        for BuildRecord { build, .. } in &record.builds {
            let content = self.versions.remove(build).unwrap_or_default();
            let version = VersionRecord::decode(content)
                .map_err(|error| unreadable(Deployment::version_document(name, build), error))?;
            versions.insert(build.clone(), Arc::new(version));
        }
        Ok(Deployment { name: name.to_owned(), record, versions })
    }
}

impl RampingRecord {
    pub(crate) fn of(build: Option<&str>) -> Self {
        Self { build: build.map(str::to_owned) }
    }
}
