//! The leases of all workers: who is alive until when, and who holds what. Memory only.
//!
//! [`segno_engine::lease`] decides about one worker; here are all of them, ordered by the moment at which something is
//! due. A sign of life costs a look-up and, if it moves that moment, an insertion: no store, no task, no timer of its
//! own. Workers that hold nothing and that no connection leads to are forgotten.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    sync::Mutex,
};

use segno_engine::{
    lease::{Beat, BeatRefused, Hold, Lease, LeaseSettings, LostBecause},
    machine::lease::State,
    state::Activity,
};
use segno_proto::Nanos;
use segno_store::NamespaceKey;
use tokio::sync::Notify;

use super::reach::{ConnectionId, Party, Reach};
use crate::slots::lock;

/// Most workers whose leases are kept. Those beyond are left to Temporal's time-outs.
const LEASES_MAX: usize = 50_000;
/// Most workers remembered as inactive, so that they hear it.
const INACTIVE_MAX: usize = 10_000;
/// Sticky queues of one worker that are remembered.
const STICKY_MAX: usize = 8;
/// Queues with this prefix are how workers take commands.
pub const CONTROL_QUEUES: &str = "temporal-sys/worker-commands/";

type Key = (NamespaceKey, String);

struct Entity {
    lease: Lease,
    /// The queue on which it takes commands.
    control: String,
    /// Queues that only it serves.
    sticky: BTreeSet<String>,
    /// When something is due, as the order of all has it.
    armed: Option<Nanos>,
}

/// A worker that is lost, and what must move.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostWorker {
    /// Its namespace.
    pub namespace: NamespaceKey,
    /// Its instance key.
    pub worker: String,
    /// Why it is lost.
    pub because: LostBecause,
    /// Runs of which it holds something.
    pub runs: BTreeSet<u64>,
    /// Queues that nobody serves now.
    pub sticky: BTreeSet<String>,
}

/// What is due.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct DueLeases {
    /// Workers that are lost.
    pub lost: Vec<LostWorker>,
    /// Attempts that never reached the worker they were handed to.
    pub orphans: Vec<Hold>,
    /// When to look next.
    pub next: Option<Nanos>,
}

/// What is known of a worker's lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseView {
    /// The worker's instance key.
    pub worker: String,
    /// Whether its connections are gone.
    pub detached: bool,
    /// Whether it speaks Segno's protocol.
    pub speaks_protocol: bool,
    /// Time until it counts as lost if nothing is heard of it; `None` if nothing limits that.
    pub remaining: Option<Nanos>,
    /// Connections that lead to it.
    pub connections: usize,
    /// Attempts of activities that it holds.
    pub holds: Vec<Hold>,
    /// Runs whose workflow task it has.
    pub tasks: Vec<u64>,
}

/// Who calls: the worker as it names itself, and how it is reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Caller {
    /// Its instance key; empty if it has none.
    pub worker: String,
    /// The queue on which it takes commands; empty if it takes none.
    pub control_queue: String,
    /// The connection that the call came on.
    pub connection: Option<ConnectionId>,
}

#[derive(Default)]
struct Table {
    workers: BTreeMap<Key, Entity>,
    reach: Reach,
    members: HashMap<Key, BTreeSet<String>>,
    order: BTreeSet<(Nanos, NamespaceKey, String)>,
    inactive: HashMap<Key, ()>,
    inactive_order: VecDeque<Key>,
}

/// The leases of all workers of a node.
pub struct Leases {
    table: Mutex<Table>,
    settings: LeaseSettings,
    /// Told when something is due earlier than before.
    pub(crate) earlier: Notify,
}

/// A poll that waits. Says how it ended when it is dropped.
pub struct PollGuard<'a> {
    leases: &'a Leases,
    party: Party,
    connection: ConnectionId,
    answered: bool,
}

impl PollGuard<'_> {
    /// It ends with an answer.
    pub fn answered(mut self) {
        self.answered = true;
    }
}

impl Drop for PollGuard<'_> {
    fn drop(&mut self) {
        let mut table = lock(&self.leases.table);
        table.reach.poll_ends(&self.party, self.connection, self.answered);
        if self.answered {
            table.answered(&self.party);
        }
    }
}

