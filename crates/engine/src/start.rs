//! The beginning of a run, and what to do when its workflow id is taken.

use std::sync::Arc;

use segno_proto::{
    Nanos,
    common::{Link, Payloads, SearchAttributes, WorkflowExecution},
    duration_nanos,
    enums::{
        ContinueAsNewInitiator, TaskQueueKind, WorkflowExecutionStatus, WorkflowIdConflictPolicy, WorkflowIdReusePolicy,
    },
    events::{WorkflowExecutionStartedEventAttributes, history_event::Attributes},
    failure::Failure,
    nanos_duration, nanos_timestamp,
    workflow::{ResetPointInfo, ResetPoints},
    workflowservice::StartWorkflowExecutionRequest,
};

use crate::{
    cron,
    draft::{Draft, event},
    error::Rejection,
    run::{Applied, Context, Run},
    signal::{self, Signal},
    state::{Parent, RunInfo, RunState},
    validate::{effective_run_timeout, effective_task_timeout},
    workflow_task,
};

/// A request to start a run, checked, with what the server adds to it.
#[derive(Clone, Debug)]
pub struct Start {
    /// What the caller asks for.
    pub request: StartWorkflowExecutionRequest,
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
    /// What the run before this one leaves to it.
    pub chain: Option<Chain>,
}

/// What a run leaves to the one that follows it.
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
    /// What the last completed run returned.
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
}

/// Timeouts as the server keeps them: the run within the execution, the task within the run and two minutes.
pub fn clamp_timeouts(request: &mut StartWorkflowExecutionRequest) {
    let execution = duration_nanos(request.workflow_execution_timeout.as_ref());
    let run = duration_nanos(request.workflow_run_timeout.as_ref());
    let clamped = effective_run_timeout(run, execution);
    if clamped != run {
        request.workflow_run_timeout = Some(nanos_duration(clamped));
    }
    let task = duration_nanos(request.workflow_task_timeout.as_ref());
    let clamped_task = effective_task_timeout(task, clamped);
    if clamped_task != task {
        request.workflow_task_timeout = Some(nanos_duration(clamped_task));
    }
}

/// Begins a run: its first event, and its first workflow task unless that is held back.
pub fn start(start: Start, context: Context) -> Applied<()> {
    begin(start, None, context).finish(())
}

