//! Damaged write-ahead logs are refused, and those that a power cut leaves are not.

use std::fs;
use std::path::PathBuf;

use crate::common::{Directory, commit};
use rusqlite::Connection;
use segno_store::{RunKey, Store, Wait};
use segno_store_sqlite::{OpenError, Options, SqliteStore};

const COMMITS: u64 = 8;
const FRAME_BYTES: usize = 24 + 2_048;

/// The files of a store as a kill leaves them.
#[derive(Clone)]
struct Left {
    database: Vec<u8>,
    log: Vec<u8>,
    index: Option<Vec<u8>>,
}

impl Left {
    fn of(directory: &Directory) -> Self {
        let read = |suffix: &str| fs::read(file(directory, suffix)).unwrap();
        Self { database: read(""), log: read("-wal"), index: Some(read("-shm")) }
    }

    fn open(&self, options: Options) -> (Directory, Result<SqliteStore, OpenError>) {
        let directory = Directory::new();
        fs::create_dir(&directory.0).unwrap();
        fs::write(file(&directory, ""), &self.database).unwrap();
        fs::write(file(&directory, "-wal"), &self.log).unwrap();
        if let Some(index) = &self.index {
            fs::write(file(&directory, "-shm"), index).unwrap();
        }
        let store = SqliteStore::open(&directory.0, options);
        (directory, store)
    }

    fn is_refused(&self) -> bool {
        match self.open(Options::default()).1 {
            Ok(_) => false,
            Err(OpenError::DamagedLog { .. }) => true,
            Err(error) => panic!("{error:?}"),
        }
    }

    fn with_flipped(&self, at: usize) -> Self {
        let mut changed = self.clone();
        changed.log[at] ^= 0x10;
        changed
    }

    fn without_index(&self) -> Self {
        Self { index: None, ..self.clone() }
    }
}

fn file(directory: &Directory, suffix: &str) -> PathBuf {
    directory.0.join(format!("segno.db{suffix}"))
}

/// What a kill leaves after some commits, and how long the log was after each of them.
fn killed() -> (Left, Vec<usize>) {
    let directory = Directory::new();
    let store = directory.open();
    let mut ends = Vec::new();
    for version in 0..COMMITS {
        assert_eq!(store.commit(vec![commit(1, version, 3_000)]).wait(), [Ok(())]);
        ends.push(fs::read(file(&directory, "-wal")).unwrap().len());
    }
    (Left::of(&directory), ends)
}

fn version(store: &SqliteStore) -> u64 {
    store.load(RunKey(1)).wait().unwrap().map_or(0, |run| run.version)
}

#[test]
fn a_log_without_damage_is_opened() {
    let (left, _) = killed();
    for left in [left.clone(), left.without_index()] {
        let (_directory, store) = left.open(Options::default());
        assert_eq!(version(&store.unwrap()), COMMITS);
    }
}

/// One flipped byte anywhere: in the header of the log, in that of a frame or in a page.
#[test]
fn a_flipped_byte_is_refused() {
    let (left, ends) = killed();
    let before_last = ends[ends.len() - 2];
    assert!(left.with_flipped(5).is_refused() && left.with_flipped(20).is_refused(), "the header of the log");
    let frames = (left.log.len() - 32) / FRAME_BYTES;
    for frame in 0..frames {
        let at = 32 + frame * FRAME_BYTES;
        for inside in [1, 10, 18, 1_000] {
            let damaged = left.with_flipped(at + inside);
            assert!(damaged.is_refused(), "byte {inside} of frame {frame} of {frames}");
            // Without the shared memory file, damage in the last transaction cannot be told from a torn write.
            let refused = damaged.without_index().is_refused();
            assert_eq!(refused, at < before_last, "byte {inside} of frame {frame} of {frames}, without index");
        }
    }
}

#[test]
fn a_log_that_was_cut_is_refused_if_the_index_tells() {
    let (mut left, ends) = killed();
    left.log.truncate(ends[5]);
    assert!(left.is_refused());
    assert!(!left.without_index().is_refused(), "nothing is left that could tell");
    // Emptied, or gone.
    left.log.clear();
    assert!(left.is_refused());
    let (directory, refused) = left.open(Options::default());
    assert!(refused.is_err());
    fs::remove_file(file(&directory, "-wal")).unwrap();
    assert!(matches!(SqliteStore::open(&directory.0, Options::default()), Err(OpenError::DamagedLog { .. })));
}

#[test]
fn a_damaged_log_can_be_discarded() {
    let (left, ends) = killed();
    let mut options = Options::default();
    options.discard_damaged_log = true;
    let (directory, store) = left.with_flipped(ends[4] + 100).open(options);
    let store = store.unwrap();
    assert!(store.discarded_log().unwrap().contains("is damaged"), "{:?}", store.discarded_log());
    assert_eq!(version(&store), 5, "all that stands before the damage");
    assert_eq!(store.commit(vec![commit(1, 5, 10)]).wait(), [Ok(())]);
    store.close().unwrap();
    assert_eq!(version(&directory.open()), 6);
}

