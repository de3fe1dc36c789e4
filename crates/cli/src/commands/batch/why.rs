//! `segno batch why`.

use clap::Args;
use segno_proto::segno_workflow::ExplainRequest;

use crate::{
    client::Client,
    commands::{
        watch::Watch,
        why::{Subject, look},
    },
};

#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  segno batch why --job-id 3fd4a3c1-5ad0-4f4c-9a5e-5c4d0f2e8b11")]
pub struct Why {
    /// The job.
    #[arg(long, value_name = "ID")]
    job_id: String,
    #[command(flatten)]
    watch: Watch,
}

impl Why {
    /// Prints the sentences of the server.
    pub async fn run(self, client: &mut Client) -> anyhow::Result<()> {
        let request = ExplainRequest { job_id: self.job_id, ..Default::default() };
        look(client, self.watch, &Subject::Batch, request).await
    }
}
