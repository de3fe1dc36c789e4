//! Tests of this crate in one binary, which is linked once.

mod kit;
mod past;
mod repeats;
