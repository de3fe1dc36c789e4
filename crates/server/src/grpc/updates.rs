//! Updating workflows, and waiting for updates.

use std::time::Duration;

use segno_engine::update::admit::Admit;
use segno_node::{CallError, Namespace, RunSelector, UpdateReply, UpdateStage, WaitFor};
use segno_proto::{
    common::{
        Link, WorkflowExecution,
        link::{
            Variant, Workflow, WorkflowEvent,
            workflow_event::{Reference, RequestIdReference},
        },
    },
    enums::{EventType, UpdateWorkflowExecutionLifecycleStage as Stage},
    failure::Failure,
    update::{Outcome, UpdateRef, WaitPolicy, outcome},
    workflowservice::{
        PollWorkflowExecutionUpdateRequest, PollWorkflowExecutionUpdateResponse, UpdateWorkflowExecutionRequest,
        UpdateWorkflowExecutionResponse,
    },
};
use tokio::time::Instant;
use tonic::{Request, Status};

use super::{Workflows, failed, key_of, refused};
use crate::{deadline, validate};

/// How long a call waits before it says how far the update came; the client asks again.
const UPDATE_WAIT_MAX: Duration = Duration::from_secs(20);

/// Whose patience ends first: the server's, which then says how far the update came, or the caller's, who has given up.
pub(super) struct Patience {
    pub(super) until: Instant,
    is_callers: bool,
}

impl Patience {
    pub(crate) fn of<T>(request: &Request<T>) -> Self {
        let (callers, servers) = (deadline::call(request), Instant::now() + UPDATE_WAIT_MAX);
        Self { until: callers.min(servers), is_callers: callers < servers }
    }

    pub(crate) fn check(&self, reply: &UpdateReply, wait: WaitFor) -> Result<(), Status> {
        let reached = match reply.stage {
            UpdateStage::Admitted => WaitFor::Admitted,
            UpdateStage::Accepted => WaitFor::Accepted,
            UpdateStage::Completed(_) => WaitFor::Completed,
        };
        match self.is_callers && reached < wait {
            true => Err(failed(CallError::DeadlineExceeded)),
            false => Ok(()),
        }
    }
}

impl Workflows {
    pub(crate) async fn update(
        &self,
        request: Request<UpdateWorkflowExecutionRequest>,
    ) -> Result<UpdateWorkflowExecutionResponse, Status> {
        let patience = Patience::of(&request);
        let mut request = request.into_inner();
        let namespace = self.namespace(&request.namespace)?;
        let targets = &self.node.http_sender.settings.callback_targets;
        let callbacks = self.node.runs.options.update_callbacks.then_some(targets);
        validate::update::update(&mut request, callbacks, || self.node.runs.uuid()).map_err(refused)?;
        let (key, run_id) = key_of(&namespace, request.workflow_execution.as_ref());
        let selector = RunSelector { run_id, first_run_id: request.first_execution_run_id };
        let wait = wait_for(request.wait_policy.as_ref());
        let update = request.request.unwrap_or_default();
        let (id, request_id) =
            (update.meta.as_ref().map(|meta| meta.update_id.clone()).unwrap_or_default(), update.request_id.clone());
        let call = Admit::new(update, wait == WaitFor::Admitted, namespace.settings.updates);
        let reply =
            self.node.runs.update_workflow(&key, &selector, call, wait, patience.until).await.map_err(failed)?;
        patience.check(&reply, wait)?;
        Ok(response(&namespace, &key.workflow_id, &id, &request_id, reply))
    }

    pub(crate) async fn poll_update(
        &self,
        request: Request<PollWorkflowExecutionUpdateRequest>,
    ) -> Result<PollWorkflowExecutionUpdateResponse, Status> {
        let patience = Patience::of(&request);
        let request = request.into_inner();
        let namespace = self.namespace(&request.namespace)?;
        validate::update::poll(&request).map_err(refused)?;
        let update = request.update_ref.unwrap_or_default();
        let (key, run_id) = key_of(&namespace, update.workflow_execution.as_ref());
        let wait = match request.wait_policy.map(|policy| policy.lifecycle_stage()) {
            Some(Stage::Completed) => WaitFor::Completed,
            Some(Stage::Accepted) => WaitFor::Accepted,
            _ => WaitFor::Admitted,
        };
        let id = update.update_id;
        let reply = self.node.runs.poll_update(&key, &run_id, &id, wait, patience.until).await.map_err(failed)?;
        patience.check(&reply, wait)?;
        let (stage, outcome) = stage_of(reply.stage);
        let update_ref = Some(reference(&key.workflow_id, reply.run_id, id));
        Ok(PollWorkflowExecutionUpdateResponse { outcome, stage, update_ref })
    }
}

/// How far an update's caller wants to wait, once the request was checked.
pub(crate) fn wait_for(policy: Option<&WaitPolicy>) -> WaitFor {
    match policy.map_or(Ok(Stage::Unspecified), |policy| Stage::try_from(policy.lifecycle_stage)) {
        Ok(Stage::Unspecified | Stage::Completed) => WaitFor::Completed,
        Ok(Stage::Accepted) => WaitFor::Accepted,
        Ok(Stage::Admitted) | Err(_) => WaitFor::Admitted,
    }
}

fn stage_of(stage: UpdateStage) -> (i32, Option<Outcome>) {
    match stage {
        UpdateStage::Admitted => (Stage::Admitted as i32, None),
        UpdateStage::Accepted => (Stage::Accepted as i32, None),
        UpdateStage::Completed(outcome) => (Stage::Completed as i32, Some(*outcome)),
    }
}

fn reference(workflow_id: &str, run_id: String, update_id: String) -> UpdateRef {
    let execution = WorkflowExecution { workflow_id: workflow_id.to_owned(), run_id };
    UpdateRef { workflow_execution: Some(execution), update_id }
}

/// The answer to the caller of an update.
pub(crate) fn response(
    namespace: &Namespace,
    workflow_id: &str,
    update_id: &str,
    request_id: &str,
    reply: UpdateReply,
) -> UpdateWorkflowExecutionResponse {
    let UpdateReply { run_id, stage } = reply;
    let (stage, outcome) = stage_of(stage);
    let failed = matches!(&outcome, Some(Outcome { value: Some(outcome::Value::Failure(failure)) }) if *failure != Failure::default());
    let (name, workflow) = (namespace.name.clone(), workflow_id.to_owned());
    let told = stage != Stage::Admitted as i32;
    let variant = match failed {
        true => Variant::Workflow(Workflow {
            namespace: name,
            workflow_id: workflow,
            run_id: run_id.clone(),
            reason: "Update rejected".to_owned(),
        }),
        false => Variant::WorkflowEvent(WorkflowEvent {
            namespace: name,
            workflow_id: workflow,
            run_id: run_id.clone(),
            reference: Some(Reference::RequestIdRef(RequestIdReference {
                request_id: request_id.to_owned(),
                event_type: EventType::WorkflowExecutionUpdateAccepted as i32,
            })),
        }),
    };
    UpdateWorkflowExecutionResponse {
        update_ref: Some(reference(workflow_id, run_id, update_id.to_owned())),
        outcome,
        stage,
        link: told.then_some(Link { variant: Some(variant) }),
    }
}
