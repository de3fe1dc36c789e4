//! An operator pauses, resumes and resets activities.
//!
//! A paused activity is handed to no worker and nothing of it runs out. A worker that has it already may go on: it learns of
//! the pause by heartbeat, and what it reports counts, except that a failure that would be retried waits for the activity to
//! be resumed. Resuming and resetting begin an attempt at once if no worker has one.
//!
//! The server itself pauses an activity when too many workers were lost while they had it ([`super::worker_lost`]). Resuming
//! it lets it go to one more worker, resetting it forgets the lost workers.

use segno_proto::Nanos;

use crate::{
    error::Rejection,
    machine::activity::Event,
    parts::{
        activity::{
            attempt::{moment_within, offer_if_due, reschedule, stop_at_worker},
            options as activity_options,
        },
        pause_info as pause,
    },
    shared::Shared,
    state::{
        activity::{Activity, PauseInfo, is_waiting},
        run::Run,
    },
    transition::{Applied, Context, draft::Draft, steps::ActivityMachine},
};

/// Which activities of a run a call is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// The one with this id.
    Id(String),
    /// All of this type.
    Type(String),
    /// All.
    All,
}

impl Selection {
    /// The pending activities that are meant; at least one, or there is nothing to do.
    pub(crate) fn of(&self, run: &Run) -> Result<Vec<i64>, Rejection> {
        let meant = |activity: &&Shared<Activity>| match self {
            Self::Id(id) => activity.activity_id == *id,
            Self::Type(name) => activity.activity_type == *name,
            Self::All => true,
        };
        let found: Vec<i64> = run.state.activities.values().filter(meant).map(|a| a.scheduled_event_id).collect();
        if found.is_empty() { Err(Rejection::ActivityNotPending) } else { Ok(found) }
    }

    fn of_open(&self, run: &Run) -> Result<Vec<i64>, Rejection> {
        if run.is_running() { self.of(run) } else { Err(Rejection::Closed) }
    }
}

/// Who pauses, and why.
#[derive(Clone, Debug, Default)]
pub struct Pause {
    /// Who.
    pub identity: String,
    /// Why.
    pub reason: String,
    /// Recognises a repeated call. Two calls without one are the same call.
    pub request_id: String,
}

/// Keeps activities from being handed out.
pub fn pause(run: &Run, context: Context, selection: &Selection, call: &Pause) -> Result<Applied<()>, Rejection> {
    let ids = selection.of_open(run)?;
    let mut draft = Draft::new(run, context);
    for id in ids {
        let Some(activity) = draft.run.state.activities.get(&id) else { continue };
        match &activity.pause {
            Some(before) if before.request_id == call.request_id && !before.is_quarantine() => continue,
            Some(_) => return Err(Rejection::ActivityAlreadyPaused),
            None => {}
        }
        let pause = PauseInfo {
            time: context.now,
            identity: call.identity.clone(),
            reason: call.reason.clone(),
            request_id: call.request_id.clone(),
            ..Default::default()
        };
        set(&mut draft, id, pause);
    }
    Ok(draft.finish(()))
}

/// A workflow rule keeps an activity from being started: it is paused instead.
pub fn pause_by_rule(run: &Run, context: Context, id: i64, stamp: u32, rule: &str) -> Result<Applied<()>, Rejection> {
    let known = run.state.activities.get(&id);
    if !known.is_some_and(|activity| activity.stamp == stamp && is_waiting(activity, context.now)) {
        return Err(Rejection::TaskObsolete);
    }
    let mut draft = Draft::new(run, context);
    set(&mut draft, id, PauseInfo { time: context.now, rule_id: rule.to_owned(), ..Default::default() });
    Ok(draft.finish(()))
}

/// Pauses one activity.
pub(super) fn set(draft: &mut Draft, id: i64, pause: PauseInfo) {
    draft.step(ActivityMachine(id), Event::Pause, |draft| {
        let Some(activity) = draft.activity_mut(id) else { return };
        if activity.started_time == 0 {
            // Offers made so far are void.
            activity.stamp += 1;
        }
        activity.pause = Some(pause);
    });
    note_pauses(draft);
}

