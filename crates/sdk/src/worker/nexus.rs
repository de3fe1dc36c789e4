//! Polling for requests to Nexus operations, and their handling.

use std::{
    sync::{Arc, atomic::Ordering},
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use segno_proto::{
    common::Payload,
    enums::TaskQueueKind,
    nexus::{StartOperationRequest, request::Variant},
    taskqueue::TaskQueue,
    workflowservice::{PollNexusTaskQueueRequest, PollNexusTaskQueueResponse},
};
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};
use tonic::Status;

use super::{
    meter::PolledKind,
    nexus_answer::{self, Answer},
    pollers::{POLL, PollAnswer},
    shared::{Phase, Shared},
    slots::Slot,
};
use crate::{
    client::{time, unary},
    failure::Error,
    nexus::{
        Callback, HandlerError, HandlerErrorType, NexusContext, NexusInfo, NexusLink, NexusOutcome, NexusRequest,
        StartedOperation,
    },
    panics,
    task::Cancellation,
};

/// The header that says how long the server waits for an answer.
const TIMEOUT_HEADER: &str = "request-timeout";

/// Polls for requests and handles them, until `stop`. Those that are handled then go on.
pub(super) async fn run(shared: Arc<Shared>, stop: watch::Receiver<bool>) {
    let reserve = {
        let shared = shared.clone();
        move || {
            let shared = shared.clone();
            async move { shared.nexus_slots.reserve().await }
        }
    };
    let poll = {
        let shared = shared.clone();
        move || poll(shared.clone())
    };
    let ending = shared.poll_stop(stop);
    let scaling = shared.nexus_scaling.clone();
    scaling.poll(ending, reserve, poll, move |task, slot| start(shared.clone(), task, slot)).await;
}

async fn poll(shared: Arc<Shared>) -> Result<PollAnswer<PollNexusTaskQueueResponse>, Status> {
    let queue = TaskQueue { name: shared.queue.clone(), kind: TaskQueueKind::Normal as i32, ..Default::default() };
    let request = PollNexusTaskQueueRequest {
        namespace: shared.client.namespace().to_owned(),
        task_queue: Some(queue),
        identity: shared.identity.clone(),
        worker_instance_key: shared.instance_key(),
        deployment_options: shared.deployment_options(),
        ..Default::default()
    };
    let response = shared.client.once(&unary::POLL_NEXUS_TASK, &request, POLL).await?;
    let delta = response.poller_scaling_decision.map(|decision| decision.poll_request_delta_suggestion);
    let task = (!response.task_token.is_empty()).then_some(response);
    shared.meter_poll(PolledKind::Nexus, task.is_some());
    Ok(PollAnswer { task, delta })
}

/// Handles a request and answers it. Returns at once.
fn start(shared: Arc<Shared>, task: PollNexusTaskQueueResponse, slot: Slot) {
    let cancellation = Arc::new(Cancellation::default());
    let running = RunningGuard::new(shared.clone(), task.task_token.clone(), cancellation.clone());
    tokio::spawn(async move {
        let mut phase = shared.phase.subscribe();
        let work = attempt(&shared, task, cancellation);
        tokio::select! {
            biased;
            _ = phase.wait_for(|phase| *phase == Phase::Dropped) => {}
            _ = work => {}
        }
        drop((running, slot));
    });
}

/// Counts a request as running as long as it lives.
struct RunningGuard {
    shared: Arc<Shared>,
    token: Bytes,
}

impl RunningGuard {
    fn new(shared: Arc<Shared>, token: Bytes, cancellation: Arc<Cancellation>) -> Self {
        shared.nexus_running.begin(token.clone(), cancellation);
        Self { shared, token }
    }
}

impl Drop for RunningGuard {
    fn drop(&mut self) {
        self.shared.nexus_running.end(&self.token);
    }
}

/// A request as the handler gets it, and what its answer needs.
struct Parts {
    info: NexusInfo,
    request: NexusRequest,
    callback: Callback,
}

async fn attempt(shared: &Arc<Shared>, mut task: PollNexusTaskQueueResponse, cancellation: Arc<Cancellation>) {
    let began = Instant::now();
    let Some((parts, is_start)) = read(&mut task) else {
        tracing::warn!("a Nexus request of an unknown type is left to its time-out");
        return;
    };
    let (service, operation) = (parts.info.service.clone(), parts.info.operation.clone());
    let scheduled = task.request.as_ref().and_then(|request| request.scheduled_time);
    tracing::debug!(%service, %operation, is_start, "a Nexus request begins");
    shared.meter_nexus_start(&service, scheduled.as_ref());

    let deadline = parts.info.deadline.map(Instant::from_std);
    let queue = shared.client.queue(shared.queue.clone());
    let ctx = NexusContext::new(parts.info, queue, parts.callback, cancellation);
    // Codecs are user code, too: also after a panic the request is answered.
    let body = panics::catch_future(handle(shared, ctx.clone(), parts.request));
    let mut phase = shared.phase.subscribe();
    let outcome = tokio::select! {
        biased;
        outcome = body => outcome.unwrap_or_else(|panic| Err(Error::from(panic.failure()).into())),
        _ = phase.wait_for(|phase| *phase >= Phase::Forced) => {
            Err(HandlerError::new(HandlerErrorType::Unavailable, "the worker shut down before the handler answered").into())
        }
        () = sleep_until(deadline.unwrap_or(began)), if deadline.is_some() => {
            Err(HandlerError::new(HandlerErrorType::UpstreamTimeout, "the handler did not answer in time").into())
        }
    };
    shared.meter_nexus_end(&service, scheduled.as_ref(), began.elapsed(), outcome.is_err());
    shared.nexus_counts.processed.fetch_add(1, Ordering::Relaxed);
    let answer = match outcome {
        Ok(_) if !is_start => Answer::Cancelled,
        Ok(started) => Answer::Started(started, ctx.links()),
        // A request to cancel has no outcome of an operation.
        Err(NexusOutcome::Operation(failure)) if is_start => Answer::Ended(failure.to_wire()),
        Err(NexusOutcome::Operation(failure) | NexusOutcome::Handler(failure)) => {
            shared.nexus_counts.failed.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(%service, %operation, %failure, "a Nexus request failed");
            Answer::Failed(failure.to_wire())
        }
    };
    nexus_answer::send(shared, &task, answer, deadline).await;
}

