//! `segno activity cancel`.

use clap::Args;
use segno_proto::workflowservice::RequestCancelActivityExecutionRequest;

use super::{Target, done};
use crate::{
    client::{Client, uuid},
    commands::reason,
    output::plain,
};

#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  segno activity cancel --activity-id mail-7 --reason 'wrong address'")]
pub struct Cancel {
    #[command(flatten)]
    target: Target,
    /// Why.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

impl Cancel {
    /// Asks for cancellation. An activity that no worker has ends at once.
    pub async fn run(self, client: &mut Client) -> anyhow::Result<()> {
        let message = RequestCancelActivityExecutionRequest {
            namespace: client.namespace.clone(),
            activity_id: self.target.activity_id.clone(),
            run_id: self.target.run_id.clone(),
            identity: client.identity.clone(),
            request_id: uuid()?,
            reason: reason(self.reason, &client.identity),
        };
        client.call("cancel the activity", message).await?;
        let sentence = format!("Activity {} was asked to cancel", plain(&self.target.activity_id));
        done(client, &self.target, "cancelRequested", sentence)
    }
}
