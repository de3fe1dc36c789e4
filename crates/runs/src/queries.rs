//! Queries of workflows. They are never stored.
//!
//! A query is attached to the pending workflow task if there is one, so that it sees everything that happened before
//! it; otherwise it goes to a worker by itself.

use std::collections::BTreeMap;

use segno_proto::{
    common::Payloads,
    enums::{QueryResultType, WorkflowExecutionStatus, WorkflowTaskFailedCause},
    failure::Failure,
    query::{WorkflowQuery, WorkflowQueryResult},
};
use tokio::sync::oneshot;

/// Queries that may wait for one workflow task. Temporal's limit is 1, which makes two simultaneous queries fail.
const BUFFERED_MAX: usize = 32;

/// The answer of a worker to a query.
// One per query, moved once: a box would cost more than it saves.
#[allow(clippy::large_enum_variant)]
#[derive(Clone, Debug)]
pub enum QueryAnswer {
    /// The result.
    Answered(Option<Payloads>),
    /// An error.
    Failed(QueryFailure),
    /// A result too large to pass on.
    TooLarge,
    /// No workflow task will carry it: query a worker directly.
    Unblocked,
}

/// Why a query has no result.
#[derive(Clone, Debug)]
pub struct QueryFailure {
    /// The message of the worker.
    pub message: String,
    /// In full.
    pub failure: Option<Failure>,
    /// Set if the workflow task failed that was to answer it.
    pub cause: WorkflowTaskFailedCause,
}

impl From<WorkflowQueryResult> for QueryAnswer {
    fn from(result: WorkflowQueryResult) -> Self {
        if result.result_type() == QueryResultType::Answered {
            Self::Answered(result.answer)
        } else {
            let cause = WorkflowTaskFailedCause::Unspecified;
            Self::Failed(QueryFailure { message: result.error_message, failure: result.failure, cause })
        }
    }
}

/// An answer, or why there is none.
#[derive(Clone, Debug)]
pub struct QueryReply {
    /// The run that was queried.
    pub run_id: String,
    /// Its answer.
    pub result: Option<Payloads>,
    /// Set if the caller did not want to query a run in this state.
    pub rejected: Option<WorkflowExecutionStatus>,
}

struct BufferedQuery {
    query: WorkflowQuery,
    answer: oneshot::Sender<QueryAnswer>,
}

/// Queries of one workflow that wait for a workflow task.
#[derive(Default)]
pub struct QueryRegistry {
    buffered: BTreeMap<String, BufferedQuery>,
}

impl QueryRegistry {
    /// Whether no caller waits.
    pub fn is_empty(&self) -> bool {
        self.buffered.values().all(|buffered| buffered.answer.is_closed())
    }

    /// Lets a query wait, unless too many do.
    pub fn buffer(&mut self, id: String, query: WorkflowQuery) -> Option<oneshot::Receiver<QueryAnswer>> {
        self.buffered.retain(|_, buffered| !buffered.answer.is_closed());
        if self.buffered.len() >= BUFFERED_MAX {
            return None;
        }
        let (answer, receiver) = oneshot::channel();
        self.buffered.insert(id, BufferedQuery { query, answer });
        Some(receiver)
    }

    /// The queries to send with a workflow task.
    pub fn outgoing(&mut self) -> BTreeMap<String, WorkflowQuery> {
        self.buffered.retain(|_, buffered| !buffered.answer.is_closed());
        self.buffered.iter().map(|(id, buffered)| (id.clone(), buffered.query.clone())).collect()
    }

    /// A worker answered some.
    pub fn resolve(&mut self, answers: BTreeMap<String, QueryAnswer>) {
        for (id, answer) in answers {
            if let Some(buffered) = self.buffered.remove(&id) {
                let _ = buffered.answer.send(answer);
            }
        }
    }

    /// No workflow task is left to carry the rest.
    pub fn unblock(&mut self) {
        for (_, buffered) in std::mem::take(&mut self.buffered) {
            let _ = buffered.answer.send(QueryAnswer::Unblocked);
        }
    }
}
