//! `segno workflow execute`.

use clap::Args;

use super::{outcome::Outcome, start_options::StartOptions};
use crate::{client::Client, output::plain};

#[derive(Args, Clone, Debug)]
#[command(
    after_help = "Example:\n  segno workflow execute --type Order --task-queue orders --input '{\"item\": \"tea\"}'\n\n\
                        The result goes to standard output, the ids to standard error. Ends with 0 if the workflow \
                        completed, else with 1."
)]
pub struct Execute {
    #[command(flatten)]
    options: StartOptions,
}

impl Execute {
    /// Starts a workflow and waits for its end.
    pub async fn run(self, client: &mut Client) -> anyhow::Result<()> {
        let started = self.options.start(client).await?;
        let verb = if started.started { "started" } else { "runs already:" };
        eprintln!("segno: {verb} workflow {}, run {}", plain(&started.workflow_id), plain(&started.run_id));
        client.tell_executor(&started).await;
        let (run_id, last) = client.wait_for_end(&started.workflow_id, &started.run_id).await?;
        Outcome { workflow_id: started.workflow_id, run_id, last }.print(client)
    }
}
