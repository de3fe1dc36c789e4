//! `segno activity execute`.

use clap::Args;

use super::{outcome, start_options::StartOptions};
use crate::client::Client;

#[derive(Args, Clone, Debug)]
#[command(
    after_help = "Example:\n  segno activity execute --type Mail --task-queue mail --activity-id mail-7 \\\n      \
                        --start-to-close-timeout 1m"
)]
pub struct Execute {
    #[command(flatten)]
    options: StartOptions,
}

impl Execute {
    /// Starts an activity and prints its result.
    pub async fn run(self, client: &mut Client) -> anyhow::Result<()> {
        let started = self.options.start(client).await?;
        outcome::wait(client, &started.activity_id, &started.run_id).await
    }
}
