//! Copies: of a store in use and of one at rest, put back, refused.

use std::fs;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use segno_store::kit::row;
use segno_store::{RunKey, StateFacts, Store, Wait};
use segno_store_sqlite::{
    BackupError, DATABASE_FILE, Options, SqliteStore, backup, compact, inspect, newest_schema, restore,
};

use crate::common::{Directory, commit};

/// What the state of run 1 says.
fn facts(_: bytes::Bytes) -> Result<StateFacts, String> {
    let row = row(1);
    Ok(StateFacts {
        namespace: row.namespace,
        workflow_id: row.workflow_id,
        run_id: row.run_id,
        status: row.status,
        is_running: false,
        last_event_id: 1,
    })
}

fn versions(store: &SqliteStore, keys: u64) -> Vec<u64> {
    (1..=keys).map(|key| store.load(RunKey(key)).wait().unwrap().map_or(0, |run| run.version)).collect()
}

#[test]
fn a_copy_of_a_busy_store_has_everything_that_was_acknowledged_before() {
    let (source, copies, target) = (Directory::new(), Directory::new(), Directory::new());
    fs::create_dir_all(&copies.0).unwrap();
    let store = source.open();
    let keys = 40;
    for key in 1..=keys {
        assert!(store.commit(vec![commit(key, 0, 3_000)]).wait()[0].is_ok());
    }
    let (stop, acknowledged) = (AtomicBool::new(false), AtomicU64::new(0));
    let file = copies.0.join("copy.db");
    let (before, copied) = thread::scope(|scope| {
        scope.spawn(|| {
            let mut version = 1;
            while !stop.load(Ordering::Relaxed) {
                let group: Vec<_> = (1..=keys).map(|key| commit(key, version, 3_000)).collect();
                assert!(store.commit(group.to_vec()).wait().iter().all(Result::is_ok));
                acknowledged.store(version, Ordering::SeqCst);
                version += 1;
            }
        });
        while acknowledged.load(Ordering::SeqCst) < 3 {
            thread::yield_now();
        }
        let before = acknowledged.load(Ordering::SeqCst);
        let copied = backup(&source.0, &file, 20_000_000).unwrap();
        stop.store(true, Ordering::Relaxed);
        (before, copied)
    });
    assert!(copied.online && copied.schema == newest_schema() && copied.bytes == fs::metadata(&file).unwrap().len());
    assert_eq!(fs::read_dir(&copies.0).unwrap().count(), 1, "nothing but the copy is left");
    restore(&file, &target.0).unwrap();
    let restored = target.open();
    let found = versions(&restored, keys);
    // One transaction wrote them all: a copy of one moment has the same version of each.
    assert!(found.iter().all(|version| *version == found[0]), "{found:?}");
    assert!(found[0] > before, "version {} of at least {}", found[0], before + 1);
    for key in 1..=keys {
        let history = restored.history(RunKey(key), 1, i64::MAX, 10_000, usize::MAX).wait().unwrap();
        assert_eq!(history.last().unwrap().last_event_id as u64, found[0]);
    }
}

#[test]
fn a_copy_of_a_store_that_was_not_closed_has_its_log() {
    let (source, target) = (Directory::new(), Directory::new());
    let store = source.open();
    assert!(store.commit(vec![commit(1, 0, 100)]).wait()[0].is_ok());
    // What a killed server leaves: the files, and no lock.
    let crashed = Directory::new();
    fs::create_dir_all(&crashed.0).unwrap();
    for suffix in ["", "-wal"] {
        fs::copy(source.0.join(format!("segno.db{suffix}")), crashed.0.join(format!("segno.db{suffix}"))).unwrap();
    }
    let file = crashed.0.join("copy");
    assert!(!backup(&crashed.0, &file, 0).unwrap().online);
    restore(&file, &target.0).unwrap();
    assert_eq!(versions(&target.open(), 1), [1]);
}

