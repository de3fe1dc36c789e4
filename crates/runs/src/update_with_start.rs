//! Update-with-start: updates a workflow and starts it first if it is not running, as one operation.

use std::sync::Arc;

use segno_engine::{
    Run,
    start::Start,
    start_conflict::{self, Conflict, UpdateOrStart},
    update::{
        abort::Abort,
        admit::{self, Admit},
    },
};
use segno_environment::finish::finish;
use segno_store::NamespaceKey;
use tokio::time::Instant;

use crate::{
    error::CallError,
    runs::Runs,
    slots::{RunSelector, WorkflowKey},
    starts::{StartOutcome, current_run},
    transact::LockedSlot,
    updates::{SEARCHES_MAX, UpdateReply, UpdateWait, WaitFor},
};

/// Tries when the workflow closes under the update's feet.
const TRIES: usize = 2;

/// Which of the two operations failed.
#[derive(Clone, Debug)]
pub enum WithStartError {
    /// The start; nothing happened.
    Start(CallError),
    /// The update; nothing was started.
    Update(CallError),
    /// The update, although the start is done.
    UpdateAfterStart(CallError),
}

/// Both operations done.
#[derive(Clone, Debug)]
pub struct StartedAndUpdated {
    /// The start's part.
    pub start: StartOutcome,
    /// The update's part.
    pub update: UpdateReply,
}

impl Runs {
    /// Updates the workflow, starting it first if need be.
    pub async fn update_with_start(
        self: &Arc<Self>,
        start: Start,
        mut update: Admit,
        wait: WaitFor,
        until: Instant,
    ) -> Result<StartedAndUpdated, WithStartError> {
        let key = WorkflowKey::new(NamespaceKey(start.namespace_key), &start.options.workflow_id);
        let id = update.id().to_owned();
        let (mut tries, mut searches) = (1, 0);
        let waiting = UpdateWait { wait, until, follows: true };
        loop {
            let (runs, call) = (self.clone(), (start.clone(), update.clone()));
            let (outcome, earlier) = finish(async move { runs.start_with_update(call.0, call.1).await }).await?;
            if !earlier.is_empty() {
                let completed = Box::pin(self.completed_earlier(&key, &earlier, &id)).await;
                if let Some(update) = completed.map_err(WithStartError::Update)? {
                    return Ok(StartedAndUpdated { start: outcome, update });
                }
                searches += 1;
                if searches >= SEARCHES_MAX {
                    return Err(WithStartError::Update(CallError::Busy));
                }
                update.searched.extend(earlier);
                continue;
            }
            let run_id = outcome.run.info.run_id.clone();
            let mut updated = self.wait_for_update(&key, &run_id, &id, waiting).await;
            if updated == Err(CallError::UpdateLost) {
                let selector =
                    RunSelector { run_id: String::new(), first_run_id: outcome.run.info.first_run_id.clone() };
                updated = self.update_workflow(&key, &selector, update.clone(), wait, until).await;
            }
            match updated {
                Ok(update) => return Ok(StartedAndUpdated { start: outcome, update }),
                // A workflow that was there ended meanwhile: another one can be started.
                Err(CallError::UpdateAborted(Abort::Closed)) if !outcome.started && tries < TRIES => tries += 1,
                Err(CallError::UpdateAborted(Abort::Closed)) if !outcome.started => {
                    return Err(WithStartError::Update(CallError::Aborted(
                        "workflow update was aborted by closing workflow".to_owned(),
                    )));
                }
                Err(error) => return Err(WithStartError::UpdateAfterStart(error)),
            }
        }
    }

    /// Gives the run, and the keys of earlier runs that are to be searched for the update, before which nothing is done.
    async fn start_with_update(
        self: &Arc<Self>,
        start: Start,
        update: Admit,
    ) -> Result<(StartOutcome, Vec<u64>), WithStartError> {
        let key = WorkflowKey::new(NamespaceKey(start.namespace_key), &start.options.workflow_id);
        let mut locked = self.lock(&key).await.map_err(WithStartError::Start)?;
        let there = |run: Arc<Run>, finished| {
            let status = run.status();
            StartOutcome { run, started: false, status, first_task: None, attached: false, finished }
        };
        let current = locked.state.current.as_ref().map(|current| current.run.clone());
        let decision = start_conflict::resolve_update(current.as_deref(), &start.options, &update);
        match (current, decision) {
            (Some(run), UpdateOrStart::Answered) => Ok((there(run, true), Vec::new())),
            (Some(run), UpdateOrStart::Search(earlier)) => Ok((there(run, true), earlier)),
            (Some(run), UpdateOrStart::Update) => {
                let context = self.context(locked.slot.key.namespace);
                let applied =
                    admit::admit(&run, context, update).map_err(|refused| WithStartError::Update(refused.into()))?;
                self.commit(&mut locked, applied, Vec::new()).await.map_err(WithStartError::Update)?;
                let run = locked.state.current.as_ref().map_or(run, |current| current.run.clone());
                Ok((there(run, false), Vec::new()))
            }
            _ => Ok((self.create_with_update(&mut locked, start, update).await?, Vec::new())),
        }
    }

    /// Creates a run that has an update from its first moment on, if the policies allow it.
    async fn create_with_update(
        self: &Arc<Self>,
        locked: &mut LockedSlot,
        start: Start,
        update: Admit,
    ) -> Result<StartOutcome, WithStartError> {
        let start = self.pin_script(start).await.map_err(WithStartError::Start)?;
        let decision = start_conflict::resolve(current_run(locked), &start.options)
            .map_err(|refused| WithStartError::Start(refused.into()))?;
        match decision {
            Conflict::Create | Conflict::TerminateExisting => {
                let created = self.create(locked, Box::new(start), None, Some(update), Vec::new()).await;
                created.map_err(|error| match error {
                    CallError::Rejected(_) => WithStartError::Update(error),
                    other => WithStartError::Start(other),
                })
            }
            Conflict::SameRequest | Conflict::UseExisting => {
                let text = "Workflow was not started: it is there already and is closed";
                Err(WithStartError::Start(CallError::Unavailable(text.to_owned())))
            }
        }
    }
}
