//! Which shards this node serves: taking what has no owner, handing over what belongs elsewhere, dropping what is lost.
//!
//! One loop follows the map. A shard that the map gives to this node is served at once, and what memory must know of it is
//! read then. One that should be elsewhere is handed over when nothing of it is under way: its calls are refused as moved, and
//! whoever forwarded them asks again. One that the map gives to another node without that was lost: everything memory has of
//! it is dropped.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use segno_store::{
    CommitError, OpenRun, OutboxKey, OutboxRow, RunKey,
    cluster::{ClusterMap, NodeId, Shard},
};
use tokio::time::Instant;

use super::{
    Cluster, ELSEWHERE, LEAVING, Place, SERVED,
    link::Link,
    wire::{News, Question, Told},
};
use crate::{error::CallError, matching::QueueKey, recovery::load_all, runs::Runs, sabotage, slots::lock};

/// Shards handed over together.
const CHUNK: usize = 32;
/// How long a hand-over waits for what is under way.
const QUIET_MAX: Duration = Duration::from_secs(2);
/// Between two looks when nothing changes: what could not be done is tried again.
const LOOK: Duration = Duration::from_millis(500);
/// How long a start waits for its shards.
const START_MAX: Duration = Duration::from_secs(10);
/// How long a node that leaves waits for others to take its shards.
const LEAVE_MAX: Duration = Duration::from_secs(30);
/// Open runs and messages read at a time.
const PAGE: usize = 4096;
/// Runs loaded at a time.
const LOADED: usize = 256;
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
pub(crate) async fn run(node: Arc<Runs>) {
    let Some(cluster) = node.cluster.clone() else { return std::future::pending().await };
    let mut seen = 0;
    // A node that stops goes on until its shards are handed over.
    while !node.has_ended() {
        let next = cluster.membership.next_map(seen);
        if let Ok((count, map)) = tokio::time::timeout(LOOK, next).await {
            seen = count;
            node.follow(&cluster, map).await;
        }
        node.tend(&cluster).await;
    }
}

impl Runs {
    /// Takes this node's part at its start, so that it is ready when it says so.
    pub(crate) async fn take_first_shards(self: &Arc<Self>) -> Result<(), CallError> {
        let Some(cluster) = self.cluster.clone() else { return Ok(()) };
        let _ = cluster.node.set(Arc::downgrade(self));
        let until = Instant::now() + START_MAX;
        let mut seen = 0;
        while Instant::now() < until {
            let next = cluster.membership.next_map(seen);
            if let Ok((count, map)) = tokio::time::timeout(LOOK, next).await {
                seen = count;
                self.follow(&cluster, map).await;
            }
            self.tend(&cluster).await;
            let map = cluster.map();
            let is_settled = |shard: u16| match map.owner(Shard(shard)) {
                None => false,
                Some(owner) if owner == cluster.me => cluster.serves(Shard(shard)),
                // Others give what belongs here when they have heard of this node.
                Some(_) => true,
            };
            if seen > 0 && (0..segno_store::cluster::SHARDS as u16).all(is_settled) {
                return Ok(());
            }
        }
        tracing::warn!("some shards have no owner yet; they are taken as soon as the database lets it");
        Ok(())
    }

    /// Brings links, shards and homes in line with a new map.
    async fn follow(self: &Arc<Self>, cluster: &Arc<Cluster>, map: Arc<ClusterMap>) {
        if map.version < cluster.not_before.load(Ordering::Acquire) {
            // It is older than what this node gave away itself.
            return;
        }
        let before = cluster.set_map(map.clone());
        self.follow_members(cluster, &map);
        let mut lost = Vec::new();
        let mut gained = Vec::new();
        for number in 0..segno_store::cluster::SHARDS as u16 {
            let shard = Shard(number);
            match (cluster.state(shard), map.owner(shard) == Some(cluster.me)) {
                (ELSEWHERE, true) => gained.push(shard),
                (SERVED, false) => lost.push(shard),
                _ => {}
            }
        }
        if !lost.is_empty() {
            tracing::warn!(shards = lost.len(), "shards were lost to another node");
            lost.iter().for_each(|shard| cluster.set_state(*shard, LEAVING));
            self.drop_shards(cluster, &lost, true).await;
        }
        if !gained.is_empty() {
            self.take_shards(cluster, gained);
        }
        if !before.same_homes(&map) {
            self.homes_changed(cluster);
        }
    }

