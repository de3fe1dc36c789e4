//! A worker completes its workflow task: the busiest call of all.
//!
//! Commands are applied in order to a draft. If one of them is no good the draft is thrown away and the task is failed
//! instead, so that a run never sees half an answer.

use std::collections::BTreeSet;

use segno_proto::{
    Nanos,
    command::Command,
    common::{MeteringMetadata, WorkerVersionStamp},
    deployment::WorkerDeploymentVersion,
    duration_nanos,
    enums::{VersioningBehavior, WorkflowTaskFailedCause},
    events::{WorkflowTaskCompletedEventAttributes, history_event::Attributes},
    protocol::Message,
    sdk::WorkflowTaskCompletedMetadata,
    taskqueue::StickyExecutionAttributes,
};

use crate::{
    calls::{
        oversize,
        repeats::Digest,
        task_calls::{self, TaskRef},
    },
    commands::{self, scope::CommandScope},
    error::{CommandError, Rejection, TaskFailure},
    limits::{TASK_HEARTBEAT_MAX, UpdateLimits},
    parts::{
        activity::{self, attempt::Taker},
        builds::{self, Build},
        close, script,
        update::{
            abort, deliver,
            messages::{self, Inbox},
        },
        versioning::{self, Target},
        workflow_task::{self, TaskFailed, TaskStart},
    },
    retry,
    state::{CompletionReply, Sticky, TaskKind, WorkflowTask, activity::Activity, run::Run},
    transition::{Applied, Context, Effect, draft::Draft},
    validate,
};

pub use crate::commands::scope::Surroundings;

/// A worker's answer.
#[derive(Clone, Debug)]
pub struct CompleteTask {
    /// Which task.
    pub token: TaskRef,
    /// The commands of the workflow.
    pub commands: Vec<Command>,
    /// Who answers.
    pub identity: String,
    /// Where to send the next task.
    pub sticky: Option<StickyExecutionAttributes>,
    /// Whether a next task may come in the reply.
    pub return_new_task: bool,
    /// Whether a next task must be made.
    pub force_new_task: bool,
    /// The worker's binary.
    pub binary_checksum: String,
    /// The worker's version.
    pub worker_version: Option<WorkerVersionStamp>,
    /// Carried into the event.
    pub sdk_metadata: Option<WorkflowTaskCompletedMetadata>,
    /// Carried into the event.
    pub metering_metadata: Option<MeteringMetadata>,
    /// How the run goes on when versions change, as the worker says.
    pub versioning_behavior: VersioningBehavior,
    /// The deployment the worker says it belongs to, or empty.
    pub deployment_name: String,
    /// The version of the worker, if it uses versioning.
    pub version: Option<WorkerDeploymentVersion>,
    /// Where the routing of the run's queue sends it, see [`TaskStart::target`].
    pub target: Option<Target>,
    /// The messages of the worker about updates.
    pub messages: Vec<Message>,
    /// Whether the worker can go back behind events it has seen when its task is discarded.
    pub discards_with_events: bool,
    /// The limits of the namespace for updates.
    pub update_limits: UpdateLimits,
    /// Request ids for activities started in the reply, at least one per command that asks for it.
    pub eager_request_ids: Vec<String>,
    /// The worker process, as it names itself.
    pub worker: String,
    /// The queue on which it takes commands.
    pub control_queue: String,
    /// Whether it reports by itself.
    pub worker_reports: bool,
    /// The result of a script's turn, if this run is one.
    pub script: Option<script::AfterTurn>,
    /// Recognises the same answer when it comes again.
    pub digest: Digest,
}

