//! [`Handle`]: calls to one workflow.

use std::{fmt, marker::PhantomData};

use segno_proto::{
    common::{Payload, WorkflowExecution},
    enums::{HistoryEventFilterType, UpdateWorkflowExecutionLifecycleStage as Stage},
    events::HistoryEvent,
    query::WorkflowQuery,
    update::Input,
    workflow::{
        PostResetOperation,
        post_reset_operation::{UpdateWorkflowOptions, Variant},
    },
    workflowservice::{
        DeleteWorkflowExecutionRequest, DescribeWorkflowExecutionRequest, GetWorkflowExecutionHistoryRequest,
        PauseWorkflowExecutionRequest, QueryWorkflowRequest, RequestCancelWorkflowExecutionRequest,
        ResetWorkflowExecutionRequest, SignalWorkflowExecutionRequest, TerminateWorkflowExecutionRequest,
        UnpauseWorkflowExecutionRequest, UpdateWorkflowExecutionOptionsRequest,
    },
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use tonic::Response;
use uuid::Uuid;

use super::{
    Client, ClientCallKind, ClientError, UpdateHandle, UpdateOptions, WorkflowDescription,
    error::unreadable,
    interceptor::OutgoingArguments,
    result::wait,
    update::{send, update_request},
};
use crate::{
    converter,
    definition::{Data, Query, Signal, Update, WorkflowDefinition},
    versioning::VersioningOverride,
};

/// A workflow of which no type is known: values are JSON.
pub struct RawWorkflow;

impl WorkflowDefinition for RawWorkflow {
    type Input = Value;
    type Output = Value;
    const KIND: &'static str = "";
}

/// Where a workflow begins again: [`Handle::reset`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResetOptions {
    /// The event of a workflow task (completed, failed, timed out or started) that is the first not to be kept.
    pub event_id: i64,
    /// Why.
    pub reason: String,
    /// Forget signals that came later.
    pub exclude_signals: bool,
    /// Forget updates that came later.
    pub exclude_updates: bool,
    /// The override of the new run, in place of the one that it would inherit.
    pub versioning: Option<VersioningOverride>,
}

/// A workflow that was started. What is sent goes to its current run; after [`Client::handle_of_run`] to that run only.
pub struct Handle<W> {
    client: Client,
    workflow_id: String,
    /// The run that calls are for; empty: whichever is current.
    run_id: String,
    /// The run that was started; empty if another client started it.
    first_run_id: String,
    marker: PhantomData<fn() -> W>,
}

impl<W> Clone for Handle<W> {
    fn clone(&self) -> Self {
        Self {
            client: self.client.clone(),
            workflow_id: self.workflow_id.clone(),
            run_id: self.run_id.clone(),
            first_run_id: self.first_run_id.clone(),
            marker: PhantomData,
        }
    }
}

impl<W> fmt::Debug for Handle<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle").field("workflow_id", &self.workflow_id).field("run_id", &self.run_id()).finish()
    }
}

impl<W> Handle<W> {
    pub(super) fn of_current(client: Client, workflow_id: String) -> Self {
        Self { client, workflow_id, run_id: String::new(), first_run_id: String::new(), marker: PhantomData }
    }

    pub(super) fn of_run(client: Client, workflow_id: String, run_id: String) -> Self {
        Self { client, workflow_id, run_id, first_run_id: String::new(), marker: PhantomData }
    }

    pub(super) fn of_start(client: Client, workflow_id: String, run_id: String) -> Self {
        Self { client, workflow_id, run_id: String::new(), first_run_id: run_id, marker: PhantomData }
    }

    /// The workflow's id.
    pub fn workflow_id(&self) -> &str {
        &self.workflow_id
    }

    /// The run that was started, or that the handle is for.
    pub fn run_id(&self) -> Option<&str> {
        [&self.run_id, &self.first_run_id].into_iter().find(|id| !id.is_empty()).map(String::as_str)
    }

    /// The client that it belongs to.
    pub fn client(&self) -> &Client {
        &self.client
    }

    fn execution(&self) -> Option<WorkflowExecution> {
        Some(WorkflowExecution { workflow_id: self.workflow_id.clone(), run_id: self.run_id.clone() })
    }

    /// The run that was started, if it is known; else the current one.
    fn own_execution(&self) -> Option<WorkflowExecution> {
        let run_id = self.run_id().unwrap_or_default().to_owned();
        Some(WorkflowExecution { workflow_id: self.workflow_id.clone(), run_id })
    }

