//! Full disks, long logs, lost connections.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::common::{Directory, commit};
use segno_store::{CommitError, RunKey, Store, Wait};
use segno_store_sqlite::{Options, SqliteStore};

#[test]
fn a_full_disk_changes_nothing_and_passes() {
    let directory = Directory::new();
    let mut options = Options::default();
    options.pages_max = Some(60);
    let store = SqliteStore::open(&directory.0, options).unwrap();
    let mut version = 0;
    // Big and small in one group: neither happens.
    while store.commit(vec![commit(1, version, 20_000), commit(2, version, 10)]).wait() == [Ok(()), Ok(())] {
        version += 1;
        assert!(version < 60, "it never got full");
    }
    let look = || {
        (
            store.load(RunKey(1)).wait(),
            store.load(RunKey(2)).wait(),
            store.history(RunKey(1), 0, 999, 999, usize::MAX).wait(),
        )
    };
    let before = look();
    for _ in 0..3 {
        let outcomes = store.commit(vec![commit(1, version, 20_000), commit(2, version, 10), commit(2, 999, 1)]).wait();
        assert_eq!(outcomes, vec![Err(CommitError::Full); 3]);
        assert_eq!(look(), before);
    }
    assert_eq!(before.0.unwrap().unwrap().version, version);
    store.set_pages_max(10_000).unwrap();
    assert_eq!(store.commit(vec![commit(1, version, 20_000), commit(2, version, 10)]).wait(), [Ok(()), Ok(())]);
    store.close().unwrap();
    assert_eq!(directory.open().load(RunKey(2)).wait().unwrap().unwrap().version, version + 1);
}

/// A busy writer and busy readers together must not let the log grow without end.
#[test]
fn the_log_stays_short_under_load() {
    let directory = Directory::new();
    let mut options = Options::default();
    options.checkpoint_pages = 200;
    let store = SqliteStore::open(&directory.0, options).unwrap();
    let done = AtomicBool::new(false);
    let (mut longest, mut failures) = (0, Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    store.history(RunKey(1), 0, 999, 999, usize::MAX).wait().unwrap();
                }
            });
        }
        for version in 0..400 {
            let group: Vec<_> = (1..=16).map(|key| commit(key, version, 2_000)).collect();
            assert!(store.commit(group.to_vec()).wait().iter().all(Result::is_ok));
            let status = store.wal_status();
            longest = longest.max(status.pages);
            failures.extend(status.latest_failure);
        }
        done.store(true, Ordering::Relaxed);
    });
    let status = store.wal_status();
    assert!(status.checkpoints > 0 && status.failures == 0, "{status:?}, {failures:?}");
    // All that was written would be some 9,000 pages. On a busy machine the checkpoints come late, but they come.
    assert!(longest < 200 * 25, "the log had {longest} pages");
    let file = std::fs::metadata(directory.0.join("segno.db-wal")).unwrap().len();
    assert!(file < 200 * 25 * 8_300, "the log's file has {file} bytes");
}

#[test]
fn an_idle_store_uses_no_cpu() {
    let directory = Directory::new();
    let store = directory.open();
    assert_eq!(store.commit(vec![commit(1, 0, 10)]).wait(), [Ok(())]);
    let switches = || {
        let thread = |entry: std::io::Result<std::fs::DirEntry>| {
            let path = entry.ok()?.path();
            let name = std::fs::read_to_string(path.join("comm")).ok()?;
            let status = std::fs::read_to_string(path.join("status")).ok()?;
            let line = status.lines().find(|line| line.starts_with("voluntary_ctxt_switches"))?.to_owned();
            (name.trim() == "checkpoint").then_some((path, line))
        };
        let mut all: Vec<_> = std::fs::read_dir("/proc/self/task").unwrap().filter_map(thread).collect();
        all.sort();
        all
    };
    // Other tests of this process have checkpoint threads as well, and on a busy machine a thread takes a moment to get
    // its name: look, more than once, for one that did not move.
    let still = (0..10).any(|_| {
        let before = switches();
        std::thread::sleep(Duration::from_millis(300));
        let after = switches();
        before.iter().any(|thread| after.contains(thread))
    });
    assert!(still, "no checkpoint thread was idle: {:?}", switches());
}

#[test]
fn large_groups_spill_and_still_commit_as_one() {
    let directory = Directory::new();
    let store = directory.open();
    // Far more than the writer's cache.
    let mut group: Vec<_> = (1..=200).map(|key| commit(key, 0, 100_000)).collect();
    group.push(commit(7, 44, 1));
    let outcomes = store.commit(group.to_vec()).wait();
    assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 200);
    assert_eq!(outcomes[200], Err(CommitError::Conflict));
    assert_eq!(store.open_runs(None, 999).wait().unwrap().len(), 200);
}
