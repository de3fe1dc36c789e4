//! Copies of a data directory: made with or without a running server, and restored.
//!
//! A copy is the snapshot of one read transaction: everything that was committed before it began. The server goes on
//! meanwhile; its write-ahead log grows until the copy is finished, because the transaction still needs the database as
//! it was. The pages are copied in small steps with pauses between them, so that the disk has time for commits.
//!
//! What holds: a file that has the name of the copy is complete and on stable storage. Until then it has another name.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags};

use crate::open::{self, DATABASE_FILE, OpenError};
use crate::verify::{ReadState, verify};
use crate::{Options, SqliteStore, schema, visibility, wal_check};

/// Pages in one step: half a mebibyte.
const STEP_PAGES: i32 = 256;
/// How long a step waits for a process that holds the lock on the source.
const BUSY_PAUSE: Duration = Duration::from_millis(20);

/// A database up to this size is read whole without being asked to.
const READ_WHOLE_MAX: u64 = 256 * 1024 * 1024;

/// Why there is no copy, or nothing was put back.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// The data directory or the file cannot be used.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// There is nothing to copy.
    #[error("there is no database in {0}. Is it the --data-dir of the server?")]
    Nothing(PathBuf),
    /// The file to be restored is no copy.
    #[error(
        "{0} is not a backup: it is not a SQLite database, or not one of Segno's. Name a file that `segno backup` wrote"
    )]
    NotACopy(PathBuf),
    /// The target exists, and is not overwritten.
    #[error("{0} is there already. Choose another name, or move it away first")]
    Exists(PathBuf),
    /// The copy is not as it should be.
    #[error("the copy {path} is damaged: {detail}. Check the disk it is on and the one it was made from")]
    Damaged {
        /// The copy.
        path: PathBuf,
        /// The damage that was found.
        detail: String,
    },
    /// A file could not be read or written.
    #[error("{path} could not be read or written: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
}

/// The result of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopySummary {
    /// Bytes of the copy.
    pub bytes: u64,
    /// Its schema version.
    pub schema: i64,
    /// Whether a server was using the data directory.
    pub online: bool,
}

/// Copies the database of a data directory to a file, at most so many bytes a second (0: as fast as it goes).
///
/// Once this returns, the file is on stable storage and has everything that was acknowledged before the call.
pub fn backup(directory: &Path, target: &Path, bytes_per_second: u64) -> Result<CopySummary, BackupError> {
    let path = directory.join(DATABASE_FILE);
    if !path.is_file() {
        return Err(BackupError::Nothing(directory.to_owned()));
    }
    if target.exists() {
        return Err(BackupError::Exists(target.to_owned()));
    }
    // Held until the end: no server starts on files that are being recovered for the copy.
    let lock = match open::lock(directory) {
        Ok(lock) => Some(lock),
        Err(OpenError::InUse { .. }) => None,
        Err(error) => return Err(error.into()),
    };
    if lock.is_some() {
        open::check_log(&path, &Options::default())?;
    }
    let failed = |source| BackupError::Open(open::explain(&path, source));
    let source = open::raw_connection(&path).map_err(failed)?;
    open::check_identity(&path, &source, false)?;
    let unfinished = unfinished(target);
    create_private(&unfinished)?;
    let schema = copy(&source, &unfinished, bytes_per_second)
        .map_err(|source| BackupError::Open(open::explain(&unfinished, source)))?;
    let bytes = seal(&unfinished)?;
    fs::rename(&unfinished, target).map_err(|source| io_error(target, source))?;
    sync_parent(target)?;
    Ok(CopySummary { bytes, schema, online: lock.is_none() })
}

/// Whether a server has the data directory open.
pub fn is_in_use(directory: &Path) -> bool {
    matches!(open::lock(directory), Err(OpenError::InUse { .. }))
}

