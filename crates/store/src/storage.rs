//! The contract for code that does not block: the same questions as [`Store`], answered by futures.
//!
//! A backend on another machine implements [`Storage`] itself. Embedded ones implement [`Store`], and the runtime puts an
//! adapter around them. [`Blocked`] is the way back: it makes a [`Store`] of a [`Storage`], for the kit and for code that
//! has a thread of its own.
//!
//! What holds: futures of a `Storage` may be polled by any executor; they do not need the caller's to be the backend's.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use bytes::Bytes;

use crate::cluster::Membership;
use crate::visibility::{Attribute, Count, Filter, ListPage, ListQuery, VisibilityRow};
use crate::{
    Commit, CommitError, Document, HistoryBatch, NamespaceKey, NamespaceRecord, OpenRun, OutboxKey, OutboxRow,
    ReadError, ReadLimit, RunKey, RunRecord, Store,
};

/// An answer on its way.
pub type Answer<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A read on its way.
pub type Read<T> = Answer<Result<T, ReadError>>;

/// Which of a node's writing connections makes a commit. Each makes one group at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Lane(pub usize);

/// What a backend does, without blocking. Each question means what the one of [`Store`] with its name means.
pub trait Storage: Send + Sync + 'static {
    /// See [`Store::kind`].
    fn kind(&self) -> &'static str;

    /// The embedded store behind this one, if commits are to be made on a thread of the caller's.
    fn embedded(&self) -> Option<Arc<dyn Store>>;

    /// The same storage for code on a thread where waiting does no harm.
    fn blocking(&self) -> Arc<dyn Store>;

    /// The place among other nodes, if there can be others.
    fn membership(&self) -> Option<Arc<dyn Membership>> {
        None
    }

    /// See [`Store::commit`]. The future ends once the outcome of every commit is known or cannot be known any more:
    /// a group whose answer was lost is settled first.
    fn commit(&self, lane: Lane, group: Vec<Commit>) -> Answer<Vec<Result<(), CommitError>>>;

    /// See [`Store::load`].
    fn load(&self, key: RunKey) -> Read<Option<RunRecord>>;

    /// See [`Store::load_many`].
    fn load_many(&self, keys: &[RunKey]) -> Answer<Vec<Result<Option<RunRecord>, ReadError>>>;

    /// See [`Store::version`].
    fn version(&self, key: RunKey) -> Read<Option<u64>>;

    /// See [`Store::current`].
    fn current(&self, namespace: NamespaceKey, workflow_id: &str) -> Read<Option<RunKey>>;

    /// See [`Store::current_run`].
    fn current_run(&self, namespace: NamespaceKey, workflow_id: &str) -> Read<Option<RunRecord>>;

    /// See [`Store::script_state`].
    fn script_state(&self, key: RunKey, slot: u8) -> Read<Option<Bytes>>;

    /// See [`Store::document`].
    fn document(&self, namespace: NamespaceKey, name: &str) -> Read<Option<Bytes>>;

    /// See [`Store::documents`].
    fn documents(
        &self,
        namespace: NamespaceKey,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Read<Vec<Document>>;

    /// See [`Store::history`].
    fn history(
        &self,
        key: RunKey,
        from: i64,
        until: i64,
        batches_max: usize,
        bytes_max: usize,
    ) -> Read<Vec<HistoryBatch>>;

    /// See [`Store::history_reverse`].
    fn history_reverse(&self, key: RunKey, until: i64, batches_max: usize) -> Read<Vec<HistoryBatch>>;

    /// See [`Store::open_runs`].
    fn open_runs(&self, after: Option<RunKey>, limit: usize) -> Read<Vec<OpenRun>>;

    /// See [`Store::outbox`].
    fn outbox(&self, after: Option<OutboxKey>, limit: usize) -> Read<Vec<OutboxRow>>;

    /// See [`Store::reserve_run_keys`].
    fn reserve_run_keys(&self, count: u64) -> Answer<Result<RunKey, CommitError>>;

    /// See [`Store::namespaces`].
    fn namespaces(&self) -> Read<Vec<NamespaceRecord>>;

    /// See [`Store::create_namespace`].
    fn create_namespace(&self, namespace: &NamespaceRecord) -> Answer<Result<(), CommitError>> {
        self.put_namespace(namespace)
    }

    /// See [`Store::put_namespace`].
    fn put_namespace(&self, namespace: &NamespaceRecord) -> Answer<Result<(), CommitError>>;

    /// See [`Store::delete_namespace`].
    fn delete_namespace(&self, namespace: NamespaceKey) -> Answer<Result<(), CommitError>>;

    /// See [`Store::unlisted_runs`].
    fn unlisted_runs(&self, limit: usize) -> Read<Vec<RunKey>>;

    /// See [`Store::facts`].
    fn facts(&self, key: RunKey) -> Read<Option<VisibilityRow>>;

    /// See [`Store::runs_of_workflow`].
    fn runs_of_workflow(&self, namespace: NamespaceKey, workflow_id: &str, limit: usize) -> Read<Vec<RunKey>>;

    /// See [`Store::list_within`].
    fn list_within(&self, query: &ListQuery, limit: &ReadLimit) -> Read<ListPage>;

    /// See [`Store::count_within`].
    fn count_within(
        &self,
        namespace: NamespaceKey,
        filter: &Filter,
        group_by: Option<Attribute>,
        limit: &ReadLimit,
    ) -> Read<Vec<Count>>;

    /// See [`Store::closed_runs`].
    fn closed_runs(&self, namespace: NamespaceKey, closed_before: i64, limit: usize) -> Read<Vec<RunKey>>;

    /// See [`Store::first_close`].
    fn first_close(&self, namespace: NamespaceKey) -> Read<Option<i64>>;

    /// See [`Store::runs_of`].
    fn runs_of(&self, namespace: NamespaceKey, after: Option<RunKey>, limit: usize) -> Read<Vec<RunKey>>;
}

