//! Standalone activities: activities that clients start, without a workflow.
//!
//! Such an activity is a run of its own kind ([`state::StandaloneRun`]): no workflow tasks, and one activity, which is
//! pending from the first transition on. That activity is an [`Activity`] like those of workflows: offers, attempts,
//! retries, time-outs and reports are those of [`crate::activity`]. Where a workflow would be told of the end, the run
//! closes with the outcome ([`end`]). [`calls`] is what clients ask for, [`operations`] what operators do, with rules that
//! differ from those for activities of workflows.

pub mod calls;
pub mod operations;
pub mod state;

use segno_proto::{
    Nanos,
    activity::{
        ActivityExecutionOutcome, ActivityOptions,
        activity_execution_outcome::Value::{Failure as Failed, Result as Succeeded},
    },
    command::ScheduleActivityTaskCommandAttributes,
    enums::{RetryState, TimeoutType, WorkflowExecutionStatus},
    events::{
        WorkflowExecutionCanceledEventAttributes, WorkflowExecutionCompletedEventAttributes,
        WorkflowExecutionFailedEventAttributes, WorkflowExecutionTimedOutEventAttributes, history_event::Attributes,
    },
    failure::{CanceledFailureInfo, Failure, TerminatedFailureInfo, failure::FailureInfo},
    nanos_duration,
};

use crate::{
    Shared,
    activity::{Sdk, begin_anew, clear_start},
    activity_options, close,
    commands::schedule_activity,
    draft::Draft,
    limits::ACTIVITY_FAILURE_BYTES_MAX,
    machine::activity::Event,
    retry,
    run::{Effect, Run},
    schedule::{DIVISION_ATTRIBUTE, calls::keyword},
    state::{Activity, RunState},
    steps::OfActivity,
};
use state::{RequestLinks, StandaloneRun};

/// Workflow ids of standalone activities begin so; the id of the activity follows.
pub const WORKFLOW_ID_PREFIX: &str = "temporal-sys-activity:";
/// The division in which standalone activities are listed, as Temporal calls it.
pub const DIVISION: &str = "3332429922";
/// The scheduled event of the one activity: it follows the start of the run.
pub const SCHEDULED_EVENT_ID: i64 = 2;

/// What a standalone activity is started with, checked.
#[derive(Clone, Debug, Default)]
pub struct NewStandalone {
    /// The activity, in the terms in which workflows schedule theirs.
    pub attributes: ScheduleActivityTaskCommandAttributes,
    /// How long the first attempt is held back.
    pub start_delay: Nanos,
}

/// Whether a run is a standalone activity: nobody executes workflow tasks of it.
pub(crate) fn is_standalone(state: &RunState) -> bool {
    state.standalone.is_some()
}

/// The activity of such a run: as it is, or as it was at its end.
pub fn activity_of(state: &RunState) -> Option<&Activity> {
    let ended = state.standalone.as_ref().and_then(|standalone| standalone.ended.as_deref());
    state.activities.get(&SCHEDULED_EVENT_ID).map(|pending| &**pending).or(ended)
}

/// How a standalone activity stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It waits for a worker, or for its next attempt.
    Scheduled,
    /// A worker has it.
    Started,
    /// A worker has it and is to stop.
    CancelRequested,
    /// Nobody has it, and nobody gets it.
    Paused,
    /// A worker has it; nobody gets the next attempt.
    PauseRequested,
    /// A worker has it; the next attempt is the first again.
    ResetRequested,
    /// It is over.
    Over(WorkflowExecutionStatus),
}

impl std::fmt::Display for Standing {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            // Variants are named as Temporal names them.
            Self::Over(status) => write!(to, "{status:?}"),
            other => write!(to, "{other:?}"),
        }
    }
}

