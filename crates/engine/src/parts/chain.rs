//! A run followed by another: continue-as-new, retry, cron.

use segno_proto::{
    Nanos,
    command::ContinueAsNewWorkflowExecutionCommandAttributes,
    common::{Payloads, WorkflowType},
    duration_nanos,
    enums::{ContinueAsNewInitiator, RetryState, TaskQueueKind, UpdateAdmittedEventOrigin},
    events::{WorkflowExecutionStartedEventAttributes, history_event::Attributes},
    failure::Failure,
    nanos_duration, nanos_timestamp,
    taskqueue::TaskQueue,
};

use crate::{
    cron,
    limits::RUN_INTERVAL_MIN,
    parts::{
        callbacks,
        inherit::{self, Membership},
        script,
        signal::Signal,
        start,
        start_options::{Chain, Start, StartOptions},
        update,
    },
    retry,
    state::{earlier_updates::EarlierUpdates, run::Run},
    transition::{Applied, draft::Draft},
};

/// How a failed or timed-out run goes on.
pub enum RunContinuation {
    /// Not at all, for this reason.
    End(RetryState),
    /// By trying again after a while.
    Retry(Nanos),
    /// By the next run of its schedule; with the reason why it was not retried.
    Cron(Nanos, RetryState),
}

/// Decides what follows a failure; `None` for a failure means the run's time was up.
pub fn after_failure(run: &Run, now: Nanos, failure: &Failure) -> RunContinuation {
    let state = match &run.info.retry_policy {
        None => RetryState::RetryPolicyNotSet,
        Some(policy) if !retry::is_retryable(failure, &policy.non_retryable_error_types) => {
            RetryState::NonRetryableFailure
        }
        Some(policy) => {
            let requested = retry::requested_delay(failure);
            match retry::next_backoff(now, run.info.attempt, policy, run.info.execution_deadline, requested) {
                Ok(backoff) => return RunContinuation::Retry(backoff),
                Err(state) => state,
            }
        }
    };
    match cron_backoff(run, now) {
        Some(backoff) => RunContinuation::Cron(backoff, state),
        None => RunContinuation::End(state),
    }
}

/// Time until the schedule's next run, if there is a schedule and its time is not over.
pub fn cron_backoff(run: &Run, now: Nanos) -> Option<Nanos> {
    if run.info.cron_schedule.is_empty() {
        return None;
    }
    let backoff = cron::next_backoff(&run.info.cron_schedule, run.info.execution_time(), now)?;
    let deadline = run.info.execution_deadline;
    (deadline == 0 || now.saturating_add(backoff) <= deadline).then_some(backoff)
}

/// Runs of a chain begin at least a second apart.
fn spaced(run: &Run, now: Nanos, backoff: Option<Nanos>) -> Option<Nanos> {
    let lifetime = now - run.info.execution_time();
    if lifetime + backoff.unwrap_or(0) < RUN_INTERVAL_MIN { Some(RUN_INTERVAL_MIN - lifetime) } else { backoff }
}

fn start_attributes(run: &Run) -> WorkflowExecutionStartedEventAttributes {
    match run.start_event.as_ref().and_then(|event| event.attributes.clone()) {
        Some(Attributes::WorkflowExecutionStartedEventAttributes(attributes)) => *attributes,
        _ => WorkflowExecutionStartedEventAttributes::default(),
    }
}

/// Creates the run that repeats this one, by retry or by schedule.
pub fn repeat(
    draft: &mut Draft,
    initiator: ContinueAsNewInitiator,
    backoff: Nanos,
    failure: Option<Failure>,
    last_completion_result: Option<Payloads>,
) -> Applied<()> {
    expire_reset_points(draft);
    let run = &draft.run;
    let before = start_attributes(run);
    let retrying = initiator == ContinueAsNewInitiator::Retry;
    let inherited = if retrying { inherit::by_retry(run, &before) } else { inherit::by_schedule(run) };
    let failed = failure.is_some();
    let options = StartOptions {
        namespace: run.info.namespace.clone(),
        workflow_id: run.info.workflow_id.clone(),
        request_id: draft.context.derived_uuid(),
        workflow_type: Some(WorkflowType { name: run.info.workflow_type.clone() }),
        task_queue: Some(normal_queue(&run.info.task_queue)),
        input: before.input,
        workflow_execution_timeout: before.workflow_execution_timeout,
        workflow_run_timeout: before.workflow_run_timeout,
        workflow_task_timeout: before.workflow_task_timeout,
        retry_policy: before.retry_policy,
        cron_schedule: before.cron_schedule,
        memo: before.memo,
        search_attributes: before.search_attributes,
        header: before.header,
        priority: before.priority,
        completion_callbacks: if retrying { callbacks::handed_on(run) } else { Vec::new() },
        inherited,
        ..Default::default()
    };
    let chain = Chain {
        attempt: if retrying { run.info.attempt + 1 } else { 1 },
        failure,
        // A scheduled run that failed passes on what the last good one returned.
        last_completion_result: if failed && !retrying {
            before.last_completion_result
        } else {
            last_completion_result
        },
        ..chain_of(draft, initiator, spaced(run, draft.now(), Some(backoff)))
    };
    successor(draft, options, chain, retrying, Vec::new())
}

