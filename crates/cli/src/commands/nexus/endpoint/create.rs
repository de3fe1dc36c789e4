//! `segno nexus endpoint create`.

use clap::{ArgGroup, Args};
use segno_proto::{nexus::EndpointSpec, operatorservice::CreateNexusEndpointRequest};

use super::{Name, done, target::Target};
use crate::client::Client;

#[derive(Args, Clone, Debug)]
#[command(
    group = ArgGroup::new("goes_to").required(true).args(["target_task_queue", "target_url"]),
    group = ArgGroup::new("workers")
        .multiple(true)
        .args(["target_namespace", "target_task_queue"])
        .requires_all(["target_namespace", "target_task_queue"]),
    after_help = "Example:\n  segno nexus endpoint create --name payments --target-namespace finance --target-task-queue handlers"
)]
pub struct Create {
    #[command(flatten)]
    endpoint: Name,
    #[command(flatten)]
    target: Target,
}

impl Create {
    /// Creates the endpoint; workflows can use it when this returns.
    pub async fn run(self, client: &mut Client) -> anyhow::Result<()> {
        let spec = EndpointSpec {
            name: self.endpoint.name,
            description: self.target.description(None),
            target: self.target.target(None),
        };
        let created = client.call("create the endpoint", CreateNexusEndpointRequest { spec: Some(spec) }).await?;
        done(client, created.endpoint, "created")
    }
}
