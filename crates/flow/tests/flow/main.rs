//! Tests of the crate's API, a module per topic.

#![allow(clippy::unwrap_used, reason = "a test that unwraps says enough by failing")]

mod dice;
mod example_commands;
mod examples;
mod failures;
mod format;
mod front;
mod fuzz;
mod host;
mod library;
mod machine;
mod memory;
mod migrate;
mod migrate_random;
mod properties;
mod scripts;
mod seeds;
mod states;
mod types;
mod types_random;
