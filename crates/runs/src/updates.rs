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

impl Runs {
    /// Admits an update and waits for it, until `until` at most.
    pub async fn update_workflow(
        self: &Arc<Self>,
        key: &WorkflowKey,
        selector: &RunSelector,
        call: Admit,
        wait: WaitFor,
        until: Instant,
    ) -> Result<UpdateReply, CallError> {
        let id = call.id().to_owned();
        let admit = move |run: &Run, context| {
            let Applied { run, transition, .. } = admit::admit(run, context, call)?;
            let reply = run.info.run_id.clone();
            Ok(Applied { run, transition, reply })
        };
        let run_id = self.transact(key, selector, admit).await?;
        self.wait_for_update(key, &run_id, &id, wait, until).await
    }

    /// Waits for an update that is there already.
    pub async fn poll_update(
        &self,
        key: &WorkflowKey,
        run_id: &str,
        id: &str,
        wait: WaitFor,
        until: Instant,
    ) -> Result<UpdateReply, CallError> {
        let run = self.run_with_updates(key, run_id).await?.run.clone();
        if status::of(&run, id).is_none() {
            return Err(CallError::UpdateNotFound { update_id: id.to_owned() });
        }
        self.wait_for_update(key, &run.info.run_id, id, wait, until).await
    }

    /// Waits until an update has come far enough; at the end of patience says how far it came.
    pub(crate) async fn wait_for_update(
        &self,
        key: &WorkflowKey,
        run_id: &str,
        id: &str,
        wait: WaitFor,
        until: Instant,
    ) -> Result<UpdateReply, CallError> {
        let slot = self.slots.get(key);
        let mut progress = slot.progress.subscribe();
        let reply = |stage| Ok(UpdateReply { run_id: run_id.to_owned(), stage });
        loop {
            progress.mark_unchanged();
            let current = match self.run_with_updates(key, run_id).await {
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
                Some(Status::Aborted(abort)) => return Err(CallError::UpdateAborted(abort)),
                None if current.run.is_running() => {
                    return Err(CallError::Unavailable("workflow update was aborted".to_owned()));
                }
                None if current.run.state().successor_run_id.is_empty() => {
                    return Err(CallError::UpdateAborted(Abort::Closed));
                }
                None => return Err(CallError::UpdateAborted(Abort::Continuing)),
            };
            let far_enough = match stage {
                UpdateStage::Admitted => wait == WaitFor::Admitted,
                UpdateStage::Accepted => wait <= WaitFor::Accepted,
                UpdateStage::Completed(_) => true,
            };
            if far_enough {
                return reply(stage);
            }
            let news = tokio::select! {
                biased;
                news = tokio::time::timeout_at(until, progress.changed()) => news.is_ok(),
                () = self.lifecycle.stop.notified() => false,
            };
            if !news {
                return reply(stage);
            }
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
