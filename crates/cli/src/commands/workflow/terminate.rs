//! `segno workflow terminate`.

use clap::Args;
use segno_proto::workflowservice::TerminateWorkflowExecutionRequest;

use super::done;
use crate::{
    client::{Client, request},
    commands::{Target, reason},
    output::plain,
};

#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  segno workflow terminate --workflow-id order-7 --reason 'stuck'")]
pub struct Terminate {
    #[command(flatten)]
    target: Target,
    /// Why; kept in the history.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

impl Terminate {
    /// Ends the workflow.
    pub async fn run(self, client: &mut Client) -> anyhow::Result<()> {
        let message = TerminateWorkflowExecutionRequest {
            namespace: client.namespace.clone(),
            workflow_execution: Some(self.target.execution()),
            reason: reason(self.reason, &client.identity),
            identity: client.identity.clone(),
            ..Default::default()
        };
        let answer = client.workflows.terminate_workflow_execution(request(message)).await;
        client.answer("terminate the workflow", answer)?;
        let sentence = format!("Workflow {} was terminated", plain(&self.target.workflow_id));
        done(client, &self.target, "terminated", sentence)
    }
}
