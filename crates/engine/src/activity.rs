//! Activities: from the command that schedules one to the event that ends it.
//!
//! The started event is written together with the event that ends the activity, because attempts before the last one
//! leave no trace in history. Until then the activity lives in the run's state.

use prost::Message;
use segno_proto::{
    Nanos,
    common::{Payload, Payloads, WorkerVersionStamp},
    duration_nanos,
    enums::{RetryState, TimeoutType},
    events::{
        ActivityTaskCanceledEventAttributes, ActivityTaskCompletedEventAttributes, ActivityTaskFailedEventAttributes,
        ActivityTaskStartedEventAttributes, history_event::Attributes,
    },
    failure::{Failure, failure::FailureInfo},
};

use crate::{
    draft::{Draft, event},
    error::Rejection,
    limits::ACTIVITY_FAILURE_BYTES_MAX,
    machine::activity as machine,
    retry,
    run::{ActivityStop, Applied, Context, Effect, Run},
    standalone,
    state::Activity,
    steps::OfActivity,
    workflow_task,
};

/// Which activity a call is about.
#[derive(Clone, Debug)]
pub enum ActivityRef {
    /// The attempt a token names.
    Token {
        /// Its scheduled event.
        scheduled_event_id: i64,
        /// The attempt.
        attempt: i32,
        /// When that attempt started; 0 accepts any.
        started_time: Nanos,
    },
    /// Whatever attempt runs under the user's id.
    Id(String),
}

/// Where the machine of one activity stands.
pub fn state_of(activity: &Activity, now: Nanos) -> machine::State {
    let paused = activity.pause.is_some();
    if activity.started_time != 0 {
        if paused { machine::State::PauseRequested } else { machine::State::Running }
    } else if paused {
        machine::State::Paused
    } else if activity.scheduled_time > now {
        machine::State::BackingOff
    } else {
        machine::State::Waiting
    }
}

/// Whether it may be handed to a worker now.
pub fn is_waiting(activity: &Activity, now: Nanos) -> bool {
    activity.started_time == 0 && activity.pause.is_none() && activity.scheduled_time <= now
}

/// The SDK of a worker, as its calls name it. Empty where they do not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sdk {
    /// Its name, such as `temporal-go`.
    pub name: String,
    /// Its version.
    pub version: String,
}

/// Who takes an activity.
#[derive(Clone, Debug, Default)]
pub struct Taker {
    /// The worker, by the name people know.
    pub identity: String,
    /// Recognises the start.
    pub request_id: String,
    /// The worker's version, as far as it says.
    pub worker_version: Option<WorkerVersionStamp>,
    /// The worker process, as it names itself.
    pub worker: String,
    /// The queue on which it takes commands.
    pub control_queue: String,
    /// Whether it reports by itself.
    pub reports: bool,
    /// Its SDK; kept of standalone activities alone.
    pub sdk: Sdk,
}

/// A worker takes an activity. Replies with the activity as it is now.
pub fn start(
    run: &Run,
    context: Context,
    scheduled_event_id: i64,
    stamp: u32,
    taker: Taker,
) -> Result<Applied<Activity>, Rejection> {
    let known = run.state.activities.get(&scheduled_event_id);
    let current =
        known.is_some_and(|activity| activity.stamp == stamp && activity.started_time == 0 && activity.pause.is_none());
    if !run.has_work() || run.is_paused() || !current {
        return Err(Rejection::TaskObsolete);
    }
    let mut draft = Draft::new(run, context);
    let activity = begin(&mut draft, scheduled_event_id, taker);
    match activity {
        Some(activity) => Ok(draft.finish(activity)),
        None => Err(Rejection::TaskObsolete),
    }
}

