//! Nexus operations: workers take their requests and answer them, and handlers report how operations ended.

use prost::Message;
use segno_proto::{
    Nanos,
    common::Link,
    events::{
        NexusOperationCanceledEventAttributes, NexusOperationCompletedEventAttributes, history_event::Attributes,
    },
    failure::Failure,
};

use crate::{
    error::Rejection,
    parts::{nexus, workflow_task},
    state::{nexus::Operation, run::Run},
    transition::{Applied, Context, Effect, draft::Draft},
};

pub use crate::{
    parts::nexus::{OperationEnd, REQUEST_TIMEOUT, call_error, handler_failure, operation_time, request_time},
    payload::no_value,
};

/// An attempt of a request to a handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestRef {
    /// The operation, by its scheduled event.
    pub scheduled_event_id: i64,
    /// Whether it is the request to cancel it.
    pub cancel: bool,
    /// The attempt.
    pub stamp: u32,
}

/// A handler's answer to the request to start an operation.
#[derive(Clone, Debug, PartialEq)]
pub enum StartAnswer {
    /// The operation is over.
    Ended(OperationEnd, Vec<Link>),
    /// It goes on, under this token.
    Started(String, Vec<Link>),
    /// The handler failed. If it may be tried again it is.
    Error {
        /// With handler failure info.
        failure: Failure,
        /// Whether it is tried again.
        retryable: bool,
    },
}

/// A handler's answer to the request to cancel an operation.
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::large_enum_variant, reason = "one is made for each answer, and taken apart at once")]
pub enum CancelAnswer {
    /// It was accepted. Whether the operation ends is another matter.
    Accepted,
    /// The handler failed. If it may be tried again it is.
    Error {
        /// With handler failure info.
        failure: Failure,
        /// Whether it is tried again.
        retryable: bool,
    },
}

/// A report of how an operation ended that its handler had started, or is starting.
#[derive(Clone, Debug, PartialEq)]
pub struct Completion {
    /// The request that started it.
    pub request_id: String,
    /// Its token, for the case that the answer to its start is not there yet.
    pub token: String,
    /// When it was started, for the same case; 0 if that is not known.
    pub started_time: Nanos,
    /// Links of its start, for the same case.
    pub links: Vec<Link>,
    /// How it ended.
    pub end: OperationEnd,
}

/// The operation whose request this is, if the request is still open and a worker may have it.
fn find<'a>(run: &'a Run, request: &RequestRef, now: Nanos) -> Result<&'a Operation, Rejection> {
    let operation = run.state.operations.get(&request.scheduled_event_id).filter(|_| run.is_running());
    let operation = operation.ok_or(Rejection::NexusTaskNotFound)?;
    let (open, cancel) = operation.open_request().ok_or(Rejection::NexusTaskNotFound)?;
    match cancel == request.cancel && open.stamp == request.stamp && !open.is_backing_off(now) {
        true => Ok(operation),
        false => Err(Rejection::NexusTaskNotFound),
    }
}

/// A worker takes a request. Nothing is stored: after a crash the request is offered again.
pub fn take(run: &Run, context: Context, request: RequestRef) -> Result<Applied<Operation>, Rejection> {
    let operation = find(run, &request, context.now).map_err(|_| Rejection::TaskObsolete)?.clone();
    if run.is_paused() || !operation.is_waiting(context.now) {
        return Err(Rejection::TaskObsolete);
    }
    let mut draft = Draft::new(run, context);
    let taken = draft.run.state.operations.get_mut(&request.scheduled_event_id);
    if let Some((open, _)) = taken.and_then(|operation| operation.open_request_mut()) {
        open.taken_time = context.now;
    }
    draft.touch_memory();
    Ok(draft.finish(operation))
}

/// The worker that took a request never got it.
pub fn give_back(run: &Run, context: Context, request: RequestRef) -> Result<Applied<()>, Rejection> {
    find(run, &request, context.now)?;
    let mut draft = Draft::new(run, context);
    leave_worker(&mut draft, &request);
    draft.touch_memory();
    draft.effect(Effect::OfferNexusRequest(request.scheduled_event_id));
    Ok(draft.finish(()))
}

/// The request is no longer with its worker. It was due when the worker took it, also if the clock has been set back since.
fn leave_worker(draft: &mut Draft, request: &RequestRef) {
    let now = draft.now();
    let operation = draft.run.state.operations.get_mut(&request.scheduled_event_id);
    if let Some((open, _)) = operation.and_then(|operation| operation.open_request_mut()) {
        open.taken_time = 0;
        open.due_time = open.due_time.min(now);
    }
}

/// A request cannot be made, such as one to an endpoint that no longer exists.
pub fn refuse(run: &Run, context: Context, request: RequestRef, why: &str) -> Result<Applied<()>, Rejection> {
    let failure = handler_failure("NOT_FOUND", why, Default::default());
    match request.cancel {
        false => answer_start(run, context, request, StartAnswer::Error { failure, retryable: false }),
        true => answer_cancel(run, context, request, CancelAnswer::Error { failure, retryable: false }),
    }
}

