//! The core of Segno: what a run is and what calls make of it.
//!
//! Pure: state, call and time in, a [`run::Applied`] out. Nothing here does IO, reads a clock, draws a random number,
//! makes an id or waits. The same inputs give the same bytes, which is what lets a run be rebuilt, replayed and tested.
//!
//! Where to begin: [`state`] says what a run consists of, `draft` how a transition comes about, [`signal`] is the
//! smallest call, [`commands`] has one file per command of a worker, [`machine`] the tables of what may follow what.

// The protocol carries fields that its authors have replaced but that workers still send and read.
#![allow(deprecated)]

pub mod activity;
pub mod activity_options;
pub mod activity_pause;
pub mod activity_timeouts;
pub mod builds;
pub mod callbacks;
pub mod cancel;
pub mod chain;
pub mod children;
pub mod close;
pub mod commands;
pub mod complete_task;
pub mod cron;
mod draft;
pub mod error;
mod event_type;
pub mod external;
pub mod lease;
pub mod limits;
pub mod machine;
pub mod options;
pub mod outbox;
pub mod oversize;
pub mod pause;
pub mod priority;
pub mod problems;
pub mod rebuild;
pub mod repeats;
pub mod reset;
pub mod retry;
pub mod run;
pub mod schedule;
pub mod script;
pub mod script_move;
mod script_state;
pub mod search_attributes;
mod shared;
pub mod signal;
pub mod signal_ids;
pub mod standalone;
pub mod start;
pub mod start_conflict;
pub mod state;
mod steps;
pub mod task_calls;
pub mod terminate;
pub mod update;
mod uuid;
pub mod validate;
pub mod wake;
pub mod worker_lost;
pub mod workflow_task;

pub use draft::BUFFERED_EVENT_ID;
pub use error::Rejection;
pub use event_type::event_type;
pub use run::{ActivityStop, Applied, Compaction, Context, Durability, Effect, Run, Transition, run_id, run_key_of};
pub use shared::Shared;
pub use uuid::uuid;
