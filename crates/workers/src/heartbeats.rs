//! Heartbeats of workers (RecordWorkerHeartbeat): kept in memory, bounded in number, size and age.
//!
//! A worker is listed from its first heartbeat until it reports that it has shut down, or was silent for a day. When
//! there are too many, those that were silent longest are removed first. A restart forgets all of them; each is back
//! with its next heartbeat.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use prost::Message;
use segno_environment::{hash::HashMap, lock::lock};
use segno_proto::{Nanos, enums::WorkerStatus, worker::WorkerHeartbeat};
use segno_store::NamespaceKey;

use super::query::WorkerQuery;

/// Most workers of all namespaces.
const WORKERS_MAX: usize = 20_000;
/// Most bytes of all their heartbeats.
const BYTES_MAX: usize = 64 << 20;
/// A worker that was silent this long is forgotten.
const SILENCE_MAX: Nanos = 24 * 3600 * 1_000_000_000;

struct Entry {
    heartbeat: Arc<WorkerHeartbeat>,
    bytes: usize,
    /// Its place in the order of heartbeats.
    position: u64,
    heard: Nanos,
}

#[derive(Default)]
struct Entries {
    workers: HashMap<NamespaceKey, BTreeMap<String, Entry>>,
    /// From the one that was silent longest.
    order: BTreeMap<u64, (NamespaceKey, String)>,
    last_position: u64,
    bytes: usize,
}

impl Entries {
    fn remove(&mut self, namespace: NamespaceKey, worker: &str) {
        let Some(workers) = self.workers.get_mut(&namespace) else { return };
        if let Some(entry) = workers.remove(worker) {
            self.order.remove(&entry.position);
            self.bytes -= entry.bytes;
        }
        if workers.is_empty() {
            self.workers.remove(&namespace);
        }
    }

    fn put(&mut self, namespace: NamespaceKey, heartbeat: WorkerHeartbeat, now: Nanos) {
        let worker = heartbeat.worker_instance_key.clone();
        self.remove(namespace, &worker);
        if heartbeat.status() == WorkerStatus::Shutdown {
            return;
        }
        let bytes = heartbeat.encoded_len();
        self.last_position += 1;
        self.bytes += bytes;
        self.order.insert(self.last_position, (namespace, worker.clone()));
        let entry = Entry { heartbeat: Arc::new(heartbeat), bytes, position: self.last_position, heard: now };
        self.workers.entry(namespace).or_default().insert(worker, entry);
    }

    fn forget_silent(&mut self, now: Nanos) {
        while let Some((_, (namespace, worker))) = self.order.first_key_value() {
            let (namespace, worker) = (*namespace, worker.clone());
            let heard = self.workers.get(&namespace).and_then(|workers| workers.get(&worker)).map(|entry| entry.heard);
            let silent = heard.is_none_or(|heard| now - heard > SILENCE_MAX);
            if !silent && self.order.len() <= WORKERS_MAX && self.bytes <= BYTES_MAX {
                return;
            }
            self.remove(namespace, &worker);
        }
    }
}

/// The newest heartbeats of all workers.
#[derive(Default)]
pub struct Heartbeats {
    entries: Mutex<Entries>,
}

impl Heartbeats {
    /// Takes note of heartbeats. A worker that has shut down is forgotten.
    pub fn record(&self, namespace: NamespaceKey, heartbeats: Vec<WorkerHeartbeat>, now: Nanos) {
        let mut registered = lock(&self.entries);
        for heartbeat in heartbeats {
            registered.put(namespace, heartbeat, now);
        }
        registered.forget_silent(now);
    }

    /// Takes note that a worker is about to leave.
    pub fn leaving(&self, namespace: NamespaceKey, worker: &str) {
        let mut registered = lock(&self.entries);
        let entry = registered.workers.get_mut(&namespace).and_then(|workers| workers.get_mut(worker));
        if let Some(entry) = entry.filter(|entry| entry.heartbeat.status() == WorkerStatus::Running) {
            Arc::make_mut(&mut entry.heartbeat).status = WorkerStatus::ShuttingDown as i32;
        }
    }

