//! The machinery of a node: it finds runs, lets the engine decide, makes decisions durable and carries out what follows.
//!
//! A call's way: [`transact`] takes the run's lock ([`slots`]), asks the engine, hands the transition to the one writer
//! ([`committer`]) and, only after that returned, runs the effects: tasks go to [`queues`], wake-ups to [`timers`],
//! messages to other runs to [`outbox`]. [`recovery`] rebuilds all of this from storage at the start.
//!
//! This crate knows neither requests nor statuses; that is the server's business.

mod access_keys;
mod ask;
mod backfill;
mod batch;
mod clock;
mod cluster;
mod combine;
mod commit_shares;
mod committer;
mod complete;
mod completion_pages;
mod damaged;
mod delete;
mod delivery;
mod error;
mod fair;
mod finish;
mod flow;
mod hash;
mod health;
mod history;
mod ids;
mod labels;
mod lanes;
mod list_limits;
mod liveness;
mod load;
mod metrics;
mod moving;
mod namespaces;
mod node;
mod outbox;
mod poller_scaling;
mod polls;
mod queries;
mod queue_config;
mod queue_limits;
mod queue_stats;
mod queues;
mod recovery;
mod refill;
mod reset;
mod rules;
mod run_keys;
mod runs;
mod sabotage;
mod schedules;
mod shutdowns;
mod skipping;
mod slots;
mod standalone;
mod start_limits;
mod starts;
mod supervise;
mod tasks;
mod terminate;
mod timers;
mod tokens;
mod transact;
mod turns;
mod update_with_start;
mod updates;
mod visibility;
mod wakes;
mod worker_commands;
mod workers;

pub use access_keys::{AccessKey, AccessKeys, NewKeyError};
pub use ask::QueryReply;
pub use batch::{BatchInfo, BatchPlan, BatchStep, BatchSteps, BatchTarget, NewBatch, Step, StepError, step_id};
pub use clock::{Clock, DatabaseClock, SystemClock};
pub use cluster::{
    ChangedNodes, ClientCalls, Cluster, ForwardError, Forwarded, ForwardedCall, LinkFigures, NodeIdentity, Place,
    Polled, RemoteTask,
};
pub use combine::with_request_bytes;
pub use complete::CompletedTask;
pub use completion_pages::{CompletionPages, PAGES_MAX, PagesLost, TASK_PAGES_BYTES_MAX};
pub use delivery::Delivery;
pub use error::CallError;
pub use flow::{
    Activation, CheckedScript, Deployed, FlowError, FlowInfo, FlowRunView, FlowVersion, MoveCall, MovedRun, Source,
};
pub use hash::HashMap;
pub use health::{Health, HealthChanges};
pub use history::{HistoryPage, HistoryView};
pub use labels::{Family, Latency};
pub use list_limits::ListCaller;
pub use metrics::{Histogram, Metrics};
pub use moving::{MoveError, Moved, export, import};
pub use namespaces::{
    CallLimits, CustomAttribute, Namespace, NamespaceDetail, NamespaceName, Namespaces, NewNamespace,
};
pub use node::{Node, NodeOptions};
pub use polls::{Poll, QueueGauge, QueueService};
pub use queries::{QueryAnswer, QueryFailure, QueryTask};
pub use queue_limits::LimitSource;
pub use queue_stats::QueueStats;
pub use queues::{Poller, PollerVersion, QueueKey, QueueKind, TaskOffer};
pub use rules::RULES_MAX;
pub use runs::Runs;
pub use segno_engine::activity::Sdk;
pub use segno_engine::lease::LeaseSettings;
pub use segno_engine::limits::Limits;
pub use segno_store::cluster::Member;
pub use skipping::{NotLocked, SkippingClock};
pub use slots::{Current, WorkflowKey};
pub use start_limits::StartRefusal;
pub use starts::{SignalWithStart, StartOutcome};
pub use tasks::{StartedActivity, StartedTask};
pub use tokens::{ActivityToken, QueryToken, TaskToken, Token, TokenError};
pub use transact::RunSelector;
pub use update_with_start::{StartedAndUpdated, WithStartError};
pub use updates::{UpdateReply, UpdateStage, WaitFor};
pub use visibility::{FoundRun, FoundRuns, ListPosition, kind_of, state_facts};
pub use worker_commands::WorkerCommandTask;
pub use workers::{BadWorkerQuery, CONTROL_QUEUES, Caller, ConnectionId, LeaseView, WorkerQuery, Workers};
