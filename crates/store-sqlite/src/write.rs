//! The one connection that writes.
//!
//! A group of commits is one transaction. It is first tried without savepoints, since conflicts are rare: only if one
//! turns up is everything rolled back and repeated with a savepoint around each commit.
//!
//! What holds: after `Conflict` or `Full` nothing was changed; after a failure whose outcome is unknown the connection
//! and its caches are dropped, and the next write begins with a new one that reads the file.

use std::path::PathBuf;
use std::sync::Arc;

use rusqlite::{Connection, ErrorCode, params};
use segno_store::{Commit, CommitError, NamespaceKey, NamespaceRecord, RunKey, limits};

use crate::apply::Work;
use crate::checkpoint::Signal;
use crate::failures::Failures;
use crate::files::Files;
use crate::visibility::pending::PendingFacts;
use crate::{Options, open};

/// Statements kept prepared; more than there are.
const STATEMENTS_CACHED: usize = 48;

/// See the module.
#[derive(Debug)]
pub(crate) struct Writer {
    path: PathBuf,
    options: Options,
    signal: Arc<Signal>,
    /// Absent after a failure and after closing.
    live: Option<Live>,
    closed: bool,
    files: Files,
    failures: Failures,
}

/// The connection, and what is known of the file because no other connection writes to it.
#[derive(Debug)]
struct Live {
    connection: Connection,
    pending: PendingFacts,
}

/// Why a write inside a transaction did not go through.
pub(crate) enum Refusal {
    Conflict,
    /// The stored row cannot be read.
    Damaged,
    Sqlite(rusqlite::Error),
}

impl From<rusqlite::Error> for Refusal {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl Writer {
    pub(crate) fn new(
        path: PathBuf,
        options: Options,
        signal: Arc<Signal>,
        connection: Connection,
    ) -> rusqlite::Result<Self> {
        let live = Live::new(connection, &signal, options.checkpoint_pages)?;
        let (files, failures) = (Files::of(&path), Failures::default());
        Ok(Self { path, options, signal, live: Some(live), closed: false, files, failures })
    }

    pub(crate) fn commit(&mut self, group: &[Commit]) -> Vec<Result<(), CommitError>> {
        let mut outcomes: Vec<_> = group.iter().map(limits::check_commit).collect();
        if outcomes.iter().all(Result::is_err) {
            return outcomes;
        }
        let before = outcomes.clone();
        let done = self.write(|work| {
            for (commit, _) in group.iter().zip(&outcomes).filter(|(_, outcome)| outcome.is_ok()) {
                work.apply(commit)?;
            }
            Ok(())
        });
        let done = match done {
            Err(CommitError::Conflict) => self.write(|work| {
                for (commit, outcome) in group.iter().zip(&mut outcomes).filter(|(_, outcome)| outcome.is_ok()) {
                    match work.apply_or_undo(commit) {
                        Err(Refusal::Conflict) => *outcome = Err(CommitError::Conflict),
                        applied => applied?,
                    }
                }
                Ok(())
            }),
            done => done,
        };
        if let Err(error) = done {
            // Conflicts found in a transaction that did not happen mean nothing.
            outcomes = before;
            fail_undecided(&mut outcomes, &error);
        }
        outcomes
    }

    pub(crate) fn reserve_run_keys(&mut self, count: u64) -> Result<RunKey, CommitError> {
        let mut reserved = Err(CommitError::Conflict);
        self.write(|work| {
            let read = "SELECT value FROM meta WHERE key = 'next_run_key'";
            let next: u64 = work.statements.get(read)?.query_row([], |row| row.get(0))?;
            reserved = limits::reserve(next, count);
            if let Ok((_, end)) = reserved {
                let write = "UPDATE meta SET value = ?1 WHERE key = 'next_run_key'";
                work.statements.get(write)?.execute([end])?;
            }
            Ok(())
        })?;
        reserved.map(|(first, _)| first)
    }