/// The answer to the worker.
#[derive(Clone, Debug, Default)]
pub struct Completed {
    /// Set if the answer was taken but made the task fail.
    pub failure: Option<TaskFailure>,
    /// The answer came too late in a chain of heartbeats.
    pub heartbeat_timed_out: bool,
    /// A task for the worker to go on with.
    pub new_task: Option<WorkflowTask>,
    /// Messages for that task.
    pub new_messages: Vec<Message>,
    /// Activities the worker runs itself.
    pub eager_activities: Vec<Activity>,
    /// The task left no trace: the worker goes back to what it knew after this event. 0 if nothing was discarded.
    pub reset_history_event_id: i64,
    /// The same answer was taken before; nothing has changed.
    pub repeated: bool,
}

/// Applies a worker's answer.
pub fn complete(
    run: &Run,
    context: Context,
    call: CompleteTask,
    surroundings: &Surroundings<'_>,
) -> Result<Applied<Completed>, Rejection> {
    // The answer to a completion after the end is that its task is gone; to a failure, that the workflow is.
    let Ok(task) = task_calls::find(run, &call.token) else { return completion(run, context, call.digest) };
    let mut applied = take(run, context, &call, task, surroundings)?;
    note_completion(&mut applied, call.digest);
    Ok(applied)
}

fn take(
    run: &Run,
    context: Context,
    call: &CompleteTask,
    task: &WorkflowTask,
    surroundings: &Surroundings<'_>,
) -> Result<Applied<Completed>, Rejection> {
    if call.versioning_behavior != VersioningBehavior::Unspecified && call.version.is_none() {
        let text = "versioning behavior cannot be specified without deployment options being set with versioned mode";
        return Err(Rejection::InvalidArgument(text.to_owned()));
    }
    validate::commands::command_sequence(&call.commands).map_err(|invalid| Rejection::InvalidArgument(invalid.0))?;
    if run.is_paused() && call.force_new_task {
        let text = "Workflow is paused and force create new workflow task is not allowed.";
        return Err(Rejection::Precondition(text.to_owned()));
    }
    let heartbeat = call.force_new_task && call.commands.is_empty() && call.messages.is_empty();
    if heartbeat && context.now > task.original_scheduled_time + TASK_HEARTBEAT_MAX {
        let mut draft = Draft::new(run, context);
        draft.run.state.sticky = None;
        workflow_task::time_out(&mut draft);
        return Ok(draft.finish(Completed { heartbeat_timed_out: true, ..Default::default() }));
    }
    match apply(run, context, call, task, heartbeat, surroundings) {
        Ok(applied) if oversize::is_too_large(&applied.transition, &context.limits) => {
            let reason = "Transaction size exceeds limit.";
            let ended = oversize::end(run, context, reason);
            let failure = TaskFailure::terminating(WorkflowTaskFailedCause::ForceCloseCommand, reason);
            let reply = Completed { failure: Some(failure), ..Default::default() };
            Ok(Applied { run: ended.run, transition: ended.transition, reply })
        }
        Ok(applied) => Ok(applied),
        Err(CommandError::Call(rejection)) => Err(rejection),
        Err(CommandError::Task(failure)) => fail(run, context, call, task, failure),
    }
}

