//! The store in memory: the whole contract except durability.
//!
//! It is the model that every other backend is compared with step by step, and it serves tests and servers with
//! `--in-memory`. It is written for clarity, not for speed: a commit is tried on the real maps while an undo list
//! records the changes.
//!
//! What holds: commits of a group are tried in order, each sees those before it, and one that conflicts leaves no
//! trace.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;

use crate::limits;
use crate::lock::lock;
use crate::threads::Threads;
use crate::visibility::{self, Attribute, Count, Filter, ListPage, ListQuery, ListedRun, VisibilityRow};
use crate::{
    Answer, Commit, CommitError, CurrentWrite, Document, HistoryBatch, NamespaceKey, NamespaceRecord, OpenRun,
    OutboxKey, OutboxRow, Read, ReadError, ReadLimit, RunKey, RunRecord, RunWrite, Store, Write, ready,
};

/// A [`Store`] that keeps everything in memory.
#[derive(Debug)]
pub struct MemoryStore {
    tables: Mutex<Tables>,
    /// Lists and counts may take long: nothing else waits while filters are evaluated. `None`: they are answered at the call.
    searches: Option<Threads>,
}

/// Lists and counts that run at the same time.
const SEARCHES_MAX: usize = 4;

impl Default for MemoryStore {
    fn default() -> Self {
        Self { tables: Mutex::default(), searches: Some(Threads::new("segno-search", SEARCHES_MAX)) }
    }
}

#[derive(Debug, Default)]
struct Tables {
    runs: BTreeMap<RunKey, RunRecord>,
    visibility: BTreeMap<RunKey, Arc<VisibilityRow>>,
    /// By run and first event id.
    history: BTreeMap<(RunKey, i64), HistoryBatch>,
    current: BTreeMap<(NamespaceKey, String), RunKey>,
    outbox: BTreeMap<OutboxKey, Bytes>,
    /// By run and slot.
    scripts: BTreeMap<(RunKey, u8), Bytes>,
    documents: BTreeMap<(NamespaceKey, String), Bytes>,
    namespaces: BTreeMap<NamespaceKey, NamespaceRecord>,
    run_keys_reserved: u64,
}

/// The rows that one write of a commit replaced; played backwards it takes the commit back.
enum Undo {
    Run(RunKey, Option<RunRecord>),
    Visibility(RunKey, Option<Arc<VisibilityRow>>),
    History(RunKey, i64),
    Current((NamespaceKey, String), Option<RunKey>),
    Outbox(OutboxKey),
}

impl MemoryStore {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty store that starts no threads, for a simulation: lists and counts are answered at the call.
    pub fn without_threads() -> Self {
        Self { tables: Mutex::default(), searches: None }
    }

    fn search<T: Send + 'static>(&self, read: impl FnOnce() -> Result<T, ReadError> + Send + 'static) -> Read<T> {
        match &self.searches {
            Some(threads) => threads.read(read),
            None => ready(read()),
        }
    }

    fn tables(&self) -> MutexGuard<'_, Tables> {
        // A panic can only come from running out of memory; the maps themselves are whole.
        lock(&self.tables)
    }

    fn read<T: Send + 'static>(&self, read: impl FnOnce(&Tables) -> T) -> Read<T> {
        ready(Ok(read(&self.tables())))
    }
}

impl Tables {
    fn commit(&mut self, commit: &Commit) -> Result<(), CommitError> {
        limits::check_commit(commit)?;
        let mut undo = Vec::new();
        let outcome = self.try_commit(commit, &mut undo);
        if outcome.is_err() {
            undo.into_iter().rev().for_each(|step| self.undo(step));
            return outcome;
        }
        // What follows cannot conflict, so it comes last and needs no undo.
        for write in &commit.scripts {
            self.scripts.insert((write.run, write.slot), write.state.clone());
        }
        for compaction in &commit.compactions {
            let (run, batch) = (compaction.run, &compaction.batch);
            let range = (run, batch.first_event_id)..=(run, batch.last_event_id);
            let firsts: Vec<_> = self.history.range(range).map(|(key, _)| *key).collect();
            for key in firsts {
                self.history.remove(&key);
            }
            self.history.insert((run, batch.first_event_id), batch.clone());
        }
        for write in &commit.documents {
            let name = (write.namespace, write.name.clone());
            match &write.content {
                Some(content) => self.documents.insert(name, content.clone()),
                None => self.documents.remove(&name),
            };
        }
        for key in &commit.outbox_remove {
            self.outbox.remove(key);
        }
        for key in &commit.delete_runs {
            self.delete_run(*key);
        }
        Ok(())
    }

