//! Effects of transitions outside of the runs, through the port [`Effects`]. After the node has stopped there are none;
//! they are derived again from storage.

use std::sync::Arc;

use segno_engine::{ActivityStop, Effect, Run, activity::is_waiting};
use segno_store::RunKey;

use crate::{ports::Effects, runs::Runs};

impl Runs {
    /// The part that carries out what follows from transitions; `None` if the node has ended.
    pub fn effects(&self) -> Option<Arc<dyn Effects>> {
        self.effects.get()
    }

    /// Offers the pending workflow task of a run: to workers, or to the threads of scripts.
    pub fn offer_workflow_task(&self, run: &Run) {
        if run.state().task.is_none() {
            return;
        }
        if run.state().script.is_some() {
            return self.scripts.offer(run);
        }
        if let Some(effects) = self.effects() {
            effects.offer_workflow_task(run);
        }
    }

    /// Offers a pending activity to workers.
    pub fn offer_activity(&self, run: &Run, scheduled_event_id: i64) {
        if let Some(effects) = self.effects() {
            effects.offer_activity(run, scheduled_event_id);
        }
    }

    /// Offers the open request of a Nexus operation to handlers.
    pub fn offer_nexus_request(&self, run: &Run, scheduled_event_id: i64) {
        if let Some(effects) = self.effects() {
            effects.offer_nexus_request(run, scheduled_event_id);
        }
    }

    /// Offers everything of a run that waits for a worker.
    pub fn offer_all(&self, run: &Run) {
        if run.is_paused() {
            return;
        }
        let now = self.reached_now();
        if run.state().task.as_ref().is_some_and(|task| task.started_event_id == 0) {
            self.offer_workflow_task(run);
        }
        for (id, activity) in &run.state().activities {
            if is_waiting(activity, now) {
                self.offer_activity(run, *id);
            }
        }
        for (id, operation) in &run.state().operations {
            if operation.is_waiting(now) {
                self.offer_nexus_request(run, *id);
            }
        }
    }

    /// Tells the worker of an attempt to stop.
    pub fn stop_activity(&self, run: &Run, stop: ActivityStop) {
        if let Some(effects) = self.effects() {
            effects.stop_activity(run, stop);
        }
    }

    /// Sends what a run that ended has to say to workers.
    pub(crate) fn send_commands(&self, run: &Run, effects: Vec<Effect>) {
        for effect in effects {
            if let Effect::StopActivity(stop) = effect {
                self.stop_activity(run, *stop);
            }
        }
    }

    /// Notes what workers hold of a run, see [`Effects::note_holds`], and the version to which it is pinned.
    pub fn note_holds(&self, before: Option<&Run>, after: &Run, changed: Option<&[i64]>) {
        self.note_pins(before, after);
        if let Some(effects) = self.effects() {
            effects.note_holds(before, after, changed);
        }
    }

    /// This node no longer serves a run: workers hold nothing of it here.
    pub fn release_holds(&self, run: &Run) {
        if let Some(effects) = self.effects() {
            effects.release_holds(run);
        }
    }

    /// Notes what storage says that workers hold of a run.
    pub async fn restore_holds(&self, run: &Run) {
        if !run.state().activities.values().any(|activity| activity.started_time != 0 && !activity.worker.is_empty()) {
            return;
        }
        // Meanwhile the run may have gone on; what memory says counts.
        let Ok(Some(key)) = self.workflow_of(RunKey(run.info.run_key)).await else { return };
        let Ok(locked) = self.lock(&key).await else { return };
        let current = locked.state.current.as_ref().filter(|current| current.run.info.run_key == run.info.run_key);
        let Some(run) = current.map(|current| &current.run).filter(|run| run.has_work()) else { return };
        if let Some(effects) = self.effects() {
            effects.restore_holds(run);
        }
    }
}