fn apply(
    run: &Run,
    context: Context,
    call: &CompleteTask,
    task: &WorkflowTask,
    heartbeat: bool,
    surroundings: &Surroundings<'_>,
) -> Result<Applied<Completed>, CommandError> {
    let mut draft = Draft::new(run, context);
    let mut inbox = Inbox::new(call.messages.clone(), call.update_limits);
    if leaves_no_trace(run, call, task, draft.context.limits.discard_events) {
        return discard(draft, inbox, call);
    }
    if call.script.as_ref().is_some_and(|turn| turn.took_buffered) {
        draft.materialise(&call.identity);
        draft.flush_buffered();
    }
    let had_buffered = !draft.run.state.buffered.is_empty();
    draft.materialise(&call.identity);
    let finished = workflow_task::complete(&mut draft).unwrap_or_default();
    let completed_event_id =
        draft.add(Attributes::WorkflowTaskCompletedEventAttributes(WorkflowTaskCompletedEventAttributes {
            scheduled_event_id: finished.scheduled_event_id,
            started_event_id: finished.started_event_id,
            identity: call.identity.clone(),
            binary_checksum: call.binary_checksum.clone(),
            worker_version: call.worker_version.clone(),
            sdk_metadata: call.sdk_metadata.clone(),
            metering_metadata: call.metering_metadata,
            versioning_behavior: call.versioning_behavior as i32,
            worker_deployment_name: call.deployment_name.clone(),
            deployment_version: call.version.clone(),
            ..Default::default()
        }));
    let (run_id, now) = (draft.run.info.run_id.clone(), draft.now());
    versioning::complete(&mut draft, call.versioning_behavior, call.version.as_ref(), now - finished.scheduled_time);
    let build = Build {
        binary_checksum: &call.binary_checksum,
        worker_version: call.worker_version.as_ref(),
        deployment_name: &call.deployment_name,
        version: call.version.as_ref(),
    };
    builds::note(&mut draft.run.state, &run_id, build, completed_event_id, now);
    draft.run.state.sticky = sticky(&draft.run, call);

    let mut scope = CommandScope {
        completed_event_id,
        identity: &call.identity,
        surroundings,
        buffered: had_buffered,
        initiated_children: BTreeSet::new(),
        eager: Vec::new(),
        has_ended_at_once: false,
        inbox: &mut inbox,
        carried: call.script.as_ref().map(|turn| turn.carried.clone()).unwrap_or_default(),
    };
    draft.begin_commands();
    for command in &call.commands {
        commands::apply(&mut draft, &mut scope, command)?;
    }
    draft.end_commands();
    let (eager, buffered, has_ended_at_once) = (scope.eager, scope.buffered, scope.has_ended_at_once);
    inbox.handle_rest(&mut draft)?;
    if let Some(turn) = &call.script {
        script::turned(&mut draft, turn);
        script::keep_checkpoint(&mut draft);
    }

    let mut reply = Completed::default();
    if draft.run.is_running() {
        if !call.force_new_task {
            messages::reject_unprocessed(&mut draft);
        }
        let is_moving = versioning::is_moving(&draft.run);
        let eager = if draft.run.is_paused() { Vec::new() } else { eager };
        let eager =
            if versioning::goes_on_at(&draft.run, call.version.as_ref()) { eager } else { offer(&mut draft, eager) };
        for (id, request_id) in eager.into_iter().zip(call.eager_request_ids.iter().cloned()) {
            let taker = Taker {
                identity: call.identity.clone(),
                request_id,
                worker_version: call.worker_version.clone(),
                worker: call.worker.clone(),
                control_queue: call.control_queue.clone(),
                reports: call.worker_reports,
                // Activities of workflows do not keep it.
                sdk: Default::default(),
                poller: call.version.clone(),
                target: None,
            };
            let started = activity::begin(&mut draft, id, taker);
            reply.eager_activities.extend(started);
        }
        let is_script = draft.run.state.script.is_some();
        if call.force_new_task || is_moving || !is_script && (buffered || has_ended_at_once) {
            let original = heartbeat.then_some(task.original_scheduled_time);
            workflow_task::schedule(&mut draft, original);
            if call.return_new_task && !is_moving {
                start_inline(&mut draft, call, &mut reply);
            }
        } else {
            follow_up_updates(&mut draft, call, &mut reply);
        }
    }
    Ok(draft.finish(reply))
}

/// Whether a speculative task was for nothing: the worker wants nothing and accepts nothing, so that history need not
/// know. What the worker has seen beyond its last completed task must be little enough for it to forget; a script has
/// nothing to forget.
fn leaves_no_trace(run: &Run, call: &CompleteTask, task: &WorkflowTask, discard_events_max: i64) -> bool {
    let seen_max = if call.discards_with_events { discard_events_max } else { 0 };
    task.kind() == TaskKind::Speculative
        && call.commands.is_empty()
        && !call.force_new_task
        && (call.script.is_some() || run.state.next_event_id <= run.state.last_completed_started_id + 2 + seen_max)
        && call.messages.iter().all(messages::is_rejection)
}