    fn try_commit(&mut self, commit: &Commit, undo: &mut Vec<Undo>) -> Result<(), CommitError> {
        for write in &commit.runs {
            self.write_run(write, undo)?;
        }
        for write in &commit.current {
            self.move_current(write, undo)?;
        }
        for reset in &commit.current_reset {
            let name = (reset.namespace, reset.workflow_id.clone());
            undo.push(Undo::Current(name.clone(), self.current.get(&name).copied()));
            self.point(name, reset.current);
        }
        for row in &commit.outbox_add {
            match self.outbox.entry(row.key) {
                Entry::Occupied(_) => return Err(CommitError::Conflict),
                Entry::Vacant(place) => place.insert(row.message.clone()),
            };
            undo.push(Undo::Outbox(row.key));
        }
        Ok(())
    }

    fn write_run(&mut self, write: &RunWrite, undo: &mut Vec<Undo>) -> Result<(), CommitError> {
        let stored_version = self.runs.get(&write.key).map_or(0, |run| run.version);
        if stored_version != write.expected_version {
            return Err(CommitError::Conflict);
        }
        let record = RunRecord {
            key: write.key,
            version: stored_version + 1,
            state: write.state.clone(),
            open: write.open,
            wake_at: write.wake_at,
            dispatchable: write.dispatchable,
        };
        let before = self.runs.insert(write.key, record);
        undo.push(Undo::Run(write.key, before));
        if let Some(row) = &write.visibility {
            let before = self.visibility.insert(write.key, Arc::new(VisibilityRow::clone(row)));
            undo.push(Undo::Visibility(write.key, before));
        }
        for batch in &write.batches {
            match self.history.entry((write.key, batch.first_event_id)) {
                Entry::Occupied(_) => return Err(CommitError::Conflict),
                Entry::Vacant(place) => place.insert(batch.clone()),
            };
            undo.push(Undo::History(write.key, batch.first_event_id));
        }
        Ok(())
    }

    fn move_current(&mut self, write: &CurrentWrite, undo: &mut Vec<Undo>) -> Result<(), CommitError> {
        let name = (write.namespace, write.workflow_id.clone());
        if self.current.get(&name).copied() != write.expected {
            return Err(CommitError::Conflict);
        }
        self.point(name.clone(), write.current);
        undo.push(Undo::Current(name, write.expected));
        Ok(())
    }

    fn point(&mut self, name: (NamespaceKey, String), to: Option<RunKey>) {
        match to {
            Some(key) => self.current.insert(name, key),
            None => self.current.remove(&name),
        };
    }

    fn undo(&mut self, step: Undo) {
        match step {
            Undo::Run(_, Some(before)) => drop(self.runs.insert(before.key, before)),
            Undo::Run(key, None) => drop(self.runs.remove(&key)),
            Undo::Visibility(key, Some(before)) => drop(self.visibility.insert(key, before)),
            Undo::Visibility(key, None) => drop(self.visibility.remove(&key)),
            Undo::History(key, first) => drop(self.history.remove(&(key, first))),
            Undo::Current(name, before) => self.point(name, before),
            Undo::Outbox(key) => drop(self.outbox.remove(&key)),
        }
    }

    fn delete_run(&mut self, key: RunKey) {
        self.runs.remove(&key);
        self.visibility.remove(&key);
        self.scripts.retain(|(run, _), _| *run != key);
        let firsts: Vec<_> = self.run_history(key).map(|batch| batch.first_event_id).collect();
        for first in firsts {
            self.history.remove(&(key, first));
        }
        let row = |sequence| OutboxKey { sender: key, sequence };
        let rows: Vec<_> = self.outbox.range(row(0)..=row(u32::MAX)).map(|(key, _)| *key).collect();
        for row in rows {
            self.outbox.remove(&row);
        }
    }
}

