//! The types of the contract: the content of a commit, the results of reads, and their errors.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;

use crate::ReadLimit;
use crate::cluster::Membership;
use crate::visibility::{Attribute, Count, Filter, ListPage, ListQuery, VisibilityRow};

/// A run's number: handed out in order by the server, never reused, below 2^43.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunKey(pub u64);

/// A namespace's number: handed out in order, never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NamespaceKey(pub u32);

/// An outbox row's name: the sending run and a number that run never uses twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OutboxKey {
    /// The run that sends.
    pub sender: RunKey,
    /// Unique within the sender and below 2^20.
    pub sequence: u32,
}

/// A run as stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunRecord {
    /// The run's number.
    pub key: RunKey,
    /// Counts the commits of this run, from 1.
    pub version: u64,
    /// The run's encoded state.
    pub state: Bytes,
    /// Whether the run is still open.
    pub open: bool,
    /// When the run next wants to be woken, in nanoseconds since the epoch.
    pub wake_at: Option<i64>,
    /// Whether the run has a task that waits to be handed to a worker.
    pub dispatchable: bool,
}

/// The facts of an open run that a restart needs, without the run's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenRun {
    /// The run's number.
    pub key: RunKey,
    /// See [`RunRecord::wake_at`].
    pub wake_at: Option<i64>,
    /// See [`RunRecord::dispatchable`].
    pub dispatchable: bool,
}

/// Events written together, in the encoded form that goes over the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryBatch {
    /// Id of the first event; below 2^20.
    pub first_event_id: i64,
    /// Id of the last event.
    pub last_event_id: i64,
    /// The encoded events.
    pub events: Bytes,
}

/// A run's new state and the events that led to it.
#[derive(Clone, Debug, PartialEq)]
pub struct RunWrite {
    /// The run's number.
    pub key: RunKey,
    /// The version this write builds on; 0 creates the run. The stored version becomes one more.
    pub expected_version: u64,
    /// The encoded state.
    pub state: Bytes,
    /// See [`RunRecord::open`].
    pub open: bool,
    /// See [`RunRecord::wake_at`].
    pub wake_at: Option<i64>,
    /// See [`RunRecord::dispatchable`].
    pub dispatchable: bool,
    /// New history batches, in order.
    pub batches: Vec<HistoryBatch>,
    /// The searchable facts if they changed; always given for a new run.
    pub visibility: Option<Box<VisibilityRow>>,
}

/// Moves the pointer from a workflow id to its current run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CurrentWrite {
    /// The namespace.
    pub namespace: NamespaceKey,
    /// The user's name for the workflow.
    pub workflow_id: String,
    /// The run the pointer must name now; `None` if there must be no pointer.
    pub expected: Option<RunKey>,
    /// The run it names afterwards; `None` removes the pointer.
    pub current: Option<RunKey>,
}

/// Sets the pointer from a workflow id to its current run, without a look at the present pointer, which may be lost or
/// damaged. This is the way to repair a pointer; [`CurrentWrite`] is the one for everything else, because it notices
/// concurrent changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CurrentReset {
    /// The namespace.
    pub namespace: NamespaceKey,
    /// The user's name for the workflow.
    pub workflow_id: String,
    /// The run it names afterwards; `None` removes the pointer.
    pub current: Option<RunKey>,
}

/// A message on its way from one run to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutboxRow {
    /// The row's name.
    pub key: OutboxKey,
    /// The encoded message.
    pub message: Bytes,
}

/// A namespace as stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamespaceRecord {
    /// The namespace's number.
    pub key: NamespaceKey,
    /// Its unique name.
    pub name: String,
    /// Everything else, encoded.
    pub detail: Bytes,
}

/// A state of a script, stored apart from the state of its run because only turns of the script change it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptWrite {
    /// The run.
    pub run: RunKey,
    /// Which of the run's script states; below 4. The newest one is 0.
    pub slot: u8,
    /// The encoded state.
    pub state: Bytes,
}

/// Whole history batches of a run that are replaced by one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compaction {
    /// The run.
    pub run: RunKey,
    /// Stands for all batches that begin within it.
    pub batch: HistoryBatch,
}

