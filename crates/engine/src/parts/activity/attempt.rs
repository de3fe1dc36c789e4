//! An activity that waits or runs: from the command that schedules it, over its attempts.

use segno_proto::{
    Nanos,
    command::ScheduleActivityTaskCommandAttributes,
    common::{Payloads, WorkerVersionStamp},
    deployment::WorkerDeploymentVersion,
    duration_nanos,
    enums::TaskQueueKind,
    events::{ActivityTaskScheduledEventAttributes, history_event::Attributes},
};

use crate::{
    machine::activity::{self as machine, Event},
    payload,
    state::{
        activity::{Activity, is_waiting},
        versioning::Target,
    },
    transition::{ActivityStop, Context, Effect, draft::Draft, steps::ActivityMachine},
};

/// The activity that these attributes ask for, as it is at first.
pub(crate) fn pending(attributes: &ScheduleActivityTaskCommandAttributes, now: Nanos) -> Activity {
    Activity {
        activity_id: attributes.activity_id.clone(),
        activity_type: attributes.activity_type.as_ref().map(|t| t.name.clone()).unwrap_or_default(),
        queue: attributes.task_queue.as_ref().map(|queue| queue.name.clone()).unwrap_or_default(),
        first_scheduled_time: now,
        scheduled_time: now,
        attempt: 1,
        schedule_to_start: duration_nanos(attributes.schedule_to_start_timeout.as_ref()),
        start_to_close: duration_nanos(attributes.start_to_close_timeout.as_ref()),
        schedule_to_close: duration_nanos(attributes.schedule_to_close_timeout.as_ref()),
        heartbeat: duration_nanos(attributes.heartbeat_timeout.as_ref()),
        retry_policy: attributes.retry_policy.clone(),
        priority: attributes.priority.clone(),
        stamp: 1,
        ..Default::default()
    }
}

/// The event that schedules it.
pub(crate) fn scheduled(attributes: ScheduleActivityTaskCommandAttributes, completed_event_id: i64) -> Attributes {
    let mut queue = attributes.task_queue.unwrap_or_default();
    if queue.kind == TaskQueueKind::Unspecified as i32 {
        queue.kind = TaskQueueKind::Normal as i32;
    }
    Attributes::ActivityTaskScheduledEventAttributes(ActivityTaskScheduledEventAttributes {
        activity_id: attributes.activity_id,
        activity_type: attributes.activity_type,
        task_queue: Some(queue),
        header: attributes.header,
        input: attributes.input,
        schedule_to_close_timeout: attributes.schedule_to_close_timeout,
        schedule_to_start_timeout: attributes.schedule_to_start_timeout,
        start_to_close_timeout: attributes.start_to_close_timeout,
        heartbeat_timeout: attributes.heartbeat_timeout,
        workflow_task_completed_event_id: completed_event_id,
        retry_policy: attributes.retry_policy,
        use_workflow_build_id: attributes.use_workflow_build_id,
        priority: attributes.priority,
    })
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
    /// The version of the worker, if it uses versioning.
    pub poller: Option<WorkerDeploymentVersion>,
    /// Where the routing of the run's own workflow queue sends it; `None` leaves versions out of account, see
    /// [`crate::parts::versioning`].
    pub target: Option<Target>,
}

/// Marks an activity as started, within a larger transition.
pub fn begin(draft: &mut Draft, scheduled_event_id: i64, taker: Taker) -> Option<Activity> {
    let now = draft.now();
    let mut taken = None;
    draft.run.state.activities.get(&scheduled_event_id)?;
    if let Some(standalone) = &mut draft.run.state.standalone {
        standalone.note_start(now, taker.sdk.name, taker.sdk.version);
    }
    draft.step(ActivityMachine(scheduled_event_id), machine::Event::Start, |draft| {
        let Some(activity) = draft.activity_mut(scheduled_event_id) else { return };
        activity.started_time = now;
        activity.started_identity.clone_from(&taker.identity);
        activity.last_identity = taker.identity;
        activity.request_id = taker.request_id;
        activity.worker_version = taker.worker_version;
        activity.worker = taker.worker;
        activity.control_queue = taker.control_queue;
        activity.worker_reports = taker.reports;
        activity.deployment_version = taker.poller.map(Box::new);
        taken = Some(activity.clone().into_inner());
    });
    draft.touch();
    taken
}

/// Its worker has no claim to it from now on.
pub(crate) fn clear_start(activity: &mut Activity) {
    activity.started_time = 0;
    activity.last_identity = std::mem::take(&mut activity.started_identity);
    activity.request_id.clear();
    leave_worker(activity);
}

/// Forgets which process has it.
pub(crate) fn leave_worker(activity: &mut Activity) {
    activity.worker.clear();
    activity.control_queue.clear();
    activity.worker_reports = false;
}

/// Tells the worker that has the activity to stop, if there is one and it takes commands.
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

/// Details recorded when an activity is canceled before any worker took it.
pub fn not_started_details() -> Payloads {
    Payloads { payloads: vec![payload::json("\"ACTIVITY_ID_NOT_STARTED\"")] }
}

/// Sets the moment of the next attempt of an activity that no worker has. Offers made so far are void, and the failure of
/// the attempt before is forgotten.
pub(crate) fn reschedule(draft: &mut Draft, id: i64, at: Nanos) {
    let Some(activity) = draft.run.state.activities.get(&id) else { return };
    let later = activity.pause.is_none() && at > draft.now();
    draft.step(ActivityMachine(id), if later { Event::PutOff } else { Event::Reschedule }, |draft| {
        let Some(activity) = draft.activity_mut(id) else { return };
        activity.scheduled_time = at;
        activity.last_failure = None;
        activity.stamp += 1;
        begin_anew(activity);
    });
}

/// Offers an activity that a call changed, unless a worker has it or its time is yet to come.
pub(crate) fn offer_if_due(draft: &mut Draft, id: i64) {
    draft.touch();
    let now = draft.now();
    if draft.run.state.activities.get(&id).is_some_and(|activity| is_waiting(activity, now)) {
        draft.effect(Effect::OfferActivity(id));
    }
}

/// Now, or a moment that differs from call to call and from activity to activity.
pub(crate) fn moment_within(context: Context, id: i64, jitter: Nanos) -> Nanos {
    if jitter <= 0 {
        return context.now;
    }
    let mixed = (context.new_run_seed ^ id as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let random = mixed ^ (mixed >> 32);
    context.now.saturating_add((random % jitter as u64) as Nanos)
}
