//! Attempts of tasks, and local operations, while they run.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, SystemTime},
};

use segno_proto::{Nanos, common::Payload};
use tokio::{sync::mpsc::UnboundedSender, task::AbortHandle};

use super::{
    plan::{Executor, Plans},
    server::Order,
};
use crate::{
    failure::Failure,
    options::RetryPolicy,
    panics,
    task::{Answer, CancelReason, Cancellation, Heartbeats, TaskContext, TaskFn, TaskInfo},
    workflow::local::{LocalRequest, LocalWork},
};

/// A message of an attempt.
pub(crate) enum Done {
    Heartbeat { run: usize, scheduled_event_id: i64, details: Vec<Payload> },
    Attempt { run: usize, scheduled_event_id: i64, attempt: u32, not_before: Nanos, result: Outcome },
    Local { run: usize, id: String, attempt: u32, result: Outcome },
}

type Outcome = Result<Vec<Payload>, Failure>;

/// Workflow id, run id and kind of who asks.
pub(crate) type Ids = (String, String, String);

/// Those that are under way.
pub(crate) struct Attempts {
    running: HashMap<(usize, i64), RunningAttempt>,
    sender: UnboundedSender<Done>,
}

struct RunningAttempt {
    attempt: u32,
    context: TaskContext,
    handle: AbortHandle,
}

fn system_time(nanos: Nanos) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_nanos(u64::try_from(nanos).unwrap_or_default())
}

fn span(nanos: Nanos) -> Option<Duration> {
    u64::try_from(nanos).ok().filter(|nanos| *nanos > 0).map(Duration::from_nanos)
}

impl Attempts {
    pub(crate) fn new(sender: UnboundedSender<Done>) -> Self {
        Self { running: HashMap::new(), sender }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.running.is_empty()
    }

    /// Begins an attempt. The result of a mock is there at once; it counts after the latency.
    pub(crate) fn begin(
        &mut self,
        order: Order,
        executor: Executor,
        latency: Nanos,
        now: Nanos,
        (workflow_id, run_id, workflow_kind): Ids,
    ) -> (i64, u32, Option<Outcome>) {
        let Order::Attempt {
            run,
            scheduled_event_id,
            attempt,
            kind,
            input,
            activity_id,
            heartbeat_details,
            heartbeat_timeout,
            start_to_close,
            scheduled_at,
        } = order
        else {
            return (0, 0, None);
        };
        let function = match executor {
            Executor::Mock(mock) => return (scheduled_event_id, attempt, Some(mock(input))),
            Executor::Task(function) => function,
        };
        let mut info = TaskInfo::new(kind, activity_id);
        info.attempt = attempt;
        (info.workflow_id, info.run_id, info.workflow_kind) = (workflow_id, run_id, workflow_kind);
        info.namespace = "default".to_owned();
        info.queue = "test".to_owned();
        info.scheduled_time = system_time(scheduled_at);
        info.attempt_scheduled_time = system_time(now);
        info.started_time = system_time(now);
        info.timeout = span(start_to_close);
        info.heartbeat_timeout = span(heartbeat_timeout);
        info.heartbeat_details = heartbeat_details;
        let cancellation = Arc::new(Cancellation::default());
        let said = self.sender.clone();
        let observe = move |details| {
            // The receiver lives as long as the runtime that the attempt runs on.
            let _ = said.send(Done::Heartbeat { run, scheduled_event_id, details });
            Answer::Taken
        };
        let heartbeats = Heartbeats::observer(Arc::new(observe), cancellation.clone());
        let context = TaskContext::new(info, cancellation, heartbeats);
        let sender = self.sender.clone();
        let future = function(context.clone(), input);
        let handle = tokio::spawn(async move {
            let result = future.await;
            let not_before = now.saturating_add(latency);
            let _ = sender.send(Done::Attempt { run, scheduled_event_id, attempt, not_before, result });
        });
        let running = RunningAttempt { attempt, context, handle: handle.abort_handle() };
        self.running.insert((run, scheduled_event_id), running);
        (scheduled_event_id, attempt, None)
    }

    /// An attempt ended.
    pub(crate) fn ended(&mut self, run: usize, scheduled_event_id: i64, attempt: u32) {
        if self.running.get(&(run, scheduled_event_id)).is_some_and(|running| running.attempt == attempt) {
            self.running.remove(&(run, scheduled_event_id));
        }
    }

