//! The workflow task, from being scheduled to being completed, failed or given up.
//!
//! Three kinds share one machine and differ in when their events reach history. *Normal*: scheduled is stored at once,
//! started rides in the tail until the answer is stored. *Transient* (attempt > 1): state remembers the attempt, both
//! events are written when it completes. *Speculative*: nothing is stored at all unless something durable happens.

use segno_proto::{
    Nanos,
    common::WorkerVersionStamp,
    deployment::WorkerDeploymentVersion,
    enums::{SuggestContinueAsNewReason, TimeoutType, WorkflowTaskFailedCause},
    events::{WorkflowTaskFailedEventAttributes, WorkflowTaskTimedOutEventAttributes, history_event::Attributes},
    failure::Failure,
};

use crate::{
    error::Rejection,
    limits::{self, Limits},
    machine::workflow_task as machine,
    parts::{
        problems::{self, Problem},
        script, version_wait,
    },
    retry,
    state::{ReportedFailure, TaskKind, WorkflowTask, machines, run::Run, versioning::Target, wake_set},
    transition::{
        Effect,
        draft::Draft,
        steps::TaskMachine,
        task_events::{scheduled_event, started_event},
    },
};

pub use crate::transition::task_events::{queue_of, unwritten_events};

/// Identity in events that the server itself causes.
pub const SERVER_IDENTITY: &str = "history-service";

/// Schedules a workflow task if none is pending and none is held back. A script that waits for something else needs none.
pub fn schedule_if_none(draft: &mut Draft) {
    let state = &draft.run.state;
    if wake_set::sleeps(state) || state.is_schedule() || state.is_standalone() {
        return;
    }
    if draft.run.state.task.is_none() && draft.run.state.first_task_due == 0 && draft.run.is_running() {
        schedule(draft, None);
    }
}

/// The same, also if the first task is held back by a start delay or a back-off: it comes now.
pub fn schedule_first_now(draft: &mut Draft) {
    draft.run.state.first_task_due = 0;
    schedule_if_none(draft);
}

/// Schedules a workflow task and offers it. `heartbeat_of` carries on the original schedule time of a heartbeat chain. A
/// paused run gets none.
pub fn schedule(draft: &mut Draft, heartbeat_of: Option<Nanos>) {
    if draft.run.is_paused() {
        return;
    }
    draft.step(TaskMachine, machine::Event::Schedule, |draft| place(draft, heartbeat_of));
}

fn place(draft: &mut Draft, heartbeat_of: Option<Nanos>) {
    if !draft.run.state.buffered.is_empty() {
        // What waited becomes visible with this task; it is a new task, however the last one ended.
        draft.flush_buffered();
        draft.run.state.next_task_attempt = 1;
    }
    let now = draft.now();
    let state = &mut draft.run.state;
    let attempt = state.next_task_attempt.max(1);
    state.task_stamp += 1;
    wake_set::wake(state);
    let (queue, sticky, schedule_to_start) = match &state.sticky {
        _ if state.script.is_some() => (script::QUEUE.to_owned(), false, 0),
        Some(sticky) => (sticky.queue.clone(), true, sticky.schedule_to_start),
        None => (draft.run.info.task_queue.clone(), false, 0),
    };
    let task = WorkflowTask {
        kind: TaskKind::Normal as i32,
        scheduled_event_id: state.next_event_id,
        attempt,
        scheduled_time: now,
        original_scheduled_time: heartbeat_of.unwrap_or(now),
        start_to_close: start_to_close(draft.run.info.task_timeout, attempt),
        schedule_to_start,
        queue,
        sticky,
        stamp: state.task_stamp,
        ..Default::default()
    };
    if attempt == 1 {
        let scheduled = scheduled_event(&draft.run, &task);
        draft.add_event(scheduled);
    } else {
        draft.touch();
    }
    draft.run.state.task = Some(task);
    draft.effect(Effect::OfferWorkflowTask);
}

