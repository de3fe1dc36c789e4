//! The simulated file: the contract of an embedded store over the store in memory, with the faults of a disk.
//!
//! A group of commits is atomic, as a transaction of SQLite is. At a crash each group that was not answered is there or is lost;
//! once one is lost, all after it are. What tears inside of the file, and how SQLite mends that, is the subject of the power cuts
//! of `tools/harness`.
//!
//! What holds: what was answered `Ok` stays. A read sees every commit that was answered before the read began. A node whose
//! process is gone changes nothing.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use segno_store::{
    Answer, Commit, CommitError, Document, HistoryBatch, MemoryStore, NamespaceKey, NamespaceRecord, OpenRun,
    OutboxKey, OutboxRow, Read, ReadError, ReadLimit, RunKey, RunRecord, Store, Wait, Write,
    lock::lock,
    visibility::{Attribute, Count, Filter, ListPage, ListQuery, VisibilityRow},
};
use tokio::time::{Duration, sleep};

use crate::{Millis, random::Random};

/// How a disk behaves for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Behaviour {
    /// The longest time of a write.
    pub write_max: Millis,
    /// The longest time of a read.
    pub read_max: Millis,
    /// Nothing fits.
    pub is_full: bool,
    /// Writes in a thousand that fail; some of them are made all the same.
    pub failed_writes: u64,
    /// Reads in a thousand that fail.
    pub failed_reads: u64,
}

impl Behaviour {
    /// A disk at its best.
    pub const HEALTHY: Self = Self { write_max: 4, read_max: 2, is_full: false, failed_writes: 0, failed_reads: 0 };
    /// A disk without delays, for the contract kit.
    pub const IMMEDIATE: Self = Self { write_max: 0, read_max: 0, ..Self::HEALTHY };
}

/// The disk of a node. It stays when the node dies.
#[derive(Debug)]
pub struct Disk {
    /// What is on it.
    pub content: Arc<MemoryStore>,
    state: Mutex<DiskState>,
}

#[derive(Debug)]
struct DiskState {
    random: Random,
    behaviour: Behaviour,
    /// Processes before this one are gone.
    process: u64,
    /// Groups that are not written yet, in the order of their calls.
    under_way: Vec<(u64, Vec<Commit>)>,
    groups: u64,
}

/// The fate of a write.
#[derive(Clone, Copy)]
struct Fate {
    before: Millis,
    after: Millis,
    outcome: Outcome,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Done,
    NotDone,
    DoneButUnknown,
    Full,
}

fn failed() -> CommitError {
    CommitError::Unknown("the simulated disk failed".to_owned())
}

impl Disk {
    /// An empty disk.
    pub fn new(random: Random, behaviour: Behaviour) -> Arc<Self> {
        let state = DiskState { random, behaviour, process: 0, under_way: Vec::new(), groups: 0 };
        Arc::new(Self { content: Arc::new(MemoryStore::without_threads()), state: Mutex::new(state) })
    }

    /// How it behaves from now on.
    pub fn behave(&self, behaviour: Behaviour) {
        lock(&self.state).behaviour = behaviour;
    }

    /// Opens the file for a process.
    pub fn open(self: &Arc<Self>) -> Arc<dyn Store> {
        let mut state = lock(&self.state);
        state.process += 1;
        Arc::new(File { disk: self.clone(), process: state.process })
    }

    /// The process ended, and what it had not synced is lost or not. Says how many groups were written and lost.
    pub fn crash(&self) -> (usize, usize) {
        let mut state = lock(&self.state);
        state.process += 1;
        let groups = std::mem::take(&mut state.under_way);
        let length = groups.len();
        let written = if length == 0 { 0 } else { state.random.below(length + 1) };
        for (_, group) in groups.into_iter().take(written) {
            drop(self.content.commit(group).wait());
        }
        (written, length - written)
    }
}

impl DiskState {
    fn fate(&mut self) -> Fate {
        let Behaviour { write_max, failed_writes, is_full, .. } = self.behaviour;
        let total = self.random.between(write_max.min(1), write_max);
        let before = self.random.between(0, total);
        let outcome = match self.random.per_mille(failed_writes) {
            _ if is_full => Outcome::Full,
            false => Outcome::Done,
            true if self.random.per_mille(500) => Outcome::DoneButUnknown,
            true => Outcome::NotDone,
        };
        Fate { before, after: total - before, outcome }
    }
}

