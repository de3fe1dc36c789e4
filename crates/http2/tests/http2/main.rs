//! Tests of this crate in one binary, which is linked once.

mod bounds;
mod common;
mod connection;
mod differential;
mod fuzz;
