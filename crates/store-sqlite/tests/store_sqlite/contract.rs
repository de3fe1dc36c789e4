//! The contract kit on SQLite, as durable as it runs and (for the long random sequences) without syncs.

use std::sync::Arc;

use crate::common::Directory;
use segno_store::Store;
use segno_store::kit::{self, Effort, StoreUnderTest};
use segno_store_sqlite::{Options, SqliteStore};

struct OnDisk {
    // Dropped before its directory is removed.
    store: Option<Arc<SqliteStore>>,
    directory: Directory,
    options: Options,
}

impl OnDisk {
    fn make(options: Options) -> Box<dyn StoreUnderTest> {
        let directory = Directory::new();
        let store = SqliteStore::open(&directory.0, options.clone()).unwrap();
        Box::new(Self { store: Some(Arc::new(store)), directory, options })
    }
}

impl StoreUnderTest for OnDisk {
    fn store(&self) -> Arc<dyn Store> {
        Arc::clone(self.store.as_ref().unwrap()) as Arc<dyn Store>
    }

    fn reopen(&mut self) -> bool {
        let store = Arc::into_inner(self.store.take().unwrap()).expect("the kit kept a handle");
        store.close().unwrap();
        assert!(!self.directory.0.join("segno.db-wal").exists(), "a clean stop leaves no log");
        self.store = Some(Arc::new(SqliteStore::open(&self.directory.0, self.options.clone()).unwrap()));
        true
    }
}

fn quick() -> Options {
    let mut options = Options::default();
    options.durable = false;
    options
}

#[test]
fn contract() {
    kit::run_contract(|| OnDisk::make(Options::default()));
}

#[test]
fn differential() {
    kit::run_differential(|| OnDisk::make(quick()), Effort::default());
}

#[test]
fn searches() {
    kit::run_searches(|| OnDisk::make(quick()), Effort { seeds: 6, steps: 300 });
}

/// With a log so short that checkpoints run all the time beside the steps.
#[test]
fn differential_beside_checkpoints() {
    let mut options = quick();
    options.checkpoint_pages = 8;
    kit::run_differential(|| OnDisk::make(options.clone()), Effort { seeds: 1, steps: 1_000 });
}

#[test]
fn faults() {
    kit::run_faults(|| OnDisk::make(quick()));
}