/// The file as one process has it open.
struct File {
    disk: Arc<Disk>,
    process: u64,
}

async fn pass(time: Millis) {
    if time > 0 {
        sleep(Duration::from_millis(time)).await;
    }
}

impl File {
    /// The state of the disk, unless this process is gone.
    fn draw<T>(&self, draw: impl FnOnce(&mut DiskState) -> T) -> Option<T> {
        let mut state = lock(&self.disk.state);
        (state.process == self.process).then(|| draw(&mut state))
    }

    fn read<T: Send + 'static>(&self, read: impl FnOnce(&MemoryStore) -> Read<T> + Send + 'static) -> Read<T> {
        let drawn = self.draw(|state| {
            let time = state.random.between(0, state.behaviour.read_max);
            (time, state.random.between(0, time), state.random.per_mille(state.behaviour.failed_reads))
        });
        let disk = self.disk.clone();
        Box::pin(async move {
            // The runtime of a process that is gone is dropped; its reads have no answer.
            let Some((time, before, fails)) = drawn else { return std::future::pending().await };
            pass(before).await;
            let answer = match fails {
                true => Err(ReadError::Failed("the simulated disk failed".to_owned())),
                false => read(&disk.content).await,
            };
            pass(time - before).await;
            answer
        })
    }

    /// A small write, which is made at the call.
    fn write<T: Send + 'static>(&self, write: impl FnOnce(&MemoryStore) -> Write<T>) -> Write<T> {
        let Some(fate) = self.draw(DiskState::fate) else { return Box::pin(std::future::pending()) };
        let answer = match fate.outcome {
            Outcome::Full => Err(CommitError::Full),
            Outcome::NotDone => Err(failed()),
            Outcome::Done => write(&self.disk.content).wait(),
            Outcome::DoneButUnknown => write(&self.disk.content).wait().and(Err(failed())),
        };
        Box::pin(async move {
            pass(fate.before + fate.after).await;
            answer
        })
    }

    fn begin(&self, group: Vec<Commit>) -> Option<(u64, Fate)> {
        self.draw(|state| {
            let fate = state.fate();
            state.groups += 1;
            if matches!(fate.outcome, Outcome::Done | Outcome::DoneButUnknown) {
                state.under_way.push((state.groups, group));
            }
            (state.groups, fate)
        })
    }
}

/// Writes a group that is under way.
fn finish(disk: &Disk, number: u64) -> Vec<Result<(), CommitError>> {
    let group = {
        let mut state = lock(&disk.state);
        let place = state.under_way.iter().position(|(group, _)| *group == number);
        place.map(|place| state.under_way.remove(place).1)
    };
    group.map(|group| disk.content.commit(group).wait()).unwrap_or_default()
}