impl Store for MemoryStore {
    fn kind(&self) -> &'static str {
        "memory"
    }

    fn is_embedded(&self) -> bool {
        true
    }

    fn commit(&self, group: Vec<Commit>) -> Answer<Vec<Result<(), CommitError>>> {
        let mut tables = self.tables();
        ready(group.iter().map(|commit| tables.commit(commit)).collect())
    }

    fn load(&self, key: RunKey) -> Read<Option<RunRecord>> {
        self.read(|tables| tables.runs.get(&key).cloned())
    }

    fn current_run(&self, namespace: NamespaceKey, workflow_id: &str) -> Read<Option<RunRecord>> {
        self.read(|tables| tables.current(namespace, workflow_id).and_then(|key| tables.runs.get(&key)).cloned())
    }

    fn version(&self, key: RunKey) -> Read<Option<u64>> {
        self.read(|tables| tables.runs.get(&key).map(|run| run.version))
    }

    fn script_state(&self, key: RunKey, slot: u8) -> Read<Option<Bytes>> {
        self.read(|tables| tables.scripts.get(&(key, slot)).cloned())
    }

    fn document(&self, namespace: NamespaceKey, name: &str) -> Read<Option<Bytes>> {
        self.read(|tables| tables.documents.get(&(namespace, name.to_owned())).cloned())
    }

    fn documents(
        &self,
        namespace: NamespaceKey,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Read<Vec<Document>> {
        self.read(|tables| {
            let from = match after {
                Some(after) if after >= prefix => Bound::Excluded((namespace, after.to_owned())),
                _ => Bound::Included((namespace, prefix.to_owned())),
            };
            let found = tables.documents.range((from, Bound::Unbounded));
            let wanted = found.take_while(|((owner, name), _)| *owner == namespace && name.starts_with(prefix));
            let document = |((namespace, name), content): (&(NamespaceKey, String), &Bytes)| Document {
                namespace: *namespace,
                name: name.clone(),
                content: content.clone(),
            };
            wanted.take(limit).map(document).collect()
        })
    }

    fn current(&self, namespace: NamespaceKey, workflow_id: &str) -> Read<Option<RunKey>> {
        self.read(|tables| tables.current(namespace, workflow_id))
    }

    fn history(
        &self,
        key: RunKey,
        from: i64,
        until: i64,
        batches_max: usize,
        bytes_max: usize,
    ) -> Read<Vec<HistoryBatch>> {
        self.read(|tables| {
            let mut found = Vec::new();
            let mut bytes = 0_usize;
            let wanted =
                tables.run_history(key).filter(|batch| batch.last_event_id >= from && batch.first_event_id < until);
            for batch in wanted.take(batches_max) {
                bytes += batch.events.len();
                if bytes > bytes_max && !found.is_empty() {
                    break;
                }
                found.push(batch.clone());
            }
            found
        })
    }

    fn history_reverse(&self, key: RunKey, until: i64, batches_max: usize) -> Read<Vec<HistoryBatch>> {
        self.read(|tables| {
            let wanted = tables.run_history(key).rev().filter(|batch| batch.first_event_id < until);
            wanted.take(batches_max).cloned().collect()
        })
    }

    fn open_runs(&self, after: Option<RunKey>, limit: usize) -> Read<Vec<OpenRun>> {
        self.read(|tables| {
            let from = after.map_or(Bound::Unbounded, Bound::Excluded);
            let open = tables.runs.range((from, Bound::Unbounded)).map(|(_, run)| run).filter(|run| run.open);
            let brief =
                |run: &RunRecord| OpenRun { key: run.key, wake_at: run.wake_at, dispatchable: run.dispatchable };
            open.take(limit).map(brief).collect()
        })
    }

    fn outbox(&self, after: Option<OutboxKey>, limit: usize) -> Read<Vec<OutboxRow>> {
        self.read(|tables| {
            let rows = tables.outbox.range((after.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded));
            rows.take(limit).map(|(key, message)| OutboxRow { key: *key, message: message.clone() }).collect()
        })
    }

    fn reserve_run_keys(&self, count: u64) -> Write<RunKey> {
        ready(self.tables().reserve_run_keys(count))
    }

    fn namespaces(&self) -> Read<Vec<NamespaceRecord>> {
        self.read(|tables| tables.namespaces.values().cloned().collect())
    }

    fn put_namespace(&self, namespace: &NamespaceRecord) -> Write<()> {
        ready(self.tables().put_namespace(namespace))
    }

    fn delete_namespace(&self, namespace: NamespaceKey) -> Write<()> {
        self.tables().namespaces.remove(&namespace);
        ready(Ok(()))
    }

    /// Nothing here is older than this process.
    fn unlisted_runs(&self, _limit: usize) -> Read<Vec<RunKey>> {
        ready(Ok(Vec::new()))
    }

    fn facts(&self, key: RunKey) -> Read<Option<VisibilityRow>> {
        self.read(|tables| tables.visibility.get(&key).map(|row| VisibilityRow::clone(row)))
    }

    fn runs_of_workflow(&self, namespace: NamespaceKey, workflow_id: &str, limit: usize) -> Read<Vec<RunKey>> {
        self.read(|tables| {
            let newest_first = tables.visibility.values().rev();
            let wanted = newest_first.filter(|row| row.namespace == namespace && row.workflow_id == workflow_id);
            wanted.take(limit).map(|row| row.key).collect()
        })
    }

    fn list_within(&self, query: &ListQuery, limit: &ReadLimit) -> Read<ListPage> {
        let (rows, query, limit) = (self.tables().rows_of(query.namespace), query.clone(), limit.clone());
        self.search(move || list(&rows, &query, &limit))
    }

    fn count_within(
        &self,
        namespace: NamespaceKey,
        filter: &Filter,
        group_by: Option<Attribute>,
        limit: &ReadLimit,
    ) -> Read<Vec<Count>> {
        let (rows, filter, limit) = (self.tables().rows_of(namespace), filter.clone(), limit.clone());
        self.search(move || visibility::count(rows.iter().map(|(row, _)| &**row), namespace, &filter, group_by, &limit))
    }

    fn closed_runs(&self, namespace: NamespaceKey, closed_before: i64, limit: usize) -> Read<Vec<RunKey>> {
        self.read(|tables| {
            let mut closed: Vec<_> = tables.closed(namespace).filter(|(time, ..)| *time < closed_before).collect();
            closed.sort_unstable();
            closed.into_iter().take(limit).map(|(.., key)| key).collect()
        })
    }

    fn first_close(&self, namespace: NamespaceKey) -> Read<Option<i64>> {
        self.read(|tables| tables.closed(namespace).map(|(time, ..)| time).min())
    }

    fn runs_of(&self, namespace: NamespaceKey, after: Option<RunKey>, limit: usize) -> Read<Vec<RunKey>> {
        self.read(|tables| {
            let from = after.map_or(Bound::Unbounded, Bound::Excluded);
            let rows = tables.visibility.range((from, Bound::Unbounded)).filter(|(_, row)| row.namespace == namespace);
            rows.take(limit).map(|(key, _)| *key).collect()
        })
    }
}

