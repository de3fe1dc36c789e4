//! Tests of this crate in one binary, which is linked once. They start a PostgreSQL of their own.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;
mod contract;
mod membership_model;
mod proxy;
mod revisions;
mod serve;
mod settle;
mod start;
mod tls;
