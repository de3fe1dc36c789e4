//! Opens a data directory: one server at a time, the right file, with durable settings.
//!
//! The file is checked before anything writes to it: a foreign, damaged or newer file is not changed. Checks are light
//! (header, length, schema, the ends of the tables), so that opening takes milliseconds regardless of the size; single
//! rows are checked against their checksums when they are read.
//!
//! What holds: every error says what was found and what to do about it.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OpenFlags};

use crate::{Options, schema, visibility, wal_check};

/// The database's name in the data directory.
pub const DATABASE_FILE: &str = "segno.db";

/// The lock file's name in the data directory. It stays when the server stops; only the lock on it matters.
pub const LOCK_FILE: &str = "segno.lock";

const MAGIC: &[u8; 16] = b"SQLite format 3\0";
/// Small: a commit changes a few hundred bytes in each page that it touches, and all of the page goes to the log.
const PAGE_BYTES: u32 = 2_048;

/// Why the store could not be opened, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The directory or its files cannot be created, read or written.
    #[error("{path} cannot be used: {source}. Check that it is on a mounted disk and that this user may write there")]
    Unusable {
        /// The file or directory.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A file has the name of the directory.
    #[error("{path} is a file, not a directory. The data directory is the one that has {DATABASE_FILE} in it")]
    NotADirectory {
        /// The file.
        path: PathBuf,
    },
    /// Another server has the directory.
    #[error(
        "the data directory {directory} is in use by another Segno server{holder}. Stop that server first, or give \
         this one a data directory of its own"
    )]
    InUse {
        /// The data directory.
        directory: PathBuf,
        /// The other server's process, as far as known.
        holder: String,
    },
    /// The file is no database.
    #[error("{path} is not a SQLite database. Restore it from a backup, or move it away to start with an empty store")]
    NotADatabase {
        /// The file.
        path: PathBuf,
    },
    /// The file belongs to another program.
    #[error("{path} is a SQLite database, but not one of Segno's. Give the server another data directory")]
    NotSegno {
        /// The file.
        path: PathBuf,
    },
    /// The file is damaged.
    #[error("{path} is damaged: {detail}. Keep a copy of the whole directory and restore the latest backup")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The damage that was found.
        detail: String,
    },
    /// The write-ahead log is damaged: recovery would drop changes that were acknowledged.
    #[error(
        "the write-ahead log of {path} is damaged: {detail}. Changes that were acknowledged would be lost. Keep a copy of \
         the whole directory, then restore the latest backup; or run `segno serve` once with --discard-damaged-log to go on with \
         what can be read"
    )]
    DamagedLog {
        /// The database.
        path: PathBuf,
        /// The damage that was found.
        detail: String,
    },
    /// The process may not open as many files as it needs.
    #[error(
        "{path} cannot be opened: this process has reached its limit of open files. Raise the limit (ulimit -n 1024, or \
         LimitNOFILE= in a systemd unit) and start again"
    )]
    TooManyFiles {
        /// The file or directory.
        path: PathBuf,
    },
    /// A newer server wrote the file.
    #[error(
        "{path} was written by a newer Segno (schema {found}, this one knows up to {known}). Start the newer version, \
         or restore a backup from before the upgrade"
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// The file's schema version.
        found: i64,
        /// The newest schema version this binary knows.
        known: i64,
    },
    /// SQLite would not keep what it acknowledges.
    #[error(
        "{path} cannot be made durable: {detail}. Put the data directory on a local disk (not a network file system)"
    )]
    NotDurable {
        /// The file.
        path: PathBuf,
        /// Which setting did not take.
        detail: String,
    },
    /// There is no room to open the file.
    #[error("there is no space left to open {path}. Free some space on that disk and start again")]
    Full {
        /// The file.
        path: PathBuf,
    },
    /// SQLite failed in a way that has no name here.
    #[error("{path} could not be opened: {source}")]
    Failed {
        /// The file.
        path: PathBuf,
        /// The error of SQLite.
        source: rusqlite::Error,
    },
    /// The checkpoint thread could not be started.
    #[error("the checkpoint thread could not be started: {source}. Raise the limit on threads or processes")]
    NoThread {
        /// The error of the operating system.
        source: io::Error,
    },
}

/// A data directory that is ours.
pub(crate) struct OpenDirectory {
    pub(crate) path: PathBuf,
    pub(crate) connection: Connection,
    pub(crate) lock: File,
    /// The damage of the log that [`Options::discard_damaged_log`] let pass.
    pub(crate) discarded: Option<String>,
}

/// Locks, checks, opens and migrates.
pub(crate) fn open(directory: &Path, options: &Options) -> Result<OpenDirectory, OpenError> {
    create_directory(directory).map_err(|source| unusable(directory, source))?;
    let lock = lock(directory)?;
    let path = directory.join(DATABASE_FILE);
    let is_new = check_file(&path)?;
    let discarded = check_log(&path, options)?;
    let failed = |source| explain(&path, source);
    let mut connection = raw_connection(&path).map_err(failed)?;
    check_identity(&path, &connection, is_new)?;
    configure(&path, &connection, options)?;
    schema::migrate(&mut connection).map_err(failed)?;
    fold_log(&path, &connection)?;
    check_tables(&connection).map_err(failed)?;
    if is_new {
        // The file's name must survive as well as its content.
        sync_directory(directory).map_err(|source| OpenError::Unusable { path: directory.to_owned(), source })?;
    }
    Ok(OpenDirectory { path, connection, lock, discarded })
}

