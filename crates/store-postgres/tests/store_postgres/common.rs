//! What the tests share: a PostgreSQL, a runtime, stores on databases of their own.

use std::sync::Arc;

use segno_store_postgres::testing::Postgres;
use segno_store_postgres::{OpenError, Options, PostgresStore};
use tokio::runtime::Runtime;

/// A PostgreSQL and a runtime for the tasks of stores on it.
pub struct World {
    pub postgres: Postgres,
    pub runtime: Runtime,
}

impl World {
    pub fn new(settings: &[(&str, &str)]) -> Arc<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        Arc::new(Self { postgres: Postgres::start(settings), runtime })
    }

    pub fn open(&self, database: &str) -> PostgresStore {
        self.try_open(&self.postgres.url(database)).unwrap()
    }

    pub fn try_open(&self, url: &str) -> Result<PostgresStore, OpenError> {
        // Without syncs where the server's settings say so.
        let options = Options { may_lose_commits: true, ..Options::default() };
        self.runtime.block_on(PostgresStore::open(url, options))
    }

    pub fn close(&self, store: PostgresStore) {
        self.runtime.block_on(store.close());
    }
}
