//! What runs out for an activity, and when it wants attention.

use segno_proto::{
    Nanos,
    enums::{RetryState, TimeoutType},
    events::{ActivityTaskTimedOutEventAttributes, history_event::Attributes},
    failure::{Failure, failure::FailureInfo},
};

use crate::{
    parts::{
        activity::{
            attempt::stop_at_worker,
            end::{end, retry_or_end},
        },
        standalone::outcome,
    },
    retry,
    state::activity::Activity,
    transition::draft::Draft,
};

/// The time-out of an activity that comes first.
pub fn earliest_timeout(activity: &Activity) -> Option<(Nanos, TimeoutType)> {
    if activity.pause.as_ref().is_some_and(|pause| !pause.is_quarantine()) && !activity.standalone {
        // Nothing runs out while it is paused, not even for a worker that has it. What did shows when it is resumed.
        // A pause that no caller asked for does not take the deadline from the workflow.
        return None;
    }
    let mut found: Option<(Nanos, TimeoutType)> = None;
    let mut consider = |timeout: Nanos, since: Nanos, kind: TimeoutType| {
        if timeout > 0 {
            let at = since.saturating_add(timeout);
            if found.is_none_or(|(earliest, _)| at < earliest) {
                found = Some((at, kind));
            }
        }
    };
    // Of two that run out in the same moment the one considered first counts. An eager activity starts in the moment in
    // which it is scheduled; it counts as scheduled before.
    if activity.started_time == 0 && activity.pause.is_none() {
        consider(activity.schedule_to_start, activity.scheduled_time, TimeoutType::ScheduleToStart);
    }
    consider(activity.schedule_to_close, activity.first_scheduled_time, TimeoutType::ScheduleToClose);
    if activity.started_time != 0 {
        consider(activity.start_to_close, activity.started_time, TimeoutType::StartToClose);
        let heard = activity.last_heartbeat_time.max(activity.started_time);
        consider(activity.heartbeat, heard, TimeoutType::Heartbeat);
    }
    found
}

/// Whether it is, or was until just now, kept from workers until its next attempt is due. A first attempt is offered
/// with the command, unless a later call put it off; that of a standalone activity may be put off from the beginning.
pub fn is_held_back(activity: &Activity) -> bool {
    let put_off = activity.scheduled_time != activity.first_scheduled_time;
    let later = activity.attempt > 1 || put_off || activity.standalone;
    later && activity.started_time == 0 && activity.pause.is_none()
}

/// When an activity wants attention next: a timeout, or the end of its back-off.
pub fn wake_at(activity: &Activity, woken: Nanos) -> Option<Nanos> {
    let timeout = earliest_timeout(activity).map(|(at, _)| at);
    let due = (is_held_back(activity) && activity.scheduled_time > woken).then_some(activity.scheduled_time);
    [timeout, due].into_iter().flatten().min()
}

/// Ends or retries an activity whose time is up. Returns whether the workflow has something new to see.
pub fn time_out(draft: &mut Draft, id: i64, kind: TimeoutType) -> bool {
    let mut failure = retry::timeout_failure(format!("activity {} timeout", retry::timeout_name(kind)), kind);
    let Some(before) = draft.run.state.activities.get(&id).cloned() else { return false };
    let before = before.into_inner();
    let source = |failure: &mut Failure| {
        // Temporal does not say who noticed it, of a standalone activity.
        if before.standalone {
            failure.source.clear();
        }
    };
    source(&mut failure);
    stop_at_worker(draft, id);
    if before.standalone && matches!(kind, TimeoutType::StartToClose | TimeoutType::Heartbeat) {
        let now = draft.now();
        if let Some(activity) = draft.activity_mut(id) {
            activity.last_attempt_end = now;
        }
    }
    let retry_state = retry_or_end(draft, id, &failure);
    if retry_state == RetryState::InProgress {
        return false;
    }
    outcome::note_timed_out(draft, id, kind, &failure);
    let of_whole = before.standalone && kind == TimeoutType::ScheduleToClose;
    if retry_state == RetryState::Timeout && kind != TimeoutType::ScheduleToStart && !of_whole {
        failure = retry::timeout_failure(
            "Not enough time to schedule next retry before activity ScheduleToClose timeout, giving up retrying"
                .to_owned(),
            TimeoutType::ScheduleToClose,
        );
        source(&mut failure);
    }
    if let Some(FailureInfo::TimeoutFailureInfo(info)) = &mut failure.failure_info {
        info.last_heartbeat_details.clone_from(&before.heartbeat_details);
    }
    failure.cause = before.last_failure.clone().map(Box::new);
    end(draft, id, |activity, started_event_id| {
        Attributes::ActivityTaskTimedOutEventAttributes(ActivityTaskTimedOutEventAttributes {
            failure: Some(failure),
            scheduled_event_id: activity.scheduled_event_id,
            started_event_id,
            retry_state: retry_state as i32,
        })
    });
    true
}