/// Marks an activity as started, within a larger transition.
pub fn begin(draft: &mut Draft, scheduled_event_id: i64, taker: Taker) -> Option<Activity> {
    let now = draft.now();
    let mut taken = None;
    draft.run.state.activities.get(&scheduled_event_id)?;
    standalone::note_start(draft, taker.sdk);
    draft.step(OfActivity(scheduled_event_id), machine::Event::Start, |draft| {
        let Some(activity) = draft.activity_mut(scheduled_event_id) else { return };
        activity.started_time = now;
        activity.started_identity.clone_from(&taker.identity);
        activity.last_identity = taker.identity;
        activity.request_id = taker.request_id;
        activity.worker_version = taker.worker_version;
        activity.worker = taker.worker;
        activity.control_queue = taker.control_queue;
        activity.worker_reports = taker.reports;
        taken = Some(activity.clone().into_inner());
    });
    draft.touch();
    taken
}

/// A worker that was handed an activity never got it: it waits again, and nothing counts as an attempt.
pub fn give_back(run: &Run, context: Context, id: i64, started_time: Nanos) -> Result<Applied<()>, Rejection> {
    if !run.has_work() {
        return Err(Rejection::Closed);
    }
    let mut draft = Draft::new(run, context);
    let Some(activity) = run.state.activities.get(&id) else { return Err(Rejection::ActivityNotFound) };
    if activity.started_time != started_time || started_time == 0 {
        return Err(Rejection::ActivityNotFound);
    }
    let mut waits = false;
    draft.step(OfActivity(id), machine::Event::GiveBack, |draft| {
        let Some(activity) = draft.activity_mut(id) else { return };
        activity.started_time = 0;
        activity.started_identity.clear();
        leave_worker(activity);
        activity.stamp += 1;
        waits = is_waiting(activity, context.now);
    });
    draft.touch();
    if waits {
        draft.effect(Effect::OfferActivity(id));
    }
    Ok(draft.finish(()))
}

/// Finds the activity a call is about. By token it must be the attempt that runs; by id it need not have started.
fn find(run: &Run, reference: &ActivityRef) -> Result<i64, Rejection> {
    if !run.has_work() {
        return Err(Rejection::Closed);
    }
    match reference {
        ActivityRef::Token { scheduled_event_id, attempt, started_time } => {
            let activity = run.state.activities.get(scheduled_event_id).ok_or(Rejection::ActivityNotFound)?;
            let same_start = *started_time == 0 || activity.started_time == *started_time;
            if activity.started_time == 0 || activity.attempt != *attempt || !same_start {
                return Err(Rejection::ActivityNotFound);
            }
            Ok(*scheduled_event_id)
        }
        ActivityRef::Id(id) => run
            .state
            .activities
            .values()
            .find(|activity| activity.activity_id == *id)
            .map(|activity| activity.scheduled_event_id)
            .ok_or_else(|| Rejection::ActivityIdNotFound(id.clone())),
    }
}

/// Like [`find`] for calls that only make sense while an attempt runs.
fn find_started(run: &Run, reference: &ActivityRef) -> Result<i64, Rejection> {
    let id = find(run, reference)?;
    if run.state.activities.get(&id).is_none_or(|activity| activity.started_time == 0) {
        return Err(Rejection::ActivityNotFound);
    }
    Ok(id)
}

/// What a worker hears in answer to a heartbeat.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeartbeatReply {
    /// Whether it should stop.
    pub cancel_requested: bool,
    /// Whether somebody paused the activity.
    pub paused: bool,
    /// Whether somebody reset it.
    pub reset: bool,
}

