//! A run: the part fixed at its start ([`RunInfo`]) and the part that changes ([`RunState`]).
//!
//! Both are protobuf messages written by hand, because they are stored as such: a tag, once used, is never reused for
//! another field. There is no logic here; it is in the state machines of the neighbouring modules.

pub mod activity;
pub mod earlier_updates;
pub mod finished_updates;
pub(crate) mod machines;
pub mod nexus;
pub mod outbox;
pub mod run;
pub mod schedule;
pub mod script;
pub mod signal_ids;
pub mod standalone;
pub mod standalone_nexus;
pub mod updates;
pub mod versioning;
pub(crate) mod wake_set;

use std::collections::BTreeMap;

use crate::shared::Shared;

use bytes::Bytes;
use segno_proto::{
    Nanos,
    common::{Callback, Link, Payload, Priority, RetryPolicy, WorkerVersionStamp, WorkflowExecution},
    enums::WorkflowExecutionStatus,
    events::HistoryEvent,
    failure::Failure,
    sdk::UserMetadata,
    workflow::{ResetPointInfo, VersioningOverride},
};

use earlier_updates::EarlierUpdates;
use nexus::Operation;
use schedule::ScheduleRun;
use standalone::StandaloneRun;
use standalone_nexus::StandaloneNexus;
use versioning::Versioning;

pub use activity::{Activity, PauseInfo};
pub use script::{Script, ScriptCheckpoint, ScriptGroup, ScriptMove, ScriptOperation, ScriptWakeSet};

/// The part of a run that is known from its first moment on and never changes.
#[derive(Clone, PartialEq, prost::Message)]
pub struct RunInfo {
    /// The number storage knows the run by.
    #[prost(uint64, tag = "1")]
    pub run_key: u64,
    /// The namespace's number.
    #[prost(uint32, tag = "2")]
    pub namespace_key: u32,
    /// The namespace's id as clients see it.
    #[prost(string, tag = "3")]
    pub namespace_id: String,
    /// The namespace's name.
    #[prost(string, tag = "4")]
    pub namespace: String,
    /// The user's name for the workflow.
    #[prost(string, tag = "5")]
    pub workflow_id: String,
    /// This run's id.
    #[prost(string, tag = "6")]
    pub run_id: String,
    /// The first run of the chain that continue-as-new, retries and cron make.
    #[prost(string, tag = "7")]
    pub first_run_id: String,
    /// Name of the workflow type.
    #[prost(string, tag = "8")]
    pub workflow_type: String,
    /// The queue workflow tasks go to when no worker holds the run in its cache.
    #[prost(string, tag = "9")]
    pub task_queue: String,
    /// Time allowed for the whole chain of runs; 0 is unlimited.
    #[prost(int64, tag = "10")]
    pub execution_timeout: Nanos,
    /// Time allowed for this run; 0 is unlimited.
    #[prost(int64, tag = "11")]
    pub run_timeout: Nanos,
    /// Time a worker has for one workflow task.
    #[prost(int64, tag = "12")]
    pub task_timeout: Nanos,
    /// How a failed run is retried.
    #[prost(message, optional, tag = "13")]
    pub retry_policy: Option<RetryPolicy>,
    /// Cron schedule, or empty.
    #[prost(string, tag = "14")]
    pub cron_schedule: String,
    /// Counts the runs of a retry chain, from 1.
    #[prost(int32, tag = "15")]
    pub attempt: i32,
    /// When the run was created.
    #[prost(int64, tag = "16")]
    pub start_time: Nanos,
    /// When the chain must be over; 0 is never.
    #[prost(int64, tag = "17")]
    pub execution_deadline: Nanos,
    /// When the run must be over; 0 is never.
    #[prost(int64, tag = "18")]
    pub run_deadline: Nanos,
    /// How long the first workflow task is held back.
    #[prost(int64, tag = "19")]
    pub first_task_backoff: Nanos,
    /// The run that started this one as its child.
    #[prost(message, optional, tag = "20")]
    pub parent: Option<Parent>,
    /// The top of the tree of parents.
    #[prost(message, optional, tag = "21")]
    pub root: Option<WorkflowExecution>,
    /// Request id of the call that created the run.
    #[prost(string, tag = "22")]
    pub create_request_id: String,
    /// Summary and details given at the start.
    #[prost(message, optional, tag = "23")]
    pub user_metadata: Option<UserMetadata>,
    /// Priority of the run's tasks.
    #[prost(message, optional, tag = "24")]
    pub priority: Option<Priority>,
    /// The versioning override in runs of older versions; read, not written. See [`versioning::Versioning`].
    #[prost(message, optional, tag = "25")]
    pub old_versioning_override: Option<VersioningOverride>,
    /// When the chain's first run was created.
    #[prost(int64, tag = "26")]
    pub original_start_time: Nanos,
    /// Links of the first event.
    #[prost(message, repeated, tag = "27")]
    pub links: Vec<Link>,
    /// Whether a run timeout was given, be it zero.
    #[prost(bool, tag = "28")]
    pub run_timeout_given: bool,
    /// Whether an execution timeout was given, be it zero.
    #[prost(bool, tag = "41")]
    pub execution_timeout_given: bool,
    /// How long the namespace keeps closed runs.
    #[prost(int64, tag = "29")]
    pub retention: Nanos,
    /// The schedule that waits for the end of this run's chain.
    #[prost(message, optional, boxed, tag = "40")]
    pub scheduled_by: Option<Box<ScheduledBy>>,
    /// Whether there was a versioning override at some time, in runs of older versions; read, not written.
    #[prost(bool, tag = "30")]
    pub old_was_overridden: bool,
    /// The newest updates that earlier runs of the chain completed, if they completed any. A retry and a continue-as-new hand them
    /// on, a cron schedule does not.
    #[prost(message, optional, boxed, tag = "42")]
    pub earlier_updates: Option<Box<EarlierUpdates>>,
}

