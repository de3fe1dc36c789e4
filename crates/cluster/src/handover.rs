//! The shards that this node serves: taking over, handing over, and dropping lost ones.
//!
//! One loop follows the shard map. A shard that the map gives to this node is served at once, and its runs are scanned
//! then. One that should move to another node is handed over when no call of it is under way: its calls are refused as
//! moved, and the nodes that forwarded them try again. One that the map gives to another node without a handover was
//! lost: its runs are dropped from memory.

use std::{sync::Arc, time::Duration};

use segno_dispatch::RemoteQueues;
use segno_matching::QueueKey;
use segno_runs::{error::CallError, ports::owner::Place, recovery::load_all, transact::LockedSlot};
use segno_store::{
    CommitError, OpenRun, OutboxKey, OutboxRow, RunKey,
    cluster::{ClusterMap, NodeId, SHARDS, Shard},
    sabotage,
};
use tokio::time::Instant;

use super::{Cluster, topology::ShardState};

/// Shards handed over together.
const CHUNK: usize = 32;
/// How long a hand-over waits for what is under way.
const QUIET_MAX: Duration = Duration::from_secs(2);
/// How often the map is compared when nothing changes: what could not be done is tried again.
const RECONCILE_INTERVAL: Duration = Duration::from_millis(500);
/// How long a start waits for its shards.
const START_MAX: Duration = Duration::from_secs(10);
/// How long a node that leaves waits for others to take its shards.
const LEAVE_MAX: Duration = Duration::from_secs(30);
/// How often it looks whether they have.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Open runs and messages read at a time.
const PAGE: usize = 4096;
/// Runs loaded at a time.
const RUNS_PER_LOAD: usize = 256;
/// How long a page is held back for tests.
const HELD_BACK: Duration = Duration::from_secs(2);

/// With `slow-scan` and `wake-by-scan`, transitions come between the reading of a page and its use. The first alone is no fault:
/// it shows that what is noticed of the second is not due to the delay.
async fn hold_back() {
    if sabotage::is_on("slow-scan") || sabotage::is_on("wake-by-scan") {
        tokio::time::sleep(HELD_BACK).await;
    }
}

/// Follows the map until the node stops.
pub(super) async fn run(cluster: Arc<Cluster>) {
    let mut seen = 0;
    // A node that stops goes on until its shards are handed over.
    while !cluster.runs.lifecycle.has_ended() {
        let next = cluster.topology.membership.next_map(seen);
        if let Ok((count, map)) = tokio::time::timeout(RECONCILE_INTERVAL, next).await {
            seen = count;
            cluster.follow(map).await;
        }
        cluster.reconcile().await;
    }
}

impl Cluster {
    /// Takes this node's shards at its start, so that they are served when it says that it is ready.
    pub(super) async fn take_first_shards(self: &Arc<Self>) {
        let topology = &self.topology;
        let until = Instant::now() + START_MAX;
        let mut seen = 0;
        while Instant::now() < until {
            let next = topology.membership.next_map(seen);
            if let Ok((count, map)) = tokio::time::timeout(RECONCILE_INTERVAL, next).await {
                seen = count;
                self.follow(map).await;
            }
            self.reconcile().await;
            let map = topology.map();
            let is_settled = |shard: u16| match map.owner(Shard(shard)) {
                None => false,
                Some(owner) if owner == topology.me => topology.serves(Shard(shard)),
                // Others hand over what belongs here when they have heard of this node.
                Some(_) => true,
            };
            if seen > 0 && (0..SHARDS as u16).all(is_settled) {
                return;
            }
        }
        tracing::warn!("some shards have no owner yet; they are taken as soon as the database lets it");
    }

    /// Brings links, shards and homes in line with a new map.
    async fn follow(self: &Arc<Self>, map: Arc<ClusterMap>) {
        let topology = &self.topology;
        let Some(before) = topology.set_map(map.clone()) else { return };
        let supervise = |link| self.runs.lifecycle.supervise_to_its_end("the link to another node", link);
        self.peers.follow_members(&map, self, supervise);
        let mut lost = Vec::new();
        let mut gained = Vec::new();
        for shard in (0..SHARDS as u16).map(Shard) {
            match (topology.state(shard), map.owner(shard) == Some(topology.me)) {
                (ShardState::NotServed, true) => gained.push(shard),
                (ShardState::Served, false) => lost.push(shard),
                _ => {}
            }
        }
        if !lost.is_empty() {
            tracing::warn!(shards = lost.len(), "shards were lost to another node");
            topology.set_states(&lost, ShardState::HandingOver);
            self.drop_shards(&lost, true).await;
        }
        if !gained.is_empty() {
            self.take_shards(gained);
        }
        if !before.same_homes(&map) {
            self.homes_changed();
        }
    }

