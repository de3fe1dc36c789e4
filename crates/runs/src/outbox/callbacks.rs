//! Delivers the end of a workflow to the Nexus operation for which it stands, or to a URL.

use std::{sync::Arc, time::Duration};

use segno_engine::{
    Applied, Context, Rejection, Run,
    callbacks::{self, RegisteredCallback, UpdateReport},
    nexus::{self, Completion},
    outbox::{CallbackDue, CallbackReport, Content, OutboxMessage},
    standalone,
};
use segno_environment::metrics::count;
use segno_proto::{
    Nanos,
    common::{
        Callback, Link,
        link::{
            Activity, Variant, WorkflowEvent,
            workflow_event::{EventReference, Reference, RequestIdReference},
        },
    },
    enums::EventType,
    events::HistoryEvent,
    failure::Failure,
};
use segno_store::{Commit, OutboxKey, RunKey};

use super::deliver::DeliveryStep;
use crate::{
    error::CallError,
    ports::{DueCallback, owner::DeliveryResult},
    runs::Runs,
    slots::{Current, RunSelector, WorkflowKey},
    tokens::CallbackToken,
    transact::run_write,
};

/// When a request is made again whose outcome is not known, or could not be noted.
const RETRY_DELAY: Nanos = 1_000_000_000;

/// The report of a callback.
pub struct DueReport {
    /// The end of the run.
    pub report: CallbackReport,
    /// When the attempt is due.
    due_time: Nanos,
}

/// Why a receiver rejects a message: its run is closed.
const CLOSED: i32 = 1;
/// The row of a message that no run sent: none is removed with it.
pub(super) const NO_ROW: OutboxKey = OutboxKey { sender: RunKey(0), sequence: 0 };

/// The outcome of the request of a callback.
#[derive(Clone, Debug)]
pub enum CallbackOutcome {
    /// It was delivered, or refused for good.
    Settled(Result<(), Failure>),
    /// It is to be repeated, after this pause at least.
    Failed(Failure, Nanos),
    /// The request could not be made; nothing is known of the callback's address.
    Interrupted,
    /// Its run is gone.
    Gone,
}

/// Why the report that an operation ended is not accepted.
#[derive(Debug, thiserror::Error)]
pub enum CompletionError {
    /// This server did not make its token.
    #[error("invalid callback token")]
    Token,
    /// The workflow is closed.
    #[error("workflow execution already completed")]
    Closed,
    /// The operation has ended, or its workflow is gone.
    #[error("operation not found")]
    OperationNotFound,
    /// It may be accepted later.
    #[error(transparent)]
    Call(#[from] CallError),
}

impl Runs {
    /// Delivers a callback, and notes at its run what became of it. One that goes to a URL is handed to the part that sends requests.
    pub(super) async fn call_back(
        self: &Arc<Self>,
        message: &OutboxMessage,
        due: &CallbackDue,
        key: OutboxKey,
    ) -> Result<DeliveryStep, CallError> {
        let Some(DueReport { report, due_time }) = self.callback_report(message, due.index).await? else {
            return self.drop_message(message, key).await.map(|()| DeliveryStep::Delivered);
        };
        if let Some(url) = callbacks::http_url(&report.callback) {
            let pause = due_time - self.clock_now();
            return Ok(match u64::try_from(pause) {
                Ok(pause) if pause > 0 => DeliveryStep::Later(Duration::from_nanos(pause)),
                _ => DeliveryStep::HandOver { index: due.index, url: url.to_owned() },
            });
        }
        let refused = callbacks::refused_token(&report.callback, &message.sender.run_id);
        let result = match self.caller_of(&report.callback) {
            None => Err(callbacks::refusal(refused)),
            Some((caller, _)) => {
                let due = CallbackDue { index: due.index, report: Some(report) };
                let filled = OutboxMessage { content: Some(Content::Callback(due)), ..message.clone() };
                match self.at_receiver(&caller, &filled, key).await? {
                    DeliveryResult::Rejected(code) => {
                        let why =
                            if code == CLOSED { CompletionError::Closed } else { CompletionError::OperationNotFound };
                        Err(callbacks::refusal(format!("handler error (NOT_FOUND): {why}")))
                    }
                    _ => Ok(()),
                }
            }
        };
        self.settle_callback(message, due.index, result, key).await.map(|()| DeliveryStep::Delivered)
    }

    /// Notes what became of a callback at its run, and removes its message.
    async fn settle_callback(
        self: &Arc<Self>,
        message: &OutboxMessage,
        index: u32,
        result: Result<(), Failure>,
        key: OutboxKey,
    ) -> Result<(), CallError> {
        count(if result.is_ok() { &self.metrics.callbacks_delivered } else { &self.metrics.callbacks_failed });
        let settle = |run: &Run, context| callbacks::settle(run, context, index, result.clone());
        match self.change_callback(message, vec![key], settle).await? {
            Some(()) => Ok(()),
            None => self.drop_message(message, key).await,
        }
    }

