//! What callers see of a schedule.

use prost_types::Timestamp;
use segno_proto::{
    Nanos, nanos_timestamp,
    schedule::{Schedule, ScheduleInfo, ScheduleListInfo},
    timestamp_nanos,
};

use crate::{
    parts::schedule::{
        scheduler,
        spec::{self, ActionTime},
    },
    state::{run::Run, schedule::ScheduleRun},
};

/// Times to come that a description has.
const TIMES_MAX: usize = 10;
/// Times to come, recent actions, and parts of the specification that an entry of a list has.
pub const LIST_TIMES_MAX: usize = 5;
const LIST_SPEC_MAX: usize = 10;
/// Most matching times.
const MATCHING_MAX: usize = 1000;

/// A description of a schedule.
#[derive(Clone, Debug, PartialEq)]
pub struct ScheduleDescription {
    /// The schedule.
    pub schedule: Schedule,
    /// Its past and its next actions.
    pub info: ScheduleInfo,
    /// Recognises this state of it.
    pub conflict_token: i64,
}

/// Describes a schedule.
pub fn describe(run: &Run, state: &ScheduleRun, now: Nanos) -> ScheduleDescription {
    let mut schedule = Schedule::clone(&state.schedule);
    if let Some(spec) = &mut schedule.spec {
        spec::fill_ranges(spec);
    }
    let mut info = state.info.clone();
    info.future_action_times = times(run, state, now, TIMES_MAX);
    info.buffer_size = state.buffered.len() as i64;
    ScheduleDescription { schedule, info, conflict_token: state.conflict_token }
}

/// An entry of a list.
pub fn list_info(run: &Run, state: &ScheduleRun, now: Nanos) -> ScheduleListInfo {
    let schedule = &state.schedule;
    let mut spec = schedule.spec.clone().unwrap_or_default();
    spec.timezone_data.clear();
    spec.exclude_structured_calendar.truncate(LIST_SPEC_MAX);
    spec.interval.truncate(LIST_SPEC_MAX);
    spec.structured_calendar.truncate(LIST_SPEC_MAX);
    spec::fill_ranges(&mut spec);
    let actions = &state.info.recent_actions;
    let kept = schedule.state.as_ref();
    ScheduleListInfo {
        spec: Some(spec),
        workflow_type: scheduler::action(schedule).and_then(|action| action.workflow_type.clone()),
        notes: kept.map(|state| state.notes.clone()).unwrap_or_default(),
        paused: state.is_paused(),
        recent_actions: actions[actions.len().saturating_sub(LIST_TIMES_MAX)..].to_vec(),
        future_action_times: times(run, state, now, LIST_TIMES_MAX),
        ..Default::default()
    }
}

/// The times of a span at which the schedule would act.
pub fn matching_times(run: &Run, state: &ScheduleRun, start: Nanos, end: Nanos) -> Result<Vec<Timestamp>, String> {
    let spec = state.spec()?;
    let seed = seed(run, state);
    let times = spec.between(&seed, start, end).take(MATCHING_MAX);
    Ok(times.map(|time| nanos_timestamp(time.actual)).collect())
}

fn seed(run: &Run, state: &ScheduleRun) -> String {
    format!("{}-{}", run.info.namespace_id, state.schedule_id)
}

/// The next times at which the schedule acts.
fn times(run: &Run, state: &ScheduleRun, now: Nanos, count: usize) -> Vec<Timestamp> {
    let kept = state.schedule.state.as_ref().filter(|state| state.limited_actions);
    let count = kept.map_or(count, |kept| count.min(usize::try_from(kept.remaining_actions).unwrap_or(0)));
    let Ok(spec) = state.spec() else { return Vec::new() };
    let updated = state.info.update_time.as_ref().map_or(0, timestamp_nanos);
    // While it is paused nothing wakes it, and time passes all the same.
    let after = if state.is_paused() { state.processed.max(now) } else { state.processed };
    let to_come = |time: &ActionTime| time.actual >= updated;
    let seed = seed(run, state);
    let times = spec.between(&seed, after, Nanos::MAX).filter(to_come).take(count);
    times.map(|time| nanos_timestamp(time.actual)).collect()
}