/// How the activity of a run stands.
pub fn standing(run: &Run) -> Standing {
    let Some(activity) = run.state.activities.get(&SCHEDULED_EVENT_ID).filter(|_| run.is_running()) else {
        return Standing::Over(run.status());
    };
    match (activity.started_time != 0, activity.pause.is_some()) {
        (true, _) if activity.cancel_requested => Standing::CancelRequested,
        (true, _) if activity.reset => Standing::ResetRequested,
        (true, true) => Standing::PauseRequested,
        (true, false) => Standing::Started,
        (false, true) => Standing::Paused,
        (false, false) => Standing::Scheduled,
    }
}

/// The status that lists show and filters compare with: that of the run, or paused.
pub fn listed_status(run: &Run) -> WorkflowExecutionStatus {
    let paused = is_standalone(&run.state) && standing(run) == Standing::Paused;
    if paused { WorkflowExecutionStatus::Paused } else { run.status() }
}

/// When the first attempt is, or was, due.
pub fn first_due(run: &Run) -> Nanos {
    let delay = run.state.standalone.as_ref().map_or(0, |standalone| standalone.start_delay);
    run.info.start_time.saturating_add(delay)
}

/// The first transition of a new run.
pub(crate) fn begin(draft: &mut Draft, new: NewStandalone) {
    let NewStandalone { attributes, start_delay } = new;
    let now = draft.now();
    draft.run.state.search_attributes.insert(DIVISION_ATTRIBUTE.to_owned(), keyword(DIVISION));
    draft.run.state.first_task_due = 0;
    let due = now.saturating_add(start_delay);
    let pending = schedule_activity::pending(&attributes, now);
    let activity = Activity { first_scheduled_time: due, scheduled_time: due, standalone: true, ..pending };
    let links = draft.run.info.links.clone();
    let request_id = draft.run.info.create_request_id.clone();
    let original = ActivityOptions {
        start_delay: (start_delay > 0).then(|| nanos_duration(start_delay)),
        ..activity_options::options_of(&activity)
    };
    draft.run.state.standalone = Some(Box::new(StandaloneRun {
        original,
        start_delay,
        links: if links.is_empty() { Vec::new() } else { vec![RequestLinks { request_id, links }] },
        ..Default::default()
    }));
    let id = draft.add(schedule_activity::scheduled(attributes, 0));
    draft.add_activity(Activity { scheduled_event_id: id, ..activity });
    if start_delay == 0 {
        draft.effect(Effect::OfferActivity(id));
    }
}

/// A worker begins an attempt.
pub(crate) fn note_start(draft: &mut Draft, sdk: Sdk) {
    let now = draft.now();
    if let Some(standalone) = &mut draft.run.state.standalone {
        standalone.sdk_name = sdk.name;
        standalone.sdk_version = sdk.version;
        standalone.last_started_time = now;
        if standalone.first_started_time == 0 {
            standalone.first_started_time = now;
        }
    }
}

/// Another attempt follows after this time.
pub(crate) fn note_retry(draft: &mut Draft, interval: Nanos, from_policy: bool) {
    if let Some(standalone) = &mut draft.run.state.standalone {
        standalone.retry_interval = interval;
        standalone.retry_from_policy = from_policy;
    }
}

/// An attempt failed that somebody reset: the first attempt follows at once, unless the activity is paused.
pub(crate) fn begin_reset_attempt(draft: &mut Draft, id: i64, failure: &Failure) -> RetryState {
    let now = draft.now();
    let mut restored = None;
    if let Some(standalone) = &mut draft.run.state.standalone {
        standalone.retry_interval = 0;
        if std::mem::take(&mut standalone.reset_restores_options) {
            restored = Some(standalone.original.clone());
        }
    }
    let paused = draft.run.state.activities.get(&id).is_some_and(|activity| activity.pause.is_some());
    draft.step(OfActivity(id), if paused { Event::Retry } else { Event::RetryAtOnce }, |draft| {
        let Some(activity) = draft.activity_mut(id) else { return };
        activity.attempt = 1;
        activity.scheduled_time = now;
        clear_start(activity);
        activity.last_failure = Some(retry::kept(failure, ACTIVITY_FAILURE_BYTES_MAX));
        activity.last_attempt_end = now;
        activity.stamp += 1;
        begin_anew(activity);
        if let Some(options) = &restored {
            activity_options::set(activity, options);
        }
    });
    draft.touch();
    if !paused {
        draft.effect(Effect::OfferActivity(id));
    }
    RetryState::InProgress
}

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

