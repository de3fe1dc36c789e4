//! Updates: sends them, and waits for a stage.

use std::marker::PhantomData;

use segno_proto::{
    common::WorkflowExecution,
    enums::UpdateWorkflowExecutionLifecycleStage as Stage,
    events::history_event::Attributes,
    update::{Input, Meta, Outcome, Request, UpdateRef, WaitPolicy, outcome::Value as OutcomeValue},
    workflowservice::{
        GetWorkflowExecutionHistoryReverseRequest, PollWorkflowExecutionUpdateRequest, UpdateWorkflowExecutionRequest,
    },
};
use uuid::Uuid;

use super::{Client, ClientError, error::unreadable};
use crate::{converter, definition::Data, failure::Failure};

/// How an update is sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UpdateOptions {
    /// Its id, with which it happens once however often it is sent; empty: a generated one.
    pub id: String,
}

pub(super) fn update_request(
    client: &Client,
    workflow_id: &str,
    run_id: &str,
    input: Input,
    options: UpdateOptions,
    stage: Stage,
) -> UpdateWorkflowExecutionRequest {
    let update_id = if options.id.is_empty() { Uuid::new_v4().to_string() } else { options.id };
    UpdateWorkflowExecutionRequest {
        namespace: client.namespace().to_owned(),
        workflow_execution: Some(WorkflowExecution { workflow_id: workflow_id.to_owned(), run_id: run_id.to_owned() }),
        wait_policy: Some(WaitPolicy { lifecycle_stage: stage as i32 }),
        request: Some(Request {
            meta: Some(Meta { update_id, identity: client.identity().to_owned() }),
            input: Some(input),
            request_id: Uuid::new_v4().to_string(),
            ..Default::default()
        }),
        ..Default::default()
    }
}

/// Sends an update and waits until it is at this stage, or beyond.
pub(super) async fn send<O: Data>(
    client: &Client,
    request: UpdateWorkflowExecutionRequest,
    stage: Stage,
) -> Result<UpdateHandle<O>, ClientError> {
    let execution = request.workflow_execution.clone().unwrap_or_default();
    let update_id = request.request.as_ref().and_then(|request| request.meta.clone()).map(|meta| meta.update_id);
    loop {
        let answer = client
            .long_poll(|mut service| {
                let request = request.clone();
                async move { service.update_workflow_execution(request).await }
            })
            .await?;
        // The server answers with less when it has waited long enough; accepted is enough to poll for the rest.
        if answer.outcome.is_none() && answer.stage < Stage::Accepted.min(stage) as i32 {
            continue;
        }
        let run_id = answer
            .update_ref
            .and_then(|reference| reference.workflow_execution)
            .map_or(execution.run_id, |execution| execution.run_id);
        let update_id = update_id.unwrap_or_default();
        return Ok(UpdateHandle::new(client.clone(), execution.workflow_id, run_id, update_id, answer.outcome));
    }
}

/// An update that was accepted.
pub struct UpdateHandle<O> {
    client: Client,
    workflow_id: String,
    run_id: String,
    update_id: String,
    outcome: Option<Outcome>,
    marker: PhantomData<fn() -> O>,
}

impl<O: Data> UpdateHandle<O> {
    pub(super) fn new(
        client: Client,
        workflow_id: String,
        run_id: String,
        update_id: String,
        outcome: Option<Outcome>,
    ) -> Self {
        Self { client, workflow_id, run_id, update_id, outcome, marker: PhantomData }
    }

    /// Its id.
    pub fn id(&self) -> &str {
        &self.update_id
    }

    /// The id of its workflow.
    pub fn workflow_id(&self) -> &str {
        &self.workflow_id
    }

    /// The run that it was sent to; empty if that is not known.
    pub fn run_id(&self) -> &str {
        &self.run_id
    }

    /// Waits for what comes of it.
    pub async fn result(&self) -> Result<O, ClientError> {
        let outcome = match &self.outcome {
            Some(outcome) => outcome.clone(),
            None => self.poll().await?,
        };
        match outcome.value {
            Some(OutcomeValue::Success(payloads)) => {
                Ok(converter::decode(&self.client.incoming(Some(payloads)).await?, 1)?)
            }
            Some(OutcomeValue::Failure(failure)) => {
                let failure = self.client.incoming_failure(Some(failure)).await?;
                // Only an update that came with its outcome can have been rejected: others were accepted before.
                let rejected = self.outcome.is_some() && !self.was_accepted().await?;
                Err(if rejected { ClientError::UpdateRejected(failure) } else { ClientError::UpdateFailed(failure) })
            }
            None => Err(ClientError::UpdateFailed(Failure::new("the update has no outcome").into())),
        }
    }

    async fn poll(&self) -> Result<Outcome, ClientError> {
        let execution = WorkflowExecution { workflow_id: self.workflow_id.clone(), run_id: self.run_id.clone() };
        let request = PollWorkflowExecutionUpdateRequest {
            namespace: self.client.namespace().to_owned(),
            update_ref: Some(UpdateRef { workflow_execution: Some(execution), update_id: self.update_id.clone() }),
            identity: self.client.identity().to_owned(),
            wait_policy: Some(WaitPolicy { lifecycle_stage: Stage::Completed as i32 }),
        };
        loop {
            let answer = self
                .client
                .long_poll(|mut service| {
                    let request = request.clone();
                    async move { service.poll_workflow_execution_update(request).await }
                })
                .await?;
            if let Some(outcome) = answer.outcome {
                return Ok(outcome);
            }
        }
    }

    /// Whether the history knows it. The outcome on the wire does not tell a rejected update from one that failed, but
    /// only what was accepted is in the history, and it is near its end.
    async fn was_accepted(&self) -> Result<bool, ClientError> {
        let mut request = GetWorkflowExecutionHistoryReverseRequest {
            namespace: self.client.namespace().to_owned(),
            execution: Some(WorkflowExecution { workflow_id: self.workflow_id.clone(), run_id: self.run_id.clone() }),
            maximum_page_size: 200,
            ..Default::default()
        };
        loop {
            let answer = self
                .client
                .call(|mut service| {
                    let request = request.clone();
                    async move { service.get_workflow_execution_history_reverse(request).await }
                })
                .await?;
            let events = answer.history.unwrap_or_default().events().map_err(unreadable)?;
            let found = events.iter().any(|event| match &event.attributes {
                Some(Attributes::WorkflowExecutionUpdateCompletedEventAttributes(completed)) => {
                    completed.meta.as_ref().is_some_and(|meta| meta.update_id == self.update_id)
                }
                Some(Attributes::WorkflowExecutionUpdateAcceptedEventAttributes(accepted)) => {
                    accepted.protocol_instance_id == self.update_id
                }
                _ => false,
            });
            if found || answer.next_page_token.is_empty() {
                return Ok(found);
            }
            request.next_page_token = answer.next_page_token;
        }
    }
}
