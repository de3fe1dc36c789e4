//! Tests of the crate's API, a module per topic.

mod failures;
mod library;