/// What came; `None` if it is of no known type.
fn read(task: &mut PollNexusTaskQueueResponse) -> Option<(Parts, bool)> {
    let request = task.request.as_mut()?;
    let headers = std::mem::take(&mut request.header);
    let headers: std::collections::BTreeMap<_, _> =
        headers.into_iter().map(|(name, value)| (name.to_ascii_lowercase(), value)).collect();
    let time_left = headers.get(TIMEOUT_HEADER).and_then(|text| span(text));
    let mut info = NexusInfo {
        endpoint: std::mem::take(&mut request.endpoint),
        service: String::new(),
        operation: String::new(),
        request_id: String::new(),
        headers,
        links: Vec::new(),
        scheduled_time: request.scheduled_time.as_ref().and_then(time).unwrap_or(SystemTime::UNIX_EPOCH),
        deadline: time_left.and_then(|left| std::time::Instant::now().checked_add(left)),
    };
    match request.variant.take()? {
        Variant::StartOperation(start) => {
            let StartOperationRequest { service, operation, request_id, callback, payload, callback_header, links } =
                start;
            info = NexusInfo { service, operation, request_id, ..info };
            info.links = links.into_iter().map(NexusLink::from_wire).collect();
            let callback = Callback { url: callback, headers: callback_header.into_iter().collect() };
            let is_value = |value: &Payload| !value.metadata.is_empty() || !value.data.is_empty();
            let request = NexusRequest::Start(payload.filter(is_value));
            Some((Parts { info, request, callback }, true))
        }
        Variant::CancelOperation(cancel) => {
            info = NexusInfo { service: cancel.service, operation: cancel.operation, ..info };
            let request = NexusRequest::Cancel(cancel.operation_token);
            Some((Parts { info, request, callback: Callback::default() }, false))
        }
    }
}

async fn handle(
    shared: &Shared,
    ctx: NexusContext,
    request: NexusRequest,
) -> Result<StartedOperation<Option<Payload>>, NexusOutcome> {
    let codecs = shared.client.codecs();
    let function = shared.nexus_function(&ctx.info().service, &ctx.info().operation)?;
    let request = match request {
        NexusRequest::Start(Some(input)) => {
            let decoded = codecs.decode_one(input).await;
            let bad = |error| {
                HandlerError::new(HandlerErrorType::BadRequest, format!("the input cannot be decoded: {error}"))
            };
            NexusRequest::Start(Some(decoded.map_err(bad)?))
        }
        request => request,
    };
    let started = function(ctx, request).await?;
    match started.into_result() {
        Ok(Some(result)) => {
            Ok(StartedOperation::completed(Some(codecs.encode_one(result).await.map_err(Error::from)?)))
        }
        Ok(None) => Ok(StartedOperation::completed(None)),
        Err(token) => Ok(StartedOperation::running(token)),
    }
}

/// A time in Go's form: numbers with units, such as `1m7.5s`.
fn span(text: &str) -> Option<Duration> {
    const UNITS: [(&str, f64); 7] =
        [("ns", 1e-9), ("us", 1e-6), ("µs", 1e-6), ("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("h", 3600.0)];
    let (mut rest, mut seconds) = (text, 0.0);
    while !rest.is_empty() {
        let number = rest.trim_start_matches(|letter: char| letter.is_ascii_digit() || letter == '.');
        let unit = number.trim_start_matches(char::is_alphabetic);
        let value: f64 = rest[..rest.len() - number.len()].parse().ok()?;
        let (_, factor) = UNITS.iter().find(|(name, _)| *name == &number[..number.len() - unit.len()])?;
        seconds += value * factor;
        rest = unit;
    }
    (!text.is_empty()).then(|| Duration::try_from_secs_f64(seconds).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_go() {
        let read =
            ["8s", "7.992487423s", "1m0.5s", "250ms", "1h2m3s"].map(|text| span(text).map(|span| span.as_millis()));
        assert_eq!(read, [Some(8000), Some(7992), Some(60_500), Some(250), Some(3_723_000)]);
        assert_eq!(["", "8", "s", "-1s", "1x", "1s2"].map(span), [None; 6]);
    }
}
