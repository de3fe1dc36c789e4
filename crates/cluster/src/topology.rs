//! The shard map as this node knows it: members, the owner of each shard, the home of each queue.
//!
//! What holds: a shard whose state is [`ShardState::Served`] is served by this node and by no other while this node is
//! within its lease; the database refuses writes of a fenced node.

use std::{
    sync::{
        Arc, Mutex, PoisonError, RwLock,
        atomic::{AtomicI64, AtomicU8, AtomicU64, Ordering},
    },
    time::Duration,
};

use segno_environment::lock::lock;
use segno_runs::{error::CallError, ports::owner::Place, slots::WorkflowKey};
use segno_store::{
    NamespaceKey, Store,
    cluster::{ClusterMap, Membership, NodeId, SHARDS, Shard},
    sabotage,
};

/// The error for callers of a node that did not compare its documents with the database for too long.
pub const LEASE_EXPIRED: &str = "this node has not been able to compare its keys, scripts and namespaces with the \
     database for a while and may have lost its place, so that it admits no callers; retry, or call another node";

/// Calls wait for a database that has been away for less.
const DATABASE_OUTAGE_MAX: Duration = Duration::from_secs(10);
/// How often they look whether it is back.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The state of a shard at this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum ShardState {
    /// Another node owns it, or no node does.
    NotServed = 0,
    /// It is served here.
    Served = 1,
    /// It is being handed over: no call begins.
    HandingOver = 2,
}

impl ShardState {
    fn of(number: u8) -> Self {
        match number {
            1 => Self::Served,
            2 => Self::HandingOver,
            _ => Self::NotServed,
        }
    }
}

/// The node that should own each shard, by the shard's number.
type WantedOwners = Arc<[Option<NodeId>]>;

/// Members, owners and homes.
pub struct Topology {
    pub(super) membership: Arc<dyn Membership>,
    pub(super) me: NodeId,
    map: RwLock<Arc<ClusterMap>>,
    shards: Vec<AtomicU8>,
    /// The node that should own each shard, and the map of which that is true.
    wanted: Mutex<Option<(Arc<ClusterMap>, WantedOwners)>>,
    /// Commits of each shard while it was served here.
    commits: Vec<AtomicU64>,
    /// Counts changes of homes.
    homes: AtomicU64,
    /// Maps of older versions do not know what this node handed over.
    handed_over_version: AtomicI64,
}

impl Topology {
    /// The topology of the cluster that a store is part of.
    pub(super) fn of(store: &dyn Store) -> Option<Arc<Self>> {
        let membership = store.membership()?;
        Some(Arc::new(Self {
            me: membership.me(),
            membership,
            map: RwLock::default(),
            shards: (0..SHARDS).map(|_| AtomicU8::new(ShardState::NotServed as u8)).collect(),
            wanted: Mutex::default(),
            commits: (0..SHARDS).map(|_| AtomicU64::new(0)).collect(),
            homes: AtomicU64::new(0),
            handed_over_version: AtomicI64::new(0),
        }))
    }

    /// Whether a node is this one.
    pub fn is_me(&self, node: NodeId) -> bool {
        node == self.me
    }