impl RunInfo {
    /// Workflow id and run id as the wire has them.
    pub fn execution(&self) -> WorkflowExecution {
        WorkflowExecution { workflow_id: self.workflow_id.clone(), run_id: self.run_id.clone() }
    }

    /// Whether another run may follow this one by itself, so that its start event is needed when it closes.
    pub fn may_repeat(&self) -> bool {
        self.retry_policy.is_some() || !self.cron_schedule.is_empty()
    }

    /// When the first workflow task is due.
    pub fn execution_time(&self) -> Nanos {
        self.start_time + self.first_task_backoff
    }
}

/// The schedule that started a run, and which of its starts it was.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ScheduledBy {
    /// The namespace.
    #[prost(string, tag = "1")]
    pub namespace: String,
    /// The run of the schedule.
    #[prost(message, required, tag = "2")]
    pub execution: WorkflowExecution,
    /// The number of the start.
    #[prost(uint64, tag = "3")]
    pub number: u64,
}

/// The run that started a child.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Parent {
    /// The parent's namespace.
    #[prost(uint32, tag = "1")]
    pub namespace_key: u32,
    /// Its id.
    #[prost(string, tag = "2")]
    pub namespace_id: String,
    /// Its name.
    #[prost(string, tag = "3")]
    pub namespace: String,
    /// The parent itself.
    #[prost(message, required, tag = "4")]
    pub execution: WorkflowExecution,
    /// The event by which the parent asked for this child.
    #[prost(int64, tag = "5")]
    pub initiated_event_id: i64,
}

