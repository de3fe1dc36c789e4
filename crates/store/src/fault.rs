//! A store that fails on request.
//!
//! [`FaultStore`] wraps any [`Store`]; a [`FaultPlan`], shared with the test, says which call fails and how, and counts
//! calls. The faults are those a real store shows: it failed before it did anything, it was full, it did everything or
//! only some and the answer got lost, it could not be read.
//!
//! What holds: without a plan the wrapper changes nothing; what a fault lets through is done by the wrapped store
//! itself, so its own promises still hold.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use crate::visibility::{Attribute, Count, Filter, ListPage, ListQuery, VisibilityRow};
use crate::{
    Commit, CommitError, Document, HistoryBatch, NamespaceKey, NamespaceRecord, OpenRun, OutboxKey, OutboxRow,
    ReadError, ReadLimit, RunKey, RunRecord, Store,
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
    damaged: BTreeSet<RunKey>,
    damaged_pointers: BTreeSet<(NamespaceKey, String)>,
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

    /// Makes every call that writes fail until told otherwise.
    pub fn fail_all_writes(&self, fault: Option<WriteFault>) {
        self.plan().all_writes = fault;
    }

    /// Makes every call that reads fail until told otherwise.
    pub fn fail_all_reads(&self, error: Option<ReadError>) {
        self.plan().all_reads = error;
    }

    /// Makes a run's state and history unreadable, until it is deleted.
    pub fn damage_run(&self, key: RunKey) {
        self.plan().damaged.insert(key);
    }

    /// Makes the current pointer of a workflow id unreadable, until it is reset.
    pub fn damage_current(&self, namespace: NamespaceKey, workflow_id: &str) {
        self.plan().damaged_pointers.insert((namespace, workflow_id.to_owned()));
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
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
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

    fn check_run(&self, key: RunKey) -> Result<(), ReadError> {
        if self.plan().damaged.contains(&key) { Err(damaged(key)) } else { Ok(()) }
    }

    fn check_current(&self, namespace: NamespaceKey, workflow_id: &str) -> Result<(), ReadError> {
        let is_damaged = self.plan().damaged_pointers.contains(&(namespace, workflow_id.to_owned()));
        if is_damaged { Err(ReadError::Damaged("injected damage of a current pointer".to_owned())) } else { Ok(()) }
    }

    /// What was deleted or reset is not damaged any more.
    fn repaired(&self, group: &[Commit], results: &[Result<(), CommitError>]) {
        let mut plan = self.plan();
        if plan.damaged.is_empty() && plan.damaged_pointers.is_empty() {
            return;
        }
        for (commit, _) in group.iter().zip(results).filter(|(_, result)| result.is_ok()) {
            for key in &commit.delete_runs {
                plan.damaged.remove(key);
            }
            for reset in &commit.current_reset {
                plan.damaged_pointers.remove(&(reset.namespace, reset.workflow_id.clone()));
            }
        }
    }

    /// A write that is a single thing: it is done or not.
    fn write<T>(&self, write: impl FnOnce() -> Result<T, CommitError>) -> Result<T, CommitError> {
        match self.next_write(0) {
            None => write(),
            Some(WriteFault::NotDone | WriteFault::PartlyDone(0)) => Err(lost()),
            Some(WriteFault::Full) => Err(CommitError::Full),
            Some(WriteFault::DoneButUnknown | WriteFault::PartlyDone(_)) => write().and(Err(lost())),
        }
    }
}

fn damaged(key: RunKey) -> ReadError {
    ReadError::Damaged(format!("injected damage of run {}", key.0))
}

fn lost() -> CommitError {
    CommitError::Unknown("injected fault".to_owned())
}

/// A [`Store`] that fails as its plan says.
#[derive(Debug)]
pub struct FaultStore<S> {
    store: S,
    plan: FaultPlan,
}

impl<S: Store> FaultStore<S> {
    /// Wraps a store.
    pub fn new(store: S, plan: FaultPlan) -> Self {
        Self { store, plan }
    }

    /// The plan.
    pub fn plan(&self) -> &FaultPlan {
        &self.plan
    }

    /// The wrapped store, which does not fail and does not count.
    pub fn inner(&self) -> &S {
        &self.store
    }
}

impl<S: Store> Store for FaultStore<S> {
    fn kind(&self) -> &'static str {
        self.store.kind()
    }

    fn commit(&self, group: &[Commit]) -> Vec<Result<(), CommitError>> {
        let done = match self.plan.next_write(group.len()) {
            None => {
                let results = self.store.commit(group);
                self.plan.repaired(group, &results);
                return results;
            }
            Some(WriteFault::Full) => return vec![Err(CommitError::Full); group.len()],
            Some(WriteFault::NotDone) => 0,
            Some(WriteFault::DoneButUnknown) => group.len(),
            Some(WriteFault::PartlyDone(done)) => done.min(group.len()),
        };
        drop(self.store.commit(&group[..done]));
        vec![Err(lost()); group.len()]
    }

    fn load(&self, key: RunKey) -> Result<Option<RunRecord>, ReadError> {
        self.plan.next_read()?;
        self.plan.check_run(key)?;
        self.store.load(key)
    }

    fn version(&self, key: RunKey) -> Result<Option<u64>, ReadError> {
        self.plan.next_read()?;
        self.store.version(key)
    }

    fn script_state(&self, key: RunKey, slot: u8) -> Result<Option<Bytes>, ReadError> {
        self.plan.next_read()?;
        self.plan.check_run(key)?;
        self.store.script_state(key, slot)
    }

    fn document(&self, namespace: NamespaceKey, name: &str) -> Result<Option<Bytes>, ReadError> {
        self.plan.next_read()?;
        self.store.document(namespace, name)
    }

    fn documents(
        &self,
        namespace: NamespaceKey,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Document>, ReadError> {
        self.plan.next_read()?;
        self.store.documents(namespace, prefix, after, limit)
    }

    fn current(&self, namespace: NamespaceKey, workflow_id: &str) -> Result<Option<RunKey>, ReadError> {
        self.plan.next_read()?;
        self.plan.check_current(namespace, workflow_id)?;
        self.store.current(namespace, workflow_id)
    }

    fn history(
        &self,
        key: RunKey,
        from: i64,
        until: i64,
        batches_max: usize,
        bytes_max: usize,
    ) -> Result<Vec<HistoryBatch>, ReadError> {
        self.plan.next_read()?;
        self.plan.check_run(key)?;
        self.store.history(key, from, until, batches_max, bytes_max)
    }

    fn history_reverse(&self, key: RunKey, until: i64, batches_max: usize) -> Result<Vec<HistoryBatch>, ReadError> {
        self.plan.next_read()?;
        self.plan.check_run(key)?;
        self.store.history_reverse(key, until, batches_max)
    }

    fn open_runs(&self, after: Option<RunKey>, limit: usize) -> Result<Vec<OpenRun>, ReadError> {
        self.plan.next_read()?;
        self.store.open_runs(after, limit)
    }

    fn outbox(&self, after: Option<OutboxKey>, limit: usize) -> Result<Vec<OutboxRow>, ReadError> {
        self.plan.next_read()?;
        self.store.outbox(after, limit)
    }

    fn reserve_run_keys(&self, count: u64) -> Result<RunKey, CommitError> {
        self.plan.write(|| self.store.reserve_run_keys(count))
    }

    fn namespaces(&self) -> Result<Vec<NamespaceRecord>, ReadError> {
        self.plan.next_read()?;
        self.store.namespaces()
    }

    fn put_namespace(&self, namespace: &NamespaceRecord) -> Result<(), CommitError> {
        self.plan.write(|| self.store.put_namespace(namespace))
    }

    fn delete_namespace(&self, namespace: NamespaceKey) -> Result<(), CommitError> {
        self.plan.write(|| self.store.delete_namespace(namespace))
    }

    fn unlisted_runs(&self, limit: usize) -> Result<Vec<RunKey>, ReadError> {
        self.plan.next_read()?;
        self.store.unlisted_runs(limit)
    }

    fn facts(&self, key: RunKey) -> Result<Option<VisibilityRow>, ReadError> {
        self.plan.next_read()?;
        self.store.facts(key)
    }

    fn runs_of_workflow(
        &self,
        namespace: NamespaceKey,
        workflow_id: &str,
        limit: usize,
    ) -> Result<Vec<RunKey>, ReadError> {
        self.plan.next_read()?;
        self.store.runs_of_workflow(namespace, workflow_id, limit)
    }

    fn list_within(&self, query: &ListQuery, limit: &ReadLimit) -> Result<ListPage, ReadError> {
        self.plan.next_read()?;
        let mut page = self.store.list_within(query, limit)?;
        for run in &mut page.runs {
            if let Err(error) = self.plan.check_run(run.key) {
                run.state = Err(error);
            }
        }
        Ok(page)
    }

    fn count_within(
        &self,
        namespace: NamespaceKey,
        filter: &Filter,
        group_by: Option<Attribute>,
        limit: &ReadLimit,
    ) -> Result<Vec<Count>, ReadError> {
        self.plan.next_read()?;
        self.store.count_within(namespace, filter, group_by, limit)
    }

    fn closed_runs(&self, namespace: NamespaceKey, closed_before: i64, limit: usize) -> Result<Vec<RunKey>, ReadError> {
        self.plan.next_read()?;
        self.store.closed_runs(namespace, closed_before, limit)
    }

    fn first_close(&self, namespace: NamespaceKey) -> Result<Option<i64>, ReadError> {
        self.plan.next_read()?;
        self.store.first_close(namespace)
    }

    fn runs_of(&self, namespace: NamespaceKey, after: Option<RunKey>, limit: usize) -> Result<Vec<RunKey>, ReadError> {
        self.plan.next_read()?;
        self.store.runs_of(namespace, after, limit)
    }
}
