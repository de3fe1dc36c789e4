//! Operations that the server carries out: its own, and those whose handlers are scripts, whose workflows it starts and cancels at the
//! nodes of these workflows.
//!
//! Nothing here is stored but the workflow: a request that was not answered is made again, and finds the workflow by the request id.

use std::{sync::Arc, time::Duration};

use segno_engine::{
    Rejection, Run,
    callbacks::{OPERATION_TOKEN_HEADER, SYSTEM, TOKEN_HEADER},
    limits::ID_LENGTH_MAX,
    nexus::{CancelAnswer, RequestRef, StartAnswer, handler_failure},
    outbox::{CancelExternal, Content, OutboxMessage, StartOperation},
    script, standalone_nexus,
    start::StartOptions,
    state::nexus::Operation,
};
use segno_proto::{
    common::{Callback, Link, Payloads, WorkflowExecution, WorkflowType, callback},
    enums::{EventType, TaskQueueKind, WorkflowIdReusePolicy},
    failure::Failure,
    links::{to_event, to_operation},
    taskqueue::TaskQueue,
};
use segno_store::RunKey;

use super::callbacks::NO_ROW;
use crate::{
    endpoints::EndpointTarget,
    error::{CallError, no_script},
    namespaces::{Namespace, NamespaceName},
    nexus_requests::{RequestOutcome, TakenRequest},
    operation_token,
    ports::{SystemCall, owner::DeliveryResult},
    runs::Runs,
};

/// The ids of workflows that carry out operations begin with this; the request id follows.
const WORKFLOW_ID_PREFIX: &str = "flow-nexus/";
/// How often it is looked whether the server serves.
const SERVER_POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Why a start is rejected: there is no such script.
const NO_SCRIPT: i32 = 1;

/// The workflow of a script that carries out an operation.
#[derive(Clone, Debug, PartialEq)]
pub struct StartedScript {
    /// The token of the operation.
    pub token: String,
    /// A link to its start.
    pub link: Link,
}

/// The error of a handler that did not carry out a request.
#[derive(Clone, Debug, PartialEq)]
pub struct RefusedRequest {
    /// With handler failure info.
    pub failure: Box<Failure>,
    /// Whether the request may be made again.
    pub retryable: bool,
}

impl RefusedRequest {
    fn fatal(kind: &str, why: &str) -> Self {
        Self { failure: handler_failure(kind, why, Default::default()).into(), retryable: false }
    }

    fn temporary(kind: &str, why: &str) -> Self {
        Self { retryable: true, ..Self::fatal(kind, why) }
    }
}

impl From<CallError> for RefusedRequest {
    fn from(error: CallError) -> Self {
        let why = error.to_string();
        match error {
            CallError::Rejected(_) => Self::fatal("BAD_REQUEST", &why),
            CallError::StartRefused(_) | CallError::Busy => Self::temporary("RESOURCE_EXHAUSTED", &why),
            _ => Self::temporary("UNAVAILABLE", &why),
        }
    }
}

/// The id of the workflow that carries out an operation.
pub(super) fn workflow_of(start: &StartOperation) -> String {
    format!("{WORKFLOW_ID_PREFIX}{}", start.request_id)
}

impl Runs {
    /// The namespace whose scripts are the handlers of an operation; `None` if its handlers are elsewhere.
    fn scripts_of(&self, operation: &Operation) -> Option<Arc<Namespace>> {
        let endpoint = self.endpoints.find(&operation.endpoint_id, &operation.endpoint)?;
        match &endpoint.target {
            Some(EndpointTarget::Worker(target)) if target.queue == script::QUEUE => {
                self.namespaces.find(&NamespaceName::Id(target.namespace_id.clone()))
            }
            _ => None,
        }
    }

