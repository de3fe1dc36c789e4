//! The beginning of a run. [`crate::calls::start_conflict`] says what happens when its workflow id is taken.

use std::sync::Arc;

use segno_proto::{
    Nanos,
    common::{SearchAttributes, WorkflowExecution},
    duration_nanos,
    enums::{ContinueAsNewInitiator, TaskQueueKind, WorkflowExecutionStatus},
    events::{WorkflowExecutionStartedEventAttributes, history_event::Attributes},
    nanos_duration, nanos_timestamp,
    taskqueue::TaskQueue,
    workflow::ResetPoints,
};

use crate::{
    cron,
    events::event,
    parts::{
        builds, callbacks,
        schedule::advance as schedule,
        script,
        signal::{self, Signal},
        standalone, standalone_nexus, workflow_task,
    },
    payload::is_null,
    state::{
        RunInfo, RunState,
        run::Run,
        versioning::{InheritedVersioning, Versioning},
    },
    transition::{Applied, Context, draft::Draft},
};

pub use crate::parts::start_options::{Chain, Start, StartOptions, clamp_timeouts};

const MILLISECOND: Nanos = 1_000_000;

/// Begins a run: its first event, and its first workflow task unless that is held back.
pub fn start(start: Start, signals: Vec<Signal>, context: Context) -> Applied<()> {
    begin(start, signals, context).finish(())
}

