//! The commit pipeline: one writer thread gathers whatever waits and makes it durable with one sync.
//!
//! A group is what queued up while the last one was being written, at most [`GROUP_MAX`]. Who commits alone never waits
//! for others. While many commit at the same time a sync begins [`PACE`] after the one before at the earliest: they share
//! pages of the disk that would otherwise be written several times (decision 013). Once [`Committer::commit`] returned
//! `Ok`, the commit is on stable storage.
//!
//! When more waits than fits into a group, namespaces take turns ([`crate::turns`]).
//!
//! A store on another machine is written by a task instead of the thread, in larger groups and without a pace. What waits for
//! it is bounded more tightly: while the database is away nothing is written.
//!
//! A commit that fails because of the disk or the database degrades the node's health ([`crate::health`]) until a commit
//! succeeds. While nothing is to be written a probe is, so that a node without callers recovers as well.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use segno_store::{Commit, CommitError, DocumentWrite, Lane, NamespaceKey, OutboxKey, Storage, Store};
use tokio::sync::{mpsc as tasks, oneshot};

use crate::{
    health::{self, Health},
    metrics::{Metrics, add, count},
    sabotage,
    supervise::{Vitals, panic_text},
    turns::{Share, Turns},
};

/// Most commits in one durable transaction.
const GROUP_MAX: usize = 64;
/// Least time between the beginnings of two syncs, after a group of [`PACED_FROM`] or more.
const PACE: Duration = Duration::from_millis(1);
const PACED_FROM: usize = 3;
/// Bytes that may wait for the disk. Beyond, calls from outside are refused before they change anything.
const WAITING_BYTES_MAX: usize = 256 * 1024 * 1024;

/// How often it is tried whether a store that failed works again.
const PROBE_INTERVAL: Duration = Duration::from_secs(2);
const PROBE_BYTES: usize = 256 * 1024;

/// Most commits in one group of a store on another machine.
const REMOTE_GROUP_MAX: usize = 256;
/// Commits and bytes that may wait for a store on another machine.
const REMOTE_WAITING_MAX: usize = 10_000;
const REMOTE_WAITING_BYTES_MAX: usize = 64 * 1024 * 1024;

type Answer = oneshot::Sender<Result<(), CommitError>>;

/// Something to write.
struct Request {
    turn: Share,
    commit: Commit,
    answer: Answer,
}

/// The way to whatever writes.
pub struct Committer {
    requests: Requests,
    /// Bytes of commits that were handed over and are not written yet.
    waiting_bytes: Arc<AtomicUsize>,
}

enum Requests {
    /// To the writer thread.
    Thread(mpsc::Sender<Request>),
    /// To the task of the lane, and how many commits wait for it.
    Lane(tasks::UnboundedSender<Request>, Arc<AtomicUsize>),
}

