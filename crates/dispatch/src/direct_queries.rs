//! Queries that go to workers by themselves, and wait for an answer.

use std::sync::Mutex;

use segno_environment::{
    hash::{HashMap, HashSet},
    lock::lock,
};
use segno_matching::QueryTask;
use segno_proto::query::WorkflowQuery;
use segno_runs::queries::QueryAnswer;
use segno_store::RunKey;
use tokio::sync::oneshot;

/// Direct queries that wait for an answer.
#[derive(Default)]
pub struct DirectQueries {
    waiting: Mutex<HashMap<u64, (RunKey, oneshot::Sender<QueryAnswer>)>>,
    /// Those that are trials.
    trials: Mutex<HashSet<u64>>,
    /// Those that other nodes may ask for.
    offered: Mutex<HashMap<u64, QueryTask>>,
    /// Notified when queues have other homes.
    pub offer_again: tokio::sync::Notify,
}

impl DirectQueries {
    /// A query and the place its answer arrives at.
    pub fn add(&self, id: u64, run: RunKey, query: WorkflowQuery) -> (QueryTask, oneshot::Receiver<QueryAnswer>) {
        let (answer, receiver) = oneshot::channel();
        lock(&self.waiting).insert(id, (run, answer));
        (QueryTask::new(id, run, query), receiver)
    }

    /// A worker answers. False if no caller waits for it.
    pub fn answer(&self, id: u64, answer: QueryAnswer) -> bool {
        lock(&self.waiting).remove(&id).is_some_and(|(_, waiting)| waiting.send(answer).is_ok())
    }

    /// A worker ended the workflow task that was to answer a trial. False if no trial waits for it.
    pub fn end_trial(&self, id: u64, answer: QueryAnswer) -> bool {
        let is_trial = lock(&self.trials).contains(&id);
        is_trial && self.answer(id, answer)
    }

    /// Marks a query as a trial.
    pub fn mark_trial(&self, id: u64) {
        lock(&self.trials).insert(id);
    }

    /// No worker answers for a run from now on. Scans all queries that wait: for rare calls.
    pub fn unblock(&self, run: RunKey) {
        for (_, (_, waiting)) in lock(&self.waiting).extract_if(|_, (of, _)| *of == run) {
            let _ = waiting.send(QueryAnswer::Unblocked);
        }
    }

    /// Whether a caller still waits for the answer.
    pub fn is_awaited(&self, id: u64) -> bool {
        lock(&self.waiting).get(&id).is_some_and(|(_, waiting)| !waiting.is_closed())
    }

    /// Lets other nodes ask for a query.
    pub fn offer_elsewhere(&self, task: &QueryTask) {
        // One whose caller left would stay.
        let waiting = lock(&self.waiting);
        if waiting.contains_key(&task.id) {
            lock(&self.offered).insert(task.id, task.clone());
        }
    }

    /// A query that other nodes may ask for.
    pub fn offered(&self, id: u64) -> Option<QueryTask> {
        lock(&self.offered).get(&id).cloned()
    }

    /// The caller left.
    pub fn forget(&self, id: u64) {
        lock(&self.waiting).remove(&id);
        lock(&self.offered).remove(&id);
        lock(&self.trials).remove(&id);
    }
}