    /// The newest heartbeat of a worker.
    pub fn get(&self, namespace: NamespaceKey, worker: &str, now: Nanos) -> Option<Arc<WorkerHeartbeat>> {
        let mut registered = lock(&self.entries);
        registered.forget_silent(now);
        registered.workers.get(&namespace)?.get(worker).map(|entry| entry.heartbeat.clone())
    }

    /// All workers of a namespace, in the order of their keys.
    pub fn all(&self, namespace: NamespaceKey, now: Nanos) -> Vec<Arc<WorkerHeartbeat>> {
        self.find(namespace, &WorkerQuery::default(), now)
    }

    /// The workers of a namespace that fit a query, in the order of their keys.
    pub fn find(&self, namespace: NamespaceKey, query: &WorkerQuery, now: Nanos) -> Vec<Arc<WorkerHeartbeat>> {
        let mut registered = lock(&self.entries);
        registered.forget_silent(now);
        let workers = registered.workers.get(&namespace).into_iter().flat_map(BTreeMap::values);
        workers.filter(|entry| query.fits(&entry.heartbeat)).map(|entry| entry.heartbeat.clone()).collect()
    }

    /// Forgets all workers of a namespace.
    pub fn forget_namespace(&self, namespace: NamespaceKey) {
        let mut registered = lock(&self.entries);
        let workers: Vec<String> =
            registered.workers.get(&namespace).into_iter().flat_map(BTreeMap::keys).cloned().collect();
        for worker in workers {
            registered.remove(namespace, &worker);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const N: NamespaceKey = NamespaceKey(1);

    fn heartbeat(worker: &str, status: WorkerStatus) -> WorkerHeartbeat {
        WorkerHeartbeat { worker_instance_key: worker.to_owned(), status: status as i32, ..Default::default() }
    }

    fn keys(workers: &Heartbeats, now: Nanos) -> Vec<String> {
        let found = workers.find(N, &WorkerQuery::default(), now);
        found.iter().map(|heartbeat| heartbeat.worker_instance_key.clone()).collect()
    }

    #[test]
    fn workers_come_with_a_heartbeat_and_go_when_they_shut_down() {
        let workers = Heartbeats::default();
        workers.record(N, vec![heartbeat("b", WorkerStatus::Running), heartbeat("a", WorkerStatus::Running)], 1);
        workers.record(NamespaceKey(2), vec![heartbeat("c", WorkerStatus::Running)], 1);
        assert_eq!(keys(&workers, 1), ["a", "b"]);
        workers.leaving(N, "a");
        assert_eq!(workers.get(N, "a", 1).map(|heartbeat| heartbeat.status()), Some(WorkerStatus::ShuttingDown));
        workers.record(N, vec![heartbeat("a", WorkerStatus::Shutdown)], 2);
        assert_eq!(keys(&workers, 2), ["b"]);
        workers.forget_namespace(N);
        assert!(keys(&workers, 2).is_empty());
        assert_eq!(lock(&workers.entries).order.len(), 1);
    }

    #[test]
    fn the_silent_are_forgotten() {
        let workers = Heartbeats::default();
        workers.record(N, vec![heartbeat("old", WorkerStatus::Running), heartbeat("new", WorkerStatus::Running)], 0);
        workers.record(N, vec![heartbeat("new", WorkerStatus::Running)], SILENCE_MAX);
        assert_eq!(keys(&workers, SILENCE_MAX + 1), ["new"]);
    }

    #[test]
    fn too_many_push_out_those_silent_longest() {
        let workers = Heartbeats::default();
        for number in 0..WORKERS_MAX + 5 {
            workers.record(N, vec![heartbeat(&format!("{number:06}"), WorkerStatus::Running)], number as i64);
        }
        let kept = keys(&workers, 0);
        assert_eq!((kept.len(), kept[0].as_str()), (WORKERS_MAX, "000005"));
        let large = WorkerHeartbeat { task_queue: "x".repeat(BYTES_MAX), ..heartbeat("large", WorkerStatus::Running) };
        workers.record(N, vec![large, heartbeat("next", WorkerStatus::Running)], 1);
        assert_eq!(keys(&workers, 0), ["next"]);
        assert!(lock(&workers.entries).bytes < 100);
    }
}