/// A [`Storage`] as a [`Store`]: each call blocks its thread until the answer is there. Commits take the first lane.
#[derive(Debug)]
pub struct Blocked<S: ?Sized>(pub Arc<S>);

/// Blocks the thread until a future is ready.
pub fn wait<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(answer) => return answer,
            Poll::Pending => thread::park(),
        }
    }
}

impl<S: Storage + ?Sized> Store for Blocked<S> {
    fn kind(&self) -> &'static str {
        self.0.kind()
    }

    fn commit(&self, group: &[Commit]) -> Vec<Result<(), CommitError>> {
        wait(self.0.commit(Lane(0), group.to_vec()))
    }

    fn load(&self, key: RunKey) -> Result<Option<RunRecord>, ReadError> {
        wait(self.0.load(key))
    }

    fn version(&self, key: RunKey) -> Result<Option<u64>, ReadError> {
        wait(self.0.version(key))
    }

    fn load_many(&self, keys: &[RunKey]) -> Vec<Result<Option<RunRecord>, ReadError>> {
        wait(self.0.load_many(keys))
    }

    fn current_run(&self, namespace: NamespaceKey, workflow_id: &str) -> Result<Option<RunRecord>, ReadError> {
        wait(self.0.current_run(namespace, workflow_id))
    }

    fn script_state(&self, key: RunKey, slot: u8) -> Result<Option<Bytes>, ReadError> {
        wait(self.0.script_state(key, slot))
    }

    fn document(&self, namespace: NamespaceKey, name: &str) -> Result<Option<Bytes>, ReadError> {
        wait(self.0.document(namespace, name))
    }

    fn documents(
        &self,
        namespace: NamespaceKey,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Document>, ReadError> {
        wait(self.0.documents(namespace, prefix, after, limit))
    }

    fn current(&self, namespace: NamespaceKey, workflow_id: &str) -> Result<Option<RunKey>, ReadError> {
        wait(self.0.current(namespace, workflow_id))
    }

    fn history(
        &self,
        key: RunKey,
        from: i64,
        until: i64,
        batches_max: usize,
        bytes_max: usize,
    ) -> Result<Vec<HistoryBatch>, ReadError> {
        wait(self.0.history(key, from, until, batches_max, bytes_max))
    }

    fn history_reverse(&self, key: RunKey, until: i64, batches_max: usize) -> Result<Vec<HistoryBatch>, ReadError> {
        wait(self.0.history_reverse(key, until, batches_max))
    }

    fn open_runs(&self, after: Option<RunKey>, limit: usize) -> Result<Vec<OpenRun>, ReadError> {
        wait(self.0.open_runs(after, limit))
    }

    fn outbox(&self, after: Option<OutboxKey>, limit: usize) -> Result<Vec<OutboxRow>, ReadError> {
        wait(self.0.outbox(after, limit))
    }

    fn reserve_run_keys(&self, count: u64) -> Result<RunKey, CommitError> {
        wait(self.0.reserve_run_keys(count))
    }

    fn namespaces(&self) -> Result<Vec<NamespaceRecord>, ReadError> {
        wait(self.0.namespaces())
    }

    fn create_namespace(&self, namespace: &NamespaceRecord) -> Result<(), CommitError> {
        wait(self.0.create_namespace(namespace))
    }

    fn put_namespace(&self, namespace: &NamespaceRecord) -> Result<(), CommitError> {
        wait(self.0.put_namespace(namespace))
    }

    fn delete_namespace(&self, namespace: NamespaceKey) -> Result<(), CommitError> {
        wait(self.0.delete_namespace(namespace))
    }

    fn unlisted_runs(&self, limit: usize) -> Result<Vec<RunKey>, ReadError> {
        wait(self.0.unlisted_runs(limit))
    }

    fn facts(&self, key: RunKey) -> Result<Option<VisibilityRow>, ReadError> {
        wait(self.0.facts(key))
    }

    fn runs_of_workflow(
        &self,
        namespace: NamespaceKey,
        workflow_id: &str,
        limit: usize,
    ) -> Result<Vec<RunKey>, ReadError> {
        wait(self.0.runs_of_workflow(namespace, workflow_id, limit))
    }

    fn list_within(&self, query: &ListQuery, limit: &ReadLimit) -> Result<ListPage, ReadError> {
        wait(self.0.list_within(query, limit))
    }

    fn count_within(
        &self,
        namespace: NamespaceKey,
        filter: &Filter,
        group_by: Option<Attribute>,
        limit: &ReadLimit,
    ) -> Result<Vec<Count>, ReadError> {
        wait(self.0.count_within(namespace, filter, group_by, limit))
    }

    fn closed_runs(&self, namespace: NamespaceKey, closed_before: i64, limit: usize) -> Result<Vec<RunKey>, ReadError> {
        wait(self.0.closed_runs(namespace, closed_before, limit))
    }

    fn first_close(&self, namespace: NamespaceKey) -> Result<Option<i64>, ReadError> {
        wait(self.0.first_close(namespace))
    }

    fn runs_of(&self, namespace: NamespaceKey, after: Option<RunKey>, limit: usize) -> Result<Vec<RunKey>, ReadError> {
        wait(self.0.runs_of(namespace, after, limit))
    }
}