    /// Claims what has no owner and belongs here; hands over what belongs elsewhere.
    async fn reconcile(self: &Arc<Self>) {
        let topology = &self.topology;
        let map = topology.map();
        let stays = map.member(topology.me).is_some_and(|member| !member.leaving);
        let wanted = topology.wanted(&map);
        let all = || (0..).map(Shard).zip(wanted.iter().copied());
        if stays {
            let is_free = |shard: Shard| match map.owner(shard) {
                None => true,
                Some(owner) => owner != topology.me && sabotage::is_on("two-owners"),
            };
            let free = all().filter(|(shard, wanted)| *wanted == Some(topology.me) && is_free(*shard));
            let free: Vec<Shard> = free.map(|(shard, _)| shard).collect();
            if !free.is_empty() {
                match topology.membership.claim(&free).await {
                    Ok(()) => topology.membership.check_map(),
                    Err(error) => tracing::warn!(%error, "shards could not be claimed; trying again"),
                }
            }
        }
        let elsewhere = all().filter_map(|(shard, wanted)| {
            let wanted = wanted.filter(|wanted| *wanted != topology.me)?;
            let moves = topology.serves(shard) && map.owner(shard) == Some(topology.me);
            (moves && self.peers.is_reachable(wanted)).then_some((shard, wanted))
        });
        let moving: Vec<(Shard, NodeId)> = elsewhere.take(CHUNK).collect();
        if !moving.is_empty() {
            self.hand_over(&moving).await;
        }
    }

    /// Hands shards to their new owners, once nothing of them is under way.
    async fn hand_over(self: &Arc<Self>, moving: &[(Shard, NodeId)]) {
        let shards: Vec<Shard> = moving.iter().map(|(shard, _)| *shard).collect();
        self.topology.set_states(&shards, ShardState::HandingOver);
        if !self.drop_shards(&shards, false).await {
            tracing::warn!("a hand-over waits too long for what is under way; trying again");
            // Part of it was dropped from memory and is found again.
            self.take_shards(shards);
            return;
        }
        // Whether it happened is unknown until it is answered; asking again does no harm.
        let version = loop {
            match self.topology.membership.give(moving).await {
                Ok(version) => break version,
                // The node ends, and the node that takes its place has the shards.
                Err(CommitError::Fenced) => return,
                Err(_) if self.runs.lifecycle.has_ended() => return,
                Err(error) => {
                    tracing::warn!(%error, "shards could not be handed over; trying again");
                    tokio::time::sleep(RECONCILE_INTERVAL).await;
                }
            }
        };
        self.topology.set_handed_over(version);
        self.topology.set_states(&shards, ShardState::NotServed);
        self.peers.refresh_maps();
        tracing::info!(shards = shards.len(), "shards were handed over");
    }

    /// Drops what memory has of shards that are being handed over. False if something of them is still under way after a while;
    /// with `lost` it is dropped all the same, because nothing of it can be stored now.
    async fn drop_shards(&self, shards: &[Shard], lost: bool) -> bool {
        let until = Instant::now() + QUIET_MAX;
        let runs = &self.runs;
        for slot in runs.slots.of_shards(|shard| shards.contains(&shard)) {
            let state = match tokio::time::timeout_at(until, slot.state.clone().lock_owned()).await {
                Ok(state) => state,
                Err(_) if lost => {
                    // It is dropped as soon as the call that holds it has failed.
                    let runs = runs.clone();
                    tokio::spawn(async move {
                        let state = slot.state.clone().lock_owned().await;
                        runs.forget(&mut LockedSlot { slot, state });
                    });
                    continue;
                }
                Err(_) => return false,
            };
            let mut locked = LockedSlot { slot, state };
            if !lost {
                runs.keep_started_task(&mut locked).await;
            }
            let before = locked.state.current.as_ref().map(|current| current.run.clone());
            runs.forget(&mut locked);
            if let Some(before) = before {
                runs.timers.set(RunKey(before.info.run_key), None);
                runs.release_holds(&before);
            }
            // Calls that wait for progress look again, and find that the run has moved.
            locked.slot.progress.send_replace(Default::default());
        }
        if lost {
            self.topology.set_states(shards, ShardState::NotServed);
        }
        true
    }

    /// Serves shards from now on, and finds out what must happen next of their runs.
    fn take_shards(self: &Arc<Self>, shards: Vec<Shard>) {
        if shards.is_empty() {
            return;
        }
        self.topology.set_states(&shards, ShardState::Served);
        tracing::info!(shards = shards.len(), "serving shards");
        let cluster = self.clone();
        self.runs.lifecycle.supervise_to_its_end("the recovery of shards", async move {
            for some in shards.chunks(CHUNK) {
                while !cluster.runs.is_stopping() {
                    match cluster.recover_shards(some).await {
                        Ok(()) => break,
                        Err(error) => {
                            tracing::warn!(%error, "shards could not be read; trying again");
                            tokio::time::sleep(RECONCILE_INTERVAL).await;
                        }
                    }
                }
            }
            cluster.observer.shards_taken().await;
        });
    }