    /// Carries out the open request of an operation whose handler is a script, or the server.
    pub async fn serve_request(self: &Arc<Self>, run: RunKey, request: RequestRef) {
        let Some(taken) = self.take_request_when_possible(run, request).await else { return };
        let run = &taken.current.run;
        let outcome = match self.scripts_of(&taken.operation) {
            // None of its operations goes on after its start, so that there is nothing to cancel.
            None if taken.operation.is_of_server() => self.serve_own(&taken, request).await.map(RequestOutcome::Start),
            None => Ok(RequestOutcome::GivenBack),
            Some(scripts) if request.cancel => {
                let by = (run.info.namespace.as_str(), &run_of(&taken), canceled_by(&taken.operation));
                Ok(RequestOutcome::Cancel(match self.cancel_script(&scripts, &taken.operation.token, by).await {
                    Ok(()) => CancelAnswer::Accepted,
                    Err(refused) => {
                        let (failure, retryable) = (*refused.failure, refused.retryable);
                        CancelAnswer::Error { failure, retryable }
                    }
                }))
            }
            Some(scripts) => self.start_for(&taken, request, &scripts).await.map(|started| {
                RequestOutcome::Start(match started {
                    Ok(StartedScript { token, link }) => StartAnswer::Started(token, vec![link]),
                    Err(refused) => {
                        let (failure, retryable) = (*refused.failure, refused.retryable);
                        StartAnswer::Error { failure, retryable }
                    }
                })
            }),
        };
        self.end_request(run, request, outcome).await;
    }

    /// Carries out an operation of the server.
    async fn serve_own(self: &Arc<Self>, taken: &TakenRequest, request: RequestRef) -> Result<StartAnswer, CallError> {
        let (operation, run) = (&taken.operation, &taken.current.run);
        let scheduled = self.scheduled_operation(&taken.current, request.scheduled_event_id).await?;
        self.metrics.nexus_requests_by_endpoint.count([&run.info.namespace, &operation.endpoint]);
        let call = SystemCall {
            namespace: run.info.namespace.clone(),
            input: scheduled.input,
            request_id: operation.request_id.clone(),
            caller: link_to(run, operation),
        };
        loop {
            match self.system_operations.get() {
                Some(operations) => return Ok(operations.carry_out(call).await),
                // Operations that were open when the node stopped are taken as soon as it has started.
                None if self.is_stopping() => return Err(CallError::Unavailable("the server is stopping".to_owned())),
                None => tokio::time::sleep(SERVER_POLL_INTERVAL).await,
            }
        }
    }

    /// Starts the script of an operation of a run.
    async fn start_for(
        self: &Arc<Self>,
        taken: &TakenRequest,
        request: RequestRef,
        scripts: &Namespace,
    ) -> Result<Result<StartedScript, RefusedRequest>, CallError> {
        let (operation, run) = (&taken.operation, &taken.current.run);
        let scheduled = self.scheduled_operation(&taken.current, request.scheduled_event_id).await?;
        self.metrics.nexus_requests_by_endpoint.count([&run.info.namespace, &operation.endpoint]);
        let header = [(TOKEN_HEADER.to_owned(), self.callback_token(run, operation))];
        let nexus = callback::Nexus { url: SYSTEM.to_owned(), header: header.into() };
        let start = StartOperation {
            namespace: scripts.name.clone(),
            script: operation.operation.clone(),
            input: scheduled.input,
            request_id: operation.request_id.clone(),
            callback: Some(Callback {
                variant: Some(callback::Variant::Nexus(nexus)),
                links: vec![link_to(run, operation)],
            }),
            links: Vec::new(),
        };
        Ok(self.start_script(start).await)
    }

    /// Starts the workflow of a script for an operation. A repeated request finds the workflow that the first one started.
    pub async fn start_script(self: &Arc<Self>, mut start: StartOperation) -> Result<StartedScript, RefusedRequest> {
        let (namespace, workflow_id) = (start.namespace.clone(), workflow_of(&start));
        if workflow_id.len() > ID_LENGTH_MAX {
            return Err(RefusedRequest::fatal("BAD_REQUEST", "the request ID is too long"));
        }
        let unknown = RefusedRequest::fatal("NOT_FOUND", &no_script(&start.script, &namespace));
        let Some((_, workflow)) = self.key_of(&namespace, &workflow_id) else { return Err(unknown) };
        let token = operation_token::of_workflow(&namespace, &workflow_id);
        if let Some(callback::Variant::Nexus(nexus)) =
            start.callback.as_mut().and_then(|callback| callback.variant.as_mut())
        {
            nexus.header.insert(OPERATION_TOKEN_HEADER.to_owned(), token.clone());
        }
        let message = OutboxMessage { content: Some(Content::StartOperation(start)), ..Default::default() };
        match self.at_receiver(&workflow, &message, NO_ROW).await? {
            DeliveryResult::Started(run_id) => {
                let link = to_event(&namespace, &workflow_id, &run_id, 1, EventType::WorkflowExecutionStarted);
                Ok(StartedScript { token, link })
            }
            DeliveryResult::Rejected(_) => Err(unknown),
            // A node of an earlier version.
            DeliveryResult::Done | DeliveryResult::Removed => {
                Err(RefusedRequest::temporary("UNAVAILABLE", "the node of the workflow does not start operations"))
            }
        }
    }

