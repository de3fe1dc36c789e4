//! `segno workflow delete`.

use clap::Args;
use segno_proto::workflowservice::DeleteWorkflowExecutionRequest;

use super::done;
use crate::{
    client::{Client, request},
    commands::{Target, confirm},
    output::plain,
};

#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  segno workflow delete --workflow-id order-7 --yes\n\n\
                        A workflow that runs is terminated first.")]
pub struct Delete {
    #[command(flatten)]
    target: Target,
    /// Do not ask.
    #[arg(short, long)]
    yes: bool,
}

impl Delete {
    /// Deletes the workflow.
    pub async fn run(self, client: &mut Client) -> anyhow::Result<()> {
        let id = plain(&self.target.workflow_id);
        confirm(self.yes, &format!("Delete workflow {id} with its history?"))?;
        let message = DeleteWorkflowExecutionRequest {
            namespace: client.namespace.clone(),
            workflow_execution: Some(self.target.execution()),
        };
        let answer = client.workflows.delete_workflow_execution(request(message)).await;
        client.answer("delete the workflow", answer)?;
        done(client, &self.target, "deleted", format!("Workflow {id} was deleted"))
    }
}