impl Committer {
    /// Starts the writer thread. It ends when every `Committer` is gone and all that waited is written; if it panics,
    /// the node has failed.
    pub fn start(
        storage: &Arc<dyn Storage>,
        metrics: Arc<Metrics>,
        vitals: Arc<Vitals>,
        health: Arc<Health>,
    ) -> std::io::Result<Self> {
        let Some(store) = storage.embedded() else {
            return Ok(Self::start_lane(storage.clone(), metrics, vitals, health));
        };
        let (requests, waiting) = mpsc::channel();
        let requests = Requests::Thread(requests);
        let waiting_bytes = Arc::new(AtomicUsize::new(0));
        let written = waiting_bytes.clone();
        std::thread::Builder::new().name("segno-committer".to_owned()).spawn(move || {
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| write(&*store, &waiting, &metrics, &health, &written)))
            {
                vitals.fail("the writer thread", &panic_text(&*panic));
            }
        })?;
        Ok(Self { requests, waiting_bytes })
    }

    fn start_lane(storage: Arc<dyn Storage>, metrics: Arc<Metrics>, vitals: Arc<Vitals>, health: Arc<Health>) -> Self {
        let (requests, waiting) = tasks::unbounded_channel();
        let (waiting_bytes, waiting_commits) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let lane = write_lane(storage, waiting, metrics, health, waiting_bytes.clone(), waiting_commits.clone());
        let lane = tokio::spawn(lane);
        tokio::spawn(async move {
            if let Err(error) = lane.await
                && error.is_panic()
            {
                vitals.fail("the writing task", &panic_text(&*error.into_panic()));
            }
        });
        Self { requests: Requests::Lane(requests, waiting_commits), waiting_bytes }
    }

    /// Whether so much waits to be written that nothing should be added.
    pub fn is_overloaded(&self) -> bool {
        let bytes = self.waiting_bytes.load(Ordering::Relaxed);
        match &self.requests {
            Requests::Thread(_) => bytes > WAITING_BYTES_MAX,
            Requests::Lane(_, commits) => {
                bytes > REMOTE_WAITING_BYTES_MAX || commits.load(Ordering::Relaxed) >= REMOTE_WAITING_MAX
            }
        }
    }

    /// Makes one commit durable, after everything that was committed before. It is on its way when this returns; the future
    /// waits for it.
    pub fn commit(&self, commit: Commit) -> impl Future<Output = Result<(), CommitError>> + use<> {
        self.send(Share::Barrier, commit)
    }

    /// The same for runs of a namespace: it comes after what was committed for the namespace before.
    pub fn commit_of(
        &self,
        namespace: NamespaceKey,
        commit: Commit,
    ) -> impl Future<Output = Result<(), CommitError>> + use<> {
        self.send(Share::Namespace(namespace), commit)
    }

    /// Removes messages that were delivered.
    pub fn remove_messages(&self, keys: Vec<OutboxKey>) -> impl Future<Output = Result<(), CommitError>> + use<> {
        self.send(Share::Messages, Commit { outbox_remove: keys, ..Default::default() })
    }

    /// Finds out whether the store works; the node's health says so.
    pub fn probe(&self) {
        probe().into_iter().for_each(|commit| drop(self.commit(commit)));
    }

    fn send(&self, turn: Share, commit: Commit) -> impl Future<Output = Result<(), CommitError>> + use<> {
        let (answer, result) = oneshot::channel();
        self.waiting_bytes.fetch_add(commit.bytes(), Ordering::Relaxed);
        // If the writer is gone, so is the answer.
        match &self.requests {
            Requests::Thread(requests) => drop(requests.send(Request { turn, commit, answer })),
            Requests::Lane(requests, commits) => {
                commits.fetch_add(1, Ordering::Relaxed);
                drop(requests.send(Request { turn, commit, answer }));
            }
        }
        let gone = |_| CommitError::Unknown("the server is shutting down".to_owned());
        async move { result.await.map_err(gone)? }
    }
}

/// A write that changes nothing: a document that comes and goes, as large as commits usually are at most.
fn probe() -> [Commit; 2] {
    [Some(Bytes::from(vec![0; PROBE_BYTES])), None].map(|content| {
        let write = DocumentWrite { namespace: NamespaceKey(0), name: "probe".to_owned(), content };
        Commit { documents: vec![write], documents_of_one_node: true, ..Default::default() }
    })
}

/// Notes in the node's health how a commit went. What is refused because of its content says nothing of the store.
fn note_health(health: &Health, result: &Result<(), CommitError>) {
    match result {
        Ok(()) => health.recover(health::STORAGE),
        Err(error @ (CommitError::Full | CommitError::Unknown(_))) => {
            health.degrade(health::STORAGE, &error.to_string());
        }
        Err(_) => {}
    }
}

/// Waits for something to write; probes a store that failed meanwhile. `None` when every [`Committer`] is gone.
fn next_request(store: &dyn Store, waiting: &mpsc::Receiver<Request>, health: &Health) -> Option<Request> {
    while health.is_degraded_by(health::STORAGE) {
        match waiting.recv_timeout(PROBE_INTERVAL) {
            Ok(request) => return Some(request),
            Err(mpsc::RecvTimeoutError::Disconnected) => return None,
            Err(mpsc::RecvTimeoutError::Timeout) => {
                store.commit(&probe()).iter().for_each(|result| note_health(health, result));
            }
        }
    }
    waiting.recv().ok()
}

