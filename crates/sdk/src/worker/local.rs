//! Executes local operations of a workflow: closures, futures, local tasks with their retries.

use std::time::Duration;

use segno_proto::enums::TimeoutType;
use tokio::time::{Instant, sleep, timeout_at};

use super::shared::Shared;
use crate::{
    failure::Failure,
    options::LocalOptions,
    panics,
    task::{CancelReason, TaskContext, TaskInfo},
    workflow::local::{LocalOutcome, LocalRequest, LocalResult, LocalWork},
};

/// Start-to-close of a local task that names none.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(300);

/// Does it. `info` says whose it is.
pub(super) async fn execute(shared: &Shared, info: TaskInfo, request: LocalRequest) -> LocalResult {
    let LocalRequest { id, work } = request;
    let (attempt, outcome) = match work {
        LocalWork::Run(body) => (1, run(body).await),
        LocalWork::Async(body) => {
            // The closure itself may panic as well as its future.
            let body = panics::catch_future(async move { body().await });
            (1, body.await.unwrap_or_else(|panic| Err(panic.failure())))
        }
        LocalWork::Task { kind, input, options, .. } => task(shared, info, &kind, input, &options).await,
    };
    LocalResult { id, attempt, outcome }
}

async fn run(body: Box<dyn FnOnce() -> LocalOutcome + Send>) -> LocalOutcome {
    match tokio::task::spawn_blocking(body).await {
        Ok(outcome) => outcome,
        Err(error) => Err(Failure::application("Panic", error.to_string()).into()),
    }
}

async fn task(
    shared: &Shared,
    mut info: TaskInfo,
    kind: &str,
    input: Vec<segno_proto::common::Payload>,
    options: &LocalOptions,
) -> (u32, LocalOutcome) {
    let Some(function) = shared.task_function(kind) else {
        let message = format!("the workflow's worker does not know the task {kind:?}");
        return (1, Err(Failure::application("UnknownTask", message).non_retryable().into()));
    };
    let policy = options.retry_policy.clone().unwrap_or_default();
    let end = options.schedule_to_close.map(|limit| Instant::now() + limit);
    let mut attempt = 1;
    loop {
        info.attempt = attempt;
        let context = TaskContext::local(info.clone());
        let mut until = Instant::now() + options.timeout.unwrap_or(DEFAULT_TIMEOUT);
        if let Some(end) = end {
            until = until.min(end);
        }
        let body = super::attempt::traced(&context, || function(context.clone(), input.clone()));
        let outcome = match timeout_at(until, body).await {
            Ok(outcome) => outcome,
            Err(_) => {
                context.cancel(CancelReason::TimedOut);
                Err(Failure::timeout(TimeoutType::StartToClose, "the local task took too long"))
            }
        };
        let failure = match outcome {
            Err(failure) if !failure.is_non_retryable() && !failure.is_cancelled() => failure,
            outcome => return (attempt, outcome),
        };
        let known =
            failure.application_kind().is_some_and(|kind| policy.non_retryable_kinds.iter().any(|no| no == kind));
        let wait = if known { None } else { policy.next_wait(attempt) };
        let Some(wait) = wait.map(|wait| failure.next_retry_delay().unwrap_or(wait)) else {
            return (attempt, Err(failure));
        };
        if end.is_some_and(|end| Instant::now() + wait >= end) {
            return (attempt, Err(failure));
        }
        sleep(wait).await;
        attempt += 1;
    }
}
