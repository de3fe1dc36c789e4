//! A data directory that goes away with the test, and commits to fill it.

#![allow(dead_code, reason = "each test file uses its part")]

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use bytes::Bytes;
use segno_store::kit::row;
use segno_store::{Commit, HistoryBatch, RunKey, RunWrite};
use segno_store_sqlite::{DATABASE_FILE, Options, SqliteStore};

static COUNTER: AtomicU32 = AtomicU32::new(0);

/// A directory below the system's temporary one.
pub struct Directory(pub PathBuf);

impl Directory {
    pub fn new() -> Self {
        let name = format!("segno-test-{}-{}", std::process::id(), COUNTER.fetch_add(1, Ordering::Relaxed));
        Self(std::env::temp_dir().join(name))
    }

    pub fn open(&self) -> SqliteStore {
        SqliteStore::open(&self.0, Options::default()).unwrap()
    }

    pub fn database(&self) -> PathBuf {
        self.0.join(DATABASE_FILE)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

/// A commit of one run with `bytes` of state and of events.
pub fn commit(key: u64, version: u64, bytes: usize) -> Commit {
    let fill = |seed: u64| Bytes::from(vec![(key ^ version ^ seed) as u8; bytes]);
    let event = version as i64 + 1;
    let write = RunWrite {
        key: RunKey(key),
        expected_version: version,
        state: fill(0),
        open: true,
        wake_at: Some(version as i64),
        dispatchable: true,
        batches: vec![HistoryBatch { first_event_id: event, last_event_id: event, events: fill(1) }],
        visibility: (version == 0).then(|| Box::new(row(key))),
    };
    Commit { runs: vec![write], ..Commit::default() }
}
