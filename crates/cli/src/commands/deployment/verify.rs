//! `segno deployment verify`.

use clap::Args;

use super::VersionTarget;
use crate::{
    client::Client,
    commands::verification::{VerifyOptions, of_version},
};

#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  segno deployment verify orders --build-id 2026-11-19.1\n\n\
    Workers of the version replay the open runs that would move to it if it were current. The runs do not change.")]
pub struct Verify {
    #[command(flatten)]
    version: VersionTarget,
    /// Also try runs that are pinned to other versions.
    #[arg(long)]
    include_pinned: bool,
    #[command(flatten)]
    options: VerifyOptions,
}

impl Verify {
    /// Lets the workers of the version replay open runs.
    pub async fn run(self, client: &mut Client) -> anyhow::Result<()> {
        let candidate = of_version(&self.version.name, &self.version.build_id);
        self.options.run(client, candidate, self.include_pinned).await
    }
}