    pub(crate) fn put_namespace(&mut self, namespace: &NamespaceRecord) -> Result<(), CommitError> {
        limits::check_value(namespace.detail.len())?;
        self.write(|work| {
            let find = "SELECT 1 FROM namespaces WHERE name = ?1 AND namespace <> ?2";
            let find = work.statements.get(find)?;
            if find.exists(params![namespace.name, namespace.key.0])? {
                return Err(Refusal::Conflict);
            }
            let write = "INSERT INTO namespaces (namespace, name, detail) VALUES (?1, ?2, ?3) \
                         ON CONFLICT (namespace) DO UPDATE SET name = excluded.name, detail = excluded.detail";
            let write = work.statements.get(write)?;
            write.execute(params![namespace.key.0, namespace.name, &namespace.detail[..]])?;
            Ok(())
        })
    }

    pub(crate) fn delete_namespace(&mut self, namespace: NamespaceKey) -> Result<(), CommitError> {
        self.write(|work| {
            work.statements.get("DELETE FROM namespaces WHERE namespace = ?1")?.execute([namespace.0])?;
            work.statements.get("DELETE FROM status_counts WHERE namespace = ?1")?.execute([namespace.0])?;
            Ok(())
        })
    }

    /// Brings the tables that lists read up to date.
    pub(crate) fn list_pending(&mut self) -> Result<(), CommitError> {
        if self.live.as_ref().is_some_and(|live| live.pending.is_empty()) {
            return Ok(());
        }
        self.write(|work| Ok(work.list_pending()?))
    }

    pub(crate) fn set_pages_max(&mut self, pages_max: u32) -> Result<(), CommitError> {
        self.options.pages_max = Some(pages_max);
        let connection = &self.live().map_err(unknown)?.connection;
        connection.pragma_update(None, "max_page_count", pages_max).map_err(unknown)
    }

    /// Folds the log into the file and closes. Later writes fail.
    pub(crate) fn close(&mut self) -> rusqlite::Result<()> {
        self.closed = true;
        let Some(Live { connection, .. }) = self.live.take() else { return Ok(()) };
        let folded = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        connection.flush_prepared_statement_cache();
        folded.and(connection.close().map_err(|(_, error)| error))
    }

    /// Forgets the connection, as after a failure.
    #[cfg(test)]
    pub(crate) fn lose_connection(&mut self) {
        self.live = None;
    }

    /// Whether the files are where they were opened.
    pub(crate) fn is_in_place(&mut self) -> bool {
        self.files.are_in_place()
    }

