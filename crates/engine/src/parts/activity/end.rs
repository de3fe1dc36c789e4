//! The end of an attempt: another one follows, or the activity is over.
//!
//! The started event is written together with the event that ends the activity, because attempts before the last one
//! leave no trace in history. Until then the activity lives in the run's state.

use segno_proto::{
    Nanos,
    common::{Payloads, WorkerVersionStamp},
    enums::{RetryState, TimeoutType},
    events::{ActivityTaskCanceledEventAttributes, ActivityTaskStartedEventAttributes, history_event::Attributes},
    failure::{Failure, failure::FailureInfo},
};

use crate::{
    events::event,
    limits::ACTIVITY_FAILURE_BYTES_MAX,
    machine::activity as machine,
    parts::{
        activity::attempt::{begin_anew, clear_start, retry_deadline},
        standalone::{self, begin::begin_reset_attempt},
    },
    retry,
    state::activity::Activity,
    transition::{Effect, draft::Draft, steps::ActivityMachine},
};

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
        return begin_reset_attempt(draft, id, failure);
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
        draft.step(ActivityMachine(id), machine::Event::Retry, |draft| {
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
            draft.step(ActivityMachine(id), event, |draft| {
                let Some(activity) = draft.activity_mut(id) else { return };
                activity.attempt += 1;
                activity.scheduled_time = now.saturating_add(backoff);
                clear_start(activity);
                activity.last_failure = Some(retry::kept(failure, ACTIVITY_FAILURE_BYTES_MAX));
                activity.stamp += 1;
                begin_anew(activity);
            });
            draft.touch();
            if let Some(standalone) = &mut draft.run.state.standalone {
                standalone.retry_interval = backoff;
                standalone.retry_from_policy = delay.is_none();
            }
            if due_now {
                draft.effect(Effect::OfferActivity(id));
            }
            RetryState::InProgress
        }
    }
}

/// Writes the started event, if an attempt was running, and the event that ends the activity.
pub(crate) fn end(draft: &mut Draft, id: i64, ending: impl FnOnce(&Activity, i64) -> Attributes) {
    let mut ended = None;
    if draft.run.state.activities.contains_key(&id) {
        draft.step(ActivityMachine(id), machine::Event::End, |draft| ended = draft.remove_activity(id));
    }
    let Some(activity) = ended else { return };
    if !draft.run.is_running() {
        // It outlived its run: its end goes nowhere.
        draft.touch();
        return;
    }
    if activity.standalone {
        let told = ending(&activity, 0);
        standalone::end::end(draft, activity, told);
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
