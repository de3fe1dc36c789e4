//! `segno deployment set-current`.

use clap::Args;
use segno_proto::workflowservice::SetWorkerDeploymentCurrentVersionRequest;

use super::{
    Target,
    change::{confirm, done},
    routing::{self, NO_VERSION, RoutingChange},
};
use crate::{client::Client, commands::verification::verify_before_change, output::plain};

#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  segno deployment set-current orders --build-id 2026-11-19.1 --yes\n\n\
    Pinned workflows stay on their versions. A ramp to the version ends.")]
pub struct SetCurrent {
    #[command(flatten)]
    target: Target,
    /// Build id of the version.
    #[arg(long, value_name = "ID", required_unless_present = "unversioned")]
    build_id: Option<String>,
    /// Send tasks to workers without a version.
    #[arg(long, conflicts_with = "build_id")]
    unversioned: bool,
    /// First check whether its workers can replay the runs that will move to it; refuse if one does not.
    #[arg(long, requires = "build_id")]
    verify: bool,
    #[command(flatten)]
    change: RoutingChange,
}

impl SetCurrent {
    /// Changes the routing, unless another client changes it in between.
    pub async fn run(self, client: &mut Client) -> anyhow::Result<()> {
        let name = self.target.name;
        let seen = self.change.read(client, &name).await?;
        let config = seen.worker_deployment_info.and_then(|info| info.routing_config).unwrap_or_default();
        let shown = self.build_id.as_deref().map_or(NO_VERSION.into(), plain);
        let question =
            format!("Deployment {}: current is {}. Make {shown} current?", plain(&name), routing::current(&config));
        confirm(self.change.yes, &question)?;
        let is_current =
            |build: &str| config.current_deployment_version.as_ref().is_some_and(|is| is.build_id == build);
        if let Some(build) = self.build_id.as_deref().filter(|build| self.verify && !is_current(build)) {
            verify_before_change(client, &name, build).await?;
        }
        let message = SetWorkerDeploymentCurrentVersionRequest {
            namespace: client.namespace.clone(),
            deployment_name: name.clone(),
            build_id: self.build_id.clone().unwrap_or_default(),
            conflict_token: seen.conflict_token,
            identity: self.change.author.identity(client),
            ignore_missing_task_queues: self.change.ignore_missing_task_queues,
            allow_no_pollers: self.change.allow_no_pollers,
            ..Default::default()
        };
        client.call("set the current version", message).await?;
        let sentence = format!("Deployment {}: current is {shown}", plain(&name));
        done(client, &name, self.build_id.as_deref(), "setCurrent", sentence)
    }
}
