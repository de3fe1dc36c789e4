//! Tests of this crate in one binary, which is linked once.

#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod common;
mod faults;
mod lingering;
mod liveness;
mod nothing_lost;
mod races;
mod repeats;
mod scripts;
mod simulation;
mod stopping;
mod tenants;
mod trials;
mod update_faults;
mod versions;
