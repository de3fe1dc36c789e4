//! The kit on the store in memory: the model must keep the contract it is the model of.

use std::sync::Arc;

use segno_store::kit::{self, StoreUnderTest};
use segno_store::{MemoryStore, Store};

struct InMemory(Arc<MemoryStore>);

impl StoreUnderTest for InMemory {
    fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.0) as Arc<dyn Store>
    }

    fn reopen(&mut self) -> bool {
        false
    }
}

#[test]
fn the_store_in_memory_passes_the_kit() {
    kit::run_all(|| Box::new(InMemory(Arc::default())));
}
