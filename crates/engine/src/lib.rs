//! The core of Segno: runs, and the changes that calls make to them.
//!
//! Pure: state, call and time in, an [`Applied`] out. There is no IO, clock, random number or new id in this crate. The
//! same inputs give the same bytes, so runs can be rebuilt, replayed and tested.
//!
//! A module uses those of its own layer and of the layers above it in this table, and no two files use each other:
//!
//! | layer | contents |
//! |---|---|
//! | files of this directory | tables and rules without a run: [`machine`] (legal steps), [`limits`], [`validate`], [`retry`], [`cron`] |
//! | [`state`] | the parts of a run, as stored and in memory |
//! | `transition` | the changes of one call, and the draft in which they are made |
//! | `parts` | building blocks of transitions: workflow task, activities, updates, scripts, start, end |
//! | [`commands`] | one file per command of a worker |
//! | `calls` | one file per call, or per group of similar ones; [`signal`] is the smallest |
//! | [`wake`] | due timers and time-outs |
//!
//! Other crates find parts and calls by their names at the root of this crate.

// The protocol carries fields that its authors have replaced but that workers still send and read.
#![allow(deprecated)]

mod calls;
pub mod commands;
pub mod error;
mod events;
pub mod lease;
pub mod limits;
pub mod machine;
mod parts;
mod payload;
pub mod priority;
pub mod retry;
pub mod search_attributes;
mod shared;
pub mod slots;
pub mod state;
mod transition;
mod uuid;
pub mod validate;
pub mod wake;

pub use calls::{
    activity, activity_options, activity_pause, cancel, children, complete_task, external, nexus, options, oversize,
    pause, rebuild, repeats, reset, script_move, signal, start_conflict, task_calls, terminate, version_wait,
    worker_lost,
};
pub use error::Rejection;
pub use events::event_type;
pub use parts::{
    activity::timeouts as activity_timeouts, builds, chain, close, inherit, problems, script, start, update,
    versioning, workflow_task,
};
pub use segno_cron as cron;
pub use shared::Shared;
pub use state::{
    outbox,
    run::{Run, run_id, run_key_of},
    signal_ids,
};
pub use transition::{
    ActivityStop, Applied, Compaction, Context, Durability, Effect, Transition, draft::BUFFERED_EVENT_ID,
};
pub use uuid::uuid;

/// Completion callbacks, and the call on them.
pub mod callbacks {
    pub use crate::{
        calls::callbacks::{fail_attempt, settle},
        parts::callbacks::*,
        state::{CallbackState, RegisteredCallback},
    };
}

/// Schedules, and the calls on them.
pub mod schedule {
    pub use crate::{calls::schedule as calls, parts::schedule::*, state::schedule as state};
}

/// Standalone Nexus operations, and the calls on them.
pub mod standalone_nexus {
    pub use crate::{calls::standalone_nexus as calls, parts::standalone_nexus::*};
}

/// Standalone activities, and the calls on them.
pub mod standalone {
    pub use crate::{
        calls::{standalone as calls, standalone_operations as operations},
        parts::standalone::*,
    };
}
