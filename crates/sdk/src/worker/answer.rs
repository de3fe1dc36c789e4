//! Answers to tasks: sent until the server has one, with the same bytes each time.

use std::time::Duration;

use prost::Message;
use segno_proto::workflowservice::{
    RespondActivityTaskCanceledRequest, RespondActivityTaskCompletedRequest, RespondActivityTaskFailedRequest,
};
use tokio::time::{Instant, sleep};
use tonic::{Code, Status};

use crate::{
    client::{Client, Waits, is_retryable, unary},
    failure::Failure,
};

/// One attempt of a call.
const ATTEMPT: Duration = Duration::from_secs(20);
/// What servers take in one message, less what the call itself needs.
const ANSWER_BYTES_MAX: usize = 4 * 1024 * 1024 - 16 * 1024;

/// What a task is answered with.
pub(super) enum TaskAnswer {
    Completed(RespondActivityTaskCompletedRequest),
    Failed(Box<RespondActivityTaskFailedRequest>),
    Canceled(RespondActivityTaskCanceledRequest),
}

/// Sends an answer. What the server refuses for good, such as a result that is too large, becomes a failure.
pub(super) async fn send(client: &Client, answer: TaskAnswer, until: Instant) {
    let size = answer.size();
    let refused = match size > ANSWER_BYTES_MAX {
        true => Some(format!("the answer has {size} bytes; at most {ANSWER_BYTES_MAX} can be sent")),
        false => repeat(client, &answer, until).await.err(),
    };
    if let Some(message) = refused {
        tracing::error!(%message, "an answer to a task was refused");
        // The details of whatever it was may be what the server does not take: only the message is kept.
        let _ = repeat(client, &answer.instead(message), until).await;
    }
}

/// Sends an answer until there is an outcome. `Err`: the server does not take it.
async fn repeat(client: &Client, answer: &TaskAnswer, until: Instant) -> Result<(), String> {
    let mut waits = Waits::default();
    let mut sent_before = false;
    loop {
        let Err(status) = answer.call(client).await else { return Ok(()) };
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
    async fn call(&self, client: &Client) -> Result<(), Status> {
        match self {
            Self::Completed(it) => client.once(&unary::ACTIVITY_TASK_COMPLETED, it, ATTEMPT).await.map(|_| ()),
            Self::Failed(it) => client.once(&unary::ACTIVITY_TASK_FAILED, it, ATTEMPT).await.map(|_| ()),
            Self::Canceled(it) => client.once(&unary::ACTIVITY_TASK_CANCELED, it, ATTEMPT).await.map(|_| ()),
        }
    }

    fn size(&self) -> usize {
        match self {
            Self::Completed(request) => request.encoded_len(),
            Self::Failed(request) => request.encoded_len(),
            Self::Canceled(request) => request.encoded_len(),
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