    /// The receiver's half of the start of an operation.
    pub(super) async fn start_as_operation(
        self: &Arc<Self>,
        start: &StartOperation,
    ) -> Result<DeliveryResult, CallError> {
        let Some(namespace) = self.namespaces.live(&start.namespace) else {
            return Ok(DeliveryResult::Rejected(NO_SCRIPT));
        };
        let (kind, name) = (TaskQueueKind::Normal as i32, script::QUEUE.to_owned());
        let options = StartOptions {
            namespace: start.namespace.clone(),
            workflow_id: workflow_of(start),
            workflow_type: Some(WorkflowType { name: start.script.clone() }),
            task_queue: Some(TaskQueue { name, kind, ..Default::default() }),
            input: start.input.clone().map(|input| Payloads { payloads: vec![input] }),
            identity: script::IDENTITY.to_owned(),
            request_id: start.request_id.clone(),
            reuse_policy: WorkflowIdReusePolicy::RejectDuplicate,
            completion_callbacks: start.callback.iter().cloned().collect(),
            links: start.links.clone(),
            ..Default::default()
        };
        match self.start_child_workflow(namespace.start(options)).await {
            Ok(outcome) => Ok(DeliveryResult::Started(outcome.run.info.run_id.clone())),
            Err(CallError::NoScript(_)) => Ok(DeliveryResult::Rejected(NO_SCRIPT)),
            // A later run of the workflow that the first request started.
            Err(CallError::Rejected(Rejection::AlreadyStarted { run_id, .. })) => Ok(DeliveryResult::Started(run_id)),
            Err(error) => Err(error),
        }
    }

    /// Requests that the workflow of an operation is cancelled. `by` is the run that wants it, with its namespace, and the event that
    /// says so.
    pub async fn cancel_script(
        self: &Arc<Self>,
        scripts: &Namespace,
        token: &str,
        (sender_namespace, sender, initiated_event_id): (&str, &WorkflowExecution, i64),
    ) -> Result<(), RefusedRequest> {
        let workflow_id = operation_token::to_workflow(token, &scripts.name);
        let workflow_id = workflow_id.filter(|id| id.starts_with(WORKFLOW_ID_PREFIX));
        let Some(workflow_id) = workflow_id else {
            return Err(RefusedRequest::fatal("BAD_REQUEST", "invalid operation token"));
        };
        let unknown = RefusedRequest::fatal("NOT_FOUND", "operation not found");
        let Some((_, workflow)) = self.key_of(&scripts.name, &workflow_id) else { return Err(unknown) };
        let cancel = CancelExternal {
            initiated_event_id,
            namespace: scripts.name.clone(),
            target: WorkflowExecution { workflow_id, run_id: String::new() },
            ..Default::default()
        };
        let message = OutboxMessage {
            sender: sender.clone(),
            sender_namespace: sender_namespace.to_owned(),
            content: Some(Content::Cancel(cancel)),
            ..Default::default()
        };
        match self.at_receiver(&workflow, &message, NO_ROW).await? {
            DeliveryResult::Rejected(_) => Err(unknown),
            _ => Ok(()),
        }
    }
}

/// A link to the event that scheduled an operation, or to the operation, if it has no workflow.
fn link_to(run: &Run, operation: &Operation) -> Link {
    let info = &run.info;
    match standalone_nexus::id_of(run) {
        Some(id) => to_operation(&info.namespace, id, &info.run_id),
        None => {
            let kind = EventType::NexusOperationScheduled;
            to_event(&info.namespace, &info.workflow_id, &info.run_id, operation.scheduled_event_id, kind)
        }
    }
}

fn run_of(taken: &TakenRequest) -> WorkflowExecution {
    let info = &taken.current.run.info;
    WorkflowExecution { workflow_id: info.workflow_id.clone(), run_id: info.run_id.clone() }
}

/// The event that asked for the cancellation of an operation.
fn canceled_by(operation: &Operation) -> i64 {
    operation.cancellation.as_ref().map_or(0, |cancellation| cancellation.requested_event_id)
}
