//! A store that fails on request.
//!
//! [`FaultStore`] wraps any [`Store`]; a [`FaultPlan`], shared with the test, selects the calls that fail and how, and
//! counts calls. The faults are those of real stores: failed before any change, full, everything or only a part was
//! done and the answer was lost, unreadable.
//!
//! What holds: without a plan the wrapper changes nothing; calls that are let through are done by the wrapped store
//! itself, so its own guarantees still hold.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;

use crate::lock::lock;
use crate::visibility::{Attribute, Count, Filter, ListPage, ListQuery, VisibilityRow};
use crate::{
    Answer, Commit, CommitError, Document, HistoryBatch, NamespaceKey, NamespaceRecord, OpenRun, OutboxKey, OutboxRow,
    Read, ReadError, ReadLimit, RunKey, RunRecord, Store, Write, ready,
};

/// How a call that writes fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteFault {
    /// Nothing is done; reported as [`CommitError::Unknown`].
    NotDone,
    /// Everything is done; reported as [`CommitError::Unknown`].
    DoneButUnknown,
    /// The first commits of the group, this many, are done; all are reported as [`CommitError::Unknown`].
    PartlyDone(usize),
    /// Nothing is done; reported as [`CommitError::Full`].
    Full,
}

/// How often a store was called.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Calls {
    /// Calls that write: `commit`, `reserve_run_keys` and `put_namespace`.
    pub writes: u64,
    /// Commits in all groups.
    pub commits: u64,
    /// Calls that read.
    pub reads: u64,
}

/// Says what fails. Clones share one plan.
#[derive(Clone, Debug, Default)]
pub struct FaultPlan {
    inner: Arc<Mutex<Plan>>,
}

#[derive(Debug, Default)]
struct Plan {
    calls: Calls,
    writes: BTreeMap<u64, WriteFault>,
    reads: BTreeMap<u64, ReadError>,
    all_writes: Option<WriteFault>,
    all_reads: Option<ReadError>,
}

impl FaultPlan {
    /// A plan without faults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes the `nth` call that writes fail, once; the first one after the store was wrapped is 1.
    pub fn fail_write(&self, nth: u64, fault: WriteFault) {
        self.plan().writes.insert(nth, fault);
    }

    /// Makes the `nth` call that reads fail, once; the first one after the store was wrapped is 1.
    pub fn fail_read(&self, nth: u64, error: ReadError) {
        self.plan().reads.insert(nth, error);
    }

    /// Makes the next call that writes fail, once.
    pub fn fail_next_write(&self, fault: WriteFault) {
        let mut plan = self.plan();
        let nth = plan.calls.writes + 1;
        plan.writes.insert(nth, fault);
    }

    /// Makes every call that writes fail until it is switched back.
    pub fn fail_all_writes(&self, fault: Option<WriteFault>) {
        self.plan().all_writes = fault;
    }

    /// Makes every call that reads fail until it is switched back.
    pub fn fail_all_reads(&self, error: Option<ReadError>) {
        self.plan().all_reads = error;
    }

    /// Forgets all faults; the counts stay.
    pub fn clear(&self) {
        let mut plan = self.plan();
        *plan = Plan { calls: plan.calls, ..Plan::default() };
    }

    /// How often the store was called.
    pub fn calls(&self) -> Calls {
        self.plan().calls
    }

    fn plan(&self) -> MutexGuard<'_, Plan> {
        lock(&self.inner)
    }

    fn next_write(&self, commits: usize) -> Option<WriteFault> {
        let mut plan = self.plan();
        plan.calls.writes += 1;
        plan.calls.commits += commits as u64;
        let nth = plan.calls.writes;
        plan.writes.remove(&nth).or(plan.all_writes)
    }

    fn next_read(&self) -> Result<(), ReadError> {
        let mut plan = self.plan();
        plan.calls.reads += 1;
        let nth = plan.calls.reads;
        plan.reads.remove(&nth).or_else(|| plan.all_reads.clone()).map_or(Ok(()), Err)
    }
}

fn lost() -> CommitError {
    CommitError::Unknown("injected fault".to_owned())
}

/// A [`Store`] that fails as its plan says.
#[derive(Debug)]
pub struct FaultStore<S: ?Sized> {
    store: Arc<S>,
    plan: FaultPlan,
}

impl<S: Store + ?Sized> FaultStore<S> {
    /// Wraps a store.
    pub fn new(store: Arc<S>, plan: FaultPlan) -> Self {
        Self { store, plan }
    }

    fn read<T: Send + 'static>(&self, read: impl FnOnce(&S) -> Read<T>) -> Read<T> {
        match self.plan.next_read() {
            Ok(()) => read(&self.store),
            Err(error) => ready(Err(error)),
        }
    }

    /// A write that is a single thing: it is done or not.
    fn write<T: Send + 'static>(&self, write: impl FnOnce(&S) -> Write<T>) -> Write<T> {
        match self.plan.next_write(0) {
            None => write(&self.store),
            Some(WriteFault::NotDone | WriteFault::PartlyDone(0)) => ready(Err(lost())),
            Some(WriteFault::Full) => ready(Err(CommitError::Full)),
            Some(WriteFault::DoneButUnknown | WriteFault::PartlyDone(_)) => {
                let done = write(&self.store);
                Box::pin(async move { done.await.and(Err(lost())) })
            }
        }
    }
}

