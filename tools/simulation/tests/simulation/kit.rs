//! The simulated disk is a store like the others: without delays and faults it passes the contract kit.

use std::sync::Arc;

use segno_simulation::{
    disk::{Behaviour, Disk},
    random::Random,
};
use segno_store::{
    Store,
    kit::{StoreUnderTest, run_all},
};

struct DiskUnderTest(Arc<Disk>);

impl StoreUnderTest for DiskUnderTest {
    fn store(&self) -> Arc<dyn Store> {
        self.0.open()
    }

    fn reopen(&mut self) -> bool {
        self.0.crash();
        true
    }
}

#[test]
fn the_simulated_disk_keeps_the_contract() {
    run_all(|| Box::new(DiskUnderTest(Disk::new(Random::stream(1, "kit"), Behaviour::IMMEDIATE))));
}