    async fn send_signal(&self, name: &str, input: Vec<Payload>) -> Result<(), ClientError> {
        let request = SignalWorkflowExecutionRequest {
            namespace: self.client.namespace().to_owned(),
            workflow_execution: self.execution(),
            signal_name: name.to_owned(),
            identity: self.client.identity().to_owned(),
            request_id: Uuid::new_v4().to_string(),
            ..Default::default()
        };
        let call = async |sent: OutgoingArguments| {
            let (header, input) = (sent.header, self.client.outgoing(sent.arguments).await?);
            let request = SignalWorkflowExecutionRequest { header, input, ..request };
            self.client
                .call(|mut service| {
                    let request = request.clone();
                    async move { service.signal_workflow_execution(request).await }
                })
                .await?;
            Ok(())
        };
        self.client
            .intercepted(ClientCallKind::Signal, &self.workflow_id, name, OutgoingArguments::new(input), call)
            .await
    }

    /// Sends a signal.
    pub async fn signal<T: Data>(&self, signal: Signal<T>, value: T) -> Result<(), ClientError> {
        self.send_signal(signal.name(), converter::encode(&value, signal.arguments())?).await
    }

    /// Sends a signal by name.
    pub async fn signal_raw(&self, name: &str, value: Value) -> Result<(), ClientError> {
        self.send_signal(name, vec![converter::encode_json(&value)?]).await
    }

    /// Resolves a promise of the workflow. Its first outcome counts; it may come before the workflow asks for it.
    pub async fn resolve_promise<T: Serialize + Send>(&self, name: &str, value: T) -> Result<(), ClientError> {
        let input = vec![converter::encode_json(name)?, converter::encode_json(&value)?];
        self.send_signal("segno.promise", input).await
    }

    /// Rejects a promise of the workflow: awaiting it fails with an application failure of this kind.
    pub async fn reject_promise(&self, name: &str, kind: &str, message: &str) -> Result<(), ClientError> {
        let texts = [name, kind, message].into_iter().map(converter::encode_json::<str>);
        self.send_signal("segno.promise.reject", texts.collect::<Result<_, _>>()?).await
    }

    async fn send_query(&self, name: &str, input: Vec<Payload>) -> Result<Vec<Payload>, ClientError> {
        let call = async |OutgoingArguments { header, arguments, .. }| {
            let query_args = self.client.outgoing(arguments).await?;
            let request = QueryWorkflowRequest {
                namespace: self.client.namespace().to_owned(),
                execution: self.execution(),
                query: Some(WorkflowQuery { query_type: name.to_owned(), query_args, header }),
                ..Default::default()
            };
            let answer = self
                .client
                .call(|mut service| {
                    let request = request.clone();
                    async move { service.query_workflow(request).await }
                })
                .await?;
            self.client.incoming(answer.query_result).await
        };
        self.client
            .intercepted(ClientCallKind::Query, &self.workflow_id, name, OutgoingArguments::new(input), call)
            .await
    }

    /// Asks a query.
    pub async fn query<I: Data, O: Data>(&self, query: Query<I, O>, input: I) -> Result<O, ClientError> {
        let answer = self.send_query(query.name(), converter::encode(&input, query.arguments())?).await?;
        Ok(converter::decode(&answer, 1)?)
    }

    /// Asks a query by name.
    pub async fn query_raw(&self, name: &str, input: Value) -> Result<Value, ClientError> {
        let answer = self.send_query(name, vec![converter::encode_json(&input)?]).await?;
        Ok(converter::decode(&answer, 1)?)
    }

    async fn send_update<O: Data>(
        &self,
        name: &str,
        input: Vec<Payload>,
        options: UpdateOptions,
        stage: Stage,
    ) -> Result<UpdateHandle<O>, ClientError> {
        let call = async |OutgoingArguments { header, arguments, .. }| {
            let args = self.client.outgoing(arguments).await?;
            let input = Input { header, name: name.to_owned(), args };
            let request = update_request(&self.client, &self.workflow_id, &self.run_id, input, options, stage);
            send(&self.client, request, stage).await
        };
        self.client
            .intercepted(ClientCallKind::Update, &self.workflow_id, name, OutgoingArguments::new(input), call)
            .await
    }

    /// Sends an update and waits for its result.
    pub async fn update<I: Data, O: Data>(&self, update: Update<I, O>, input: I) -> Result<O, ClientError> {
        let input = converter::encode(&input, update.arguments())?;
        self.send_update(update.name(), input, UpdateOptions::default(), Stage::Completed).await?.result().await
    }

