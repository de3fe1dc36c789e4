//! `segno deployment update-metadata`.

use clap::Args;
use segno_proto::workflowservice::UpdateWorkerDeploymentVersionMetadataRequest;

use super::{
    VersionTarget,
    change::{Author, done},
};
use crate::{args, client::Client, commands::payload_map, output::plain};

#[derive(Args, Clone, Debug)]
#[command(
    after_help = "Example:\n  segno deployment update-metadata orders --build-id b2 --metadata 'commit=\"4f2a91c\"'"
)]
pub struct UpdateMetadata {
    #[command(flatten)]
    target: VersionTarget,
    /// A note, as KEY=JSON; may be repeated.
    #[arg(long, value_name = "KEY=JSON", value_parser = args::key_json, required_unless_present = "remove")]
    metadata: Vec<(String, String)>,
    /// Key of a note that is removed; may be repeated.
    #[arg(long, value_name = "KEY")]
    remove: Vec<String>,
    #[command(flatten)]
    author: Author,
}

impl UpdateMetadata {
    /// Changes the notes. The server ignores the removal of keys that are not there.
    pub async fn run(self, client: &mut Client) -> anyhow::Result<()> {
        let message = UpdateWorkerDeploymentVersionMetadataRequest {
            namespace: client.namespace.clone(),
            deployment_version: self.target.version(),
            upsert_entries: payload_map(&self.metadata).unwrap_or_default(),
            remove_entries: self.remove,
            identity: self.author.identity(client),
            ..Default::default()
        };
        client.call("change the metadata of the version", message).await?;
        let sentence = format!("Metadata of {} was changed", plain(&self.target.text()));
        done(client, &self.target.name, Some(&self.target.build_id), "updatedMetadata", sentence)
    }
}
