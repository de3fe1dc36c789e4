//! PauseWorkflowExecution and UnpauseWorkflowExecution.

use segno_engine::{Run, pause};
use segno_node::{RunSelector, WorkflowKey};
use segno_proto::workflowservice::{
    PauseWorkflowExecutionRequest, PauseWorkflowExecutionResponse, UnpauseWorkflowExecutionRequest,
    UnpauseWorkflowExecutionResponse,
};
use tonic::Status;

use super::{Workflows, disabled::Disabled, failed, refused};
use crate::validate::pausing::{self as checks, PauseRequest};

impl Workflows {
    pub(crate) async fn pause_workflow(
        &self,
        request: PauseWorkflowExecutionRequest,
    ) -> Result<PauseWorkflowExecutionResponse, Status> {
        let namespace = self.namespace(&request.namespace)?;
        if !self.node.runs.options.workflow_pause {
            return Err(self.disabled(&request.namespace, Disabled::WorkflowPause));
        }
        checks::check(PauseRequest::from(&request), self.sizes()).map_err(refused)?;
        let key = WorkflowKey::new(namespace.key, &request.workflow_id);
        let call = pause::Call { identity: request.identity, reason: request.reason, request_id: request.request_id };
        self.node.dispatch.pause_workflow(&key, &request.run_id, call).await.map_err(failed)?;
        Ok(PauseWorkflowExecutionResponse::default())
    }

    /// Unpauses a workflow, whether or not pausing is allowed now.
    pub(crate) async fn unpause_workflow(
        &self,
        request: UnpauseWorkflowExecutionRequest,
    ) -> Result<UnpauseWorkflowExecutionResponse, Status> {
        let namespace = self.namespace(&request.namespace)?;
        checks::check(PauseRequest::from(&request), self.sizes()).map_err(refused)?;
        let key = WorkflowKey::new(namespace.key, &request.workflow_id);
        let call = pause::Call { identity: request.identity, reason: request.reason, request_id: request.request_id };
        let apply = move |run: &Run, context| pause::unpause(run, context, call.clone());
        self.node.runs.transact(&key, &RunSelector::run(&request.run_id), apply).await.map_err(failed)?;
        Ok(UnpauseWorkflowExecutionResponse::default())
    }
}