/// Schedules a task that is known in memory alone, for updates that may leave no trace. If something waits to become
/// history anyway, it is a normal one.
pub fn schedule_speculative(draft: &mut Draft) {
    if draft.run.is_paused() {
        return;
    }
    if !draft.run.state.buffered.is_empty() || draft.run.state.next_task_attempt > 1 {
        return schedule(draft, None);
    }
    draft.step(TaskMachine, machine::Event::Schedule, place_speculative);
}

fn place_speculative(draft: &mut Draft) {
    let (now, patience) = (draft.now(), draft.context.limits.speculative_schedule_to_start);
    let state = &mut draft.run.state;
    state.task_stamp += 1;
    let (queue, sticky, schedule_to_start) = match &state.sticky {
        _ if state.script.is_some() => (script::QUEUE.to_owned(), false, patience),
        Some(sticky) => (sticky.queue.clone(), true, sticky.schedule_to_start),
        None => (draft.run.info.task_queue.clone(), false, patience),
    };
    state.task = Some(WorkflowTask {
        kind: TaskKind::Speculative as i32,
        scheduled_event_id: state.next_event_id,
        attempt: 1,
        scheduled_time: now,
        original_scheduled_time: now,
        start_to_close: draft.run.info.task_timeout,
        schedule_to_start,
        queue,
        sticky,
        stamp: state.task_stamp,
        ..Default::default()
    });
    draft.touch_memory();
    draft.effect(Effect::OfferWorkflowTask);
}

/// Takes the run off the worker that has it in its cache. A task that waits is offered again, where any worker may have it.
pub(crate) fn leave_sticky_queue(draft: &mut Draft) {
    draft.run.state.sticky = None;
    let (normal, patience) = (draft.run.info.task_queue.clone(), draft.context.limits.speculative_schedule_to_start);
    let Some(task) = draft.run.state.task.as_mut().filter(|task| task.started_event_id == 0) else { return };
    if task.sticky {
        task.queue = normal;
        task.sticky = false;
        task.schedule_to_start = match task.kind() {
            TaskKind::Speculative => patience,
            TaskKind::Normal => 0,
        };
    }
    match task.kind() {
        TaskKind::Speculative => draft.touch_memory(),
        TaskKind::Normal => draft.touch(),
    }
    draft.effect(Effect::OfferWorkflowTask);
}

/// The same after the run was moved to another version: offers made so far are void.
pub(crate) fn offer_anew(draft: &mut Draft) {
    if draft.run.is_speculating() {
        draft.materialise("");
    }
    leave_sticky_queue(draft);
    let state = &mut draft.run.state;
    if let Some(task) = state.task.as_mut().filter(|task| task.started_event_id == 0) {
        state.task_stamp += 1;
        task.stamp = state.task_stamp;
    }
}

/// Forgets a speculative task as if it had never been.
pub fn discard(draft: &mut Draft) {
    draft.forget_speculation();
    draft.step(TaskMachine, machine::Event::Discard, |draft| draft.run.state.task = None);
    draft.withdraw(&Effect::OfferWorkflowTask);
    draft.touch_memory();
}

/// Time for an attempt: attempts that keep failing get more, which slows down those that end by timing out.
fn start_to_close(task_timeout: Nanos, attempt: i32) -> Nanos {
    let excess = attempt - limits::TASK_ATTEMPTS_PLAIN;
    if excess <= 0 {
        return task_timeout;
    }
    let extension = (5 * limits::SECOND).saturating_mul(1_i64 << (excess - 1).min(20));
    task_timeout + extension.min(limits::TASK_RETRY_EXTENSION_MAX)
}

/// The worker that takes a task, as it describes itself.
#[derive(Clone, Debug, Default)]
pub struct TaskStart {
    /// Recognises the offer.
    pub stamp: u32,
    /// Recognises a repeated start.
    pub request_id: String,
    /// The worker.
    pub identity: String,
    /// The queue it polled; a normal queue ends stickiness.
    pub polled_queue: String,
    /// The worker's version, as far as it says.
    pub worker_version: Option<WorkerVersionStamp>,
    /// The starter of the workflow takes its first task; it receives no history size.
    pub eager: bool,
    /// The worker process, as it names itself.
    pub worker: String,
    /// The version of the worker, if it uses versioning.
    pub poller: Option<WorkerDeploymentVersion>,
    /// Where the routing of the run's queue sends it; `None` leaves versions out of account, see [`crate::parts::versioning`].
    pub target: Option<Target>,
}

