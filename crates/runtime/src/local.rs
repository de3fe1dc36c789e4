//! An embedded store as a [`Storage`].
//!
//! It does what a store in the same process is best asked by: `current` inline, because most look-ups are for workflows that
//! do not exist yet and touch one page that is in memory; everything else on a thread where waiting does no harm; commits
//! on the writer thread of the [committer](crate::committer).

use std::sync::Arc;

use bytes::Bytes;
use segno_store::{
    Answer, Commit, CommitError, Document, HistoryBatch, Lane, NamespaceKey, NamespaceRecord, OpenRun, OutboxKey,
    OutboxRow, Read, ReadError, ReadLimit, RunKey, RunRecord, Storage, Store,
    visibility::{Attribute, Count, Filter, ListPage, ListQuery, VisibilityRow},
};

/// See the module.
pub struct Local(Arc<dyn Store>);

impl Local {
    /// Puts the adapter around a store.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self(store)
    }

    fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&dyn Store) -> Result<T, ReadError> + Send + 'static,
    ) -> Read<T> {
        let store = self.0.clone();
        Box::pin(async move {
            let done = tokio::task::spawn_blocking(move || read(&*store)).await;
            done.unwrap_or_else(|error| Err(ReadError::Failed(error.to_string())))
        })
    }

    fn write<T: Send + 'static>(
        &self,
        write: impl FnOnce(&dyn Store) -> Result<T, CommitError> + Send + 'static,
    ) -> Answer<Result<T, CommitError>> {
        let store = self.0.clone();
        Box::pin(async move {
            let done = tokio::task::spawn_blocking(move || write(&*store)).await;
            done.unwrap_or_else(|error| Err(CommitError::Unknown(error.to_string())))
        })
    }
}

impl Storage for Local {
    fn kind(&self) -> &'static str {
        self.0.kind()
    }

    fn embedded(&self) -> Option<Arc<dyn Store>> {
        Some(self.0.clone())
    }

    fn blocking(&self) -> Arc<dyn Store> {
        self.0.clone()
    }

    fn commit(&self, _lane: Lane, group: Vec<Commit>) -> Answer<Vec<Result<(), CommitError>>> {
        let (store, length) = (self.0.clone(), group.len());
        Box::pin(async move {
            let done = tokio::task::spawn_blocking(move || store.commit(&group)).await;
            done.unwrap_or_else(|error| vec![Err(CommitError::Unknown(error.to_string())); length])
        })
    }

    fn load(&self, key: RunKey) -> Read<Option<RunRecord>> {
        self.read(move |store| store.load(key))
    }

    fn load_many(&self, keys: &[RunKey]) -> Answer<Vec<Result<Option<RunRecord>, ReadError>>> {
        let (keys, length) = (keys.to_vec(), keys.len());
        let answer = self.read(move |store| Ok(store.load_many(&keys)));
        Box::pin(async move { answer.await.unwrap_or_else(|error| vec![Err(error); length]) })
    }

    fn version(&self, key: RunKey) -> Read<Option<u64>> {
        self.read(move |store| store.version(key))
    }

    fn current(&self, namespace: NamespaceKey, workflow_id: &str) -> Read<Option<RunKey>> {
        let found = self.0.current(namespace, workflow_id);
        Box::pin(std::future::ready(found))
    }

    fn current_run(&self, namespace: NamespaceKey, workflow_id: &str) -> Read<Option<RunRecord>> {
        match self.0.current(namespace, workflow_id) {
            Ok(Some(key)) => self.load(key),
            Ok(None) => Box::pin(std::future::ready(Ok(None))),
            Err(error) => Box::pin(std::future::ready(Err(error))),
        }
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

    fn reserve_run_keys(&self, count: u64) -> Answer<Result<RunKey, CommitError>> {
        self.write(move |store| store.reserve_run_keys(count))
    }

    fn namespaces(&self) -> Read<Vec<NamespaceRecord>> {
        self.read(|store| store.namespaces())
    }

    fn put_namespace(&self, namespace: &NamespaceRecord) -> Answer<Result<(), CommitError>> {
        let namespace = namespace.clone();
        self.write(move |store| store.put_namespace(&namespace))
    }

    fn delete_namespace(&self, namespace: NamespaceKey) -> Answer<Result<(), CommitError>> {
        self.write(move |store| store.delete_namespace(namespace))
    }

    fn unlisted_runs(&self, limit: usize) -> Read<Vec<RunKey>> {
        self.read(move |store| store.unlisted_runs(limit))
    }

    fn facts(&self, key: RunKey) -> Read<Option<VisibilityRow>> {
        self.read(move |store| store.facts(key))
    }

    fn runs_of_workflow(&self, namespace: NamespaceKey, workflow_id: &str, limit: usize) -> Read<Vec<RunKey>> {
        let workflow_id = workflow_id.to_owned();
        self.read(move |store| store.runs_of_workflow(namespace, &workflow_id, limit))
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
