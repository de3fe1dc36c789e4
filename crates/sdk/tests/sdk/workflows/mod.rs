//! Workflows without a server: with a virtual clock, and every run replayed after each of its turns.

mod basics;
mod cancellation;
mod children;
mod chosen_ids;
mod common;
mod corpus;
mod drops;
mod failures;
mod fuzz;
mod local;
mod messages;
mod nexus;
mod races;
mod spawned;
mod time_and_ids;
mod violations;
