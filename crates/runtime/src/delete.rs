//! Deleting a run: at once if it is closed; a running one is terminated first.

use std::{sync::Arc, time::Duration};

use segno_engine::{
    Run,
    terminate::{self, Terminate},
    workflow_task::SERVER_IDENTITY,
};
use segno_store::{Commit, CurrentWrite, OutboxKey, RunKey};

use crate::{error::CallError, finish::finish, node::Node, slots::WorkflowKey, transact::RunSelector};

/// How long a deletion waits for the run's last messages to be delivered.
const MESSAGES_WAIT: Duration = Duration::from_millis(20);

impl Node {
    /// Deletes a run with its history. Once this returns the run is closed; it is gone as soon as what it told others
    /// has arrived, which for a closed run is at once.
    pub async fn delete_run(self: &Arc<Self>, key: &WorkflowKey, run_id: &str) -> Result<(), CallError> {
        let run = self.snapshot(key, run_id).await?.run.clone();
        if run.is_running() {
            let request = Terminate {
                reason: "Delete workflow execution".to_owned(),
                identity: SERVER_IDENTITY.to_owned(),
                ..Default::default()
            };
            let call = move |run: &Run, context| terminate::terminate(run, context, request);
            self.transact(key, &RunSelector::run(run.info.run_id.clone()), call).await?;
        }
        let run_key = RunKey(run.info.run_key);
        if self.has_messages(run_key).await? {
            let (node, key) = (self.clone(), key.clone());
            tokio::spawn(async move {
                while !node.is_stopping() && node.has_messages(run_key).await.unwrap_or(true) {
                    tokio::time::sleep(MESSAGES_WAIT).await;
                }
                if let Err(error) = node.remove(&key, run_key).await {
                    tracing::warn!(run = run_key.0, %error, "a closed run was not deleted");
                }
            });
            return Ok(());
        }
        let (node, key) = (self.clone(), key.clone());
        // Once removed, a run must be forgotten as well, whether or not the caller is still there.
        finish(async move { node.remove(&key, run_key).await }).await
    }

    async fn has_messages(&self, run: RunKey) -> Result<bool, CallError> {
        let after = OutboxKey { sender: run, sequence: 0 };
        let first = self.read(move |store| store.outbox(Some(after), 1)).await?;
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
        let result = self.committer.commit(commit).await;
        if is_current {
            self.timers.set(run, None);
            self.forget(&mut locked);
            locked.slot.progress.send_modify(|progress| progress.closed = true);
        }
        Ok(result?)
    }
}
