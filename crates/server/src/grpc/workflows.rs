//! Signal, cancel, terminate, delete.

use segno_engine::{
    Rejection, Run,
    cancel::{self, CancelRequest},
    signal::{self, Signal},
    terminate::{self, Terminate},
};
use segno_node::{CallError, RunSelector};
use segno_proto::{
    enums::EventType,
    workflowservice::{
        DeleteWorkflowExecutionRequest, DeleteWorkflowExecutionResponse, RequestCancelWorkflowExecutionRequest,
        RequestCancelWorkflowExecutionResponse, SignalWorkflowExecutionRequest, SignalWorkflowExecutionResponse,
        TerminateWorkflowExecutionRequest, TerminateWorkflowExecutionResponse,
    },
};
use tonic::Status;

use super::{Workflows, failed, key_of, links, refused};
use crate::validate;

impl Workflows {
    pub(crate) async fn signal(
        &self,
        mut request: SignalWorkflowExecutionRequest,
    ) -> Result<SignalWorkflowExecutionResponse, Status> {
        let namespace = self.namespace(&request.namespace)?;
        validate::workflow::signal(&mut request, self.sizes()).map_err(refused)?;
        let (key, run_id) = key_of(&namespace, request.workflow_execution.as_ref());
        let request_id = request.request_id.clone();
        let call = Signal {
            name: request.signal_name,
            input: request.input,
            identity: request.identity,
            request_id: request.request_id,
            header: request.header,
            links: request.links,
            sender: None,
        };
        let link_id = request_id.clone();
        let apply = move |run: &Run, context| {
            let link = links::to_request(run, &link_id, EventType::WorkflowExecutionSignaled);
            let applied = signal::signal(run, context, call)?;
            Ok(segno_engine::Applied { run: applied.run, transition: applied.transition, reply: link })
        };
        let link = self.node.runs.transact(&key, &RunSelector::run(run_id), apply).await.map_err(failed)?;
        Ok(SignalWorkflowExecutionResponse { link: Some(link) })
    }

    pub(crate) async fn request_cancel(
        &self,
        mut request: RequestCancelWorkflowExecutionRequest,
    ) -> Result<RequestCancelWorkflowExecutionResponse, Status> {
        let namespace = self.namespace(&request.namespace)?;
        validate::workflow::request_cancel(&mut request).map_err(refused)?;
        let (key, run_id) = key_of(&namespace, request.workflow_execution.as_ref());
        let selector = chain_or_run(run_id, &request.first_execution_run_id);
        let call = CancelRequest {
            reason: request.reason,
            identity: request.identity,
            request_id: request.request_id,
            links: request.links,
            sender: None,
            first_run_id: request.first_execution_run_id,
        };
        let apply = move |run: &Run, context| cancel::request_cancel(run, context, call);
        match self.node.runs.transact(&key, &selector, apply).await {
            // What is closed needs no cancelling.
            Ok(()) | Err(CallError::Rejected(Rejection::Closed)) => {
                Ok(RequestCancelWorkflowExecutionResponse::default())
            }
            Err(error) => Err(failed(error)),
        }
    }

    pub(crate) async fn terminate(
        &self,
        mut request: TerminateWorkflowExecutionRequest,
    ) -> Result<TerminateWorkflowExecutionResponse, Status> {
        let namespace = self.namespace(&request.namespace)?;
        validate::workflow::terminate(&mut request).map_err(refused)?;
        let (key, run_id) = key_of(&namespace, request.workflow_execution.as_ref());
        let selector = chain_or_run(run_id, &request.first_execution_run_id);
        let first_run_id = request.first_execution_run_id;
        let call = Terminate {
            reason: request.reason,
            details: request.details,
            identity: request.identity,
            links: request.links,
            first_run_id: first_run_id.clone(),
        };
        let apply = move |run: &Run, context| terminate::terminate(run, context, call);
        self.node.runs.terminate_run(&key, &selector, &first_run_id, apply).await.map_err(failed)?;
        Ok(TerminateWorkflowExecutionResponse::default())
    }

    pub(crate) async fn delete(
        &self,
        mut request: DeleteWorkflowExecutionRequest,
    ) -> Result<DeleteWorkflowExecutionResponse, Status> {
        let namespace = self.namespace(&request.namespace)?;
        validate::workflow::delete(&mut request).map_err(refused)?;
        let (key, run_id) = key_of(&namespace, request.workflow_execution.as_ref());
        self.node.runs.delete_run(&key, &run_id).await.map_err(failed)?;
        Ok(DeleteWorkflowExecutionResponse::default())
    }
}

/// A call that names the first run of a chain means its current run, even if it names another run besides.
fn chain_or_run(run_id: String, first_run_id: &str) -> RunSelector {
    if first_run_id.is_empty() { RunSelector::run(run_id) } else { RunSelector::default() }
}
