//! `segno workflow cancel`.

use clap::Args;
use segno_proto::{
    batch::BatchOperationCancellation,
    enums::WorkflowExecutionStatus,
    workflowservice::{RequestCancelWorkflowExecutionRequest, start_batch_operation_request::Operation},
};

use tonic::Status;

use super::done;
use crate::{
    client::{Client, uuid},
    commands::{
        batch::{SelectedWorkflows, Selection},
        reason,
    },
    output::{plain, status},
};

#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  segno workflow cancel --workflow-id order-7 --reason 'customer called'\n\n\
                        The workflow decides what to do about it; `segno workflow terminate` does not ask.")]
pub struct Cancel {
    #[command(flatten)]
    selection: Selection,
    /// Why; kept in the history.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

impl Cancel {
    /// Asks the workflow to cancel itself.
    pub async fn run(self, client: &mut Client) -> anyhow::Result<()> {
        let target = match self.selection.selected() {
            SelectedWorkflows::One(target) => target,
            SelectedWorkflows::All(job) => {
                let operation =
                    Operation::CancellationOperation(BatchOperationCancellation { identity: client.identity.clone() });
                return job.start(client, self.reason, operation).await;
            }
        };
        // The server takes the request for a closed workflow as done: the caller would not notice that it came too
        // late.
        let info = client.describe(&target.workflow_id, &target.run_id).await?.workflow_execution_info;
        let status = info.map(|info| info.status()).unwrap_or_default();
        if !matches!(status, WorkflowExecutionStatus::Running | WorkflowExecutionStatus::Paused) {
            let text = format!(
                "workflow {} is closed already ({}): there is nothing to cancel",
                target.workflow_id,
                status::word(status)
            );
            return Err(client.refused("cancel the workflow", Status::not_found(text)).into());
        }
        let message = RequestCancelWorkflowExecutionRequest {
            namespace: client.namespace.clone(),
            workflow_execution: Some(target.execution()),
            reason: reason(self.reason, &client.identity),
            identity: client.identity.clone(),
            request_id: uuid()?,
            ..Default::default()
        };
        client.call("cancel the workflow", message).await?;
        let sentence = format!("Workflow {} was asked to cancel", plain(&target.workflow_id));
        done(client, &target, "cancelRequested", sentence)
    }
}