/// The part of a run that changes while it lives.
#[derive(Clone, PartialEq, prost::Message)]
pub struct RunState {
    /// Open, or how it closed.
    #[prost(enumeration = "WorkflowExecutionStatus", tag = "1")]
    pub status: i32,
    /// Id of the next event.
    #[prost(int64, tag = "2")]
    pub next_event_id: i64,
    /// The pending workflow task.
    #[prost(message, optional, tag = "3")]
    pub task: Option<WorkflowTask>,
    /// The attempt the next workflow task will be; 1 unless the last one failed.
    #[prost(int32, tag = "4")]
    pub next_task_attempt: i32,
    /// Numbers workflow tasks, so that a stale offer is recognised.
    #[prost(uint32, tag = "5")]
    pub task_stamp: u32,
    /// Started event of the last completed workflow task; 0 before the first.
    #[prost(int64, tag = "6")]
    pub last_completed_started_id: i64,
    /// When a held-back first workflow task is due; 0 once it was scheduled.
    #[prost(int64, tag = "7")]
    pub first_task_due: Nanos,
    /// The queue of the worker that holds the run in its cache.
    #[prost(message, optional, tag = "8")]
    pub sticky: Option<Sticky>,
    /// Pending activities by the id of their scheduled event.
    #[prost(btree_map = "int64, message", tag = "9")]
    pub activities: BTreeMap<i64, Shared<Activity>>,
    /// Pending timers by their id.
    #[prost(btree_map = "string, message", tag = "10")]
    pub timers: BTreeMap<String, Timer>,
    /// Pending children by the id of their initiated event.
    #[prost(btree_map = "int64, message", tag = "11")]
    pub children: BTreeMap<i64, Child>,
    /// Cancel requests under way to other workflows, by initiated event.
    #[prost(btree_map = "int64, message", tag = "12")]
    pub external_cancels: BTreeMap<i64, External>,
    /// Signals under way to other workflows, by initiated event.
    #[prost(btree_map = "int64, message", tag = "13")]
    pub external_signals: BTreeMap<i64, External>,
    /// Request ids of signals in states of older versions; read, not written.
    #[prost(string, repeated, tag = "14")]
    pub old_signal_request_ids: Vec<String>,
    /// Events that wait for the started workflow task to end; their ids are not final.
    #[prost(message, repeated, tag = "15")]
    pub buffered: Vec<HistoryEvent>,
    /// Current memo.
    #[prost(btree_map = "string, message", tag = "16")]
    pub memo: BTreeMap<String, Payload>,
    /// Current search attributes.
    #[prost(btree_map = "string, message", tag = "17")]
    pub search_attributes: BTreeMap<String, Payload>,
    /// Whether cancellation was requested.
    #[prost(bool, tag = "18")]
    pub cancel_requested: bool,
    /// Request id of the cancellation.
    #[prost(string, tag = "19")]
    pub cancel_request_id: String,
    /// Signals received so far.
    #[prost(int64, tag = "20")]
    pub signal_count: i64,
    /// Bytes of history so far.
    #[prost(int64, tag = "21")]
    pub history_bytes: i64,
    /// When the run closed.
    #[prost(int64, tag = "22")]
    pub close_time: Nanos,
    /// A closing command was refused because of buffered events; new signals wait until it went through.
    #[prost(bool, tag = "23")]
    pub close_attempted: bool,
    /// Numbers the run's outbox rows.
    #[prost(uint32, tag = "24")]
    pub outbox_sequence: u32,
    /// Version stamp of the worker that last completed a workflow task.
    #[prost(message, optional, tag = "25")]
    pub worker_version: Option<WorkerVersionStamp>,
    /// Points a run can be reset to, one per build of the worker.
    #[prost(message, repeated, tag = "26")]
    pub reset_points: Vec<ResetPointInfo>,
    /// Transitions made durable so far.
    #[prost(int64, tag = "27")]
    pub transitions: i64,
    /// Request ids attached to this run by later starts: request id to event id (0 while buffered).
    #[prost(btree_map = "string, int64", tag = "28")]
    pub attached_request_ids: BTreeMap<String, i64>,
    /// Workflow task failures since the last success.
    #[prost(int32, tag = "29")]
    pub failures_since_success: i32,
    /// The run that follows this one (continue-as-new, retry, cron).
    #[prost(string, tag = "30")]
    pub successor_run_id: String,
    /// The closing event, kept for the message to the parent and the answer to a duplicate start.
    #[prost(int64, tag = "31")]
    pub close_event_id: i64,
    /// Why the last workflow task failed, if none succeeded since.
    #[prost(string, tag = "32")]
    pub last_task_failure: String,
    /// Updates that left a trace in history, by id. In memory the completed ones are kept apart, see
    /// [`crate::state::finished_updates::FinishedUpdates`].
    #[prost(btree_map = "string, message", tag = "33")]
    pub updates: BTreeMap<String, UpdateRecord>,
    /// The run this one was reset to.
    #[prost(string, tag = "34")]
    pub reset_run_id: String,
    /// When this run began as the reset of another; 0 if it did not.
    #[prost(int64, tag = "36")]
    pub last_reset_time: Nanos,
    /// Deployment of the worker that last completed a workflow task, if it said so.
    #[prost(string, tag = "35")]
    pub worker_deployment_name: String,
    /// The newest signals by their request ids, see [`crate::state::signal_ids`].
    #[prost(bytes = "bytes", tag = "37")]
    pub signal_ids: Bytes,
    /// Set if the run is a script, see [`crate::parts::script`].
    #[prost(message, optional, tag = "38")]
    pub script: Option<Script>,
    /// Digest of the request that completed the last workflow task, see [`crate::calls::repeats`]; 0 is none.
    #[prost(fixed64, tag = "39")]
    pub completion_digest: u64,
    /// The reply to that request, unless it was empty.
    #[prost(message, optional, boxed, tag = "40")]
    pub completion_reply: Option<Box<CompletionReply>>,
    /// Digests of the requests that brought the newest results of activities, 8 bytes each.
    #[prost(bytes = "bytes", tag = "41")]
    pub result_digests: Bytes,
    /// Set if the run is a schedule, see [`crate::parts::schedule`].
    #[prost(message, optional, boxed, tag = "60")]
    pub schedule: Option<Box<ScheduleRun>>,
    /// Set if the run is a standalone activity, see [`crate::parts::standalone`].
    #[prost(message, optional, boxed, tag = "61")]
    pub standalone: Option<Box<StandaloneRun>>,
    /// Set if the run is a standalone Nexus operation, see [`crate::parts::standalone_nexus`].
    #[prost(message, optional, boxed, tag = "62")]
    pub standalone_nexus: Option<Box<StandaloneNexus>>,
    /// The last failure of a workflow task that was reported, if no task succeeded since. A later time-out does not
    /// replace it.
    #[prost(message, optional, boxed, tag = "70")]
    pub reported_failure: Option<Box<ReportedFailure>>,
    /// Completion callbacks, see [`crate::parts::callbacks`].
    #[prost(message, repeated, tag = "71")]
    pub callbacks: Vec<RegisteredCallback>,
    /// Who paused the run, if it is paused, or was when it closed; see [`crate::parts::pause_info`].
    #[prost(message, optional, boxed, tag = "72")]
    pub pause: Option<Box<PauseInfo>>,
    /// The versioning of the run, if it has ever had to do with versions of workers.
    #[prost(message, optional, boxed, tag = "73")]
    pub versioning: Option<Box<Versioning>>,
    /// Pending Nexus operations by the id of their scheduled event.
    #[prost(btree_map = "int64, message", tag = "74")]
    pub operations: BTreeMap<i64, Shared<Operation>>,
    /// The newest Nexus operations that ended while a worker had a request of them: its answer changes nothing.
    #[prost(int64, repeated, tag = "75")]
    pub overtaken_requests: Vec<i64>,
}

