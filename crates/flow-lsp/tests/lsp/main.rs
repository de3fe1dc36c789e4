//! The language server as an editor sees it.

#![allow(clippy::unwrap_used, reason = "a test that unwraps says enough by failing")]

mod answers;
#[path = "../../../flow/tests/flow/dice.rs"]
#[expect(dead_code, reason = "some are for the tests of the language")]
mod dice;
mod editor;
mod encodings;
mod protocol;
mod random_edits;
#[path = "../../../flow/tests/flow/seeds.rs"]
mod seeds;
