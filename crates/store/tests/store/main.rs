//! Tests of this crate in one binary, which is linked once.

#![allow(clippy::unwrap_used, reason = "tests")]

mod contract;
mod fuzz;