/// Forgets a speculative task and what it rejected.
fn discard(mut draft: Draft, mut inbox: Inbox, call: &CompleteTask) -> Result<Applied<Completed>, CommandError> {
    inbox.handle_rest(&mut draft)?;
    messages::reject_unprocessed(&mut draft);
    workflow_task::discard(&mut draft);
    draft.run.state.sticky = sticky(&draft.run, call);
    let mut reply =
        Completed { reset_history_event_id: draft.run.state.last_completed_started_id, ..Default::default() };
    follow_up_updates(&mut draft, call, &mut reply);
    Ok(draft.finish(reply))
}

/// Updates that came while the worker was busy get a task of their own: with the reply if the worker wants it so, in
/// which case it may again leave no trace.
fn follow_up_updates(draft: &mut Draft, call: &CompleteTask, reply: &mut Completed) {
    if !draft.run.updates.have_unsent() || draft.run.state.task.is_some() {
        return;
    }
    if call.return_new_task && !draft.run.updates.have_stored_unsent() {
        workflow_task::schedule_speculative(draft);
    } else {
        workflow_task::schedule(draft, None);
    }
    if call.return_new_task {
        start_inline(draft, call, reply);
    }
}

/// The next task goes to the worker with the reply. A normal one is stored with the same commit, so nothing is lost by
/// a crash.
fn start_inline(draft: &mut Draft, call: &CompleteTask, reply: &mut Completed) {
    if !versioning::is_entitled(&draft.run, call.version.as_ref(), call.target.as_ref()) {
        return;
    }
    if let Some(target) = &call.target {
        versioning::note_target(draft, target);
    }
    let Some(pending) = draft.run.state.task.as_ref() else { return };
    let start = TaskStart {
        stamp: pending.stamp,
        request_id: "request-from-RespondWorkflowTaskCompleted".to_owned(),
        identity: call.identity.clone(),
        worker: call.worker.clone(),
        ..Default::default()
    };
    if workflow_task::start(draft, start).is_err() {
        return;
    }
    draft.withdraw(&Effect::OfferWorkflowTask);
    reply.new_messages = deliver::deliver(draft, !call.force_new_task);
    reply.new_task = draft.run.state.task.clone();
}

/// Offers activities that the worker wanted to run itself, but that go to another version.
fn offer(draft: &mut Draft, activities: Vec<i64>) -> Vec<i64> {
    activities.into_iter().for_each(|id| draft.effect(Effect::OfferActivity(id)));
    Vec::new()
}

/// Fails the task instead of completing it; on a later attempt the answer is simply not taken, and time does the rest.
fn fail(
    run: &Run,
    context: Context,
    call: &CompleteTask,
    task: &WorkflowTask,
    failure: TaskFailure,
) -> Result<Applied<Completed>, Rejection> {
    let unhandled = failure.cause == WorkflowTaskFailedCause::UnhandledCommand;
    let mut draft = Draft::new(run, context);
    if task.is_transient() && !unhandled {
        // Only callers that wait for updates that the worker had are answered.
        abort::all(&mut draft, abort::Reason::WorkflowTaskFailed);
        if draft.run.updates.version() == run.updates.version() {
            return Err(Rejection::TaskFailed(failure.worker_message()));
        }
        draft.touch_memory();
        return Ok(draft.finish(Completed { failure: Some(failure), ..Default::default() }));
    }
    let failed = TaskFailed {
        cause: failure.cause,
        failure: Some(retry::server_failure(failure.worker_message(), false))
            .filter(|_| !failure.message.is_empty() || unhandled),
        identity: call.identity.clone(),
        binary_checksum: call.binary_checksum.clone(),
        worker_version: call.worker_version.clone(),
    };
    workflow_task::fail(&mut draft, failed);
    abort::all(&mut draft, abort::Reason::WorkflowTaskFailed);
    if unhandled {
        draft.run.state.close_attempted = true;
    }
    if failure.terminate {
        draft.flush_buffered();
        let identity = workflow_task::SERVER_IDENTITY.to_owned();
        close::terminate(&mut draft, failure.worker_message(), None, identity, Vec::new());
    } else {
        workflow_task::schedule_if_none(&mut draft);
    }
    Ok(draft.finish(Completed { failure: Some(failure), ..Default::default() }))
}

