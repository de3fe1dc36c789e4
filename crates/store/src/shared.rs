//! A shared store is a store: the contract passed through an [`Arc`], so that wrappers such as the fault wrapper can
//! be put around `Arc<dyn Store>` as well as around a backend itself.

use std::sync::Arc;

use bytes::Bytes;

use crate::visibility::{Attribute, Count, Filter, ListPage, ListQuery, VisibilityRow};
use crate::{
    Commit, CommitError, Document, FileSizes, HistoryBatch, NamespaceKey, NamespaceRecord, OpenRun, OutboxKey,
    OutboxRow, ReadError, ReadLimit, RunKey, RunRecord, Store,
};

impl<S: Store + ?Sized> Store for Arc<S> {
    fn file_sizes(&self) -> Option<FileSizes> {
        (**self).file_sizes()
    }

    fn kind(&self) -> &'static str {
        (**self).kind()
    }

    fn commit(&self, group: &[Commit]) -> Vec<Result<(), CommitError>> {
        (**self).commit(group)
    }

    fn load(&self, key: RunKey) -> Result<Option<RunRecord>, ReadError> {
        (**self).load(key)
    }

    fn load_many(&self, keys: &[RunKey]) -> Vec<Result<Option<RunRecord>, ReadError>> {
        (**self).load_many(keys)
    }

    fn current_run(&self, namespace: NamespaceKey, workflow_id: &str) -> Result<Option<RunRecord>, ReadError> {
        (**self).current_run(namespace, workflow_id)
    }

    fn version(&self, key: RunKey) -> Result<Option<u64>, ReadError> {
        (**self).version(key)
    }

    fn script_state(&self, key: RunKey, slot: u8) -> Result<Option<Bytes>, ReadError> {
        (**self).script_state(key, slot)
    }

    fn document(&self, namespace: NamespaceKey, name: &str) -> Result<Option<Bytes>, ReadError> {
        (**self).document(namespace, name)
    }

    fn documents(
        &self,
        namespace: NamespaceKey,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Document>, ReadError> {
        (**self).documents(namespace, prefix, after, limit)
    }

    fn current(&self, namespace: NamespaceKey, workflow_id: &str) -> Result<Option<RunKey>, ReadError> {
        (**self).current(namespace, workflow_id)
    }

    fn history(
        &self,
        key: RunKey,
        from: i64,
        until: i64,
        batches_max: usize,
        bytes_max: usize,
    ) -> Result<Vec<HistoryBatch>, ReadError> {
        (**self).history(key, from, until, batches_max, bytes_max)
    }

    fn history_reverse(&self, key: RunKey, until: i64, batches_max: usize) -> Result<Vec<HistoryBatch>, ReadError> {
        (**self).history_reverse(key, until, batches_max)
    }

    fn open_runs(&self, after: Option<RunKey>, limit: usize) -> Result<Vec<OpenRun>, ReadError> {
        (**self).open_runs(after, limit)
    }

    fn outbox(&self, after: Option<OutboxKey>, limit: usize) -> Result<Vec<OutboxRow>, ReadError> {
        (**self).outbox(after, limit)
    }

    fn reserve_run_keys(&self, count: u64) -> Result<RunKey, CommitError> {
        (**self).reserve_run_keys(count)
    }

    fn namespaces(&self) -> Result<Vec<NamespaceRecord>, ReadError> {
        (**self).namespaces()
    }

    fn put_namespace(&self, namespace: &NamespaceRecord) -> Result<(), CommitError> {
        (**self).put_namespace(namespace)
    }

    fn delete_namespace(&self, namespace: NamespaceKey) -> Result<(), CommitError> {
        (**self).delete_namespace(namespace)
    }

    fn unlisted_runs(&self, limit: usize) -> Result<Vec<RunKey>, ReadError> {
        (**self).unlisted_runs(limit)
    }

    fn facts(&self, key: RunKey) -> Result<Option<VisibilityRow>, ReadError> {
        (**self).facts(key)
    }

    fn runs_of_workflow(
        &self,
        namespace: NamespaceKey,
        workflow_id: &str,
        limit: usize,
    ) -> Result<Vec<RunKey>, ReadError> {
        (**self).runs_of_workflow(namespace, workflow_id, limit)
    }

    fn list_within(&self, query: &ListQuery, limit: &ReadLimit) -> Result<ListPage, ReadError> {
        (**self).list_within(query, limit)
    }

    fn count_within(
        &self,
        namespace: NamespaceKey,
        filter: &Filter,
        group_by: Option<Attribute>,
        limit: &ReadLimit,
    ) -> Result<Vec<Count>, ReadError> {
        (**self).count_within(namespace, filter, group_by, limit)
    }

    fn closed_runs(&self, namespace: NamespaceKey, closed_before: i64, limit: usize) -> Result<Vec<RunKey>, ReadError> {
        (**self).closed_runs(namespace, closed_before, limit)
    }

    fn first_close(&self, namespace: NamespaceKey) -> Result<Option<i64>, ReadError> {
        (**self).first_close(namespace)
    }

    fn runs_of(&self, namespace: NamespaceKey, after: Option<RunKey>, limit: usize) -> Result<Vec<RunKey>, ReadError> {
        (**self).runs_of(namespace, after, limit)
    }
}
