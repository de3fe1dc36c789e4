//! `segno workflow pause` and `unpause`.

use clap::Args;
use segno_proto::workflowservice::{PauseWorkflowExecutionRequest, UnpauseWorkflowExecutionRequest};

use super::done;
use crate::{
    client::{Client, request, uuid},
    commands::{Target, reason},
    output::plain,
};

#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  segno workflow pause --workflow-id order-7 --reason 'bank is down'\n\n\
    The server must allow it: `segno serve --workflow-pause`.")]
pub struct Pause {
    #[command(flatten)]
    target: Target,
    /// Why; kept in the history.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

impl Pause {
    /// Pauses the workflow.
    pub async fn run(self, client: &mut Client) -> anyhow::Result<()> {
        let message = PauseWorkflowExecutionRequest {
            namespace: client.namespace.clone(),
            workflow_id: self.target.workflow_id.clone(),
            run_id: self.target.run_id.clone(),
            identity: client.identity.clone(),
            reason: reason(self.reason, &client.identity),
            request_id: uuid()?,
        };
        let answer = client.workflows.pause_workflow_execution(request(message)).await;
        client.answer("pause the workflow", answer)?;
        let sentence = format!("Workflow {} is paused", plain(&self.target.workflow_id));
        done(client, &self.target, "paused", sentence)
    }
}

#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  segno workflow unpause --workflow-id order-7 --reason 'bank is up'")]
pub struct Unpause {
    #[command(flatten)]
    target: Target,
    /// Why; kept in the history.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

impl Unpause {
    /// Lets the workflow go on.
    pub async fn run(self, client: &mut Client) -> anyhow::Result<()> {
        let message = UnpauseWorkflowExecutionRequest {
            namespace: client.namespace.clone(),
            workflow_id: self.target.workflow_id.clone(),
            run_id: self.target.run_id.clone(),
            identity: client.identity.clone(),
            reason: reason(self.reason, &client.identity),
            request_id: uuid()?,
        };
        let answer = client.workflows.unpause_workflow_execution(request(message)).await;
        client.answer("unpause the workflow", answer)?;
        let sentence = format!("Workflow {} goes on", plain(&self.target.workflow_id));
        done(client, &self.target, "unpaused", sentence)
    }
}
