//! Queries of clients: with the pending workflow task of the run, or to a worker by themselves.

use std::{sync::Arc, time::Duration};

use segno_engine::{Run, pause, versioning::pinned_version};
use segno_matching::{QUERY_PRIORITY, QueryTask, QueueKey, QueueKind, QueuePlace, TRIAL_PRIORITY, TaskOffer};
use segno_proto::{
    enums::{QueryRejectCondition, WorkflowExecutionStatus},
    query::WorkflowQuery,
};
use segno_runs::{
    error::CallError,
    queries::{QueryAnswer, QueryReply},
    slots::{Current, RunSelector, SlotState, WorkflowKey},
};
use segno_store::{NamespaceKey, sabotage};
use tokio::{sync::oneshot, time::Instant};

use super::{Dispatch, direct_queries::DirectQueries, versions::route_of};

/// Attempts of a workflow task after which queries fail at once instead of waiting for it.
const FAILING_ATTEMPTS: i32 = 3;

/// A query of a pinned run ends so long before its caller gives up.
const REPLY_RESERVE: Duration = Duration::from_millis(500);
const NO_POLLER: &str = "no poller seen for task queue recently, worker may be down";

/// How a query reaches a worker.
enum QueryRoute {
    /// Not at all: the run is paused.
    Paused,
    /// With the pending workflow task.
    Buffered(oneshot::Receiver<QueryAnswer>),
    /// By itself.
    Direct(Arc<Run>),
}

/// Forgets a direct query when its caller leaves.
pub(super) struct PendingQuery<'a>(pub(super) &'a DirectQueries, pub(super) u64);

impl Drop for PendingQuery<'_> {
    fn drop(&mut self) {
        self.0.forget(self.1);
    }
}

impl Dispatch {
    /// Queries a workflow. `deadline` is the caller's.
    pub async fn query(
        &self,
        key: &WorkflowKey,
        run_id: &str,
        query: WorkflowQuery,
        condition: QueryRejectCondition,
        deadline: Instant,
    ) -> Result<QueryReply, CallError> {
        let current = self.runs.snapshot(key, run_id).await?;
        let run = current.run.clone();
        let Some(pinned) = pinned_version(&run) else {
            return self.query_run(key, current, query, condition, deadline).await;
        };
        if refused(&run, condition).is_none() {
            self.refuse_drained(&run, pinned, deadline).await?;
        }
        // Early enough for the caller to hear why there is no answer.
        let left = deadline.saturating_duration_since(Instant::now());
        let until = deadline - REPLY_RESERVE.min(left / 2);
        match self.query_run(key, current, query, condition, until).await {
            Err(CallError::DeadlineExceeded) => {
                // Without an answer of the queue's home there is no better one than that the time is up.
                let polled = tokio::time::timeout_at(deadline, self.is_polled_by(&run, pinned)).await;
                Err(match polled {
                    Ok(Ok(false)) => CallError::NotReady(NO_POLLER.to_owned()),
                    _ => CallError::DeadlineExceeded,
                })
            }
            reply => reply,
        }
    }