/// A worker says that it is still at work.
pub fn heartbeat(
    run: &Run,
    context: Context,
    reference: &ActivityRef,
    details: Option<Payloads>,
    identity: String,
) -> Result<Applied<HeartbeatReply>, Rejection> {
    let id = find_started(run, reference)?;
    let size = details.as_ref().map_or(0, Message::encoded_len);
    if size > context.limits.blob_bytes {
        let failure = retry::server_failure("Heartbeat details exceed size limit.", true);
        let failed = fail_found(run, context, id, Some(failure), identity, None, None)?;
        return Ok(Applied {
            run: failed.run,
            transition: failed.transition,
            reply: HeartbeatReply { cancel_requested: true, ..Default::default() },
        });
    }
    let mut draft = Draft::new(run, context);
    let mut reply = HeartbeatReply::default();
    draft.step(OfActivity(id), machine::Event::Heartbeat, |draft| {
        let Some(activity) = draft.activity_mut(id) else { return };
        activity.last_heartbeat_time = context.now;
        activity.heartbeat_details = details;
        activity.heartbeats += i64::from(activity.standalone);
        if activity.started_identity.is_empty() && !identity.is_empty() {
            // It polled without saying who it is.
            activity.last_identity = identity;
        }
        reply = HeartbeatReply {
            cancel_requested: activity.cancel_requested,
            paused: activity.pause.is_some(),
            reset: activity.reset,
        };
        if activity.standalone {
            // It is told one thing at a time.
            let HeartbeatReply { cancel_requested, reset, paused } = reply;
            let (reset, paused) = (reset && !cancel_requested, paused && !cancel_requested && !reset);
            reply = HeartbeatReply { cancel_requested, reset, paused };
        }
    });
    draft.touch();
    Ok(draft.finish(reply))
}

/// An activity succeeded.
pub fn complete(
    run: &Run,
    context: Context,
    reference: &ActivityRef,
    result: Option<Payloads>,
    identity: String,
    worker_version: Option<WorkerVersionStamp>,
) -> Result<Applied<()>, Rejection> {
    let id = find(run, reference)?;
    if result.as_ref().map_or(0, Message::encoded_len) > context.limits.blob_bytes {
        let failure = retry::server_failure("Complete result exceeds size limit.", true);
        return fail_found(run, context, id, Some(failure), identity, None, worker_version);
    }
    let mut draft = Draft::new(run, context);
    if run.state.activities.get(&id).is_some_and(|activity| activity.started_time == 0) {
        // Completed by id before any worker took it: it started in the same moment.
        begin(&mut draft, id, Taker { identity: identity.clone(), ..Default::default() });
    }
    end(&mut draft, id, |activity, started_event_id| {
        Attributes::ActivityTaskCompletedEventAttributes(ActivityTaskCompletedEventAttributes {
            result,
            scheduled_event_id: activity.scheduled_event_id,
            started_event_id,
            identity: identity.clone(),
            worker_version,
        })
    });
    workflow_task::schedule_if_none(&mut draft);
    Ok(draft.finish(()))
}

/// An activity failed: it is tried again, or the workflow learns of it.
pub fn fail(
    run: &Run,
    context: Context,
    reference: &ActivityRef,
    failure: Option<Failure>,
    identity: String,
    heartbeat_details: Option<Payloads>,
    worker_version: Option<WorkerVersionStamp>,
) -> Result<Applied<()>, Rejection> {
    let id = find_started(run, reference)?;
    fail_found(run, context, id, failure, identity, heartbeat_details, worker_version)
}

fn fail_found(
    run: &Run,
    context: Context,
    id: i64,
    failure: Option<Failure>,
    identity: String,
    heartbeat_details: Option<Payloads>,
    worker_version: Option<WorkerVersionStamp>,
) -> Result<Applied<()>, Rejection> {
    let mut draft = Draft::new(run, context);
    if let Some(activity) = draft.activity_mut(id) {
        activity.last_attempt_end = context.now;
        if heartbeat_details.is_some() {
            activity.heartbeat_details = heartbeat_details;
            activity.last_heartbeat_time = context.now;
            activity.heartbeats += i64::from(activity.standalone);
        }
    }
    let retry_state = retry_or_end(&mut draft, id, failure.as_ref().unwrap_or(&Failure::default()));
    if retry_state != RetryState::InProgress {
        end(&mut draft, id, |activity, started_event_id| {
            Attributes::ActivityTaskFailedEventAttributes(ActivityTaskFailedEventAttributes {
                failure,
                scheduled_event_id: activity.scheduled_event_id,
                started_event_id,
                identity: identity.clone(),
                retry_state: retry_state as i32,
                worker_version,
                ..Default::default()
            })
        });
        workflow_task::schedule_if_none(&mut draft);
    }
    Ok(draft.finish(()))
}

