//! `segno activity why`.

use clap::Args;
use segno_proto::segno_workflow::ExplainRequest;

use super::Target;
use crate::{
    client::Client,
    commands::{
        watch::Watch,
        why::{Subject, look},
    },
};

#[derive(Args, Clone, Debug)]
#[command(
    after_help = "Example:\n  segno activity why --activity-id mail-7\n\nFor an activity of a workflow ask `segno workflow why`."
)]
pub struct Why {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    watch: Watch,
}

impl Why {
    /// Prints the sentences of the server.
    pub async fn run(self, client: &mut Client) -> anyhow::Result<()> {
        let request =
            ExplainRequest { activity_id: self.target.activity_id, run_id: self.target.run_id, ..Default::default() };
        look(client, self.watch, &Subject::Activity, request).await
    }
}