    /// One transaction around `work`, durable once this returns `Ok`.
    fn write(&mut self, work: impl FnOnce(&mut Work<'_>) -> Result<(), Refusal>) -> Result<(), CommitError> {
        let written = self.try_write(work);
        self.failures.note(&self.path, &written);
        written
    }

    fn try_write(&mut self, work: impl FnOnce(&mut Work<'_>) -> Result<(), Refusal>) -> Result<(), CommitError> {
        let Live { connection, pending } = self.live().map_err(unknown)?;
        pending.begin();
        let refusal = match transaction(connection, pending, work) {
            Ok(()) => {
                pending.committed();
                // What was synced into a file without a name is lost with the process.
                return if self.files.are_in_place() { Ok(()) } else { Err(self.give_up(self.displaced())) };
            }
            Err(refusal) => refusal,
        };
        // Some errors have rolled back already.
        let rolled_back = connection.is_autocommit() || connection.execute_batch("ROLLBACK").is_ok();
        match refusal {
            Refusal::Conflict if rolled_back => Err(CommitError::Conflict),
            Refusal::Sqlite(error) if rolled_back && error.sqlite_error_code() == Some(ErrorCode::DiskFull) => {
                Err(CommitError::Full)
            }
            Refusal::Conflict => Err(self.give_up("the rollback after a conflict failed".to_owned())),
            Refusal::Damaged => Err(self.give_up("the newest history of a run does not match its checksum".to_owned())),
            Refusal::Sqlite(error) => Err(self.give_up(error.to_string())),
        }
    }

    fn give_up(&mut self, why: String) -> CommitError {
        // A failed sync may have lost pages that this connection believes written; see `open::fold_log` for the rest.
        self.live = None;
        CommitError::Unknown(why)
    }

    fn displaced(&self) -> String {
        format!("{} was removed or replaced while the server was running", self.path.display())
    }

    fn live(&mut self) -> Result<&mut Live, String> {
        if self.closed {
            return Err("the store is closed".to_owned());
        }
        if self.files.are_displaced() {
            return Err(self.displaced());
        }
        if self.live.is_none() {
            let connection = open::raw_connection(&self.path).map_err(|error| error.to_string())?;
            open::configure(&self.path, &connection, &self.options).map_err(|error| error.to_string())?;
            self.files.log_is_new();
            let live = Live::new(connection, &self.signal, self.options.checkpoint_pages);
            self.live = Some(live.map_err(|error| error.to_string())?);
        }
        let live = self.live.as_mut().expect("just opened");
        if !live.connection.is_autocommit() {
            // A panic left a transaction open.
            live.connection.execute_batch("ROLLBACK").map_err(|error| error.to_string())?;
        }
        Ok(live)
    }
}

impl Live {
    fn new(mut connection: Connection, signal: &Arc<Signal>, checkpoint_pages: u32) -> rusqlite::Result<Self> {
        connection.set_prepared_statement_cache_capacity(STATEMENTS_CACHED);
        let signal = Arc::clone(signal);
        connection.wal_hook(Some(move |_: &mut rusqlite::hooks::Wal, pages: i32| {
            signal.log_grew(pages.unsigned_abs(), checkpoint_pages);
            Ok(())
        }))?;
        let pending = PendingFacts::read(&connection)?;
        Ok(Self { connection, pending })
    }
}

fn unknown(error: impl ToString) -> CommitError {
    CommitError::Unknown(error.to_string())
}

fn fail_undecided(outcomes: &mut [Result<(), CommitError>], error: &CommitError) {
    outcomes.iter_mut().filter(|outcome| outcome.is_ok()).for_each(|outcome| *outcome = Err(error.clone()));
}

fn transaction(
    connection: &Connection,
    pending: &mut PendingFacts,
    work: impl FnOnce(&mut Work<'_>) -> Result<(), Refusal>,
) -> Result<(), Refusal> {
    connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
    let mut under_way = Work::new(connection, pending);
    work(&mut under_way)?;
    under_way.finish()?;
    connection.prepare_cached("COMMIT")?.execute([])?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SqliteStore;
    use segno_store::visibility::Filter;
    use segno_store::{RunWrite, Store, Wait, kit};

    /// After a failure the writer goes on with a new connection, and the store never notices.
    #[test]
    fn a_lost_connection_is_replaced() {
        let directory = std::env::temp_dir().join(format!("segno-lost-{}", std::process::id()));
        let store = SqliteStore::open(&directory, Options::default()).expect("opens");
        let first = store.reserve_run_keys(5).wait().expect("works").0;
        store.writer().lose_connection();
        assert_eq!(store.reserve_run_keys(5).wait(), Ok(RunKey(first + 5)));
        // What waited to be listed is read from the file again.
        for key in 1..=5 {
            let write = RunWrite { visibility: Some(Box::new(kit::row(key))), ..kit::run(key, 0, "s") };
            assert_eq!(store.commit(vec![Commit { runs: vec![write], ..Commit::default() }]).wait(), [Ok(())]);
            if key % 2 == 0 {
                store.writer().lose_connection();
            }
        }
        store.writer().lose_connection();
        let listed = store.count(NamespaceKey(1), &Filter::All(Vec::new()), None).wait().expect("works");
        assert_eq!(listed[0].runs, 5);
        store.close().expect("closes");
        std::fs::remove_dir_all(directory).expect("removable");
    }
}