#[test]
fn nothing_is_overwritten_and_only_copies_are_put_back() {
    let (source, other) = (Directory::new(), Directory::new());
    assert!(matches!(backup(&source.0, &other.0.join("x"), 0), Err(BackupError::Nothing(_))));
    let store = source.open();
    assert!(store.commit(vec![commit(1, 0, 100)]).wait()[0].is_ok());
    fs::create_dir_all(&other.0).unwrap();
    let file = other.0.join("copy.db");
    backup(&source.0, &file, 0).unwrap();
    assert!(matches!(backup(&source.0, &file, 0), Err(BackupError::Exists(_))));
    drop(store);
    assert!(matches!(restore(&file, &source.0), Err(BackupError::Exists(_))));
    let text = other.0.join("text");
    fs::write(&text, "not a database at all").unwrap();
    let empty = Directory::new();
    assert!(matches!(restore(&text, &empty.0), Err(BackupError::NotACopy(_))));
    assert!(!empty.0.exists(), "a wrong file leaves no directory");
    // A copy that lost its end is noticed before it has the name of the database.
    let whole = fs::read(&file).unwrap();
    fs::write(&text, &whole[..whole.len() / 2]).unwrap();
    assert!(restore(&text, &empty.0).is_err());
    assert!(!empty.database().exists());
}

/// What workflows carry is in a copy, too.
#[cfg(unix)]
#[test]
fn only_the_owner_may_read_copies() {
    use std::os::unix::fs::PermissionsExt;
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let (source, copies, target) = (Directory::new(), Directory::new(), Directory::new());
    fs::create_dir_all(&copies.0).unwrap();
    drop(source.open());
    let file = copies.0.join("copy.db");
    // What a copy that was cut short left, with the permissions of an older version.
    fs::write(copies.0.join("copy.db.unfinished"), "").unwrap();
    backup(&source.0, &file, 0).unwrap();
    assert_eq!(mode(&file), 0o600);
    restore(&file, &target.0).unwrap();
    assert_eq!(mode(&target.database()), 0o600);
}

#[test]
fn a_look_at_a_store_tells_its_size_and_its_use() {
    let directory = Directory::new();
    let store = directory.open();
    assert!(store.commit(vec![commit(1, 0, 100)]).wait()[0].is_ok());
    let seen = inspect(&directory.0, true, facts).unwrap();
    assert!(seen.in_use && seen.schema == newest_schema() && seen.damage.is_empty(), "{seen:?}");
    drop(store);
    assert!(!inspect(&directory.0, true, facts).unwrap().in_use);
    let mut bytes = fs::read(directory.database()).unwrap();
    let middle = bytes.len() / 2 / 2_048 * 2_048;
    bytes[middle..middle + 2_048].fill(0xee);
    fs::write(directory.0.join(DATABASE_FILE), bytes).unwrap();
    let damaged = inspect(&directory.0, true, facts);
    assert!(damaged.is_err() || damaged.is_ok_and(|seen| !seen.damage.is_empty()));
}

#[test]
fn a_store_shrinks_after_deletion() {
    let directory = Directory::new();
    let store = directory.open();
    for key in 1..=200 {
        assert!(store.commit(vec![commit(key, 0, 20_000)]).wait()[0].is_ok());
    }
    for key in 2..=200 {
        assert!(
            store.commit(vec![segno_store::Commit { delete_runs: vec![RunKey(key)], ..Default::default() }]).wait()[0]
                .is_ok()
        );
    }
    assert!(matches!(compact(&directory.0), Err(BackupError::Open(_))), "a server uses it");
    store.close().unwrap();
    let (before, after) = compact(&directory.0).unwrap();
    assert!(after < before / 4, "{before} bytes before, {after} after");
    let store = SqliteStore::open(&directory.0, Options::default()).unwrap();
    assert_eq!(versions(&store, 2), [1, 0]);
}
