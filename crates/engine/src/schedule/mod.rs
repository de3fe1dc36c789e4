//! Schedules: what starts workflows at given times.
//!
//! A schedule is a run of its own kind. It has no workflow tasks: whenever something happens to it (its time comes, a
//! caller changes it, a workflow that it started ends), the engine decides at once what follows, like a workflow would.
//! It starts workflows by outbox messages and is told of their end by such messages, so nothing is lost or started twice.

mod calendar;
mod overlap;
mod parse;
pub mod spec;
pub mod state;
mod zone;