/// A completion callback that the start of a run brought, a later start that was attached to it, or an update.
#[derive(Clone, PartialEq, prost::Message)]
pub struct RegisteredCallback {
    /// Where the end is reported.
    #[prost(message, optional, tag = "1")]
    pub callback: Option<Callback>,
    /// When it was registered.
    #[prost(int64, tag = "2")]
    pub time: Nanos,
    /// How far its delivery is.
    #[prost(enumeration = "CallbackState", tag = "3")]
    pub state: i32,
    /// Attempts that have ended.
    #[prost(int32, tag = "4")]
    pub attempts: i32,
    /// When the last attempt ended.
    #[prost(int64, tag = "5")]
    pub last_attempt_end: Nanos,
    /// How it failed.
    #[prost(message, optional, tag = "6")]
    pub last_failure: Option<Failure>,
    /// When the next attempt is due.
    #[prost(int64, tag = "7")]
    pub due_time: Nanos,
    /// The request that brought it.
    #[prost(string, tag = "8")]
    pub request_id: String,
    /// The update whose end it reports; empty if it reports that of the run.
    #[prost(string, tag = "9")]
    pub update_id: String,
}

/// How far the delivery of a callback is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum CallbackState {
    /// The run is open, or another one has its callbacks now.
    Standby = 0,
    /// It is on its way.
    Scheduled = 1,
    /// An attempt failed, and the next one is not due.
    BackingOff = 2,
    /// It failed for good.
    Failed = 3,
    /// It was delivered.
    Succeeded = 4,
}