impl Table {
    /// Keeps the order in line with a worker's lease. Returns whether the earliest moment moved to the front.
    fn rearm(&mut self, key: &Key, settings: &LeaseSettings) -> bool {
        let Some(entity) = self.workers.get_mut(key) else { return false };
        let wake_at = entity.lease.wake_at(settings);
        if entity.armed == wake_at {
            return false;
        }
        if let Some(before) = std::mem::replace(&mut entity.armed, wake_at) {
            self.order.remove(&(before, key.0, key.1.clone()));
        }
        let Some(at) = wake_at else { return false };
        let earliest = self.order.first().is_none_or(|(first, _, _)| at < *first);
        self.order.insert((at, key.0, key.1.clone()));
        earliest
    }

    fn remove(&mut self, key: &Key) -> Option<Entity> {
        let entity = self.workers.remove(key)?;
        if let Some(at) = entity.armed {
            self.order.remove(&(at, key.0, key.1.clone()));
        }
        self.leave_group(key, &entity.control);
        self.reach.forget(&Party::Worker(key.0, key.1.clone()));
        Some(entity)
    }

    fn leave_group(&mut self, key: &Key, control: &str) {
        let group = (key.0, control.to_owned());
        if let Some(members) = self.members.get_mut(&group) {
            members.remove(&key.1);
            if members.is_empty() {
                self.members.remove(&group);
            }
        }
    }

    /// The workers that a party stands for.
    fn behind(&self, party: &Party) -> Vec<Key> {
        match party {
            Party::Worker(namespace, worker) => vec![(*namespace, worker.clone())],
            Party::Control(namespace, queue) => {
                let members = self.members.get(&(*namespace, queue.clone())).into_iter().flatten();
                members.map(|worker| (*namespace, worker.clone())).collect()
            }
        }
    }

    /// A poll was answered, so whoever made it will make the next one without delay.
    fn answered(&mut self, party: &Party) {
        for key in self.behind(party) {
            if let Some(entity) = self.workers.get_mut(&key) {
                entity.lease.answered();
            }
        }
    }

    /// The worker with this key, registered if need be. `None` if there are too many.
    fn entity(&mut self, key: &Key, now: Nanos) -> Option<&mut Entity> {
        if !self.workers.contains_key(key) {
            if self.workers.len() >= LEASES_MAX {
                return None;
            }
            let entity =
                Entity { lease: Lease::new(now), control: String::new(), sticky: BTreeSet::new(), armed: None };
            self.workers.insert(key.clone(), entity);
        }
        self.workers.get_mut(key)
    }

    /// Forgets a worker that nothing depends on and that no connection leads to.
    fn tidy(&mut self, key: &Key) {
        let idle = self.workers.get(key).is_some_and(|entity| {
            let lease = &entity.lease;
            lease.is_idle() && (lease.is_leaving() || !lease.reports()) && lease.state() == State::Active
        });
        if idle && !self.reach.is_open(&Party::Worker(key.0, key.1.clone())) && !self.is_reached_by_control(key) {
            self.remove(key);
        }
    }

    /// Whether a worker said goodbye and still has something: then it has no polls that could be cut off.
    fn has_left_work(&self, key: &Key) -> bool {
        self.workers.get(key).is_some_and(|entity| entity.lease.is_leaving() && !entity.lease.is_idle())
    }

    fn is_reached_by_control(&self, key: &Key) -> bool {
        let control = self.workers.get(key).map(|entity| entity.control.clone()).unwrap_or_default();
        !control.is_empty() && self.reach.is_open(&Party::Control(key.0, control))
    }

    fn remember_inactive(&mut self, key: Key) {
        if self.inactive.insert(key.clone(), ()).is_none() {
            self.inactive_order.push_back(key);
        }
        while self.inactive_order.len() > INACTIVE_MAX {
            if let Some(oldest) = self.inactive_order.pop_front() {
                self.inactive.remove(&oldest);
            }
        }
    }

    /// Ends a worker whose lease is over.
    fn lose(&mut self, key: &Key, because: LostBecause) -> Option<LostWorker> {
        let entity = self.remove(key)?;
        self.remember_inactive(key.clone());
        let runs = entity.lease.runs();
        Some(LostWorker { namespace: key.0, worker: key.1.clone(), because, runs, sticky: entity.sticky })
    }
}

