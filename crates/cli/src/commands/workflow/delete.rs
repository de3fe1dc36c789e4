//! `segno workflow delete`.

use clap::Args;
use segno_proto::{
    batch::BatchOperationDeletion,
    workflowservice::{DeleteWorkflowExecutionRequest, start_batch_operation_request::Operation},
};

use super::done;
use crate::{
    client::Client,
    commands::{
        batch::{SelectedWorkflows, Selection},
        confirm,
    },
    output::plain,
};

#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  segno workflow delete --workflow-id order-7 --yes\n\n\
                        A workflow that runs is terminated first.")]
pub struct Delete {
    #[command(flatten)]
    selection: Selection,
    /// Why; kept with the batch job.
    #[arg(long, value_name = "TEXT", requires = "query")]
    reason: Option<String>,
}

impl Delete {
    /// Deletes the workflow.
    pub async fn run(self, client: &mut Client) -> anyhow::Result<()> {
        let yes = self.selection.yes;
        let target = match self.selection.selected() {
            SelectedWorkflows::One(target) => target,
            SelectedWorkflows::All(job) => {
                let operation =
                    Operation::DeletionOperation(BatchOperationDeletion { identity: client.identity.clone() });
                return job.start(client, self.reason, operation).await;
            }
        };
        let id = plain(&target.workflow_id);
        confirm(yes, &format!("Delete workflow {id} with its history?"))?;
        let message = DeleteWorkflowExecutionRequest {
            namespace: client.namespace.clone(),
            workflow_execution: Some(target.execution()),
        };
        client.call("delete the workflow", message).await?;
        done(client, &target, "deleted", format!("Workflow {id} was deleted"))
    }
}
