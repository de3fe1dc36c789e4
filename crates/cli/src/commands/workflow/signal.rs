//! `segno workflow signal`.

use clap::Args;
use segno_proto::workflowservice::SignalWorkflowExecutionRequest;

use super::done;
use crate::{
    client::{Client, request, uuid},
    commands::{Input, Target},
    output::plain,
};

#[derive(Args, Clone, Debug)]
#[command(
    after_help = "Example:\n  segno workflow signal --workflow-id order-7 --name approve --input '{\"by\": \"Ann\"}'"
)]
pub struct Signal {
    #[command(flatten)]
    target: Target,
    /// Name of the signal.
    #[arg(long, alias = "type", value_name = "NAME")]
    name: String,
    #[command(flatten)]
    input: Input,
}

impl Signal {
    /// Sends the signal.
    pub async fn run(self, client: &mut Client) -> anyhow::Result<()> {
        let message = SignalWorkflowExecutionRequest {
            namespace: client.namespace.clone(),
            workflow_execution: Some(self.target.execution()),
            signal_name: self.name.clone(),
            input: self.input.payloads()?,
            identity: client.identity.clone(),
            request_id: uuid()?,
            ..Default::default()
        };
        let answer = client.workflows.signal_workflow_execution(request(message)).await;
        client.answer("signal the workflow", answer)?;
        let sentence = format!("Signal {} was sent to workflow {}", plain(&self.name), plain(&self.target.workflow_id));
        done(client, &self.target, "signaled", sentence)
    }
}
