//! `segno workflow pause` and `unpause`.

use clap::Args;
use segno_proto::workflowservice::{PauseWorkflowExecutionRequest, UnpauseWorkflowExecutionRequest};

use super::done;
use crate::{
    client::{Client, uuid},
    commands::{Target, reason},
    output::plain,
};

#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  segno workflow pause --workflow-id order-7 --reason 'bank is down'\n\n\
    The server must allow it: `segno serve --workflow-pause`.")]
pub struct Pause {
    #[command(flatten)]
    subject: Subject,
}

#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  segno workflow unpause --workflow-id order-7 --reason 'bank is up'")]
pub struct Unpause {
    #[command(flatten)]
    subject: Subject,
}

/// What both calls say.
#[derive(Args, Clone, Debug)]
struct Subject {
    #[command(flatten)]
    target: Target,
    /// Why; kept in the history.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

impl Subject {
    fn request(self, client: &Client) -> anyhow::Result<PauseWorkflowExecutionRequest> {
        Ok(PauseWorkflowExecutionRequest {
            namespace: client.namespace.clone(),
            workflow_id: self.target.workflow_id,
            run_id: self.target.run_id,
            identity: client.identity.clone(),
            reason: reason(self.reason, &client.identity),
            request_id: uuid()?,
        })
    }
}

impl Pause {
    /// Pauses the workflow.
    pub async fn run(self, client: &mut Client) -> anyhow::Result<()> {
        let target = self.subject.target.clone();
        let message = self.subject.request(client)?;
        client.call("pause the workflow", message).await?;
        let sentence = format!("Workflow {} is paused", plain(&target.workflow_id));
        done(client, &target, "paused", sentence)
    }
}

impl Unpause {
    /// Lets the workflow go on.
    pub async fn run(self, client: &mut Client) -> anyhow::Result<()> {
        let target = self.subject.target.clone();
        let PauseWorkflowExecutionRequest { namespace, workflow_id, run_id, identity, reason, request_id } =
            self.subject.request(client)?;
        let message = UnpauseWorkflowExecutionRequest { namespace, workflow_id, run_id, identity, reason, request_id };
        client.call("unpause the workflow", message).await?;
        let sentence = format!("Workflow {} goes on", plain(&target.workflow_id));
        done(client, &target, "unpaused", sentence)
    }
}
