//! Answers to tasks: repeated with the same bytes until the server acknowledges one.

use std::time::Duration;

use segno_proto::workflowservice::{
    RespondActivityTaskCanceledRequest, RespondActivityTaskCompletedRequest, RespondActivityTaskFailedRequest,
};
use tokio::time::{Instant, sleep};
use tonic::Code;

use crate::{
    client::{
        Client, Waits, is_retryable,
        unary::{self, EncodedCall},
    },
    failure::Failure,
};

/// One attempt of a call.
const ATTEMPT: Duration = Duration::from_secs(20);
/// The largest message that servers accept, less the bytes of the call itself.
const ANSWER_BYTES_MAX: usize = 4 * 1024 * 1024 - 16 * 1024;

/// The answer to a task.
pub(super) enum TaskAnswer {
    Completed(RespondActivityTaskCompletedRequest),
    Failed(Box<RespondActivityTaskFailedRequest>),
    Canceled(RespondActivityTaskCanceledRequest),
}

/// Sends an answer. What the server refuses for good, such as a result that is too large, becomes a failure.
pub(super) async fn send(client: &Client, answer: TaskAnswer, until: Instant) {
    let call = answer.encode();
    let refused = match call.len() > ANSWER_BYTES_MAX {
        true => Some(format!("the answer has {} bytes; at most {ANSWER_BYTES_MAX} can be sent", call.len())),
        false => repeat(client, &call, until).await.err(),
    };
    if let Some(message) = refused {
        tracing::error!(%message, "an answer to a task was refused");
        // The details of the failure may be what the server does not take: only the message is kept.
        let _ = repeat(client, &answer.instead(message).encode(), until).await;
    }
}

/// Sends an answer until there is an outcome. `Err`: the server does not take it.
async fn repeat(client: &Client, call: &EncodedCall, until: Instant) -> Result<(), String> {
    let mut waits = Waits::default();
    let mut sent_before = false;
    loop {
        let Err(status) = client.once_encoded(call, ATTEMPT).await else { return Ok(()) };
        match status.code() {
            // The first may have arrived although its answer did not.
            Code::NotFound if sent_before => return Ok(()),
            Code::NotFound => {
                tracing::info!(message = status.message(), "a task was over before it was answered");
                return Ok(());
            }
            code if is_retryable(code) => {
                let wait = waits.next(code);
                if Instant::now() + wait > until {
                    tracing::error!(?code, message = status.message(), "a task could not be answered in time");
                    return Ok(());
                }
                tracing::debug!(?code, message = status.message(), ?wait, "an answer to a task is repeated");
                sent_before = true;
                sleep(wait).await;
            }
            code => return Err(format!("{code:?}: {}", status.message())),
        }
    }
}

impl TaskAnswer {
    fn encode(&self) -> EncodedCall {
        match self {
            Self::Completed(request) => unary::ACTIVITY_TASK_COMPLETED.encode(request),
            Self::Failed(request) => unary::ACTIVITY_TASK_FAILED.encode(request),
            Self::Canceled(request) => unary::ACTIVITY_TASK_CANCELED.encode(request),
        }
    }

    /// A failure in its place. The same answer would be refused again, so that there is no further attempt.
    fn instead(self, message: String) -> Self {
        let (task_token, namespace, identity, deployment_options) = match self {
            Self::Completed(request) => {
                (request.task_token, request.namespace, request.identity, request.deployment_options)
            }
            Self::Failed(request) => {
                (request.task_token, request.namespace, request.identity, request.deployment_options)
            }
            Self::Canceled(request) => {
                (request.task_token, request.namespace, request.identity, request.deployment_options)
            }
        };
        let failure: Failure = Failure::application("AnswerRefused", message).non_retryable().into();
        Self::Failed(Box::new(RespondActivityTaskFailedRequest {
            task_token,
            namespace,
            identity,
            deployment_options,
            failure: Some(failure.to_wire()),
            ..Default::default()
        }))
    }
}
