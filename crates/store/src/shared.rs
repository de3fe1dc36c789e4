//! A shared store is a store: the contract passed through an [`Arc`], so that wrappers such as the fault wrapper can
//! be put around `Arc<dyn Store>` as well as around a backend itself.

use std::sync::Arc;

use crate::{
    Commit, CommitError, HistoryBatch, NamespaceKey, NamespaceRecord, OpenRun, OutboxKey, OutboxRow, ReadError, RunKey,
    RunRecord, Store,
};

impl<S: Store + ?Sized> Store for Arc<S> {
    fn commit(&self, group: &[Commit]) -> Vec<Result<(), CommitError>> {
        (**self).commit(group)
    }

    fn load(&self, key: RunKey) -> Result<Option<RunRecord>, ReadError> {
        (**self).load(key)
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
}
