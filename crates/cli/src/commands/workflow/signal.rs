//! `segno workflow signal`.

use clap::Args;
use segno_proto::{
    batch::BatchOperationSignal,
    workflowservice::{SignalWorkflowExecutionRequest, start_batch_operation_request::Operation},
};

use super::done;
use crate::{
    client::{Client, uuid},
    commands::{
        Input,
        batch::{SelectedWorkflows, Selection},
    },
    output::plain,
};

#[derive(Args, Clone, Debug)]
#[command(
    after_help = "Example:\n  segno workflow signal --workflow-id order-7 --name approve --input '{\"by\": \"Ann\"}'"
)]
pub struct Signal {
    #[command(flatten)]
    selection: Selection,
    /// Name of the signal.
    #[arg(long, alias = "type", value_name = "NAME")]
    name: String,
    #[command(flatten)]
    input: Input,
    /// Why; kept with the batch job.
    #[arg(long, value_name = "TEXT", requires = "query")]
    reason: Option<String>,
}

impl Signal {
    /// Sends the signal.
    pub async fn run(self, client: &mut Client) -> anyhow::Result<()> {
        let target = match self.selection.selected() {
            SelectedWorkflows::One(target) => target,
            SelectedWorkflows::All(job) => {
                let operation = Operation::SignalOperation(BatchOperationSignal {
                    signal: self.name,
                    input: self.input.payloads()?,
                    identity: client.identity.clone(),
                    ..Default::default()
                });
                return job.start(client, self.reason, operation).await;
            }
        };
        let message = SignalWorkflowExecutionRequest {
            namespace: client.namespace.clone(),
            workflow_execution: Some(target.execution()),
            signal_name: self.name.clone(),
            input: self.input.payloads()?,
            identity: client.identity.clone(),
            request_id: uuid()?,
            ..Default::default()
        };
        client.call("signal the workflow", message).await?;
        let sentence = format!("Signal {} was sent to workflow {}", plain(&self.name), plain(&target.workflow_id));
        done(client, &target, "signaled", sentence)
    }
}