    /// Sends an update by name and waits for its result.
    pub async fn update_raw(&self, name: &str, input: Value) -> Result<Value, ClientError> {
        let input = vec![converter::encode_json(&input)?];
        self.send_update(name, input, UpdateOptions::default(), Stage::Completed).await?.result().await
    }

    /// Sends an update and waits until it is accepted. One that is rejected is also a handle; its result says so.
    pub async fn start_update<I: Data, O: Data>(
        &self,
        update: Update<I, O>,
        input: I,
    ) -> Result<UpdateHandle<O>, ClientError> {
        self.start_update_with_options(update, input, UpdateOptions::default()).await
    }

    /// The same with options.
    pub async fn start_update_with_options<I: Data, O: Data>(
        &self,
        update: Update<I, O>,
        input: I,
        options: UpdateOptions,
    ) -> Result<UpdateHandle<O>, ClientError> {
        let input = converter::encode(&input, update.arguments())?;
        self.send_update(update.name(), input, options, Stage::Accepted).await
    }

    /// An update that was sent before.
    pub fn update_handle<O: Data>(&self, update_id: impl Into<String>) -> UpdateHandle<O> {
        let (client, workflow_id) = (self.client.clone(), self.workflow_id.clone());
        UpdateHandle::new(client, workflow_id, self.run_id.clone(), update_id.into(), None)
    }

    /// The value that the workflow stored under this key with `set_state`. No worker is needed for that.
    pub async fn state<T: DeserializeOwned>(&self, key: &str) -> Result<Option<T>, ClientError> {
        self.describe().await?.state(key)
    }

    /// Asks the workflow to cancel itself.
    pub async fn cancel(&self) -> Result<(), ClientError> {
        self.cancel_with_reason("").await
    }

    /// The same, and says why.
    pub async fn cancel_with_reason(&self, reason: impl Into<String>) -> Result<(), ClientError> {
        let request = RequestCancelWorkflowExecutionRequest {
            namespace: self.client.namespace().to_owned(),
            workflow_execution: self.execution(),
            identity: self.client.identity().to_owned(),
            request_id: Uuid::new_v4().to_string(),
            first_execution_run_id: self.first_run_id.clone(),
            reason: reason.into(),
            ..Default::default()
        };
        self.client
            .call(|mut service| {
                let request = request.clone();
                async move { service.request_cancel_workflow_execution(request).await }
            })
            .await?;
        Ok(())
    }

    /// Ends the workflow at once, without asking it.
    pub async fn terminate(&self, reason: impl Into<String>) -> Result<(), ClientError> {
        let request = TerminateWorkflowExecutionRequest {
            namespace: self.client.namespace().to_owned(),
            workflow_execution: self.execution(),
            reason: reason.into(),
            identity: self.client.identity().to_owned(),
            first_execution_run_id: self.first_run_id.clone(),
            ..Default::default()
        };
        self.client
            .call(|mut service| {
                let request = request.clone();
                async move { service.terminate_workflow_execution(request).await }
            })
            .await?;
        Ok(())
    }

    /// The server's description of it.
    pub async fn describe(&self) -> Result<WorkflowDescription, ClientError> {
        let request = DescribeWorkflowExecutionRequest {
            namespace: self.client.namespace().to_owned(),
            execution: self.execution(),
        };
        let answer = self
            .client
            .call(|mut service| {
                let request = request.clone();
                async move { service.describe_workflow_execution(request).await }
            })
            .await?;
        WorkflowDescription::new(&self.client, answer).await
    }

    /// Its whole history: of the run that was started or that the handle is for, else of the current one.
    pub async fn history(&self) -> Result<Vec<HistoryEvent>, ClientError> {
        let mut request = GetWorkflowExecutionHistoryRequest {
            namespace: self.client.namespace().to_owned(),
            execution: self.own_execution(),
            history_event_filter_type: HistoryEventFilterType::AllEvent as i32,
            ..Default::default()
        };
        let mut events = Vec::new();
        loop {
            let answer = self
                .client
                .call(|mut service| {
                    let request = request.clone();
                    async move { service.get_workflow_execution_history(request).await }
                })
                .await?;
            events.extend(answer.history.unwrap_or_default().events().map_err(unreadable)?);
            if answer.next_page_token.is_empty() {
                return Ok(events);
            }
            request.next_page_token = answer.next_page_token;
        }
    }

