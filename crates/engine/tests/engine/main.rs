//! Tests of this crate in one binary, which is linked once.

mod common;
mod deadlines;
mod lease_model;
mod leases;
mod options;
mod properties;
mod repeats;
mod scenarios;
mod schedule_times;
mod slots;
mod standalone;
mod transitions;
mod update_properties;
