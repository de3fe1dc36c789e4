//! Updates of workflows: admits an update, and waits until it has reached a stage.

use std::sync::Arc;

use segno_engine::{
    Applied, Run,
    update::{
        abort::Abort,
        admit::{self, Admit},
        status::{self, Status},
    },
};
use segno_proto::{events::history_event::Attributes, update::Outcome};
use segno_store::RunKey;
use tokio::time::Instant;

use crate::{
    error::CallError,
    runs::Runs,
    slots::{Current, RunSelector, WorkflowKey},
};

/// How far an update has come.
#[derive(Clone, Debug, PartialEq)]
pub enum UpdateStage {
    /// The server has it.
    Admitted,
    /// A worker accepted it.
    Accepted,
    /// This came out.
    Completed(Box<Outcome>),
}

/// How far a caller wants to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WaitFor {
    /// Not at all.
    Admitted,
    /// Until a worker accepted or rejected it.
    Accepted,
    /// Until it has an outcome.
    Completed,
}

/// An update as its caller hears of it.
#[derive(Clone, Debug, PartialEq)]
pub struct UpdateReply {
    /// The run that has it.
    pub run_id: String,
    /// How far it came.
    pub stage: UpdateStage,
}

/// How a caller waits for an update.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UpdateWait {
    /// How far.
    pub wait: WaitFor,
    /// How long.
    pub until: Instant,
    /// Whether it waits in the run that follows if the update goes there: the caller named no run.
    pub follows: bool,
}

/// Searches of earlier runs for one call: each names a run that was not searched yet, so that more happen only if the workflow
/// continues as new all the time.
pub(crate) const SEARCHES_MAX: usize = 20;

/// The outcome of a call that brings an update.
enum Admission {
    /// This run has it.
    In(String),
    /// An earlier run of the chain has completed it.
    Completed(UpdateReply),
}

impl Runs {
    /// Admits an update and waits for it, until `until` at most. If memory loses it meanwhile it is admitted again.
    pub async fn update_workflow(
        self: &Arc<Self>,
        key: &WorkflowKey,
        selector: &RunSelector,
        call: Admit,
        wait: WaitFor,
        until: Instant,
    ) -> Result<UpdateReply, CallError> {
        let waiting = UpdateWait { wait, until, follows: selector.run_id.is_empty() };
        loop {
            let run_id = match self.admit_update(key, selector, &call).await? {
                Admission::In(run_id) => run_id,
                Admission::Completed(reply) => return Ok(reply),
            };
            match self.wait_for_update(key, &run_id, call.id(), waiting).await {
                Err(CallError::UpdateLost) if Instant::now() < until => {}
                outcome => return outcome,
            }
        }
    }

    async fn admit_update(
        self: &Arc<Self>,
        key: &WorkflowKey,
        selector: &RunSelector,
        call: &Admit,
    ) -> Result<Admission, CallError> {
        let mut call = call.clone();
        for _ in 0..SEARCHES_MAX {
            let admission = call.clone();
            let admit = move |run: &Run, context| {
                let Applied { run, transition, reply: earlier } = admit::admit(run, context, admission)?;
                let reply = (run.info.run_id.clone(), earlier);
                Ok(Applied { run, transition, reply })
            };
            let (run_id, earlier) = self.transact(key, selector, admit).await?;
            if earlier.is_empty() {
                return Ok(Admission::In(run_id));
            }
            if let Some(reply) = Box::pin(self.completed_earlier(key, &earlier, call.id())).await? {
                return Ok(Admission::Completed(reply));
            }
            call.searched.extend(earlier);
        }
        Err(CallError::Busy)
    }

