//! ResetWorkflowExecution.

use segno_engine::{activity_options::field_path, options::UpdateOptions, reset::Reset};
use segno_proto::{
    enums::{ResetReapplyExcludeType, ResetReapplyType},
    workflow::{PostResetOperation, post_reset_operation::Variant},
    workflowservice::{ResetWorkflowExecutionRequest, ResetWorkflowExecutionResponse},
};
use tonic::Status;

use super::{Workflows, failed, key_of, refused};
use crate::validate;

impl Workflows {
    pub(crate) async fn reset(
        &self,
        request: ResetWorkflowExecutionRequest,
    ) -> Result<ResetWorkflowExecutionResponse, Status> {
        let namespace = self.open_namespace(&request.namespace)?;
        validate::workflow::reset(&request).map_err(refused)?;
        let options = request.post_reset_operations.iter().map(after_reset).collect::<Result<_, _>>()?;
        let (key, run_id) = key_of(&namespace, request.workflow_execution.as_ref());
        // The older field says what is wanted, the newer one what is not.
        let wanted = request.reset_reapply_type();
        let unwanted = |kind| request.reset_reapply_exclude_types().any(|excluded| excluded == kind);
        let call = Reset {
            finish_event_id: request.workflow_task_finish_event_id,
            without_signals: wanted == ResetReapplyType::None || unwanted(ResetReapplyExcludeType::Signal),
            without_operations: unwanted(ResetReapplyExcludeType::Nexus),
            without_updates: matches!(wanted, ResetReapplyType::None | ResetReapplyType::Signal)
                || unwanted(ResetReapplyExcludeType::Update),
            reason: request.reason,
            request_id: request.request_id,
            options,
        };
        let run_id = self.node.runs.reset_workflow(&key, &run_id, call).await.map_err(failed)?;
        Ok(ResetWorkflowExecutionResponse { run_id })
    }
}

/// The operation on the new run of a reset. Only its options can be changed.
fn after_reset(operation: &PostResetOperation) -> Result<UpdateOptions, Status> {
    let unsupported = |what: &str| Err(Status::invalid_argument(format!("unsupported post reset operation: {what}")));
    match &operation.variant {
        Some(Variant::UpdateWorkflowOptions(update)) => {
            validate::options::after_reset(update).map_err(refused)?;
            let mask = update.update_mask.clone().unwrap_or_default();
            Ok(UpdateOptions {
                options: update.workflow_execution_options.clone().unwrap_or_default(),
                paths: mask.paths.iter().map(|path| field_path(path)).collect(),
                identity: String::new(),
            })
        }
        Some(Variant::SignalWorkflow(_)) => unsupported("*workflow.PostResetOperation_SignalWorkflow_"),
        None => unsupported("<nil>"),
    }
}
