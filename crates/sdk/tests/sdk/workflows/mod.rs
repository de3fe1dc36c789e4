//! Workflows without a server: with a virtual clock, and every run replayed after each of its turns.

mod basics;
mod common;
mod drops;
mod local;
mod messages;
mod races;
mod spawned;
mod violations;
