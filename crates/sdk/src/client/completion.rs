//! Completes tasks by token or by ids, from any program.

use bytes::Bytes;
use segno_proto::workflowservice::{
    RecordActivityTaskHeartbeatByIdRequest, RecordActivityTaskHeartbeatRequest, RespondActivityTaskCanceledByIdRequest,
    RespondActivityTaskCanceledRequest, RespondActivityTaskCompletedByIdRequest, RespondActivityTaskCompletedRequest,
    RespondActivityTaskFailedByIdRequest, RespondActivityTaskFailedRequest,
};
use serde::Serialize;

use super::{Client, ClientError};
use crate::{converter, failure::Failure};

/// Which task it is.
#[derive(Clone, Debug)]
enum Target {
    Token(Bytes),
    Ids { workflow_id: String, run_id: String, task_id: String },
}

/// A task that is finished from outside.
#[derive(Clone, Debug)]
pub struct TaskCompletion {
    client: Client,
    target: Target,
}

/// The server's reply to a heartbeat.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TaskHeartbeat {
    /// The workflow wants it to stop.
    pub cancel_requested: bool,
    /// It is paused: this attempt should end.
    pub paused: bool,
    /// It is to begin again: this attempt should end.
    pub reset: bool,
}

impl Client {
    /// The task with this token.
    pub fn task_by_token(&self, token: impl Into<Bytes>) -> TaskCompletion {
        TaskCompletion { client: self.clone(), target: Target::Token(token.into()) }
    }

    /// The task with this id, of this workflow. An empty run id is the current run.
    pub fn task_by_id(
        &self,
        workflow_id: impl Into<String>,
        run_id: impl Into<String>,
        task_id: impl Into<String>,
    ) -> TaskCompletion {
        let target = Target::Ids { workflow_id: workflow_id.into(), run_id: run_id.into(), task_id: task_id.into() };
        TaskCompletion { client: self.clone(), target }
    }
}

impl TaskCompletion {
    /// Finishes it with a result.
    pub async fn complete<T: Serialize + Send + Sync + 'static>(&self, result: T) -> Result<(), ClientError> {
        let result = self.client.outgoing(converter::encode(&result, 1)?).await?;
        let (namespace, identity) = (self.client.namespace().to_owned(), self.client.identity().to_owned());
        match self.target.clone() {
            Target::Token(task_token) => {
                let request = RespondActivityTaskCompletedRequest {
                    task_token,
                    result,
                    identity,
                    namespace,
                    ..Default::default()
                };
                self.client
                    .call(|mut service| {
                        let request = request.clone();
                        async move { service.respond_activity_task_completed(request).await }
                    })
                    .await?;
            }
            Target::Ids { workflow_id, run_id, task_id: activity_id } => {
                let request = RespondActivityTaskCompletedByIdRequest {
                    namespace,
                    workflow_id,
                    run_id,
                    activity_id,
                    result,
                    identity,
                    ..Default::default()
                };
                self.client
                    .call(|mut service| {
                        let request = request.clone();
                        async move { service.respond_activity_task_completed_by_id(request).await }
                    })
                    .await?;
            }
        }
        Ok(())
    }

    /// This attempt failed. Whether there is another is for the retry policy to say.
    pub async fn fail(&self, failure: impl Into<Failure> + Send) -> Result<(), ClientError> {
        let failure: Failure = failure.into();
        let failure = Some(self.client.codecs().encode_failure(failure.to_wire()).await?);
        let (namespace, identity) = (self.client.namespace().to_owned(), self.client.identity().to_owned());
        match self.target.clone() {
            Target::Token(task_token) => {
                let request =
                    RespondActivityTaskFailedRequest { task_token, failure, identity, namespace, ..Default::default() };
                self.client
                    .call(|mut service| {
                        let request = request.clone();
                        async move { service.respond_activity_task_failed(request).await }
                    })
                    .await?;
            }
            Target::Ids { workflow_id, run_id, task_id: activity_id } => {
                let request = RespondActivityTaskFailedByIdRequest {
                    namespace,
                    workflow_id,
                    run_id,
                    activity_id,
                    failure,
                    identity,
                    ..Default::default()
                };
                self.client
                    .call(|mut service| {
                        let request = request.clone();
                        async move { service.respond_activity_task_failed_by_id(request).await }
                    })
                    .await?;
            }
        }
        Ok(())
    }

    /// It was cancelled, as the workflow requested.
    pub async fn cancelled(&self) -> Result<(), ClientError> {
        let (namespace, identity) = (self.client.namespace().to_owned(), self.client.identity().to_owned());
        match self.target.clone() {
            Target::Token(task_token) => {
                let request =
                    RespondActivityTaskCanceledRequest { task_token, identity, namespace, ..Default::default() };
                self.client
                    .call(|mut service| {
                        let request = request.clone();
                        async move { service.respond_activity_task_canceled(request).await }
                    })
                    .await?;
            }
            Target::Ids { workflow_id, run_id, task_id: activity_id } => {
                let request = RespondActivityTaskCanceledByIdRequest {
                    namespace,
                    workflow_id,
                    run_id,
                    activity_id,
                    identity,
                    ..Default::default()
                };
                self.client
                    .call(|mut service| {
                        let request = request.clone();
                        async move { service.respond_activity_task_canceled_by_id(request).await }
                    })
                    .await?;
            }
        }
        Ok(())
    }

    /// It is still being worked on. The details are there for the next attempt.
    pub async fn heartbeat<T: Serialize + Send + Sync + 'static>(
        &self,
        details: T,
    ) -> Result<TaskHeartbeat, ClientError> {
        let details = self.client.outgoing(converter::encode(&details, 1)?).await?;
        let (namespace, identity) = (self.client.namespace().to_owned(), self.client.identity().to_owned());
        match self.target.clone() {
            Target::Token(task_token) => {
                let request = RecordActivityTaskHeartbeatRequest {
                    task_token,
                    details,
                    identity,
                    namespace,
                    ..Default::default()
                };
                let answer = self
                    .client
                    .call(|mut service| {
                        let request = request.clone();
                        async move { service.record_activity_task_heartbeat(request).await }
                    })
                    .await?;
                Ok(TaskHeartbeat {
                    cancel_requested: answer.cancel_requested,
                    paused: answer.activity_paused,
                    reset: answer.activity_reset,
                })
            }
            Target::Ids { workflow_id, run_id, task_id: activity_id } => {
                let request = RecordActivityTaskHeartbeatByIdRequest {
                    namespace,
                    workflow_id,
                    run_id,
                    activity_id,
                    details,
                    identity,
                    ..Default::default()
                };
                let answer = self
                    .client
                    .call(|mut service| {
                        let request = request.clone();
                        async move { service.record_activity_task_heartbeat_by_id(request).await }
                    })
                    .await?;
                Ok(TaskHeartbeat {
                    cancel_requested: answer.cancel_requested,
                    paused: answer.activity_paused,
                    reset: answer.activity_reset,
                })
            }
        }
    }
}
