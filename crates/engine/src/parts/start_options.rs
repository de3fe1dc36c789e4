//! What a run is started with.

use prost_types::Duration;
use segno_proto::{
    Nanos,
    common::{
        Callback, Header, Link, Memo, Payloads, Priority, RetryPolicy, SearchAttributes, WorkflowExecution,
        WorkflowType,
    },
    deployment::WorkerDeploymentVersion,
    duration_nanos,
    enums::{ContinueAsNewInitiator, WorkflowIdConflictPolicy, WorkflowIdReusePolicy},
    failure::Failure,
    nanos_duration,
    sdk::UserMetadata,
    taskqueue::TaskQueue,
    workflow::{OnConflictOptions, ResetPointInfo, VersioningOverride},
};

use crate::{
    parts::{schedule::advance::NewSchedule, standalone::begin::NewStandalone, standalone_nexus::NewOperation},
    state::{Parent, ScheduledBy, earlier_updates::EarlierUpdates, script::Version, versioning::InheritedVersioning},
    validate::{effective_run_timeout, effective_task_timeout},
};

/// The options with which a client, a parent, a schedule or the run before it starts a run.
#[derive(Clone, Debug, Default)]
pub struct StartOptions {
    /// The namespace's name.
    pub namespace: String,
    /// The user's name for the workflow.
    pub workflow_id: String,
    /// Its type.
    pub workflow_type: Option<WorkflowType>,
    /// The queue of its workflow tasks.
    pub task_queue: Option<TaskQueue>,
    /// Its input.
    pub input: Option<Payloads>,
    /// Time allowed for the whole chain of runs.
    pub workflow_execution_timeout: Option<Duration>,
    /// Time allowed for the run.
    pub workflow_run_timeout: Option<Duration>,
    /// Time allowed for a workflow task.
    pub workflow_task_timeout: Option<Duration>,
    /// Who starts it.
    pub identity: String,
    /// Recognises a repeated start.
    pub request_id: String,
    /// The policy for a closed run under the same workflow id.
    pub reuse_policy: WorkflowIdReusePolicy,
    /// The policy for an open run under the same workflow id.
    pub conflict_policy: WorkflowIdConflictPolicy,
    /// The links and callbacks that are attached to an open run that is used instead.
    pub on_conflict: Option<OnConflictOptions>,
    /// How a failed run is retried.
    pub retry_policy: Option<RetryPolicy>,
    /// Cron schedule, or empty.
    pub cron_schedule: String,
    /// Memo.
    pub memo: Option<Memo>,
    /// Search attributes.
    pub search_attributes: Option<SearchAttributes>,
    /// Header.
    pub header: Option<Header>,
    /// Whether the starter wants the first workflow task with the answer.
    pub eager: bool,
    /// The version of the starter's worker, if it uses versioning.
    pub eager_version: Option<WorkerDeploymentVersion>,
    /// How the run failed that this one continues, as its starter tells.
    pub continued_failure: Option<Failure>,
    /// The result of the last completed run, as the starter gave it.
    pub last_completion_result: Option<Payloads>,
    /// How long the first workflow task is held back.
    pub start_delay: Option<Duration>,
    /// Carried.
    pub completion_callbacks: Vec<Callback>,
    /// Summary and details.
    pub user_metadata: Option<UserMetadata>,
    /// Links of the first event.
    pub links: Vec<Link>,
    /// The version to which its workflow tasks go; it goes before what workers declare.
    pub versioning_override: Option<VersioningOverride>,
    /// The versioning that it has from its parent, or from the run before it.
    pub inherited: Option<Box<InheritedVersioning>>,
    /// Priority of its tasks.
    pub priority: Option<Priority>,
    /// The schedule that waits for its end.
    pub scheduled_by: Option<Box<ScheduledBy>>,
    /// The schedule that it is, if it is no workflow.
    pub schedule: Option<Box<NewSchedule>>,
    /// The standalone activity that it is, if it is no workflow.
    pub standalone: Option<Box<NewStandalone>>,
    /// The standalone Nexus operation that it is, if it is no workflow.
    pub operation: Option<Box<NewOperation>>,
}

impl StartOptions {
    /// Whether the run is an activity or a Nexus operation without a workflow.
    pub fn is_standalone(&self) -> bool {
        self.standalone.is_some() || self.operation.is_some()
    }
}

/// A start, checked, with what the server adds to it.
#[derive(Clone, Debug)]
pub struct Start {
    /// The options of the caller.
    pub options: StartOptions,
    /// The namespace's number.
    pub namespace_key: u32,
    /// The namespace's id.
    pub namespace_id: String,
    /// How long the namespace keeps closed runs.
    pub retention: Nanos,
    /// Who wants a child.
    pub parent: Option<Parent>,
    /// The top of the tree, for children.
    pub root: Option<WorkflowExecution>,
    /// The place of the run in its chain, from the run before it.
    pub chain: Option<Chain>,
    /// Whether its task queue was named, and is not that of its parent.
    pub names_queue: bool,
    /// The version of the script that executes it, if one does.
    pub script: Option<Version>,
}

impl Start {
    /// The start of a run that has no parent, follows no other run and is not a script.
    pub fn new(namespace_key: u32, namespace_id: String, retention: Nanos, options: StartOptions) -> Self {
        Self {
            options,
            namespace_key,
            namespace_id,
            retention,
            parent: None,
            root: None,
            chain: None,
            names_queue: true,
            script: None,
        }
    }
}

/// The data that a run leaves to the one that follows it.
#[derive(Clone, Debug)]
pub struct Chain {
    /// The run before.
    pub previous_run_id: String,
    /// The first run.
    pub first_run_id: String,
    /// Why there is another run.
    pub initiator: ContinueAsNewInitiator,
    /// Which attempt of a retried workflow this is.
    pub attempt: i32,
    /// How the run before failed.
    pub failure: Option<Failure>,
    /// The result of the last completed run.
    pub last_completion_result: Option<Payloads>,
    /// How long the first task is held back, if at all.
    pub backoff: Option<Nanos>,
    /// When the whole chain must be over; 0 is never.
    pub execution_deadline: Nanos,
    /// When the chain began.
    pub original_start_time: Nanos,
    /// Points to reset to, of all runs so far.
    pub reset_points: Vec<ResetPointInfo>,
    /// Links of the first event.
    pub links: Vec<Link>,
    /// The newest updates that the runs so far completed.
    pub earlier_updates: Option<Box<EarlierUpdates>>,
}

/// Timeouts as the server keeps them: the run within the execution, the task within the run and two minutes.
pub fn clamp_timeouts(options: &mut StartOptions) {
    let execution = duration_nanos(options.workflow_execution_timeout.as_ref());
    let run = duration_nanos(options.workflow_run_timeout.as_ref());
    let clamped = effective_run_timeout(run, execution);
    if clamped != run {
        options.workflow_run_timeout = Some(nanos_duration(clamped));
    }
    let task = duration_nanos(options.workflow_task_timeout.as_ref());
    let clamped_task = effective_task_timeout(task, clamped);
    if clamped_task != task {
        options.workflow_task_timeout = Some(nanos_duration(clamped_task));
    }
}
