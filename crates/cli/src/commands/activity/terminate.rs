//! `segno activity terminate`.

use clap::Args;
use segno_proto::workflowservice::TerminateActivityExecutionRequest;

use super::{Target, done};
use crate::{
    client::{Client, uuid},
    commands::reason,
    output::plain,
};

#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  segno activity terminate --activity-id mail-7 --reason 'wrong address'")]
pub struct Terminate {
    #[command(flatten)]
    target: Target,
    /// Why.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

impl Terminate {
    /// Ends the activity.
    pub async fn run(self, client: &mut Client) -> anyhow::Result<()> {
        let message = TerminateActivityExecutionRequest {
            namespace: client.namespace.clone(),
            activity_id: self.target.activity_id.clone(),
            run_id: self.target.run_id.clone(),
            identity: client.identity.clone(),
            request_id: uuid()?,
            reason: reason(self.reason, &client.identity),
        };
        client.call("terminate the activity", message).await?;
        let sentence = format!("Activity {} was terminated", plain(&self.target.activity_id));
        done(client, &self.target, "terminated", sentence)
    }
}
