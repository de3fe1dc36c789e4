//! Answers to requests of Nexus operations.

// Servers that take no failures of Temporal's take the field that the protocol has replaced.
#![allow(deprecated)]

use std::time::Duration;

use segno_proto::{
    common::Payload,
    failure::{Failure as WireFailure, NexusHandlerFailureInfo, failure::FailureInfo},
    nexus::{
        self, CancelOperationResponse, Link, StartOperationResponse, UnsuccessfulOperationError, response,
        start_operation_response as start,
    },
    workflowservice::{PollNexusTaskQueueResponse, RespondNexusTaskCompletedRequest, RespondNexusTaskFailedRequest},
};
use segno_proto_json::{View, to_json};
use tokio::time::{Instant, timeout_at};
use tonic::{Code, Status};

use super::shared::Shared;
use crate::{
    failure::Failure,
    nexus::{HandlerError, HandlerErrorType, StartedOperation},
};

/// How long an answer is worth to be repeated, if the server does not say.
const LIMIT: Duration = Duration::from_secs(10);
/// How a failure of Temporal is named where a failure of Nexus is expected.
const FAILURE: &str = "temporal.api.failure.v1.Failure";

/// The answer to a request.
pub(super) enum Answer {
    Started(StartedOperation<Option<Payload>>, Vec<Link>),
    /// The operation has ended without a result.
    Ended(WireFailure),
    /// A request to cancel was carried out.
    Cancelled,
    /// The request was not carried out.
    Failed(WireFailure),
}

/// Sends an answer. What the server refuses, such as a result that is too large, fails the operation instead.
pub(super) async fn send(
    shared: &Shared,
    task: &PollNexusTaskQueueResponse,
    answer: Answer,
    deadline: Option<Instant>,
) {
    // The server may wait a little longer than it says.
    let until = deadline.unwrap_or_else(Instant::now) + LIMIT;
    let refused = match timeout_at(until, respond(shared, task, answer)).await {
        Ok(Err(status)) if status.code() == Code::InvalidArgument => status,
        Ok(Err(status)) if status.code() == Code::NotFound => {
            return tracing::info!(message = status.message(), "a Nexus request was over before it was answered");
        }
        Ok(Err(status)) => {
            return tracing::warn!(code = ?status.code(), message = status.message(), "an answer to a Nexus request was not taken");
        }
        Err(_) => return tracing::warn!("an answer to a Nexus request did not reach the server in time"),
        Ok(Ok(())) => return,
    };
    tracing::error!(message = refused.message(), "an answer to a Nexus request was refused");
    let message = format!("the server refused the handler's answer: {}", refused.message());
    let error = HandlerError::new(HandlerErrorType::Internal, message).retryable(false);
    let _ = timeout_at(until, respond(shared, task, Answer::Failed(error.failure().to_wire()))).await;
}

async fn respond(shared: &Shared, task: &PollNexusTaskQueueResponse, answer: Answer) -> Result<(), Status> {
    let takes_failures = task
        .request
        .as_ref()
        .and_then(|request| request.capabilities)
        .is_some_and(|capabilities| capabilities.temporal_failure_responses);
    let variant = match answer {
        Answer::Failed(failure) => {
            let failure = encoded(shared, failure).await;
            let (error, failure) = match takes_failures {
                true => (None, Some(failure)),
                false => (Some(handler_error(failure)), None),
            };
            let request = RespondNexusTaskFailedRequest {
                namespace: shared.client.namespace().to_owned(),
                identity: shared.identity.clone(),
                task_token: task.task_token.clone(),
                error,
                failure,
                ..Default::default()
            };
            let call = shared.client.call(|mut service| {
                let request = request.clone();
                async move { service.respond_nexus_task_failed(request).await }
            });
            return call.await.map(|_| ());
        }
        Answer::Cancelled => response::Variant::CancelOperation(CancelOperationResponse {}),
        Answer::Ended(failure) => {
            let failure = encoded(shared, failure).await;
            let variant = match takes_failures {
                true => start::Variant::Failure(failure),
                false => start::Variant::OperationError(operation_error(failure)),
            };
            started(variant)
        }
        Answer::Started(operation, links) => started(match operation.into_result() {
            Ok(payload) => start::Variant::SyncSuccess(start::Sync { payload, links }),
            Err(token) => {
                start::Variant::AsyncSuccess(start::Async { operation_token: token, links, ..Default::default() })
            }
        }),
    };
    let request = RespondNexusTaskCompletedRequest {
        namespace: shared.client.namespace().to_owned(),
        identity: shared.identity.clone(),
        task_token: task.task_token.clone(),
        response: Some(nexus::Response { variant: Some(variant) }),
        ..Default::default()
    };
    let call = shared.client.call(|mut service| {
        let request = request.clone();
        async move { service.respond_nexus_task_completed(request).await }
    });
    call.await.map(|_| ())
}

fn started(variant: start::Variant) -> response::Variant {
    response::Variant::StartOperation(StartOperationResponse { variant: Some(variant) })
}

/// A failure after the client's codecs. One that cannot be encoded is sent as its message alone.
async fn encoded(shared: &Shared, failure: WireFailure) -> WireFailure {
    let (message, failure_info) = (failure.message.clone(), failure.failure_info.clone());
    match shared.client.codecs().encode_failure(failure).await {
        Ok(failure) => failure,
        Err(error) => {
            let message = format!("{message} (its details cannot be encoded: {error})");
            // Only that of a handler error has no details.
            let info = failure_info.filter(|info| matches!(info, FailureInfo::NexusHandlerFailureInfo(_)));
            let plain = Failure::application("Conversion", message.clone()).to_wire();
            WireFailure { message, failure_info: info.or(plain.failure_info), ..Default::default() }
        }
    }
}

/// The error for servers that take no failures of Temporal's.
fn handler_error(mut failure: WireFailure) -> nexus::HandlerError {
    let info = match failure.failure_info.take() {
        Some(FailureInfo::NexusHandlerFailureInfo(info)) => info,
        _ => NexusHandlerFailureInfo::default(),
    };
    // The type and the behaviour are the error's own; what happened is in the cause.
    let failure = failure.cause.take().map_or(failure, |cause| *cause);
    nexus::HandlerError { error_type: info.r#type, failure: Some(plain(failure)), retry_behavior: info.retry_behavior }
}

/// The same for the end of an operation.
fn operation_error(failure: WireFailure) -> UnsuccessfulOperationError {
    let is_canceled = matches!(failure.failure_info, Some(FailureInfo::CanceledFailureInfo(_)));
    let state = if is_canceled { "canceled" } else { "failed" };
    UnsuccessfulOperationError { operation_state: state.to_owned(), failure: Some(plain(failure)) }
}

/// A failure of Temporal's in one of Nexus: its message, and the rest as JSON.
fn plain(failure: WireFailure) -> nexus::Failure {
    let message = failure.message.clone();
    let rest = WireFailure { message: String::new(), ..failure };
    let details = to_json(FAILURE, &rest, View::EXACT).print(false, |_| false);
    let metadata = [("type".to_owned(), FAILURE.to_owned())].into();
    nexus::Failure { message, metadata, details: details.into(), ..Default::default() }
}
