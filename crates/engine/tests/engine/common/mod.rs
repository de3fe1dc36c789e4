//! What the engine's tests share: a run with a storage that can crash ([`world`]), what must hold after every step
//! ([`invariants`], [`history_rules`]), and the words in which scenario files speak ([`scenario`],
//! [`words`], [`update_steps`], [`reset_steps`], [`nexus_steps`]).

// Each test file uses its own part of this.
#![allow(dead_code, deprecated)]

pub mod history_rules;
pub mod invariants;
pub mod nexus_steps;
pub mod operations;
pub mod random;
pub mod rebuilt;
pub mod reset_steps;
pub mod scenario;
pub mod show;
pub mod update_steps;
pub mod versions;
pub mod words;
pub mod world;
