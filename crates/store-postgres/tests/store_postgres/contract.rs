//! The contract kit on PostgreSQL, as durable as it runs and (for the long random sequences) without waiting for syncs.

use std::sync::Arc;

use crate::common::World;
use segno_store::kit::{self, Effort, StoreUnderTest};
use segno_store::visibility::Value;
use segno_store::{Commit, RunWrite, Store, Wait};
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
        Arc::new(self.store.as_ref().unwrap().clone())
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

/// The usual statement has no part for attribute entries: a run that loses its last attribute takes another one.
#[test]
fn the_last_attribute_is_removed() {
    let world = quick();
    let database = world.postgres.database();
    let store = world.open(&database);
    let commit = |version: u64, attribute: Option<&str>| {
        let mut facts = kit::row(1);
        facts.attributes = attribute.map(|text| (1, Value::Text(text.to_owned()))).into_iter().collect();
        let write = RunWrite { visibility: Some(Box::new(facts)), ..kit::run(1, version, "state") };
        let other = RunWrite { visibility: Some(Box::new(kit::row(2))), ..kit::run(2, version, "state") };
        let commits = [write, other].map(|write| Commit { runs: vec![write], ..Commit::default() });
        store.commit(commits.into()).wait().into_iter().collect::<Result<Vec<_>, _>>().unwrap();
        let entries = "SELECT count(*) FROM segno.attributes";
        world.postgres.psql(&database, entries).unwrap().trim().to_owned()
    };
    assert_eq!(commit(0, Some("a")), "1");
    assert_eq!(commit(1, Some("b")), "1");
    assert_eq!(commit(2, None), "0");
    assert_eq!(commit(3, None), "0");
    world.close(store);
}
