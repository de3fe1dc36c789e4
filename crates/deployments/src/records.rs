//! What is stored of deployments: a document for each, with its routing and the list of its versions, and one for each version,
//! with its metadata and its queues. A poll of a new queue writes one version, a change of routing one deployment.

use std::collections::BTreeMap;

use segno_proto::{Nanos, common::Payload, enums::VersionDrainageStatus};

use crate::routing::{MemberQueue, QueueType};

/// What the names of all documents of deployments begin with.
pub const PREFIX: &str = "deployment/";

/// A deployment. Times are in nanoseconds since the epoch, 0 for those that never came. Tags are never reused.
#[derive(Clone, PartialEq, prost::Message)]
pub struct DeploymentRecord {
    /// When it was created.
    #[prost(int64, tag = "1")]
    pub created: Nanos,
    /// The request that created it; empty if a poll did.
    #[prost(string, tag = "2")]
    pub create_request_id: String,
    /// Changes whenever a caller changed it: the conflict token.
    #[prost(int64, tag = "3")]
    pub conflict_time: Nanos,
    /// Who changed it last.
    #[prost(string, tag = "4")]
    pub last_modifier: String,
    /// Who alone may change the routing; empty if everyone may.
    #[prost(string, tag = "5")]
    pub manager: String,
    /// How often the routing changed.
    #[prost(int64, tag = "6")]
    pub revision: i64,
    /// The current version, by its build id; `None` for workers without a version.
    #[prost(string, optional, tag = "7")]
    pub current: Option<String>,
    /// When the current version changed.
    #[prost(int64, tag = "8")]
    pub current_changed: Nanos,
    /// The version that ramps, if one does.
    #[prost(message, optional, tag = "9")]
    pub ramping: Option<RampingRecord>,
    /// How many of a hundred workflows go to the ramping version.
    #[prost(float, tag = "10")]
    pub percentage: f32,
    /// When another version began to ramp, or the ramp was removed.
    #[prost(int64, tag = "11")]
    pub ramping_changed: Nanos,
    /// When the percentage or the version changed.
    #[prost(int64, tag = "12")]
    pub percentage_changed: Nanos,
    /// Its versions, in the order of their creation.
    #[prost(message, repeated, tag = "13")]
    pub builds: Vec<BuildRecord>,
}

/// The version that ramps.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct RampingRecord {
    /// Its build id; `None` for workers without a version.
    #[prost(string, optional, tag = "1")]
    pub build: Option<String>,
}

/// What a deployment has of each version.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct BuildRecord {
    /// The build id.
    #[prost(string, tag = "1")]
    pub build: String,
    /// When it was created.
    #[prost(int64, tag = "2")]
    pub created: Nanos,
    /// The request that created it; empty if a poll or a change of routing did.
    #[prost(string, tag = "3")]
    pub create_request_id: String,
    /// Whether a worker polled as this version.
    #[prost(bool, tag = "4")]
    pub polled: bool,
    /// Since when it has been the current version, if it is.
    #[prost(int64, tag = "5")]
    pub current_since: Nanos,
    /// Since when it has been ramping, if it is.
    #[prost(int64, tag = "6")]
    pub ramping_since: Nanos,
    /// When its place in the routing changed.
    #[prost(int64, tag = "7")]
    pub routing_changed: Nanos,
    /// When it first became current or ramping.
    #[prost(int64, tag = "8")]
    pub first_activated: Nanos,
    /// When it last became current.
    #[prost(int64, tag = "9")]
    pub last_current: Nanos,
    /// When it stopped being current or ramping, unless it is again.
    #[prost(int64, tag = "10")]
    pub deactivated: Nanos,
    /// How far it is from being unused, as it was last found.
    #[prost(enumeration = "VersionDrainageStatus", tag = "11")]
    pub drainage: i32,
    /// Since when.
    #[prost(int64, tag = "12")]
    pub drainage_changed: Nanos,
}

/// What is stored of a version besides.
#[derive(Clone, PartialEq, prost::Message)]
pub struct VersionRecord {
    /// Who created it or changed its metadata last.
    #[prost(string, tag = "1")]
    pub last_modifier: String,
    /// Notes of its operators.
    #[prost(btree_map = "string, message", tag = "2")]
    pub metadata: BTreeMap<String, Payload>,
    /// The queues that its workers polled.
    #[prost(message, repeated, tag = "3")]
    pub queues: Vec<QueueRecord>,
    /// Whether it ever had notes: then it is described with notes, if only with none.
    #[prost(bool, tag = "4")]
    pub had_metadata: bool,
}

/// A queue of a version.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct QueueRecord {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// What is polled for: a bit for each [`QueueType`].
    #[prost(uint32, tag = "2")]
    pub types: u32,
}

fn bit(kind: QueueType) -> u32 {
    match kind {
        QueueType::Workflow => 1,
        QueueType::Activity => 2,
        QueueType::Nexus => 4,
    }
}

impl BuildRecord {
    /// Whether it was last found to be drained.
    pub fn is_drained(&self) -> bool {
        self.drainage() == VersionDrainageStatus::Drained
    }

    /// Whether it was last found to be draining.
    pub fn is_draining(&self) -> bool {
        self.drainage() == VersionDrainageStatus::Draining
    }
}

impl VersionRecord {
    /// Its queues by name and type.
    pub fn members(&self) -> impl Iterator<Item = MemberQueue> {
        let kinds = [QueueType::Workflow, QueueType::Activity, QueueType::Nexus];
        self.queues.iter().flat_map(move |queue| {
            let kinds = kinds.into_iter().filter(|kind| queue.types & bit(*kind) != 0);
            kinds.map(|kind| MemberQueue { name: queue.name.clone(), kind })
        })
    }

    /// Whether its workers polled a queue.
    pub fn has(&self, member: &MemberQueue) -> bool {
        self.queues.iter().any(|queue| queue.name == member.name && queue.types & bit(member.kind) != 0)
    }

    /// Adds a queue.
    pub(crate) fn add(&mut self, member: &MemberQueue) {
        match self.queues.iter_mut().find(|queue| queue.name == member.name) {
            Some(queue) => queue.types |= bit(member.kind),
            None => self.queues.push(QueueRecord { name: member.name.clone(), types: bit(member.kind) }),
        }
    }
}
