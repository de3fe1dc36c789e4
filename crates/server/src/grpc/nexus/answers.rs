//! The answers of workers to requests to their handlers.

use segno_engine::{
    Rejection, Run,
    nexus::{CancelAnswer, RequestRef, StartAnswer, answer_cancel, answer_start},
};
use segno_nexus::{failed_task, start_answer};
use segno_node::{CallAnswer, CallError, NexusCallToken, NexusTaskToken, RunSelector, WorkflowKey};
use segno_proto::workflowservice::{
    RespondNexusTaskCompletedRequest, RespondNexusTaskCompletedResponse, RespondNexusTaskFailedRequest,
    RespondNexusTaskFailedResponse,
};
use segno_store::NamespaceKey;
use tonic::Status;

use super::commands::CommandToken;
use crate::grpc::{Workflows, failed};

/// The answer of a worker.
enum Answer {
    Start(StartAnswer),
    Cancel(CancelAnswer),
}

impl Workflows {
    /// A worker has carried out a request to its handler, or a command.
    pub(crate) async fn nexus_task_completed(
        &self,
        request: RespondNexusTaskCompletedRequest,
    ) -> Result<RespondNexusTaskCompletedResponse, Status> {
        let reply = RespondNexusTaskCompletedResponse::default();
        let token = match self.open::<NexusTaskToken>(&request.namespace, &request.task_token) {
            Ok((_, token)) => token,
            Err(refused) => {
                if let Ok((_, token)) = self.open::<NexusCallToken>(&request.namespace, &request.task_token) {
                    start_answer(request.response.clone()).map_err(Status::invalid_argument)?;
                    self.answer_call(&token, CallAnswer::Completed(request.response))?;
                    return Ok(reply);
                }
                // Whether an activity stopped that a command ended is seen by its own report.
                self.open::<CommandToken>(&request.namespace, &request.task_token).map_err(|_| refused)?;
                return Ok(reply);
            }
        };
        let answer = match token.cancel {
            true => Answer::Cancel(CancelAnswer::Accepted),
            false => Answer::Start(start_answer(request.response).map_err(Status::invalid_argument)?),
        };
        self.answer_request(token, answer).await?;
        Ok(reply)
    }

    /// A handler could not carry out a request, or a worker a command.
    pub(crate) async fn nexus_task_failed(
        &self,
        request: RespondNexusTaskFailedRequest,
    ) -> Result<RespondNexusTaskFailedResponse, Status> {
        let reply = RespondNexusTaskFailedResponse::default();
        let token = match self.open::<NexusTaskToken>(&request.namespace, &request.task_token) {
            Ok((_, token)) => token,
            Err(refused) => {
                if let Ok((_, token)) = self.open::<NexusCallToken>(&request.namespace, &request.task_token) {
                    failed_task(request.error.clone(), request.failure.clone()).map_err(Status::invalid_argument)?;
                    self.answer_call(&token, CallAnswer::Failed(request.error, request.failure))?;
                    return Ok(reply);
                }
                let (_, token) =
                    self.open::<CommandToken>(&request.namespace, &request.task_token).map_err(|_| refused)?;
                tracing::debug!(command = token.id, "a worker did not carry out a command");
                return Ok(reply);
            }
        };
        let (failure, retryable) = failed_task(request.error, request.failure).map_err(Status::invalid_argument)?;
        self.node.runs.metrics.nexus_request_failed();
        let answer = match token.cancel {
            true => Answer::Cancel(CancelAnswer::Error { failure, retryable }),
            false => Answer::Start(StartAnswer::Error { failure, retryable }),
        };
        self.answer_request(token, answer).await?;
        Ok(reply)
    }

    /// Hands the answer to a direct call to its caller, who waits at this node.
    fn answer_call(&self, token: &NexusCallToken, answer: CallAnswer) -> Result<(), Status> {
        match self.node.dispatch.direct_calls.answer(token.call, answer) {
            true => Ok(()),
            false => Err(failed(Rejection::NexusTaskNotFound.into())),
        }
    }

    async fn answer_request(&self, token: NexusTaskToken, answer: Answer) -> Result<(), Status> {
        let request =
            RequestRef { scheduled_event_id: token.scheduled_event_id, cancel: token.cancel, stamp: token.stamp };
        let key = WorkflowKey::new(NamespaceKey(token.namespace), &token.workflow_id);
        let take = move |run: &Run, context| match answer {
            Answer::Start(answer) => answer_start(run, context, request, answer),
            Answer::Cancel(answer) => answer_cancel(run, context, request, answer),
        };
        let taken = self.node.runs.transact(&key, &RunSelector::run(token.run_id), take).await;
        taken.map_err(|error| failed(over(error)))
    }
}

/// A run that is closed or gone has no open requests.
fn over(error: CallError) -> CallError {
    match error {
        CallError::WorkflowNotFound { .. } | CallError::RunNotFound { .. } => Rejection::NexusTaskNotFound.into(),
        error => error,
    }
}