/// A worker obeyed a cancellation.
pub fn cancel(
    run: &Run,
    context: Context,
    reference: &ActivityRef,
    details: Option<Payloads>,
    identity: String,
    worker_version: Option<WorkerVersionStamp>,
) -> Result<Applied<()>, Rejection> {
    let id = find_started(run, reference)?;
    let requested = run.state.activities.get(&id).is_some_and(|activity| activity.cancel_requested);
    if !requested {
        return Err(Rejection::ActivityCancelNotRequested);
    }
    if details.as_ref().map_or(0, Message::encoded_len) > context.limits.blob_bytes {
        let failure = retry::server_failure("Cancel details exceed size limit.", true);
        return fail_found(run, context, id, Some(failure), identity, None, worker_version);
    }
    let mut draft = Draft::new(run, context);
    end_canceled(&mut draft, id, details, &identity, worker_version);
    workflow_task::schedule_if_none(&mut draft);
    Ok(draft.finish(()))
}

/// Writes the canceled event and forgets the activity.
pub fn end_canceled(
    draft: &mut Draft,
    id: i64,
    details: Option<Payloads>,
    identity: &str,
    worker_version: Option<WorkerVersionStamp>,
) {
    end(draft, id, |activity, started_event_id| {
        Attributes::ActivityTaskCanceledEventAttributes(ActivityTaskCanceledEventAttributes {
            details,
            latest_cancel_requested_event_id: activity.cancel_requested_event_id,
            scheduled_event_id: activity.scheduled_event_id,
            started_event_id,
            identity: identity.to_owned(),
            worker_version,
        })
    });
}

/// Puts a failed activity back to wait for its next attempt, if its policy allows one.
pub(crate) fn retry_or_end(draft: &mut Draft, id: i64, failure: &Failure) -> RetryState {
    retry_after(draft, id, failure, retry::requested_delay(failure))
}

/// Like [`retry_or_end`], after the given delay instead of the policy's.
pub(crate) fn retry_after(draft: &mut Draft, id: i64, failure: &Failure, delay: Option<Nanos>) -> RetryState {
    let now = draft.now();
    let Some(activity) = draft.run.state.activities.get(&id) else { return RetryState::InternalServerError };
    let of_whole = match &failure.failure_info {
        Some(FailureInfo::TimeoutFailureInfo(info)) => {
            matches!(info.timeout_type(), TimeoutType::ScheduleToStart | TimeoutType::ScheduleToClose)
        }
        _ => false,
    };
    if activity.standalone && activity.reset && !of_whole {
        return standalone::begin_reset_attempt(draft, id, failure);
    }
    let Some(policy) = activity.retry_policy.clone() else { return RetryState::RetryPolicyNotSet };
    if activity.cancel_requested {
        return RetryState::CancelRequested;
    }
    if of_whole {
        return RetryState::Timeout;
    }
    if !retry::is_retryable(failure, &policy.non_retryable_error_types) {
        return RetryState::NonRetryableFailure;
    }
    let paused = activity.pause.is_some();
    if paused && !activity.standalone {
        // The attempt counts and nothing else happens: neither is there a last attempt nor does time run out.
        draft.step(OfActivity(id), machine::Event::Retry, |draft| {
            let Some(activity) = draft.activity_mut(id) else { return };
            activity.attempt += 1;
            clear_start(activity);
            activity.last_failure = Some(retry::kept(failure, ACTIVITY_FAILURE_BYTES_MAX));
            activity.stamp += 1;
        });
        draft.touch();
        return RetryState::InProgress;
    }
    let deadline = retry_deadline(activity);
    match retry::next_backoff(now, activity.attempt, &policy, deadline, delay) {
        Err(state) => state,
        Ok(backoff) => {
            let due_now = backoff <= 0 && !paused;
            let event = if due_now { machine::Event::RetryAtOnce } else { machine::Event::Retry };
            draft.step(OfActivity(id), event, |draft| {
                let Some(activity) = draft.activity_mut(id) else { return };
                activity.attempt += 1;
                activity.scheduled_time = now.saturating_add(backoff);
                clear_start(activity);
                activity.last_failure = Some(retry::kept(failure, ACTIVITY_FAILURE_BYTES_MAX));
                activity.stamp += 1;
                begin_anew(activity);
            });
            draft.touch();
            standalone::note_retry(draft, backoff, delay.is_none());
            if due_now {
                draft.effect(Effect::OfferActivity(id));
            }
            RetryState::InProgress
        }
    }
}

