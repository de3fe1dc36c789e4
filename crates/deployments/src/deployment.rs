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
    pub pinned: u64,
    /// Whether a worker of it polled lately.
    pub has_pollers: bool,
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
    pub fn drainage(&self, build: &BuildRecord, pinned: u64, at: DrainageView) -> Option<Drainage> {
        let is_routed = self.is_current(&build.build) || self.is_ramping(&build.build);
        if is_routed || build.drainage() == DrainageStatus::Unspecified && pinned == 0 {
            return None;
        }
        let drained = pinned == 0 && at.now >= build.deactivated.saturating_add(at.grace);
        let is_known = build.drainage() == drainage_status(drained);
        Some(Drainage { drained, changed: if is_known { build.drainage_changed } else { at.now } })
    }

    /// Notes how far versions are from being unused.
    pub fn note_drainages(&mut self, pinned: &PinnedCounts, at: DrainageView) {
        let builds = self.record.builds.iter();
        let found: Vec<_> = builds.map(|build| self.drainage(build, pinned.of(&self.name, &build.build), at)).collect();
        for (build, drainage) in self.record.builds.iter_mut().zip(found) {
            if let Some(Drainage { drained, changed }) = drainage {
                build.set_drainage(drainage_status(drained));
                build.drainage_changed = changed;
            }
        }
    }

    /// The status of a version to which so many open workflows are pinned.
    pub fn status(&self, build: &BuildRecord, pinned: u64, at: DrainageView) -> Status {
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
pub struct StoredDeployments(BTreeMap<String, Deployment>);

impl StoredDeployments {
    /// Takes a document.
    pub fn add(&mut self, document: &str, content: Bytes) -> Result<(), prost::DecodeError> {
        let rest = document.strip_prefix(PREFIX).unwrap_or(document);
        let (name, build) = rest.split_once(':').map_or((rest, None), |(name, build)| (name, Some(build)));
        let deployment = self.0.entry(name.to_owned()).or_default();
        name.clone_into(&mut deployment.name);
        match build {
            None => deployment.record = DeploymentRecord::decode(content)?,
            Some(build) => {
                deployment.versions.insert(build.to_owned(), Arc::new(VersionRecord::decode(content)?));
            }
        }
        Ok(())
    }

    /// The deployments.
    pub fn finish(self) -> Vec<Deployment> {
        self.0.into_values().collect()
    }
}

impl RampingRecord {
    pub(crate) fn of(build: Option<&str>) -> Self {
        Self { build: build.map(str::to_owned) }
    }
}
