//! A node among others: what is here, what is elsewhere, and how to reach it.
//!
//! A workflow belongs to a shard, and a shard to one node at a time, its owner ([`ownership`]). A queue has a home, where
//! tasks and workers meet ([`offers`]), unless both are at the same node and nobody waits ([`meeting`]). Signs of life of workers are told to everybody ([`seen`]), because each owner decides
//! about the workers that hold something of its runs. A client's call goes to the node that it is about as it came
//! ([`calls`]). With one store in this process there is no cluster, and everything is here.
//!
//! What holds: a run is touched only by the node that serves its shard, within its lease ([`Runs::admit`]); whatever a node
//! that lost its place still writes is refused by the database.

mod asked;
mod calls;
mod edge;
mod encryption;
mod link;
mod meeting;
mod offers;
mod ownership;
mod revisions;
mod seen;
mod wire;

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, OnceLock, PoisonError, RwLock, Weak,
        atomic::{AtomicI64, AtomicU8, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use segno_store::{
    NamespaceKey, Storage,
    cluster::{ClusterMap, Membership, NodeId, SHARDS, Shard},
};
use tokio::{net::TcpListener, task::AbortHandle, time::Instant};

pub use calls::{ClientCalls, ForwardError, Forwarded, ForwardedCall, RemoteTask};
pub use encryption::NodeIdentity;
pub use link::LinkFigures;
pub(crate) use link::{AskError, RemoteHold};
pub(crate) use meeting::{MetHere, look_after_polls};
pub use offers::Polled;
pub(crate) use ownership::run as follow_map;
pub use revisions::ChangedNodes;
pub(crate) use revisions::STALE;
pub(crate) use revisions::run as follow_revisions;
pub(crate) use seen::ToldWorkers;

use crate::{
    dispatch::Dispatch, error::CallError, matching::QueueKey, runs::Runs, sabotage, slots::WorkflowKey, slots::lock,
};
use edge::Edge;
use link::{Answered, Link, Traffic};
use wire::{Ask, News, Question};

/// The shard belongs to somebody else.
const ELSEWHERE: u8 = 0;
/// The shard is served here.
const SERVED: u8 = 1;
/// The shard is being handed over: nothing new begins.
const LEAVING: u8 = 2;

/// Calls wait for a database that has been away for less.
const AWAY_MAX: Duration = Duration::from_secs(10);
/// How often they look whether it is back.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Where something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// On this node.
    Here,
    /// On another one.
    There(NodeId),
    /// It is on its way from one to another.
    Nowhere,
}

/// The node that should own each shard, by the shard's number.
type WantedOwners = Arc<[Option<NodeId>]>;

/// What a node knows of the others.
pub struct Cluster {
    pub(crate) membership: Arc<dyn Membership>,
    pub(crate) me: NodeId,
    pub(crate) secret: [u8; 16],
    /// Proves to other nodes that this is the one that the database names. There is none if there is no listener for them.
    identity: Option<Arc<NodeIdentity>>,
    map: RwLock<Arc<ClusterMap>>,
    shards: Vec<AtomicU8>,
    /// Who should own each shard, and the map of which that is true.
    wanted: Mutex<Option<(Arc<ClusterMap>, WantedOwners)>>,
    links: Mutex<HashMap<NodeId, Arc<Link>>>,
    /// What went over the connections of both directions.
    traffic: Mutex<HashMap<NodeId, Arc<Traffic>>>,
    /// Commits of each shard while it was served here.
    commits: Vec<AtomicU64>,
    /// Counts changes of homes.
    homes: AtomicU64,
    node: OnceLock<Weak<Runs>>,
    dispatch: OnceLock<Weak<Dispatch>>,
    /// Takes connections of other nodes.
    accepting: Mutex<Option<AbortHandle>>,
    client_calls: OnceLock<Arc<dyn ClientCalls>>,
    told: ToldWorkers,
    /// Maps older than this do not know what this node gave away.
    not_before: AtomicI64,
    /// Offers that look for the home of their queue.
    offering: Arc<AtomicUsize>,
    /// Everything is offered again once at a time.
    offering_all: tokio::sync::Mutex<()>,
    /// Documents are read again once at a time.
    reloading: tokio::sync::Mutex<()>,
    /// Connections that other nodes made, numbered, the newest of each.
    incoming: Mutex<HashMap<NodeId, u64>>,
    /// Polls that wait here for tasks of queues whose homes are elsewhere.
    edge: Edge,
    /// Queues of which others were told lately that workers limit them.
    told_limits: Mutex<HashMap<QueueKey, Instant>>,
}

