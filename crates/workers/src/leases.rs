//! The leases of all workers, in memory: until when each counts as alive, and its tasks.
//!
//! [`segno_engine::lease`] decides about one worker; here are all of them, ordered by the time at which they are due. A
//! sign of life costs a look-up and, if it moves that time, an insertion, without a store, a task or a timer. Workers
//! without tasks and without connections are removed.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use segno_engine::{
    lease::{Beat, BeatRefused, Hold, Lease, LeaseSettings, LostBecause},
    machine::{IllegalStep, lease::State},
    slots::{HandOver, SlotReport},
    state::Activity,
};
use segno_environment::{
    connection::ConnectionId,
    hash::{HashMap, HashSet},
    lock::lock,
};
use segno_proto::Nanos;
use segno_store::NamespaceKey;
use tokio::sync::Notify;

use super::{
    connections::{ConnectionTable, Party},
    views::{Caller, DueLeases, LeaseView, LostWorker},
};

/// Most workers whose leases are kept. Those beyond are left to Temporal's time-outs.
const LEASES_MAX: usize = 50_000;
/// Most workers remembered as inactive, so that they hear it.
const INACTIVE_MAX: usize = 10_000;
/// The part of a connection's number that names its node.
const PREFIX: u64 = !0 << 40;
/// Sticky queues of one worker that are remembered.
const STICKY_MAX: usize = 8;
/// Other queues of one worker that are remembered besides its first one.
const QUEUES_MAX: usize = 64;
/// Workers, or parties of a connection, that are dealt with at once under the lock. Others have their turn in between.
pub const SLICE: usize = 64;
/// Queues with this prefix are how workers take commands.
pub const CONTROL_QUEUES: &str = "temporal-sys/worker-commands/";

/// A name in a namespace, of a worker or of a queue for commands. All that know it share it.
type Key = (NamespaceKey, Arc<str>);

struct WorkerEntry {
    /// Its instance key.
    worker: Arc<str>,
    lease: Lease,
    /// The queue on which it takes commands; empty if there is none.
    control: Arc<str>,
    /// When it was heard of for the first time; `None` if only storage knows it.
    first_heard: Option<Nanos>,
    /// As it names itself to people; empty if it never polled.
    identity: String,
    /// The queue that it serves; empty if it never polled.
    task_queue: String,
    /// Further queues that it polled and others may serve.
    further_queues: BTreeSet<String>,
    /// Queues that only it serves.
    sticky: BTreeSet<String>,
    /// When the lease is due, as in the order of all leases.
    armed: Option<Nanos>,
}

impl WorkerEntry {
    /// Whether its silence means that it is lost. A worker that takes commands reports as well; the first report may only come a
    /// minute after the first poll.
    fn reports(&self) -> bool {
        self.lease.reports() || !self.control.is_empty()
    }

    /// It polls a queue, perhaps one that only it serves.
    fn polls(&mut self, queue: &str, sticky: bool) {
        if sticky {
            if self.sticky.len() < STICKY_MAX && !self.sticky.contains(queue) {
                self.sticky.insert(queue.to_owned());
            }
        } else if self.task_queue.is_empty() {
            queue.clone_into(&mut self.task_queue);
        } else if self.task_queue != queue
            && self.further_queues.len() < QUEUES_MAX
            && !self.further_queues.contains(queue)
        {
            self.further_queues.insert(queue.to_owned());
        }
    }

    /// All queues in which its polls may wait.
    fn queues(&self) -> Vec<String> {
        let first = (!self.task_queue.is_empty()).then_some(&self.task_queue);
        first.into_iter().chain(&self.further_queues).chain(&self.sticky).cloned().collect()
    }

    /// It made a call, or a poll was made that stands for it.
    fn called(&mut self, connection: Option<ConnectionId>, now: Nanos) {
        self.first_heard.get_or_insert(now);
        let step = match connection {
            Some(_) => self.lease.attached(now),
            None => self.lease.note_call(now),
        };
        is_legal(step);
    }
}