impl Leases {
    /// No workers yet.
    pub fn new(settings: LeaseSettings) -> Self {
        Self { table: Mutex::default(), settings, earlier: Notify::new() }
    }

    fn rearm(&self, table: &mut Table, key: &Key) {
        if table.rearm(key, &self.settings) {
            self.earlier.notify_one();
        }
    }

    /// A worker made a call. Returns whether its silence means something.
    pub fn called(&self, namespace: NamespaceKey, caller: &Caller, now: Nanos) -> bool {
        self.note(namespace, caller, now, false)
    }

    /// A worker told about itself.
    pub fn reported(&self, namespace: NamespaceKey, caller: &Caller, now: Nanos) {
        self.note(namespace, caller, now, true);
    }

    fn note(&self, namespace: NamespaceKey, caller: &Caller, now: Nanos, reported: bool) -> bool {
        if caller.worker.is_empty() {
            return false;
        }
        let mut table = lock(&self.table);
        self.note_in(&mut table, namespace, caller, now, reported)
    }

    fn note_in(&self, table: &mut Table, namespace: NamespaceKey, caller: &Caller, now: Nanos, reported: bool) -> bool {
        let key = (namespace, caller.worker.clone());
        let Some(entity) = table.entity(&key, now) else { return false };
        if reported {
            entity.lease.reported(now);
        }
        match caller.connection {
            Some(_) => entity.lease.attached(now),
            None => entity.lease.heard(now),
        };
        let reports = entity.lease.reports() || !caller.control_queue.is_empty();
        if !caller.control_queue.is_empty() && entity.control != caller.control_queue {
            let before = std::mem::replace(&mut entity.control, caller.control_queue.clone());
            table.leave_group(&key, &before);
            table.members.entry((namespace, caller.control_queue.clone())).or_default().insert(key.1.clone());
        }
        if let Some(connection) = caller.connection {
            table.reach.called(&Party::Worker(namespace, caller.worker.clone()), connection);
        }
        self.rearm(table, &key);
        reports
    }