    fn follow_members(self: &Arc<Self>, cluster: &Arc<Cluster>, map: &ClusterMap) {
        lock(&cluster.traffic).retain(|node, _| map.member(*node).is_some());
        let mut links = lock(&cluster.links);
        links.retain(|node, link| map.member(*node).is_some_and(|member| member.address == link.address));
        for member in map.members.iter().filter(|member| member.id != cluster.me && !member.address.is_empty()) {
            links.entry(member.id).or_insert_with(|| {
                tracing::info!(
                    node = member.id.0,
                    name = member.name,
                    address = member.address,
                    "another node is there"
                );
                Link::new(self, member, cluster.traffic_with(member.id))
            });
        }
    }

    /// Claims what has no owner and belongs here; hands over what belongs elsewhere.
    async fn tend(self: &Arc<Self>, cluster: &Arc<Cluster>) {
        let map = cluster.map();
        let stays = map.member(cluster.me).is_some_and(|member| !member.leaving);
        let wanted = cluster.wanted(&map);
        let all = || (0..).map(Shard).zip(wanted.iter().copied());
        if stays {
            let is_free = |shard: Shard| match map.owner(shard) {
                None => true,
                Some(owner) => owner != cluster.me && sabotage::is_on("two-owners"),
            };
            let free = all().filter(|(shard, wanted)| *wanted == Some(cluster.me) && is_free(*shard));
            let free: Vec<Shard> = free.map(|(shard, _)| shard).collect();
            if !free.is_empty() {
                match cluster.membership.claim(&free).await {
                    Ok(()) => cluster.membership.look(),
                    Err(error) => tracing::warn!(%error, "shards could not be claimed; trying again"),
                }
            }
        }
        let reachable = |node: NodeId| cluster.link(node).is_some_and(|link| link.is_open());
        let elsewhere = all().filter_map(|(shard, wanted)| {
            let wanted = wanted.filter(|wanted| *wanted != cluster.me)?;
            let moves = cluster.serves(shard) && map.owner(shard) == Some(cluster.me);
            (moves && reachable(wanted)).then_some((shard, wanted))
        });
        let moving: Vec<(Shard, NodeId)> = elsewhere.take(CHUNK).collect();
        if !moving.is_empty() {
            self.hand_over(cluster, &moving).await;
        }
    }

    /// Hands shards to their new owners, once nothing of them is under way.
    async fn hand_over(self: &Arc<Self>, cluster: &Arc<Cluster>, moving: &[(Shard, NodeId)]) {
        let shards: Vec<Shard> = moving.iter().map(|(shard, _)| *shard).collect();
        shards.iter().for_each(|shard| cluster.set_state(*shard, LEAVING));
        if !self.drop_shards(cluster, &shards, false).await {
            tracing::warn!("a hand-over waits too long for what is under way; trying again");
            // Part of it was dropped from memory and is found again.
            self.take_shards(cluster, shards);
            return;
        }
        // Whether it happened is unknown until it is answered; asking again does no harm.
        let version = loop {
            match cluster.membership.give(moving).await {
                Ok(version) => break version,
                // The node ends, and whoever takes its place has the shards.
                Err(CommitError::Fenced) => return,
                Err(_) if self.has_ended() => return,
                Err(error) => {
                    tracing::warn!(%error, "shards could not be handed over; trying again");
                    tokio::time::sleep(LOOK).await;
                }
            }
        };
        cluster.not_before.fetch_max(version, Ordering::AcqRel);
        shards.iter().for_each(|shard| cluster.set_state(*shard, ELSEWHERE));
        cluster.look_all();
        tracing::info!(shards = shards.len(), "shards were handed over");
    }

