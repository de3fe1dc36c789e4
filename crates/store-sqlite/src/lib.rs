//! The [`Store`] contract on one local SQLite file.
//!
//! One connection writes, on the thread that commits; what is committed together becomes one transaction and one sync. Reads
//! have connections and threads of their own and never wait for the writer; only look-ups of current pointers are made on the
//! caller's thread. A thread that sleeps until the write-ahead log has grown copies it back
//! into the file, off the writer's path. There is no clock, no polling and no cache above SQLite's own, but for what
//! `visibility/pending.rs` remembers.
//!
//! What holds: a data directory has one user at a time (an operating system lock on `segno.lock`); states, events and
//! messages are read back only if they match the checksum they were stored with; after a failed write nothing is
//! trusted that the failed connection remembers; a clean stop leaves a single file and no log.

mod apply;
mod backup;
mod checkpoint;
mod checksum;
mod failures;
mod files;
mod open;
mod read;
mod recent_history;
mod schema;
mod statements;
mod verify;
mod visibility;
mod wal_check;
mod write;
mod write_run;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use rusqlite::Connection;
use segno_store::visibility::{Attribute, Count, Filter, ListPage, ListQuery, VisibilityRow};
use segno_store::{
    Answer, Commit, CommitError, Document, FileSizes, HistoryBatch, NamespaceKey, NamespaceRecord, OpenRun, OutboxKey,
    OutboxRow, Read, ReadError, ReadLimit, RunKey, RunRecord, Store, Threads, Write, ready,
};

pub use backup::{BackupError, CopySummary, Inspection, backup, compact, inspect, is_in_use, newest_schema, restore};
use checkpoint::Checkpointer;
pub use checkpoint::WalStatus;
pub use open::{DATABASE_FILE, LOCK_FILE, OpenError};
use read::Readers;
use segno_store::lock::lock;
pub use verify::ReadState;
use write::Writer;

/// A look-up takes microseconds; this many at once are as many as there are threads to make them on small machines.
const POINTER_READERS_MAX: usize = 4;
const LOAD_READERS_MAX: usize = 4;
const SCAN_READERS_MAX: usize = 2;
/// The runtime allows fewer lists at a time on most machines.
const LIST_READERS_MAX: usize = 8;

/// How to open the store. The default is durable.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// Whether a commit is on stable storage before it is reported as done. Without it a power cut may lose the last
    /// commits, though never parts of one; only for tests and throwaway servers, and the server must say so.
    pub durable: bool,
    /// How many pages (2 KiB each) the write-ahead log grows between checkpoints.
    pub checkpoint_pages: u32,
    /// Whether to go on with what can be read if the write-ahead log is damaged, instead of refusing to open: changes that
    /// were acknowledged are lost, see [`SqliteStore::discarded_log`].
    pub discard_damaged_log: bool,
    /// The most pages the file may have; beyond that commits fail with [`CommitError::Full`].
    pub pages_max: Option<u32>,
}

impl Default for Options {
    fn default() -> Self {
        Self { durable: true, checkpoint_pages: 16_000, discard_damaged_log: false, pages_max: None }
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
    /// Look-ups of current pointers, made on the caller's thread: most are for workflows that do not exist yet and touch one
    /// page that is in memory, which is quicker than handing them to another thread.
    pointers: Readers,
    /// Runs, histories, messages and namespaces.
    loads: Readers,
    /// Reads of the server's background work: retention, deletion of namespaces, repairs.
    scans: Readers,
    /// Lists and counts, which may look at every run.
    lists: Readers,
    /// Run keys and namespaces; commits are made by their caller.
    writes: Threads,
    checkpointer: Checkpointer,
    discarded_log: Option<String>,
    /// Held, not read: dropped last, it lets the next server in.
    _lock: File,
}

impl SqliteStore {
    /// Opens the store in a data directory, creating directory and file if absent, and bringing an older file up to
    /// date. Once this returns, no other process can open the directory until this store is dropped.
    pub fn open(directory: &Path, options: Options) -> Result<Self, OpenError> {
        let opened = open::open(directory, &options)?;
        let status = Arc::default();
        let writer = Writer::new(opened.path.clone(), options.clone(), Arc::clone(&status), opened.connection);
        let writer = writer.map_err(|source| open::explain(&opened.path, source))?;
        let writer = Arc::new(Mutex::new(writer));
        let checkpointer = Checkpointer::start(opened.path.clone(), options, status, Arc::clone(&writer))
            .map_err(|source| OpenError::NoThread { source })?;
        let readers = |connections_max| Readers::new(opened.path.clone(), connections_max);
        Ok(Self {
            pointers: readers(POINTER_READERS_MAX),
            loads: readers(LOAD_READERS_MAX),
            scans: readers(SCAN_READERS_MAX),
            lists: readers(LIST_READERS_MAX),
            writes: Threads::new("segno-writes", 1),
            path: opened.path,
            writer,
            checkpointer,
            discarded_log: opened.discarded,
            _lock: opened.lock,
        })
    }

