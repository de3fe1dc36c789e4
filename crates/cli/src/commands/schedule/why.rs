//! `segno schedule why`.

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
#[command(after_help = "Example:\n  segno schedule why --schedule-id nightly")]
pub struct Why {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    watch: Watch,
}

impl Why {
    /// Prints the sentences of the server.
    pub async fn run(self, client: &mut Client) -> anyhow::Result<()> {
        let request = ExplainRequest { schedule_id: self.target.schedule_id, ..Default::default() };
        look(client, self.watch, &Subject::Schedule, request).await
    }
}