/// Refuses a log that SQLite would cut short without a word. Without syncs a power cut may leave any log.
pub(crate) fn check_log(path: &Path, options: &Options) -> Result<Option<String>, OpenError> {
    if !options.durable {
        return Ok(None);
    }
    let damage = wal_check::check(path).map_err(|source| unusable(path, source))?;
    let Some(detail) = damage.map(|damage| damage.to_string()) else { return Ok(None) };
    if options.discard_damaged_log {
        return Ok(Some(detail));
    }
    Err(OpenError::DamagedLog { path: path.to_owned(), detail })
}

fn unusable(path: &Path, source: io::Error) -> OpenError {
    let path = path.to_owned();
    match source.kind() {
        io::ErrorKind::NotADirectory => OpenError::NotADirectory { path },
        _ if is_file_limit(&source) => OpenError::TooManyFiles { path },
        _ => OpenError::Unusable { path, source },
    }
}

/// Refuses a file that is no database before SQLite looks at it.
pub(crate) fn check_magic(path: &Path) -> Result<(), OpenError> {
    let mut head = Vec::new();
    let read = File::open(path).and_then(|file| file.take(MAGIC.len() as u64).read_to_end(&mut head));
    read.map_err(|source| unusable(path, source))?;
    if head == MAGIC { Ok(()) } else { Err(OpenError::NotADatabase { path: path.to_owned() }) }
}

/// Whether the process (EMFILE) or the system (ENFILE) has too many open files; the numbers are those of all Unixes.
fn is_file_limit(error: &io::Error) -> bool {
    cfg!(unix) && matches!(error.raw_os_error(), Some(23 | 24))
}

/// A connection that may write. Opening never creates the file: that is done once, with the right permissions.
pub(crate) fn raw_connection(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    // No other process uses the file; what is waited for is one of our own connections recovering the log.
    connection.busy_timeout(Duration::from_secs(10))?;
    Ok(connection)
}

/// Settings of a connection that writes, checked where a promise depends on them.
pub(crate) fn configure(path: &Path, connection: &Connection, options: &Options) -> Result<(), OpenError> {
    let failed = |source| explain(path, source);
    visibility::register(connection).map_err(failed)?;
    // Only a file without tables takes the page size, and only before it has a log.
    connection.pragma_update(None, "page_size", PAGE_BYTES).map_err(failed)?;
    let mode: String =
        connection.pragma_update_and_check(None, "journal_mode", "wal", |row| row.get(0)).map_err(failed)?;
    if mode != "wal" {
        return Err(not_durable(path, format!("the journal mode is {mode} instead of wal")));
    }
    let level = if options.durable { 2 } else { 0 };
    connection
        .execute_batch(&format!(
            "PRAGMA synchronous = {level};
             PRAGMA fullfsync = 1;
             PRAGMA checkpoint_fullfsync = 1;
             PRAGMA foreign_keys = 0;
             PRAGMA temp_store = memory;
             PRAGMA cache_size = -2048;
             PRAGMA wal_autocheckpoint = 0;
             PRAGMA journal_size_limit = {};",
            u64::from(options.checkpoint_pages) * 2 * u64::from(PAGE_BYTES)
        ))
        .map_err(failed)?;
    let found: i64 = connection.pragma_query_value(None, "synchronous", |row| row.get(0)).map_err(failed)?;
    if found != level {
        return Err(not_durable(path, format!("synchronous is {found} instead of {level}")));
    }
    if let Some(pages_max) = options.pages_max {
        connection.pragma_update(None, "max_page_count", pages_max).map_err(failed)?;
    }
    Ok(())
}

fn not_durable(path: &Path, detail: String) -> OpenError {
    OpenError::NotDurable { path: path.to_owned(), detail }
}

pub(crate) fn create_directory(directory: &Path) -> io::Result<()> {
    if directory.is_dir() {
        return Ok(());
    }
    if directory.is_file() {
        return Err(io::Error::from(io::ErrorKind::NotADirectory));
    }
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(directory)?;
    // An empty parent is the current directory.
    match directory.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => sync_directory(parent),
        _ => sync_directory(Path::new(".")),
    }
}

#[cfg(unix)]
pub(crate) fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

#[cfg(not(unix))]
pub(crate) fn sync_directory(_: &Path) -> io::Result<()> {
    Ok(())
}

