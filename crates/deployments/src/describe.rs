//! Descriptions of deployments as protocol messages. Deprecated fields are filled, too, because clients still read them.

use std::collections::BTreeMap;

use prost_types::Timestamp;
use segno_proto::{
    Nanos,
    deployment::{
        RoutingConfig, VersionDrainageInfo, VersionMetadata, WorkerDeploymentInfo, WorkerDeploymentVersionInfo,
        worker_deployment_info::WorkerDeploymentVersionSummary, worker_deployment_version_info::VersionTaskQueueInfo,
    },
    enums::{RoutingConfigUpdateState, TaskQueueType, VersionDrainageStatus},
    nanos_timestamp,
};

use crate::{
    deployment::{Deployment, DrainageView, Pins},
    names,
    records::BuildRecord,
    routing::{MemberQueue, QueueType},
};

/// Workflows that are pinned to versions, which are written `name:build`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PinnedCounts {
    /// Those that are open.
    pub open: BTreeMap<String, u64>,
    /// When the last one was no longer pinned to a version, where that is known.
    pub last_unpinned: BTreeMap<String, Nanos>,
}

impl PinnedCounts {
    /// What is pinned to a version.
    pub fn of(&self, name: &str, build: &str) -> Pins {
        let version = names::colon(name, Some(build));
        Pins {
            open: self.open.get(&version).copied().unwrap_or_default(),
            last_unpinned: self.last_unpinned.get(&version).copied(),
        }
    }
}

fn time(nanos: Nanos) -> Option<Timestamp> {
    (nanos != 0).then(|| nanos_timestamp(nanos))
}

impl QueueType {
    /// The type in the words of the protocol.
    pub fn wire(self) -> TaskQueueType {
        match self {
            Self::Workflow => TaskQueueType::Workflow,
            Self::Activity => TaskQueueType::Activity,
            Self::Nexus => TaskQueueType::Nexus,
        }
    }

    /// The type that a number of the protocol means.
    pub fn from_wire(kind: i32) -> Option<Self> {
        match TaskQueueType::try_from(kind).ok()? {
            TaskQueueType::Unspecified => None,
            TaskQueueType::Workflow => Some(Self::Workflow),
            TaskQueueType::Activity => Some(Self::Activity),
            TaskQueueType::Nexus => Some(Self::Nexus),
        }
    }
}

impl Deployment {
    /// Everything about it.
    pub fn info(&self, pinned: &PinnedCounts, at: DrainageView) -> WorkerDeploymentInfo {
        let record = &self.record;
        WorkerDeploymentInfo {
            name: self.name.clone(),
            version_summaries: record.builds.iter().rev().map(|build| self.summary(build, pinned, at)).collect(),
            create_time: time(record.created),
            routing_config: Some(self.routing_config()),
            last_modifier_identity: record.last_modifier.clone(),
            manager_identity: record.manager.clone(),
            routing_config_update_state: RoutingConfigUpdateState::Completed as i32,
        }
    }

    /// To which versions tasks go.
    #[expect(deprecated, reason = "older clients read the strings")]
    pub fn routing_config(&self) -> RoutingConfig {
        let record = &self.record;
        let ramping = self.ramping_build();
        RoutingConfig {
            current_deployment_version: record.current.as_deref().map(|build| self.version(build)),
            current_version: names::dotted(&self.name, record.current.as_deref()),
            ramping_deployment_version: ramping.flatten().map(|build| self.version(build)),
            ramping_version: ramping.map(|build| names::dotted(&self.name, build)).unwrap_or_default(),
            ramping_version_percentage: record.percentage,
            current_version_changed_time: time(record.current_changed),
            ramping_version_changed_time: time(record.ramping_changed),
            ramping_version_percentage_changed_time: time(record.percentage_changed),
            revision_number: record.revision,
        }
    }

    /// A version in short.
    #[expect(deprecated, reason = "older clients read the string")]
    pub fn summary(
        &self,
        build: &BuildRecord,
        pinned: &PinnedCounts,
        at: DrainageView,
    ) -> WorkerDeploymentVersionSummary {
        let drainage_info = self.drainage_info(build, pinned, at);
        WorkerDeploymentVersionSummary {
            version: names::dotted(&self.name, Some(&build.build)),
            status: self.status(build, pinned.of(&self.name, &build.build), at) as i32,
            deployment_version: Some(self.version(&build.build)),
            create_time: time(build.created),
            drainage_status: drainage_info.as_ref().map(|info| info.status).unwrap_or_default(),
            drainage_info,
            current_since_time: time(build.current_since),
            ramping_since_time: time(build.ramping_since),
            routing_update_time: time(build.routing_changed),
            first_activation_time: time(build.first_activated),
            last_current_time: time(build.last_current),
            last_deactivation_time: time(build.deactivated),
            ..Default::default()
        }
    }

    /// Everything about a version; `None` if there is no such version.
    #[expect(deprecated, reason = "older clients read the string")]
    pub fn version_info(
        &self,
        build: &str,
        pinned: &PinnedCounts,
        at: DrainageView,
    ) -> Option<WorkerDeploymentVersionInfo> {
        let build = self.build(build)?;
        let version = self.versions.get(&build.build).cloned().unwrap_or_default();
        let queue = |queue: MemberQueue| VersionTaskQueueInfo { name: queue.name, r#type: queue.kind.wire() as i32 };
        Some(WorkerDeploymentVersionInfo {
            version: names::dotted(&self.name, Some(&build.build)),
            status: self.status(build, pinned.of(&self.name, &build.build), at) as i32,
            deployment_version: Some(self.version(&build.build)),
            create_time: time(build.created),
            routing_changed_time: time(build.routing_changed),
            current_since_time: time(build.current_since),
            ramping_since_time: time(build.ramping_since),
            first_activation_time: time(build.first_activated),
            last_current_time: time(build.last_current),
            last_deactivation_time: time(build.deactivated),
            ramp_percentage: if self.is_ramping(&build.build) { self.record.percentage } else { 0.0 },
            task_queue_infos: version.members().map(queue).collect(),
            drainage_info: self.drainage_info(build, pinned, at),
            metadata: (version.had_metadata || !version.metadata.is_empty())
                .then(|| VersionMetadata { entries: version.metadata.clone() }),
            last_modifier_identity: version.last_modifier.clone(),
            ..Default::default()
        })
    }

    fn drainage_info(
        &self,
        build: &BuildRecord,
        pinned: &PinnedCounts,
        at: DrainageView,
    ) -> Option<VersionDrainageInfo> {
        let drainage = self.drainage(build, pinned.of(&self.name, &build.build), at)?;
        let status = match drainage.drained {
            true => VersionDrainageStatus::Drained,
            false => VersionDrainageStatus::Draining,
        };
        Some(VersionDrainageInfo {
            status: status as i32,
            last_changed_time: time(drainage.changed),
            last_checked_time: time(at.now),
        })
    }
}
