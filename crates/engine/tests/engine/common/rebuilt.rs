//! State made from history against the state that the run has: equal in everything that history tells. The simulation compares the
//! two as well (`tools/simulation`).

use std::collections::BTreeSet;

use segno_engine::{
    Run, pause, problems,
    rebuild::rebuild,
    state::{
        Activity, RunState, TaskKind, WorkflowTask,
        nexus::{Cancellation, HandlerRequest, Operation},
    },
    versioning::Versioning,
};
use segno_proto::events::HistoryEvent;

/// Compares the two. While events wait in the buffer state is ahead of history, and nothing is compared.
pub fn check(run: &Run, history: &[HistoryEvent]) {
    let live = run.state();
    if !live.buffered.is_empty() {
        return;
    }
    let told = rebuild(&run.info, history);
    assert_eq!(told.next_event_id, live.next_event_id);
    assert_eq!(told.memo, live.memo);
    // Neither pausing an activity nor failing again and again is an event.
    let untold = [pause::ATTRIBUTE, problems::ATTRIBUTE];
    let attributes = |state: &RunState| {
        let mut told = state.search_attributes.clone();
        told.retain(|name, _| !untold.contains(&name.as_str()));
        told
    };
    assert_eq!(attributes(&told), attributes(live));
    assert_eq!(told.timers, live.timers);
    assert_eq!(told.children, live.children);
    assert_eq!(told.external_signals, live.external_signals);
    assert_eq!(told.external_cancels, live.external_cancels);
    assert_eq!(told.last_completed_started_id, live.last_completed_started_id);
    assert_eq!(told.signal_count, live.signal_count);
    assert_eq!(told.signal_ids, live.signal_ids);
    assert_eq!(told.cancel_requested, live.cancel_requested);
    assert_eq!(told_versioning(&told), told_versioning(live), "versioning");
    assert_eq!(told.attached_request_ids, live.attached_request_ids);
    assert_eq!(told.callbacks, live.callbacks);
    assert_eq!(told.pause, live.pause);
    // A run that was reset has points of its own only, though its history begins with another's turns.
    assert!(live.last_reset_time > 0 || told.reset_points == live.reset_points, "{:?}", live.reset_points);
    let changed = live.activities.values().filter(|activity| activity.original_options.is_some());
    let changed: BTreeSet<i64> = changed.map(|activity| activity.scheduled_event_id).collect();
    assert_eq!(activities(&told, &changed), activities(live, &changed));
    assert_eq!(operations(&told), operations(live));
    check_updates(&told, run);
    check_task(&told, live);
}

/// What is known of versions without what lives with the started task: the transition, its revision, and notifications.
fn told_versioning(state: &RunState) -> Versioning {
    let known = state.versioning.as_deref().cloned().unwrap_or_default();
    Versioning { transition: None, revision: 0, notified: None, declined: None, ..known }
}

/// Activities without what no event tells: attempts, their times and workers, options that were changed.
fn activities(state: &RunState, changed: &BTreeSet<i64>) -> Vec<Activity> {
    let named = |activity: &Activity| Activity {
        scheduled_event_id: activity.scheduled_event_id,
        activity_id: activity.activity_id.clone(),
        activity_type: activity.activity_type.clone(),
        cancel_requested: activity.cancel_requested,
        cancel_requested_event_id: activity.cancel_requested_event_id,
        ..Default::default()
    };
    let plain = |activity: &Activity| Activity {
        queue: activity.queue.clone(),
        schedule_to_start: activity.schedule_to_start,
        start_to_close: activity.start_to_close,
        schedule_to_close: activity.schedule_to_close,
        heartbeat: activity.heartbeat,
        retry_policy: activity.retry_policy.clone(),
        priority: activity.priority.clone(),
        ..named(activity)
    };
    let told = |activity: &Activity| match changed.contains(&activity.scheduled_event_id) {
        true => named(activity),
        false => plain(activity),
    };
    state.activities.values().map(|activity| told(activity)).collect()
}

/// Operations without what no event tells: the attempts of their requests.
fn operations(state: &RunState) -> Vec<Operation> {
    let told = |operation: &Operation| Operation {
        start: HandlerRequest::default(),
        cancellation: operation.cancellation.clone().map(|known| Cancellation { request: Default::default(), ..known }),
        ..operation.clone()
    };
    state.operations.values().map(|operation| told(operation)).collect()
}

/// A rejection is no event: history knows some that were admitted by one, and the run does not.
fn check_updates(told: &RunState, live: &Run) {
    let known = live.update_records();
    for (id, record) in &told.updates {
        match known.get(id) {
            Some(known) => {
                assert_eq!(record.accepted_event_id, known.accepted_event_id, "update {id}");
                assert_eq!(record.completed_event_id, known.completed_event_id, "update {id}");
            }
            None => assert_eq!(record.accepted_event_id, 0, "update {id} is lost"),
        }
    }
    for (id, record) in &known {
        // An admission that was refused while it was buffered never became history.
        let untold = record.rejection.is_some() && record.admitted_event_id == 0;
        assert!(untold || told.updates.contains_key(id), "history does not know update {id}");
    }
}

fn check_task(told: &RunState, live: &RunState) {
    // Events of speculative tasks and of later attempts are written when they complete.
    let written = live.task.as_ref().filter(|task| task.kind() != TaskKind::Speculative && !task.is_transient());
    let ids = |task: &WorkflowTask| (task.scheduled_event_id, task.started_event_id);
    assert_eq!(told.task.as_ref().map(ids), written.map(ids), "workflow task");
}
