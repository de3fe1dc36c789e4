//! The commit pipeline: one writer thread gathers whatever waits and makes it durable with one sync.
//!
//! A group is what queued up while the last one was being written, at most [`GROUP_MAX`]. Who commits alone never waits
//! for others. While many commit at the same time a sync begins [`PACE`] after the one before at the earliest: they share
//! pages of the disk that would otherwise be written several times (decision 013). Once [`Committer::commit`] returned
//! `Ok`, the commit is on stable storage.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    time::{Duration, Instant},
};

use segno_store::{Commit, CommitError, Store};
use tokio::sync::oneshot;

use crate::{
    metrics::{Metrics, add, count},
    supervise::{Vitals, panic_text},
};

/// Most commits in one durable transaction.
const GROUP_MAX: usize = 64;
/// Least time between the beginnings of two syncs, after a group of [`PACED_FROM`] or more.
const PACE: Duration = Duration::from_millis(1);
const PACED_FROM: usize = 3;
/// Bytes that may wait for the disk. Beyond, calls from outside are refused before they change anything.
const WAITING_BYTES_MAX: usize = 256 * 1024 * 1024;

type Answer = oneshot::Sender<Result<(), CommitError>>;

/// The way to the writer thread.
pub struct Committer {
    requests: mpsc::Sender<(Commit, Answer)>,
    /// Bytes of commits that were handed over and are not written yet.
    waiting_bytes: Arc<AtomicUsize>,
}

impl Committer {
    /// Starts the writer thread. It ends when every `Committer` is gone and all that waited is written; if it panics,
    /// the node has failed.
    pub fn start(store: Arc<dyn Store>, metrics: Arc<Metrics>, vitals: Arc<Vitals>) -> std::io::Result<Self> {
        let (requests, waiting) = mpsc::channel();
        let waiting_bytes = Arc::new(AtomicUsize::new(0));
        let written = waiting_bytes.clone();
        std::thread::Builder::new().name("segno-committer".to_owned()).spawn(move || {
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| write(&*store, &waiting, &metrics, &written))) {
                vitals.fail("the writer thread", &panic_text(&*panic));
            }
        })?;
        Ok(Self { requests, waiting_bytes })
    }

    /// Whether so much waits for the disk that nothing should be added.
    pub fn is_overloaded(&self) -> bool {
        self.waiting_bytes.load(Ordering::Relaxed) > WAITING_BYTES_MAX
    }

    /// Makes one commit durable. It is on its way when this returns; the future waits for it.
    pub fn commit(&self, commit: Commit) -> impl Future<Output = Result<(), CommitError>> + use<> {
        let (answer, result) = oneshot::channel();
        self.waiting_bytes.fetch_add(commit.bytes(), Ordering::Relaxed);
        // If the writer is gone, so is the answer.
        let _ = self.requests.send((commit, answer));
        let gone = |_| CommitError::Unknown("the server is shutting down".to_owned());
        async move { result.await.map_err(gone)? }
    }
}

fn write(
    store: &dyn Store,
    waiting: &mpsc::Receiver<(Commit, Answer)>,
    metrics: &Metrics,
    waiting_bytes: &AtomicUsize,
) {
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
            let bytes = commit.bytes();
            waiting_bytes.fetch_sub(bytes, Ordering::Relaxed);
            add(&metrics.committed_bytes, if result.is_ok() { bytes as u64 } else { 0 });
            // A caller that is gone does not change what was stored.
            let _ = answer.send(result);
        }
    }
}
