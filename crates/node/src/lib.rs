//! A node: starts, supervises and stops its parts. It re-exports their public items for its users.

mod node;

pub use node::Node;
pub use segno_cluster::{
    ChangedNodes, ClientCalls, Cluster, ForwardError, ForwardedReply, LinkMetrics, NodeIdentity, Peers, Topology,
};
pub use segno_deployments::{
    Deployment as WorkerDeployment, DeploymentError, DeploymentLimits, DrainageView, MemberQueue, PinnedCounts,
    QueueType, Version as WorkerVersion, calls, named_version, names,
};
pub use segno_dispatch::{
    CallAnswer, CompletedTask, DIRECT_CALLS_MAX, Delivery, DirectCall, DirectCallError, Dispatch, ForwardedCall, Poll,
    PollOutcome, QueueGauge, StartedActivity, StartedCall, StartedNexusTask, StartedRequest, StartedTask,
    TrialCandidate, TrialFailure, TrialOutcome, VersionGauge, WorkerTask, failure_type, route_of, trial_task_events,
};
pub use segno_engine::activity::Sdk;
pub use segno_engine::lease::LeaseSettings;
pub use segno_engine::limits::Limits;
pub use segno_environment::{
    Clock, ConnectionId, DatabaseClock, Environment, FairQueues, Family, HashMap, Health, HealthChanges, Histogram,
    Latency, Metrics, NotLocked, RuntimeClock, SkippingClock, SystemClock,
    environment::{Connection, Listener, Network, NetworkFuture, Random, Threads},
    hash::seed_thread,
    ids::Ids,
    lock,
};
pub use segno_http_sender::{
    AllowedTargets, BLOCKED_REASON, BadPattern, CallbackUrl, HttpSettings, RefusedTarget, Sender as HttpSender,
};
pub use segno_matching::{
    CALL_AGE_MAX, LaneService, LimitSource, Matching, Poller, PollerVersion, QueryTask, QueueKey, QueueKind,
    QueueService, QueueStats, RemoteTask, TaskOffer, TaskRoute, WorkerCommandTask,
};
pub use segno_operations::{
    AccessKey, AccessKeys, BatchInfo, BatchPlan, BatchStep, BatchSteps, BatchTarget, Batches, ExportCounts, MoveError,
    NamespaceOperations, NewBatch, NewKeyError, NewVerification, Step, StepError, TrialFuture, Trials,
    VerificationError, Verifications, export, import, step_id, verification,
};
pub use segno_runs::endpoints::{Endpoint, EndpointError, EndpointSpec, EndpointTarget, Endpoints, WorkerTarget};
pub use segno_runs::ports::{PortFuture, SystemCall, SystemOperations, owner::Place};
pub use segno_runs::{
    ActivityToken, CallError, CallLimits, CallbackToken, CompletionError, CompletionPages, Current, CustomAttribute,
    FoundRun, FoundRuns, HistoryPage, HistoryView, ListCaller, ListPosition, Namespace, NamespaceDetail, NamespaceName,
    Namespaces, NewNamespace, NexusCallToken, NexusTaskToken, NodeOptions, PAGES_MAX, PagesLost, QueryAnswer,
    QueryFailure, QueryReply, QueryToken, RULES_MAX, RunSelector, Runs, SignalWithStart, Standalone, StartOutcome,
    StartRefusal, StartedAndUpdated, TASK_PAGES_BYTES_MAX, TaskToken, Token, TokenError, UpdateReply, UpdateStage,
    Uses, WaitFor, WithStartError, WorkflowKey, kind_of, state_facts, with_request_bytes,
};
pub use segno_scripts::{
    Activation, CheckedScript, Deployment, MoveCall, MovedRun, ScriptError, ScriptInfo, ScriptRunView, Scripts, Source,
    VersionRecord,
};
pub use segno_store::cluster::Member;
pub use segno_workers::{BadWorkerQuery, CONTROL_QUEUES, Caller, Heartbeats, LeaseView, WorkerQuery, Workers};