/// Whether the pending task is the one that was offered with this stamp, and waits for a worker.
pub(crate) fn is_startable(run: &Run, stamp: u32) -> bool {
    let task = run.state.task.as_ref().filter(|task| task.started_event_id == 0 && task.stamp == stamp);
    task.is_some() && run.is_running() && !run.is_paused()
}

/// Hands the pending task to a worker. The caller decides whether this stays in memory ([`Draft::defer`]).
pub fn start(draft: &mut Draft, call: TaskStart) -> Result<(), Rejection> {
    let Some(task) = draft.run.state.task.clone().filter(|_| is_startable(&draft.run, call.stamp)) else {
        return Err(Rejection::TaskObsolete);
    };
    draft.step(TaskMachine, machine::Event::Start, |draft| hand_over(draft, task, call));
    Ok(())
}

fn hand_over(draft: &mut Draft, task: WorkflowTask, call: TaskStart) {
    let now = draft.now();
    let mut task = task;
    if draft.run.state.sticky.is_some() && call.polled_queue == draft.run.info.task_queue {
        draft.run.state.sticky = None;
        if task.kind() == TaskKind::Speculative {
            // No event says yet where it waited.
            task.queue.clone_from(&draft.run.info.task_queue);
            task.sticky = false;
        }
    }
    task.started_time = now;
    task.request_id = call.request_id;
    task.identity = call.identity;
    task.worker_version = call.worker_version;
    task.worker = call.worker;
    task.history_bytes = if call.eager { 0 } else { draft.run.state.history_bytes };
    suggest_continue_as_new(&draft.run, draft.context.limits, &mut task);
    let outdated = task.is_transient() && task.scheduled_event_id != draft.run.state.next_event_id;
    if outdated {
        // Something happened since the failed attempt: this is a new task with its own scheduled event.
        task.attempt = 1;
        draft.run.state.next_task_attempt = 1;
        task.scheduled_event_id = draft.run.state.next_event_id;
        task.scheduled_time = now;
        let scheduled = scheduled_event(&draft.run, &task);
        draft.add_event(scheduled);
    }
    if task.is_transient() || task.kind() == TaskKind::Speculative {
        task.started_event_id = task.scheduled_event_id + 1;
        match task.kind() {
            TaskKind::Speculative => draft.touch_memory(),
            TaskKind::Normal => draft.touch(),
        }
    } else {
        task.started_event_id = draft.run.state.next_event_id;
        let started = started_event(&task, &task.identity);
        draft.add_event(started);
    }
    draft.run.state.task = Some(task);
}

fn suggest_continue_as_new(run: &Run, limits: Limits, task: &mut WorkflowTask) {
    if run.state.script.is_some() {
        // Its history has no limit.
        return;
    }
    let mut reasons = Vec::new();
    if run.state.history_bytes >= limits.history_bytes_suggest {
        reasons.push(SuggestContinueAsNewReason::HistorySizeTooLarge as i32);
    }
    if run.state.next_event_id >= limits.history_events_suggest {
        reasons.push(SuggestContinueAsNewReason::TooManyHistoryEvents as i32);
    }
    if run.updates_total() >= limits.updates_suggest {
        reasons.push(SuggestContinueAsNewReason::TooManyUpdates as i32);
    }
    task.suggest_continue_as_new = !reasons.is_empty();
    task.suggest_reasons = reasons;
}