/// The facts that the state of a run repeats from other rows. A store cannot read states; a check of all that is
/// stored is told what they mean.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateFacts {
    /// Its namespace.
    pub namespace: NamespaceKey,
    /// Its workflow id.
    pub workflow_id: String,
    /// Its id.
    pub run_id: String,
    /// Its status, as lists have it.
    pub status: i32,
    /// Whether its workflow id must lead to it.
    pub is_running: bool,
    /// The newest event of its history.
    pub last_event_id: i64,
}

/// A small value that is stored under a name: a deployed script, for example.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// The namespace it belongs to.
    pub namespace: NamespaceKey,
    /// Its name, unique in the namespace.
    pub name: String,
    /// Its content.
    pub content: Bytes,
}

/// Writes or removes a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentWrite {
    /// The namespace.
    pub namespace: NamespaceKey,
    /// The name.
    pub name: String,
    /// The new content; `None` removes. Removing an absent document is no error.
    pub content: Option<Bytes>,
}

/// One transition made durable: everything in it happens, or nothing does.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Commit {
    /// States and events of runs (usually one; two when a run is continued by another).
    pub runs: Vec<RunWrite>,
    /// States of scripts. They replace what is there.
    pub scripts: Vec<ScriptWrite>,
    /// Moves of current pointers.
    pub current: Vec<CurrentWrite>,
    /// Pointers to repair. They are set after those of `current` are moved.
    pub current_reset: Vec<CurrentReset>,
    /// Messages that start their way.
    pub outbox_add: Vec<OutboxRow>,
    /// Messages that arrived. Removing an absent row is no error.
    pub outbox_remove: Vec<OutboxKey>,
    /// Histories that become shorter, after what `runs` adds to them.
    pub compactions: Vec<Compaction>,
    /// Documents to write or remove.
    pub documents: Vec<DocumentWrite>,
    /// Only one node has these documents in memory: they do not count in the [revision](crate::cluster::Revisions) of those that
    /// all nodes have.
    pub documents_of_one_node: bool,
    /// Runs to delete: state, script states, history, searchable facts and outbox rows, readable or not. Deleting an absent run is no
    /// error. The current pointer is not touched; see [`CurrentWrite`] and [`CurrentReset`].
    pub delete_runs: Vec<RunKey>,
}

impl Commit {
    /// Bytes of history, state, messages and documents in it: what writes to the disk are weighed against.
    pub fn bytes(&self) -> usize {
        let events = |write: &RunWrite| write.batches.iter().map(|batch| batch.events.len()).sum::<usize>();
        let runs: usize = self.runs.iter().map(|write| write.state.len() + events(write)).sum();
        let scripts: usize = self.scripts.iter().map(|write| write.state.len()).sum();
        let document = |write: &DocumentWrite| write.content.as_ref().map_or(0, Bytes::len);
        let documents: usize = self.documents.iter().map(document).sum();
        runs + scripts + documents + self.outbox_add.iter().map(|row| row.message.len()).sum::<usize>()
    }
}

/// Why a commit did not happen, or may not have happened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommitError {
    /// The stored version or current pointer is not the expected one. Nothing was changed.
    #[error("the stored state is not the one this change was built on")]
    Conflict,
    /// There is no room left. Nothing was changed.
    #[error("the disk is full: free some space, the server goes on by itself")]
    Full,
    /// The store failed. Whether the commit happened is unknown: load again and look.
    #[error("the store failed, whether the change was made is unknown: {0}")]
    Unknown(String),
    /// It did not happen and never will: an unanswered commit was settled, or the database refused it.
    #[error("the change was not made: {0}")]
    NotDone(String),
    /// Nothing was done: this node lost its place, another one writes now.
    #[error("this node may not write any more, because another one took its place")]
    Fenced,
    /// The database is older than what it acknowledged: a failover lost commits.
    #[error("the database lost changes that it had acknowledged: {0}")]
    Lost(String),
}

/// Why a read gave nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The stored bytes do not match their checksum.
    #[error("stored data is damaged: {0}")]
    Damaged(String),
    /// The store failed; trying again may help.
    #[error("the store could not be read: {0}")]
    Failed(String),
    /// The read took longer than its [`ReadLimit`] allows.
    #[error("the read took too long")]
    DeadlineExceeded,
    /// The reader was dropped.
    #[error("the read was cancelled")]
    Cancelled,
}