    /// Closes the store and folds the log into the file. Dropping does the same but cannot say whether it worked.
    pub fn close(mut self) -> Result<(), CloseError> {
        let path = self.path.clone();
        self.shut_down().map_err(|source| CloseError { path, source })
    }

    /// The damage of the write-ahead log, if [`Options::discard_damaged_log`] let it pass.
    pub fn discarded_log(&self) -> Option<&str> {
        self.discarded_log.as_deref()
    }

    /// Whether the files are still where they were opened. If not, commits fail: they would be lost with the files.
    pub fn is_in_place(&self) -> bool {
        self.writer().is_in_place()
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
        lock(&self.writer)
    }

    fn find_current(&self, namespace: NamespaceKey, workflow_id: &str) -> Result<Option<RunKey>, ReadError> {
        self.pointers.read_inline(|connection| read::current(connection, namespace, workflow_id))
    }

    /// Writes on a thread of the store.
    fn write<T: Send + 'static>(
        &self,
        write: impl FnOnce(&mut Writer) -> Result<T, CommitError> + Send + 'static,
    ) -> Write<T> {
        let writer = self.writer.clone();
        // The writer rolls back what a panic left behind before it begins anything new.
        self.writes.write(move || write(&mut lock(&writer)))
    }

    /// Reads the tables of facts, as of a moment at which they have everything that was committed.
    fn read_listed<T: Send + 'static>(
        &self,
        readers: &Readers,
        limit: ReadLimit,
        work: impl FnOnce(&Connection) -> Result<T, ReadError> + Send + 'static,
    ) -> Read<T> {
        let writer = self.writer.clone();
        readers.read_within(limit, move |connection| {
            let failed = |error| read::read_error("the lists", &error);
            // Dropping it ends it; there is nothing to roll back.
            let snapshot = connection.unchecked_transaction().map_err(failed)?;
            {
                // No commit comes between the two: what filters look at is as new as the states that are shown.
                let mut writer = lock(&writer);
                let listed = writer.list_pending();
                listed.map_err(|error| ReadError::Failed(format!("lists cannot be brought up to date: {error}")))?;
                // The first read decides what all others of the transaction see.
                snapshot.query_row("SELECT count(*) FROM namespaces", [], |_| Ok(())).map_err(failed)?;
            }
            work(connection)
        })
    }

    fn scan<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, ReadError> + Send + 'static,
    ) -> Read<T> {
        self.read_listed(&self.scans, ReadLimit::none(), work)
    }

    /// Readers go before the writer: the last connection to close removes the log, and a reader may not.
    fn shut_down(&mut self) -> Result<(), rusqlite::Error> {
        self.checkpointer.stop();
        self.writes.stop();
        for readers in [&self.pointers, &self.loads, &self.scans, &self.lists] {
            readers.close();
        }
        self.writer().close()
    }
}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        // After `close` there is nothing left to do. Otherwise no caller is left to tell, and the next open finishes
        // it.
        drop(self.shut_down());
    }
}

