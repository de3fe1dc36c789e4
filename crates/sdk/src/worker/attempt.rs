//! One attempt of a task: from the task in a poll's response to the worker's answer.

use std::{
    pin::pin,
    sync::{Arc, atomic::Ordering},
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use futures_util::FutureExt;
use segno_proto::{
    common::Payload,
    workflowservice::{
        PollActivityTaskQueueResponse, RecordActivityTaskHeartbeatRequest, RespondActivityTaskCanceledRequest,
        RespondActivityTaskCompletedRequest, RespondActivityTaskFailedRequest,
    },
};
use tokio::time::{Instant, sleep_until};
use tonic::Code;
use tracing::Instrument;

use super::{
    answer::{self, TaskAnswer},
    shared::{Phase, Shared},
    slots::Slot,
};
use crate::{
    converter,
    failure::Failure,
    lock::lock,
    options::RetryPolicy,
    panics,
    task::{
        Answer, CancelReason, Cancellation, CancelledAnswer, Heartbeats, TaskContext, TaskInfo, cancelled, interval,
    },
    telemetry::spans::{self, SpanFields},
};

/// The server's time-out has run out for sure if ours, which began later, is over for this long: a heartbeat may have
/// arrived although its answer did not.
const TIME_OUT_MARGIN: Duration = Duration::from_secs(1);

impl Shared {
    /// Executes a task that was handed to this worker, and answers it.
    pub(crate) fn start_task(self: &Arc<Self>, task: PollActivityTaskQueueResponse, slot: Slot) {
        start(self.clone(), task, slot);
    }
}

/// Executes a task and answers it. Returns at once.
fn start(shared: Arc<Shared>, task: PollActivityTaskQueueResponse, slot: Slot) {
    let cancellation = Arc::new(Cancellation::default());
    let held = RunningAttemptGuard::new(shared.clone(), task.task_token.clone(), cancellation.clone());
    tokio::spawn(async move {
        let mut phase = shared.phase.subscribe();
        let work = attempt(&shared, task, cancellation, held);
        tokio::select! {
            biased;
            _ = phase.wait_for(|phase| *phase == Phase::Dropped) => {}
            _ = work => {}
        }
        drop(slot);
    });
}

/// Counts an attempt as running, here and for the server, as long as it lives.
struct RunningAttemptGuard {
    shared: Arc<Shared>,
    token: Bytes,
    /// It is completed by another program, later: for the server it stays with this worker.
    kept: bool,
}

impl RunningAttemptGuard {
    fn new(shared: Arc<Shared>, token: Bytes, cancellation: Arc<Cancellation>) -> Self {
        shared.running.begin(token.clone(), cancellation);
        lock(&shared.deltas).begin(token.clone());
        Self { shared, token, kept: false }
    }
}

impl Drop for RunningAttemptGuard {
    fn drop(&mut self) {
        if !self.kept {
            lock(&self.shared.deltas).finish(self.token.clone());
        }
        self.shared.running.end(&self.token);
    }
}

async fn attempt(
    shared: &Arc<Shared>,
    mut task: PollActivityTaskQueueResponse,
    cancellation: Arc<Cancellation>,
    mut held: RunningAttemptGuard,
) {
    let limits = Limits::of(&task);
    let input = task.input.take().map(|input| input.payloads).unwrap_or_default();
    let kind = task.activity_type.take().map(|kind| kind.name).unwrap_or_default();
    tracing::debug!(task = %kind, id = %task.activity_id, attempt = task.attempt, "a task begins");

    shared.meter_task_start(&kind, &task);
    let began = Instant::now();

    // Codecs are user code, too: also after a panic the attempt is answered.
    let body = execute(shared, &mut task, kind.clone(), input, &cancellation, limits);
    let outcome = match panics::catch_future(body).await {
        Ok(outcome) => outcome,
        Err(panic) => Outcome::Failed(panic.failure(), None),
    };

    let (succeeded, failed) = (matches!(outcome, Outcome::Completed(_)), matches!(outcome, Outcome::Failed(..)));
    shared.meter_task_end(&kind, &task, began.elapsed(), succeeded, failed);
    shared.counts.processed.fetch_add(1, Ordering::Relaxed);
    if let Outcome::Failed(failure, _) = &outcome {
        shared.counts.failed.fetch_add(1, Ordering::Relaxed);
        if failure.is_benign() {
            tracing::debug!(task = %kind, id = %task.activity_id, attempt = task.attempt, %failure, "a task failed");
        } else {
            tracing::warn!(task = %kind, id = %task.activity_id, attempt = task.attempt, %failure, "a task failed");
        }
    }
    match answer_of(shared, &task, outcome).await {
        Some(answer) => answer::send(&shared.client, answer, limits.answer_until()).await,
        None => held.kept = true,
    }
}

/// How an attempt ended; with it, what was said by heartbeat and not heard by the server.
enum Outcome {
    Completed(Vec<Payload>),
    Failed(Failure, Option<Vec<Payload>>),
    Canceled(Option<Vec<Payload>>),
    /// It is completed later, by another program.
    Later,
}

async fn execute(
    shared: &Arc<Shared>,
    task: &mut PollActivityTaskQueueResponse,
    kind: String,
    input: Vec<Payload>,
    cancellation: &Arc<Cancellation>,
    limits: Limits,
) -> Outcome {
    let details = task.heartbeat_details.take().map(|details| details.payloads).unwrap_or_default();
    let codecs = shared.client.codecs();
    let (input, details) = match (codecs.decode(input).await, codecs.decode(details).await) {
        (Ok(input), Ok(details)) => (input, details),
        (Err(error), _) | (_, Err(error)) => {
            return Outcome::Failed(Failure::application("Conversion", error.to_string()).into(), None);
        }
    };
    let Some(function) = shared.task_function(&kind) else {
        let known = shared.tasks.kinds().collect::<Vec<_>>().join(", ");
        let message = format!("this worker has no task {kind:?}; it has: {known}");
        return Outcome::Failed(Failure::application("NoSuchTask", message).into(), None);
    };
    let info = info(shared, task, kind, details);
    let every = interval(info.heartbeat_timeout, shared.options.heartbeat_throttle);
    let heartbeats = Heartbeats::server(heartbeat_sender(shared, &task.task_token), every, cancellation.clone());
    let ctx = TaskContext::new(info, cancellation.clone(), heartbeats);
    let mut phase = shared.phase.subscribe();
    let outcome = {
        let mut body = pin!(traced(&ctx, || function(ctx.clone(), input)));
        loop {
            let time_out = limits.next_time_out(&ctx);
            tokio::select! {
                biased;
                outcome = &mut body => break outcome,
                _ = phase.wait_for(|phase| *phase >= Phase::Forced) => {
                    let message = "the worker shut down and the task did not stop in time";
                    break Err(Failure::application(CancelReason::WorkerShutdown.kind(), message).into());
                }
                _ = sleep_until(time_out.unwrap_or_else(Instant::now)), if time_out.is_some() => {
                    // A heartbeat may have been taken meanwhile.
                    if limits.next_time_out(&ctx).is_some_and(|at| at <= Instant::now()) {
                        ctx.cancel(CancelReason::TimedOut);
                    }
                }
            }
        }
    };
    let unsent = ctx.heartbeats().close();
    match outcome {
        Ok(output) => match codecs.encode(output).await {
            Ok(output) => Outcome::Completed(output),
            Err(error) => Outcome::Failed(Failure::application("Conversion", error.to_string()).into(), unsent),
        },
        Err(failure) if ctx.is_later(&failure) => {
            if let Some(details) = unsent {
                heartbeat(shared, task.task_token.clone(), details).await;
            }
            Outcome::Later
        }
        Err(failure) if failure.is_cancelled() => match cancelled(ctx.cancel_reason(), &failure) {
            CancelledAnswer::Canceled => Outcome::Canceled(unsent),
            CancelledAnswer::Failed(failure) => Outcome::Failed(failure, unsent),
        },
        Err(failure) => Outcome::Failed(failure, unsent),
    }
}

async fn answer_of(shared: &Shared, task: &PollActivityTaskQueueResponse, outcome: Outcome) -> Option<TaskAnswer> {
    let (task_token, namespace) = (task.task_token.clone(), shared.client.namespace().to_owned());
    let (identity, deployment_options) = (shared.identity.clone(), shared.deployment_options());
    let codecs = shared.client.codecs();
    Some(match outcome {
        Outcome::Later => return None,
        Outcome::Completed(output) => TaskAnswer::Completed(RespondActivityTaskCompletedRequest {
            task_token,
            namespace,
            identity,
            deployment_options,
            result: converter::list(output),
            ..Default::default()
        }),
        Outcome::Failed(failure, unsent) => TaskAnswer::Failed(Box::new(RespondActivityTaskFailedRequest {
            task_token,
            namespace,
            identity,
            deployment_options,
            // A failure that cannot be encoded is sent without its details rather than not at all.
            failure: Some(codecs.encode_failure(failure.to_wire()).await.unwrap_or_else(|error| {
                let message = format!("{} (its details cannot be encoded: {error})", failure.message());
                Failure::from(Failure::application("Conversion", message)).to_wire()
            })),
            last_heartbeat_details: converter::list(
                codecs.encode(unsent.unwrap_or_default()).await.unwrap_or_default(),
            ),
            ..Default::default()
        })),
        Outcome::Canceled(unsent) => TaskAnswer::Canceled(RespondActivityTaskCanceledRequest {
            task_token,
            namespace,
            identity,
            deployment_options,
            details: converter::list(codecs.encode(unsent.unwrap_or_default()).await.unwrap_or_default()),
            ..Default::default()
        }),
    })
}

fn heartbeat_sender(
    shared: &Arc<Shared>,
    token: &Bytes,
) -> Arc<dyn Fn(Vec<Payload>) -> futures_util::future::BoxFuture<'static, Answer> + Send + Sync> {
    let (shared, token) = (shared.clone(), token.clone());
    Arc::new(move |details| {
        let (shared, token) = (shared.clone(), token.clone());
        async move { heartbeat(&shared, token, details).await }.boxed()
    })
}

