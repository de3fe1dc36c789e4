//! Finding the tasks that full queues had to forget.
//!
//! One loop of the node does it for all queues, so that it depends on no caller. A queue that is full before all of
//! storage was looked at keeps its mark; the next refill goes on where this one ended, so that tasks which are with
//! workers (memory alone knows that they were started) cannot keep the others out.

use std::{sync::Arc, time::Duration};

use segno_engine::{Run, activity::is_waiting};
use segno_environment::hash::HashMap;
use segno_matching::{QueueKey, QueueKind};
use segno_runs::{error::CallError, recovery::load_all};
use segno_store::{OpenRun, RunKey, sabotage};

use super::Dispatch;

/// Open runs looked at with one read.
const PAGE: usize = 1000;
/// Runs loaded with one read.
const LOADED: usize = 256;
/// The pause after a read that failed.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// Refills queues until the node stops.
pub async fn run(dispatch: Arc<Dispatch>) {
    // Where the next refill of a queue goes on.
    let mut cursors: HashMap<QueueKey, RunKey> = HashMap::default();
    while !dispatch.runs.is_stopping() {
        let Some(key) = dispatch.matching.refills.next() else {
            dispatch.matching.refills.added().await;
            continue;
        };
        // Tasks that are forgotten from here on set the mark again.
        dispatch.matching.begin_refill(&key);
        if let Some(remote) = dispatch.remote_queues() {
            remote.request_offers(&key).await;
        }
        if sabotage::is_on("no-refill") {
            continue;
        }
        match dispatch.refill(&key, cursors.remove(&key)).await {
            Ok(None) => {}
            Ok(Some(cursor)) => {
                dispatch.matching.mark_overflowed(&key);
                cursors.insert(key, cursor);
            }
            Err(error) => {
                tracing::warn!(queue = key.name, %error, "a queue could not be refilled; trying again");
                dispatch.matching.mark_overflowed(&key);
                tokio::time::sleep(RETRY_DELAY).await;
                dispatch.matching.refills.want(&key);
            }
        }
    }
}

impl Dispatch {
    /// Offers what storage knows of a queue and memory does not, from the runs after `began` on and then from the first
    /// run on. Gives back where to go on if the queue is full before all runs were looked at.
    async fn refill(&self, key: &QueueKey, began: Option<RunKey>) -> Result<Option<RunKey>, CallError> {
        let known = self.matching.known_tasks(key);
        let mut after = began;
        let mut again = began.is_some();
        while !self.runs.is_stopping() {
            let page = self.runs.own_open_runs(after, PAGE).await?;
            let Some(last) = page.last() else {
                if std::mem::take(&mut again) {
                    after = None;
                    continue;
                }
                return Ok(None);
            };
            after = Some(last.key);
            // A retry whose back-off ended since its last commit is not marked as waiting, but its wake-up is due.
            let now = self.runs.reached_now();
            let waits = |open: &OpenRun| open.dispatchable || open.wake_at.is_some_and(|at| at <= now);
            let keys: Vec<RunKey> = page.into_iter().filter(waits).map(|open| open.key).collect();
            for keys in keys.chunks(LOADED) {
                let cursor = keys.last().copied();
                let (runs, damaged) = load_all(&*self.runs.store, keys).await?;
                for (run, why) in damaged {
                    self.runs.set_aside(run, &why);
                }
                // Operations call handlers of other namespaces.
                let may_have = |run: &&Run| key.kind == QueueKind::Nexus || run.info.namespace_key == key.namespace.0;
                for stored in runs.iter().filter(may_have) {
                    let run_key = RunKey(stored.info.run_key);
                    let newest = self.runs.slots.run_in_memory(run_key);
                    self.offer_forgotten(key, newest.as_deref().unwrap_or(stored), &known);
                    if self.matching.is_full(key) {
                        return Ok(Some(run_key));
                    }
                }
                // Everything up to where the refill began was looked at before.
                if !again && began.is_some_and(|began| cursor.is_some_and(|cursor| cursor >= began)) {
                    return Ok(None);
                }
            }
        }
        Ok(after)
    }

    /// Offers what of a run belongs to a queue and is not there.
    fn offer_forgotten(&self, key: &QueueKey, run: &Run, known: &segno_environment::hash::HashSet<(RunKey, i64)>) {
        if run.is_paused() {
            return;
        }
        let run_key = RunKey(run.info.run_key);
        match key.kind {
            QueueKind::Workflow => {
                let waiting = run.state().task.as_ref().filter(|task| task.started_event_id == 0);
                let here = run.state().script.is_none() && waiting.is_some() && run.info.task_queue == key.name;
                if here && !known.contains(&(run_key, 0)) {
                    self.queue_workflow_task(run);
                }
            }
            QueueKind::Sticky => {
                let waiting = run.state().task.as_ref().filter(|task| task.started_event_id == 0 && task.sticky);
                let of_queue = |name: &str| QueueKey::sticky(key.namespace, name, &run.info.task_queue) == *key;
                if waiting.is_some_and(|task| of_queue(&task.queue)) && !known.contains(&(run_key, 0)) {
                    self.queue_workflow_task(run);
                }
            }
            QueueKind::Activity => {
                for (id, activity) in &run.state().activities {
                    let waits = activity.queue == key.name && is_waiting(activity, self.runs.reached_now());
                    if waits && !known.contains(&(run_key, *id)) {
                        self.queue_activity(run, *id);
                    }
                }
            }
            QueueKind::Nexus => {
                for (id, operation) in &run.state().operations {
                    let waits = operation.is_waiting(self.runs.reached_now()) && self.is_for(operation, key);
                    if waits && !known.contains(&(run_key, *id)) {
                        self.queue_nexus_request(run, *id);
                    }
                }
            }
            QueueKind::WorkerCommand => {}
        }
    }
}
