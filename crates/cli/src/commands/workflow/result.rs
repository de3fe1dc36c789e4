//! `segno workflow result`.

use clap::Args;

use super::outcome::Outcome;
use crate::{client::Client, commands::Target};

#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  segno workflow result --workflow-id order-7\n\n\
                        Ends with 0 if the workflow completed, else with 1. Runs that continue the workflow are waited for.")]
pub struct ResultOf {
    #[command(flatten)]
    target: Target,
}

impl ResultOf {
    /// Waits for the end.
    pub async fn run(self, client: &mut Client) -> anyhow::Result<()> {
        let (run_id, last) = client.wait_for_end(&self.target.workflow_id, &self.target.run_id).await?;
        Outcome { workflow_id: self.target.workflow_id, run_id, last }.print(client)
    }
}