    /// The newest map.
    pub fn map(&self) -> Arc<ClusterMap> {
        self.map.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether a node was a member and is none now. One that this node has not heard of yet may just have come.
    pub(super) fn is_gone(&self, node: NodeId) -> bool {
        self.map().has_lost(node)
    }

    /// Takes a newer map; gives the one before. `None` if it is older than what this node handed over.
    pub(super) fn set_map(&self, map: Arc<ClusterMap>) -> Option<Arc<ClusterMap>> {
        if map.version < self.handed_over_version.load(Ordering::Acquire) {
            return None;
        }
        Some(std::mem::replace(&mut self.map.write().unwrap_or_else(PoisonError::into_inner), map))
    }

    /// This node handed shards over, which maps show from a version on.
    pub(super) fn set_handed_over(&self, version: i64) {
        self.handed_over_version.fetch_max(version, Ordering::AcqRel);
    }

    /// The node that should own each shard. Computed once for the same nodes: it takes a hash for each shard and node.
    pub(super) fn wanted(&self, map: &Arc<ClusterMap>) -> WantedOwners {
        let mut known = lock(&self.wanted);
        if let Some((_, wanted)) = known.as_ref().filter(|(before, _)| before.same_homes(map)) {
            return wanted.clone();
        }
        let wanted: WantedOwners = (0..SHARDS as u16).map(|number| map.wanted(Shard(number))).collect();
        *known = Some((map.clone(), wanted.clone()));
        wanted
    }

    pub(super) fn state(&self, shard: Shard) -> ShardState {
        let state = self.shards.get(usize::from(shard.0));
        state.map_or(ShardState::NotServed, |state| ShardState::of(state.load(Ordering::Acquire)))
    }

    pub(super) fn set_states(&self, shards: &[Shard], state: ShardState) {
        for place in shards.iter().filter_map(|shard| self.shards.get(usize::from(shard.0))) {
            place.store(state as u8, Ordering::Release);
        }
    }

    /// Whether this node serves a shard.
    pub(super) fn serves(&self, shard: Shard) -> bool {
        self.state(shard) == ShardState::Served
    }

    /// The shards that this node serves.
    pub fn served(&self) -> Vec<Shard> {
        (0..SHARDS as u16).map(Shard).filter(|shard| self.serves(*shard)).collect()
    }

    /// Whether the node may answer from memory: others would not have taken its place yet, and its keys, scripts and namespaces were
    /// compared with the database's lately.
    pub fn is_within_lease(&self) -> bool {
        if sabotage::is_on("serve-after-lease") {
            return true;
        }
        // Documents are compared by beats, so that this is never later than the last beat.
        self.membership.compared_at().elapsed() < self.membership.lease() * 2 / 3
    }

    /// How long a node that shows no sign of life keeps its place.
    pub fn lease(&self) -> Duration {
        self.membership.lease()
    }

    pub(super) fn place(&self, workflow: &WorkflowKey) -> Place {
        let shard = Shard::of(workflow.namespace, &workflow.workflow_id);
        match self.state(shard) {
            ShardState::Served => Place::Here,
            ShardState::HandingOver => Place::Nowhere,
            ShardState::NotServed => match self.map().owner(shard) {
                Some(owner) if owner != self.me => Place::There(owner),
                _ => Place::Nowhere,
            },
        }
    }

    pub(super) fn home(&self, namespace: NamespaceKey, name: &str) -> Place {
        match self.map().home(namespace, name) {
            Some(home) if home == self.me => Place::Here,
            Some(home) => Place::There(home),
            None => Place::Nowhere,
        }
    }

    /// How often homes have changed.
    pub(super) fn homes(&self) -> u64 {
        self.homes.load(Ordering::Acquire)
    }

    pub(super) fn count_homes(&self) {
        self.homes.fetch_add(1, Ordering::AcqRel);
    }

    pub(super) fn admit(&self, workflow: &WorkflowKey) -> Result<(), CallError> {
        if !self.serves(Shard::of(workflow.namespace, &workflow.workflow_id)) {
            return Err(CallError::Moved);
        }
        if !self.is_within_lease() {
            return Err(CallError::Unavailable(LEASE_EXPIRED.to_owned()));
        }
        Ok(())
    }

    pub(super) async fn admit_when_available(
        &self,
        workflow: &WorkflowKey,
        mut refusal: CallError,
    ) -> Result<(), CallError> {
        while matches!(refusal, CallError::Unavailable(_)) && self.is_back_soon() {
            tokio::time::sleep(POLL_INTERVAL).await;
            match self.admit(workflow) {
                Ok(()) => return Ok(()),
                Err(newer) => refusal = newer,
            }
        }
        Err(refusal)
    }

    /// Refuses callers while this node is not within its lease. Waits for a database that was away for a moment.
    pub(super) async fn admit_callers(&self) -> Result<(), CallError> {
        while !self.is_within_lease() {
            if !self.is_back_soon() {
                return Err(CallError::Unavailable(LEASE_EXPIRED.to_owned()));
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        Ok(())
    }

    /// Whether the database has not been away for long, so that it is worth waiting for.
    fn is_back_soon(&self) -> bool {
        self.membership.compared_at().elapsed() < DATABASE_OUTAGE_MAX
    }

    /// A run of a workflow was changed.
    pub(super) fn count_commit(&self, workflow: &WorkflowKey) {
        let shard = Shard::of(workflow.namespace, &workflow.workflow_id);
        if let Some(commits) = self.commits.get(usize::from(shard.0)) {
            commits.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Changes of runs since this node started, by shard; shards without any are left out.
    pub fn commits_by_shard(&self) -> Vec<(Shard, u64)> {
        let counts = self.commits.iter().map(|count| count.load(Ordering::Relaxed));
        (0..).map(Shard).zip(counts).filter(|(_, count)| *count > 0).collect()
    }
}