impl Store for SqliteStore {
    fn kind(&self) -> &'static str {
        "sqlite"
    }

    fn file_sizes(&self) -> Option<FileSizes> {
        let length = |path: &Path| std::fs::metadata(path).map_or(0, |found| found.len());
        let status = self.wal_status();
        Some(FileSizes {
            database: length(&self.path),
            log: length(&self.path.with_extension("db-wal")),
            checkpoints: status.checkpoints,
            checkpoint_failures: status.failures,
        })
    }

    fn is_embedded(&self) -> bool {
        true
    }

    fn commit(&self, group: Vec<Commit>) -> Answer<Vec<Result<(), CommitError>>> {
        ready(self.writer().commit(&group))
    }

    fn load(&self, key: RunKey) -> Read<Option<RunRecord>> {
        self.loads.read(move |connection| read::load(connection, key))
    }

    fn load_many(&self, keys: &[RunKey]) -> Answer<Vec<Result<Option<RunRecord>, ReadError>>> {
        self.loads.read_each(keys, read::load)
    }

    fn current_run(&self, namespace: NamespaceKey, workflow_id: &str) -> Read<Option<RunRecord>> {
        match self.find_current(namespace, workflow_id) {
            Ok(Some(key)) => self.load(key),
            Ok(None) => ready(Ok(None)),
            Err(error) => ready(Err(error)),
        }
    }

    fn version(&self, key: RunKey) -> Read<Option<u64>> {
        self.loads.read(move |connection| read::version(connection, key))
    }

    fn current(&self, namespace: NamespaceKey, workflow_id: &str) -> Read<Option<RunKey>> {
        ready(self.find_current(namespace, workflow_id))
    }

    fn history(
        &self,
        key: RunKey,
        from: i64,
        until: i64,
        batches_max: usize,
        bytes_max: usize,
    ) -> Read<Vec<HistoryBatch>> {
        self.loads.read(move |connection| read::history(connection, key, from, until, batches_max, bytes_max))
    }

    fn script_state(&self, key: RunKey, slot: u8) -> Read<Option<Bytes>> {
        self.loads.read(move |connection| read::script_state(connection, key, slot))
    }

    fn document(&self, namespace: NamespaceKey, name: &str) -> Read<Option<Bytes>> {
        let name = name.to_owned();
        self.loads.read(move |connection| read::document(connection, namespace, &name))
    }

    fn documents(
        &self,
        namespace: NamespaceKey,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Read<Vec<Document>> {
        let (prefix, after) = (prefix.to_owned(), after.map(str::to_owned));
        self.loads.read(move |connection| read::documents(connection, namespace, &prefix, after.as_deref(), limit))
    }

    fn history_reverse(&self, key: RunKey, until: i64, batches_max: usize) -> Read<Vec<HistoryBatch>> {
        self.loads.read(move |connection| read::history_reverse(connection, key, until, batches_max))
    }

    fn open_runs(&self, after: Option<RunKey>, limit: usize) -> Read<Vec<OpenRun>> {
        self.loads.read(move |connection| read::open_runs(connection, after, limit))
    }

    fn outbox(&self, after: Option<OutboxKey>, limit: usize) -> Read<Vec<OutboxRow>> {
        self.loads.read(move |connection| read::outbox(connection, after, limit))
    }

    fn reserve_run_keys(&self, count: u64) -> Write<RunKey> {
        self.write(move |writer| writer.reserve_run_keys(count))
    }

    fn namespaces(&self) -> Read<Vec<NamespaceRecord>> {
        self.loads.read(read::namespaces)
    }

    fn put_namespace(&self, namespace: &NamespaceRecord) -> Write<()> {
        let namespace = namespace.clone();
        self.write(move |writer| writer.put_namespace(&namespace))
    }

    fn delete_namespace(&self, namespace: NamespaceKey) -> Write<()> {
        self.write(move |writer| writer.delete_namespace(namespace))
    }

    fn unlisted_runs(&self, limit: usize) -> Read<Vec<RunKey>> {
        self.scan(move |connection| read::unlisted_runs(connection, limit))
    }

    fn facts(&self, key: RunKey) -> Read<Option<VisibilityRow>> {
        self.read_listed(&self.loads, ReadLimit::none(), move |connection| visibility::facts(connection, key))
    }

    fn runs_of_workflow(&self, namespace: NamespaceKey, workflow_id: &str, limit: usize) -> Read<Vec<RunKey>> {
        let workflow_id = workflow_id.to_owned();
        let work =
            move |connection: &Connection| visibility::runs_of_workflow(connection, namespace, &workflow_id, limit);
        self.read_listed(&self.loads, ReadLimit::none(), work)
    }

    fn list_within(&self, query: &ListQuery, limit: &ReadLimit) -> Read<ListPage> {
        let query = query.clone();
        self.read_listed(&self.lists, limit.clone(), move |connection| visibility::list(connection, &query))
    }

    fn count_within(
        &self,
        namespace: NamespaceKey,
        filter: &Filter,
        group_by: Option<Attribute>,
        limit: &ReadLimit,
    ) -> Read<Vec<Count>> {
        let filter = filter.clone();
        let work = move |connection: &Connection| visibility::count(connection, namespace, &filter, group_by);
        self.read_listed(&self.lists, limit.clone(), work)
    }

    fn closed_runs(&self, namespace: NamespaceKey, closed_before: i64, limit: usize) -> Read<Vec<RunKey>> {
        self.scan(move |connection| read::closed_runs(connection, namespace, closed_before, limit))
    }

    fn first_close(&self, namespace: NamespaceKey) -> Read<Option<i64>> {
        self.scan(move |connection| read::first_close(connection, namespace))
    }

    fn runs_of(&self, namespace: NamespaceKey, after: Option<RunKey>, limit: usize) -> Read<Vec<RunKey>> {
        self.scan(move |connection| read::runs_of(connection, namespace, after, limit))
    }
}