impl<S: Store + ?Sized> Store for FaultStore<S> {
    fn kind(&self) -> &'static str {
        self.store.kind()
    }

    fn is_embedded(&self) -> bool {
        self.store.is_embedded()
    }

    fn commit(&self, mut group: Vec<Commit>) -> Answer<Vec<Result<(), CommitError>>> {
        let length = group.len();
        let done = match self.plan.next_write(length) {
            None => return self.store.commit(group),
            Some(WriteFault::Full) => return ready(vec![Err(CommitError::Full); length]),
            Some(WriteFault::NotDone) => 0,
            Some(WriteFault::DoneButUnknown) => length,
            Some(WriteFault::PartlyDone(done)) => done,
        };
        group.truncate(done);
        let committed = self.store.commit(group);
        Box::pin(async move {
            drop(committed.await);
            vec![Err(lost()); length]
        })
    }

    fn load(&self, key: RunKey) -> Read<Option<RunRecord>> {
        self.read(|store| store.load(key))
    }

    fn current_run(&self, namespace: NamespaceKey, workflow_id: &str) -> Read<Option<RunRecord>> {
        let current = self.current(namespace, workflow_id);
        let runs = Self { store: self.store.clone(), plan: self.plan.clone() };
        Box::pin(async move {
            match current.await? {
                Some(key) => runs.load(key).await,
                None => Ok(None),
            }
        })
    }

    fn version(&self, key: RunKey) -> Read<Option<u64>> {
        self.read(|store| store.version(key))
    }

    fn script_state(&self, key: RunKey, slot: u8) -> Read<Option<Bytes>> {
        self.read(|store| store.script_state(key, slot))
    }

    fn document(&self, namespace: NamespaceKey, name: &str) -> Read<Option<Bytes>> {
        self.read(|store| store.document(namespace, name))
    }

    fn documents(
        &self,
        namespace: NamespaceKey,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Read<Vec<Document>> {
        self.read(|store| store.documents(namespace, prefix, after, limit))
    }

    fn current(&self, namespace: NamespaceKey, workflow_id: &str) -> Read<Option<RunKey>> {
        self.read(|store| store.current(namespace, workflow_id))
    }

    fn history(
        &self,
        key: RunKey,
        from: i64,
        until: i64,
        batches_max: usize,
        bytes_max: usize,
    ) -> Read<Vec<HistoryBatch>> {
        self.read(|store| store.history(key, from, until, batches_max, bytes_max))
    }

    fn history_reverse(&self, key: RunKey, until: i64, batches_max: usize) -> Read<Vec<HistoryBatch>> {
        self.read(|store| store.history_reverse(key, until, batches_max))
    }

    fn open_runs(&self, after: Option<RunKey>, limit: usize) -> Read<Vec<OpenRun>> {
        self.read(|store| store.open_runs(after, limit))
    }

    fn outbox(&self, after: Option<OutboxKey>, limit: usize) -> Read<Vec<OutboxRow>> {
        self.read(|store| store.outbox(after, limit))
    }

    fn reserve_run_keys(&self, count: u64) -> Write<RunKey> {
        self.write(|store| store.reserve_run_keys(count))
    }

    fn namespaces(&self) -> Read<Vec<NamespaceRecord>> {
        self.read(S::namespaces)
    }

    fn put_namespace(&self, namespace: &NamespaceRecord) -> Write<()> {
        self.write(|store| store.put_namespace(namespace))
    }

    fn delete_namespace(&self, namespace: NamespaceKey) -> Write<()> {
        self.write(|store| store.delete_namespace(namespace))
    }

    fn unlisted_runs(&self, limit: usize) -> Read<Vec<RunKey>> {
        self.read(|store| store.unlisted_runs(limit))
    }

    fn facts(&self, key: RunKey) -> Read<Option<VisibilityRow>> {
        self.read(|store| store.facts(key))
    }

    fn runs_of_workflow(&self, namespace: NamespaceKey, workflow_id: &str, limit: usize) -> Read<Vec<RunKey>> {
        self.read(|store| store.runs_of_workflow(namespace, workflow_id, limit))
    }

    fn list_within(&self, query: &ListQuery, limit: &ReadLimit) -> Read<ListPage> {
        self.read(|store| store.list_within(query, limit))
    }

    fn count_within(
        &self,
        namespace: NamespaceKey,
        filter: &Filter,
        group_by: Option<Attribute>,
        limit: &ReadLimit,
    ) -> Read<Vec<Count>> {
        self.read(|store| store.count_within(namespace, filter, group_by, limit))
    }

    fn closed_runs(&self, namespace: NamespaceKey, closed_before: i64, limit: usize) -> Read<Vec<RunKey>> {
        self.read(|store| store.closed_runs(namespace, closed_before, limit))
    }

    fn first_close(&self, namespace: NamespaceKey) -> Read<Option<i64>> {
        self.read(|store| store.first_close(namespace))
    }

    fn runs_of(&self, namespace: NamespaceKey, after: Option<RunKey>, limit: usize) -> Read<Vec<RunKey>> {
        self.read(|store| store.runs_of(namespace, after, limit))
    }
}
