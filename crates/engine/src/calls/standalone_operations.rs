//! An operator pauses, resumes and resets a standalone activity, and changes its options.
//!
//! Unlike those of workflows: calls are recognised by their request ids, a call that makes no sense in the state of the
//! activity is refused, time-outs go on while a worker has a paused activity, and what would disturb an attempt that
//! runs waits for its end.

use segno_proto::{Nanos, activity::ActivityOptions, duration_nanos, enums::TaskQueueKind, nanos_duration};

use crate::{
    calls::{
        activity_options::Update,
        activity_pause::{Pause, Reset},
    },
    error::Rejection,
    machine::activity::Event,
    parts::{
        activity::{
            attempt::{begin_anew, moment_within, offer_if_due},
            options as activity_options,
        },
        standalone::status::{SCHEDULED_EVENT_ID as ID, StandaloneStatus, activity_of, first_due, status_of},
    },
    retry,
    state::{
        activity::{Activity, PauseInfo},
        run::Run,
        standalone::StandaloneRun,
    },
    transition::{Applied, Context, draft::Draft, steps::ActivityMachine},
};

fn precondition<R>(text: impl Into<String>) -> Result<R, Rejection> {
    Err(Rejection::Precondition(text.into()))
}

fn standalone_mut(draft: &mut Draft) -> Result<&mut StandaloneRun, Rejection> {
    draft.run.state.standalone.as_deref_mut().ok_or(Rejection::RunNotFound)
}

/// Whether a call was made before.
fn is_repeated(request_id: &str, last: &str) -> bool {
    !request_id.is_empty() && request_id == last
}

/// Keeps the activity from being handed out.
pub fn pause(run: &Run, context: Context, call: &Pause) -> Result<Applied<()>, Rejection> {
    let mut draft = Draft::new(run, context);
    let standalone = standalone_mut(&mut draft)?;
    if is_repeated(&call.request_id, &standalone.pause_request_id) {
        return Ok(draft.finish(()));
    }
    let status = status_of(run);
    if !matches!(status, StandaloneStatus::Scheduled | StandaloneStatus::Started) {
        return precondition(format!("activity is in non-pausable state {status}"));
    }
    standalone.pause_request_id.clone_from(&call.request_id);
    draft.step(ActivityMachine(ID), Event::Pause, |draft| {
        let Some(activity) = draft.activity_mut(ID) else { return };
        if activity.started_time == 0 {
            // Offers made so far are void.
            activity.stamp += 1;
        }
        activity.pause = Some(PauseInfo {
            time: context.now,
            identity: call.identity.clone(),
            reason: call.reason.clone(),
            request_id: call.request_id.clone(),
            ..Default::default()
        });
    });
    draft.touch();
    Ok(draft.finish(()))
}

/// Lets a paused activity go on, after a random part of `jitter`.
pub fn unpause(run: &Run, context: Context, request_id: &str, jitter: Nanos) -> Result<Applied<()>, Rejection> {
    let mut draft = Draft::new(run, context);
    let standalone = standalone_mut(&mut draft)?;
    if is_repeated(request_id, &standalone.unpause_request_id) {
        return Ok(draft.finish(()));
    }
    let retry_interval = standalone.retry_interval;
    request_id.clone_into(&mut standalone.unpause_request_id);
    match status_of(run) {
        StandaloneStatus::Over(status) => return precondition(format!("activity is in terminal state {status:?}")),
        StandaloneStatus::PauseRequested => end_pause(&mut draft),
        StandaloneStatus::Paused => {
            let mut at = not_before_first(run, moment_within(context, ID, jitter));
            if let Some(activity) = run.state.activities.get(&ID).filter(|_| retry_interval > 0) {
                at = at.max(activity.last_attempt_end.saturating_add(retry_interval));
            }
            wait_until(&mut draft, at, |activity| activity.pause = None);
        }
        other => return precondition(format!("activity is in non-unpausable state {other}")),
    }
    draft.touch();
    Ok(draft.finish(()))
}