impl Store for File {
    fn kind(&self) -> &'static str {
        "simulated"
    }

    fn is_embedded(&self) -> bool {
        true
    }

    fn commit(&self, group: Vec<Commit>) -> Answer<Vec<Result<(), CommitError>>> {
        let length = group.len();
        let begun = self.begin(group);
        let disk = self.disk.clone();
        Box::pin(async move {
            let Some((number, fate)) = begun else { return std::future::pending().await };
            pass(fate.before).await;
            let results = match fate.outcome {
                Outcome::Done => finish(&disk, number),
                Outcome::DoneButUnknown => {
                    drop(finish(&disk, number));
                    vec![Err(failed()); length]
                }
                Outcome::NotDone => vec![Err(failed()); length],
                Outcome::Full => vec![Err(CommitError::Full); length],
            };
            pass(fate.after).await;
            results
        })
    }

    fn load(&self, key: RunKey) -> Read<Option<RunRecord>> {
        self.read(move |store| store.load(key))
    }

    fn current_run(&self, namespace: NamespaceKey, workflow_id: &str) -> Read<Option<RunRecord>> {
        let id = workflow_id.to_owned();
        self.read(move |store| store.current_run(namespace, &id))
    }

    fn version(&self, key: RunKey) -> Read<Option<u64>> {
        self.read(move |store| store.version(key))
    }

    fn script_state(&self, key: RunKey, slot: u8) -> Read<Option<Bytes>> {
        self.read(move |store| store.script_state(key, slot))
    }

    fn document(&self, namespace: NamespaceKey, name: &str) -> Read<Option<Bytes>> {
        let name = name.to_owned();
        self.read(move |store| store.document(namespace, &name))
    }

    fn documents(
        &self,
        namespace: NamespaceKey,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Read<Vec<Document>> {
        let (prefix, after) = (prefix.to_owned(), after.map(str::to_owned));
        self.read(move |store| store.documents(namespace, &prefix, after.as_deref(), limit))
    }

    fn current(&self, namespace: NamespaceKey, workflow_id: &str) -> Read<Option<RunKey>> {
        let id = workflow_id.to_owned();
        self.read(move |store| store.current(namespace, &id))
    }

    fn history(
        &self,
        key: RunKey,
        from: i64,
        until: i64,
        batches_max: usize,
        bytes_max: usize,
    ) -> Read<Vec<HistoryBatch>> {
        self.read(move |store| store.history(key, from, until, batches_max, bytes_max))
    }

    fn history_reverse(&self, key: RunKey, until: i64, batches_max: usize) -> Read<Vec<HistoryBatch>> {
        self.read(move |store| store.history_reverse(key, until, batches_max))
    }

    fn open_runs(&self, after: Option<RunKey>, limit: usize) -> Read<Vec<OpenRun>> {
        self.read(move |store| store.open_runs(after, limit))
    }

    fn outbox(&self, after: Option<OutboxKey>, limit: usize) -> Read<Vec<OutboxRow>> {
        self.read(move |store| store.outbox(after, limit))
    }

    fn reserve_run_keys(&self, count: u64) -> Write<RunKey> {
        self.write(|store| store.reserve_run_keys(count))
    }

    fn namespaces(&self) -> Read<Vec<NamespaceRecord>> {
        self.read(MemoryStore::namespaces)
    }

    fn put_namespace(&self, namespace: &NamespaceRecord) -> Write<()> {
        self.write(|store| store.put_namespace(namespace))
    }

    fn delete_namespace(&self, namespace: NamespaceKey) -> Write<()> {
        self.write(|store| store.delete_namespace(namespace))
    }

    fn unlisted_runs(&self, limit: usize) -> Read<Vec<RunKey>> {
        self.read(move |store| store.unlisted_runs(limit))
    }

    fn facts(&self, key: RunKey) -> Read<Option<VisibilityRow>> {
        self.read(move |store| store.facts(key))
    }

    fn runs_of_workflow(&self, namespace: NamespaceKey, workflow_id: &str, limit: usize) -> Read<Vec<RunKey>> {
        let id = workflow_id.to_owned();
        self.read(move |store| store.runs_of_workflow(namespace, &id, limit))
    }

    fn list_within(&self, query: &ListQuery, limit: &ReadLimit) -> Read<ListPage> {
        let (query, limit) = (query.clone(), limit.clone());
        self.read(move |store| store.list_within(&query, &limit))
    }

    fn count_within(
        &self,
        namespace: NamespaceKey,
        filter: &Filter,
        group_by: Option<Attribute>,
        limit: &ReadLimit,
    ) -> Read<Vec<Count>> {
        let (filter, limit) = (filter.clone(), limit.clone());
        self.read(move |store| store.count_within(namespace, &filter, group_by, &limit))
    }

    fn closed_runs(&self, namespace: NamespaceKey, closed_before: i64, limit: usize) -> Read<Vec<RunKey>> {
        self.read(move |store| store.closed_runs(namespace, closed_before, limit))
    }

    fn first_close(&self, namespace: NamespaceKey) -> Read<Option<i64>> {
        self.read(move |store| store.first_close(namespace))
    }

    fn runs_of(&self, namespace: NamespaceKey, after: Option<RunKey>, limit: usize) -> Read<Vec<RunKey>> {
        self.read(move |store| store.runs_of(namespace, after, limit))
    }
}
