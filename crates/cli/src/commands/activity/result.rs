//! `segno activity result`.

use clap::Args;

use super::{Target, outcome};
use crate::client::Client;

#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  segno activity result --activity-id mail-7")]
pub struct ResultOf {
    #[command(flatten)]
    target: Target,
}

impl ResultOf {
    /// Waits for the end and prints the result.
    pub async fn run(self, client: &mut Client) -> anyhow::Result<()> {
        outcome::wait(client, &self.target.activity_id, &self.target.run_id).await
    }
}