/// Begins the activity anew, with attempt 1. If a worker has it, that happens when its attempt fails.
pub fn reset(run: &Run, context: Context, request_id: &str, call: Reset) -> Result<Applied<()>, Rejection> {
    let mut draft = Draft::new(run, context);
    let standalone = standalone_mut(&mut draft)?;
    if is_repeated(request_id, &standalone.reset_request_id) {
        return Ok(draft.finish(()));
    }
    request_id.clone_into(&mut standalone.reset_request_id);
    let original = call.restore_options.then(|| standalone.original.clone());
    match status_of(run) {
        StandaloneStatus::CancelRequested => {
            return precondition("cannot reset an activity with a pending cancellation");
        }
        StandaloneStatus::ResetRequested => return precondition("cannot reset an activity with a pending reset"),
        StandaloneStatus::Over(_) => return precondition("activity execution is not running"),
        StandaloneStatus::Started => reset_later(&mut draft, call),
        StandaloneStatus::PauseRequested => {
            if !call.keep_paused {
                end_pause(&mut draft);
            }
            reset_later(&mut draft, call);
        }
        StandaloneStatus::Paused | StandaloneStatus::Scheduled => {
            standalone.retry_interval = 0;
            let never_started = standalone.first_started_time == 0;
            if let Some(original) = &original {
                restore(&mut draft, original, never_started);
            }
            let anew = |activity: &mut Activity| {
                activity.attempt = 1;
                activity.lost_workers.clear();
                activity.forget_heartbeat |= call.reset_heartbeat;
                begin_anew(activity);
            };
            if status_of(run) == StandaloneStatus::Paused && call.keep_paused {
                if let Some(activity) = draft.activity_mut(ID) {
                    anew(activity);
                    activity.stamp += 1;
                }
            } else {
                let at = not_before_first(&draft.run, moment_within(context, ID, call.jitter));
                wait_until(&mut draft, at, |activity| {
                    activity.pause = None;
                    anew(activity);
                });
            }
        }
    }
    draft.touch();
    Ok(draft.finish(()))
}

fn reset_later(draft: &mut Draft, call: Reset) {
    if let Some(standalone) = &mut draft.run.state.standalone {
        standalone.reset_restores_options |= call.restore_options;
    }
    if let Some(activity) = draft.activity_mut(ID) {
        activity.reset = true;
        activity.lost_workers.clear();
        activity.forget_heartbeat |= call.reset_heartbeat;
    }
}

/// From now on heartbeats of a worker that has the activity say nothing of the pause.
fn end_pause(draft: &mut Draft) {
    draft.step(ActivityMachine(ID), Event::Unpause, |draft| {
        if let Some(activity) = draft.activity_mut(ID) {
            activity.pause = None;
        }
    });
}

/// A start that was put off counts as long as no attempt has begun.
fn not_before_first(run: &Run, at: Nanos) -> Nanos {
    let never_started = run.state.standalone.as_ref().is_some_and(|standalone| standalone.first_started_time == 0);
    if never_started { at.max(first_due(run)) } else { at }
}

/// Lets an activity that no worker has wait until this time, which may be now. Offers made so far are void.
fn wait_until(draft: &mut Draft, at: Nanos, change: impl FnOnce(&mut Activity)) {
    let later = at > draft.now();
    let paused = draft.run.state.activities.get(&ID).is_some_and(|activity| activity.pause.is_some());
    let event = match (paused, later) {
        (true, true) => Event::UnpauseLater,
        (true, false) => Event::Unpause,
        (false, true) => Event::PutOff,
        (false, false) => Event::Reschedule,
    };
    draft.step(ActivityMachine(ID), event, |draft| {
        let Some(activity) = draft.activity_mut(ID) else { return };
        activity.scheduled_time = at;
        activity.stamp += 1;
        change(activity);
    });
    offer_if_due(draft, ID);
}

fn restore(draft: &mut Draft, original: &ActivityOptions, with_delay: bool) {
    if with_delay {
        set_delay(draft, duration_nanos(original.start_delay.as_ref()));
    }
    if let Some(activity) = draft.activity_mut(ID) {
        activity_options::set(activity, original);
    }
}