/// The last transaction was being written: any of its frames may have reached the disk, whole or in part, and the others
/// are as they were before: absent, or from an older generation of the log. The index is of the commit before.
#[test]
fn what_a_power_cut_leaves_is_opened() {
    let directory = Directory::new();
    let store = directory.open();
    for version in 0..COMMITS {
        assert_eq!(store.commit(vec![commit(1, version, 3_000)]).wait(), [Ok(())]);
    }
    let before = Left::of(&directory);
    assert_eq!(store.commit(vec![commit(1, COMMITS, 3_000)]).wait(), [Ok(())]);
    let after = Left::of(&directory);
    let (begin, end) = (before.log.len(), after.log.len());
    let frames = (end - begin) / FRAME_BYTES;
    assert!((2..=8).contains(&frames), "{frames} frames");
    for written in 0..1_u32 << frames {
        for filler in [0, 0xA5] {
            let mut left = before.clone();
            left.log.resize(end, filler);
            for frame in (0..frames).filter(|frame| written >> frame & 1 == 1) {
                let at = begin + frame * FRAME_BYTES;
                left.log[at..at + FRAME_BYTES].copy_from_slice(&after.log[at..at + FRAME_BYTES]);
            }
            let (_directory, store) = left.open(Options::default());
            let whole = written == (1 << frames) - 1;
            assert_eq!(version(&store.unwrap()), COMMITS + u64::from(whole), "{written:b}");
        }
    }
    for length in (begin..end).step_by(500) {
        let left = Left { log: after.log[..length].to_vec(), ..before.clone() };
        assert!(!left.is_refused(), "cut at {length}");
    }
}

/// A transaction that failed may leave frames, its last one included; a shorter one is then written over its beginning.
#[test]
fn what_a_failed_transaction_leaves_is_no_damage() {
    let directory = Directory::new();
    let store = directory.open();
    for version in 0..3 {
        assert_eq!(store.commit(vec![commit(1, version, 3_000)]).wait(), [Ok(())]);
    }
    let before = Left::of(&directory);
    assert_eq!(store.commit(vec![commit(1, 3, 20_000)]).wait(), [Ok(())]);
    let longer = Left::of(&directory);
    // The same log, with a short transaction instead of the long one.
    let other = Directory::new();
    fs::create_dir(&other.0).unwrap();
    fs::write(file(&other, ""), &before.database).unwrap();
    fs::write(file(&other, "-wal"), &before.log).unwrap();
    let connection = Connection::open(other.database()).unwrap();
    connection.execute_batch("PRAGMA wal_autocheckpoint = 0; UPDATE meta SET value = value + 1").unwrap();
    let mut left = Left::of(&other);
    let short = left.log.len();
    assert!(short < longer.log.len() && left.log.starts_with(&before.log));
    left.log.extend_from_slice(&longer.log[short..]);
    for left in [left.clone(), left.without_index()] {
        let (_directory, store) = left.open(Options::default());
        assert_eq!(version(&store.unwrap()), 3);
    }
}

/// The header is written when the log begins anew; then everything before is in the database.
#[test]
fn a_torn_header_is_no_damage_once_everything_is_in_the_database() {
    let (left, _) = killed();
    assert!(left.with_flipped(30).without_index().is_refused());
    let (directory, _) = (Directory::new(), ());
    fs::create_dir(&directory.0).unwrap();
    fs::write(file(&directory, ""), &left.database).unwrap();
    fs::write(file(&directory, "-wal"), &left.log).unwrap();
    let connection = Connection::open(directory.database()).unwrap();
    connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())).unwrap();
    let copied = Left { log: left.log.clone(), ..Left::of(&directory) };
    assert!(!copied.with_flipped(30).without_index().is_refused());
}

/// A data directory that is removed or replaced while the store is open: nothing more is acknowledged.
#[test]
fn a_removed_directory_is_noticed() {
    for replaced in [false, true] {
        let directory = Directory::new();
        let store = directory.open();
        assert_eq!(store.commit(vec![commit(1, 0, 10)]).wait(), [Ok(())]);
        assert!(store.is_in_place());
        fs::remove_dir_all(&directory.0).unwrap();
        if replaced {
            drop(SqliteStore::open(&directory.0, Options::default()).unwrap());
        }
        let outcome = store.commit(vec![commit(1, 1, 10)]).wait().remove(0).unwrap_err().to_string();
        assert!(outcome.contains("was removed or replaced"), "{outcome}");
        assert!(!store.is_in_place());
        let outcome = store.commit(vec![commit(1, 1, 10)]).wait().remove(0).unwrap_err().to_string();
        assert!(outcome.contains("was removed or replaced"), "{outcome}");
    }
}