/// Tells the server how far a task is.
async fn heartbeat(shared: &Shared, task_token: Bytes, details: Vec<Payload>) -> Answer {
    let details = match shared.client.codecs().encode(details).await {
        Ok(details) => converter::list(details),
        Err(error) => {
            tracing::warn!(%error, "heartbeat details cannot be encoded");
            None
        }
    };
    let request = RecordActivityTaskHeartbeatRequest {
        task_token,
        details,
        identity: shared.identity.clone(),
        namespace: shared.client.namespace().to_owned(),
        ..Default::default()
    };
    let call = shared.client.call(|mut service| {
        let request = request.clone();
        async move { service.record_activity_task_heartbeat(request).await }
    });
    match call.await {
        Ok(answer) if answer.cancel_requested => Answer::Stop(CancelReason::CancelRequested),
        Ok(answer) if answer.activity_reset => Answer::Stop(CancelReason::Reset),
        Ok(answer) if answer.activity_paused => Answer::Stop(CancelReason::Paused),
        Ok(_) => Answer::Taken,
        Err(status) if status.code() == Code::NotFound => Answer::Stop(CancelReason::NotFound),
        Err(status) => {
            tracing::warn!(code = ?status.code(), message = status.message(), "a heartbeat of a task was not taken");
            Answer::Unsent
        }
    }
}