    /// Begins again from an earlier point, as a new run; an open run is terminated. The handle is of the new run.
    pub async fn reset(&self, options: ResetOptions) -> Result<Self, ClientError> {
        use segno_proto::enums::ResetReapplyExcludeType as Exclude;
        let excluded = [(options.exclude_signals, Exclude::Signal), (options.exclude_updates, Exclude::Update)];
        let post_reset_operations = options.versioning.iter().map(|versioning| {
            let (options, mask) = VersioningOverride::update(Some(versioning));
            let update = UpdateWorkflowOptions { workflow_execution_options: Some(options), update_mask: Some(mask) };
            PostResetOperation { variant: Some(Variant::UpdateWorkflowOptions(update)) }
        });
        let request = ResetWorkflowExecutionRequest {
            post_reset_operations: post_reset_operations.collect(),
            namespace: self.client.namespace().to_owned(),
            workflow_execution: self.own_execution(),
            reason: options.reason,
            workflow_task_finish_event_id: options.event_id,
            request_id: Uuid::new_v4().to_string(),
            reset_reapply_exclude_types: excluded
                .into_iter()
                .filter(|(excluded, _)| *excluded)
                .map(|(_, kind)| kind as i32)
                .collect(),
            identity: self.client.identity().to_owned(),
            ..Default::default()
        };
        let answer = self
            .client
            .call(|mut service| {
                let request = request.clone();
                async move { service.reset_workflow_execution(request).await }
            })
            .await?;
        Ok(Self::of_start(self.client.clone(), self.workflow_id.clone(), answer.run_id))
    }

    /// Sets which version executes it, also if it runs already; see [`VersioningOverride`].
    pub async fn set_versioning_override(&self, versioning: VersioningOverride) -> Result<(), ClientError> {
        self.update_versioning(Some(&versioning)).await
    }

    /// Removes its override: its behaviour and the routing of the deployment decide again which version executes it.
    pub async fn remove_versioning_override(&self) -> Result<(), ClientError> {
        self.update_versioning(None).await
    }

    async fn update_versioning(&self, versioning: Option<&VersioningOverride>) -> Result<(), ClientError> {
        let (options, mask) = VersioningOverride::update(versioning);
        let request = UpdateWorkflowExecutionOptionsRequest {
            namespace: self.client.namespace().to_owned(),
            workflow_execution: self.execution(),
            workflow_execution_options: Some(options),
            update_mask: Some(mask),
            identity: self.client.identity().to_owned(),
        };
        self.client
            .call(|mut service| {
                let request = request.clone();
                async move { service.update_workflow_execution_options(request).await }
            })
            .await?;
        Ok(())
    }

    /// Lets no workflow task and no task of it begin until [`unpause`](Self::unpause).
    pub async fn pause(&self, reason: impl Into<String>) -> Result<(), ClientError> {
        self.set_paused(reason.into(), true).await
    }

    /// Lets it go on.
    pub async fn unpause(&self, reason: impl Into<String>) -> Result<(), ClientError> {
        self.set_paused(reason.into(), false).await
    }

    async fn set_paused(&self, reason: String, paused: bool) -> Result<(), ClientError> {
        let pause = PauseWorkflowExecutionRequest {
            namespace: self.client.namespace().to_owned(),
            workflow_id: self.workflow_id.clone(),
            run_id: self.run_id.clone(),
            identity: self.client.identity().to_owned(),
            reason,
            request_id: Uuid::new_v4().to_string(),
        };
        self.client
            .call(|mut service| {
                let pause = pause.clone();
                async move {
                    if paused {
                        return service.pause_workflow_execution(pause).await.map(|_| Response::new(()));
                    }
                    let PauseWorkflowExecutionRequest { namespace, workflow_id, run_id, identity, reason, request_id } =
                        pause;
                    let unpause = UnpauseWorkflowExecutionRequest {
                        namespace,
                        workflow_id,
                        run_id,
                        identity,
                        reason,
                        request_id,
                    };
                    service.unpause_workflow_execution(unpause).await.map(|_| Response::new(()))
                }
            })
            .await?;
        Ok(())
    }

    /// Deletes it with its history. An open run is terminated.
    pub async fn delete(&self) -> Result<(), ClientError> {
        let request = DeleteWorkflowExecutionRequest {
            namespace: self.client.namespace().to_owned(),
            workflow_execution: self.own_execution(),
        };
        self.client
            .call(|mut service| {
                let request = request.clone();
                async move { service.delete_workflow_execution(request).await }
            })
            .await?;
        Ok(())
    }
}

impl<W: WorkflowDefinition> Handle<W> {
    /// Waits for the result, over all runs: what it continued as, retries, and for a cron schedule the last one.
    pub async fn result(&self) -> Result<W::Output, ClientError> {
        let payloads = wait(&self.client, &self.workflow_id, self.run_id().unwrap_or_default()).await?;
        Ok(converter::decode(&payloads, 1)?)
    }
}
