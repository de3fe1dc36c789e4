//! `segno search-attribute remove`.

use clap::Args;
use segno_proto::operatorservice::{ListSearchAttributesRequest, RemoveSearchAttributesRequest};

use tonic::Status;

use super::done;
use crate::{client::Client, commands::confirm, output::plain};

#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  segno search-attribute remove --name Customer --yes")]
pub struct Remove {
    /// Name; may be repeated.
    #[arg(long, value_name = "NAME", required = true)]
    name: Vec<String>,
    /// Do not ask for confirmation.
    #[arg(short, long)]
    yes: bool,
}

impl Remove {
    /// Removes them.
    pub async fn run(self, client: &mut Client) -> anyhow::Result<()> {
        confirm(self.yes, &format!("Remove {} from namespace {}?", plain(&self.name.join(", ")), client.namespace))?;
        // The server takes the removal of what is not there as done: a misspelled name would go unnoticed.
        let known = ListSearchAttributesRequest { namespace: client.namespace.clone() };
        let known = client.call("list search attributes", known).await?.custom_attributes;
        if let Some(unknown) = self.name.iter().find(|name| !known.contains_key(*name)) {
            let text = format!(
                "there is no custom search attribute {:?} in namespace {}; `segno search-attribute list` shows them",
                unknown, client.namespace
            );
            return Err(client.refused("remove the search attributes", Status::not_found(text)).into());
        }
        let message =
            RemoveSearchAttributesRequest { namespace: client.namespace.clone(), search_attributes: self.name.clone() };
        client.call("remove the search attributes", message).await?;
        done(client, &self.name, "removed")
    }
}