/// Puts a copy into a data directory that has no database.
///
/// Once this returns, the directory can be served and is on stable storage.
pub fn restore(copy: &Path, directory: &Path) -> Result<CopySummary, BackupError> {
    // Before anything is made: a wrong file leaves no directory behind.
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let failed = |source| BackupError::Open(open::explain(copy, source));
    if !copy.is_file() {
        let missing = io::Error::new(io::ErrorKind::NotFound, "there is no such file");
        return Err(io_error(copy, missing));
    }
    open::check_magic(copy).map_err(of_copy)?;
    let source = Connection::open_with_flags(copy, flags).map_err(failed)?;
    open::check_identity(copy, &source, false).map_err(of_copy)?;
    let path = directory.join(DATABASE_FILE);
    open::create_directory(directory).map_err(|source| io_error(directory, source))?;
    let lock = open::lock(directory)?;
    if path.exists() {
        return Err(BackupError::Exists(path));
    }
    let unfinished = unfinished(&path);
    create_private(&unfinished)?;
    let schema = self::copy(&source, &unfinished, 0).map_err(failed)?;
    let bytes = seal(&unfinished)?;
    fs::rename(&unfinished, &path).map_err(|source| io_error(&path, source))?;
    sync_parent(&path)?;
    drop(lock);
    // Opened once as a server does: what it would refuse is told now. An older schema is brought up to date.
    SqliteStore::open(directory, Options::default())?;
    Ok(CopySummary { bytes, schema, online: false })
}

/// Copies what one transaction sees, in steps with pauses. Gives back the schema version.
fn copy(source: &Connection, target: &Path, bytes_per_second: u64) -> rusqlite::Result<i64> {
    let page_bytes: u64 = source.pragma_query_value(None, "page_size", |row| row.get(0))?;
    // The first read decides what all of the transaction sees.
    let snapshot = source.unchecked_transaction()?;
    snapshot.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
    let schema = snapshot.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let mut copy = Connection::open(target)?;
    copy.execute_batch("PRAGMA synchronous = FULL; PRAGMA fullfsync = 1; PRAGMA journal_mode = OFF;")?;
    {
        let backup = Backup::new(&snapshot, &mut copy)?;
        let begun = Instant::now();
        loop {
            match backup.step(STEP_PAGES)? {
                StepResult::Done => break,
                StepResult::Busy | StepResult::Locked => thread::sleep(BUSY_PAUSE),
                _ => {}
            }
            let progress = backup.progress();
            let copied = (progress.pagecount - progress.remaining).max(0) as u64 * page_bytes;
            if let Some(due) = copied.checked_mul(1_000).and_then(|bytes| bytes.checked_div(bytes_per_second)) {
                let ahead = Duration::from_millis(due).saturating_sub(begun.elapsed());
                thread::sleep(ahead);
            }
        }
    }
    // One file without a log, which can be read from anywhere.
    copy.execute_batch("PRAGMA journal_mode = DELETE;")?;
    copy.close().map_err(|(_, error)| error)?;
    Ok(schema)
}

/// Checks a finished copy and makes it durable. Gives back its length.
fn seal(path: &Path) -> Result<u64, BackupError> {
    let check = || -> rusqlite::Result<String> {
        let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))
    };
    let found = check().unwrap_or_else(|error| error.to_string());
    if found != "ok" {
        return Err(BackupError::Damaged { path: path.to_owned(), detail: found });
    }
    let file = File::open(path).map_err(|source| io_error(path, source))?;
    file.sync_all().map_err(|source| io_error(path, source))?;
    Ok(file.metadata().map_err(|source| io_error(path, source))?.len())
}

/// The name of a copy until it is whole.
fn unfinished(target: &Path) -> PathBuf {
    let mut name = target.file_name().unwrap_or_default().to_owned();
    name.push(".unfinished");
    target.with_file_name(name)
}

/// Makes the file empty, before SQLite would make it with the permissions of the process: a copy has what workflows carry.
fn create_private(path: &Path) -> Result<(), BackupError> {
    match fs::remove_file(path) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => return Err(io_error(path, source)),
        _ => {}
    }
    open::private_file().create_new(true).open(path).map_err(|source| io_error(path, source))?;
    Ok(())
}

/// The error for a file that is to be restored, which is not yet a data directory.
fn of_copy(error: OpenError) -> BackupError {
    match error {
        OpenError::NotADatabase { path } | OpenError::NotSegno { path } => BackupError::NotACopy(path),
        other => BackupError::Open(other),
    }
}

