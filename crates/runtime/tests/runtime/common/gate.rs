//! A store whose gate can be closed for reports: commits that take a message off the outbox are not done while it is.
//! It can also be silent: commits are done, and nobody hears of it. Commits can be held back or panic, and runs can be
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
    Commit, CommitError, HistoryBatch, MemoryStore, NamespaceKey, NamespaceRecord, OpenRun, OutboxKey, OutboxRow,
    ReadError, ReadLimit, RunKey, RunRecord, Store,
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

    fn commit(&self, group: &[Commit]) -> Vec<Result<(), CommitError>> {
        let one = |commit: &Commit| {
            if self.fails_once.swap(false, Ordering::SeqCst) {
                return Err(CommitError::Unknown("it fails once".to_owned()));
            }
            if self.closed.load(Ordering::SeqCst) && !commit.outbox_remove.is_empty() {
                return Err(CommitError::Unknown("the gate is closed".to_owned()));
            }
            let done = self.memory.commit(std::slice::from_ref(commit)).remove(0);
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
        group.iter().map(one).collect()
    }

    fn load(&self, key: RunKey) -> Result<Option<RunRecord>, ReadError> {
        if self.damaged.lock().expect("nobody panics here").contains(&key) {
            return Err(ReadError::Damaged(format!("run {}", key.0)));
        }
        self.memory.load(key)
    }

    fn version(&self, key: RunKey) -> Result<Option<u64>, ReadError> {
        self.memory.version(key)
    }

    fn script_state(&self, key: RunKey, slot: u8) -> Result<Option<bytes::Bytes>, ReadError> {
        self.memory.script_state(key, slot)
    }

    fn document(&self, namespace: NamespaceKey, name: &str) -> Result<Option<bytes::Bytes>, ReadError> {
        self.memory.document(namespace, name)
    }

    fn documents(
        &self,
        namespace: NamespaceKey,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<segno_store::Document>, ReadError> {
        self.memory.documents(namespace, prefix, after, limit)
    }

    fn current(&self, namespace: NamespaceKey, workflow_id: &str) -> Result<Option<RunKey>, ReadError> {
        if self.lost.lock().expect("nobody panics here").contains(workflow_id) {
            return Ok(None);
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
    ) -> Result<Vec<HistoryBatch>, ReadError> {
        if self.without_history.lock().expect("nobody panics here").contains(&key) {
            return Ok(Vec::new());
        }
        self.memory.history(key, from, until, batches_max, bytes_max)
    }

    fn history_reverse(&self, key: RunKey, until: i64, batches_max: usize) -> Result<Vec<HistoryBatch>, ReadError> {
        self.memory.history_reverse(key, until, batches_max)
    }

    fn open_runs(&self, after: Option<RunKey>, limit: usize) -> Result<Vec<OpenRun>, ReadError> {
        self.memory.open_runs(after, limit)
    }

    fn outbox(&self, after: Option<OutboxKey>, limit: usize) -> Result<Vec<OutboxRow>, ReadError> {
        self.memory.outbox(after, limit)
    }

    fn reserve_run_keys(&self, count: u64) -> Result<RunKey, CommitError> {
        self.memory.reserve_run_keys(count)
    }

    fn namespaces(&self) -> Result<Vec<NamespaceRecord>, ReadError> {
        self.memory.namespaces()
    }

    fn put_namespace(&self, namespace: &NamespaceRecord) -> Result<(), CommitError> {
        self.memory.put_namespace(namespace)
    }

    fn delete_namespace(&self, namespace: NamespaceKey) -> Result<(), CommitError> {
        self.memory.delete_namespace(namespace)
    }

    fn unlisted_runs(&self, limit: usize) -> Result<Vec<RunKey>, ReadError> {
        self.memory.unlisted_runs(limit)
    }

    fn facts(&self, key: RunKey) -> Result<Option<VisibilityRow>, ReadError> {
        self.memory.facts(key)
    }

    fn runs_of_workflow(
        &self,
        namespace: NamespaceKey,
        workflow_id: &str,
        limit: usize,
    ) -> Result<Vec<RunKey>, ReadError> {
        self.memory.runs_of_workflow(namespace, workflow_id, limit)
    }

    fn list_within(&self, query: &ListQuery, limit: &ReadLimit) -> Result<ListPage, ReadError> {
        self.memory.list_within(query, limit)
    }

    fn count_within(
        &self,
        namespace: NamespaceKey,
        filter: &Filter,
        group_by: Option<Attribute>,
        limit: &ReadLimit,
    ) -> Result<Vec<Count>, ReadError> {
        self.memory.count_within(namespace, filter, group_by, limit)
    }

    fn closed_runs(&self, namespace: NamespaceKey, closed_before: i64, limit: usize) -> Result<Vec<RunKey>, ReadError> {
        self.memory.closed_runs(namespace, closed_before, limit)
    }

    fn first_close(&self, namespace: NamespaceKey) -> Result<Option<i64>, ReadError> {
        self.memory.first_close(namespace)
    }

    fn runs_of(&self, namespace: NamespaceKey, after: Option<RunKey>, limit: usize) -> Result<Vec<RunKey>, ReadError> {
        self.memory.runs_of(namespace, after, limit)
    }
}
