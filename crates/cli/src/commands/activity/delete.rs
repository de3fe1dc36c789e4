//! `segno activity delete`.

use clap::Args;
use segno_proto::workflowservice::DeleteActivityExecutionRequest;

use super::{Target, done};
use crate::{client::Client, commands::confirm, output::plain};

#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  segno activity delete --activity-id mail-7 --yes")]
pub struct Delete {
    #[command(flatten)]
    target: Target,
    /// Do not ask for confirmation.
    #[arg(short, long)]
    yes: bool,
}

impl Delete {
    /// Deletes the activity; one that runs is terminated first.
    pub async fn run(self, client: &mut Client) -> anyhow::Result<()> {
        confirm(self.yes, &format!("Delete activity {}?", plain(&self.target.activity_id)))?;
        let message = DeleteActivityExecutionRequest {
            namespace: client.namespace.clone(),
            activity_id: self.target.activity_id.clone(),
            run_id: self.target.run_id.clone(),
        };
        client.call("delete the activity", message).await?;
        let sentence = format!("Activity {} was deleted", plain(&self.target.activity_id));
        done(client, &self.target, "deleted", sentence)
    }
}
