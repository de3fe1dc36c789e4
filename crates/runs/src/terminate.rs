//! Terminates a run, also a damaged one.
//!
//! A run whose state can be read is terminated by a transition. If only its pointer or its first event is lost, the
//! pointer is repaired first, and the first event is not needed. A run whose state cannot be read is closed in storage
//! without a transition. Afterwards it is listed as Terminated, it has no tasks and no timers, its workflow id is free,
//! the rest of its history stays until the retention is over, and calls that name its run id still answer DATA_LOSS.
//! Its parent gets no result and its children go on, because their names are only in the lost state.

use std::sync::Arc;

use bytes::Bytes;
use segno_engine::{Applied, Context, Rejection, Run};
use segno_environment::finish::finish;
use segno_proto::{
    History,
    enums::WorkflowExecutionStatus,
    events::{HistoryEvent, history_event::Attributes},
};
use segno_store::{
    Commit, CurrentReset, ReadError, RunKey, RunWrite, Store,
    visibility::{Closed, VisibilityRow},
};

use crate::{
    delete::{DamagedRun, find_damaged},
    error::CallError,
    runs::Runs,
    slots::{Current, RunSelector, WorkflowKey},
    transact::LockedSlot,
};

impl Runs {
    /// Terminates a run. `decide` is the transition; `first_run_id` is the first run of the chain that is meant, or empty.
    pub async fn terminate_run<F>(
        self: &Arc<Self>,
        key: &WorkflowKey,
        selector: &RunSelector,
        first_run_id: &str,
        decide: F,
    ) -> Result<(), CallError>
    where
        F: FnOnce(&Run, Context) -> Result<Applied<()>, Rejection> + Clone + Send + 'static,
    {
        use CallError::{DataLoss, RunNotFound, WorkflowNotFound};
        let error = match self.transact(key, selector, decide.clone()).await {
            Err(error @ (DataLoss(_) | RunNotFound { .. } | WorkflowNotFound { .. })) => error,
            done => return done,
        };
        let (runs, key) = (self.clone(), key.clone());
        let (run_id, first_run_id) = (selector.run_id.clone(), first_run_id.to_owned());
        finish(async move {
            let slot = runs.slots.get(&key);
            let state = slot.state.clone().lock_owned().await;
            let mut locked = LockedSlot { slot, state };
            let found = find_damaged(&*runs.store, key.namespace, &key.workflow_id, &run_id).await?;
            let Some(damaged) = found else { return Err(error) };
            let run = damaged.run;
            let state = match runs.load_record(run).await {
                Ok(Some(record)) => Run::decode(record.state).ok().map(|run| (run, record.version)),
                Ok(None) | Err(DataLoss(_)) => None,
                Err(error) => return Err(error),
            };
            match state {
                Some((state, version)) => {
                    runs.terminate_readable(&mut locked, &damaged, Current::new(Arc::new(state), version), decide).await
                }
                None => runs.close_unreadable(&mut locked, &damaged, (&run_id, &first_run_id)).await,
            }
        })
        .await
    }

    /// Terminates a run whose state can be read, though its workflow id does not lead to it or its first event is lost.
    async fn terminate_readable(
        self: &Arc<Self>,
        locked: &mut LockedSlot,
        damaged: &DamagedRun,
        current: Current,
        decide: impl FnOnce(&Run, Context) -> Result<Applied<()>, Rejection> + Send,
    ) -> Result<(), CallError> {
        let run = current.run.clone();
        let context = self.context_on(&run, false).await?;
        let applied = decide(&run, context)?;
        if damaged.leads_to.is_some() {
            self.lead_to(&locked.slot.key, Some(damaged.run)).await?;
        }
        self.slots.note_run(damaged.run, &locked.slot.key);
        locked.state.loaded = true;
        locked.state.current = Some(Arc::new(current));
        let done = self.commit(locked, applied, Vec::new()).await;
        // The next user looks where the workflow id leads.
        self.forget(locked);
        if done.is_ok() {
            self.damaged.forget(damaged.run);
        }
        done
    }