    async fn query_run(
        &self,
        key: &WorkflowKey,
        current: Arc<Current>,
        query: WorkflowQuery,
        condition: QueryRejectCondition,
        deadline: Instant,
    ) -> Result<QueryReply, CallError> {
        let run = current.run.clone();
        let reply = |result| QueryReply { run_id: run.info.run_id.clone(), result, rejected: None };
        if let Some(status) = refused(&run, condition) {
            return Ok(QueryReply { rejected: Some(status), ..reply(None) });
        }
        if run.state().script.is_some() {
            let turns = self.runs.scripts.clone();
            let answer = turns.query(&self.runs, key, current, query, deadline).await?;
            return Ok(reply(Some(answer)));
        }
        let rejected = |status| Ok(QueryReply { rejected: Some(status), ..reply(None) });
        let mut newest = run.clone();
        let answer = loop {
            match self.route(key, &newest, query.clone(), deadline).await? {
                QueryRoute::Paused => return rejected(WorkflowExecutionStatus::Paused),
                QueryRoute::Direct(run) => break self.query_directly(&run, query, deadline).await?,
                QueryRoute::Buffered(answer) => match tokio::time::timeout_at(deadline, answer).await {
                    // The task is over, or a commit failed and the run was read again. Another task may be pending by now, with
                    // events that no worker has seen.
                    Ok(Ok(QueryAnswer::Unblocked) | Err(_)) => {
                        newest = self.runs.snapshot(key, &run.info.run_id).await?.run.clone();
                        if let Some(status) = refused(&newest, condition) {
                            return rejected(status);
                        }
                    }
                    Ok(Ok(answer)) => break answer,
                    Err(_) => return Err(CallError::DeadlineExceeded),
                },
            }
        };
        match answer {
            QueryAnswer::Answered(result) => Ok(reply(result)),
            QueryAnswer::Failed(failed) => Err(CallError::QueryFailed(failed.message, failed.failure.map(Box::new))),
            QueryAnswer::TooLarge => {
                Err(segno_engine::Rejection::InvalidArgument("Blob data size exceeds limit.".to_owned()).into())
            }
            QueryAnswer::Unblocked => {
                // If the run has moved, the call is made again where it is.
                self.runs.admit(key)?;
                let run = self.runs.snapshot(key, &run.info.run_id).await?.run.clone();
                if let Some(status) = refused(&run, condition) {
                    return rejected(status);
                }
                Err(CallError::Unavailable("the query was not answered, please retry".to_owned()))
            }
        }
    }

    /// Decides how a query reaches a worker, under the run's lock.
    async fn route(
        &self,
        key: &WorkflowKey,
        run: &Arc<Run>,
        query: WorkflowQuery,
        deadline: Instant,
    ) -> Result<QueryRoute, CallError> {
        let mut locked = self.runs.lock(key).await?;
        let current = locked.state.current.as_ref().filter(|c| c.run.info.run_key == run.info.run_key);
        let run = current.map_or_else(|| run.clone(), |current| current.run.clone());
        let completed_any = run.state().last_completed_started_id > 0;
        if run.is_paused() {
            return Ok(QueryRoute::Paused);
        }
        if !run.is_running() {
            if !completed_any {
                return Err(CallError::NotReady(
                    "Workflow execution closed before WorkflowTaskStarted event".to_owned(),
                ));
            }
            return Ok(QueryRoute::Direct(run));
        }
        if run.state().first_task_due > 0 && run.state().task.is_none() {
            let wait = segno_environment::clock::until(self.runs.clock.now(), run.state().first_task_due);
            if Instant::now() + wait > deadline {
                return Err(CallError::NotReady("Workflow task is not scheduled yet.".to_owned()));
            }
        }
        let attempt = run.state().task.as_ref().map_or(run.state().next_task_attempt, |task| task.attempt);
        if attempt >= FAILING_ATTEMPTS {
            return Err(CallError::NotReady(
                "Unable to query workflow due to Workflow Task in failed state.".to_owned(),
            ));
        }
        if completed_any && (run.state().task.is_none() || sabotage::is_on("stale-query")) {
            return Ok(QueryRoute::Direct(run));
        }
        let id = self.runs.ids.uuid();
        locked.state.queries.buffer(id, query).map(QueryRoute::Buffered).ok_or(CallError::QueryBufferFull)
    }

    /// Pauses a workflow. Queries that wait for an answer are rejected, except those that a worker has with its workflow task.
    pub async fn pause_workflow(
        self: &Arc<Self>,
        key: &WorkflowKey,
        run_id: &str,
        call: pause::Call,
    ) -> Result<(), CallError> {
        let apply = move |run: &Run, context| pause::pause(run, context, call);
        let after = |state: &mut SlotState, _: &()| {
            let at_worker = state.current.as_ref().is_some_and(|current| current.run.state().task_started());
            if !at_worker {
                state.queries.unblock();
            }
            state.current.as_ref().map(|current| current.key())
        };
        let (_, run) = self.runs.transact_and(key, &RunSelector::run(run_id), Vec::new(), apply, after).await?;
        if let Some(run) = run {
            self.direct_queries.unblock(run);
        }
        Ok(())
    }

