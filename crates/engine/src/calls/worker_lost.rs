//! A worker process is lost: what it had of a run goes to others, at once.
//!
//! Two calls, because they differ in what must be stored. Giving the workflow task to another worker usually needs no
//! store at all: the lost worker never completed it. An attempt of an activity did happen, perhaps to its end: it
//! counts under the retry policy, its worker can say nothing more about it, and what it said last by heartbeat is
//! there for the next attempt.
//!
//! An activity that kills its workers would go from one to the next. So the different workers that were lost while they had
//! it are counted, and it is *quarantined*, that is paused by the server, when there are as many as
//! [`Limits::lost_workers`](crate::limits::Limits::lost_workers) allows. Workers that had begun to shut down do not count:
//! they were ended from outside.

use segno_proto::{
    Nanos,
    enums::RetryState,
    events::{ActivityTaskFailedEventAttributes, history_event::Attributes},
    failure::{ApplicationFailureInfo, Failure, failure::FailureInfo},
};

use crate::{
    calls::{activity::put_back, activity_pause},
    error::Rejection,
    parts::{
        activity::{
            attempt::stop_at_worker,
            end::{end, retry_after},
        },
        workflow_task,
    },
    state::{
        TaskKind,
        activity::{Activity, LostWorker, PauseInfo},
        run::Run,
    },
    transition::{Applied, Context, Effect, draft::Draft},
};

/// The type of the failure that an attempt on a lost worker ends with. A retry policy can name it.
pub const FAILURE_TYPE: &str = "WorkerLost";

/// Who pauses an activity that is quarantined, as descriptions of it say.
const QUARANTINE_IDENTITY: &str = "segno";
/// Most lost workers that an activity remembers, and so the largest limit that can be set.
pub const LOST_WORKERS_KEPT: usize = 100;

/// Which attempts are lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LostWork {
    /// All that this worker process has.
    Worker {
        /// Its instance key.
        worker: String,
        /// Whether it had begun to shut down.
        is_leaving: bool,
    },
    /// One attempt.
    Attempt {
        /// The activity's scheduled event.
        scheduled_event_id: i64,
        /// When the attempt started.
        started_time: Nanos,
    },
}

impl LostWork {
    fn includes(&self, activity: &Activity) -> bool {
        activity.started_time != 0
            && match self {
                Self::Worker { worker, .. } => !worker.is_empty() && activity.worker == *worker,
                Self::Attempt { scheduled_event_id, started_time } => {
                    activity.scheduled_event_id == *scheduled_event_id && activity.started_time == *started_time
                }
            }
    }
}

/// The outcome for lost attempts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LostAttempts {
    /// Activities that wait for another worker, or for being resumed.
    pub rescheduled: usize,
    /// Those of them that are paused from now on, because too many workers were lost while they had them.
    pub quarantined: usize,
    /// Activities that had no attempt left and failed.
    pub failed: usize,
}

/// Ends the attempts of activities that are lost: each is tried again at once if its retry policy has an attempt left,
/// and fails otherwise. `why` is the text of the failure.
///
/// An activity that outlived its run is not quarantined, since no call on it could resume it: it is over.
pub fn activities(run: &Run, context: Context, lost: &LostWork, why: &str) -> Result<Applied<LostAttempts>, Rejection> {
    if !run.has_work() {
        return Err(Rejection::Closed);
    }
    let ids: Vec<i64> = run
        .state
        .activities
        .values()
        .filter(|activity| lost.includes(activity))
        .map(|a| a.scheduled_event_id)
        .collect();
    let mut draft = Draft::new(run, context);
    let mut reply = LostAttempts::default();
    for id in ids {
        stop_at_worker(&mut draft, id);
        let Some(activity) = draft.activity_mut(id) else { continue };
        activity.last_attempt_end = context.now;
        let failure = failure_of(activity, why);
        let lost_workers = note_lost_worker(activity, lost, context.limits.lost_workers);
        let retry_state = match lost_workers {
            Some(_) if !run.is_running() => RetryState::MaximumAttemptsReached,
            _ => retry_after(&mut draft, id, &failure, Some(0)),
        };
        if retry_state == RetryState::InProgress {
            reply.rescheduled += 1;
            reply.quarantined += usize::from(lost_workers.is_some_and(|lost| quarantine(&mut draft, id, lost)));
            continue;
        }
        reply.failed += 1;
        end(&mut draft, id, |activity, started_event_id| {
            Attributes::ActivityTaskFailedEventAttributes(ActivityTaskFailedEventAttributes {
                failure: Some(failure),
                scheduled_event_id: activity.scheduled_event_id,
                started_event_id,
                identity: workflow_task::SERVER_IDENTITY.to_owned(),
                retry_state: retry_state as i32,
                ..Default::default()
            })
        });
    }
    if reply.failed > 0 {
        workflow_task::schedule_if_none(&mut draft);
    }
    Ok(draft.finish(reply))
}