/// How activities are resumed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unpause {
    /// Count attempts from 1 again.
    pub reset_attempts: bool,
    /// Forget what the worker said by heartbeat.
    pub reset_heartbeat: bool,
    /// Begin at a random moment within this time.
    pub jitter: Nanos,
}

/// Lets paused activities go on; leaves others alone.
pub fn unpause(run: &Run, context: Context, selection: &Selection, call: Unpause) -> Result<Applied<()>, Rejection> {
    let ids = selection.of_open(run)?;
    let mut draft = Draft::new(run, context);
    for id in ids {
        if draft.run.state.activities.get(&id).is_none_or(|activity| activity.pause.is_none()) {
            continue;
        }
        end_pause(&mut draft, id);
        let Some(activity) = draft.activity_mut(id) else { continue };
        if call.reset_attempts {
            activity.attempt = 1;
            activity.lost_workers.clear();
        }
        if call.reset_heartbeat {
            forget_heartbeat(activity);
        }
        if activity.started_time == 0 {
            reschedule(&mut draft, id, moment_within(context, id, call.jitter));
        }
        note_pauses(&mut draft);
        offer_if_due(&mut draft, id);
    }
    Ok(draft.finish(()))
}

/// How activities are reset.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reset {
    /// Forget what the worker said by heartbeat; if a worker has the activity, before the next attempt.
    pub reset_heartbeat: bool,
    /// Paused activities stay paused.
    pub keep_paused: bool,
    /// Begin at a random moment within this time.
    pub jitter: Nanos,
    /// Bring back the options the activity was scheduled with. Its priority stays.
    pub restore_options: bool,
}

/// Begins activities anew, with attempt 1. An attempt that a worker has goes on: as the first one if it is that, and
/// without the worker otherwise, because the worker's token no longer names the current attempt.
pub fn reset(run: &Run, context: Context, selection: &Selection, call: Reset) -> Result<Applied<()>, Rejection> {
    let ids = selection.of_open(run)?;
    let mut draft = Draft::new(run, context);
    for id in ids {
        let Some(activity) = draft.run.state.activities.get(&id) else { continue };
        if activity.attempt != 1 {
            // A worker that has it has an attempt that no longer counts.
            stop_at_worker(&mut draft, id);
        }
        let Some(activity) = draft.activity_mut(id) else { continue };
        activity.attempt = 1;
        activity.lost_workers.clear();
        activity.reset = true;
        activity.forget_heartbeat |= call.reset_heartbeat;
        if call.restore_options {
            activity_options::restore_all_but_priority(activity);
        }
        if activity.pause.is_some() && !call.keep_paused {
            end_pause(&mut draft, id);
        }
        let known = draft.run.state.activities.get(&id);
        if known.is_some_and(|activity| activity.started_time == 0 && activity.pause.is_none()) {
            reschedule(&mut draft, id, moment_within(context, id, call.jitter));
        }
        note_pauses(&mut draft);
        offer_if_due(&mut draft, id);
    }
    Ok(draft.finish(()))
}

fn end_pause(draft: &mut Draft, id: i64) {
    let now = draft.now();
    let later = |activity: &Activity| activity.started_time == 0 && activity.scheduled_time > now;
    let later = draft.run.state.activities.get(&id).is_some_and(|activity| later(activity));
    draft.step(ActivityMachine(id), if later { Event::UnpauseLater } else { Event::Unpause }, |draft| {
        let Some(activity) = draft.activity_mut(id) else { return };
        activity.pause = None;
        activity.stamp += 1;
    });
}

fn forget_heartbeat(activity: &mut Activity) {
    activity.heartbeat_details = None;
    activity.last_heartbeat_time = 0;
}

/// Brings the run's search attribute in line with what is paused. These calls do so, and those that pause and unpause the
/// run: the end of a paused activity leaves it as it is.
fn note_pauses(draft: &mut Draft) {
    draft.touch();
    let run = &mut draft.run;
    pause::note(&mut run.state, &run.info.workflow_id);
}
