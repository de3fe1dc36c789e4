//! Tests of this crate in one binary, which is linked once.

#![allow(clippy::unwrap_used, reason = "tests")]

mod backup;
mod common;
mod contract;
mod damage;
mod limits;
mod lists;
mod open;
mod pending;
mod verify;
mod wal;