impl RunState {
    /// Whether the run is still open, be it paused.
    pub fn is_running(&self) -> bool {
        self.status == WorkflowExecutionStatus::Running as i32 || self.is_paused()
    }

    /// Whether the run is open and paused.
    pub fn is_paused(&self) -> bool {
        self.status == WorkflowExecutionStatus::Paused as i32
    }

    /// Whether the run is a schedule, which has no workflow tasks.
    pub fn is_schedule(&self) -> bool {
        self.schedule.is_some()
    }

    /// Whether the run is an activity or a Nexus operation without a workflow; it has no workflow tasks.
    pub fn is_standalone(&self) -> bool {
        self.standalone.is_some() || self.standalone_nexus.is_some()
    }

    /// Whether a worker holds a workflow task right now.
    pub fn task_started(&self) -> bool {
        self.task.as_ref().is_some_and(|task| task.started_event_id != 0)
    }
}

/// The one pending workflow task: scheduled, or started.
#[derive(Clone, PartialEq, prost::Message)]
pub struct WorkflowTask {
    /// Normal or speculative; a normal task with `attempt > 1` is transient.
    #[prost(enumeration = "TaskKind", tag = "1")]
    pub kind: i32,
    /// Id of its scheduled event (not in history yet while transient or speculative).
    #[prost(int64, tag = "2")]
    pub scheduled_event_id: i64,
    /// Id of its started event; 0 while it waits for a worker.
    #[prost(int64, tag = "3")]
    pub started_event_id: i64,
    /// From 1.
    #[prost(int32, tag = "4")]
    pub attempt: i32,
    /// When it was scheduled.
    #[prost(int64, tag = "5")]
    pub scheduled_time: Nanos,
    /// When it was started; part of the token.
    #[prost(int64, tag = "6")]
    pub started_time: Nanos,
    /// When the first of a chain of heartbeat tasks was scheduled.
    #[prost(int64, tag = "7")]
    pub original_scheduled_time: Nanos,
    /// Time the worker has.
    #[prost(int64, tag = "8")]
    pub start_to_close: Nanos,
    /// Time it may wait for a worker; 0 is unlimited.
    #[prost(int64, tag = "9")]
    pub schedule_to_start: Nanos,
    /// The queue it was put on.
    #[prost(string, tag = "10")]
    pub queue: String,
    /// Whether that is a sticky queue.
    #[prost(bool, tag = "11")]
    pub sticky: bool,
    /// Recognises this very task among those with the same ids.
    #[prost(uint32, tag = "12")]
    pub stamp: u32,
    /// Request id of the start.
    #[prost(string, tag = "13")]
    pub request_id: String,
    /// Whether its started event suggests to continue as new.
    #[prost(bool, tag = "14")]
    pub suggest_continue_as_new: bool,
    /// Why.
    #[prost(int32, repeated, tag = "15")]
    pub suggest_reasons: Vec<i32>,
    /// History size that the worker received.
    #[prost(int64, tag = "16")]
    pub history_bytes: i64,
    /// Identity of the worker that started it.
    #[prost(string, tag = "17")]
    pub identity: String,
    /// Version the worker started it with.
    #[prost(message, optional, tag = "18")]
    pub worker_version: Option<WorkerVersionStamp>,
    /// The worker process that has it, as it names itself; empty if it does not.
    #[prost(string, tag = "19")]
    pub worker: String,
    /// Whether its started event says that the target of a pinned run has changed.
    #[prost(bool, tag = "20")]
    pub target_changed: bool,
}

impl WorkflowTask {
    /// Attempt after a failure: its events are written only when it completes.
    pub fn is_transient(&self) -> bool {
        self.attempt > 1
    }
}

/// The failure of a workflow task, as it was reported.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ReportedFailure {
    /// Why.
    #[prost(enumeration = "segno_proto::enums::WorkflowTaskFailedCause", tag = "1")]
    pub cause: i32,
    /// The failure that was reported, shortened.
    #[prost(message, optional, tag = "2")]
    pub failure: Option<Failure>,
    /// When.
    #[prost(int64, tag = "3")]
    pub time: Nanos,
    /// Who reported it.
    #[prost(string, tag = "4")]
    pub identity: String,
}