    /// Drops what memory has of shards whose state is LEAVING. False if something of them is still under way after a while;
    /// with `lost` it is dropped all the same, because nothing of it can be stored any more.
    async fn drop_shards(self: &Arc<Self>, cluster: &Arc<Cluster>, shards: &[Shard], lost: bool) -> bool {
        let until = Instant::now() + QUIET_MAX;
        for slot in self.slots.of_shards(|shard| shards.contains(&shard)) {
            let state = match tokio::time::timeout_at(until, slot.state.clone().lock_owned()).await {
                Ok(state) => state,
                Err(_) if lost => {
                    // It is dropped as soon as whoever holds it has failed.
                    let node = self.clone();
                    tokio::spawn(async move {
                        let state = slot.state.clone().lock_owned().await;
                        node.forget(&mut crate::transact::Locked { slot, state });
                    });
                    continue;
                }
                Err(_) => return false,
            };
            let mut locked = crate::transact::Locked { slot, state };
            if !lost {
                self.keep_started_task(&mut locked).await;
            }
            let before = locked.state.current.as_ref().map(|current| current.run.clone());
            self.forget(&mut locked);
            if let Some(before) = before {
                self.timers.set(RunKey(before.info.run_key), None);
                self.release_holds(&before);
            }
            // Whoever waits for progress looks again, and finds that the run has moved.
            locked.slot.progress.send_replace(Default::default());
        }
        if lost {
            shards.iter().for_each(|shard| cluster.set_state(*shard, ELSEWHERE));
        }
        true
    }

    /// Serves shards from now on, and finds out what must happen next of their runs.
    fn take_shards(self: &Arc<Self>, cluster: &Arc<Cluster>, shards: Vec<Shard>) {
        if shards.is_empty() {
            return;
        }
        shards.iter().for_each(|shard| cluster.set_state(*shard, SERVED));
        tracing::info!(shards = shards.len(), "serving shards");
        let node = self.clone();
        self.supervise_to_its_end("the recovery of shards", async move {
            for some in shards.chunks(CHUNK) {
                while !node.is_stopping() {
                    match node.recover_shards(some.to_vec()).await {
                        Ok(()) => break,
                        Err(error) => {
                            tracing::warn!(%error, "shards could not be read; trying again");
                            tokio::time::sleep(LOOK).await;
                        }
                    }
                }
            }
            node.follow_schedules().await;
        });
    }

