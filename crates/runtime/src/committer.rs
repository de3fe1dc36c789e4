//! The commit pipeline: one writer thread gathers whatever waits and makes it durable with one sync.
//!
//! There is no timer: a group is what queued up while the last one was being written, at most [`GROUP_MAX`]. Once
//! [`Committer::commit`] returned `Ok`, the commit is on stable storage.

use std::{
    sync::{Arc, mpsc},
    thread::JoinHandle,
};

use segno_store::{Commit, CommitError, Store};
use tokio::sync::oneshot;

use crate::metrics::{Metrics, count};

/// Most commits in one durable transaction.
const GROUP_MAX: usize = 64;

type Answer = oneshot::Sender<Result<(), CommitError>>;

/// The way to the writer thread.
pub struct Committer {
    requests: mpsc::Sender<(Commit, Answer)>,
}

impl Committer {
    /// Starts the writer thread. It ends when every `Committer` is gone and all that waited is written.
    pub fn start(store: Arc<dyn Store>, metrics: Arc<Metrics>) -> std::io::Result<(Self, JoinHandle<()>)> {
        let (requests, waiting) = mpsc::channel();
        let thread = std::thread::Builder::new()
            .name("segno-committer".to_owned())
            .spawn(move || write(&*store, &waiting, &metrics))?;
        Ok((Self { requests }, thread))
    }

    /// Makes one commit durable. It is on its way when this returns; the future waits for it.
    pub fn commit(&self, commit: Commit) -> impl Future<Output = Result<(), CommitError>> + use<> {
        let (answer, result) = oneshot::channel();
        // If the writer is gone, so is the answer.
        let _ = self.requests.send((commit, answer));
        let gone = |_| CommitError::Unknown("the server is shutting down".to_owned());
        async move { result.await.map_err(gone)? }
    }
}

fn write(store: &dyn Store, waiting: &mpsc::Receiver<(Commit, Answer)>, metrics: &Metrics) {
    let mut commits = Vec::with_capacity(GROUP_MAX);
    let mut answers = Vec::with_capacity(GROUP_MAX);
    while let Ok((commit, answer)) = waiting.recv() {
        commits.push(commit);
        answers.push(answer);
        while commits.len() < GROUP_MAX {
            let Ok((commit, answer)) = waiting.try_recv() else { break };
            commits.push(commit);
            answers.push(answer);
        }
        #[cfg(feature = "sabotage")]
        if std::env::var_os("SEGNO_SABOTAGE").is_some_and(|mode| mode == "ack-before-sync") {
            // The fault that harnesses must catch: everyone is told "done" before it is.
            for answer in answers.drain(..) {
                let _ = answer.send(Ok(()));
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        let results = store.commit(&commits);
        count(&metrics.syncs);
        for (answer, result) in answers.drain(..).zip(results) {
            count(if result.is_ok() { &metrics.commits } else { &metrics.commit_failures });
            // A caller that is gone does not change what was stored.
            let _ = answer.send(result);
        }
        commits.clear();
    }
}
