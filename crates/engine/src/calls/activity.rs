//! What workers say about activities: they take one, give it back, report progress, success, failure or cancellation.

use prost::Message;
use segno_proto::{
    Nanos,
    common::{Payloads, WorkerVersionStamp},
    enums::RetryState,
    events::{ActivityTaskCompletedEventAttributes, ActivityTaskFailedEventAttributes, history_event::Attributes},
    failure::Failure,
};

use crate::{
    error::Rejection,
    machine::activity as machine,
    parts::{
        activity::{
            attempt::leave_worker,
            end::{end, end_canceled, retry_or_end},
        },
        versioning, workflow_task,
    },
    retry,
    state::{activity::Activity, run::Run},
    transition::{Applied, Context, Effect, draft::Draft, steps::ActivityMachine},
};

pub use crate::{
    parts::activity::{Sdk, Taker, begin, retry_deadline},
    state::activity::is_waiting,
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
    /// The attempt that runs under the user's id.
    Id(String),
}

/// A worker takes an activity. Replies with the activity as it is now; with `None` if the workflow moves to the worker's version
/// first, after which the activity is offered again.
pub fn start(
    run: &Run,
    context: Context,
    scheduled_event_id: i64,
    stamp: u32,
    taker: Taker,
) -> Result<Applied<Option<Activity>>, Rejection> {
    let known = run.state.activities.get(&scheduled_event_id);
    let current =
        known.is_some_and(|activity| activity.stamp == stamp && activity.started_time == 0 && activity.pause.is_none());
    if !run.has_work() || run.is_paused() || !current {
        return Err(Rejection::TaskObsolete);
    }
    let mut draft = Draft::new(run, context);
    if !versioning::take_activity(&mut draft, taker.poller.as_ref(), taker.target.as_ref()) {
        return Ok(draft.finish(None));
    }
    match begin(&mut draft, scheduled_event_id, taker) {
        Some(activity) => Ok(draft.finish(Some(activity))),
        None => Err(Rejection::TaskObsolete),
    }
}

/// A worker that was handed an activity never got it: it waits again, and nothing counts as an attempt.
pub fn give_back(run: &Run, context: Context, id: i64, started_time: Nanos) -> Result<Applied<()>, Rejection> {
    if !run.has_work() {
        return Err(Rejection::Closed);
    }
    let Some(activity) = run.state.activities.get(&id) else { return Err(Rejection::ActivityNotFound) };
    if activity.started_time != started_time || started_time == 0 {
        return Err(Rejection::ActivityNotFound);
    }
    let mut draft = Draft::new(run, context);
    put_back(&mut draft, id);
    Ok(draft.finish(()))
}

/// Takes an attempt back from its worker as if it had not been handed over.
pub(super) fn put_back(draft: &mut Draft, id: i64) {
    let now = draft.now();
    let mut waits = false;
    draft.step(ActivityMachine(id), machine::Event::GiveBack, |draft| {
        let Some(activity) = draft.activity_mut(id) else { return };
        activity.started_time = 0;
        activity.started_identity.clear();
        // It was due when the worker took it, also if the clock has been set back since.
        activity.scheduled_time = activity.scheduled_time.min(now);
        leave_worker(activity);
        activity.stamp += 1;
        waits = is_waiting(activity, now);
    });
    draft.touch();
    if waits {
        draft.effect(Effect::OfferActivity(id));
    }
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

/// The answer to the heartbeat of a worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeartbeatReply {
    /// Whether it should stop.
    pub cancel_requested: bool,
    /// Whether the activity is paused.
    pub paused: bool,
    /// Whether it was reset.
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
    draft.step(ActivityMachine(id), machine::Event::Heartbeat, |draft| {
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
            // The answer carries one fact at a time.
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
