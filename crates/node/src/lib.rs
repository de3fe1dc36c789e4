//! A node: starts, supervises and stops its parts. It re-exports their public items for its users.

mod node;

pub use node::Node;
pub use segno_cluster::{
    ChangedNodes, ClientCalls, Cluster, ForwardError, Forwarded, LinkMetrics, NodeIdentity, Peers, Topology,
};
pub use segno_deployments::{
    Deployment as WorkerDeployment, DeploymentError, DeploymentLimits, DrainageView, MemberQueue, PinnedCounts,
    QueueType, Version as WorkerVersion, calls, names,
};
pub use segno_dispatch::{
    CompletedTask, Delivery, Dispatch, ForwardedCall, Poll, Polled, QueueGauge, StartedActivity, StartedTask,
    WorkerTask,
};
pub use segno_engine::activity::Sdk;
pub use segno_engine::lease::LeaseSettings;
pub use segno_engine::limits::Limits;
pub use segno_environment::{
    Clock, ConnectionId, DatabaseClock, Environment, Family, HashMap, Health, HealthChanges, Histogram, Latency,
    Metrics, NotLocked, RuntimeClock, SkippingClock, SystemClock,
    environment::{Connection, Listener, Network, NetworkFuture, Random, Threads},
    hash::seed_thread,
    ids::Ids,
    lock,
};
pub use segno_matching::{
    LimitSource, Matching, Poller, PollerVersion, QueryTask, QueueKey, QueueKind, QueueService, QueueStats, RemoteTask,
    TaskOffer, WorkerCommandTask,
};
pub use segno_runs::ports::{PortFuture, owner::Place};
pub use segno_runs::{
    AccessKey, AccessKeys, ActivityToken, BatchInfo, BatchPlan, BatchStep, BatchSteps, BatchTarget, CallError,
    CallLimits, CompletionPages, Current, CustomAttribute, FoundRun, FoundRuns, HistoryPage, HistoryView, ListCaller,
    ListPosition, MoveError, Moved, Namespace, NamespaceDetail, NamespaceName, Namespaces, NewBatch, NewKeyError,
    NewNamespace, NodeOptions, PAGES_MAX, PagesLost, QueryAnswer, QueryFailure, QueryReply, QueryToken, RULES_MAX,
    RunSelector, Runs, SignalWithStart, StartOutcome, StartRefusal, StartedAndUpdated, Step, StepError,
    TASK_PAGES_BYTES_MAX, TaskToken, Token, TokenError, UpdateReply, UpdateStage, Uses, WaitFor, WithStartError,
    WorkflowKey, export, import, kind_of, state_facts, step_id, with_request_bytes,
};
pub use segno_scripts::{
    Activation, CheckedScript, Deployment, MoveCall, MovedRun, ScriptError, ScriptInfo, ScriptRunView, Scripts, Source,
    VersionRecord,
};
pub use segno_store::cluster::Member;
pub use segno_workers::{BadWorkerQuery, CONTROL_QUEUES, Caller, Heartbeats, LeaseView, WorkerQuery, Workers};
