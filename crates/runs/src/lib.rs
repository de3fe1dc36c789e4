//! Runs of workflows: finds them, lets the engine decide, makes decisions durable and carries out effects.
//!
//! The path of a call: [`transact`] takes the run's lock ([`slots`]), calls the engine, hands the transition to the
//! committer, which writes it together with others, and, after the commit, carries out the effects: wake-ups go to the
//! timers, messages to other runs to the outbox, tasks through the port [`Effects`](ports::Effects) to the crates
//! above. [`recovery`] rebuilds all of this from the store at the start.
//!
//! This crate knows neither queues nor workers nor scripts nor other nodes: it reaches them through [`ports`]. Of
//! scripts it knows the numbers that a namespace can set as their limits.

mod backfill;
mod combine;
mod commit_shares;
mod committer;
pub mod compaction;
mod completion_pages;
mod count_starts;
mod damaged;
mod delete;
mod deployments;
mod documents;
mod effects;
mod endpoint_changes;
pub mod endpoints;
pub mod error;
pub mod executors;
pub mod history;
pub mod lifecycle;
mod list_limits;
mod list_position;
mod load;
pub mod loops;
mod membership;
pub mod namespaces;
mod nexus_requests;
mod operation_facts;
mod operation_token;
pub mod options;
mod outbox;
pub mod placement;
pub mod ports;
pub mod queries;
pub mod recovery;
mod replayable;
pub mod reset;
pub mod round_robin;
pub mod rules;
mod run_keys;
pub mod runs;
mod schedules;
mod set_aside;
pub mod slots;
mod standalone;
mod start_limits;
pub mod starts;
mod targets;
mod terminate;
mod timers;
pub mod tokens;
pub mod transact;
mod update_with_start;
mod updates;
mod version_waits;
mod visibility;
mod wakes;

pub use completion_pages::{CompletionPages, PAGES_MAX, PagesLost, TASK_PAGES_BYTES_MAX};
pub use deployments::Uses;
pub use error::CallError;
pub use history::{HistoryPage, HistoryView};
pub use lifecycle::Lifecycle;
pub use list_limits::ListCaller;
pub use list_position::ListPosition;
pub use namespaces::{
    CallLimits, CustomAttribute, Namespace, NamespaceDetail, NamespaceName, Namespaces, NewNamespace,
};
pub use nexus_requests::{RequestOutcome, TakenRequest};
pub use options::NodeOptions;
pub use outbox::{CallbackOutcome, CompletionError, DueReport, RefusedRequest, StartedScript};
pub use queries::{QueryAnswer, QueryFailure, QueryReply};
pub use replayable::CompletedTaskEvents;
pub use rules::RULES_MAX;
pub use runs::Runs;
pub use slots::{Current, RunSelector, WorkflowKey, with_request_bytes};
pub use standalone::Standalone;
pub use start_limits::StartRefusal;
pub use starts::{SignalWithStart, StartOutcome};
pub use tokens::{
    ActivityToken, CallbackToken, NexusCallToken, NexusTaskToken, QueryToken, TaskToken, Token, TokenError,
};
pub use update_with_start::{StartedAndUpdated, WithStartError};
pub use updates::{UpdateReply, UpdateStage, WaitFor};
pub use visibility::{FoundRun, FoundRuns, facts_of, kind_of, state_facts};
