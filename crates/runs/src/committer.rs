//! The commit pipeline: one writer thread collects waiting commits and makes them durable with one sync.
//!
//! A group has the commits that queued up while the last one was being written, at most [`GROUP_MAX`]. A single commit
//! is written at once. While many callers commit, a sync begins [`PACE`] after the one before at the earliest: the
//! commits share pages of the disk that would otherwise be written several times (decision 013). Once
//! [`Committer::commit`] returned `Ok`, the commit is on stable storage.
//!
//! When more commits wait than fit into a group, namespaces are served round-robin ([`crate::round_robin`]). While
//! several namespaces commit, each has a share of the groups ([`crate::commit_shares`]).
//!
//! Commits to a store on another machine, or in a simulation without threads, are written by a task instead of the
//! thread, in larger groups and without a pace. Their queue has a lower limit, because it grows while the database is down.
//!
//! A commit that fails because of the disk or the database degrades the node's health ([`segno_environment::health`])
//! until a commit succeeds. While no commit waits, a small test write is tried, so that a node without callers recovers
//! as well.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
        mpsc,
    },
    time::Duration,
};

use bytes::Bytes;
use segno_environment::{
    environment::Threads,
    health::{self, Health},
    metrics::{Metrics, add, count},
    vitals::{Vitals, panic_text},
};
use segno_store::{Commit, CommitError, DocumentWrite, NamespaceKey, Store, Wait, sabotage};
use tokio::{
    sync::{mpsc as tasks, oneshot},
    time::Instant,
};

