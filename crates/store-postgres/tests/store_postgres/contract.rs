//! The contract kit on PostgreSQL, as durable as it runs and (for the long random sequences) without waiting for syncs.

use std::sync::Arc;

use crate::common::{World, blocking};
use segno_store::Store;
use segno_store::kit::{self, Effort, StoreUnderTest};
use segno_store_postgres::PostgresStore;

struct InDatabase {
    world: Arc<World>,
    database: String,
    store: Option<PostgresStore>,
}

impl InDatabase {
    fn make(world: &Arc<World>) -> Box<dyn StoreUnderTest> {
        let database = world.postgres.database();
        let store = Some(world.open(&database));
        Box::new(Self { world: world.clone(), database, store })
    }
}

impl StoreUnderTest for InDatabase {
    fn store(&self) -> Arc<dyn Store> {
        blocking(self.store.as_ref().unwrap())
    }

    fn reopen(&mut self) -> bool {
        self.world.close(self.store.take().unwrap());
        self.store = Some(self.world.open(&self.database));
        true
    }
}

impl Drop for InDatabase {
    fn drop(&mut self) {
        if let Some(store) = self.store.take() {
            self.world.close(store);
        }
    }
}

fn quick() -> Arc<World> {
    World::new(&[("synchronous_commit", "off")])
}

/// More on request: `SEGNO_KIT_STEPS=100000`.
fn steps(usual: u64) -> u64 {
    std::env::var("SEGNO_KIT_STEPS").ok().and_then(|steps| steps.parse().ok()).unwrap_or(usual)
}

#[test]
fn contract() {
    let world = World::new(&[]);
    kit::run_contract(|| InDatabase::make(&world));
}

#[test]
fn differential() {
    let world = quick();
    kit::run_differential(|| InDatabase::make(&world), Effort { seeds: 4, steps: steps(200) });
}

#[test]
fn searches() {
    let world = quick();
    kit::run_searches(|| InDatabase::make(&world), Effort { seeds: 6, steps: steps(300) });
}

#[test]
fn faults() {
    let world = quick();
    kit::run_faults(|| InDatabase::make(&world));
}
