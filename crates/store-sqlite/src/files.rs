//! Checks that the database and its log were not removed or replaced.
//!
//! A file that was removed or replaced while it is open accepts writes and syncs as before, and they are lost when the
//! process ends. So its name is looked up after each transaction, before the commits are acknowledged: two system
//! calls, beside a sync.

use std::fs;
use std::path::{Path, PathBuf};

/// The files as they were when the connection was opened.
#[derive(Debug)]
pub(crate) struct Files {
    database: NamedFile,
    log: NamedFile,
    displaced: bool,
}

#[derive(Debug)]
struct NamedFile {
    path: PathBuf,
    /// Which file has the name; `None` as long as there was none.
    identity: Option<Identity>,
}

/// Device and inode.
type Identity = (u64, u64);

impl Files {
    /// The files of the database at `path`.
    pub(crate) fn of(path: &Path) -> Self {
        let named = |path: PathBuf| NamedFile { identity: identity(&path), path };
        Self { database: named(path.to_owned()), log: named(path.with_extension("db-wal")), displaced: false }
    }

    /// Whether both names still lead to the same files. Once they do not, they never do again: a file that has the name
    /// later does not have what was acknowledged.
    pub(crate) fn are_in_place(&mut self) -> bool {
        self.displaced = self.displaced || !(self.database.is_in_place() && self.log.is_in_place());
        !self.displaced
    }

    /// Whether the last check found the files displaced.
    pub(crate) fn are_displaced(&self) -> bool {
        self.displaced
    }

    /// The connection was opened anew, perhaps with a new log.
    pub(crate) fn log_is_new(&mut self) {
        self.log.identity = None;
    }
}

impl NamedFile {
    fn is_in_place(&mut self) -> bool {
        let now = identity(&self.path);
        if self.identity.is_none() {
            self.identity = now;
        }
        self.identity == now
    }
}

#[cfg(unix)]
fn identity(path: &Path) -> Option<Identity> {
    use std::os::unix::fs::MetadataExt;
    fs::metadata(path).ok().map(|found| (found.dev(), found.ino()))
}

/// Elsewhere open files cannot be removed.
#[cfg(not(unix))]
fn identity(path: &Path) -> Option<Identity> {
    fs::metadata(path).ok().map(|_| (0, 0))
}