/// No worker has it any more.
pub(crate) fn clear_start(activity: &mut Activity) {
    activity.started_time = 0;
    activity.last_identity = std::mem::take(&mut activity.started_identity);
    activity.request_id.clear();
    leave_worker(activity);
}

/// Forgets which process has it.
fn leave_worker(activity: &mut Activity) {
    activity.worker.clear();
    activity.control_queue.clear();
    activity.worker_reports = false;
}

/// Tells the worker that has the activity to stop, if somebody has it and takes commands.
pub(crate) fn stop_at_worker(draft: &mut Draft, id: i64) {
    let Some(activity) = draft.run.state.activities.get(&id) else { return };
    if activity.started_time == 0 || activity.control_queue.is_empty() {
        return;
    }
    let stop = ActivityStop {
        control_queue: activity.control_queue.clone(),
        run_id: draft.run.info.run_id.clone(),
        scheduled_event_id: id,
        attempt: activity.attempt,
        started_time: activity.started_time,
        activity_id: activity.activity_id.clone(),
    };
    draft.effect(Effect::StopActivity(Box::new(stop)));
}

/// Before the next attempt: what a reset asked for is done.
pub(crate) fn begin_anew(activity: &mut Activity) {
    if activity.forget_heartbeat {
        activity.heartbeat_details = None;
        activity.last_heartbeat_time = 0;
    }
    activity.forget_heartbeat = false;
    activity.reset = false;
}

/// The moment after which no further attempt is made; 0 is never. Options changed since do not move it.
pub fn retry_deadline(activity: &Activity) -> Nanos {
    let timeout = match &activity.original_options {
        Some(original) if !activity.standalone => duration_nanos(original.schedule_to_close_timeout.as_ref()),
        _ => activity.schedule_to_close,
    };
    if timeout == 0 { 0 } else { activity.first_scheduled_time.saturating_add(timeout) }
}

/// Writes the started event, if an attempt was running, and the event that ends the activity.
pub(crate) fn end(draft: &mut Draft, id: i64, ending: impl FnOnce(&Activity, i64) -> Attributes) {
    let mut ended = None;
    if draft.run.state.activities.contains_key(&id) {
        draft.step(OfActivity(id), machine::Event::End, |draft| ended = draft.remove_activity(id));
    }
    let Some(activity) = ended else { return };
    if !draft.run.is_running() {
        // It outlived its run: its end goes nowhere.
        draft.touch();
        return;
    }
    if activity.standalone {
        let told = ending(&activity, 0);
        standalone::end(draft, activity, told);
        return;
    }
    let mut started_event_id = 0;
    if activity.started_time != 0 {
        let mut started = event(
            activity.started_time,
            Attributes::ActivityTaskStartedEventAttributes(ActivityTaskStartedEventAttributes {
                scheduled_event_id: id,
                identity: activity.started_identity.clone(),
                request_id: activity.request_id.clone(),
                attempt: activity.attempt,
                last_failure: activity.last_failure.clone(),
                worker_version: activity.worker_version.clone(),
                build_id_redirect_counter: 0,
            }),
        );
        started.worker_may_ignore = false;
        started_event_id = draft.add_external_event(started);
    }
    let attributes = ending(&activity, started_event_id);
    draft.add_external(attributes);
}

/// Details recorded when an activity is canceled before any worker took it.
pub fn not_started_details() -> Payloads {
    let metadata = [("encoding".to_owned(), "json/plain".into())].into();
    let data = "\"ACTIVITY_ID_NOT_STARTED\"".into();
    Payloads { payloads: vec![Payload { metadata, data, ..Default::default() }] }
}