fn sync_parent(path: &Path) -> Result<(), BackupError> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    open::sync_directory(parent).map_err(|source| io_error(parent, source))
}

fn io_error(path: &Path, source: io::Error) -> BackupError {
    BackupError::Io { path: path.to_owned(), source }
}

/// The result of [`inspect`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Inspection {
    /// Whether a server uses the directory.
    pub in_use: bool,
    /// The schema version of the file.
    pub schema: i64,
    /// Bytes of the database.
    pub bytes: u64,
    /// Bytes of it that hold nothing: `segno compact` gives them back.
    pub free_bytes: u64,
    /// Bytes of the write-ahead log.
    pub log_bytes: u64,
    /// The damage of the write-ahead log; not searched for while a server runs.
    pub log_damage: Option<String>,
    /// Whether all of the database was read.
    pub is_read: bool,
    /// The damage of the database, as far as it was read.
    pub damage: Vec<String>,
}

/// Looks at a data directory without changing it. All of a small database is read, and `thorough` reads all of a large one;
/// `read_state` says what the states of runs mean.
pub fn inspect(directory: &Path, thorough: bool, read_state: ReadState) -> Result<Inspection, BackupError> {
    let path = directory.join(DATABASE_FILE);
    if !path.is_file() {
        return Err(BackupError::Nothing(directory.to_owned()));
    }
    let lock = match open::lock(directory) {
        Ok(lock) => Some(lock),
        Err(OpenError::InUse { .. }) => None,
        Err(error) => return Err(error.into()),
    };
    let length = |path: &Path| fs::metadata(path).map_or(0, |found| found.len());
    let mut found = Inspection { in_use: lock.is_none(), bytes: length(&path), ..Inspection::default() };
    found.log_bytes = length(&path.with_extension("db-wal"));
    // Not while a server uses it: closing a file gives up all locks that a process has on it.
    if lock.is_some() {
        open::check_magic(&path)?;
        let damage = wal_check::check(&path).map_err(|source| io_error(&path, source))?;
        found.log_damage = damage.map(|damage| damage.to_string());
    }
    let failed = |source| BackupError::Open(open::explain(&path, source));
    // A log that is damaged must not be recovered: the file is looked at as if there were none.
    let connection = match found.log_damage {
        Some(_) => Connection::open_with_flags(
            format!("file:{}?immutable=1", path.display()),
            OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI,
        ),
        None => open::raw_connection(&path),
    };
    let connection = connection.map_err(failed)?;
    open::check_identity(&path, &connection, false)?;
    let number = |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0)).map_err(failed);
    found.schema = number("user_version")?;
    found.free_bytes = number("freelist_count")?.max(0) as u64 * number("page_size")?.max(0) as u64;
    // An older schema is read after it was brought up to date.
    if (thorough || found.bytes <= READ_WHOLE_MAX) && found.schema == schema::newest() {
        visibility::register(&connection).map_err(failed)?;
        found.is_read = true;
        found.damage = verify(&connection, read_state).unwrap_or_else(|error| vec![error.to_string()]);
    }
    Ok(found)
}

/// Gives the space of what was deleted back to the file system. No server may be running. Gives back the bytes before and
/// after.
pub fn compact(directory: &Path) -> Result<(u64, u64), BackupError> {
    let path = directory.join(DATABASE_FILE);
    if !path.is_file() {
        return Err(BackupError::Nothing(directory.to_owned()));
    }
    // Opened as a server does: locked, checked, with the log folded in.
    let opened = open::open(directory, &Options::default())?;
    let length = |path: &Path| fs::metadata(path).map(|found| found.len()).map_err(|source| io_error(path, source));
    let before = length(&path)?;
    let failed = |source| BackupError::Open(open::explain(&path, source));
    opened.connection.execute_batch("VACUUM; PRAGMA wal_checkpoint(TRUNCATE);").map_err(failed)?;
    opened.connection.close().map_err(|(_, source)| failed(source))?;
    Ok((before, length(&path)?))
}

/// The newest schema version that this binary knows.
pub fn newest_schema() -> i64 {
    schema::newest()
}