/// How files of the data directory and copies of them are opened: only their owner may read what workflows carry.
pub(crate) fn private_file() -> fs::OpenOptions {
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

pub(crate) fn lock(directory: &Path) -> Result<File, OpenError> {
    let path = directory.join(LOCK_FILE);
    let unusable = |source| unusable(&path, source);
    let mut file = private_file().open(&path).map_err(unusable)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut pid = String::new();
            let known = file.take(20).read_to_string(&mut pid).is_ok() && !pid.trim().is_empty();
            let holder = if known { format!(" (process {})", pid.trim()) } else { String::new() };
            return Err(OpenError::InUse { directory: directory.to_owned(), holder });
        }
        Err(TryLockError::Error(source)) => return Err(unusable(source)),
    }
    // The process id is for the process that is refused; on a full disk there is none.
    drop(file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id())));
    Ok(file)
}

/// Looks at the bare file, before SQLite does, and creates it if absent. Says whether it is new.
fn check_file(path: &Path) -> Result<bool, OpenError> {
    let unusable = |source| unusable(path, source);
    let mut file = private_file().open(path).map_err(unusable)?;
    let mut head = Vec::new();
    Read::by_ref(&mut file).take(100).read_to_end(&mut head).map_err(unusable)?;
    if head.is_empty() {
        // SQLite would take an empty file as a new one and throw the log away, with everything in it.
        let log = path.with_extension("db-wal");
        return match fs::metadata(&log) {
            Ok(found) if found.len() > 0 => {
                let detail = format!("it is missing or empty, but its log {} is there", log.display());
                Err(OpenError::Damaged { path: path.to_owned(), detail })
            }
            _ => Ok(true),
        };
    }
    if !head.starts_with(MAGIC) {
        return Err(OpenError::NotADatabase { path: path.to_owned() });
    }
    if head.len() < 100 {
        return Err(OpenError::Damaged { path: path.to_owned(), detail: "it was cut short".to_owned() });
    }
    Ok(false)
}

pub(crate) fn check_identity(path: &Path, connection: &Connection, is_new: bool) -> Result<(), OpenError> {
    let failed = |source| explain(path, source);
    let number = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0)).map_err(failed);
    let tables: i64 =
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).map_err(failed)?;
    let (application, version) = (number("application_id")?, number("user_version")?);
    // A first start that was cut short before the first migration leaves an empty database without our mark.
    if is_new || (tables == 0 && application == 0 && version == 0) {
        return Ok(());
    }
    if application != i64::from(schema::APPLICATION_ID) {
        return Err(OpenError::NotSegno { path: path.to_owned() });
    }
    let known = schema::newest();
    if version > known {
        return Err(OpenError::Newer { path: path.to_owned(), found: version, known });
    }
    Ok(())
}

/// Folds what the last server left in the log into the file. This is more than tidiness: if its last sync failed, the
/// log may be whole in the page cache and not on disk; written to the file and synced there it is safe.
fn fold_log(path: &Path, connection: &Connection) -> Result<(), OpenError> {
    let failed = |source| explain(path, source);
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).map_err(failed)?;
    let pages: u64 = connection.pragma_query_value(None, "page_count", |row| row.get(0)).map_err(failed)?;
    let page_bytes: u64 = connection.pragma_query_value(None, "page_size", |row| row.get(0)).map_err(failed)?;
    let found = fs::metadata(path).map_err(|source| OpenError::Unusable { path: path.to_owned(), source })?.len();
    if found < pages * page_bytes {
        let detail = format!("it has {found} bytes of {}", pages * page_bytes);
        return Err(OpenError::Damaged { path: path.to_owned(), detail });
    }
    Ok(())
}

/// Touches the end of each table, where a torn write would be.
fn check_tables(connection: &Connection) -> rusqlite::Result<()> {
    let ends = "SELECT (SELECT max(run_key) FROM runs), (SELECT max(id) FROM history), (SELECT max(id) FROM outbox), \
                (SELECT count(*) FROM namespaces), (SELECT value FROM meta WHERE key = 'next_run_key')";
    connection.query_row(ends, [], |row| row.get::<_, i64>(4)).map(drop)
}

/// Gives SQLite's error the name a user can act on.
pub(crate) fn explain(path: &Path, source: rusqlite::Error) -> OpenError {
    let path = path.to_owned();
    match source.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => OpenError::NotADatabase { path },
        Some(ErrorCode::DatabaseCorrupt) => OpenError::Damaged { path, detail: source.to_string() },
        Some(ErrorCode::DiskFull) => OpenError::Full { path },
        // SQLite does not say why. The directory is opened, not the file: closing the file would give up SQLite's locks.
        Some(ErrorCode::CannotOpen)
            if path.parent().is_some_and(|parent| File::open(parent).is_err_and(|error| is_file_limit(&error))) =>
        {
            OpenError::TooManyFiles { path }
        }
        Some(ErrorCode::PermissionDenied | ErrorCode::ReadOnly | ErrorCode::CannotOpen) => {
            OpenError::Unusable { path, source: io::Error::new(io::ErrorKind::PermissionDenied, source.to_string()) }
        }
        _ => match source {
            rusqlite::Error::QueryReturnedNoRows | rusqlite::Error::InvalidColumnType(..) => {
                OpenError::Damaged { path, detail: "the table of settings is not as it should be".to_owned() }
            }
            source => OpenError::Failed { path, source },
        },
    }
}
