//! A task queue: where workflows are started and workers are made.

use segno_proto::{
    common::Payload,
    enums::UpdateWorkflowExecutionLifecycleStage as Stage,
    update::{Input, Outcome},
    workflowservice::{
        ExecuteMultiOperationRequest, SignalWithStartWorkflowExecutionRequest, StartWorkflowExecutionRequest,
        StartWorkflowExecutionResponse, UpdateWorkflowExecutionRequest,
        execute_multi_operation_request::{Operation, operation::Operation as Content},
        execute_multi_operation_response::response::Response as Answer,
    },
};
use serde_json::Value;

use super::{
    Client, ClientCallKind, ClientError, Handle, RawWorkflow, StartOptions, UpdateOptions,
    error::of_start,
    interceptor::OutgoingArguments,
    update::{UpdateHandle, update_request},
};
use crate::{
    converter,
    definition::{Data, Signal, Update, WorkflowDefinition},
};

/// A task queue of a server. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Queue {
    client: Client,
    name: String,
}

impl Queue {
    pub(super) fn new(client: Client, name: String) -> Self {
        Self { client, name }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The client that it belongs to.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Starts a workflow and waits for its result.
    pub async fn execute<W: WorkflowDefinition>(
        &self,
        id: impl Into<StartOptions> + Send,
        input: W::Input,
    ) -> Result<W::Output, ClientError> {
        self.start::<W>(id, input).await?.result().await
    }

    /// The same by name.
    pub async fn execute_raw(
        &self,
        kind: &str,
        id: impl Into<StartOptions> + Send,
        input: Value,
    ) -> Result<Value, ClientError> {
        self.start_raw(kind, id, input).await?.result().await
    }

    /// Starts a workflow.
    pub async fn start<W: WorkflowDefinition>(
        &self,
        id: impl Into<StartOptions> + Send,
        input: W::Input,
    ) -> Result<Handle<W>, ClientError> {
        self.start_with_options::<W>(id.into(), input).await
    }

    /// Starts a workflow with options.
    pub async fn start_with_options<W: WorkflowDefinition>(
        &self,
        options: StartOptions,
        input: W::Input,
    ) -> Result<Handle<W>, ClientError> {
        let input = converter::encode(&input, W::ARGUMENTS)?;
        let request = options.request(&self.client, &self.name, W::KIND).await?;
        self.start_handle(request, input).await
    }

    /// Starts a workflow by name.
    pub async fn start_raw(
        &self,
        kind: &str,
        id: impl Into<StartOptions> + Send,
        input: Value,
    ) -> Result<Handle<RawWorkflow>, ClientError> {
        let input = vec![converter::encode_json(&input)?];
        let request = id.into().request(&self.client, &self.name, kind).await?;
        self.start_handle(request, input).await
    }

    async fn start_handle<W: WorkflowDefinition>(
        &self,
        request: StartWorkflowExecutionRequest,
        input: Vec<Payload>,
    ) -> Result<Handle<W>, ClientError> {
        let id = request.workflow_id.clone();
        let answer = self.send(request, input).await?;
        Ok(Handle::of_start(self.client.clone(), id, answer.run_id))
    }

    /// Sends a request to start a workflow.
    pub(crate) async fn send(
        &self,
        request: StartWorkflowExecutionRequest,
        input: Vec<Payload>,
    ) -> Result<StartWorkflowExecutionResponse, ClientError> {
        let (id, kind) = (request.workflow_id.clone(), request.workflow_type.clone().unwrap_or_default().name);
        // With a delay there is no workflow task to hand over yet.
        let is_immediate = request.workflow_start_delay.is_none() && request.cron_schedule.is_empty();
        let call = async |OutgoingArguments { header, arguments, .. }| {
            let input = self.client.outgoing(arguments).await?;
            let place = match is_immediate {
                true => self.client.reserve_eager(&self.name, &kind),
                false => None,
            };
            let request = StartWorkflowExecutionRequest {
                header,
                input,
                request_eager_execution: place.is_some(),
                eager_worker_deployment_options: place.as_ref().and_then(|place| place.deployment_options.clone()),
                ..request
            };
            let mut answer = self
                .client
                .call(|mut service| {
                    let request = request.clone();
                    async move { service.start_workflow_execution(request).await }
                })
                .await
                .map_err(|status| of_start(status, &request.workflow_id))?;
            if let (Some(place), Some(task)) = (place, answer.eager_workflow_task.take()) {
                (place.take)(task);
            }
            Ok(answer)
        };
        self.client.intercepted(ClientCallKind::Start, &id, &kind, OutgoingArguments::new(input), call).await
    }

    /// Signals a workflow; if there is no open run of it, starts it first. Both or none.
    pub async fn signal_with_start<W: WorkflowDefinition, T: Data>(
        &self,
        id: impl Into<StartOptions> + Send,
        input: W::Input,
        signal: Signal<T>,
        value: T,
    ) -> Result<Handle<W>, ClientError> {
        let arguments = converter::encode(&value, signal.arguments())?;
        let start_arguments = converter::encode(&input, W::ARGUMENTS)?;
        let start = id.into().request(&self.client, &self.name, W::KIND).await?;
        let request = SignalWithStartWorkflowExecutionRequest {
            signal_name: signal.name().to_owned(),
            namespace: start.namespace,
            workflow_id: start.workflow_id,
            workflow_type: start.workflow_type,
            task_queue: start.task_queue,
            workflow_execution_timeout: start.workflow_execution_timeout,
            workflow_run_timeout: start.workflow_run_timeout,
            workflow_task_timeout: start.workflow_task_timeout,
            identity: start.identity,
            request_id: start.request_id,
            workflow_id_reuse_policy: start.workflow_id_reuse_policy,
            // An open run is signalled; to fail would be the plain start.
            workflow_id_conflict_policy: segno_proto::enums::WorkflowIdConflictPolicy::UseExisting as i32,
            retry_policy: start.retry_policy,
            cron_schedule: start.cron_schedule,
            memo: start.memo,
            search_attributes: start.search_attributes,
            workflow_start_delay: start.workflow_start_delay,
            user_metadata: start.user_metadata,
            priority: start.priority,
            versioning_override: start.versioning_override,
            ..Default::default()
        };
        let id = request.workflow_id.clone();
        let call = async |OutgoingArguments { header, arguments, start_arguments }| {
            let input = self.client.outgoing(start_arguments).await?;
            let signal_input = self.client.outgoing(arguments).await?;
            let request = SignalWithStartWorkflowExecutionRequest { header, input, signal_input, ..request };
            self.client
                .call(|mut service| {
                    let request = request.clone();
                    async move { service.signal_with_start_workflow_execution(request).await }
                })
                .await
                .map_err(|status| of_start(status, &request.workflow_id))
        };
        let sent = OutgoingArguments { header: None, arguments, start_arguments };
        let answer = self.client.intercepted(ClientCallKind::SignalWithStart, &id, signal.name(), sent, call).await?;
        Ok(Handle::of_start(self.client.clone(), id, answer.run_id))
    }

    /// Updates a workflow; if there is no open run of it, starts it first. Waits until the update is accepted: its result
    /// is in the second handle.
    pub async fn update_with_start<W: WorkflowDefinition, I: Data, O: Data>(
        &self,
        id: impl Into<StartOptions> + Send,
        input: W::Input,
        update: Update<I, O>,
        value: I,
    ) -> Result<(Handle<W>, UpdateHandle<O>), ClientError> {
        let arguments = converter::encode(&value, update.arguments())?;
        let start_arguments = converter::encode(&input, W::ARGUMENTS)?;
        let mut options: StartOptions = id.into();
        if options.id_conflict_policy == crate::IdConflictPolicy::Fail {
            options.id_conflict_policy = crate::IdConflictPolicy::UseExisting;
        }
        let start = options.request(&self.client, &self.name, W::KIND).await?;
        let workflow_id = start.workflow_id.clone();
        let name = update.name();
        let input = Input { name: name.to_owned(), ..Input::default() };
        let update = update_request(&self.client, &workflow_id, "", input, UpdateOptions::default(), Stage::Accepted);
        let update_id = update
            .request
            .as_ref()
            .and_then(|request| request.meta.clone())
            .map(|meta| meta.update_id)
            .unwrap_or_default();
        let sent = OutgoingArguments { header: None, arguments, start_arguments };
        let call = async |sent| self.start_and_update(start, update, sent).await;
        let (run_id, outcome) =
            self.client.intercepted(ClientCallKind::UpdateWithStart, &workflow_id, name, sent, call).await?;
        let handle = Handle::of_start(self.client.clone(), workflow_id.clone(), run_id.clone());
        Ok((handle, UpdateHandle::new(self.client.clone(), workflow_id, run_id, update_id, outcome)))
    }

    /// The run's id, and the outcome if there is one already.
    async fn start_and_update(
        &self,
        mut start: StartWorkflowExecutionRequest,
        mut update: UpdateWorkflowExecutionRequest,
        sent: OutgoingArguments,
    ) -> Result<(String, Option<Outcome>), ClientError> {
        let workflow_id = start.workflow_id.clone();
        if let Some(input) = update.request.as_mut().and_then(|request| request.input.as_mut()) {
            input.header = sent.header.clone();
            input.args = self.client.outgoing(sent.arguments).await?;
        }
        start.header = sent.header;
        start.input = self.client.outgoing(sent.start_arguments).await?;
        let operation = |content| Operation { operation: Some(content) };
        let request = ExecuteMultiOperationRequest {
            namespace: self.client.namespace().to_owned(),
            operations: vec![operation(Content::StartWorkflow(start)), operation(Content::UpdateWorkflow(update))],
            ..Default::default()
        };
        // The server may answer before the update is accepted; then the same call is repeated.
        loop {
            let answer = self
                .client
                .long_poll(|mut service| {
                    let request = request.clone();
                    async move { service.execute_multi_operation(request).await }
                })
                .await
                .map_err(|status| of_start(status, &workflow_id))?;
            let (mut started, mut updated) = (None, None);
            for response in answer.responses {
                match response.response {
                    Some(Answer::StartWorkflow(answer)) => started = Some(answer),
                    Some(Answer::UpdateWorkflow(answer)) => updated = Some(answer),
                    None => {}
                }
            }
            let (Some(started), Some(updated)) = (started, updated) else {
                let message = "the server answered an update with start with something else".to_owned();
                return Err(ClientError::Rpc { code: tonic::Code::Internal, message });
            };
            if updated.stage < Stage::Accepted as i32 && updated.outcome.is_none() {
                continue;
            }
            return Ok((started.run_id, updated.outcome));
        }
    }
}