/// Whether a lease took a step. All leases in the table are of workers that are not inactive ([`Table::lose`] removes them),
/// so that one which could not is a defect: it is logged, and the worker is left as it was.
fn is_legal(step: Result<(), IllegalStep>) -> bool {
    if let Err(illegal) = &step {
        debug_assert!(false, "{illegal}");
        tracing::error!("defect: {illegal}; the lease of a worker is left as it was");
    }
    step.is_ok()
}

#[derive(Default)]
struct Table {
    /// In two steps, so that a worker is found by a borrowed name.
    workers: BTreeMap<NamespaceKey, BTreeMap<Arc<str>, WorkerEntry>>,
    connections: ConnectionTable,
    /// The workers that take commands on a queue.
    members: HashMap<Key, BTreeSet<Arc<str>>>,
    order: BTreeSet<(Nanos, Key)>,
    inactive: HashSet<Key>,
    inactive_order: VecDeque<Key>,
}

/// The leases of all workers of a node.
pub struct Leases {
    table: Mutex<Table>,
    settings: LeaseSettings,
    /// The time at which the monotonic clock began.
    epoch: Nanos,
    /// Notified when a lease is due earlier than before.
    pub earlier: Notify,
    /// Whether any worker has reported its slots.
    slots_are_reported: AtomicBool,
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
        table.connections.poll_ends(&self.party, self.connection, self.answered);
        if self.answered {
            table.answered(&self.party);
        }
    }
}

impl Table {
    fn get(&self, namespace: NamespaceKey, worker: &str) -> Option<&WorkerEntry> {
        self.workers.get(&namespace)?.get(worker)
    }

    fn get_mut(&mut self, namespace: NamespaceKey, worker: &str) -> Option<&mut WorkerEntry> {
        self.workers.get_mut(&namespace)?.get_mut(worker)
    }

    fn len(&self) -> usize {
        self.workers.values().map(BTreeMap::len).sum()
    }

    /// Keeps the order in line with a worker's lease. Returns whether the earliest moment moved to the front.
    fn rearm(&mut self, namespace: NamespaceKey, worker: &str, settings: &LeaseSettings) -> bool {
        let Some(entity) = self.workers.get_mut(&namespace).and_then(|workers| workers.get_mut(worker)) else {
            return false;
        };
        let wake_at = entity.lease.wake_at(settings);
        if entity.armed == wake_at {
            return false;
        }
        if let Some(before) = std::mem::replace(&mut entity.armed, wake_at) {
            self.order.remove(&(before, (namespace, entity.worker.clone())));
        }
        let Some(at) = wake_at else { return false };
        let earliest = self.order.first().is_none_or(|(first, _)| at < *first);
        self.order.insert((at, (namespace, entity.worker.clone())));
        earliest
    }

    fn remove(&mut self, namespace: NamespaceKey, worker: &str) -> Option<WorkerEntry> {
        let workers = self.workers.get_mut(&namespace)?;
        let entity = workers.remove(worker)?;
        if workers.is_empty() {
            self.workers.remove(&namespace);
        }
        let key = (namespace, entity.worker.clone());
        if let Some(at) = entity.armed {
            self.order.remove(&(at, key.clone()));
        }
        self.leave_group(&key, &entity.control);
        self.connections.forget(&Party::Worker(key.0, key.1));
        Some(entity)
    }

    /// A worker takes commands on this queue, and on no other.
    fn join_group(&mut self, namespace: NamespaceKey, worker: &str, control: &str) {
        let Some(entity) = self.get_mut(namespace, worker) else { return };
        if control.is_empty() || &*entity.control == control {
            return;
        }
        let control: Arc<str> = Arc::from(control);
        let before = std::mem::replace(&mut entity.control, control.clone());
        let key = (namespace, entity.worker.clone());
        self.leave_group(&key, &before);
        self.members.entry((namespace, control)).or_default().insert(key.1);
    }