/// A worker that was handed a task never got it: the task waits again, as if it had not been started.
pub fn give_back(draft: &mut Draft, started_time: Nanos) -> Result<(), Rejection> {
    let Some(task) = draft.run.state.task.clone() else { return Err(Rejection::TaskObsolete) };
    if task.started_event_id == 0 || task.started_time != started_time || !draft.run.is_running() {
        return Err(Rejection::TaskObsolete);
    }
    let started_in_tail = is_started_in_tail(&draft.run, &task);
    // The start of a transient task is no event; a commit since then may have stored it with the state.
    let stored_as_started = task.is_transient() && task.kind() == TaskKind::Normal;
    if !can_be_given_back(&draft.run, &task) {
        // The start is history already; only the clock can end this task.
        return Err(Rejection::TaskObsolete);
    }
    draft.step(TaskMachine, machine::Event::GiveBack, |draft| {
        if started_in_tail {
            draft.run.tail.pop();
            draft.run.state.next_event_id -= 1;
        }
        // The stamp stays: storage has the same one, and memory may be dropped before the task is taken again.
        draft.run.state.task =
            Some(WorkflowTask { started_event_id: 0, started_time: 0, worker: String::new(), ..task });
    });
    draft.touch();
    if !stored_as_started {
        draft.defer();
    }
    draft.effect(Effect::OfferWorkflowTask);
    Ok(())
}

/// Whether history does not know yet that the task was started, so that it can be as if it had not been.
pub fn can_be_given_back(run: &Run, task: &WorkflowTask) -> bool {
    is_started_in_tail(run, task) || task.is_transient() || task.kind() == TaskKind::Speculative
}

fn is_started_in_tail(run: &Run, task: &WorkflowTask) -> bool {
    run.tail.last().is_some_and(|last| last.event_id == task.started_event_id)
}

/// Takes the completed task off the run; the caller writes the completed event.
pub fn complete(draft: &mut Draft) -> Option<WorkflowTask> {
    let mut task = None;
    draft.step(TaskMachine, machine::Event::Complete, |draft| task = draft.run.state.task.take());
    draft.run.state.next_task_attempt = 1;
    draft.run.state.failures_since_success = 0;
    problems::clear(&mut draft.run.state);
    version_wait::clear(&mut draft.run.state);
    draft.run.state.last_task_failure.clear();
    draft.run.state.reported_failure = None;
    draft.run.state.close_attempted = false;
    if let Some(task) = &task {
        draft.run.state.last_completed_started_id = task.started_event_id;
    }
    task
}

/// A task that ended without an answer that the workflow can use.
#[derive(Clone, Debug)]
pub struct TaskFailed {
    /// Why.
    pub cause: WorkflowTaskFailedCause,
    /// The failure that the worker or server reported.
    pub failure: Option<Failure>,
    /// Who says so.
    pub identity: String,
    /// The worker's binary.
    pub binary_checksum: String,
    /// The worker's version.
    pub worker_version: Option<WorkerVersionStamp>,
}

/// Fails the started task. A first attempt leaves an event; later ones only count.
pub fn fail(draft: &mut Draft, failed: TaskFailed) {
    draft.step(TaskMachine, machine::Event::Fail, |draft| end_failed(draft, failed));
}

fn end_failed(draft: &mut Draft, failed: TaskFailed) {
    if draft.run.state.task.as_ref().is_some_and(|task| task.kind() == TaskKind::Speculative && !task.is_transient()) {
        draft.materialise(&failed.identity);
    }
    let Some(task) = draft.run.state.task.take() else { return };
    let said = failed.failure.as_ref().map(|failure| failure.message.as_str()).filter(|message| !message.is_empty());
    draft.run.state.last_task_failure = shortened(said.unwrap_or(failed.cause.as_str_name()));
    let bytes_max = limits::REPORTED_FAILURE_BYTES_MAX;
    draft.run.state.reported_failure = Some(Box::new(ReportedFailure {
        cause: failed.cause as i32,
        failure: failed.failure.clone().map(|failure| retry::truncate(failure, bytes_max)),
        time: draft.context.now,
        identity: failed.identity.clone(),
    }));
    let problem = Problem::Failed(failed.cause);
    if !task.is_transient() {
        let attributes = WorkflowTaskFailedEventAttributes {
            scheduled_event_id: task.scheduled_event_id,
            started_event_id: task.started_event_id,
            cause: failed.cause as i32,
            failure: failed.failure,
            identity: failed.identity,
            binary_checksum: failed.binary_checksum,
            worker_version: failed.worker_version,
            ..Default::default()
        };
        draft.add(Attributes::WorkflowTaskFailedEventAttributes(Box::new(attributes)));
    }
    count_failure(draft, &task, problem);
}

