//! The contract in tests: what every backend must pass, unchanged.
//!
//! A backend's own tests hand [`run_all`] a way to make empty stores; everything else is here. Each test covers one
//! sentence of the contract. The differential test compares the backend with [`crate::MemoryStore`] after every step of
//! long random sequences; the fault tests inject every kind of failure at every position of a workload.
//!
//! It is test code that lives outside `#[cfg(test)]` because other crates use it: it panics where a test would.
//!
//! What holds: random sequences come from a seed that a failure prints, and repeat exactly.

#![allow(clippy::unwrap_used, reason = "a kit for tests: a panic is how it reports")]

mod build;
mod commits;
mod differential;
mod faults;
mod random;
mod reads;
mod snapshot;
mod visibility;

use std::sync::Arc;

pub use build::{batch, current, outbox_row, row, run, run_id};
pub use random::Random;
pub use snapshot::{SearchSnapshot, Snapshot};

use crate::Store;

/// A store made for one test.
pub trait StoreUnderTest {
    /// The store. The kit drops what it got before it calls [`StoreUnderTest::reopen`].
    fn store(&self) -> Arc<dyn Store>;

    /// Closes the store and opens it again with what it kept; `false`, having done nothing, if it keeps nothing.
    fn reopen(&mut self) -> bool;
}

/// Makes an empty store.
pub type Make<'a> = &'a dyn Fn() -> Box<dyn StoreUnderTest>;

/// How much of the random tests to run.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Random sequences.
    pub seeds: u64,
    /// Steps of each.
    pub steps: u64,
}

impl Default for Effort {
    fn default() -> Self {
        Self { seeds: 4, steps: 1_000 }
    }
}

/// Runs everything. Prints the name of each test before it runs, so that a failure says which it was.
pub fn run_all(make: impl Fn() -> Box<dyn StoreUnderTest>) {
    run_contract(&make);
    run_differential(&make, Effort::default());
    run_searches(&make, Effort { steps: 200, ..Effort::default() });
    run_faults(&make);
}

/// Runs the tests that each say a sentence of the contract.
pub fn run_contract(make: impl Fn() -> Box<dyn StoreUnderTest>) {
    for (name, test) in commits::TESTS.iter().chain(reads::TESTS) {
        println!("contract: {name}");
        test(&make);
    }
}

/// Runs the comparison with the store in memory.
pub fn run_differential(make: impl Fn() -> Box<dyn StoreUnderTest>, effort: Effort) {
    for seed in 1..=effort.seeds {
        println!("differential: seed {seed}");
        differential::run(&make, seed, effort.steps);
    }
}

/// Runs random lists and counts beside the store in memory.
pub fn run_searches(make: impl Fn() -> Box<dyn StoreUnderTest>, effort: Effort) {
    for seed in 1..=effort.seeds {
        println!("searches: seed {seed}");
        visibility::run(&make, seed, effort.steps);
    }
}

/// Runs the fault tests.
pub fn run_faults(make: impl Fn() -> Box<dyn StoreUnderTest>) {
    faults::run_faults(&make);
}

type Test = (&'static str, fn(Make<'_>));