impl Cluster {
    /// The cluster that a storage is part of.
    pub(crate) fn of(storage: &Arc<dyn Storage>, identity: Option<Arc<NodeIdentity>>) -> Option<Arc<Self>> {
        let membership = storage.membership()?;
        Some(Arc::new(Self {
            me: membership.me(),
            secret: membership.secret(),
            identity,
            membership,
            map: RwLock::default(),
            shards: (0..SHARDS).map(|_| AtomicU8::new(ELSEWHERE)).collect(),
            wanted: Mutex::default(),
            links: Mutex::default(),
            traffic: Mutex::default(),
            commits: (0..SHARDS).map(|_| AtomicU64::new(0)).collect(),
            homes: AtomicU64::new(0),
            node: OnceLock::new(),
            dispatch: OnceLock::new(),
            accepting: Mutex::default(),
            client_calls: OnceLock::new(),
            told: ToldWorkers::default(),
            not_before: AtomicI64::new(0),
            offering: Arc::default(),
            offering_all: tokio::sync::Mutex::default(),
            reloading: tokio::sync::Mutex::default(),
            incoming: Mutex::default(),
            edge: Edge::default(),
            told_limits: Mutex::default(),
        }))
    }

    /// Takes connections of other nodes until this one ends.
    pub(crate) fn accept_nodes(&self, listener: TcpListener, node: &Arc<Runs>) {
        let Some(acceptor) = self.identity.as_ref().and_then(|identity| match identity.acceptor() {
            Ok(acceptor) => Some(acceptor),
            Err(error) => {
                tracing::error!(%error, "connections of other nodes cannot be encrypted and are not taken");
                None
            }
        }) else {
            return;
        };
        let accepting = link::accept(listener, acceptor, Arc::downgrade(node));
        *lock(&self.accepting) = Some(node.supervise_to_its_end("the listener for other nodes", accepting));
    }

    /// Ends all connections with other nodes: nothing is asked or answered any more.
    pub(crate) fn close(&self) {
        if let Some(accepting) = lock(&self.accepting).take() {
            accepting.abort();
        }
        lock(&self.links).clear();
    }

    /// Whether a node is this one.
    pub fn is_me(&self, node: NodeId) -> bool {
        node == self.me
    }