/// The reply to the completion of a workflow task, for the case that the same completion comes again.
#[derive(Clone, PartialEq, prost::Message)]
pub struct CompletionReply {
    /// Why the task failed nevertheless; 0 if it did not.
    #[prost(int32, tag = "1")]
    pub failure_cause: i32,
    /// The mistake.
    #[prost(string, tag = "2")]
    pub failure_message: String,
    /// Whether that ended the run.
    #[prost(bool, tag = "3")]
    pub terminated: bool,
    /// It came too late in a chain of heartbeats.
    #[prost(bool, tag = "4")]
    pub heartbeat_timed_out: bool,
    /// The event to which the worker was to go back; 0 if nothing was discarded.
    #[prost(int64, tag = "5")]
    pub reset_history_event_id: i64,
    /// When the task that came with the reply was started; 0 if none came.
    #[prost(int64, tag = "6")]
    pub task_started_time: Nanos,
    /// Updates that came with it.
    #[prost(string, repeated, tag = "7")]
    pub updates: Vec<String>,
    /// Activities that came with the reply, by their scheduled events.
    #[prost(int64, repeated, tag = "8")]
    pub activities: Vec<i64>,
    /// When these were started.
    #[prost(int64, tag = "9")]
    pub activities_started_time: Nanos,
}

/// Where history speaks of an update.
#[derive(Clone, PartialEq, prost::Message)]
pub struct UpdateRecord {
    /// The event that admitted it, if one did; negative while that event is buffered.
    #[prost(int64, tag = "1")]
    pub admitted_event_id: i64,
    /// The event that accepted it; 0 before.
    #[prost(int64, tag = "2")]
    pub accepted_event_id: i64,
    /// The event that completed it; 0 before.
    #[prost(int64, tag = "3")]
    pub completed_event_id: i64,
    /// Why it was refused, if it was after an event had admitted it.
    #[prost(message, optional, tag = "4")]
    pub rejection: Option<Failure>,
}

impl UpdateRecord {
    /// Whether nothing more will happen to it.
    pub fn is_finished(&self) -> bool {
        self.completed_event_id > 0 || self.rejection.is_some()
    }

    /// Whether a worker accepted it and has not completed it.
    pub fn is_accepted(&self) -> bool {
        self.accepted_event_id > 0 && self.completed_event_id == 0
    }
}

/// How far a workflow task's events are from history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum TaskKind {
    /// Scheduled durably.
    Normal = 0,
    /// Known in memory alone until it must be stored.
    Speculative = 1,
}

/// The queue of the worker that holds a run in its cache.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Sticky {
    /// Its name.
    #[prost(string, tag = "1")]
    pub queue: String,
    /// How long a task may wait there.
    #[prost(int64, tag = "2")]
    pub schedule_to_start: Nanos,
}

/// A pending timer.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Timer {
    /// Id of its started event.
    #[prost(int64, tag = "1")]
    pub started_event_id: i64,
    /// When it fires.
    #[prost(int64, tag = "2")]
    pub fire_at: Nanos,
}

/// A pending child.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Child {
    /// Id of its initiated event.
    #[prost(int64, tag = "1")]
    pub initiated_event_id: i64,
    /// Id of its started event; 0 before.
    #[prost(int64, tag = "2")]
    pub started_event_id: i64,
    /// Its workflow id.
    #[prost(string, tag = "3")]
    pub workflow_id: String,
    /// Its first run; empty before it started.
    #[prost(string, tag = "4")]
    pub run_id: String,
    /// Its type.
    #[prost(string, tag = "5")]
    pub workflow_type: String,
    /// Its namespace.
    #[prost(string, tag = "6")]
    pub namespace: String,
    /// Its namespace's id.
    #[prost(string, tag = "7")]
    pub namespace_id: String,
    /// The policy for it when the parent closes.
    #[prost(int32, tag = "8")]
    pub parent_close_policy: i32,
}

/// A signal or cancel request under way to another workflow.
#[derive(Clone, PartialEq, prost::Message)]
pub struct External {
    /// Target namespace.
    #[prost(string, tag = "1")]
    pub namespace: String,
    /// Its id.
    #[prost(string, tag = "2")]
    pub namespace_id: String,
    /// The target.
    #[prost(message, required, tag = "3")]
    pub execution: WorkflowExecution,
    /// Carried for the sender.
    #[prost(string, tag = "4")]
    pub control: String,
}