/// The settings of the server do not let it make a request now. It is tried again after this pause at the earliest.
pub fn postpone(
    run: &Run,
    context: Context,
    request: RequestRef,
    failure: Failure,
    pause_min: Nanos,
) -> Result<Applied<()>, Rejection> {
    let Some(mut draft) = begin_answer(run, context, &request)? else { return Ok(overtaken(run, context, &request)) };
    nexus::fail_attempt(&mut draft, request.scheduled_event_id, failure, pause_min);
    Ok(draft.finish(()))
}

/// Begins the transition of an answer. What follows it is no answer that comes too late.
fn begin_answer(run: &Run, context: Context, request: &RequestRef) -> Result<Option<Draft>, Rejection> {
    if let Err(rejection) = find(run, request, context.now) {
        let is_kept = run.is_running() || run.state.standalone_nexus.is_some();
        let overtaken = is_kept && run.state.overtaken_requests.contains(&request.scheduled_event_id);
        return if overtaken { Ok(None) } else { Err(rejection) };
    }
    let mut draft = Draft::new(run, context);
    leave_worker(&mut draft, request);
    Ok(Some(draft))
}

/// The operation was completed while the worker was at work: its answer is accepted once, and changes nothing.
fn overtaken(run: &Run, context: Context, request: &RequestRef) -> Applied<()> {
    let mut draft = Draft::new(run, context);
    draft.run.state.overtaken_requests.retain(|id| *id != request.scheduled_event_id);
    match run.is_running() {
        true => draft.touch_memory(),
        // Closed runs have no changes that are not stored.
        false => draft.touch(),
    }
    draft.finish(())
}

/// A handler answers the request to start an operation.
pub fn answer_start(
    run: &Run,
    context: Context,
    request: RequestRef,
    answer: StartAnswer,
) -> Result<Applied<()>, Rejection> {
    let Some(mut draft) = begin_answer(run, context, &request)? else { return Ok(overtaken(run, context, &request)) };
    let id = request.scheduled_event_id;
    match answer {
        StartAnswer::Ended(end, links) => finish(&mut draft, id, end, links),
        StartAnswer::Started(token, links) => nexus::start(&mut draft, id, token, context.now, links),
        StartAnswer::Error { failure, retryable: true } => {
            nexus::fail_attempt(&mut draft, id, failure, 0);
            return Ok(draft.finish(()));
        }
        StartAnswer::Error { failure, retryable: false } => nexus::fail(&mut draft, id, failure),
    }
    workflow_task::schedule_if_none(&mut draft);
    Ok(draft.finish(()))
}

/// A handler answers the request to cancel an operation.
pub fn answer_cancel(
    run: &Run,
    context: Context,
    request: RequestRef,
    answer: CancelAnswer,
) -> Result<Applied<()>, Rejection> {
    let Some(mut draft) = begin_answer(run, context, &request)? else { return Ok(overtaken(run, context, &request)) };
    let id = request.scheduled_event_id;
    match answer {
        CancelAnswer::Accepted => nexus::end_cancellation(&mut draft, id, None),
        CancelAnswer::Error { failure, retryable: true } => {
            nexus::fail_attempt(&mut draft, id, failure, 0);
            return Ok(draft.finish(()));
        }
        CancelAnswer::Error { failure, retryable: false } => nexus::end_cancellation(&mut draft, id, Some(failure)),
    }
    workflow_task::schedule_if_none(&mut draft);
    Ok(draft.finish(()))
}

/// An operation has ended. If the answer to its start is still on its way, what it would say is recorded first.
pub fn complete(run: &Run, context: Context, completion: Completion) -> Result<Applied<()>, Rejection> {
    if !run.is_running() && run.state.standalone_nexus.is_none() {
        return Err(Rejection::Closed);
    }
    let operation = run.state.operations.values().find(|operation| operation.request_id == completion.request_id);
    let operation = operation.ok_or(Rejection::OperationNotFound)?;
    let (id, is_started) = (operation.scheduled_event_id, operation.is_started());
    let mut draft = Draft::new(run, context);
    if operation.is_taken() {
        nexus::overtake(&mut draft, id);
    }
    if !is_started {
        let time = if completion.started_time > 0 { completion.started_time } else { context.now };
        nexus::start(&mut draft, id, completion.token, time, completion.links);
    }
    finish(&mut draft, id, completion.end, Vec::new());
    workflow_task::schedule_if_none(&mut draft);
    Ok(draft.finish(()))
}

/// Writes the event that ends an operation.
fn finish(draft: &mut Draft, id: i64, end: OperationEnd, links: Vec<Link>) {
    let result = match end {
        OperationEnd::Completed(result) => result,
        OperationEnd::Failed(cause) => return nexus::fail(draft, id, cause),
        OperationEnd::Canceled(cause) => {
            return nexus::end(draft, id, links, |operation| {
                Attributes::NexusOperationCanceledEventAttributes(NexusOperationCanceledEventAttributes {
                    scheduled_event_id: id,
                    failure: Some(nexus::failure_of(operation, cause)),
                    request_id: operation.request_id.clone(),
                })
            });
        }
    };
    if result.as_ref().map_or(0, Message::encoded_len) > draft.context.limits.blob_bytes {
        return nexus::fail(draft, id, nexus::call_error("http: response body too large".to_owned(), false));
    }
    nexus::end(draft, id, links, |operation| {
        Attributes::NexusOperationCompletedEventAttributes(NexusOperationCompletedEventAttributes {
            scheduled_event_id: id,
            result,
            request_id: operation.request_id.clone(),
        })
    });
}