    /// The queue of the queries of a run.
    pub fn query_queue(&self, run: &Run, sticky: bool) -> QueueKey {
        let (namespace, normal) = (NamespaceKey(run.info.namespace_key), &run.info.task_queue);
        match &run.state().sticky {
            Some(held) if sticky => QueueKey::sticky(namespace, &held.queue, normal),
            _ => QueueKey { namespace, kind: QueueKind::Workflow, name: normal.clone() },
        }
    }

    /// Puts a query on a queue by itself: first where the run is cached, then where any worker may take it.
    async fn query_directly(
        &self,
        run: &Run,
        query: WorkflowQuery,
        deadline: Instant,
    ) -> Result<QueryAnswer, CallError> {
        let id = self.runs.ids.bits();
        let (mut task, mut answer) = self.direct_queries.add(id, segno_store::RunKey(run.info.run_key), query);
        task.node = self.runs.node_number;
        let _pending = PendingQuery(&self.direct_queries, id);
        if let Some(sticky) = run.state().sticky.as_ref().filter(|_| self.stays_sticky(run)) {
            let queue = self.query_queue(run, true);
            let task = task.again(true);
            let offered = tokio::time::timeout_at(deadline, self.offer_query(run, queue, task.clone(), true)).await;
            if offered.map_err(|_| CallError::DeadlineExceeded)? {
                let patience = Duration::from_nanos(sticky.schedule_to_start.max(0) as u64);
                let until = deadline.min(Instant::now() + patience);
                if let Ok(Ok(answer)) = tokio::time::timeout_at(until, &mut answer).await {
                    return Ok(answer);
                }
                if !task.withdraw() && !task.is_withdrawn() {
                    return wait(&mut answer, deadline).await;
                }
            }
        }
        loop {
            let moved = self.direct_queries.offer_again.notified();
            let offer = self.offer_query(run, self.query_queue(run, false), task.clone(), false);
            tokio::time::timeout_at(deadline, offer).await.map_err(|_| CallError::DeadlineExceeded)?;
            tokio::select! {
                biased;
                answered = wait(&mut answer, deadline) => return answered,
                // The queue may have another home, which does not know of it.
                () = moved => task = task.again(false),
            }
        }
    }

    /// Offers a query. False if it is for one worker's own queue and that worker is not there.
    pub async fn offer_query(&self, run: &Run, queue: QueueKey, task: QueryTask, sticky: bool) -> bool {
        let (priority, route) = match &task.trial {
            Some(trial) => (TRIAL_PRIORITY, trial.route.clone()),
            None => (QUERY_PRIORITY, route_of(run)),
        };
        let place = QueuePlace { priority, fairness: None, route };
        if let Some(remote) = self.remote_queues() {
            self.direct_queries.offer_elsewhere(&task);
            let offer = TaskOffer::Query(Box::new(task));
            return remote.offer_unstored(&queue, offer, place, sticky).await;
        }
        let served = !sticky || self.matching.is_served(&queue);
        if served {
            self.matching.offer(&queue, TaskOffer::Query(Box::new(task)), place);
        }
        served
    }

    /// A worker answers a direct query. False if no caller waits for it.
    pub fn answer_query(&self, id: u64, answer: QueryAnswer) -> bool {
        self.direct_queries.answer(id, answer)
    }
}

async fn wait(answer: &mut oneshot::Receiver<QueryAnswer>, deadline: Instant) -> Result<QueryAnswer, CallError> {
    match tokio::time::timeout_at(deadline, answer).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(_)) => Err(CallError::Unavailable("the query was not answered, please retry".to_owned())),
        Err(_) => Err(CallError::DeadlineExceeded),
    }
}

fn refused(run: &Run, condition: QueryRejectCondition) -> Option<WorkflowExecutionStatus> {
    let status = run.status();
    let refused = match condition {
        _ if run.is_paused() => true,
        QueryRejectCondition::NotOpen => !run.is_running(),
        QueryRejectCondition::NotCompletedCleanly => !run.is_running() && status != WorkflowExecutionStatus::Completed,
        _ => false,
    };
    refused.then_some(status)
}