fn write(
    store: &dyn Store,
    waiting: &mpsc::Receiver<Request>,
    metrics: &Metrics,
    health: &Health,
    waiting_bytes: &AtomicUsize,
) {
    let mut commits = Vec::with_capacity(GROUP_MAX);
    let mut answers = Vec::with_capacity(GROUP_MAX);
    let mut next = Instant::now();
    let mut group = Vec::with_capacity(GROUP_MAX + 1);
    let mut turns = Turns::default();
    loop {
        if turns.is_empty() {
            let Some(first) = next_request(store, waiting, health) else { return };
            group.push(first);
        }
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
        let begun = Instant::now();
        gather(&mut group, &mut turns, GROUP_MAX, || waiting.try_recv().ok());
        for Request { commit, answer, .. } in group.drain(..) {
            commits.push(commit);
            answers.push(answer);
        }
        if sabotage::is_on("ack-before-sync") {
            // The fault that harnesses must catch: everyone is told "done" before it is.
            for answer in answers.drain(..) {
                let _ = answer.send(Ok(()));
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        next = if commits.len() < PACED_FROM { begun } else { begun + PACE };
        let writing = Instant::now();
        metrics.commit_group.observe(commits.len() as u64);
        let results = store.commit(&commits);
        metrics.commit_time.observe(writing.elapsed());
        count(&metrics.syncs);
        for ((commit, answer), result) in commits.drain(..).zip(answers.drain(..)).zip(results) {
            note_health(health, &result);
            count(if result.is_ok() { &metrics.commits } else { &metrics.commit_failures });
            let bytes = commit.bytes();
            waiting_bytes.fetch_sub(bytes, Ordering::Relaxed);
            add(&metrics.committed_bytes, if result.is_ok() { bytes as u64 } else { 0 });
            // A caller that is gone does not change what was stored.
            let _ = answer.send(result);
        }
    }
}

/// Completes a group from what waits. If there is more than one group's worth, namespaces take turns.
fn gather(
    group: &mut Vec<Request>,
    turns: &mut Turns<Request>,
    group_max: usize,
    mut next: impl FnMut() -> Option<Request>,
) {
    if turns.is_empty() {
        while group.len() <= group_max {
            let Some(request) = next() else { return };
            group.push(request);
        }
    }
    for request in group.drain(..) {
        turns.push(request.turn, request);
    }
    while let Some(request) = next() {
        turns.push(request.turn, request);
    }
    group.extend(std::iter::from_fn(|| turns.pop()).take(group_max));
}

/// Writes what waits, a group at a time, until every [`Committer`] is gone.
async fn write_lane(
    storage: Arc<dyn Storage>,
    mut waiting: tasks::UnboundedReceiver<Request>,
    metrics: Arc<Metrics>,
    health: Arc<Health>,
    waiting_bytes: Arc<AtomicUsize>,
    waiting_commits: Arc<AtomicUsize>,
) {
    let mut taken = Vec::with_capacity(REMOTE_GROUP_MAX + 1);
    let mut turns = Turns::default();
    loop {
        while turns.is_empty() && taken.is_empty() {
            let more = waiting.recv_many(&mut taken, REMOTE_GROUP_MAX);
            let received = match health.is_degraded_by(health::STORAGE) {
                true => tokio::time::timeout(PROBE_INTERVAL, more).await,
                false => Ok(more.await),
            };
            match received {
                Ok(0) => return,
                Ok(_) => {}
                Err(_) => {
                    let results = storage.commit(Lane(0), probe().into()).await;
                    results.iter().for_each(|result| note_health(&health, result));
                }
            }
        }
        gather(&mut taken, &mut turns, REMOTE_GROUP_MAX, || waiting.try_recv().ok());
        let mut commits = Vec::with_capacity(taken.len());
        let mut answers = Vec::with_capacity(taken.len());
        for Request { commit, answer, .. } in taken.drain(..) {
            answers.push((commit.bytes(), answer));
            commits.push(commit);
        }
        if sabotage::is_on("ack-before-commit") {
            // Nobody hears of the answer below.
            for (_, answer) in &mut answers {
                let _ = std::mem::replace(answer, oneshot::channel().0).send(Ok(()));
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        let writing = Instant::now();
        metrics.commit_group.observe(commits.len() as u64);
        let results = storage.commit(Lane(0), commits).await;
        metrics.commit_time.observe(writing.elapsed());
        count(&metrics.syncs);
        for ((bytes, answer), result) in answers.into_iter().zip(results) {
            note_health(&health, &result);
            if matches!(result, Err(CommitError::Conflict)) {
                // Cannot be while each run has one owner. It is refused and read anew, but somebody should look.
                tracing::error!("what is stored is not what this node knows: somebody else wrote a run that it owns");
            }
            count(if result.is_ok() { &metrics.commits } else { &metrics.commit_failures });
            waiting_bytes.fetch_sub(bytes, Ordering::Relaxed);
            waiting_commits.fetch_sub(1, Ordering::Relaxed);
            add(&metrics.committed_bytes, if result.is_ok() { bytes as u64 } else { 0 });
            let _ = answer.send(result);
        }
    }
}
