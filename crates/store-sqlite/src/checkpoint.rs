//! Checkpoints: copies the write-ahead log into the database on a thread of its own.
//!
//! The thread sleeps until the writer reports that the log has grown by enough; an idle server does not wake it. It
//! copies while the writer goes on. The log restarts only once all of it has been copied, which never happens under a
//! busy writer: past twice the usual length the thread therefore blocks the writer for the last few pages.
//!
//! What holds: the log stays below a few times `checkpoint_pages`, unless the disk is full or a checkpoint fails; that
//! is counted, retried after further growth, and only lets the log grow.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rusqlite::Connection;

use crate::write::Writer;
use crate::{Options, open};
use segno_store::lock::lock;

/// So few pages may be left when the writer is made to wait: a few milliseconds.
const LAST_PAGES: u32 = 256;

/// How long to wait for readers to leave the log before it can be begun anew.
const READERS_WAIT: Duration = Duration::from_millis(50);

/// Rounds of copying beside the writer, each shorter than the one before.
const ROUNDS_MAX: u32 = 4;

/// How the write-ahead log is doing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WalStatus {
    /// Pages in the log after the latest commit.
    pub pages: u32,
    /// Checkpoints made since the store was opened.
    pub checkpoints: u64,
    /// Checkpoints that failed.
    pub failures: u64,
    /// Why the latest one failed, if it did.
    pub latest_failure: Option<String>,
}

/// The state that the writer and the checkpoint thread share.
#[derive(Debug, Default)]
pub(crate) struct Signal {
    inner: Mutex<Inner>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Inner {
    status: WalStatus,
    /// The log's length when a checkpoint was last asked for.
    asked_at: u32,
    wanted: bool,
    stop: bool,
}

impl Signal {
    /// The writer committed and the log now has `pages`.
    pub(crate) fn log_grew(&self, pages: u32, checkpoint_pages: u32) {
        let mut inner = self.lock();
        inner.status.pages = pages;
        if pages < inner.asked_at {
            // It was begun anew.
            inner.asked_at = 0;
        }
        if pages - inner.asked_at >= checkpoint_pages {
            inner.asked_at = pages;
            inner.wanted = true;
            self.changed.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        lock(&self.inner)
    }

    fn pages(&self) -> u32 {
        self.lock().status.pages
    }

    /// Sleeps until there is work; `false` to stop.
    fn wait(&self) -> bool {
        let idle = |inner: &mut Inner| !inner.wanted && !inner.stop;
        let mut inner = self.changed.wait_while(self.lock(), idle).unwrap_or_else(PoisonError::into_inner);
        inner.wanted = false;
        !inner.stop
    }

    fn finished(&self, outcome: Result<(), String>) {
        let mut inner = self.lock();
        inner.status.checkpoints += 1;
        inner.status.failures += u64::from(outcome.is_err());
        inner.status.latest_failure = outcome.err();
    }
}

/// The thread.
#[derive(Debug)]
pub(crate) struct Checkpointer {
    signal: Arc<Signal>,
    thread: Option<JoinHandle<()>>,
}

impl Checkpointer {
    pub(crate) fn start(
        path: PathBuf,
        options: Options,
        signal: Arc<Signal>,
        writer: Arc<Mutex<Writer>>,
    ) -> io::Result<Self> {
        let its_signal = Arc::clone(&signal);
        let thread = thread::Builder::new()
            .name("checkpoint".to_owned())
            .spawn(move || run(&path, &options, &its_signal, &writer))?;
        Ok(Self { signal, thread: Some(thread) })
    }

    pub(crate) fn status(&self) -> WalStatus {
        self.signal.lock().status.clone()
    }

    /// Lets a checkpoint under way finish, then ends the thread.
    pub(crate) fn stop(&mut self) {
        self.signal.lock().stop = true;
        self.signal.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            // It only ends with an error if it panicked, which has been reported.
            drop(thread.join());
        }
    }
}

fn run(path: &Path, options: &Options, signal: &Signal, writer: &Mutex<Writer>) {
    // Opened when first needed: a server that writes little never has it.
    let mut connection = None;
    while signal.wait() {
        let outcome = match connection.take().map_or_else(|| connect(path, options), Ok) {
            Ok(opened) => checkpoint(&opened, options, signal, writer)
                .map(|()| connection = Some(opened))
                .map_err(|error| error.to_string()),
            Err(error) => Err(error),
        };
        signal.finished(outcome);
    }
}

fn connect(path: &Path, options: &Options) -> Result<Connection, String> {
    let connection = open::raw_connection(path).map_err(|error| error.to_string())?;
    open::configure(path, &connection, options).map_err(|error| error.to_string())?;
    // While it waits for a slow reader it holds the writer back: rather try again later.
    connection.busy_timeout(READERS_WAIT).map_err(|error| error.to_string())?;
    // Pages go straight from the log to the file.
    connection.pragma_update(None, "cache_size", 16).map_err(|error| error.to_string())?;
    Ok(connection)
}

fn checkpoint(
    connection: &Connection,
    options: &Options,
    signal: &Signal,
    writer: &Mutex<Writer>,
) -> rusqlite::Result<()> {
    for _ in 0..ROUNDS_MAX {
        // Negative if the log's index was just being written: nothing was copied, and the next round does it.
        let copied: i64 = connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| row.get(2))?;
        let copied = u32::try_from(copied).unwrap_or_default();
        if signal.pages().saturating_sub(copied) <= LAST_PAGES {
            break;
        }
    }
    if signal.pages() > options.checkpoint_pages.saturating_mul(2) {
        let _held_back = lock(writer);
        connection.query_row("PRAGMA wal_checkpoint(RESTART)", [], |_| Ok(()))?;
    }
    Ok(())
}