/// Like [`start`] but leaves the transition open for calls that add to it (an eager task). A signal that comes with the
/// start is there before the first workflow task.
pub fn begin(start: Start, signal: Option<Signal>, context: Context) -> Draft {
    let Start { mut request, namespace_key, namespace_id, retention, parent, root, chain } = start;
    clamp_timeouts(&mut request);
    let now = context.now;
    let run_id = context.new_run_id();
    let backoff = match &chain {
        Some(chain) => chain.backoff,
        None if duration_nanos(request.workflow_start_delay.as_ref()) > 0 => {
            Some(duration_nanos(request.workflow_start_delay.as_ref()))
        }
        None => Some(cron::next_backoff(&request.cron_schedule, now, now).unwrap_or(0).max(0)),
    };
    let execution_timeout = duration_nanos(request.workflow_execution_timeout.as_ref());
    let execution_deadline = match &chain {
        Some(chain) => chain.execution_deadline,
        None if execution_timeout > 0 => round_to_millis(now.saturating_add(execution_timeout)),
        None => 0,
    };
    let initiator = match &chain {
        Some(chain) => chain.initiator,
        None if !request.cron_schedule.is_empty() => ContinueAsNewInitiator::CronSchedule,
        None => ContinueAsNewInitiator::Unspecified,
    };
    let first_task_backoff = backoff.unwrap_or(0);
    let continued = chain.is_some();
    let run_timeout = duration_nanos(request.workflow_run_timeout.as_ref());
    let run_deadline = match run_timeout {
        0 => 0,
        timeout => {
            let deadline = now.saturating_add(timeout).saturating_add(first_task_backoff);
            if execution_deadline > 0 { deadline.min(execution_deadline) } else { deadline }
        }
    };
    let first_run_id = chain.as_ref().map_or_else(|| run_id.clone(), |chain| chain.first_run_id.clone());
    let reset_points = chain.as_ref().map(|chain| chain.reset_points.clone()).unwrap_or_default();
    let queue = request.task_queue.as_mut();
    if let Some(queue) = queue
        && queue.kind == TaskQueueKind::Unspecified as i32
    {
        queue.kind = TaskQueueKind::Normal as i32;
    }
    let info =
        RunInfo {
            run_key: context.new_run_key,
            namespace_key,
            namespace_id,
            namespace: request.namespace.clone(),
            workflow_id: request.workflow_id.clone(),
            run_id: run_id.clone(),
            first_run_id: first_run_id.clone(),
            workflow_type: request.workflow_type.as_ref().map(|t| t.name.clone()).unwrap_or_default(),
            task_queue: request.task_queue.as_ref().map(|q| q.name.clone()).unwrap_or_default(),
            execution_timeout,
            run_timeout,
            task_timeout: duration_nanos(request.workflow_task_timeout.as_ref()),
            retry_policy: request.retry_policy.clone(),
            cron_schedule: request.cron_schedule.clone(),
            attempt: chain.as_ref().map_or(1, |chain| chain.attempt),
            start_time: now,
            execution_deadline,
            run_deadline,
            first_task_backoff,
            parent: parent.clone(),
            root: Some(root.clone().unwrap_or_else(|| WorkflowExecution {
                workflow_id: request.workflow_id.clone(),
                run_id: run_id.clone(),
            })),
            create_request_id: request.request_id.clone(),
            user_metadata: request.user_metadata.clone(),
            priority: request.priority.clone(),
            versioning_override: request.versioning_override.clone(),
            original_start_time: chain.as_ref().map_or(now, |chain| chain.original_start_time),
            run_timeout_given: request.workflow_run_timeout.is_some(),
            retention,
            links: chain.as_ref().map_or_else(|| request.links.clone(), |chain| chain.links.clone()),
        };
    let memo = request.memo.take().map(without_nulls_memo).filter(|memo| !memo.fields.is_empty());
    let search_attributes =
        request.search_attributes.take().map(without_nulls).filter(|attributes| !attributes.indexed_fields.is_empty());
    let state = RunState {
        status: WorkflowExecutionStatus::Running as i32,
        next_event_id: 1,
        next_task_attempt: 1,
        memo: memo.as_ref().map(|memo| memo.fields.clone()).unwrap_or_default(),
        search_attributes: search_attributes.as_ref().map(|a| a.indexed_fields.clone()).unwrap_or_default(),
        reset_points: reset_points.clone(),
        ..Default::default()
    };
    let (continued_failure, last_completion_result) = match &chain {
        Some(chain) => (chain.failure.clone(), chain.last_completion_result.clone()),
        None => (request.continued_failure.take(), request.last_completion_result.take()),
    };
    let attributes = WorkflowExecutionStartedEventAttributes {
        workflow_type: request.workflow_type,
        parent_workflow_namespace: parent.as_ref().map(|p| p.namespace.clone()).unwrap_or_default(),
        parent_workflow_namespace_id: parent.as_ref().map(|p| p.namespace_id.clone()).unwrap_or_default(),
        parent_workflow_execution: parent.as_ref().map(|p| p.execution.clone()),
        parent_initiated_event_id: parent.as_ref().map_or(0, |p| p.initiated_event_id),
        task_queue: request.task_queue,
        input: request.input,
        workflow_execution_timeout: request.workflow_execution_timeout,
        workflow_run_timeout: request.workflow_run_timeout,
        workflow_task_timeout: request.workflow_task_timeout,
        continued_execution_run_id: chain.as_ref().map(|c| c.previous_run_id.clone()).unwrap_or_default(),
        initiator: initiator as i32,
        continued_failure,
        last_completion_result,
        original_execution_run_id: run_id,
        identity: request.identity,
        first_execution_run_id: first_run_id,
        retry_policy: request.retry_policy,
        attempt: info.attempt,
        workflow_execution_expiration_time: (execution_deadline > 0).then(|| nanos_timestamp(execution_deadline)),
        cron_schedule: request.cron_schedule,
        first_workflow_task_backoff: backoff.map(nanos_duration),
        memo,
        search_attributes,
        prev_auto_reset_points: continued.then_some(ResetPoints { points: reset_points }),
        header: request.header,
        workflow_id: request.workflow_id,
        completion_callbacks: request.completion_callbacks,
        root_workflow_execution: root,
        versioning_override: request.versioning_override,
        priority: request.priority,
        eager_execution_accepted: request.request_eager_execution,
        ..Default::default()
    };
    let mut first = event(now, Attributes::WorkflowExecutionStartedEventAttributes(Box::new(attributes)));
    first.user_metadata = request.user_metadata;
    first.links = info.links.clone();
    let mut run = Run::new(info, state);
    if run.info.may_repeat() {
        let mut kept = first.clone();
        kept.event_id = 1;
        run.start_event = Some(Arc::new(kept));
    }
    let mut draft = Draft::of(run, context);
    draft.add_event(first);
    if let Some(signal) = signal {
        signal::add(&mut draft, signal);
    }
    if first_task_backoff > 0 {
        draft.run.state.first_task_due = now.saturating_add(first_task_backoff);
    } else {
        workflow_task::schedule_if_none(&mut draft);
    }
    draft
}