/// An attempt in a span of its own, in the trace of the client that started the workflow.
pub(super) fn traced<F: Future>(ctx: &TaskContext, begin: impl FnOnce() -> F) -> impl Future<Output = F::Output> {
    let info = ctx.info();
    let task = SpanFields { kind: &info.kind, workflow_id: &info.workflow_id, run_id: &info.run_id };
    let span = spans::task_span(&info.headers, &task, &info.id, info.attempt);
    spans::in_trace(&info.headers, async move { begin().await }.instrument(span))
}

/// When the server gives up an attempt.
#[derive(Clone, Copy)]
struct Limits {
    close_at: Option<Instant>,
    heartbeat: Option<Duration>,
}

impl Limits {
    fn of(task: &PollActivityTaskQueueResponse) -> Self {
        let start_to_close = duration(task.start_to_close_timeout);
        // By the server's clock alone, as ours may be another.
        let waited = time(task.started_time).duration_since(time(task.scheduled_time)).unwrap_or_default();
        let schedule_to_close = duration(task.schedule_to_close_timeout).map(|limit| limit.saturating_sub(waited));
        let close = [start_to_close, schedule_to_close].into_iter().flatten().min();
        let close_at = close.and_then(|close| Instant::now().checked_add(close));
        Self { close_at, heartbeat: duration(task.heartbeat_timeout) }
    }

