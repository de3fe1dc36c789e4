//! A store whose gate can be closed for reports: commits that take a message off the outbox are not done while it is.
//! It can also be silent: commits are done, and the node does not hear of it. Commits can be held back or panic, and runs can be
//! damaged.

use std::{
    collections::HashSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use segno_store::{
    Answer, Commit, CommitError, HistoryBatch, MemoryStore, NamespaceKey, NamespaceRecord, OpenRun, OutboxKey,
    OutboxRow, Read, ReadError, ReadLimit, RunKey, RunRecord, Store, Wait, Write, ready,
    visibility::{Attribute, Count, Filter, ListPage, ListQuery, VisibilityRow},
};

/// See above.
#[derive(Default)]
pub struct Gate {
    pub memory: Arc<MemoryStore>,
    pub closed: AtomicBool,
    pub silent: AtomicBool,
    /// Commits wait while it is set.
    pub held: AtomicBool,
    /// The next commit panics.
    pub panics: AtomicBool,
    /// The next commit fails and does nothing.
    pub fails_once: AtomicBool,
    /// Commits so far.
    pub commits: AtomicUsize,
    /// Runs whose stored state is damaged.
    pub damaged: Mutex<HashSet<RunKey>>,
    /// Runs whose history is gone.
    pub without_history: Mutex<HashSet<RunKey>>,
    /// Workflow ids that lead nowhere.
    pub lost: Mutex<HashSet<String>>,
}

impl Store for Gate {
    fn kind(&self) -> &'static str {
        self.memory.kind()
    }

    fn is_embedded(&self) -> bool {
        true
    }

    fn commit(&self, group: Vec<Commit>) -> Answer<Vec<Result<(), CommitError>>> {
        let one = |commit: Commit| {
            if self.fails_once.swap(false, Ordering::SeqCst) {
                return Err(CommitError::Unknown("it fails once".to_owned()));
            }
            if self.closed.load(Ordering::SeqCst) && !commit.outbox_remove.is_empty() {
                return Err(CommitError::Unknown("the gate is closed".to_owned()));
            }
            let done = self.memory.commit(vec![commit]).wait().remove(0);
            if self.silent.load(Ordering::SeqCst) {
                return Err(CommitError::Unknown("the store is silent".to_owned()));
            }
            done
        };
        while self.held.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(!self.panics.load(Ordering::SeqCst), "the store panics");
        self.commits.fetch_add(group.len(), Ordering::SeqCst);
        ready(group.into_iter().map(one).collect())
    }

    fn load(&self, key: RunKey) -> Read<Option<RunRecord>> {
        if self.damaged.lock().expect("no holder panics").contains(&key) {
            return ready(Err(ReadError::Damaged(format!("run {}", key.0))));
        }
        self.memory.load(key)
    }

    fn current_run(&self, namespace: NamespaceKey, workflow_id: &str) -> Read<Option<RunRecord>> {
        match self.current(namespace, workflow_id).wait() {
            Ok(Some(key)) => self.load(key),
            Ok(None) => ready(Ok(None)),
            Err(error) => ready(Err(error)),
        }
    }

    fn version(&self, key: RunKey) -> Read<Option<u64>> {
        self.memory.version(key)
    }

    fn script_state(&self, key: RunKey, slot: u8) -> Read<Option<bytes::Bytes>> {
        self.memory.script_state(key, slot)
    }

    fn document(&self, namespace: NamespaceKey, name: &str) -> Read<Option<bytes::Bytes>> {
        self.memory.document(namespace, name)
    }

    fn documents(
        &self,
        namespace: NamespaceKey,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Read<Vec<segno_store::Document>> {
        self.memory.documents(namespace, prefix, after, limit)
    }

    fn current(&self, namespace: NamespaceKey, workflow_id: &str) -> Read<Option<RunKey>> {
        if self.lost.lock().expect("no holder panics").contains(workflow_id) {
            return ready(Ok(None));
        }
        self.memory.current(namespace, workflow_id)
    }

    fn history(
        &self,
        key: RunKey,
        from: i64,
        until: i64,
        batches_max: usize,
        bytes_max: usize,
    ) -> Read<Vec<HistoryBatch>> {
        if self.without_history.lock().expect("no holder panics").contains(&key) {
            return ready(Ok(Vec::new()));
        }
        self.memory.history(key, from, until, batches_max, bytes_max)
    }

    fn history_reverse(&self, key: RunKey, until: i64, batches_max: usize) -> Read<Vec<HistoryBatch>> {
        self.memory.history_reverse(key, until, batches_max)
    }

    fn open_runs(&self, after: Option<RunKey>, limit: usize) -> Read<Vec<OpenRun>> {
        self.memory.open_runs(after, limit)
    }

    fn outbox(&self, after: Option<OutboxKey>, limit: usize) -> Read<Vec<OutboxRow>> {
        self.memory.outbox(after, limit)
    }

    fn reserve_run_keys(&self, count: u64) -> Write<RunKey> {
        self.memory.reserve_run_keys(count)
    }

    fn namespaces(&self) -> Read<Vec<NamespaceRecord>> {
        self.memory.namespaces()
    }

    fn put_namespace(&self, namespace: &NamespaceRecord) -> Write<()> {
        self.memory.put_namespace(namespace)
    }

    fn delete_namespace(&self, namespace: NamespaceKey) -> Write<()> {
        self.memory.delete_namespace(namespace)
    }

    fn unlisted_runs(&self, limit: usize) -> Read<Vec<RunKey>> {
        self.memory.unlisted_runs(limit)
    }

    fn facts(&self, key: RunKey) -> Read<Option<VisibilityRow>> {
        self.memory.facts(key)
    }

    fn runs_of_workflow(&self, namespace: NamespaceKey, workflow_id: &str, limit: usize) -> Read<Vec<RunKey>> {
        self.memory.runs_of_workflow(namespace, workflow_id, limit)
    }

    fn list_within(&self, query: &ListQuery, limit: &ReadLimit) -> Read<ListPage> {
        self.memory.list_within(query, limit)
    }

    fn count_within(
        &self,
        namespace: NamespaceKey,
        filter: &Filter,
        group_by: Option<Attribute>,
        limit: &ReadLimit,
    ) -> Read<Vec<Count>> {
        self.memory.count_within(namespace, filter, group_by, limit)
    }

    fn closed_runs(&self, namespace: NamespaceKey, closed_before: i64, limit: usize) -> Read<Vec<RunKey>> {
        self.memory.closed_runs(namespace, closed_before, limit)
    }

    fn first_close(&self, namespace: NamespaceKey) -> Read<Option<i64>> {
        self.memory.first_close(namespace)
    }

    fn runs_of(&self, namespace: NamespaceKey, after: Option<RunKey>, limit: usize) -> Read<Vec<RunKey>> {
        self.memory.runs_of(namespace, after, limit)
    }
}