fn set_delay(draft: &mut Draft, delay: Nanos) {
    let first = draft.run.info.start_time.saturating_add(delay);
    if let Some(standalone) = &mut draft.run.state.standalone {
        standalone.start_delay = delay;
    }
    if let Some(activity) = draft.activity_mut(ID) {
        activity.first_scheduled_time = first;
    }
}

/// The options of the activity, as the wire has them.
fn options_of(run: &Run) -> ActivityOptions {
    let delay = run.state.standalone.as_ref().map_or(0, |standalone| standalone.start_delay);
    let mut options = activity_of(&run.state).map(activity_options::options_of).unwrap_or_default();
    if let Some(queue) = &mut options.task_queue {
        queue.kind = TaskQueueKind::Normal as i32;
    }
    ActivityOptions { start_delay: (delay > 0).then(|| nanos_duration(delay)), ..options }
}

/// Changes options, or brings back those that the activity was started with. Replies with what it has then.
pub fn update(
    run: &Run,
    context: Context,
    request_id: &str,
    call: &Update,
    restores: bool,
) -> Result<Applied<ActivityOptions>, Rejection> {
    let mut draft = Draft::new(run, context);
    let standalone = standalone_mut(&mut draft)?;
    if is_repeated(request_id, &standalone.update_request_id) {
        return Ok(draft.finish(options_of(run)));
    }
    let status = status_of(run);
    if matches!(
        status,
        StandaloneStatus::Over(_) | StandaloneStatus::CancelRequested | StandaloneStatus::ResetRequested
    ) {
        return precondition(format!("Cannot update options for activity in state {status}"));
    }
    request_id.clone_into(&mut standalone.update_request_id);
    let never_started = standalone.first_started_time == 0;
    let paths = call.paths.clone().unwrap_or_default();
    let changes_delay = !restores && paths.iter().any(|path| path == "startDelay");
    if changes_delay && first_due(run) <= context.now && !(never_started && status == StandaloneStatus::Paused) {
        return precondition("cannot update start_delay: the first activity attempt has already been dispatched");
    }
    if restores {
        let original = standalone.original.clone();
        restore(&mut draft, &original, never_started);
    } else {
        let Some(activity) = run.state.activities.get(&ID) else { return Err(Rejection::RunNotFound) };
        let given = call.options.clone().unwrap_or_default();
        let before =
            ActivityOptions { start_delay: options_of(run).start_delay, ..activity_options::options_of(activity) };
        let merged = activity_options::merged_with(activity, before, &given, &paths, "");
        let merged = merged.map_err(|why| Rejection::InvalidArgument(why.0))?;
        if changes_delay {
            set_delay(&mut draft, duration_nanos(merged.start_delay.as_ref()));
        }
        if let Some(activity) = draft.activity_mut(ID) {
            activity_options::set(activity, &merged);
        }
    }
    let of_policy = restores || paths.iter().any(|path| path.starts_with("retryPolicy"));
    wait_as_options_say(&mut draft, status, of_policy);
    draft.touch();
    let reply = options_of(&draft.run);
    Ok(draft.finish(reply))
}

/// An activity that no worker has waits as long as its options now say.
fn wait_as_options_say(draft: &mut Draft, status: StandaloneStatus, of_policy: bool) {
    if !matches!(status, StandaloneStatus::Scheduled | StandaloneStatus::Paused) {
        return;
    }
    let Some(activity) = draft.run.state.activities.get(&ID) else { return };
    let (attempt, ended) = (activity.attempt, activity.last_attempt_end);
    let policy = activity.retry_policy.clone().unwrap_or_default();
    let mut interval = 0;
    if let Some(standalone) = &mut draft.run.state.standalone {
        if of_policy && standalone.retry_interval > 0 && standalone.retry_from_policy {
            standalone.retry_interval = retry::interval_before(&policy, attempt - 1);
        }
        interval = standalone.retry_interval;
    }
    if status == StandaloneStatus::Scheduled {
        let at = if interval > 0 { ended.saturating_add(interval) } else { not_before_first(&draft.run, draft.now()) };
        wait_until(draft, at, |_| ());
    }
}