    /// Closes a run whose state cannot be read.
    async fn close_unreadable(
        self: &Arc<Self>,
        locked: &mut LockedSlot,
        damaged: &DamagedRun,
        (run_id, first_run_id): (&str, &str),
    ) -> Result<(), CallError> {
        let (run, key) = (damaged.run, locked.slot.key.clone());
        let left = ReadableFacts::of(&*self.store, run).await?;
        let refused = |why: &str| {
            let text = format!("run {} is damaged and cannot be terminated: {why}; delete it instead", run.0);
            CallError::DataLoss(text)
        };
        let facts = left.facts.ok_or_else(|| refused("what lists show of it cannot be read either"))?;
        let version = left.version.ok_or_else(|| refused("nothing is left of its state"))?;
        if !run_id.is_empty() && facts.run_id != run_id {
            return Err(Rejection::RunNotFound.into());
        }
        let is_first = first_run_id.is_empty() || facts.run_id == first_run_id;
        if !is_first && left.first_run_id.is_none() {
            return Err(refused("its history does not tell the first run of its chain"));
        }
        if !is_first && left.first_run_id.as_deref() != Some(first_run_id) {
            return Err(Rejection::RunNotFound.into());
        }
        if facts.closed.is_some() {
            return Err(Rejection::Closed.into());
        }
        let closed = Closed { time: self.clock.now(), history_length: left.events, history_bytes: 0, transitions: 0 };
        let facts = VisibilityRow {
            status: WorkflowExecutionStatus::Terminated as i32,
            closed: Some(closed),
            activity_retry: None,
            task_retry: None,
            ..facts
        };
        let write = RunWrite {
            key: run,
            expected_version: version,
            // No run: a call that reads it finds that it is damaged.
            state: Bytes::new(),
            open: false,
            wake_at: None,
            dispatchable: false,
            batches: Vec::new(),
            visibility: Some(Box::new(facts)),
        };
        let mut commit = Commit { runs: vec![write], ..Default::default() };
        if damaged.leads_to.is_some() {
            commit.current_reset.push(reset_of(&key, None));
        }
        self.committer.commit(commit).await?;
        tracing::warn!(run = run.0, workflow = %key.workflow_id, "a damaged run was terminated; it is listed until it is deleted");
        self.timers.set(run, None);
        self.no_time_held(run);
        self.forget(locked);
        locked.slot.progress.send_modify(|progress| progress.closed = true);
        Ok(())
    }

    /// Sets the pointer from a workflow id.
    async fn lead_to(&self, key: &WorkflowKey, current: Option<RunKey>) -> Result<(), CallError> {
        let commit = Commit { current_reset: vec![reset_of(key, current)], ..Default::default() };
        Ok(self.committer.commit(commit).await?)
    }
}

fn reset_of(key: &WorkflowKey, current: Option<RunKey>) -> CurrentReset {
    CurrentReset { namespace: key.namespace, workflow_id: key.workflow_id.to_string(), current }
}

/// The facts of a run that can still be read although its state cannot.
struct ReadableFacts {
    facts: Option<VisibilityRow>,
    version: Option<u64>,
    /// The first run of its chain, as its first event has it.
    first_run_id: Option<String>,
    /// Its last event.
    events: i64,
}

impl ReadableFacts {
    async fn of(store: &dyn Store, run: RunKey) -> Result<Self, ReadError> {
        let first = readable(store.history(run, 1, 2, 1, usize::MAX).await)?.unwrap_or_default();
        let last = readable(store.history_reverse(run, i64::MAX, 1).await)?.unwrap_or_default();
        let mut events = Vec::new();
        // What cannot be decoded tells nothing.
        let _ = first.iter().try_for_each(|batch| History::decode_batch(&batch.events, &mut events));
        Ok(Self {
            facts: readable(store.facts(run).await)?.flatten(),
            version: readable(store.version(run).await)?.flatten(),
            first_run_id: events.first().and_then(first_run_id),
            events: last.first().map_or(0, |batch| batch.last_event_id),
        })
    }
}

fn first_run_id(event: &HistoryEvent) -> Option<String> {
    match &event.attributes {
        Some(Attributes::WorkflowExecutionStartedEventAttributes(started)) => {
            Some(started.first_execution_run_id.clone())
        }
        _ => None,
    }
}

/// The value of a read, or nothing if the stored data is damaged.
fn readable<T>(read: Result<T, ReadError>) -> Result<Option<T>, ReadError> {
    match read {
        Ok(read) => Ok(Some(read)),
        Err(ReadError::Damaged(_)) => Ok(None),
        Err(error) => Err(error),
    }
}
