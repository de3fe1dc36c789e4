//! ResetWorkflowExecution.

use segno_engine::reset::Reset;
use segno_proto::{
    enums::{ResetReapplyExcludeType, ResetReapplyType},
    workflow::post_reset_operation::Variant,
    workflowservice::{ResetWorkflowExecutionRequest, ResetWorkflowExecutionResponse},
};
use tonic::Status;

use super::{Workflows, failed, key_of, refused};
use crate::validate;

impl Workflows {
    pub(super) async fn reset(
        &self,
        request: ResetWorkflowExecutionRequest,
    ) -> Result<ResetWorkflowExecutionResponse, Status> {
        let namespace = self.open_namespace(&request.namespace)?;
        validate::workflow::reset(&request).map_err(refused)?;
        if let Some(operation) = request.post_reset_operations.iter().find_map(|operation| operation.variant.as_ref()) {
            return Err(match operation {
                Variant::SignalWorkflow(_) => Status::invalid_argument(
                    "unsupported post reset operation: *workflow.PostResetOperation_SignalWorkflow_",
                ),
                _ => Status::unimplemented("changing options after a reset is not built yet in Segno"),
            });
        }
        let (key, run_id) = key_of(&namespace, request.workflow_execution.as_ref());
        // The older field says what is wanted, the newer one what is not.
        let wanted = request.reset_reapply_type();
        let unwanted = |kind| request.reset_reapply_exclude_types().any(|excluded| excluded == kind);
        let call = Reset {
            finish_event_id: request.workflow_task_finish_event_id,
            without_signals: wanted == ResetReapplyType::None || unwanted(ResetReapplyExcludeType::Signal),
            without_updates: matches!(wanted, ResetReapplyType::None | ResetReapplyType::Signal)
                || unwanted(ResetReapplyExcludeType::Update),
            reason: request.reason,
            request_id: request.request_id,
        };
        let run_id = self.node.reset_workflow(&key, &run_id, call).await.map_err(failed)?;
        Ok(ResetWorkflowExecutionResponse { run_id })
    }
}
