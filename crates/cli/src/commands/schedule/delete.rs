//! `segno schedule delete`.

use clap::Args;
use segno_proto::workflowservice::DeleteScheduleRequest;

use super::{Target, patch};
use crate::{client::Client, commands::confirm};

#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  segno schedule delete --schedule-id nightly --yes")]
pub struct Delete {
    #[command(flatten)]
    target: Target,
    /// Do not ask for confirmation.
    #[arg(short, long)]
    yes: bool,
}

impl Delete {
    /// Deletes it, if it is meant.
    pub async fn run(self, client: &mut Client) -> anyhow::Result<()> {
        let id = self.target.schedule_id;
        confirm(self.yes, &format!("Delete schedule {id}?"))?;
        let message = DeleteScheduleRequest {
            namespace: client.namespace.clone(),
            schedule_id: id.clone(),
            identity: client.identity.clone(),
        };
        client.call("delete the schedule", message).await?;
        patch::done(client, "Deleted", &id)
    }
}