/// Closes the run with what would be told to a workflow.
pub(crate) fn end(draft: &mut Draft, activity: Shared<Activity>, told: Attributes) {
    let now = draft.now();
    let mut activity = activity.into_inner();
    let canceller = draft.run.state.standalone.as_ref().and_then(|standalone| standalone.cancel.clone());
    let (outcome, closing) = match told {
        Attributes::ActivityTaskCompletedEventAttributes(told) => {
            activity.last_attempt_end = now;
            activity.last_identity = told.identity;
            let value = Some(Succeeded(told.result.unwrap_or_default()));
            let closing = WorkflowExecutionCompletedEventAttributes::default();
            (
                ActivityExecutionOutcome { value, ..Default::default() },
                Attributes::WorkflowExecutionCompletedEventAttributes(closing),
            )
        }
        Attributes::ActivityTaskFailedEventAttributes(told) => {
            activity.last_attempt_end = now;
            activity.last_identity = told.identity;
            let failure = told.failure.unwrap_or_else(|| Failure {
                message: "activity task failed without failure details".to_owned(),
                ..Default::default()
            });
            activity.last_failure = Some(failure.clone());
            let closing = WorkflowExecutionFailedEventAttributes::default();
            (
                ActivityExecutionOutcome { retry_state: told.retry_state, value: Some(Failed(failure)) },
                Attributes::WorkflowExecutionFailedEventAttributes(closing),
            )
        }
        Attributes::ActivityTaskTimedOutEventAttributes(told) => {
            let closing = WorkflowExecutionTimedOutEventAttributes::default();
            let value = told.failure.map(Failed);
            (
                ActivityExecutionOutcome { retry_state: told.retry_state, value },
                Attributes::WorkflowExecutionTimedOutEventAttributes(closing),
            )
        }
        Attributes::ActivityTaskCanceledEventAttributes(told) => {
            let info = CanceledFailureInfo {
                details: told.details,
                identity: canceller.map(|cancel| cancel.identity).unwrap_or_default(),
            };
            let failure = Failure {
                message: "Activity canceled".to_owned(),
                failure_info: Some(FailureInfo::CanceledFailureInfo(info)),
                ..Default::default()
            };
            let closing = WorkflowExecutionCanceledEventAttributes::default();
            (
                ActivityExecutionOutcome { value: Some(Failed(failure)), ..Default::default() },
                Attributes::WorkflowExecutionCanceledEventAttributes(closing),
            )
        }
        // Activities end in no other way.
        _ => return,
    };
    settle(draft, Some(activity), outcome);
    close::close(draft, closing, Vec::new());
}

/// A run that somebody terminates has an outcome too.
pub(crate) fn note_terminated(draft: &mut Draft, reason: &str, identity: &str) {
    if !is_standalone(&draft.run.state) {
        return;
    }
    crate::activity::stop_at_worker(draft, SCHEDULED_EVENT_ID);
    let mut activity = None;
    if draft.run.state.activities.contains_key(&SCHEDULED_EVENT_ID) {
        draft.step(OfActivity(SCHEDULED_EVENT_ID), Event::End, |draft| {
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

fn settle(draft: &mut Draft, activity: Option<Activity>, outcome: ActivityExecutionOutcome) {
    if let Some(standalone) = &mut draft.run.state.standalone {
        standalone.ended = activity.map(Box::new);
        standalone.outcome = Some(outcome);
    }
    draft.touch();
}
