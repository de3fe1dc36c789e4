//! `segno nexus endpoint delete`.

use clap::Args;
use segno_proto::operatorservice::DeleteNexusEndpointRequest;

use super::{Name, deleted, read};
use crate::{client::Client, commands::confirm, output::plain};

#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  segno nexus endpoint delete --name payments --yes\n\n\
    Operations that its handlers have not started fail.")]
pub struct Delete {
    #[command(flatten)]
    endpoint: Name,
    /// Do not ask for confirmation.
    #[arg(short, long)]
    yes: bool,
}

impl Delete {
    /// Deletes the endpoint.
    pub async fn run(self, client: &mut Client) -> anyhow::Result<()> {
        let name = self.endpoint.name;
        let known = read(client, &name).await?;
        let shown = plain(&name);
        confirm(self.yes, &format!("Delete endpoint {shown}?"))?;
        let message = DeleteNexusEndpointRequest { id: known.id, version: known.version };
        client.call("delete the endpoint", message).await?;
        client.print(|| format!("Endpoint {shown} was deleted"), || deleted(&name))
    }
}
