//! The [`Store`] contract on one local SQLite file.
//!
//! One connection writes; whatever the runtime gathered becomes one transaction and one sync. Reads have connections of
//! their own and never wait for the writer. A thread that sleeps until the write-ahead log has grown copies it back
//! into the file, off the writer's path. There is no clock, no polling and no cache above SQLite's own.
//!
//! What holds: a data directory has one user at a time (an operating system lock on `segno.lock`); states, events and
//! messages are read back only if they match the checksum they were stored with; after a failed write nothing is
//! trusted that the failed connection remembers; a clean stop leaves a single file and no log.

mod apply;
mod checkpoint;
mod checksum;
mod layout;
mod open;
mod read;
mod schema;
mod statements;
mod tail;
mod visibility;
mod write;
mod write_run;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rusqlite::Connection;
use segno_store::visibility::{Attribute, Count, Filter, ListPage, ListQuery, VisibilityRow};
use segno_store::{
    Commit, CommitError, HistoryBatch, NamespaceKey, NamespaceRecord, OpenRun, OutboxKey, OutboxRow, ReadError, RunKey,
    RunRecord, Store,
};

use checkpoint::Checkpointer;
pub use checkpoint::WalStatus;
pub use open::{DATABASE_FILE, LOCK_FILE, OpenError};
use read::Readers;
use write::Writer;

/// How to open the store. The default is durable.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// Whether a commit is on stable storage before it is reported as done. Without it a power cut may lose the last
    /// commits, though never parts of one; only for tests and throwaway servers, and the server must say so.
    pub durable: bool,
    /// How many pages (2 KiB each) the write-ahead log grows between checkpoints.
    pub checkpoint_pages: u32,
    /// The most pages the file may have; beyond that commits fail with [`CommitError::Full`].
    pub pages_max: Option<u32>,
}

impl Default for Options {
    fn default() -> Self {
        Self { durable: true, checkpoint_pages: 16_000, pages_max: None }
    }
}

/// The final checkpoint failed. Nothing is lost: the next start finishes it.
#[derive(Debug, thiserror::Error)]
#[error("the store in {path} was closed, but its log could not be folded in (the next start does it): {source}")]
pub struct CloseError {
    path: PathBuf,
    source: rusqlite::Error,
}

/// A [`Store`] in a data directory.
#[derive(Debug)]
pub struct SqliteStore {
    path: PathBuf,
    writer: Arc<Mutex<Writer>>,
    readers: Readers,
    checkpointer: Checkpointer,
    /// Held, not read: dropped last, it lets the next server in.
    _lock: File,
}

impl SqliteStore {
    /// Opens the store in a data directory, creating directory and file if absent, and bringing an older file up to
    /// date. Once this returns, nobody else can open the directory until this store is dropped.
    pub fn open(directory: &Path, options: Options) -> Result<Self, OpenError> {
        let opened = open::open(directory, &options)?;
        let status = Arc::default();
        let writer = Writer::new(opened.path.clone(), options.clone(), Arc::clone(&status), opened.connection);
        let writer = writer.map_err(|source| open::explain(&opened.path, source))?;
        let writer = Arc::new(Mutex::new(writer));
        let checkpointer = Checkpointer::start(opened.path.clone(), options, status, Arc::clone(&writer))
            .map_err(|source| OpenError::NoThread { source })?;
        let readers = Readers::new(opened.path.clone());
        Ok(Self { path: opened.path, writer, readers, checkpointer, _lock: opened.lock })
    }

    /// Closes the store and folds the log into the file. Dropping does the same but cannot say whether it worked.
    pub fn close(mut self) -> Result<(), CloseError> {
        let path = self.path.clone();
        self.shut_down().map_err(|source| CloseError { path, source })
    }

    /// How the write-ahead log is doing, for metrics and for a warning when checkpoints keep failing.
    pub fn wal_status(&self) -> WalStatus {
        self.checkpointer.status()
    }

    /// Changes [`Options::pages_max`] while running.
    pub fn set_pages_max(&self, pages_max: u32) -> Result<(), CommitError> {
        self.writer().set_pages_max(pages_max)
    }

    fn writer(&self) -> MutexGuard<'_, Writer> {
        // The writer rolls back what a panic left behind before it begins anything new.
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the tables of facts, as of a moment at which they have everything that was committed.
    fn read_listed<T>(&self, work: impl FnOnce(&Connection) -> Result<T, ReadError>) -> Result<T, ReadError> {
        self.readers.read(|connection| {
            let failed = |error| read::read_error("the lists", &error);
            // Dropping it ends it; there is nothing to roll back.
            let snapshot = connection.unchecked_transaction().map_err(failed)?;
            {
                // No commit comes between the two: what filters look at is as new as the states that are shown.
                let mut writer = self.writer();
                let listed = writer.list_queued();
                listed.map_err(|error| ReadError::Failed(format!("lists cannot be brought up to date: {error}")))?;
                // The first read decides what all others of the transaction see.
                snapshot.query_row("SELECT count(*) FROM namespaces", [], |_| Ok(())).map_err(failed)?;
            }
            work(connection)
        })
    }

