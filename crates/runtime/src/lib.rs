//! The machinery of a node: it finds runs, lets the engine decide, makes decisions durable and carries out what follows.
//!
//! A call's way: [`transact`] takes the run's lock ([`slots`]), asks the engine, hands the transition to the one writer
//! ([`committer`]) and, only after that returned, runs the effects: tasks go to [`matching`], wake-ups to [`timers`],
//! messages to other runs to [`outbox`]. [`recovery`] rebuilds all of this from storage at the start.
//!
//! This crate knows neither requests nor statuses; that is the server's business.

mod access_keys;
mod backfill;
mod batch;
mod clock;
mod cluster;
mod combine;
mod commit_shares;
mod committer;
mod compaction;
mod completion_pages;
mod connection;
mod count_starts;
mod damaged;
mod delete;
mod dispatch;
mod effects;
mod error;
mod finish;
mod hash;
mod health;
mod history;
mod ids;
mod labels;
mod lanes;
mod list_limits;
mod list_position;
mod load;
mod lock;
mod matching;
mod metrics;
mod moving;
mod namespaces;
mod node;
mod options;
mod outbox;
mod placement;
mod ports;
mod queries;
mod recovery;
mod reset;
mod rules;
mod run_keys;
mod runs;
mod sabotage;
mod schedules;
mod scripts;
mod set_aside;
mod skipping;
mod slots;
mod standalone;
mod start;
mod start_limits;
mod starts;
mod supervise;
mod system_time;
mod terminate;
mod timers;
mod tokens;
mod transact;
mod turns;
mod update_with_start;
mod updates;
mod visibility;
mod vitals;
mod wakes;
mod workers;

pub use access_keys::{AccessKey, AccessKeys, NewKeyError};
pub use batch::{BatchInfo, BatchPlan, BatchStep, BatchSteps, BatchTarget, NewBatch, Step, StepError, step_id};
pub use clock::{Clock, DatabaseClock, SystemClock};
pub use cluster::{
    ChangedNodes, ClientCalls, Cluster, ForwardError, Forwarded, LinkMetrics, NodeIdentity, Peers, Topology,
};
pub use completion_pages::{CompletionPages, PAGES_MAX, PagesLost, TASK_PAGES_BYTES_MAX};
pub use connection::ConnectionId;
pub use dispatch::{
    CompletedTask, Delivery, Dispatch, ForwardedCall, Poll, Polled, QueueGauge, StartedActivity, StartedTask,
    WorkerTask,
};
pub use error::CallError;
pub use hash::HashMap;
pub use health::{Health, HealthChanges};
pub use history::{HistoryPage, HistoryView};
pub use labels::{Family, Latency};
pub use list_limits::ListCaller;
pub use list_position::ListPosition;
pub use matching::{
    LimitSource, Matching, Poller, PollerVersion, QueryTask, QueueKey, QueueKind, QueueService, QueueStats, RemoteTask,
    TaskOffer, WorkerCommandTask,
};
pub use metrics::{Histogram, Metrics};
pub use moving::{MoveError, Moved, export, import};
pub use namespaces::{
    CallLimits, CustomAttribute, Namespace, NamespaceDetail, NamespaceName, Namespaces, NewNamespace,
};
pub use node::Node;
pub use options::NodeOptions;
pub use ports::owner::Place;
pub use queries::{QueryAnswer, QueryFailure, QueryReply};
pub use rules::RULES_MAX;
pub use runs::Runs;
pub use scripts::{
    Activation, CheckedScript, Deployment, MoveCall, MovedRun, ScriptError, ScriptInfo, ScriptRunView, Scripts, Source,
    VersionRecord,
};
pub use segno_engine::activity::Sdk;
pub use segno_engine::lease::LeaseSettings;
pub use segno_engine::limits::Limits;
pub use segno_store::cluster::Member;
pub use skipping::{NotLocked, SkippingClock};
pub use slots::{Current, RunSelector, WorkflowKey, with_request_bytes};
pub use start_limits::StartRefusal;
pub use starts::{SignalWithStart, StartOutcome};
pub use tokens::{ActivityToken, QueryToken, TaskToken, Token, TokenError};
pub use update_with_start::{StartedAndUpdated, WithStartError};
pub use updates::{UpdateReply, UpdateStage, WaitFor};
pub use visibility::{FoundRun, FoundRuns, kind_of, state_facts};
pub use workers::{BadWorkerQuery, CONTROL_QUEUES, Caller, Heartbeats, LeaseView, WorkerQuery, Workers};
