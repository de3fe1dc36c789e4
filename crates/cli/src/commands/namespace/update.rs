//! `segno namespace update`.

use clap::Args;
use segno_proto::{
    Nanos,
    namespace::{NamespaceConfig, UpdateNamespaceInfo},
    nanos_duration,
    workflowservice::UpdateNamespaceRequest,
};

use super::Name;
use crate::{
    args,
    client::Client,
    output::{Json, plain},
};

#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  segno namespace update orders --retention 30d")]
pub struct Update {
    #[command(flatten)]
    name: Name,
    #[command(flatten)]
    changes: Changes,
}

/// At least one of them is needed.
#[derive(Args, Clone, Debug)]
#[group(required = true, multiple = true)]
struct Changes {
    /// How long closed workflows are kept.
    #[arg(long, value_name = "DURATION", value_parser = args::duration)]
    retention: Option<Nanos>,
    /// Description of the namespace.
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// Email address of its owner.
    #[arg(long, value_name = "ADDRESS")]
    email: Option<String>,
    /// An entry of the namespace's data, as KEY=VALUE, added to existing ones; may be repeated.
    #[arg(long, value_name = "KEY=VALUE", value_parser = args::key_value)]
    data: Vec<(String, String)>,
}

impl Update {
    /// Changes what was given and leaves the rest.
    pub async fn run(self, client: &mut Client) -> anyhow::Result<()> {
        let name = self.name.or_of(client);
        let Changes { retention, description, email, data } = self.changes;
        let info = UpdateNamespaceInfo {
            description: description.unwrap_or_default(),
            owner_email: email.unwrap_or_default(),
            data: data.into_iter().collect(),
            ..Default::default()
        };
        let config = retention.map(|retention| NamespaceConfig {
            workflow_execution_retention_ttl: Some(nanos_duration(retention)),
            ..Default::default()
        });
        let message = UpdateNamespaceRequest {
            namespace: name.clone(),
            update_info: (info != UpdateNamespaceInfo::default()).then_some(info),
            config,
            ..Default::default()
        };
        client.call("change the namespace", message).await?;
        client.print(
            || format!("Namespace {} was changed", plain(&name)),
            || Json::object([("namespace", Json::text(&name)), ("action", Json::text("updated"))]),
        )
    }
}