/// The parts of a run that lists read: its facts and its state.
type ListedRow = (Arc<VisibilityRow>, Option<Bytes>);

fn list(rows: &[ListedRow], query: &ListQuery, limit: &ReadLimit) -> Result<ListPage, ReadError> {
    let places = visibility::page(rows.iter().map(|(row, _)| &**row), query, limit)?;
    let missing = |key: RunKey| ReadError::Damaged(format!("run {} can be searched but is not there", key.0));
    let state = |key: RunKey| {
        let place = rows.binary_search_by_key(&key, |(row, _)| row.key).ok();
        place.and_then(|place| rows[place].1.clone()).ok_or_else(|| missing(key))
    };
    let runs = places.iter().map(|place| ListedRun { key: place.key, state: state(place.key) }).collect();
    let full = places.len() == query.limit;
    Ok(ListPage { runs, next: places.into_iter().next_back().filter(|_| full) })
}

impl Tables {
    fn current(&self, namespace: NamespaceKey, workflow_id: &str) -> Option<RunKey> {
        self.current.get(&(namespace, workflow_id.to_owned())).copied()
    }

    fn reserve_run_keys(&mut self, count: u64) -> Result<RunKey, CommitError> {
        // Keys begin at 1, so that 0 never names a run.
        let (first, end) = limits::reserve(self.run_keys_reserved + 1, count)?;
        self.run_keys_reserved = end - 1;
        Ok(first)
    }

    fn put_namespace(&mut self, namespace: &NamespaceRecord) -> Result<(), CommitError> {
        limits::check_value(namespace.detail.len())?;
        if self.namespaces.values().any(|other| other.name == namespace.name && other.key != namespace.key) {
            return Err(CommitError::Conflict);
        }
        self.namespaces.insert(namespace.key, namespace.clone());
        Ok(())
    }

    /// The rows that lists read: facts and states of the runs of a namespace, as of now, by key.
    fn rows_of(&self, namespace: NamespaceKey) -> Vec<ListedRow> {
        let rows = self.visibility.values().filter(|row| row.namespace == namespace);
        rows.map(|row| (Arc::clone(row), self.runs.get(&row.key).map(|run| run.state.clone()))).collect()
    }

    /// When each closed run of a namespace closed and started.
    fn closed(&self, namespace: NamespaceKey) -> impl Iterator<Item = (i64, i64, RunKey)> {
        let rows = self.visibility.iter().filter(move |(_, row)| row.namespace == namespace);
        rows.filter_map(|(key, row)| row.closed.map(|closed| (closed.time, row.start_time, *key)))
    }

    fn run_history(&self, key: RunKey) -> impl DoubleEndedIterator<Item = &HistoryBatch> {
        self.history.range((key, i64::MIN)..=(key, i64::MAX)).map(|(_, batch)| batch)
    }
}