    fn leave_group(&mut self, key: &Key, control: &Arc<str>) {
        let group = (key.0, control.clone());
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

    /// A poll was answered, so its worker will make the next one without delay.
    fn answered(&mut self, party: &Party) {
        match party {
            Party::Worker(namespace, worker) => {
                if let Some(entity) = self.get_mut(*namespace, worker) {
                    entity.lease.answered();
                }
            }
            Party::Control(..) => {
                for (namespace, worker) in self.behind(party) {
                    self.answered(&Party::Worker(namespace, worker));
                }
            }
        }
    }

    /// The worker with this key, registered if need be. `None` if there are too many.
    fn entity(&mut self, namespace: NamespaceKey, worker: &str, now: Nanos) -> Option<&mut WorkerEntry> {
        if self.get(namespace, worker).is_none() {
            if self.len() >= LEASES_MAX {
                return None;
            }
            let entity = WorkerEntry {
                worker: Arc::from(worker),
                lease: Lease::new(now),
                control: Arc::default(),
                first_heard: None,
                identity: String::new(),
                task_queue: String::new(),
                further_queues: BTreeSet::new(),
                sticky: BTreeSet::new(),
                armed: None,
            };
            self.workers.entry(namespace).or_default().insert(entity.worker.clone(), entity);
        }
        self.get_mut(namespace, worker)
    }

    /// Whether any connection leads to a worker.
    fn is_reached(&self, namespace: NamespaceKey, entity: &WorkerEntry) -> bool {
        self.connections.is_open(&Party::Worker(namespace, entity.worker.clone()))
            || self.connections.is_open(&Party::Control(namespace, entity.control.clone()))
    }

    /// Whether a call was lost with a connection of a worker that it would make again if it lived. One that shut down
    /// and still has something makes no calls: then the connection itself tells.
    fn is_cut(&self, namespace: NamespaceKey, entity: &WorkerEntry) -> bool {
        self.connections.is_cut(&Party::Worker(namespace, entity.worker.clone()))
            || self.connections.is_cut(&Party::Control(namespace, entity.control.clone()))
            || entity.lease.is_leaving() && !entity.lease.is_idle()
    }

    /// Forgets a worker that nothing depends on and that no connection leads to.
    fn tidy(&mut self, namespace: NamespaceKey, worker: &str) {
        let forgotten = self.get(namespace, worker).is_some_and(|entity| {
            let lease = &entity.lease;
            lease.is_idle()
                && (lease.is_leaving() || !lease.reports())
                && lease.state() == State::Active
                && !self.is_reached(namespace, entity)
        });
        if forgotten {
            self.remove(namespace, worker);
        }
    }

    fn remember_inactive(&mut self, key: Key) {
        if self.inactive.insert(key.clone()) {
            self.inactive_order.push_back(key);
        }
        while self.inactive_order.len() > INACTIVE_MAX {
            if let Some(oldest) = self.inactive_order.pop_front() {
                self.inactive.remove(&oldest);
            }
        }
    }

    /// Ends a worker whose lease is over.
    fn lose(&mut self, namespace: NamespaceKey, worker: &str, because: LostBecause) -> Option<LostWorker> {
        let entity = self.remove(namespace, worker)?;
        self.remember_inactive((namespace, entity.worker.clone()));
        let (runs, queues) = (entity.lease.runs(), entity.queues());
        let is_leaving = entity.lease.is_leaving() || because == LostBecause::ShutDown;
        let (worker, sticky) = (worker.to_owned(), entity.sticky);
        Some(LostWorker { namespace, worker, because, is_leaving, runs, sticky, queues })
    }
}

impl Leases {
    /// No workers yet. `epoch` is the time at which the monotonic clock began.
    pub fn new(settings: LeaseSettings, epoch: Nanos) -> Self {
        let settings = LeaseSettings { tokens_from: epoch.unsigned_abs(), ..settings };
        Self {
            table: Mutex::default(),
            settings,
            epoch,
            earlier: Notify::new(),
            slots_are_reported: AtomicBool::new(false),
        }
    }

    fn rearm(&self, table: &mut Table, namespace: NamespaceKey, worker: &str) {
        if table.rearm(namespace, worker, &self.settings) {
            self.earlier.notify_one();
        }
    }