use crate::{
    commit_shares::CommitShares,
    round_robin::{RoundRobin, Share},
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

/// A commit that waits for the writer.
struct Request {
    share: Share,
    commit: Commit,
    answer: Answer,
}

/// Handle to the commit thread.
pub struct Committer {
    requests: Requests,
    waiting: Arc<PendingCommits>,
}

/// Commits that wait for the writer, as its callers count them.
#[derive(Default)]
struct PendingCommits {
    /// Commits that were handed over and are not written yet, and their bytes.
    commits: AtomicUsize,
    bytes: AtomicUsize,
    /// Whether several namespaces commit.
    is_shared: AtomicBool,
}

enum Requests {
    /// To the writer thread.
    Thread(mpsc::Sender<Request>),
    /// To the writing task.
    Task(tasks::UnboundedSender<Request>),
}

impl Committer {
    /// Starts the writer thread. It ends when every `Committer` is gone and all that waited is written; if it panics,
    /// the node has failed.
    pub fn start(
        store: &Arc<dyn Store>,
        threads: Option<&Arc<dyn Threads>>,
        metrics: Arc<Metrics>,
        vitals: Arc<Vitals>,
        health: Arc<Health>,
    ) -> std::io::Result<Self> {
        let Some(threads) = threads.filter(|_| store.is_embedded()) else {
            return Ok(Self::start_task(store.clone(), metrics, vitals, health));
        };
        let (store, sleeper) = (store.clone(), threads.clone());
        let (requests, received) = mpsc::channel();
        let requests = Requests::Thread(requests);
        let waiting = Arc::new(PendingCommits::default());
        let known = waiting.clone();
        let writing = move || {
            let work = AssertUnwindSafe(|| write(&*store, &*sleeper, &received, &metrics, &health, &known));
            if let Err(panic) = catch_unwind(work) {
                vitals.fail("the writer thread", &panic_text(&*panic));
            }
        };
        threads.spawn("segno-committer", Box::new(writing))?;
        Ok(Self { requests, waiting })
    }

    fn start_task(store: Arc<dyn Store>, metrics: Arc<Metrics>, vitals: Arc<Vitals>, health: Arc<Health>) -> Self {
        let (requests, received) = tasks::unbounded_channel();
        let waiting = Arc::new(PendingCommits::default());
        let task = tokio::spawn(write_in_task(store, received, metrics, health, waiting.clone()));
        tokio::spawn(async move {
            if let Err(error) = task.await
                && error.is_panic()
            {
                vitals.fail("the writing task", &panic_text(&*error.into_panic()));
            }
        });
        Self { requests: Requests::Task(requests), waiting }
    }

    /// Whether so much waits to be written that nothing should be added.
    pub(crate) fn is_overloaded(&self) -> bool {
        let bytes = self.waiting.bytes.load(Ordering::Relaxed);
        match &self.requests {
            Requests::Thread(_) => bytes > WAITING_BYTES_MAX,
            Requests::Task(_) => {
                bytes > REMOTE_WAITING_BYTES_MAX || self.waiting.commits.load(Ordering::Relaxed) >= REMOTE_WAITING_MAX
            }
        }
    }

    /// Whether several namespaces have committed lately, so that each has only a share of what the node can do.
    pub fn is_shared(&self) -> bool {
        self.waiting.is_shared.load(Ordering::Relaxed)
    }

    /// Makes one commit durable, after everything that was committed before. It is on its way when this returns; the future
    /// waits for it.
    pub fn commit(&self, commit: Commit) -> impl Future<Output = Result<(), CommitError>> + use<> {
        self.send(Share::Barrier, commit)
    }

    /// The same for what belongs to a namespace: it comes after what was committed for the namespace before.
    pub fn commit_of(
        &self,
        namespace: NamespaceKey,
        commit: Commit,
    ) -> impl Future<Output = Result<(), CommitError>> + use<> {
        self.send(Share::Namespace(namespace), commit)
    }

    /// Finds out whether the store works; the node's health says so.
    pub fn probe(&self) {
        probe().into_iter().for_each(|commit| drop(self.commit(commit)));
    }

    fn send(&self, share: Share, commit: Commit) -> impl Future<Output = Result<(), CommitError>> + use<> {
        let (answer, result) = oneshot::channel();
        self.waiting.bytes.fetch_add(commit.bytes(), Ordering::Relaxed);
        self.waiting.commits.fetch_add(1, Ordering::Relaxed);
        let request = Request { share, commit, answer };
        // If the writer is gone, so is the answer.
        match &self.requests {
            Requests::Thread(requests) => drop(requests.send(request)),
            Requests::Task(requests) => drop(requests.send(request)),
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

/// Waits for a commit; probes a store that failed meanwhile. `None` when every [`Committer`] is gone.
fn next_request(store: &dyn Store, received: &mpsc::Receiver<Request>, health: &Health) -> Option<Request> {
    while health.is_degraded_by(health::STORAGE) {
        match received.recv_timeout(PROBE_INTERVAL) {
            Ok(request) => return Some(request),
            Err(mpsc::RecvTimeoutError::Disconnected) => return None,
            Err(mpsc::RecvTimeoutError::Timeout) => {
                store.commit(probe().into()).wait().iter().for_each(|result| note_health(health, result));
            }
        }
    }
    received.recv().ok()
}

fn write(
    store: &dyn Store,
    threads: &dyn Threads,
    received: &mpsc::Receiver<Request>,
    metrics: &Metrics,
    health: &Health,
    waiting: &PendingCommits,
) {
    let mut next = Instant::now();
    let mut groups = Groups::new(GROUP_MAX);
    loop {
        if groups.queue.is_empty() {
            let Some(first) = next_request(store, received, health) else { return };
            groups.push(first);
        }
        threads.sleep(next.saturating_duration_since(Instant::now()));
        let begun = Instant::now();
        while let Ok(request) = received.try_recv() {
            groups.push(request);
        }
        let (commits, mut answers) = split(groups.next(begun));
        if commits.is_empty() {
            // All waiting commits rest. Another one may come meanwhile.
            match received.recv_timeout(groups.rest(begun)) {
                Ok(request) => groups.push(request),
                Err(mpsc::RecvTimeoutError::Timeout) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) => groups.is_last = true,
            }
            continue;
        }
        waiting.is_shared.store(groups.shares.is_shared(begun), Ordering::Relaxed);
        if sabotage::is_on("ack-before-sync") {
            acknowledge(&mut answers);
            threads.sleep(Duration::from_millis(20));
        }
        next = if commits.len() < PACED_FROM { begun } else { begun + PACE };
        let writing = Instant::now();
        metrics.commit_group.observe(commits.len() as u64);
        let results = store.commit(commits).wait();
        metrics.commit_time.observe(writing.elapsed());
        groups.shares.written(writing.elapsed(), Instant::now());
        answer(answers, results, metrics, health, waiting);
    }
}

/// The commits of a group, and whom to answer: how many bytes the commit has, and where its caller waits.
fn split(group: Vec<Request>) -> (Vec<Commit>, Vec<(usize, Answer)>) {
    let parts = |Request { commit, answer, .. }: Request| {
        let bytes = commit.bytes();
        (commit, (bytes, answer))
    };
    group.into_iter().map(parts).unzip()
}

/// A group was written: notes how it went and answers its callers.
fn answer(
    answers: Vec<(usize, Answer)>,
    results: Vec<Result<(), CommitError>>,
    metrics: &Metrics,
    health: &Health,
    waiting: &PendingCommits,
) {
    count(&metrics.syncs);
    waiting.commits.fetch_sub(answers.len(), Ordering::Relaxed);
    for ((bytes, answer), result) in answers.into_iter().zip(results) {
        note_health(health, &result);
        count(if result.is_ok() { &metrics.commits } else { &metrics.commit_failures });
        waiting.bytes.fetch_sub(bytes, Ordering::Relaxed);
        add(&metrics.committed_bytes, if result.is_ok() { bytes as u64 } else { 0 });
        let is_unknown = matches!(result, Err(CommitError::Unknown(_)));
        let result = if is_unknown && sabotage::is_on("unknown-is-done") { Ok(()) } else { result };
        // A caller that is gone does not change what was stored.
        let _ = answer.send(result);
    }
}

/// The fault that harnesses must catch: callers receive "done" before it is. Their answers are discarded afterwards.
fn acknowledge(answers: &mut [(usize, Answer)]) {
    for (_, answer) in answers {
        let _ = std::mem::replace(answer, oneshot::channel().0).send(Ok(()));
    }
}

/// The commits that wait for the writer, and the choice of the next group.
struct Groups {
    queue: RoundRobin<Request>,
    shares: CommitShares,
    group_max: usize,
    /// No further commits come: nothing rests.
    is_last: bool,
}

impl Groups {
    fn new(group_max: usize) -> Self {
        Self { queue: RoundRobin::default(), shares: CommitShares::new(group_max), group_max, is_last: false }
    }

    fn push(&mut self, request: Request) {
        self.shares.arrive(request.share, Instant::now());
        self.queue.push(request.share, request);
    }

    /// The next group; empty if everything that waits rests.
    fn next(&mut self, now: Instant) -> Vec<Request> {
        let Self { queue, shares, group_max, is_last } = self;
        let mut group = Vec::new();
        while group.len() < *group_max {
            let rests_end = *is_last || queue.has_barrier();
            let Some(request) = queue.pop(|share| rests_end || shares.has_place(share, now)) else { break };
            shares.take_place(request.share, request.commit.bytes());
            group.push(request);
        }
        group
    }

    /// How long to wait for the end of a rest.
    fn rest(&self, now: Instant) -> Duration {
        let end = self.shares.next_end(self.queue.waiting());
        end.map_or(PACE, |end| end.saturating_duration_since(now))
    }
}

/// Writes what waits, a group at a time, until every [`Committer`] is gone.
async fn write_in_task(
    store: Arc<dyn Store>,
    mut received: tasks::UnboundedReceiver<Request>,
    metrics: Arc<Metrics>,
    health: Arc<Health>,
    waiting: Arc<PendingCommits>,
) {
    let mut groups = Groups::new(REMOTE_GROUP_MAX);
    loop {
        while groups.queue.is_empty() {
            let more = received.recv();
            let first = match health.is_degraded_by(health::STORAGE) {
                true => tokio::time::timeout(PROBE_INTERVAL, more).await,
                false => Ok(more.await),
            };
            match first {
                Ok(None) => return,
                Ok(Some(first)) => groups.push(first),
                Err(_) => {
                    let results = store.commit(probe().into()).await;
                    results.iter().for_each(|result| note_health(&health, result));
                }
            }
        }
        while let Ok(request) = received.try_recv() {
            groups.push(request);
        }
        let now = Instant::now();
        let (commits, mut answers) = split(groups.next(now));
        if commits.is_empty() {
            match tokio::time::timeout(groups.rest(now), received.recv()).await {
                Ok(Some(request)) => groups.push(request),
                Ok(None) => groups.is_last = true,
                Err(_) => {}
            }
            continue;
        }
        waiting.is_shared.store(groups.shares.is_shared(now), Ordering::Relaxed);
        if sabotage::is_on("ack-before-commit") {
            acknowledge(&mut answers);
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        let writing = Instant::now();
        metrics.commit_group.observe(commits.len() as u64);
        let results = store.commit(commits).await;
        metrics.commit_time.observe(writing.elapsed());
        groups.shares.written(writing.elapsed(), Instant::now());
        if results.contains(&Err(CommitError::Conflict)) {
            // Cannot be while each run has one owner. It is refused and read anew, but an operator should look.
            tracing::error!("what is stored is not what this node knows: another process wrote a run that it owns");
        }
        answer(answers, results, &metrics, &health, &waiting);
    }
}

#[cfg(test)]
mod tests {
    use segno_environment::Environment;
    use segno_store::{MemoryStore, OutboxKey, OutboxRow, RunKey};

    use super::*;

    const A: Share = Share::Namespace(NamespaceKey(1));
    const B: Share = Share::Namespace(NamespaceKey(2));

    fn request(share: Share, sequence: u32) -> Request {
        let key = OutboxKey { sender: RunKey(1), sequence };
        let commit = Commit { outbox_remove: vec![key], ..Default::default() };
        Request { share, commit, answer: oneshot::channel().0 }
    }

    fn sequences(group: &[Request]) -> Vec<u32> {
        group.iter().map(|request| request.commit.outbox_remove[0].sequence).collect()
    }

    #[test]
    fn what_fits_is_written_in_the_order_of_its_namespace() {
        let (mut groups, now) = (Groups::new(GROUP_MAX), Instant::now());
        for sequence in 0..100 {
            groups.push(request(A, sequence));
        }
        assert_eq!(sequences(&groups.next(now)), (0..64).collect::<Vec<_>>());
        groups.shares.written(PACE, now);
        assert_eq!(sequences(&groups.next(now)), (64..100).collect::<Vec<_>>());
        assert!(groups.queue.is_empty());
    }

    #[test]
    fn a_namespace_has_a_share_of_a_group_while_others_commit() {
        let (mut groups, now) = (Groups::new(GROUP_MAX), Instant::now());
        for sequence in 0..200 {
            groups.push(request(A, sequence));
        }
        groups.push(request(B, 1000));
        let first = groups.next(now);
        assert_eq!((first.len(), sequences(&first).contains(&1000)), (17, true));
        groups.shares.written(PACE, now);
        assert_eq!(groups.next(now).len(), 16);
        groups.shares.written(20 * PACE, now);
        assert!(groups.next(now).is_empty(), "it had the last group for itself");
        let rest = groups.rest(now);
        assert_eq!(rest, 20 * PACE);
        // A barrier waits for everything before it, so that nothing rests.
        groups.push(request(Share::Barrier, 2000));
        let mut last = Vec::new();
        for _ in 0..10 {
            last.extend(sequences(&groups.next(now)));
            groups.shares.written(PACE, now);
        }
        assert_eq!(last.last(), Some(&2000));
        assert!(groups.queue.is_empty());
    }

    /// A caller that leaves does not take its commit with it: it was in the queue when the call returned.
    #[tokio::test]
    async fn a_commit_is_written_when_its_caller_leaves() {
        let store = Arc::new(MemoryStore::new());
        let embedded: Arc<dyn Store> = store.clone();
        let threads = Environment::of_machine().threads;
        let committer = Committer::start(&embedded, threads.as_ref(), Arc::default(), Arc::default(), Arc::default());
        let committer = committer.expect("a thread");
        let row = |sender, sequence| OutboxRow {
            key: OutboxKey { sender: RunKey(sender), sequence },
            message: vec![0; 100_000].into(),
        };
        let add = |row| Commit { outbox_add: vec![row], ..Default::default() };
        // Two namespaces with large commits, so that one of them rests.
        for sequence in 0..5 {
            for namespace in 1..=2 {
                drop(committer.commit_of(NamespaceKey(namespace), add(row(u64::from(namespace), sequence))));
            }
        }
        committer.commit(Commit::default()).await.expect("it is stored");
        assert_eq!(store.outbox(None, 100).await.map(|rows| rows.len()), Ok(10));
    }
}