    /// When the task is cancelled because its time is over, unless it is cancelled before.
    fn next_time_out(&self, ctx: &TaskContext) -> Option<Instant> {
        if ctx.is_cancelled() {
            return None;
        }
        let silent = self.heartbeat.and_then(|limit| ctx.heartbeats().taken_at().checked_add(limit + TIME_OUT_MARGIN));
        [self.close_at, silent].into_iter().flatten().min()
    }

    /// How long an answer is worth to be repeated.
    fn answer_until(&self) -> Instant {
        let least = Instant::now() + Duration::from_secs(60);
        self.close_at.map_or(least, |close| close.max(least))
    }
}

fn duration(value: Option<prost_types::Duration>) -> Option<Duration> {
    value.and_then(|value| Duration::try_from(value).ok()).filter(|value| !value.is_zero())
}

fn time(value: Option<prost_types::Timestamp>) -> SystemTime {
    value.and_then(|value| SystemTime::try_from(value).ok()).unwrap_or(SystemTime::UNIX_EPOCH)
}

fn info(shared: &Shared, task: &PollActivityTaskQueueResponse, kind: String, details: Vec<Payload>) -> TaskInfo {
    let execution = task.workflow_execution.clone().unwrap_or_default();
    let mut info = TaskInfo::new(kind, task.activity_id.clone());
    info.attempt = u32::try_from(task.attempt).unwrap_or(1).max(1);
    info.workflow_id = execution.workflow_id;
    info.run_id = execution.run_id;
    info.workflow_kind = task.workflow_type.as_ref().map(|kind| kind.name.clone()).unwrap_or_default();
    info.namespace = match task.workflow_namespace.as_str() {
        "" => shared.client.namespace().to_owned(),
        name => name.to_owned(),
    };
    info.queue = shared.queue.clone();
    info.scheduled_time = time(task.scheduled_time);
    info.attempt_scheduled_time = time(task.current_attempt_scheduled_time.or(task.scheduled_time));
    info.started_time = time(task.started_time);
    info.timeout = duration(task.start_to_close_timeout);
    info.schedule_to_close = duration(task.schedule_to_close_timeout);
    info.heartbeat_timeout = duration(task.heartbeat_timeout);
    info.retry_policy = task.retry_policy.as_ref().map(RetryPolicy::from_wire);
    info.priority = task.priority.as_ref().map_or(0, |priority| priority.priority_key);
    info.token = task.task_token.to_vec();
    info.heartbeat_details = details;
    info.headers = task.header.as_ref().map(|header| header.fields.clone()).unwrap_or_default();
    info
}