    /// The newest map.
    pub fn map(&self) -> Arc<ClusterMap> {
        self.map.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether a node was a member once and is none any more. One that this node has not heard of yet may just have come.
    pub(crate) fn is_gone(&self, node: NodeId) -> bool {
        self.map().has_lost(node)
    }

    fn set_map(&self, map: Arc<ClusterMap>) -> Arc<ClusterMap> {
        std::mem::replace(&mut self.map.write().unwrap_or_else(PoisonError::into_inner), map)
    }

    /// Who should own each shard. Found out once for the same nodes: it takes a hash for each shard and node.
    fn wanted(&self, map: &Arc<ClusterMap>) -> WantedOwners {
        let mut known = lock(&self.wanted);
        if let Some((_, wanted)) = known.as_ref().filter(|(before, _)| before.same_homes(map)) {
            return wanted.clone();
        }
        let wanted: WantedOwners = (0..SHARDS as u16).map(|number| map.wanted(Shard(number))).collect();
        *known = Some((map.clone(), wanted.clone()));
        wanted
    }

    fn state(&self, shard: Shard) -> u8 {
        self.shards.get(usize::from(shard.0)).map_or(ELSEWHERE, |state| state.load(Ordering::Acquire))
    }

    fn set_state(&self, shard: Shard, state: u8) {
        if let Some(place) = self.shards.get(usize::from(shard.0)) {
            place.store(state, Ordering::Release);
        }
    }

    /// Whether this node serves a shard.
    pub(crate) fn serves(&self, shard: Shard) -> bool {
        self.state(shard) == SERVED
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

    fn place_of(&self, shard: Shard) -> Place {
        match self.state(shard) {
            SERVED => Place::Here,
            LEAVING => Place::Nowhere,
            _ => match self.map().owner(shard) {
                Some(owner) if owner != self.me => Place::There(owner),
                _ => Place::Nowhere,
            },
        }
    }

    fn home_of(&self, namespace: NamespaceKey, name: &str) -> Place {
        match self.map().home(namespace, name) {
            Some(home) if home == self.me => Place::Here,
            Some(home) => Place::There(home),
            None => Place::Nowhere,
        }
    }

    /// How often homes have changed.
    pub(crate) fn homes(&self) -> u64 {
        self.homes.load(Ordering::Acquire)
    }

    fn link(&self, node: NodeId) -> Option<Arc<Link>> {
        lock(&self.links).get(&node).cloned()
    }

    /// All other nodes, and whether they can be reached.
    pub fn links(&self) -> Vec<(NodeId, bool)> {
        lock(&self.links).values().map(|link| (link.node, link.is_open())).collect()
    }

    /// What is going on with each of them.
    pub fn link_figures(&self) -> Vec<LinkFigures> {
        lock(&self.links).values().map(|link| link.figures()).collect()
    }

    fn traffic_with(&self, node: NodeId) -> Arc<Traffic> {
        lock(&self.traffic).entry(node).or_default().clone()
    }

    /// A run of a workflow was changed.
    pub(crate) fn count_commit(&self, key: &WorkflowKey) {
        let shard = Shard::of(key.namespace, &key.workflow_id);
        if let Some(commits) = self.commits.get(usize::from(shard.0)) {
            commits.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Changes of runs since this node started, by shard; shards without any are left out.
    pub fn commits_by_shard(&self) -> Vec<(Shard, u64)> {
        let counts = self.commits.iter().map(|count| count.load(Ordering::Relaxed));
        (0..).map(Shard).zip(counts).filter(|(_, count)| *count > 0).collect()
    }

    fn peers(&self) -> Vec<Arc<Link>> {
        lock(&self.links).values().cloned().collect()
    }

    /// Asks another node.
    async fn ask(&self, node: NodeId, question: Question, deadline: Instant) -> Result<Answered, AskError> {
        let link = self.link(node).ok_or(AskError::NotSent)?;
        link.ask(Ask { question: Some(question) }, deadline).await
    }

    /// Tells all other nodes.
    fn tell_all(&self, news: &News) {
        for link in self.peers() {
            link.tell(news.clone());
        }
    }

    /// Another node made a connection; older ones of it do not count any more.
    fn incoming_began(&self, from: NodeId) -> u64 {
        let mut incoming = lock(&self.incoming);
        let number = incoming.entry(from).or_default();
        *number += 1;
        *number
    }

    fn is_newest_incoming(&self, from: NodeId, number: u64) -> bool {
        lock(&self.incoming).get(&from) == Some(&number)
    }

    /// Names the part that hands out tasks, once, before nodes are met.
    pub(crate) fn set_dispatch(&self, dispatch: &Arc<Dispatch>) {
        let _ = self.dispatch.set(Arc::downgrade(dispatch));
    }

    fn dispatch(&self) -> Option<Arc<Dispatch>> {
        self.dispatch.get()?.upgrade()
    }

    fn local(&self) -> Option<Arc<Runs>> {
        self.node.get()?.upgrade()
    }
}

impl Runs {
    /// What is known of other nodes; `None` if there can be none.
    pub fn cluster(&self) -> Option<&Arc<Cluster>> {
        self.cluster.as_ref()
    }

    /// The part that hands out tasks; `None` once the node is gone, or if there are no other nodes.
    fn dispatch(&self) -> Option<Arc<Dispatch>> {
        self.cluster.as_ref()?.dispatch()
    }

    /// Where the runs of a workflow are.
    pub fn place(&self, key: &WorkflowKey) -> Place {
        match &self.cluster {
            None => Place::Here,
            Some(cluster) => cluster.place_of(Shard::of(key.namespace, &key.workflow_id)),
        }
    }

    /// Where something with a name lives: a queue, a worker's own reports.
    pub fn home(&self, namespace: NamespaceKey, name: &str) -> Place {
        match &self.cluster {
            None => Place::Here,
            Some(cluster) => cluster.home_of(namespace, name),
        }
    }

    /// Where the tasks and the workers of a queue meet.
    pub(crate) fn queue_home(&self, key: &QueueKey) -> Place {
        self.home(key.namespace, key.client_name())
    }

    /// Where a node is: what it asked for is there alone.
    pub fn node_place(&self, node: u64) -> Place {
        match &self.cluster {
            Some(cluster) if node != 0 && node != cluster.me.0 => Place::There(NodeId(node)),
            _ => Place::Here,
        }
    }

    /// Where what there is only once is done: changes of namespaces, deletion of what expired.
    pub fn leader(&self) -> Place {
        self.home(NamespaceKey(0), "leader")
    }

    /// Whether this node leads; a node alone does.
    pub fn leads(&self) -> bool {
        self.leader() == Place::Here
    }

    /// Refuses whatever this node must not do: the run is elsewhere, or somebody else may have taken its place.
    pub(crate) fn admit(&self, key: &WorkflowKey) -> Result<(), CallError> {
        let Some(cluster) = &self.cluster else { return Ok(()) };
        if !cluster.serves(Shard::of(key.namespace, &key.workflow_id)) {
            return Err(CallError::Moved);
        }
        if !cluster.is_within_lease() {
            return Err(CallError::Unavailable(revisions::STALE.to_owned()));
        }
        Ok(())
    }

    /// Waits for a database that was away: a restart or failover of a few seconds delays calls and fails none.
    pub(crate) async fn admit_again(&self, key: &WorkflowKey, mut refused: CallError) -> Result<(), CallError> {
        let Some(cluster) = &self.cluster else { return Ok(()) };
        while matches!(refused, CallError::Unavailable(_)) && cluster.membership.compared_at().elapsed() < AWAY_MAX {
            tokio::time::sleep(LOOK_AGAIN).await;
            match self.admit(key) {
                Ok(()) => return Ok(()),
                Err(again) => refused = again,
            }
        }
        Err(refused)
    }

    /// What distinguishes the connections of this node from those of others.
    pub fn connection_prefix(&self) -> u64 {
        self.cluster.as_ref().map_or(0, |cluster| prefix_of(cluster.me))
    }
}

/// Connections of a node begin with its number.
fn prefix_of(node: NodeId) -> u64 {
    (node.0 & 0xff_ffff) << 40
}