    /// Tells an attempt to stop.
    pub(crate) fn cancel(&mut self, run: usize, scheduled_event_id: i64) {
        if let Some(running) = self.running.get(&(run, scheduled_event_id)) {
            running.context.cancel(CancelReason::CancelRequested);
        }
    }

    /// An attempt whose result does not matter.
    pub(crate) fn forget(&mut self, run: usize, scheduled_event_id: i64) {
        if let Some(running) = self.running.remove(&(run, scheduled_event_id)) {
            running.context.cancel(CancelReason::TimedOut);
            running.handle.abort();
        }
    }

    /// Begins a local operation. `Err` with the kind of a local task that is not registered.
    pub(crate) fn begin_local(
        &self,
        run: usize,
        request: LocalRequest,
        plans: &Plans,
        ids: Ids,
    ) -> Result<AbortHandle, String> {
        let LocalRequest { id, work } = request;
        let sender = self.sender.clone();
        let handle = match work {
            LocalWork::Run(f) => tokio::spawn(async move {
                // It may block; the clock stands still for it.
                let result = crate::task::blocking(f).await;
                let _ = sender.send(Done::Local { run, id, attempt: 1, result });
            }),
            LocalWork::Async(f) => tokio::spawn(async move {
                // The closure itself may panic as well as its future.
                let body = panics::catch_future(async move { f().await });
                let result = body.await.unwrap_or_else(|panic| Err(panic.failure()));
                let _ = sender.send(Done::Local { run, id, attempt: 1, result });
            }),
            LocalWork::Task { kind, input, options, header } => {
                let Some(executor) = plans.executor(&kind) else { return Err(kind) };
                let function: TaskFn = match executor {
                    Executor::Task(function) => function,
                    Executor::Mock(mock) => Arc::new(move |_, input| {
                        let result = mock(input);
                        Box::pin(async move { result })
                    }),
                };
                let latency = plans.latency(&kind);
                let policy = options.retry_policy.unwrap_or_default();
                let timeout = options.timeout.unwrap_or(Duration::from_secs(300));
                let expires = options.schedule_to_close;
                tokio::spawn(async move {
                    let mut info = TaskInfo::new(kind, id.clone());
                    (info.workflow_id, info.run_id, info.workflow_kind) = ids;
                    info.headers = header.map(|header| header.fields).unwrap_or_default();
                    let tries = local_attempts(function, info, input, latency, policy, timeout, expires);
                    let (attempt, result) = tries.await;
                    let _ = sender.send(Done::Local { run, id, attempt, result });
                })
            }
        };
        Ok(handle.abort_handle())
    }
}

/// A local task with its retries, in virtual time.
async fn local_attempts(
    function: TaskFn,
    info: TaskInfo,
    input: Vec<Payload>,
    latency: Duration,
    policy: RetryPolicy,
    timeout: Duration,
    expires: Option<Duration>,
) -> (u32, Outcome) {
    let begun = tokio::time::Instant::now();
    for attempt in 1.. {
        let info = TaskInfo { attempt, ..info.clone() };
        let body = async {
            tokio::time::sleep(latency).await;
            function(TaskContext::local(info), input.clone()).await
        };
        let timed_out = segno_proto::enums::TimeoutType::StartToClose;
        let failure = match tokio::time::timeout(timeout, body).await {
            Ok(Ok(output)) => return (attempt, Ok(output)),
            Ok(Err(failure)) => failure,
            Err(_) => Failure::timeout(timed_out, "activity StartToClose timeout"),
        };
        let named =
            failure.application_kind().is_some_and(|kind| policy.non_retryable_kinds.iter().any(|it| it == kind));
        let wait = match failure.is_non_retryable() || named || failure.is_cancelled() {
            true => None,
            false => policy.next_wait(attempt).map(|wait| failure.next_retry_delay().unwrap_or(wait)),
        };
        let Some(wait) = wait else { return (attempt, Err(failure)) };
        if expires.is_some_and(|expires| begun.elapsed() + wait >= expires) {
            return (attempt, Err(failure));
        }
        tokio::time::sleep(wait).await;
    }
    (u32::MAX, Err(Failure::cancelled()))
}
