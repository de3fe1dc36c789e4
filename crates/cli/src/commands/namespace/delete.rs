//! `segno namespace delete`.

use clap::Args;
use segno_proto::operatorservice::DeleteNamespaceRequest;

use crate::{
    client::Client,
    commands::confirm,
    output::{Json, plain},
};

#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  segno namespace delete orders --yes")]
pub struct Delete {
    /// The namespace. There is no default.
    #[arg(value_name = "NAME")]
    name: String,
    /// Do not ask for confirmation.
    #[arg(short, long)]
    yes: bool,
}

impl Delete {
    /// Deletes the namespace.
    pub async fn run(self, client: &mut Client) -> anyhow::Result<()> {
        let name = plain(&self.name);
        confirm(self.yes, &format!("Delete namespace {name} with all its workflows?"))?;
        let message = DeleteNamespaceRequest { namespace: self.name.clone(), ..Default::default() };
        let answer = client.call("delete the namespace", message).await?;
        client.print(
            || format!("Namespace {name} was deleted"),
            || {
                Json::object([
                    ("namespace", Json::text(&self.name)),
                    ("action", Json::text("deleted")),
                    ("deletedNamespace", Json::text(&answer.deleted_namespace)),
                ])
            },
        )
    }
}
