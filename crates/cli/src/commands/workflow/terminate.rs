//! `segno workflow terminate`.

use clap::Args;
use segno_proto::{
    batch::BatchOperationTermination,
    workflowservice::{TerminateWorkflowExecutionRequest, start_batch_operation_request::Operation},
};

use super::done;
use crate::{
    client::Client,
    commands::{
        batch::{SelectedWorkflows, Selection},
        reason,
    },
    output::plain,
};

#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  segno workflow terminate --workflow-id order-7 --reason 'stuck'")]
pub struct Terminate {
    #[command(flatten)]
    selection: Selection,
    /// Why; kept in the history.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

impl Terminate {
    /// Ends the workflow.
    pub async fn run(self, client: &mut Client) -> anyhow::Result<()> {
        let target = match self.selection.selected() {
            SelectedWorkflows::One(target) => target,
            SelectedWorkflows::All(job) => {
                let operation = Operation::TerminationOperation(BatchOperationTermination {
                    identity: client.identity.clone(),
                    ..Default::default()
                });
                return job.start(client, self.reason, operation).await;
            }
        };
        let message = TerminateWorkflowExecutionRequest {
            namespace: client.namespace.clone(),
            workflow_execution: Some(target.execution()),
            reason: reason(self.reason, &client.identity),
            identity: client.identity.clone(),
            ..Default::default()
        };
        client.call("terminate the workflow", message).await?;
        let sentence = format!("Workflow {} was terminated", plain(&target.workflow_id));
        done(client, &target, "terminated", sentence)
    }
}
