//! Which worker has which tasks, derived from transitions, so that no caller of the runs can forget to note it.

use segno_engine::{Run, lease::Hold, slots::HandOver, state::Activity};
use segno_environment::clock::Clock;
use segno_proto::Nanos;
use segno_store::NamespaceKey;

use super::leases::Leases;

impl Leases {
    /// Brings what workers hold in line with a transition of a run that goes on: only activities that the transition names
    /// can have changed hands.
    pub fn note_changed_holds(&self, before: Option<&Run>, after: &Run, activities: &[i64], clock: &dyn Clock) {
        let same = before.filter(|before| before.info.run_key == after.info.run_key);
        let (Some(before), true) = (same, after.is_running()) else { return self.note_holds(before, after, clock) };
        let (namespace, run_key) = (NamespaceKey(after.info.namespace_key), after.info.run_key);
        let now = clock.monotonic();
        for id in activities {
            let was = before.state().activities.get(id).filter(|activity| is_held(activity));
            let is = after.state().activities.get(id).filter(|activity| is_held(activity));
            let (had, has) = (was.map(|was| holder(was)), is.map(|is| holder(is)));
            if had == has {
                continue;
            }
            if let Some(was) = was {
                self.release(namespace, &was.worker, &hold(run_key, was));
            }
            if let Some(is) = is {
                self.hand_over(namespace, &is.worker, hold(run_key, is), hand_over_of(before, is), now);
            }
        }
        let (had, has) = (task_holder(before), task_holder(after));
        if had != has {
            self.release_task_of(before, had);
            self.hand_over_task_of(after, has, clock);
        }
    }

    /// Brings what workers hold in line with what became of a run. If another run follows, the one before has ended.
    pub fn note_holds(&self, before: Option<&Run>, after: &Run, clock: &dyn Clock) {
        if !before.is_some_and(is_with_worker) && !is_with_worker(after) {
            return;
        }
        let same = before.filter(|before| before.info.run_key == after.info.run_key);
        if let Some(before) = before {
            self.release_holds(before, same.map(|_| after));
        }
        let (namespace, run_key) = (NamespaceKey(after.info.namespace_key), after.info.run_key);
        let now = clock.monotonic();
        if after.has_work() {
            for is in after.state().activities.values().filter(|a| is_held(a)) {
                let was = same.and_then(|before| before.state().activities.get(&is.scheduled_event_id));
                if was.is_none_or(|was| was.started_time != is.started_time) {
                    let by = same.map_or(HandOver::Reply, |before| hand_over_of(before, is));
                    self.hand_over(namespace, &is.worker, hold(run_key, is), by, now);
                }
            }
        }
        let has = task_holder(after);
        if same.map_or("", task_holder) != has {
            self.hand_over_task_of(after, has, clock);
        }
    }

    fn hand_over_task_of(&self, run: &Run, worker: &str, clock: &dyn Clock) {
        if !worker.is_empty() {
            let namespace = NamespaceKey(run.info.namespace_key);
            self.hand_over_task(namespace, worker, run.info.run_key, clock.monotonic());
        }
    }

    fn release_task_of(&self, run: &Run, worker: &str) {
        if !worker.is_empty() {
            self.release_task(NamespaceKey(run.info.namespace_key), worker, run.info.run_key);
        }
    }

    /// Takes from workers what they had of a run and have no more; all of it if the run is gone.
    pub fn release_holds(&self, before: &Run, after: Option<&Run>) {
        let after = after.filter(|after| after.has_work());
        let (namespace, run_key) = (NamespaceKey(before.info.namespace_key), before.info.run_key);
        for was in before.state().activities.values().filter(|a| is_held(a)) {
            let still = after.and_then(|after| after.state().activities.get(&was.scheduled_event_id));
            if still.is_none_or(|is| is.started_time != was.started_time || is.worker != was.worker) {
                self.release(namespace, &was.worker, &hold(run_key, was));
            }
        }
        let had = task_holder(before);
        if after.map_or("", task_holder) != had {
            self.release_task_of(before, had);
        }
    }

    /// Notes what storage says that workers hold of a run.
    pub fn restore_holds(&self, run: &Run, now: Nanos) {
        let namespace = NamespaceKey(run.info.namespace_key);
        for activity in run.state().activities.values().filter(|a| is_held(a)) {
            self.restore(namespace, activity, hold(run.info.run_key, activity), now);
        }
    }
}

/// Whether a worker that is known by its key holds a task of a run.
fn is_with_worker(run: &Run) -> bool {
    run.state().task.as_ref().is_some_and(|task| !task.worker.is_empty())
        || run.state().activities.values().any(|activity| is_held(activity))
}

fn is_held(activity: &Activity) -> bool {
    activity.started_time != 0 && !activity.worker.is_empty()
}

/// Which attempt it is and who has it.
fn holder(activity: &Activity) -> (Nanos, &str) {
    (activity.started_time, &activity.worker)
}

/// How a worker got an attempt. One that is started in the transition that schedules it is usually in the answer to the
/// workflow task that did so.
fn hand_over_of(before: &Run, activity: &Activity) -> HandOver {
    let was_scheduled = before.state().activities.contains_key(&activity.scheduled_event_id);
    if was_scheduled { HandOver::Poll } else { HandOver::Reply }
}

pub(crate) fn hold(run_key: u64, activity: &Activity) -> Hold {
    Hold { run_key, scheduled_event_id: activity.scheduled_event_id, started_time: activity.started_time }
}

/// The worker that has the workflow task of a run; empty if none is known.
fn task_holder(run: &Run) -> &str {
    let task = run.state().task.as_ref().filter(|task| run.is_running() && task.started_event_id != 0);
    task.map_or("", |task| task.worker.as_str())
}
