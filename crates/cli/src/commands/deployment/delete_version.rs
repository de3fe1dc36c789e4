//! `segno deployment delete-version`.

use clap::Args;
use segno_proto::workflowservice::DeleteWorkerDeploymentVersionRequest;
use tonic::Status;

use super::{
    VersionTarget,
    change::{Author, done},
    describe::pinned_to,
    read,
};
use crate::{client::Client, commands::confirm, output::plain};

#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  segno deployment delete-version orders --build-id 2026-11-12.3 --yes\n\n\
    The version must not be current or ramping, must have no workers and must not be draining.")]
pub struct DeleteVersion {
    #[command(flatten)]
    target: VersionTarget,
    /// Delete it even if workflows are pinned to it. They wait until workers of the version poll again.
    #[arg(long)]
    skip_drainage: bool,
    #[command(flatten)]
    author: Author,
    /// Do not ask for confirmation.
    #[arg(short, long)]
    yes: bool,
}

impl DeleteVersion {
    /// Deletes the version.
    pub async fn run(self, client: &mut Client) -> anyhow::Result<()> {
        let shown = plain(&self.target.text()).into_owned();
        // The server answers the deletion of an unknown version with success: a misspelled one would go unnoticed.
        let seen = read(client, &self.target.name).await?.worker_deployment_info.unwrap_or_default();
        let builds = seen.version_summaries.iter().filter_map(|summary| summary.deployment_version.as_ref());
        if !builds.into_iter().any(|version| version.build_id == self.target.build_id) {
            let status = Status::not_found("Worker Deployment Version not found");
            return Err(client.refused("delete the version", status).into());
        }
        let orphans = match self.skip_drainage {
            true => pinned_to(client, &self.target.text()).await?,
            false => 0,
        };
        let waiting = match orphans {
            0 => String::new(),
            count => format!(" {count} open workflows are pinned to it and will wait for its workers."),
        };
        confirm(self.yes, &format!("Delete version {shown}?{waiting}"))?;
        let message = DeleteWorkerDeploymentVersionRequest {
            namespace: client.namespace.clone(),
            deployment_version: self.target.version(),
            skip_drainage: self.skip_drainage,
            identity: self.author.identity(client),
            ..Default::default()
        };
        client.call("delete the version", message).await?;
        let sentence = format!("Version {shown} was deleted");
        done(client, &self.target.name, Some(&self.target.build_id), "deleted", sentence)
    }
}
