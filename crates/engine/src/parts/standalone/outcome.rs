//! What is recorded of the end of a standalone activity.

use segno_proto::{
    activity::{ActivityExecutionOutcome, activity_execution_outcome::Value::Failure as Failed},
    enums::TimeoutType,
    failure::{Failure, TerminatedFailureInfo, failure::FailureInfo},
};

use crate::{
    machine::activity::Event,
    parts::standalone::status::SCHEDULED_EVENT_ID,
    shared::Shared,
    state::activity::Activity,
    transition::{draft::Draft, steps::ActivityMachine},
};

/// The failure of an attempt that ran out of time, kept in the activity before it ends.
pub(crate) fn note_timed_out(draft: &mut Draft, id: i64, kind: TimeoutType, failure: &Failure) {
    let now = draft.now();
    if !matches!(kind, TimeoutType::StartToClose | TimeoutType::Heartbeat) {
        return;
    }
    if let Some(activity) = draft.activity_mut(id).filter(|activity| activity.standalone) {
        let mut own = failure.clone();
        own.cause = activity.last_failure.take().map(Box::new);
        if let Some(FailureInfo::TimeoutFailureInfo(info)) = &mut own.failure_info {
            info.last_heartbeat_details = activity.heartbeat_details.clone();
        }
        activity.last_failure = Some(own);
        activity.last_attempt_end = now;
    }
}

/// A run that is terminated has an outcome, too.
pub(crate) fn note_terminated(draft: &mut Draft, reason: &str, identity: &str) {
    if draft.run.state.standalone.is_none() {
        return;
    }
    crate::parts::activity::attempt::stop_at_worker(draft, SCHEDULED_EVENT_ID);
    let mut activity = None;
    if draft.run.state.activities.contains_key(&SCHEDULED_EVENT_ID) {
        draft.step(ActivityMachine(SCHEDULED_EVENT_ID), Event::End, |draft| {
            activity = draft.remove_activity(SCHEDULED_EVENT_ID);
        });
    }
    let failure = Failure {
        message: reason.to_owned(),
        failure_info: Some(FailureInfo::TerminatedFailureInfo(TerminatedFailureInfo { identity: identity.to_owned() })),
        ..Default::default()
    };
    let outcome = ActivityExecutionOutcome { value: Some(Failed(failure)), ..Default::default() };
    settle(draft, activity.map(Shared::into_inner), outcome);
}

pub(super) fn settle(draft: &mut Draft, activity: Option<Activity>, outcome: ActivityExecutionOutcome) {
    if let Some(standalone) = &mut draft.run.state.standalone {
        standalone.ended = activity.map(Box::new);
        standalone.outcome = Some(outcome);
    }
    draft.touch();
}
