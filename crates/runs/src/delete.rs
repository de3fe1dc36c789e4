//! Deletes a run: at once if it is closed; a running one is terminated first. Of a damaged one everything that is left
//! is removed.

use std::{sync::Arc, time::Duration};

use segno_engine::{
    Run, run_key_of,
    terminate::{self, Terminate},
    workflow_task::SERVER_IDENTITY,
};
use segno_environment::{finish::finish, lock::lock};
use segno_store::{Commit, CurrentReset, CurrentWrite, NamespaceKey, OutboxKey, ReadError, RunKey, Store};

use crate::{
    error::CallError,
    load::add_start_event,
    runs::Runs,
    slots::{RunSelector, WorkflowKey},
};

/// How often a deletion looks whether the run's last messages are delivered, at first and in the end.
const MESSAGES_WAIT: Duration = Duration::from_millis(20);
const MESSAGES_WAIT_MAX: Duration = Duration::from_secs(10);

impl Runs {
    /// Deletes a run with its history. Once this returns the run is closed; it is gone as soon as what it told others
    /// has arrived, which for a closed run is at once.
    pub async fn delete_run(self: &Arc<Self>, key: &WorkflowKey, run_id: &str) -> Result<(), CallError> {
        let run = match self.snapshot(key, run_id).await {
            Ok(current) => current.run.clone(),
            Err(error) => return self.delete_damaged(key, run_id, error).await,
        };
        if run.is_running() {
            let request = Terminate {
                reason: "Delete workflow execution".to_owned(),
                identity: SERVER_IDENTITY.to_owned(),
                ..Default::default()
            };
            let call = move |run: &Run, context| terminate::terminate(run, context, request);
            self.apply(key, &RunSelector::run(run.info.run_id.clone()), call).await?;
        }
        let run_key = RunKey(run.info.run_key);
        if self.has_messages(run_key).await? {
            if !lock(&self.deleting).insert(run_key) {
                return Ok(());
            }
            let (runs, key) = (self.clone(), key.clone());
            tokio::spawn(async move {
                let mut pause = MESSAGES_WAIT;
                while !runs.is_stopping() && runs.has_messages(run_key).await.unwrap_or(true) {
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(MESSAGES_WAIT_MAX);
                }
                lock(&runs.deleting).remove(&run_key);
                match runs.remove(&key, run_key).await {
                    Ok(()) => runs.note_deleted(&run).await,
                    Err(error) => tracing::warn!(run = run_key.0, %error, "a closed run was not deleted"),
                }
            });
            return Ok(());
        }
        let (runs, key) = (self.clone(), key.clone());
        // Once removed, a run must be forgotten as well, whether or not the caller is still there.
        finish(async move {
            runs.remove(&key, run_key).await?;
            runs.note_deleted(&run).await;
            Ok(())
        })
        .await
    }

    /// A run was deleted: the version of its script may have to go with it.
    async fn note_deleted(self: &Arc<Self>, run: &Run) {
        if run.state().script.is_some() {
            self.scripts.clone().run_deleted(self, run).await;
        }
    }

    /// Deletes what is left of a run that could not be read. `error` says why, and is given back if there is none.
    async fn delete_damaged(
        self: &Arc<Self>,
        key: &WorkflowKey,
        run_id: &str,
        error: CallError,
    ) -> Result<(), CallError> {
        use CallError::{DataLoss, RunNotFound, WorkflowNotFound};
        if !matches!(error, DataLoss(_) | RunNotFound { .. } | WorkflowNotFound { .. }) {
            return Err(error);
        }
        let (runs, key, run_id) = (self.clone(), key.clone(), run_id.to_owned());
        finish(async move {
            let slot = runs.slots.get(&key);
            let mut state = slot.state.clone().lock_owned().await;
            let namespace = key.namespace;
            let found = find_damaged(&*runs.store, namespace, &key.workflow_id, &run_id).await?;
            let Some(DamagedRun { run, leads_to }) = found else { return Err(error) };
            let mut commit = Commit { delete_runs: vec![run], ..Default::default() };
            if let Some(current) = leads_to {
                let workflow_id = key.workflow_id.to_string();
                commit.current_reset.push(CurrentReset { namespace, workflow_id, current });
            }
            runs.committer.commit(commit).await?;
            tracing::warn!(run = run.0, workflow = %key.workflow_id, "a damaged run was deleted");
            runs.timers.set(run, None);
            runs.no_time_held(run);
            runs.damaged.forget(run);
            state.loaded = false;
            if let Some(current) = state.current.take() {
                runs.slots.forget_run(current.key());
            }
            runs.settle(&mut state);
            slot.progress.send_modify(|progress| progress.closed = true);
            Ok(())
        })
        .await
    }

