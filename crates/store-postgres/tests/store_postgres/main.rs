//! Tests of this crate in one binary, which is linked once. They start a PostgreSQL of their own.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;
mod contract;
mod proxy;
mod serve;
mod settle;
mod start;