    /// The outcome of an update that one of these runs completed. A run that was deleted has completed nothing.
    pub(crate) async fn completed_earlier(
        &self,
        key: &WorkflowKey,
        runs: &[u64],
        id: &str,
    ) -> Result<Option<UpdateReply>, CallError> {
        for run in runs {
            let Some(earlier) = Box::pin(self.load_run(RunKey(*run))).await? else { continue };
            let info = &earlier.run.info;
            if info.workflow_id != *key.workflow_id || info.namespace_key != key.namespace.0 {
                continue;
            }
            let completed = earlier.run.update_record(id).map_or(0, |record| record.completed_event_id);
            if completed == 0 {
                continue;
            }
            match Box::pin(self.stored_outcome(&earlier, completed)).await {
                Ok(outcome) => {
                    let stage = UpdateStage::Completed(Box::new(outcome));
                    return Ok(Some(UpdateReply { run_id: info.run_id.clone(), stage }));
                }
                // It was deleted meanwhile.
                Err(_) if self.load_record(RunKey(*run)).await?.is_none() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// Waits for an update that is there already. Without a run id it may be in any run of the current chain.
    pub async fn poll_update(
        &self,
        key: &WorkflowKey,
        run_id: &str,
        id: &str,
        wait: WaitFor,
        until: Instant,
    ) -> Result<UpdateReply, CallError> {
        let run = self.run_with_updates(key, run_id).await?.run.clone();
        if status::of(&run, id).is_some() {
            let waiting = UpdateWait { wait, until, follows: run_id.is_empty() };
            return self.wait_for_update(key, &run.info.run_id, id, waiting).await;
        }
        let earlier = if run_id.is_empty() { status::earlier_runs(&run, id, &[]) } else { Vec::new() };
        let completed = Box::pin(self.completed_earlier(key, &earlier, id)).await?;
        completed.ok_or_else(|| CallError::UpdateNotFound { update_id: id.to_owned() })
    }

    /// Waits until an update has come far enough; at the end of patience says how far it came.
    pub(crate) async fn wait_for_update(
        &self,
        key: &WorkflowKey,
        run_id: &str,
        id: &str,
        waiting: UpdateWait,
    ) -> Result<UpdateReply, CallError> {
        let UpdateWait { wait, until, follows } = waiting;
        let slot = self.slots.get(key);
        let mut progress = slot.progress.subscribe();
        let mut run_id = run_id.to_owned();
        loop {
            progress.mark_unchanged();
            let current = match self.run_with_updates(key, &run_id).await {
                // It was there when the update was admitted: a deletion has closed it and removed it since.
                Err(CallError::RunNotFound { .. } | CallError::WorkflowNotFound { .. }) => {
                    return Err(CallError::UpdateAborted(Abort::Closed));
                }
                current => current?,
            };
            let stage = match status::of(&current.run, id) {
                Some(Status::Admitted) => UpdateStage::Admitted,
                Some(Status::Accepted) => UpdateStage::Accepted,
                Some(Status::Completed(outcome)) => UpdateStage::Completed(Box::new(Outcome::clone(&outcome))),
                Some(Status::CompletedIn(event)) => {
                    UpdateStage::Completed(Box::new(self.stored_outcome(&current, event).await?))
                }
                Some(Status::Aborted(abort)) => {
                    let next = current.run.state().successor_run_id.clone();
                    if !follows || next.is_empty() || !self.has_update(key, &next, id).await? {
                        return Err(CallError::UpdateAborted(abort));
                    }
                    run_id = next;
                    continue;
                }
                None if current.run.is_running() => return Err(CallError::UpdateLost),
                None if current.run.state().successor_run_id.is_empty() => {
                    return Err(CallError::UpdateAborted(Abort::Closed));
                }
                None if follows => return Err(CallError::UpdateLost),
                None => return Err(CallError::UpdateAborted(Abort::Continuing)),
            };
            let far_enough = match stage {
                UpdateStage::Admitted => wait == WaitFor::Admitted,
                UpdateStage::Accepted => wait <= WaitFor::Accepted,
                UpdateStage::Completed(_) => true,
            };
            if far_enough {
                return Ok(UpdateReply { run_id, stage });
            }
            let news = tokio::select! {
                biased;
                news = tokio::time::timeout_at(until, progress.changed()) => news.is_ok(),
                () = self.lifecycle.stop.notified() => false,
            };
            if !news {
                return Ok(UpdateReply { run_id, stage });
            }
        }
    }

    async fn has_update(&self, key: &WorkflowKey, run_id: &str, id: &str) -> Result<bool, CallError> {
        match self.run_with_updates(key, run_id).await {
            Ok(current) => Ok(status::of(&current.run, id).is_some()),
            Err(CallError::RunNotFound { .. } | CallError::WorkflowNotFound { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// A run with what memory knows of its updates, even if another run has taken its place since.
    async fn run_with_updates(&self, key: &WorkflowKey, run_id: &str) -> Result<Arc<Current>, CallError> {
        let mut current = self.snapshot(key, run_id).await?;
        if current.run.is_running() {
            // Nothing has taken its place.
            return Ok(current);
        }
        let locked = self.lock(key).await?;
        if let Some((before, updates)) = &locked.state.previous_updates
            && *before == current.key()
        {
            let run = current.run.with_updates(updates.clone());
            Arc::make_mut(&mut current).run = Arc::new(run);
        }
        Ok(current)
    }

    async fn stored_outcome(&self, current: &Current, event_id: i64) -> Result<Outcome, CallError> {
        let page = self.history_reverse(current, event_id + 1, 1).await?;
        let event = page.events.into_iter().find(|event| event.event_id == event_id);
        match event.and_then(|event| event.attributes) {
            Some(Attributes::WorkflowExecutionUpdateCompletedEventAttributes(completed)) => {
                Ok(completed.outcome.unwrap_or_default())
            }
            _ => Err(CallError::DataLoss(format!(
                "run {}: event {event_id} should hold an update's outcome and does not",
                current.key().0
            ))),
        }
    }
}
