//! An operator changes the options of activities: queue, time-outs, retry policy, priority.
//!
//! What changes counts from now on. The options an activity was scheduled with are kept when they change for the first
//! time, so that they can be brought back. Which errors are not retried is no option: that stays.

use segno_proto::{Nanos, activity::ActivityOptions};

use crate::{
    calls::activity_pause::Selection,
    error::Rejection,
    parts::activity::{
        attempt::{offer_if_due, reschedule},
        options::{keep_original, merged, original_of, set},
    },
    retry,
    state::{activity::Activity, run::Run},
    transition::{Applied, Context, draft::Draft},
};

pub use crate::parts::activity::options::{FIELDS, field_path};

/// A change of options.
#[derive(Clone, Debug, Default)]
pub struct Update {
    /// The new values.
    pub options: Option<ActivityOptions>,
    /// Which of them count, as paths (see [`field_path`]). Unknown ones are not looked at.
    pub paths: Option<Vec<String>>,
}

/// Changes the options of activities. Replies with the options of the last one.
pub fn update(
    run: &Run,
    context: Context,
    selection: &Selection,
    call: &Update,
) -> Result<Applied<ActivityOptions>, Rejection> {
    let invalid = |text: &str| Rejection::InvalidArgument(text.to_owned());
    run.check_open()?;
    let Some(given) = &call.options else { return Err(invalid("ActivityOptions are not provided")) };
    let ids = selection.of(run)?;
    let Some(paths) = &call.paths else { return Err(invalid("UpdateMask is not provided")) };
    let mut draft = Draft::new(run, context);
    let mut reply = ActivityOptions::default();
    for id in ids {
        let Some(activity) = draft.activity_mut(id) else { continue };
        reply =
            merged(activity, given, paths, &run.info.task_queue).map_err(|why| Rejection::InvalidArgument(why.0))?;
        keep_original(activity);
        set(activity, &reply);
        settle(&mut draft, id);
    }
    Ok(draft.finish(reply))
}

/// Brings back the options that activities were scheduled with. Replies with those of the last one. Of a closed run
/// they are told, but there is nothing left to change.
pub fn restore(run: &Run, context: Context, selection: &Selection) -> Result<Applied<ActivityOptions>, Rejection> {
    let ids = selection.of(run)?;
    let mut draft = Draft::new(run, context);
    let mut reply = ActivityOptions::default();
    for id in ids {
        let Some(activity) = draft.activity_mut(id) else { continue };
        reply = original_of(activity);
        if run.is_running() {
            set(activity, &reply);
            settle(&mut draft, id);
        }
    }
    Ok(draft.finish(reply))
}

/// After a change: an activity that no worker has is offered again, at the time its policy now says.
fn settle(draft: &mut Draft, id: i64) {
    if let Some(activity) = draft.activity_mut(id) {
        activity.stamp += 1;
        if activity.started_time == 0 {
            let at = next_attempt(activity);
            reschedule(draft, id, at);
        }
    }
    offer_if_due(draft, id);
}

fn next_attempt(activity: &Activity) -> Nanos {
    let policy = activity.retry_policy.clone().unwrap_or_default();
    let interval = retry::interval_before(&policy, activity.attempt);
    if activity.attempt > 1 && interval > 0 {
        activity.last_attempt_end.saturating_add(interval)
    } else {
        activity.scheduled_time
    }
}
