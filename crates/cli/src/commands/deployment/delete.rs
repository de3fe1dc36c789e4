//! `segno deployment delete`.

use clap::Args;
use segno_proto::workflowservice::DeleteWorkerDeploymentRequest;

use super::{
    Target,
    change::{Author, done},
    read,
};
use crate::{client::Client, commands::confirm, output::plain};

#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  segno deployment delete orders --yes\n\n\
    Its versions must be deleted first, with `segno deployment delete-version`.")]
pub struct Delete {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    author: Author,
    /// Do not ask for confirmation.
    #[arg(short, long)]
    yes: bool,
}

impl Delete {
    /// Deletes the deployment.
    pub async fn run(self, client: &mut Client) -> anyhow::Result<()> {
        let name = self.target.name;
        let shown = plain(&name);
        // The server answers the deletion of an unknown deployment with success: a misspelled one would go unnoticed.
        read(client, &name).await?;
        confirm(self.yes, &format!("Delete deployment {shown}?"))?;
        let message = DeleteWorkerDeploymentRequest {
            namespace: client.namespace.clone(),
            deployment_name: name.clone(),
            identity: self.author.identity(client),
        };
        client.call("delete the deployment", message).await?;
        done(client, &name, None, "deleted", format!("Deployment {shown} was deleted"))
    }
}