/// Creates the run that follows a failure, if one does. Returns what the closing event says of it: how the failure was
/// retried, and the id of the new run.
pub fn follow(draft: &mut Draft, next: RunContinuation, failure: Option<Failure>) -> (RetryState, String) {
    let (retry_state, initiator, backoff) = match next {
        RunContinuation::End(state) => return (state, String::new()),
        RunContinuation::Retry(backoff) => (RetryState::InProgress, ContinueAsNewInitiator::Retry, backoff),
        RunContinuation::Cron(backoff, state) => (state, ContinueAsNewInitiator::CronSchedule, backoff),
    };
    let successor = repeat(draft, initiator, backoff, failure, None);
    let run_id = successor.run.info.run_id.clone();
    draft.succeed_by(successor);
    (retry_state, run_id)
}

/// Creates the run a continue-as-new command asks for. The command was checked and completed. `carried` are signals that
/// the new run has from its beginning.
pub fn continue_as_new(
    draft: &mut Draft,
    command: &ContinueAsNewWorkflowExecutionCommandAttributes,
    carried: Vec<Signal>,
    is_member: Membership<'_>,
) -> Applied<()> {
    expire_reset_points(draft);
    let run = &draft.run;
    let initiator = match command.initiator() {
        ContinueAsNewInitiator::Unspecified => ContinueAsNewInitiator::Workflow,
        initiator => initiator,
    };
    let queue = command.task_queue.as_ref().map_or(&run.info.task_queue, |queue| &queue.name);
    let inherited = inherit::by_next_run(run, queue, command.initial_versioning_behavior(), is_member);
    let options = StartOptions {
        namespace: run.info.namespace.clone(),
        workflow_id: run.info.workflow_id.clone(),
        request_id: draft.context.derived_uuid(),
        workflow_type: command.workflow_type.clone(),
        task_queue: Some(normal_queue(queue)),
        input: command.input.clone(),
        workflow_execution_timeout: (run.info.execution_timeout > 0)
            .then(|| nanos_duration(run.info.execution_timeout)),
        workflow_run_timeout: command.workflow_run_timeout,
        workflow_task_timeout: command.workflow_task_timeout,
        retry_policy: command.retry_policy.clone(),
        cron_schedule: command.cron_schedule.clone(),
        memo: command.memo.clone(),
        search_attributes: command.search_attributes.clone(),
        header: command.header.clone(),
        priority: run.info.priority.clone(),
        completion_callbacks: callbacks::handed_on(run),
        inherited,
        ..Default::default()
    };
    let backoff = command.backoff_start_interval.as_ref().map(|interval| duration_nanos(Some(interval)));
    let chain = Chain {
        attempt: if initiator == ContinueAsNewInitiator::Retry { run.info.attempt + 1 } else { 1 },
        failure: command.failure.clone(),
        last_completion_result: command.last_completion_result.clone(),
        ..chain_of(draft, initiator, spaced(run, draft.now(), backoff))
    };
    let same_version =
        command.inherit_build_id || options.workflow_type.as_ref().is_some_and(|t| t.name != run.info.workflow_type);
    successor(draft, options, chain, same_version, carried)
}

/// Points in this run can be reset to as long as the run is kept.
fn expire_reset_points(draft: &mut Draft) {
    let expire_time = nanos_timestamp(draft.now().saturating_add(draft.run.info.retention));
    let run_id = draft.run.info.run_id.clone();
    for point in draft.run.state.reset_points.iter_mut().filter(|point| point.run_id == run_id) {
        point.expire_time = Some(expire_time);
    }
}

fn normal_queue(name: &str) -> TaskQueue {
    TaskQueue { name: name.to_owned(), kind: TaskQueueKind::Normal as i32, normal_name: String::new() }
}

fn chain_of(draft: &Draft, initiator: ContinueAsNewInitiator, backoff: Option<Nanos>) -> Chain {
    let run = &draft.run;
    Chain {
        previous_run_id: run.info.run_id.clone(),
        first_run_id: run.info.first_run_id.clone(),
        initiator,
        attempt: 1,
        failure: None,
        last_completion_result: None,
        backoff,
        execution_deadline: run.info.execution_deadline,
        original_start_time: run.info.original_start_time,
        reset_points: run.state.reset_points.clone(),
        links: run.info.links.clone(),
        earlier_updates: earlier_updates(run, initiator),
    }
}

/// The updates that the next run recognises. A run of a cron schedule is a new execution of the workflow: it knows none.
fn earlier_updates(run: &Run, initiator: ContinueAsNewInitiator) -> Option<Box<EarlierUpdates>> {
    if initiator == ContinueAsNewInitiator::CronSchedule {
        return None;
    }
    let completed = run.finished.iter().filter(|(_, record)| record.completed_event_id > 0);
    let completed = completed.map(|(id, record)| (record.completed_event_id, id));
    EarlierUpdates::after(run.info.earlier_updates.as_deref(), run.info.run_key, completed)
}

fn successor(
    draft: &Draft,
    mut options: StartOptions,
    chain: Chain,
    same_version: bool,
    signals: Vec<Signal>,
) -> Applied<()> {
    let is_same_execution = chain.initiator != ContinueAsNewInitiator::CronSchedule;
    let pinned = script::version(&draft.run);
    let script = if same_version { pinned } else { draft.context.script.or(pinned) };
    let info = &draft.run.info;
    let root = info.parent.as_ref().and(info.root.clone());
    options.scheduled_by.clone_from(&info.scheduled_by);
    let mut next = start::begin(
        Start {
            parent: info.parent.clone(),
            root,
            chain: Some(chain),
            script,
            ..Start::new(info.namespace_key, info.namespace_id.clone(), info.retention, options)
        },
        signals,
        draft.context,
    );
    if is_same_execution {
        for (id, request) in draft.run.updates.unsent_admissions() {
            let origin = UpdateAdmittedEventOrigin::Unspecified;
            update::admit_durably(&mut next, id.to_owned(), request.clone(), origin);
        }
    }
    next.finish(())
}