/// The queue of the worker, unless the run goes on at another version.
fn sticky(run: &Run, call: &CompleteTask) -> Option<Sticky> {
    let attributes = call.sticky.as_ref().filter(|_| versioning::goes_on_at(run, call.version.as_ref()))?;
    let queue = attributes.worker_task_queue.as_ref()?;
    let schedule_to_start: Nanos = duration_nanos(attributes.schedule_to_start_timeout.as_ref());
    Some(Sticky { queue: queue.name.clone(), schedule_to_start })
}

/// Remembers the completion of a workflow task with what it was answered.
pub(crate) fn note_completion(applied: &mut Applied<Completed>, digest: Digest) {
    if digest.0 == 0 {
        return;
    }
    let reply = &applied.reply;
    let failure = reply.failure.as_ref();
    let kept = CompletionReply {
        failure_cause: failure.map_or(0, |failure| failure.cause as i32),
        failure_message: failure.map(|failure| failure.message.clone()).unwrap_or_default(),
        terminated: failure.is_some_and(|failure| failure.terminate),
        heartbeat_timed_out: reply.heartbeat_timed_out,
        reset_history_event_id: reply.reset_history_event_id,
        task_started_time: reply.new_task.as_ref().map_or(0, |task| task.started_time),
        updates: reply.new_messages.iter().map(|message| message.protocol_instance_id.clone()).collect(),
        activities: reply.eager_activities.iter().map(|activity| activity.scheduled_event_id).collect(),
        activities_started_time: reply.eager_activities.first().map_or(0, |activity| activity.started_time),
    };
    let state = &mut applied.run.state;
    state.completion_digest = digest.0;
    state.completion_reply = (kept != CompletionReply::default()).then(|| Box::new(kept));
}

/// The first answer to a completion whose task is gone, or [`Rejection::TaskNotFound`] if that was another one.
pub(crate) fn completion(run: &Run, context: Context, digest: Digest) -> Result<Applied<Completed>, Rejection> {
    if digest.0 == 0 || run.state.completion_digest != digest.0 {
        return Err(Rejection::TaskNotFound);
    }
    let kept = run.state.completion_reply.as_deref().cloned().unwrap_or_default();
    let mut reply = Completed {
        repeated: true,
        failure: failure_of(&kept),
        heartbeat_timed_out: kept.heartbeat_timed_out,
        reset_history_event_id: kept.reset_history_event_id,
        ..Default::default()
    };
    // What the worker was given belongs to it as long as nothing has ended it.
    if run.is_running() {
        let task = run.state.task.as_ref().filter(|task| {
            kept.task_started_time != 0 && task.started_event_id != 0 && task.started_time == kept.task_started_time
        });
        if let Some(task) = task {
            reply.new_messages = deliver::messages_of(run, &kept.updates);
            reply.new_task = Some(task.clone());
        }
        let pending = kept.activities.iter().filter_map(|id| run.state.activities.get(id));
        let held = pending.filter(|activity| activity.started_time == kept.activities_started_time);
        reply.eager_activities = held.map(|activity| activity.clone().into_inner()).collect();
    }
    Ok(Draft::new(run, context).finish(reply))
}

fn failure_of(kept: &CompletionReply) -> Option<TaskFailure> {
    let cause = WorkflowTaskFailedCause::try_from(kept.failure_cause).ok()?;
    let message = kept.failure_message.clone();
    (kept.failure_cause != 0).then_some(TaskFailure { cause, message, terminate: kept.terminated })
}
