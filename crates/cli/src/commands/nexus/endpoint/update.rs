//! `segno nexus endpoint update`.

use clap::{ArgGroup, Args};
use segno_proto::{nexus::EndpointSpec, operatorservice::UpdateNexusEndpointRequest};

use super::{Name, done, read, spec, target::Target};
use crate::client::Client;

#[derive(Args, Clone, Debug)]
#[command(
    group = ArgGroup::new("change")
        .required(true)
        .multiple(true)
        .args(["new_name", "target_namespace", "target_task_queue", "target_url", "description"]),
    after_help = "Example:\n  segno nexus endpoint update --name payments --new-name billing\n\n\
        What no flag names stays as it is. An empty description removes it."
)]
pub struct Update {
    #[command(flatten)]
    endpoint: Name,
    /// Renames it. Operations that are pending keep their endpoint.
    #[arg(long, value_name = "NAME")]
    new_name: Option<String>,
    #[command(flatten)]
    target: Target,
}

impl Update {
    /// Changes the endpoint, unless another client changes it meanwhile.
    pub async fn run(self, client: &mut Client) -> anyhow::Result<()> {
        let known = read(client, &self.endpoint.name).await?;
        let before = spec(&known);
        let spec = EndpointSpec {
            name: self.new_name.unwrap_or(before.name),
            description: self.target.description(before.description),
            target: self.target.target(before.target),
        };
        let message = UpdateNexusEndpointRequest { id: known.id, version: known.version, spec: Some(spec) };
        let updated = client.call("update the endpoint", message).await?;
        done(client, updated.endpoint, "updated")
    }
}
