//! The commit pipeline: one writer thread gathers whatever waits and makes it durable with one sync.
//!
//! A group is what queued up while the last one was being written, at most [`GROUP_MAX`]. Who commits alone never waits
//! for others. While many commit at the same time a sync begins [`PACE`] after the one before at the earliest: they share
//! pages of the disk that would otherwise be written several times (decision 013). Once [`Committer::commit`] returned
//! `Ok`, the commit is on stable storage.

use std::{
    sync::{Arc, mpsc},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use segno_store::{Commit, CommitError, Store};
use tokio::sync::oneshot;

use crate::metrics::{Metrics, add, count};

/// Most commits in one durable transaction.
const GROUP_MAX: usize = 64;
/// Least time between the beginnings of two syncs, after a group of [`PACED_FROM`] or more.
const PACE: Duration = Duration::from_millis(1);
const PACED_FROM: usize = 3;

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
    let mut next = Instant::now();
    while let Ok((commit, answer)) = waiting.recv() {
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
        let begun = Instant::now();
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
        next = if commits.len() < PACED_FROM { begun } else { begun + PACE };
        let results = store.commit(&commits);
        count(&metrics.syncs);
        for ((commit, answer), result) in commits.drain(..).zip(answers.drain(..)).zip(results) {
            count(if result.is_ok() { &metrics.commits } else { &metrics.commit_failures });
            add(&metrics.committed_bytes, if result.is_ok() { commit.bytes() as u64 } else { 0 });
            // A caller that is gone does not change what was stored.
            let _ = answer.send(result);
        }
    }
}