fn round_to_millis(nanos: Nanos) -> Nanos {
    (nanos + 500_000) / 1_000_000 * 1_000_000
}

/// Payloads that say "no value" do not become part of the run.
fn without_nulls(mut attributes: SearchAttributes) -> SearchAttributes {
    attributes.indexed_fields.retain(|_, payload| !is_null(payload));
    attributes
}

fn without_nulls_memo(mut memo: segno_proto::common::Memo) -> segno_proto::common::Memo {
    memo.fields.retain(|_, payload| !is_null(payload));
    memo
}

/// Whether a payload stands for "no value": absent data, JSON null or an empty list.
pub fn is_null(payload: &segno_proto::common::Payload) -> bool {
    let encoding = payload.metadata.get("encoding").map(|bytes| bytes.as_ref());
    encoding == Some(b"binary/null")
        || (payload.data.as_ref() == b"null" || payload.data.as_ref() == b"[]") && encoding == Some(b"json/plain")
}

/// What to do with a start when the workflow id has a run already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Conflict {
    /// The same request came before: answer as then.
    SameRequest,
    /// Go on and create a run.
    Create,
    /// Answer with the run that is there.
    UseExisting,
    /// End the run that is there, then create one.
    TerminateExisting,
}

/// Decides between a start and the current run under its workflow id.
pub fn resolve(
    current: &Run,
    request_id: &str,
    reuse: WorkflowIdReusePolicy,
    conflict: WorkflowIdConflictPolicy,
) -> Result<Conflict, Rejection> {
    if current.info.create_request_id == request_id || current.state.attached_request_ids.contains_key(request_id) {
        return Ok(Conflict::SameRequest);
    }
    resolve_policies(current, reuse, conflict)
}

/// Like [`resolve`], whoever asked: a start that comes with a signal is not recognised by its request id, only its signal
/// is, as in Temporal.
pub fn resolve_policies(
    current: &Run,
    reuse: WorkflowIdReusePolicy,
    conflict: WorkflowIdConflictPolicy,
) -> Result<Conflict, Rejection> {
    let refuse = |message: String| Rejection::AlreadyStarted {
        message,
        start_request_id: current.info.create_request_id.clone(),
        run_id: current.info.run_id.clone(),
        first_run_id: current.info.first_run_id.clone(),
    };
    let ids = format!("WorkflowId: {}, RunId: {}.", current.info.workflow_id, current.info.run_id);
    if current.is_running() {
        return match conflict {
            WorkflowIdConflictPolicy::UseExisting => Ok(Conflict::UseExisting),
            WorkflowIdConflictPolicy::TerminateExisting => Ok(Conflict::TerminateExisting),
            _ => Err(refuse(format!("Workflow execution is already running. {ids}"))),
        };
    }
    match reuse {
        WorkflowIdReusePolicy::RejectDuplicate => Err(refuse(format!(
            "Workflow execution already finished. {ids} Workflow Id reuse policy: reject duplicate workflow Id."
        ))),
        WorkflowIdReusePolicy::AllowDuplicateFailedOnly if !ended_badly(current.status()) => Err(refuse(format!(
            "Workflow execution already finished successfully. {ids} Workflow Id reuse policy: allow duplicate \
             workflow Id if last run failed."
        ))),
        _ => Ok(Conflict::Create),
    }
}

fn ended_badly(status: WorkflowExecutionStatus) -> bool {
    use WorkflowExecutionStatus::{Canceled, Failed, Terminated, TimedOut};
    matches!(status, Failed | Canceled | Terminated | TimedOut)
}