/// Like [`start`] but leaves the transition open for calls that add to it (an eager task). Signals that come with the
/// start are there before the first workflow task.
pub fn begin(start: Start, signals: impl IntoIterator<Item = Signal>, context: Context) -> Draft {
    let Start { mut options, namespace_key, namespace_id, retention, parent, root, chain, names_queue: _, script } =
        start;
    clamp_timeouts(&mut options);
    let now = context.now;
    let run_id = context.new_run_id();
    let backoff = first_backoff(&options, chain.as_ref(), now);
    let initiator = match &chain {
        Some(chain) => chain.initiator,
        None if !options.cron_schedule.is_empty() => ContinueAsNewInitiator::CronSchedule,
        None => ContinueAsNewInitiator::Unspecified,
    };
    let first_task_backoff = backoff.unwrap_or(0);
    let continued = chain.is_some();
    let execution_timeout = duration_nanos(options.workflow_execution_timeout.as_ref());
    let run_timeout = duration_nanos(options.workflow_run_timeout.as_ref());
    let (execution_deadline, run_deadline) = deadlines(&options, chain.as_ref(), now, first_task_backoff);
    let first_run_id = chain.as_ref().map_or_else(|| run_id.clone(), |chain| chain.first_run_id.clone());
    let reset_points = chain.as_ref().map(|chain| chain.reset_points.clone()).unwrap_or_default();
    options.task_queue.iter_mut().for_each(name_kind);
    let info =
        RunInfo {
            run_key: context.new_run_key,
            namespace_key,
            namespace_id,
            namespace: options.namespace.clone(),
            workflow_id: options.workflow_id.clone(),
            run_id: run_id.clone(),
            first_run_id: first_run_id.clone(),
            workflow_type: options.workflow_type.as_ref().map(|t| t.name.clone()).unwrap_or_default(),
            task_queue: options.task_queue.as_ref().map(|q| q.name.clone()).unwrap_or_default(),
            execution_timeout,
            run_timeout,
            task_timeout: duration_nanos(options.workflow_task_timeout.as_ref()),
            retry_policy: options.retry_policy.clone(),
            cron_schedule: options.cron_schedule.clone(),
            attempt: chain.as_ref().map_or(1, |chain| chain.attempt),
            start_time: now,
            execution_deadline,
            run_deadline,
            first_task_backoff,
            parent: parent.clone(),
            root: Some(root.clone().unwrap_or_else(|| WorkflowExecution {
                workflow_id: options.workflow_id.clone(),
                run_id: run_id.clone(),
            })),
            create_request_id: options.request_id.clone(),
            user_metadata: options.user_metadata.clone(),
            priority: options.priority.clone(),
            old_versioning_override: None,
            old_was_overridden: false,
            original_start_time: chain.as_ref().map_or(now, |chain| chain.original_start_time),
            run_timeout_given: options.workflow_run_timeout.is_some(),
            execution_timeout_given: options.workflow_execution_timeout.is_some(),
            retention,
            links: chain.as_ref().map_or_else(|| options.links.clone(), |chain| chain.links.clone()),
            scheduled_by: options.scheduled_by.take(),
            earlier_updates: chain.as_ref().and_then(|chain| chain.earlier_updates.clone()),
        };
    let memo = options.memo.take().map(without_nulls_memo).filter(|memo| !memo.fields.is_empty());
    let search_attributes =
        options.search_attributes.take().map(without_nulls).filter(|attributes| !attributes.indexed_fields.is_empty());
    let new_schedule = options.schedule.take();
    let (new_standalone, new_operation) = (options.standalone.take(), options.operation.take());
    let mut state = RunState {
        schedule: new_schedule.as_ref().map(|new| Box::new(schedule::new(new, now))),
        script: script.map(script::new),
        status: WorkflowExecutionStatus::Running as i32,
        next_event_id: 1,
        next_task_attempt: 1,
        memo: memo.as_ref().map(|memo| memo.fields.clone()).unwrap_or_default(),
        search_attributes: search_attributes.as_ref().map(|a| a.indexed_fields.clone()).unwrap_or_default(),
        reset_points: reset_points.clone(),
        ..Default::default()
    };
    if let Some(version) = script {
        // The server executes it, not its starter.
        options.eager = false;
        state.search_attributes.insert(script::VERSION_ATTRIBUTE.to_owned(), script::attribute(&version));
    }
    let (continued_failure, last_completion_result) = match &chain {
        Some(chain) => (chain.failure.clone(), chain.last_completion_result.clone()),
        None => (options.continued_failure.take(), options.last_completion_result.take()),
    };
    let inherited = options.inherited.take().map_or_else(InheritedVersioning::default, |inherited| *inherited);
    let attributes = WorkflowExecutionStartedEventAttributes {
        workflow_type: options.workflow_type,
        parent_workflow_namespace: parent.as_ref().map(|p| p.namespace.clone()).unwrap_or_default(),
        parent_workflow_namespace_id: parent.as_ref().map(|p| p.namespace_id.clone()).unwrap_or_default(),
        parent_workflow_execution: parent.as_ref().map(|p| p.execution.clone()),
        parent_initiated_event_id: parent.as_ref().map_or(0, |p| p.initiated_event_id),
        task_queue: options.task_queue,
        input: options.input,
        workflow_execution_timeout: options.workflow_execution_timeout,
        workflow_run_timeout: options.workflow_run_timeout,
        workflow_task_timeout: options.workflow_task_timeout,
        continued_execution_run_id: chain.as_ref().map(|c| c.previous_run_id.clone()).unwrap_or_default(),
        initiator: initiator as i32,
        continued_failure,
        last_completion_result,
        original_execution_run_id: run_id,
        identity: options.identity,
        first_execution_run_id: first_run_id,
        retry_policy: options.retry_policy,
        attempt: info.attempt,
        workflow_execution_expiration_time: (execution_deadline > 0).then(|| nanos_timestamp(execution_deadline)),
        cron_schedule: options.cron_schedule,
        first_workflow_task_backoff: backoff.map(nanos_duration),
        memo,
        search_attributes,
        prev_auto_reset_points: continued.then_some(ResetPoints { points: reset_points }),
        header: options.header,
        workflow_id: options.workflow_id,
        completion_callbacks: options.completion_callbacks,
        root_workflow_execution: root,
        versioning_override: options.versioning_override.or(inherited.versioning_override),
        inherited_pinned_version: inherited.pinned,
        inherited_auto_upgrade_info: inherited.auto_upgrade,
        declined_target_version_upgrade: inherited.declined,
        priority: options.priority,
        eager_execution_accepted: options.eager,
        ..Default::default()
    };
    callbacks::register(&mut state, &attributes.completion_callbacks, &info.create_request_id, now);
    state.versioning = Versioning::started(&attributes);
    builds::tell_versioning(&mut state, "");
    let mut first = event(now, Attributes::WorkflowExecutionStartedEventAttributes(Box::new(attributes)));
    first.user_metadata = options.user_metadata;
    first.links = info.links.clone();
    let mut run = Run::new(info, state);
    if run.info.may_repeat() {
        let mut kept = first.clone();
        kept.event_id = 1;
        run.start_event = Some(Arc::new(kept));
    }
    let mut draft = Draft::of(run, context);
    draft.add_event(first);
    signals.into_iter().for_each(|signal| signal::add(&mut draft, signal));
    if let Some(new) = new_operation {
        standalone_nexus::begin(&mut draft, *new);
    } else {
        begin_work(&mut draft, new_schedule, new_standalone, first_task_backoff);
    }
    draft
}