    /// A worker made a call. Returns whether its silence means that it is lost.
    pub fn called(&self, namespace: NamespaceKey, caller: &Caller, now: Nanos) -> bool {
        self.note(namespace, caller, now, false)
    }

    /// A worker reported, perhaps how many slots it uses. Returns attempts that never arrived at it.
    pub fn reported(
        &self,
        namespace: NamespaceKey,
        caller: &Caller,
        slots: Option<SlotReport>,
        now: Nanos,
    ) -> Vec<Hold> {
        self.note(namespace, caller, now, true);
        let Some(slots) = slots else { return Vec::new() };
        self.slots_are_reported.store(true, Ordering::Relaxed);
        let mut table = lock(&self.table);
        let entity = table.get_mut(namespace, &caller.worker);
        entity.map(|entity| entity.lease.slots_reported(now, slots, &self.settings)).unwrap_or_default()
    }

    /// A task token of an attempt came back, so that the attempt has arrived at its worker. That matters only for workers that
    /// report their slots.
    pub fn arrived(&self, namespace: NamespaceKey, worker: &str, hold: &Hold) {
        if !self.slots_are_reported.load(Ordering::Relaxed) {
            return;
        }
        if let Some(entity) = lock(&self.table).get_mut(namespace, worker) {
            entity.lease.arrived(hold);
        }
    }

    fn note(&self, namespace: NamespaceKey, caller: &Caller, now: Nanos, reported: bool) -> bool {
        if caller.worker.is_empty() {
            return false;
        }
        let mut table = lock(&self.table);
        self.note_in(&mut table, namespace, caller, now, reported)
    }

    fn note_in(&self, table: &mut Table, namespace: NamespaceKey, caller: &Caller, now: Nanos, reported: bool) -> bool {
        let Some(entity) = table.entity(namespace, &caller.worker, now) else { return false };
        if reported {
            is_legal(entity.lease.reported(now));
        }
        entity.called(caller.connection, now);
        let worker = entity.worker.clone();
        table.join_group(namespace, &worker, &caller.control_queue);
        if let Some(connection) = caller.connection {
            table.connections.called(&Party::Worker(namespace, worker.clone()), connection);
        }
        self.rearm(table, namespace, &worker);
        table.get(namespace, &worker).is_some_and(WorkerEntry::reports)
    }

    /// A worker begins to wait for a task of a queue.
    pub fn poll_begins(
        &self,
        namespace: NamespaceKey,
        caller: &Caller,
        queue: &str,
        identity: &str,
        sticky: bool,
        now: Nanos,
    ) -> Option<PollGuard<'_>> {
        if caller.worker.is_empty() {
            return None;
        }
        let mut table = lock(&self.table);
        self.note_in(&mut table, namespace, caller, now, false);
        let entity = table.get_mut(namespace, &caller.worker)?;
        if entity.identity.is_empty() {
            identity.clone_into(&mut entity.identity);
        }
        entity.polls(queue, sticky);
        let party = Party::Worker(namespace, entity.worker.clone());
        self.guard(&mut table, party, caller.connection?)
    }