    /// A worker begins to wait for a task. `sticky` names a queue that only it serves.
    pub fn poll_begins(
        &self,
        namespace: NamespaceKey,
        caller: &Caller,
        sticky: Option<&str>,
        now: Nanos,
    ) -> Option<PollGuard<'_>> {
        if caller.worker.is_empty() {
            return None;
        }
        let mut table = lock(&self.table);
        self.note_in(&mut table, namespace, caller, now, false);
        if let (Some(queue), Some(entity)) = (sticky, table.workers.get_mut(&(namespace, caller.worker.clone())))
            && entity.sticky.len() < STICKY_MAX
        {
            entity.sticky.insert(queue.to_owned());
        }
        self.guard(&mut table, Party::Worker(namespace, caller.worker.clone()), caller.connection?)
    }

    /// Somebody begins to wait for commands: a sign of life of all workers that take them there.
    pub fn control_poll_begins(
        &self,
        namespace: NamespaceKey,
        queue: &str,
        connection: Option<ConnectionId>,
        now: Nanos,
    ) -> Option<PollGuard<'_>> {
        let mut table = lock(&self.table);
        let party = Party::Control(namespace, queue.to_owned());
        for key in table.behind(&party) {
            if let Some(entity) = table.workers.get_mut(&key) {
                match connection {
                    Some(_) => entity.lease.attached(now),
                    None => entity.lease.heard(now),
                };
            }
            self.rearm(&mut table, &key);
        }
        self.guard(&mut table, party, connection?)
    }

    fn guard<'a>(&'a self, table: &mut Table, party: Party, connection: ConnectionId) -> Option<PollGuard<'a>> {
        table.reach.poll_begins(&party, connection);
        Some(PollGuard { leases: self, party, connection, answered: false })
    }

    /// A connection is gone. Workers that were polling on it have a while to come back.
    pub fn connection_closed(&self, connection: ConnectionId, now: Nanos) {
        let mut table = lock(&self.table);
        let parties = table.reach.closed(connection);
        let workers: BTreeSet<Key> = parties.iter().flat_map(|party| table.behind(party)).collect();
        for key in workers {
            let own = Party::Worker(key.0, key.1.clone());
            let control = table.workers.get(&key).map(|entity| entity.control.clone()).unwrap_or_default();
            let control = Party::Control(key.0, control);
            let (open, cut) = (
                table.reach.is_open(&own) || table.reach.is_open(&control),
                table.reach.is_cut(&own) || table.reach.is_cut(&control) || table.has_left_work(&key),
            );
            tracing::debug!(worker = key.1, open, cut, "a connection of a worker is gone");
            if open {
                continue;
            }
            if cut {
                if let Some(entity) = table.workers.get_mut(&key) {
                    entity.lease.detached(now);
                }
                self.rearm(&mut table, &key);
            } else {
                table.tidy(&key);
            }
        }
        for party in parties {
            if matches!(party, Party::Control(..)) && table.behind(&party).is_empty() {
                table.reach.forget(&party);
            }
        }
    }

    /// A worker that speaks the protocol reports.
    pub fn heartbeat(
        &self,
        namespace: NamespaceKey,
        worker: &str,
        beat: &Beat,
        now: Nanos,
    ) -> Result<[u8; 8], BeatRefused> {
        let key = (namespace, worker.to_owned());
        let mut table = lock(&self.table);
        // A worker that does not know yet that it is inactive may poll; that does not bring it back.
        let is_new = table.workers.get(&key).is_none_or(|entity| !entity.lease.speaks_protocol());
        if is_new && table.inactive.contains_key(&key) {
            return Err(BeatRefused::Inactive);
        }
        let Some(entity) = table.entity(&key, now) else { return Err(BeatRefused::TooMany) };
        let answer = entity.lease.heartbeat(now, beat, &self.settings);
        self.rearm(&mut table, &key);
        answer
    }

    /// A worker was handed an attempt of an activity.
    pub fn hand_over(&self, namespace: NamespaceKey, worker: &str, hold: Hold, now: Nanos) {
        self.change(namespace, worker, now, |lease| lease.hand_over(hold, now));
    }

    /// A worker was handed the workflow task of a run.
    pub fn hand_over_task(&self, namespace: NamespaceKey, worker: &str, run_key: u64, now: Nanos) {
        self.change(namespace, worker, now, |lease| lease.hand_over_task(run_key));
    }

    fn change(&self, namespace: NamespaceKey, worker: &str, now: Nanos, change: impl FnOnce(&mut Lease)) {
        let key = (namespace, worker.to_owned());
        let mut table = lock(&self.table);
        let Some(entity) = table.entity(&key, now) else { return };
        change(&mut entity.lease);
        self.rearm(&mut table, &key);
    }

    /// A worker has an attempt no more.
    pub fn release(&self, namespace: NamespaceKey, worker: &str, hold: &Hold) {
        self.let_go(namespace, worker, |lease| lease.release(hold));
    }

    /// A worker has the workflow task of a run no more.
    pub fn release_task(&self, namespace: NamespaceKey, worker: &str, run_key: u64) {
        self.let_go(namespace, worker, |lease| lease.release_task(run_key));
    }

    fn let_go(&self, namespace: NamespaceKey, worker: &str, change: impl FnOnce(&mut Lease)) {
        let key = (namespace, worker.to_owned());
        let mut table = lock(&self.table);
        let Some(entity) = table.workers.get_mut(&key) else { return };
        change(&mut entity.lease);
        self.rearm(&mut table, &key);
        table.tidy(&key);
    }

    /// Storage says that a worker holds an attempt. If it reports by itself it has one full lease to do so.
    pub fn restore(&self, namespace: NamespaceKey, activity: &Activity, hold: Hold, now: Nanos) {
        let key = (namespace, activity.worker.clone());
        let mut table = lock(&self.table);
        let known = table.workers.contains_key(&key);
        let Some(entity) = table.entity(&key, now) else { return };
        if !known && activity.worker_reports {
            entity.lease = Lease::expected(now);
        }
        entity.lease.restore(hold, now);
        if entity.control.is_empty() && !activity.control_queue.is_empty() {
            entity.control.clone_from(&activity.control_queue);
            table.members.entry((namespace, activity.control_queue.clone())).or_default().insert(key.1.clone());
        }
        self.rearm(&mut table, &key);
    }

    /// A worker begins to shut down.
    pub fn leaves(&self, namespace: NamespaceKey, worker: &str) {
        let key = (namespace, worker.to_owned());
        let mut table = lock(&self.table);
        if let Some(entity) = table.workers.get_mut(&key) {
            entity.lease.leaves();
            self.rearm(&mut table, &key);
        }
    }

    /// A worker said that it is over. Returns what must move.
    pub fn shut_down(&self, namespace: NamespaceKey, worker: &str) -> Option<LostWorker> {
        let key = (namespace, worker.to_owned());
        let mut table = lock(&self.table);
        let news = table.workers.get_mut(&key).is_some_and(|entity| entity.lease.shut_down());
        if news { table.lose(&key, LostBecause::ShutDown) } else { None }
    }

    /// Takes everything that is due.
    pub fn due(&self, now: Nanos) -> DueLeases {
        let mut table = lock(&self.table);
        let mut due = DueLeases::default();
        while let Some((at, namespace, worker)) = table.order.first().cloned() {
            if at > now {
                due.next = Some(at);
                break;
            }
            let key = (namespace, worker);
            let Some(entity) = table.workers.get_mut(&key) else {
                table.order.pop_first();
                continue;
            };
            let mut found = entity.lease.expire(now, &self.settings);
            due.orphans.append(&mut found.orphans);
            match found.lost {
                Some(because) => due.lost.extend(table.lose(&key, because)),
                None => drop(table.rearm(&key, &self.settings)),
            }
        }
        due
    }

    /// The server itself was away for this long: nobody is blamed for it, and everybody has a while to come back.
    pub fn excuse(&self, away: Nanos) {
        let away = away.saturating_add(self.settings.grace);
        let mut table = lock(&self.table);
        let keys: Vec<Key> = table.workers.keys().cloned().collect();
        for key in keys {
            if let Some(entity) = table.workers.get_mut(&key) {
                entity.lease.excuse(away);
            }
            table.rearm(&key, &self.settings);
        }
    }

    /// Whether a worker's silence means something.
    pub fn reports(&self, namespace: NamespaceKey, caller: &Caller) -> bool {
        if caller.worker.is_empty() {
            return false;
        }
        // Whoever takes commands reports as well; the first report may only come a minute after the first poll.
        if !caller.control_queue.is_empty() {
            return true;
        }
        let table = lock(&self.table);
        table.workers.get(&(namespace, caller.worker.clone())).is_some_and(|entity| entity.lease.reports())
    }

    /// The lease of a worker.
    pub fn get(&self, namespace: NamespaceKey, worker: &str, now: Nanos) -> Option<LeaseView> {
        let table = lock(&self.table);
        let key = (namespace, worker.to_owned());
        table.workers.get(&key).map(|entity| self.view(&table, &key, entity, now))
    }

    /// All leases of a namespace, in the order of the workers' keys.
    pub fn all(&self, namespace: NamespaceKey, now: Nanos) -> Vec<LeaseView> {
        let table = lock(&self.table);
        let from = (namespace, String::new());
        let own = table.workers.range(from..).take_while(|(key, _)| key.0 == namespace);
        own.map(|(key, entity)| self.view(&table, key, entity, now)).collect()
    }

    fn view(&self, table: &Table, key: &Key, entity: &Entity, now: Nanos) -> LeaseView {
        let lease = &entity.lease;
        let own = table.reach.count(&Party::Worker(key.0, key.1.clone()));
        LeaseView {
            worker: key.1.clone(),
            detached: lease.state() == State::Detached,
            speaks_protocol: lease.speaks_protocol(),
            remaining: lease.alive_until(&self.settings).map(|until| (until - now).max(0)),
            connections: own,
            holds: lease.holds().copied().collect(),
            tasks: lease.tasks().collect(),
        }
    }

    /// How many workers have a lease.
    pub fn len(&self) -> usize {
        lock(&self.table).workers.len()
    }

    /// Forgets all workers of a namespace.
    pub(crate) fn forget_namespace(&self, namespace: NamespaceKey) {
        let mut table = lock(&self.table);
        let keys: Vec<Key> = table.workers.keys().filter(|key| key.0 == namespace).cloned().collect();
        keys.iter().for_each(|key| drop(table.remove(key)));
    }
}