    /// Readers go before the writer: the last connection to close removes the log, and a reader may not.
    fn shut_down(&mut self) -> Result<(), rusqlite::Error> {
        self.checkpointer.stop();
        self.readers.close();
        self.writer().close()
    }
}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        // After `close` there is nothing left to do. Otherwise nobody is left to tell, and the next open finishes it.
        drop(self.shut_down());
    }
}

impl Store for SqliteStore {
    fn kind(&self) -> &'static str {
        "sqlite"
    }

    fn commit(&self, group: &[Commit]) -> Vec<Result<(), CommitError>> {
        self.writer().commit(group)
    }

    fn load(&self, key: RunKey) -> Result<Option<RunRecord>, ReadError> {
        self.readers.read(|connection| read::load(connection, key))
    }

    fn current(&self, namespace: NamespaceKey, workflow_id: &str) -> Result<Option<RunKey>, ReadError> {
        self.readers.read(|connection| read::current(connection, namespace, workflow_id))
    }

    fn history(
        &self,
        key: RunKey,
        from: i64,
        until: i64,
        batches_max: usize,
        bytes_max: usize,
    ) -> Result<Vec<HistoryBatch>, ReadError> {
        self.readers.read(|connection| read::history(connection, key, from, until, batches_max, bytes_max))
    }

    fn history_reverse(&self, key: RunKey, until: i64, batches_max: usize) -> Result<Vec<HistoryBatch>, ReadError> {
        self.readers.read(|connection| read::history_reverse(connection, key, until, batches_max))
    }

    fn open_runs(&self, after: Option<RunKey>, limit: usize) -> Result<Vec<OpenRun>, ReadError> {
        self.readers.read(|connection| read::open_runs(connection, after, limit))
    }

    fn outbox(&self, after: Option<OutboxKey>, limit: usize) -> Result<Vec<OutboxRow>, ReadError> {
        self.readers.read(|connection| read::outbox(connection, after, limit))
    }

    fn reserve_run_keys(&self, count: u64) -> Result<RunKey, CommitError> {
        self.writer().reserve_run_keys(count)
    }

    fn namespaces(&self) -> Result<Vec<NamespaceRecord>, ReadError> {
        self.readers.read(read::namespaces)
    }

    fn put_namespace(&self, namespace: &NamespaceRecord) -> Result<(), CommitError> {
        self.writer().put_namespace(namespace)
    }

    fn delete_namespace(&self, namespace: NamespaceKey) -> Result<(), CommitError> {
        self.writer().delete_namespace(namespace)
    }

    fn unlisted_runs(&self, limit: usize) -> Result<Vec<RunKey>, ReadError> {
        self.read_listed(|connection| read::unlisted_runs(connection, limit))
    }

    fn facts(&self, key: RunKey) -> Result<Option<VisibilityRow>, ReadError> {
        self.read_listed(|connection| visibility::facts(connection, key))
    }

    fn runs_of_workflow(
        &self,
        namespace: NamespaceKey,
        workflow_id: &str,
        limit: usize,
    ) -> Result<Vec<RunKey>, ReadError> {
        self.read_listed(|connection| visibility::runs_of_workflow(connection, namespace, workflow_id, limit))
    }

    fn list(&self, query: &ListQuery) -> Result<ListPage, ReadError> {
        self.read_listed(|connection| visibility::list(connection, query))
    }

    fn count(
        &self,
        namespace: NamespaceKey,
        filter: &Filter,
        group_by: Option<Attribute>,
    ) -> Result<Vec<Count>, ReadError> {
        self.read_listed(|connection| visibility::count(connection, namespace, filter, group_by))
    }

    fn closed_runs(&self, namespace: NamespaceKey, closed_before: i64, limit: usize) -> Result<Vec<RunKey>, ReadError> {
        self.read_listed(|connection| read::closed_runs(connection, namespace, closed_before, limit))
    }

    fn first_close(&self, namespace: NamespaceKey) -> Result<Option<i64>, ReadError> {
        self.read_listed(|connection| read::first_close(connection, namespace))
    }

    fn runs_of(&self, namespace: NamespaceKey, after: Option<RunKey>, limit: usize) -> Result<Vec<RunKey>, ReadError> {
        self.read_listed(|connection| read::runs_of(connection, namespace, after, limit))
    }
}
