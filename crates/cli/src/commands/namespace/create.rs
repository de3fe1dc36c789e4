//! `segno namespace create`.

use clap::Args;
use segno_proto::{Nanos, nanos_duration, workflowservice::RegisterNamespaceRequest};

use super::Name;
use crate::{
    args,
    client::Client,
    output::{Json, plain},
};

#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  segno namespace create orders --retention 7d --description 'all about orders'")]
pub struct Create {
    #[command(flatten)]
    name: Name,
    /// How long closed workflows are kept.
    #[arg(long, value_name = "DURATION", value_parser = args::duration, default_value = "72h")]
    retention: Nanos,
    /// Description of the namespace.
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    description: String,
    /// Email address of its owner.
    #[arg(long, value_name = "ADDRESS", default_value = "", hide_default_value = true)]
    email: String,
    /// An entry of the namespace's data, as KEY=VALUE; may be repeated.
    #[arg(long, value_name = "KEY=VALUE", value_parser = args::key_value)]
    data: Vec<(String, String)>,
}

impl Create {
    /// Creates the namespace.
    pub async fn run(self, client: &mut Client) -> anyhow::Result<()> {
        let name = self.name.or_of(client);
        let message = RegisterNamespaceRequest {
            namespace: name.clone(),
            description: self.description,
            owner_email: self.email,
            workflow_execution_retention_period: Some(nanos_duration(self.retention)),
            data: self.data.into_iter().collect(),
            ..Default::default()
        };
        client.call("create the namespace", message).await?;
        client.print(
            || format!("Namespace {} was created", plain(&name)),
            || Json::object([("namespace", Json::text(&name)), ("action", Json::text("created"))]),
        )
    }
}