/// The files of an embedded store, for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileSizes {
    /// Bytes of the database.
    pub database: u64,
    /// Bytes of the write-ahead log.
    pub log: u64,
    /// Checkpoints since the store was opened.
    pub checkpoints: u64,
    /// Those that failed.
    pub checkpoint_failures: u64,
}

/// An answer on its way. Any executor may poll it.
pub type Answer<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A read on its way.
pub type Read<T> = Answer<Result<T, ReadError>>;

/// A write on its way.
pub type Write<T> = Answer<Result<T, CommitError>>;

/// An answer that is known already.
pub fn ready<T: Send + 'static>(answer: T) -> Answer<T> {
    Box::pin(std::future::ready(answer))
}

/// A backend. Only [`Store::commit`] may block. Commits come one group at a time, reads at any time.
///
/// Writes begin at the call and are carried out even if their answers are dropped. A read begins at the call or when its answer
/// is polled first.
pub trait Store: Send + Sync + 'static {
    /// The name of the backend, as shown to users.
    fn kind(&self) -> &'static str;

    /// Whether the store is in this process: its commits are made by the thread that calls [`Store::commit`].
    fn is_embedded(&self) -> bool;

    /// The place among other nodes, if there can be others.
    fn membership(&self) -> Option<Arc<dyn Membership>> {
        None
    }

    /// The sizes of its files, if it has any.
    fn file_sizes(&self) -> Option<FileSizes> {
        None
    }

    /// Makes commits durable, as one group where possible, in order. Once it has answered, each commit whose result is
    /// `Ok` is on stable storage; one that failed does not keep the others from happening. It answers once the outcome of
    /// every commit is known or can never be known: a group whose answer was lost is settled first.
    ///
    /// An [embedded](Store::is_embedded) store blocks the caller until it has written and has the answer ready: the caller
    /// commits on a thread of its own, and no other thread is in between.
    fn commit(&self, group: Vec<Commit>) -> Answer<Vec<Result<(), CommitError>>>;

    /// The newest stored state of a run. Sees every commit that was answered before the call.
    fn load(&self, key: RunKey) -> Read<Option<RunRecord>>;

    /// The same for several runs, in the order of `keys`. A run that cannot be read does not hide the others.
    fn load_many(&self, keys: &[RunKey]) -> Answer<Vec<Result<Option<RunRecord>, ReadError>>> {
        let loads: Vec<_> = keys.iter().map(|key| self.load(*key)).collect();
        Box::pin(async move {
            let mut loaded = Vec::with_capacity(loads.len());
            for load in loads {
                loaded.push(load.await);
            }
            loaded
        })
    }

    /// The run that a workflow id names now, as [`Store::current`] and [`Store::load`] give it. A pointer to a run that is
    /// not there is taken for no pointer.
    fn current_run(&self, namespace: NamespaceKey, workflow_id: &str) -> Read<Option<RunRecord>>;

    /// The stored version of a run, also if its row does not match its checksum: a write that replaces what cannot be read
    /// builds on it.
    fn version(&self, key: RunKey) -> Read<Option<u64>>;

    /// A script state of a run, see [`ScriptWrite`].
    fn script_state(&self, key: RunKey, slot: u8) -> Read<Option<Bytes>>;

    /// A document.
    fn document(&self, namespace: NamespaceKey, name: &str) -> Read<Option<Bytes>>;

    /// Documents of a namespace whose names begin with `prefix`, in the order of their names, after the name `after`, at
    /// most `limit`.
    fn documents(
        &self,
        namespace: NamespaceKey,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Read<Vec<Document>>;

    /// The run that a workflow id names now. [`ReadError::Damaged`] if the pointer does not match its checksum; what it
    /// should be can be found with [`Store::runs_of_workflow`].
    fn current(&self, namespace: NamespaceKey, workflow_id: &str) -> Read<Option<RunKey>>;

    /// History batches of a run that contain events from `from` on and begin before `until`, in order, at most
    /// `batches_max` of them and stopping early once they exceed `bytes_max` (but at least one if there is any).
    fn history(
        &self,
        key: RunKey,
        from: i64,
        until: i64,
        batches_max: usize,
        bytes_max: usize,
    ) -> Read<Vec<HistoryBatch>>;

    /// Like [`Store::history`] but from the newest batch that begins before `until` backwards.
    fn history_reverse(&self, key: RunKey, until: i64, batches_max: usize) -> Read<Vec<HistoryBatch>>;

    /// Open runs in key order, after `after`, at most `limit`.
    fn open_runs(&self, after: Option<RunKey>, limit: usize) -> Read<Vec<OpenRun>>;

    /// Messages under way in key order, after `after`, at most `limit`.
    fn outbox(&self, after: Option<OutboxKey>, limit: usize) -> Read<Vec<OutboxRow>>;

    /// Sets aside `count` run keys that were never handed out before; returns the first. Durable before it is answered.
    fn reserve_run_keys(&self, count: u64) -> Write<RunKey>;

    /// All namespaces.
    fn namespaces(&self) -> Read<Vec<NamespaceRecord>>;

    /// Creates a namespace; durable once it is answered. Where several nodes share the storage, one whose key or name is
    /// taken conflicts.
    fn create_namespace(&self, namespace: &NamespaceRecord) -> Write<()> {
        self.put_namespace(namespace)
    }

    /// Creates or replaces a namespace by its key; durable once it is answered. A name used by another key conflicts.
    fn put_namespace(&self, namespace: &NamespaceRecord) -> Write<()>;

    /// Forgets a namespace by its key. Its runs must be gone; forgetting an absent one is no error.
    fn delete_namespace(&self, namespace: NamespaceKey) -> Write<()>;

    /// Runs whose searchable facts were never written, because they are older than the facts; at most `limit`.
    fn unlisted_runs(&self, limit: usize) -> Read<Vec<RunKey>>;

    /// The searchable facts of a run, which are stored apart from its state: what a damaged run was called.
    fn facts(&self, key: RunKey) -> Read<Option<VisibilityRow>>;

    /// Runs that have a workflow id, by their searchable facts, newest first, at most `limit`. Finds the runs of a
    /// workflow whose current pointer is lost or damaged.
    fn runs_of_workflow(&self, namespace: NamespaceKey, workflow_id: &str, limit: usize) -> Read<Vec<RunKey>>;

    /// A page of runs. Each is of one moment: what the filter saw is what is given back. A damaged run has its place in
    /// the page and an error instead of its state.
    ///
    /// Lists and counts may look at every run. They stop when their limit says so, and no other read or commit waits for
    /// them longer than for any other read.
    fn list_within(&self, query: &ListQuery, limit: &ReadLimit) -> Read<ListPage>;

    /// Counts runs, by the value of an attribute if one is given (runs without it are a group of their own), most
    /// numerous group first.
    fn count_within(
        &self,
        namespace: NamespaceKey,
        filter: &Filter,
        group_by: Option<Attribute>,
        limit: &ReadLimit,
    ) -> Read<Vec<Count>>;

    /// [`Store::list_within`] without a limit, for tests and tools.
    fn list(&self, query: &ListQuery) -> Read<ListPage> {
        self.list_within(query, &ReadLimit::none())
    }

    /// [`Store::count_within`] without a limit, for tests and tools.
    fn count(&self, namespace: NamespaceKey, filter: &Filter, group_by: Option<Attribute>) -> Read<Vec<Count>> {
        self.count_within(namespace, filter, group_by, &ReadLimit::none())
    }

    /// Closed runs of a namespace that closed before a moment, in the order in which they closed, at most `limit`.
    fn closed_runs(&self, namespace: NamespaceKey, closed_before: i64, limit: usize) -> Read<Vec<RunKey>>;

    /// When the first of a namespace's closed runs closed.
    fn first_close(&self, namespace: NamespaceKey) -> Read<Option<i64>>;

    /// Runs of a namespace in key order, after `after`, at most `limit`.
    fn runs_of(&self, namespace: NamespaceKey, after: Option<RunKey>, limit: usize) -> Read<Vec<RunKey>>;
}