    async fn has_messages(&self, run: RunKey) -> Result<bool, CallError> {
        let after = OutboxKey { sender: run, sequence: 0 };
        let first = self.store.outbox(Some(after), 1).await?;
        Ok(first.first().is_some_and(|row| row.key.sender == run))
    }

    async fn remove(&self, key: &WorkflowKey, run: RunKey) -> Result<(), CallError> {
        let mut locked = self.lock(key).await?;
        let mut commit = Commit { delete_runs: vec![run], ..Default::default() };
        let is_current = locked.state.current.as_ref().is_some_and(|current| current.key() == run);
        if is_current {
            commit.current.push(CurrentWrite {
                namespace: key.namespace,
                workflow_id: key.workflow_id.to_string(),
                expected: Some(run),
                current: None,
            });
        }
        let lingering = key.of_lingering(run);
        let mut own = match self.slots.workflow_of(run).is_some_and(|known| known == lingering) {
            true => Some(self.lock(&lingering).await?),
            false => None,
        };
        let result = self.committer.commit_of(key.namespace, commit).await;
        self.timers.set(run, None);
        self.no_time_held(run);
        if let Some(own) = &mut own {
            self.forget(own);
        }
        if is_current {
            self.forget(&mut locked);
            locked.slot.progress.send_modify(|progress| progress.closed = true);
        }
        Ok(result?)
    }
}

/// A run that cannot be read, and what its workflow id leads to when it is gone (`None` if that stays).
pub(crate) struct DamagedRun {
    pub run: RunKey,
    pub leads_to: Option<Option<RunKey>>,
}

/// Runs of one workflow id that are looked at.
const RUNS_MAX: usize = 10_000;

/// Finds the damaged run that is meant: by its id, else the current one, else the newest.
pub(crate) async fn find_damaged(
    store: &dyn Store,
    namespace: NamespaceKey,
    workflow_id: &str,
    run_id: &str,
) -> Result<Option<DamagedRun>, ReadError> {
    let runs = store.runs_of_workflow(namespace, workflow_id, RUNS_MAX).await?;
    let current = store.current(namespace, workflow_id).await;
    let wanted = match run_key_of(run_id) {
        Some(key) => Some(RunKey(key)),
        None if !run_id.is_empty() => None,
        None => current.clone().ok().flatten().or_else(|| runs.iter().copied().max()),
    };
    let Some(run) = wanted.filter(|run| runs.contains(run)) else { return Ok(None) };
    match store.load(run).await {
        Ok(Some(record)) => {
            // A closed run that no pointer leads to is an older one, and one that is led to was started meanwhile:
            // nothing is wrong with them. Another id with the same key is no run of this workflow.
            let found = read_run(store, run, record.state).await?;
            let other = found.as_ref().is_some_and(|found| !run_id.is_empty() && found.info.run_id != run_id);
            if found.is_some() && (!record.open || current == Ok(Some(run)) || other) {
                return Ok(None);
            }
        }
        Ok(None) | Err(ReadError::Damaged(_)) => {}
        Err(error) => return Err(error),
    }
    let leads_to = match current {
        Ok(Some(current)) if current != run => None,
        Ok(Some(_)) => Some(None),
        // The pointer is lost: it leads to the newest of the others.
        Ok(None) | Err(ReadError::Damaged(_)) => Some(runs.iter().copied().filter(|other| *other != run).max()),
        Err(error) => return Err(error),
    };
    Ok(Some(DamagedRun { run, leads_to }))
}

/// A stored run, unless it is damaged.
async fn read_run(store: &dyn Store, key: RunKey, state: bytes::Bytes) -> Result<Option<Run>, ReadError> {
    let Ok(mut run) = Run::decode(state) else { return Ok(None) };
    if run.needs_start_event() {
        match add_start_event(store, &mut run, key).await {
            Err(ReadError::Damaged(_)) => return Ok(None),
            other => other?,
        }
    }
    Ok(Some(run))
}
