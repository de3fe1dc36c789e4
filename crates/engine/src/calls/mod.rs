//! Calls on a run: each takes a run by reference and answers with what becomes of it, or refuses.

pub mod activity;
pub mod activity_options;
pub mod activity_pause;
pub mod callbacks;
pub mod cancel;
pub mod children;
pub mod complete_task;
pub mod external;
pub mod nexus;
pub mod options;
pub mod oversize;
pub mod pause;
pub mod rebuild;
pub mod repeats;
pub mod reset;
mod reset_operations;
pub mod schedule;
pub mod script_move;
pub mod signal;
pub mod standalone;
pub mod standalone_nexus;
pub mod standalone_operations;
pub mod start_conflict;
pub mod task_calls;
pub mod terminate;
pub mod version_wait;
pub mod worker_lost;