    /// Arms wake-ups, sends messages, offers tasks and finds holds of some shards.
    async fn recover_shards(self: &Arc<Self>, shards: Vec<Shard>) -> Result<(), CallError> {
        let Some(cluster) = &self.cluster else { return Ok(()) };
        let mut after = None;
        let (mut dispatchable, mut waking) = (Vec::new(), Vec::new());
        loop {
            let page = cluster.membership.open_runs_of(&shards, after, PAGE).await?;
            let Some(last) = page.last() else { break };
            after = Some(last.key);
            let full = page.len() == PAGE;
            hold_back().await;
            for open in page {
                if let Some(at) = open.wake_at {
                    waking.push(open.key);
                    // A transition that came meanwhile knows better; waking too early does no harm.
                    if sabotage::is_on("wake-by-scan") {
                        self.timers.set(open.key, Some(at));
                    } else {
                        self.timers.set_if_earlier(open.key, at);
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
            let page = cluster.membership.outbox_of(&shards, after, PAGE).await?;
            let Some(last) = page.last() else { break };
            after = Some(last.key);
            let full = page.len() == PAGE;
            page.into_iter().for_each(|row: OutboxRow| self.send_message(row));
            if !full {
                break;
            }
        }
        self.offer_again(dispatchable).await;
        self.find_holds(waking).await;
        Ok(())
    }

    /// Open runs of this node.
    pub(crate) async fn own_open_runs(&self, after: Option<RunKey>, limit: usize) -> Result<Vec<OpenRun>, CallError> {
        match &self.cluster {
            None => self.read(move |store| store.open_runs(after, limit)).await,
            Some(cluster) => Ok(cluster.membership.open_runs_of(&cluster.served(), after, limit).await?),
        }
    }

    /// Messages that runs of this node sent.
    pub(crate) async fn own_outbox(&self, after: Option<OutboxKey>, limit: usize) -> Result<Vec<OutboxRow>, CallError> {
        match &self.cluster {
            None => self.read(move |store| store.outbox(after, limit)).await,
            Some(cluster) => Ok(cluster.membership.outbox_of(&cluster.served(), after, limit).await?),
        }
    }

    /// Nodes came or went, so that queues have other homes: tasks are offered there, and whoever waits asks there.
    fn homes_changed(self: &Arc<Self>, cluster: &Arc<Cluster>) {
        cluster.homes.fetch_add(1, Ordering::AcqRel);
        let dispatch = self.dispatch();
        if let Some(dispatch) = &dispatch {
            dispatch.matching.forget_moved(|key: &QueueKey| self.queue_home(key) == Place::Here);
        }
        cluster.edge.forget_moved(|key, home| self.queue_home(key) != Place::There(home));
        self.retention_changed.notify_one();
        if let Some(dispatch) = &dispatch {
            dispatch.direct_queries.offer_again.notify_waiters();
        }
        self.resume_deletions();
        self.lead_batches();
        let node = self.clone();
        self.supervise_to_its_end("the offering of tasks at new homes", async move { node.offer_everything().await });
    }

    /// Offers every waiting task of this node's runs.
    async fn offer_everything(self: &Arc<Self>) {
        let Some(cluster) = self.cluster.clone() else { return };
        let _one = cluster.offering_all.lock().await;
        // What memory alone knows.
        for run in self.slots.runs() {
            self.offers_settle().await;
            self.offer_all(&run);
        }
        self.offer_stored(|_| true).await;
    }

    /// The home of a queue forgot tasks and has room for them again.
    pub(super) async fn offer_queue_again(self: &Arc<Self>, key: &QueueKey) {
        let name = key.name.clone();
        self.offer_stored(move |run| {
            run.info.task_queue == name || run.state().activities.values().any(|activity| activity.queue == name)
        })
        .await;
    }

    async fn offer_stored(self: &Arc<Self>, fits: impl Fn(&segno_engine::Run) -> bool) {
        let mut after = None;
        while !self.is_stopping() {
            let page = match self.own_open_runs(after, PAGE).await {
                Ok(page) => page,
                Err(error) => {
                    tracing::warn!(%error, "waiting tasks could not be read; trying again");
                    tokio::time::sleep(LOOK).await;
                    continue;
                }
            };
            let Some(last) = page.last() else { return };
            after = Some(last.key);
            let now = self.clock.now();
            let waits = |open: &OpenRun| open.dispatchable || open.wake_at.is_some_and(|at| at <= now);
            let keys: Vec<RunKey> = page.into_iter().filter(waits).map(|open| open.key).collect();
            for keys in keys.chunks(LOADED) {
                let keys = keys.to_vec();
                let Ok((runs, _)) = self.read(move |store| load_all(store, &keys)).await else { continue };
                for stored in runs.iter().filter(|run| fits(run)) {
                    self.offers_settle().await;
                    let newest = self.slots.run_in_memory(RunKey(stored.info.run_key));
                    self.offer_all(newest.as_deref().unwrap_or(stored));
                }
            }
        }
    }

    /// Asks the owners of runs elsewhere to offer the tasks of a queue again.
    pub(crate) async fn ask_for_offers(&self, key: &QueueKey) {
        let Some(cluster) = &self.cluster else { return };
        let deadline = Instant::now() + Duration::from_secs(5);
        for link in cluster.peers() {
            let question = Question::OfferAgain(super::offers::wire_queue(key));
            let _ = cluster.ask(link.node, question, deadline).await;
        }
    }

    /// Leaves the cluster: others take over everything, as far as there are others.
    pub async fn leave_cluster(self: &Arc<Self>) {
        let Some(cluster) = self.cluster.clone() else { return };
        let map = cluster.map();
        let Some(me) = map.member(cluster.me) else { return };
        if !map.members.iter().any(|member| member.id != cluster.me && !member.leaving) {
            return;
        }
        if let Err(error) = cluster.membership.mark_leaving(&me.name).await {
            tracing::warn!(%error, "this node could not say that it leaves");
            return;
        }
        cluster.look_all();
        let until = Instant::now() + LEAVE_MAX;
        while Instant::now() < until {
            let map = cluster.map();
            let others = map.members.iter().any(|member| member.id != cluster.me && !member.leaving);
            if map.shards_of(cluster.me).is_empty() || !others {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        tracing::warn!("not everything was handed over in time; the rest is taken when this node is gone");
    }
}

impl Cluster {
    /// Lets a node hand over what it owns. False if there is no such node.
    pub async fn drain(&self, name: &str) -> Result<bool, CallError> {
        let found = self.membership.mark_leaving(name).await?;
        self.look_all();
        Ok(found)
    }

    /// Fences a node. False if there is no such node.
    pub async fn fence(&self, name: &str) -> Result<bool, CallError> {
        let found = self.membership.fence(name).await?;
        self.look_all();
        Ok(found)
    }

    /// Lets everybody look at the map now.
    pub(super) fn look_all(&self) {
        self.membership.look();
        self.tell_all(&News { told: Some(Told::Map(Default::default())) });
    }
}