    /// Notes something about a callback at its run, which is closed and may no longer be the current one of its workflow. `None` if it is gone.
    async fn change_callback<T: Send + 'static>(
        self: &Arc<Self>,
        message: &OutboxMessage,
        removed: Vec<OutboxKey>,
        change: impl Fn(&Run, Context) -> Result<Applied<T>, Rejection>,
    ) -> Result<Option<T>, CallError> {
        let (sender, run_id) = (&message.sender, &message.sender.run_id);
        let Some((namespace, workflow)) = self.key_of(&message.sender_namespace, &sender.workflow_id) else {
            return Ok(None);
        };
        let mut locked = self.lock(&workflow).await?;
        let context = self.context(namespace.key);
        let current = locked.state.current.clone().filter(|current| current.run.info.run_id == *run_id);
        if let Some(current) = current {
            return match change(&current.run, context) {
                Ok(changed) => self.commit(&mut locked, changed, removed).await.map(Some),
                Err(_) => Ok(None),
            };
        }
        let older = match self.older_run(&workflow, run_id).await {
            Ok(older) => older,
            Err(CallError::RunNotFound { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        let Ok(changed) = change(&older.run, context) else { return Ok(None) };
        let write = run_write(&changed.run, older.version, &[], context.now);
        let commit = Commit { runs: vec![write], outbox_remove: removed, ..Default::default() };
        self.committer.commit_of(namespace.key, commit).await?;
        Ok(Some(changed.reply))
    }

    /// The request of a callback was answered, or is not: notes it at its run. The message is repeated later, or has done its work.
    pub async fn callback_answered(self: &Arc<Self>, callback: DueCallback, outcome: CallbackOutcome) {
        let DueCallback { namespace, row, message, index, .. } = callback;
        let noted = match outcome {
            CallbackOutcome::Interrupted => Ok(Some(self.clock_now() + RETRY_DELAY)),
            CallbackOutcome::Gone => self.drop_message(&message, row.key).await.map(|()| None),
            CallbackOutcome::Settled(result) => {
                self.settle_callback(&message, index, result, row.key).await.map(|()| None)
            }
            CallbackOutcome::Failed(failure, pause_min) => {
                let fail = |run: &Run, context| callbacks::fail_attempt(run, context, index, &failure, pause_min);
                match self.change_callback(&message, Vec::new(), fail).await {
                    Ok(Some(Some(due))) => Ok(Some(due)),
                    // It was the last attempt, or the run is gone.
                    Ok(_) => self.drop_message(&message, row.key).await.map(|()| None),
                    Err(error) => Err(error),
                }
            }
        };
        let due = noted.unwrap_or_else(|error| {
            tracing::warn!(%error, "the outcome of a callback was not noted; the callback is repeated");
            Some(self.clock_now() + RETRY_DELAY)
        });
        match due {
            None => self.outbox.forget(row.key),
            Some(due) => {
                let pause = u64::try_from(due - self.clock_now()).unwrap_or_default();
                self.outbox.delay(namespace, row, Duration::from_nanos(pause));
            }
        }
    }

    /// The report of a callback, from the run that it belongs to; `None` if that is gone, or has forgotten it.
    pub async fn callback_report(&self, message: &OutboxMessage, index: u32) -> Result<Option<DueReport>, CallError> {
        let sender = &message.sender;
        let Some((_, key)) = self.key_of(&message.sender_namespace, &sender.workflow_id) else { return Ok(None) };
        let current = match self.snapshot(&key, &sender.run_id).await {
            Ok(current) => current,
            Err(CallError::WorkflowNotFound { .. } | CallError::RunNotFound { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        let run = &current.run;
        let Some(registered) = run.state().callbacks.get(index as usize) else { return Ok(None) };
        let Some(callback) = registered.callback.clone() else { return Ok(None) };
        let closing_event = self.end_reported_by(&current, registered).await?;
        let started_time = if registered.time > 0 { registered.time } else { run.info.start_time };
        let link = Some(link_to_start(run, registered));
        let report = CallbackReport { callback, closing_event, started_time, link, reported: None };
        Ok(Some(DueReport { report, due_time: registered.due_time }))
    }

    /// The event that says how that ended whose end a callback reports.
    async fn end_reported_by(
        &self,
        current: &Current,
        registered: &RegisteredCallback,
    ) -> Result<HistoryEvent, CallError> {
        let run = &current.run;
        if !registered.update_id.is_empty() {
            return match callbacks::end_of_update(run, &registered.update_id) {
                UpdateReport::Stored(event_id) => self.stored_event(current, event_id).await,
                UpdateReport::Made(event) => Ok(*event),
            };
        }
        match callbacks::end_of_activity(run) {
            Some(end) => Ok(end),
            None => self.stored_event(current, run.state().close_event_id).await,
        }
    }

    /// The workflow whose operation a callback reports to, and the token that says so; `None` if this server did not make the token.
    pub fn caller_of(&self, callback: &Callback) -> Option<(WorkflowKey, CallbackToken)> {
        let token = callbacks::header(callback, callbacks::TOKEN_HEADER)?;
        let (namespace, token) = self.open_callback_token(token)?;
        Some((WorkflowKey::new(namespace.key, &token.workflow_id), token))
    }

    /// Delivers the report of a handler outside the server to the node of the workflow whose operation it is about. The receiver rejects it
    /// as it does a callback.
    pub async fn completed_outside(self: &Arc<Self>, report: CallbackReport) -> Result<(), CompletionError> {
        let (caller, _) = self.caller_of(&report.callback).ok_or(CompletionError::Token)?;
        let due = CallbackDue { index: 0, report: Some(report) };
        let message = OutboxMessage { content: Some(Content::Callback(due)), ..Default::default() };
        match self.at_receiver(&caller, &message, NO_ROW).await? {
            DeliveryResult::Rejected(CLOSED) => Err(CompletionError::Closed),
            DeliveryResult::Rejected(_) => Err(CompletionError::OperationNotFound),
            _ => Ok(()),
        }
    }

    /// The receiver's half of a callback.
    pub(super) async fn operation_ended(
        self: &Arc<Self>,
        caller: &WorkflowKey,
        due: &CallbackDue,
    ) -> Result<DeliveryResult, CallError> {
        let report = due.report.clone().unwrap_or_default();
        let Some((_, token)) = self.caller_of(&report.callback) else { return Ok(DeliveryResult::Rejected(0)) };
        let operation_token = callbacks::header(&report.callback, callbacks::OPERATION_TOKEN_HEADER);
        let completion = Completion {
            request_id: token.request_id.clone(),
            token: operation_token.unwrap_or_default().to_owned(),
            started_time: report.started_time,
            links: report.link.iter().chain(report.reported.iter().flat_map(|end| &end.links)).cloned().collect(),
            end: callbacks::end_of(&report),
        };
        match self.complete_operation(caller, &token, completion).await {
            Ok(()) => Ok(DeliveryResult::Done),
            Err(CallError::Rejected(Rejection::Closed)) => Ok(DeliveryResult::Rejected(CLOSED)),
            Err(CallError::Rejected(Rejection::OperationNotFound)) => Ok(DeliveryResult::Rejected(0)),
            Err(CallError::WorkflowNotFound { .. } | CallError::RunNotFound { .. }) => Ok(DeliveryResult::Rejected(0)),
            Err(error) => Err(error),
        }
    }

    /// Reports the end of an operation to the run that waits for it: the run of the token, or, if that was reset, the current one.
    pub async fn complete_operation(
        self: &Arc<Self>,
        caller: &WorkflowKey,
        token: &CallbackToken,
        completion: Completion,
    ) -> Result<(), CallError> {
        let complete = |completion: Completion| move |run: &Run, context| nexus::complete(run, context, completion);
        let own = RunSelector::run(token.run_id.clone());
        match self.apply(caller, &own, complete(completion.clone())).await {
            Err(
                CallError::Rejected(Rejection::Closed | Rejection::OperationNotFound) | CallError::RunNotFound { .. },
            ) => self.apply(caller, &RunSelector::default(), complete(completion)).await,
            other => other,
        }
    }
}

/// A link to the event that stands for the start of the operation: the start of the workflow, or the later start that was attached to it.
/// Of an activity, a link to it.
fn link_to_start(run: &Run, registered: &RegisteredCallback) -> Link {
    let request_id = &registered.request_id;
    let to_request = |kind: EventType| {
        Reference::RequestIdRef(RequestIdReference { request_id: request_id.clone(), event_type: kind as i32 })
    };
    if run.state().standalone.is_some() {
        let activity_id = run.info.workflow_id.trim_start_matches(standalone::WORKFLOW_ID_PREFIX).to_owned();
        let (namespace, run_id) = (run.info.namespace.clone(), run.info.run_id.clone());
        return Link { variant: Some(Variant::Activity(Activity { namespace, activity_id, run_id })) };
    }
    let is_attached = run.state().attached_request_ids.contains_key(request_id);
    let reference = match is_attached {
        _ if !registered.update_id.is_empty() => to_request(EventType::WorkflowExecutionUpdateAccepted),
        true => to_request(EventType::WorkflowExecutionOptionsUpdated),
        false => {
            Reference::EventRef(EventReference { event_id: 1, event_type: EventType::WorkflowExecutionStarted as i32 })
        }
    };
    Link {
        variant: Some(Variant::WorkflowEvent(WorkflowEvent {
            namespace: run.info.namespace.clone(),
            workflow_id: run.info.workflow_id.clone(),
            run_id: run.info.run_id.clone(),
            reference: Some(reference),
        })),
    }
}