/// An attempt never arrived at its worker, which is alive: it waits again and does not count. The worker is told to stop
/// all the same.
///
/// An attempt with a heartbeat has arrived.
pub fn orphan(run: &Run, context: Context, id: i64, started_time: Nanos) -> Result<Applied<()>, Rejection> {
    if !run.has_work() {
        return Err(Rejection::Closed);
    }
    let is_meant = |activity: &Activity| {
        started_time != 0 && activity.started_time == started_time && activity.last_heartbeat_time < started_time
    };
    if !run.state.activities.get(&id).is_some_and(|activity| is_meant(activity)) {
        return Err(Rejection::ActivityNotFound);
    }
    let mut draft = Draft::new(run, context);
    stop_at_worker(&mut draft, id);
    put_back(&mut draft, id);
    Ok(draft.finish(()))
}

/// Counts the worker that was lost while it had an activity. Returns how many these are, if that is too many.
fn note_lost_worker(activity: &mut Activity, lost: &LostWork, most: usize) -> Option<u32> {
    let LostWork::Worker { worker, is_leaving: false } = lost else { return None };
    if most == 0 {
        return None;
    }
    let known = &mut activity.lost_workers;
    if known.len() < LOST_WORKERS_KEPT && known.iter().all(|known| known.worker != *worker) {
        known.push(LostWorker { worker: worker.clone(), identity: activity.started_identity.clone() });
    }
    (known.len() >= most).then_some(known.len() as u32)
}

/// Pauses an activity that waits for its next attempt. Returns whether it was not paused before.
fn quarantine(draft: &mut Draft, id: i64, lost_workers: u32) -> bool {
    if draft.run.state.activities.get(&id).is_none_or(|activity| activity.pause.is_some()) {
        return false;
    }
    let reason = format!("{lost_workers} workers were lost while they had it");
    let (time, identity) = (draft.now(), QUARANTINE_IDENTITY.to_owned());
    activity_pause::set(draft, id, PauseInfo { time, identity, reason, lost_workers, ..Default::default() });
    draft.withdraw(&Effect::OfferActivity(id));
    true
}

fn failure_of(activity: &Activity, why: &str) -> Failure {
    let message = format!("worker {} ({}) is lost: {why}", activity.started_identity, activity.worker);
    Failure {
        message,
        source: "Server".to_owned(),
        failure_info: Some(FailureInfo::ApplicationFailureInfo(ApplicationFailureInfo {
            r#type: FAILURE_TYPE.to_owned(),
            ..Default::default()
        })),
        ..Default::default()
    }
}

/// Takes the workflow task from a lost worker and forgets that the worker knows the run. Replies whether it had the
/// task. If history knows already that it was started, the task ends as timed out, before its time.
pub fn workflow_task(run: &Run, context: Context, worker: &str) -> Result<Applied<bool>, Rejection> {
    run.check_open()?;
    let mut draft = Draft::new(run, context);
    let held = run.state.task.as_ref().filter(|task| task.started_event_id != 0 && task.worker == worker);
    let Some(task) = held.filter(|_| !worker.is_empty()) else { return Ok(draft.finish(false)) };
    if !workflow_task::can_be_given_back(run, task) {
        workflow_task::time_out(&mut draft);
        return Ok(draft.finish(true));
    }
    workflow_task::give_back(&mut draft, task.started_time)?;
    draft.run.state.sticky = None;
    let normal = draft.run.info.task_queue.clone();
    if let Some(task) = &mut draft.run.state.task {
        task.queue = normal;
        task.sticky = false;
        if task.kind() == TaskKind::Normal {
            task.schedule_to_start = 0;
        }
    }
    Ok(draft.finish(true))
}