/// The beginning of a failure's text, enough to recognise it by.
fn shortened(text: &str) -> String {
    const CHARACTERS_MAX: usize = 300;
    text.chars().take(CHARACTERS_MAX).collect()
}

/// The server fails the started task for reasons of its own; what was buffered becomes history.
pub fn fail_by_server(draft: &mut Draft, cause: WorkflowTaskFailedCause) {
    if !draft.run.state.task_started() {
        return;
    }
    let identity = SERVER_IDENTITY.to_owned();
    let failed = TaskFailed { cause, failure: None, identity, binary_checksum: String::new(), worker_version: None };
    fail(draft, failed);
    draft.flush_buffered();
    if draft.run.is_running() {
        schedule_if_none(draft);
    }
}

/// Takes back a task that no worker has taken, because the run is paused. It does not count as an attempt. A speculative
/// task, and one whose events are not written, leaves no trace.
pub fn withdraw(draft: &mut Draft) {
    if machines::workflow_task(&draft.run) != machine::State::Scheduled {
        return;
    }
    if draft.run.is_speculating() {
        return discard(draft);
    }
    draft.step(TaskMachine, machine::Event::Pause, |draft| {
        let Some(task) = draft.run.state.task.take() else { return };
        if !task.is_transient() {
            let attributes = WorkflowTaskFailedEventAttributes {
                scheduled_event_id: task.scheduled_event_id,
                cause: WorkflowTaskFailedCause::WorkflowPauseRequestedBeforeTaskStarted as i32,
                identity: SERVER_IDENTITY.to_owned(),
                ..Default::default()
            };
            draft.add(Attributes::WorkflowTaskFailedEventAttributes(Box::new(attributes)));
        }
        draft.run.state.sticky = None;
        draft.run.state.next_task_attempt = 1;
        draft.touch();
    });
}

/// After a failure: a sticky worker is given up first, without counting; otherwise the attempt counts.
fn count_failure(draft: &mut Draft, task: &WorkflowTask, problem: Problem) {
    let state = &mut draft.run.state;
    state.failures_since_success += 1;
    wake_set::wake(state);
    problems::note(state, problem);
    state.next_task_attempt = if state.sticky.take().is_some() { 1 } else { task.attempt + 1 };
    draft.touch();
}

/// Ends a task whose time is up and schedules the next one.
pub fn time_out(draft: &mut Draft) {
    draft.step(TaskMachine, machine::Event::TimeOut, end_timed_out);
    schedule_if_none(draft);
}

fn end_timed_out(draft: &mut Draft) {
    if draft.run.state.task.as_ref().is_some_and(|task| task.kind() == TaskKind::Speculative && !task.is_transient()) {
        draft.materialise("");
    }
    let Some(task) = draft.run.state.task.take() else { return };
    let timeout_type =
        if task.started_event_id == 0 { TimeoutType::ScheduleToStart } else { TimeoutType::StartToClose };
    if draft.run.state.reported_failure.is_none() {
        // What was reported says more than that a later attempt was not answered.
        draft.run.state.last_task_failure = "workflow task timed out".to_owned();
    }
    if !task.is_transient() {
        draft.add(Attributes::WorkflowTaskTimedOutEventAttributes(WorkflowTaskTimedOutEventAttributes {
            scheduled_event_id: task.scheduled_event_id,
            started_event_id: task.started_event_id,
            timeout_type: timeout_type as i32,
        }));
    }
    count_failure(draft, &task, Problem::TimedOut(timeout_type));
    if timeout_type == TimeoutType::ScheduleToStart {
        draft.run.state.next_task_attempt = 1;
    }
}

/// When the pending task's time is up.
pub fn deadline(run: &Run) -> Option<Nanos> {
    let task = run.state.task.as_ref()?;
    if task.started_event_id != 0 {
        Some(task.started_time + task.start_to_close)
    } else if task.schedule_to_start > 0 {
        Some(task.scheduled_time + task.schedule_to_start)
    } else {
        None
    }
}