    /// A poll for commands begins: a sign of life of all workers that take them there.
    pub fn control_poll_begins(
        &self,
        namespace: NamespaceKey,
        queue: &str,
        connection: Option<ConnectionId>,
        now: Nanos,
    ) -> Option<PollGuard<'_>> {
        let mut table = lock(&self.table);
        let party = Party::Control(namespace, Arc::from(queue));
        for (namespace, worker) in table.behind(&party) {
            if let Some(entity) = table.get_mut(namespace, &worker) {
                entity.called(connection, now);
            }
            self.rearm(&mut table, namespace, &worker);
        }
        self.guard(&mut table, party, connection?)
    }

    fn guard<'a>(&'a self, table: &mut Table, party: Party, connection: ConnectionId) -> Option<PollGuard<'a>> {
        table.connections.poll_begins(&party, connection);
        Some(PollGuard { leases: self, party, connection, answered: false })
    }

    /// A connection is gone. Workers that were polling on it have a while to come back. Deals with a slice of those that it led
    /// to; returns those whose poll was cut off with it, and whether there are more.
    pub fn connection_closed(&self, connection: ConnectionId, now: Nanos) -> (Vec<Party>, bool) {
        let mut table = lock(&self.table);
        let cut = self.close_slice(&mut table, connection, now);
        (cut, table.connections.is_known(connection))
    }

    /// A connection of another node is gone, and with it polls of some.
    pub fn connection_cut(&self, connection: ConnectionId, cut: Vec<Party>, now: Nanos) {
        for cut in cut.chunks(SLICE) {
            let mut table = lock(&self.table);
            cut.iter().for_each(|party| table.connections.poll_ends(party, connection, false));
        }
        while self.connection_closed(connection, now).1 {}
    }

    /// Another node heard of a worker: who it is, the queue that it polls, and whether that is its own.
    pub fn seen_elsewhere(
        &self,
        namespace: NamespaceKey,
        caller: &Caller,
        (identity, queue, sticky): (&str, &str, bool),
        answered: bool,
        now: Nanos,
    ) {
        let mut table = lock(&self.table);
        self.note_in(&mut table, namespace, caller, now, false);
        let Some(entity) = table.get_mut(namespace, &caller.worker) else { return };
        if entity.identity.is_empty() {
            identity.clone_into(&mut entity.identity);
        }
        if !queue.is_empty() {
            entity.polls(queue, sticky);
        }
        if answered {
            entity.lease.answered();
        }
    }

    /// A poll for commands waits at another node.
    pub fn control_polls_elsewhere(&self, namespace: NamespaceKey, queue: &str, connection: ConnectionId, now: Nanos) {
        if let Some(guard) = self.control_poll_begins(namespace, queue, Some(connection), now) {
            guard.answered();
        }
    }

    /// The workers that are reached over connections with a prefix, with their connections and the queues on which they take commands.
    pub fn reached(&self, prefix: u64) -> Vec<(Party, ConnectionId, String)> {
        let table = lock(&self.table);
        let control = |party: &Party| match party {
            Party::Worker(namespace, worker) => {
                table.get(*namespace, worker).map(|entity| entity.control.to_string()).unwrap_or_default()
            }
            Party::Control(..) => String::new(),
        };
        let parties = table.connections.all().into_iter().filter(|(connection, _)| connection.0 & PREFIX == prefix);
        parties.map(|(connection, party)| (party.clone(), connection, control(&party))).collect()
    }

    /// The connections of another node.
    pub fn connections_of(&self, prefix: u64) -> Vec<ConnectionId> {
        let all = lock(&self.table).connections.all();
        let of_node: BTreeSet<ConnectionId> =
            all.into_iter().map(|(connection, _)| connection).filter(|id| id.0 & PREFIX == prefix).collect();
        of_node.into_iter().collect()
    }

    fn close_slice(&self, table: &mut Table, connection: ConnectionId, now: Nanos) -> Vec<Party> {
        let (parties, cut_off) = table.connections.close_some(connection, SLICE);
        let workers: BTreeSet<Key> = parties.iter().flat_map(|party| table.behind(party)).collect();
        for (namespace, worker) in workers {
            let Some(entity) = table.get(namespace, &worker) else { continue };
            let (open, cut) = (table.is_reached(namespace, entity), table.is_cut(namespace, entity));
            tracing::debug!(worker = &*worker, open, cut, "a connection of a worker is gone");
            if open {
                continue;
            }
            if cut {
                if let Some(entity) = table.get_mut(namespace, &worker) {
                    is_legal(entity.lease.detached(now));
                }
                self.rearm(table, namespace, &worker);
            } else {
                table.tidy(namespace, &worker);
            }
        }
        for party in parties {
            if matches!(party, Party::Control(..)) && table.behind(&party).is_empty() {
                table.connections.forget(&party);
            }
        }
        cut_off
    }

    /// A worker that speaks the protocol reports.
    pub fn heartbeat(
        &self,
        namespace: NamespaceKey,
        worker: &str,
        beat: &Beat,
        now: Nanos,
    ) -> Result<[u8; 8], BeatRefused> {
        let mut table = lock(&self.table);
        // A worker that does not know yet that it is inactive may poll; that does not bring it back.
        let is_new = table.get(namespace, worker).is_none_or(|entity| !entity.lease.speaks_protocol());
        if is_new && table.inactive.contains(&(namespace, Arc::from(worker))) {
            return Err(BeatRefused::Inactive);
        }
        let Some(entity) = table.entity(namespace, worker, now) else { return Err(BeatRefused::TooMany) };
        entity.first_heard.get_or_insert(now);
        let answer = entity.lease.heartbeat(now, beat, &self.settings);
        self.rearm(&mut table, namespace, worker);
        answer
    }

    /// A worker was handed an attempt of an activity.
    pub fn hand_over(&self, namespace: NamespaceKey, worker: &str, hold: Hold, by: HandOver, now: Nanos) {
        self.change(namespace, worker, now, |lease| lease.hand_over(hold, by, now));
    }

    /// A worker was handed the workflow task of a run.
    pub fn hand_over_task(&self, namespace: NamespaceKey, worker: &str, run_key: u64, now: Nanos) {
        self.change(namespace, worker, now, |lease| lease.hand_over_task(run_key));
    }

    fn change(&self, namespace: NamespaceKey, worker: &str, now: Nanos, change: impl FnOnce(&mut Lease)) {
        let mut table = lock(&self.table);
        let Some(entity) = table.entity(namespace, worker, now) else { return };
        change(&mut entity.lease);
        self.rearm(&mut table, namespace, worker);
    }

    /// A worker has an attempt no more.
    pub fn release(&self, namespace: NamespaceKey, worker: &str, hold: &Hold) {
        self.change_held(namespace, worker, |lease| lease.release(hold));
    }

    /// A worker has the workflow task of a run no more.
    pub fn release_task(&self, namespace: NamespaceKey, worker: &str, run_key: u64) {
        self.change_held(namespace, worker, |lease| lease.release_task(run_key));
    }

    fn change_held(&self, namespace: NamespaceKey, worker: &str, change: impl FnOnce(&mut Lease)) {
        let mut table = lock(&self.table);
        let Some(entity) = table.get_mut(namespace, worker) else { return };
        change(&mut entity.lease);
        self.rearm(&mut table, namespace, worker);
        table.tidy(namespace, worker);
    }

    /// Storage says that a worker holds an attempt. If it reports by itself it has one full lease to do so.
    pub fn restore(&self, namespace: NamespaceKey, activity: &Activity, hold: Hold, now: Nanos) {
        let worker = &activity.worker;
        let mut table = lock(&self.table);
        let known = table.get(namespace, worker).is_some();
        let Some(entity) = table.entity(namespace, worker, now) else { return };
        if !known && activity.worker_reports {
            entity.lease = Lease::expected(now);
        }
        entity.lease.restore(hold, now);
        if entity.control.is_empty() {
            table.join_group(namespace, worker, &activity.control_queue);
        }
        self.rearm(&mut table, namespace, worker);
    }

    /// A worker begins to shut down.
    pub fn leaves(&self, namespace: NamespaceKey, worker: &str, now: Nanos) {
        let mut table = lock(&self.table);
        if let Some(entity) = table.get_mut(namespace, worker) {
            is_legal(entity.lease.leaves(now));
            self.rearm(&mut table, namespace, worker);
        }
    }

    /// A worker said that it is over. Returns what must move.
    pub fn shut_down(&self, namespace: NamespaceKey, worker: &str) -> Option<LostWorker> {
        let mut table = lock(&self.table);
        let news = table.get_mut(namespace, worker).is_some_and(|entity| is_legal(entity.lease.shut_down()));
        if news { table.lose(namespace, worker, LostBecause::ShutDown) } else { None }
    }

    /// Takes a slice of what is due.
    pub fn due(&self, now: Nanos) -> DueLeases {
        let mut table = lock(&self.table);
        let mut due = DueLeases::default();
        let mut left = SLICE;
        while let Some((at, (namespace, worker))) = table.order.first().cloned() {
            if at > now || left == 0 {
                due.next = Some(at);
                due.is_more = at <= now;
                break;
            }
            left -= 1;
            let Some(entity) = table.get_mut(namespace, &worker) else {
                table.order.pop_first();
                continue;
            };
            let found = entity.lease.expire(now, &self.settings);
            due.orphans.extend(found.orphans.into_iter().map(|hold| (namespace, hold)));
            match found.lost {
                Some(because) => due.lost.extend(table.lose(namespace, &worker, because)),
                None => drop(table.rearm(namespace, &worker, &self.settings)),
            }
        }
        due
    }

    /// The server itself was away for this long: no worker is blamed for it, and each has a while to come back.
    pub fn excuse(&self, away: Nanos) {
        let away = away.saturating_add(self.settings.grace);
        let mut table = lock(&self.table);
        let table = &mut *table;
        for (namespace, workers) in &mut table.workers {
            for entity in workers.values_mut() {
                entity.lease.excuse(away);
                if let Some(before) = entity.armed.take() {
                    table.order.remove(&(before, (*namespace, entity.worker.clone())));
                }
                entity.armed = entity.lease.wake_at(&self.settings);
                table.order.extend(entity.armed.map(|at| (at, (*namespace, entity.worker.clone()))));
            }
        }
    }

    /// Whether a call of a worker would register it: it is not known yet, and there is room for it.
    pub fn would_register(&self, namespace: NamespaceKey, worker: &str) -> bool {
        let table = lock(&self.table);
        table.get(namespace, worker).is_none() && table.len() < LEASES_MAX
    }

    /// Queues in which polls of a worker may wait.
    pub fn queues_of(&self, namespace: NamespaceKey, worker: &str) -> Vec<String> {
        lock(&self.table).get(namespace, worker).map(WorkerEntry::queues).unwrap_or_default()
    }

    /// Whether a worker's silence means that it is lost.
    pub fn reports(&self, namespace: NamespaceKey, worker: &str) -> bool {
        lock(&self.table).get(namespace, worker).is_some_and(WorkerEntry::reports)
    }

    /// The lease of a worker.
    pub fn get(&self, namespace: NamespaceKey, worker: &str, now: Nanos) -> Option<LeaseView> {
        let table = lock(&self.table);
        table.get(namespace, worker).map(|entity| self.view(&table, namespace, entity, now))
    }

    /// All leases of a namespace, in the order of the workers' keys.
    pub fn all(&self, namespace: NamespaceKey, now: Nanos) -> Vec<LeaseView> {
        let table = lock(&self.table);
        let own = table.workers.get(&namespace).into_iter().flat_map(BTreeMap::values);
        own.map(|entity| self.view(&table, namespace, entity, now)).collect()
    }

    fn view(&self, table: &Table, namespace: NamespaceKey, entity: &WorkerEntry, now: Nanos) -> LeaseView {
        let lease = &entity.lease;
        LeaseView {
            worker: entity.worker.to_string(),
            first_heard: entity.first_heard.map(|heard| heard.saturating_add(self.epoch)),
            identity: entity.identity.clone(),
            task_queue: entity.task_queue.clone(),
            leaving: lease.is_leaving(),
            detached: lease.state() == State::Detached,
            speaks_protocol: lease.speaks_protocol(),
            remaining: lease.alive_until(&self.settings).map(|until| (until - now).max(0)),
            silent: (now - lease.last_heard()).max(0),
            connections: table.connections.count(&Party::Worker(namespace, entity.worker.clone())),
            holds: lease.holds().copied().collect(),
            tasks: lease.tasks().collect(),
        }
    }

    /// Whether no worker has a lease.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many workers have a lease.
    pub fn len(&self) -> usize {
        lock(&self.table).len()
    }

    /// Forgets all workers of a namespace.
    pub fn forget_namespace(&self, namespace: NamespaceKey) {
        let mut table = lock(&self.table);
        let workers: Vec<Arc<str>> =
            table.workers.get(&namespace).into_iter().flat_map(BTreeMap::keys).cloned().collect();
        workers.iter().for_each(|worker| drop(table.remove(namespace, worker)));
    }
}