    /// Arms wake-ups, sends messages, offers tasks and finds holds of some shards.
    async fn recover_shards(&self, shards: &[Shard]) -> Result<(), CallError> {
        let (runs, membership) = (&self.runs, &self.topology.membership);
        let mut after = None;
        let (mut dispatchable, mut waking) = (Vec::new(), Vec::new());
        loop {
            let page = membership.open_runs_of(shards, after, PAGE).await?;
            let Some(last) = page.last() else { break };
            after = Some(last.key);
            let full = page.len() == PAGE;
            hold_back().await;
            for open in page {
                if let Some(at) = open.wake_at {
                    waking.push(open.key);
                    // A transition that came meanwhile knows better; waking too early does no harm.
                    if sabotage::is_on("wake-by-scan") {
                        runs.timers.set(open.key, Some(at));
                    } else {
                        runs.timers.set_if_earlier(open.key, at);
                    }
                }
                if open.dispatchable {
                    dispatchable.push(open.key);
                }
            }
            if !full {
                break;
            }
        }
        let mut after: Option<OutboxKey> = None;
        loop {
            let page = membership.outbox_of(shards, after, PAGE).await?;
            let Some(last) = page.last() else { break };
            after = Some(last.key);
            let full = page.len() == PAGE;
            page.into_iter().for_each(|row: OutboxRow| runs.send_message(row));
            if !full {
                break;
            }
        }
        runs.offer_again(dispatchable).await;
        runs.find_holds(waking).await;
        Ok(())
    }

    /// Nodes came or went, so that queues have other homes: tasks are offered there, and polls wait there.
    fn homes_changed(self: &Arc<Self>) {
        let runs = &self.runs;
        self.topology.count_homes();
        self.dispatch
            .matching
            .forget_moved(|key: &QueueKey| runs.home(key.namespace, key.client_name()) == Place::Here);
        self.edge.forget_moved(|key, home| runs.home(key.namespace, key.client_name()) != Place::There(home));
        self.dispatch.direct_queries.offer_again.notify_waiters();
        self.observer.homes_changed();
        let cluster = self.clone();
        let offering = async move { cluster.offer_everything().await };
        runs.lifecycle.supervise_to_its_end("the offering of tasks at new homes", offering);
    }

    /// Offers every waiting task of this node's runs.
    async fn offer_everything(&self) {
        let _one = self.offering_all.lock().await;
        // What memory alone knows.
        for run in self.runs.slots.runs() {
            self.offers_settle().await;
            self.runs.offer_all(&run);
        }
        self.offer_stored(|_| true).await;
    }

    /// The home of a queue forgot tasks and has room for them again.
    pub(super) async fn offer_queue_again(&self, key: &QueueKey) {
        let name = key.name.clone();
        self.offer_stored(move |run| {
            run.info.task_queue == name || run.state().activities.values().any(|activity| activity.queue == name)
        })
        .await;
    }

    async fn offer_stored(&self, fits: impl Fn(&segno_engine::Run) -> bool) {
        let runs = &self.runs;
        let mut after = None;
        while !runs.is_stopping() {
            let page = match runs.own_open_runs(after, PAGE).await {
                Ok(page) => page,
                Err(error) => {
                    tracing::warn!(%error, "waiting tasks could not be read; trying again");
                    tokio::time::sleep(RECONCILE_INTERVAL).await;
                    continue;
                }
            };
            let Some(last) = page.last() else { return };
            after = Some(last.key);
            let now = runs.clock.now();
            let waits = |open: &OpenRun| open.dispatchable || open.wake_at.is_some_and(|at| at <= now);
            let keys: Vec<RunKey> = page.into_iter().filter(waits).map(|open| open.key).collect();
            for keys in keys.chunks(RUNS_PER_LOAD) {
                let Ok((loaded, _)) = load_all(&*runs.store, keys).await else { continue };
                for stored in loaded.iter().filter(|run| fits(run)) {
                    self.offers_settle().await;
                    let newest = runs.slots.run_in_memory(RunKey(stored.info.run_key));
                    runs.offer_all(newest.as_deref().unwrap_or(stored));
                }
            }
        }
    }

    /// Leaves the cluster: others take over everything, as far as there are others.
    pub async fn leave(&self) {
        let topology = &self.topology;
        let map = topology.map();
        let Some(me) = map.member(topology.me) else { return };
        let has_others = |map: &ClusterMap| map.members.iter().any(|other| other.id != topology.me && !other.leaving);
        if !has_others(&map) {
            return;
        }
        if let Err(error) = topology.membership.mark_leaving(&me.name).await {
            tracing::warn!(%error, "this node could not say that it leaves");
            return;
        }
        self.peers.refresh_maps();
        let until = Instant::now() + LEAVE_MAX;
        while Instant::now() < until {
            let map = topology.map();
            if map.shards_of(topology.me).is_empty() || !has_others(&map) {
                return;
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        tracing::warn!("not everything was handed over in time; the rest is taken when this node is gone");
    }
}