/// The first work of a run: that of a schedule, a standalone activity, or a workflow task now or after a back-off.
fn begin_work(
    draft: &mut Draft,
    new_schedule: Option<Box<schedule::NewSchedule>>,
    new_standalone: Option<Box<standalone::NewStandalone>>,
    first_task_backoff: Nanos,
) {
    if let Some(new) = new_schedule {
        schedule::begin(draft, new.patch);
    }
    if let Some(new) = new_standalone {
        standalone::begin(draft, *new);
    } else if first_task_backoff > 0 {
        draft.run.state.first_task_due = draft.now().saturating_add(first_task_backoff);
    } else {
        workflow_task::schedule_if_none(draft);
    }
}

/// A queue whose request names no kind is a normal one.
fn name_kind(queue: &mut TaskQueue) {
    if queue.kind == TaskQueueKind::Unspecified as i32 {
        queue.kind = TaskQueueKind::Normal as i32;
    }
}

/// How long the first workflow task waits.
fn first_backoff(options: &StartOptions, chain: Option<&Chain>, now: Nanos) -> Option<Nanos> {
    match chain {
        Some(chain) => chain.backoff,
        None if duration_nanos(options.start_delay.as_ref()) > 0 => Some(duration_nanos(options.start_delay.as_ref())),
        None => Some(cron::next_backoff(&options.cron_schedule, now, now).unwrap_or(0).max(0)),
    }
}

/// When the execution and the run are timed out; 0 for never.
fn deadlines(options: &StartOptions, chain: Option<&Chain>, now: Nanos, first_task_backoff: Nanos) -> (Nanos, Nanos) {
    let execution_timeout = duration_nanos(options.workflow_execution_timeout.as_ref());
    let execution_deadline = match chain {
        Some(chain) => chain.execution_deadline,
        None if execution_timeout > 0 => round_to_millis(now.saturating_add(execution_timeout)),
        None => 0,
    };
    let run_deadline = match duration_nanos(options.workflow_run_timeout.as_ref()) {
        0 => 0,
        timeout => {
            // Whole milliseconds, too, and never before the expiration that was rounded: with equal time-outs the execution's
            // time is up when that of the run is, and the retry policy is not asked.
            let deadline = up_to_millis(now.saturating_add(timeout).saturating_add(first_task_backoff));
            if execution_deadline > 0 { deadline.min(execution_deadline) } else { deadline }
        }
    };
    (execution_deadline, run_deadline)
}

fn round_to_millis(nanos: Nanos) -> Nanos {
    (nanos + MILLISECOND / 2) / MILLISECOND * MILLISECOND
}

fn up_to_millis(nanos: Nanos) -> Nanos {
    nanos.saturating_add(MILLISECOND - 1) / MILLISECOND * MILLISECOND
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
