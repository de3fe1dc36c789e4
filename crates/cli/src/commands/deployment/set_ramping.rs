//! `segno deployment set-ramping`.

use clap::{ArgGroup, Args};
use segno_proto::workflowservice::SetWorkerDeploymentRampingVersionRequest;

use super::{
    Target,
    change::{confirm, done},
    routing::{self, NO_VERSION, RoutingChange},
};
use crate::{client::Client, output::plain};

#[derive(Args, Clone, Debug)]
#[command(
    group = ArgGroup::new("ramp").args(["build_id", "unversioned", "delete"]).required(true),
    after_help = "Example:\n  segno deployment set-ramping orders --build-id 2026-11-19.1 --percentage 10 --yes\n\n\
    The workflow id decides who belongs to the share: raising it only adds workflows."
)]
pub struct SetRamping {
    #[command(flatten)]
    target: Target,
    /// Build id of the version.
    #[arg(long, value_name = "ID")]
    build_id: Option<String>,
    /// Send the share to workers without a version.
    #[arg(long)]
    unversioned: bool,
    /// End the ramp.
    #[arg(long, conflicts_with = "percentage")]
    delete: bool,
    /// Share of the workflows, from 0 to 100.
    #[arg(long, value_name = "NUMBER", required_unless_present = "delete", value_parser = share)]
    percentage: Option<f32>,
    #[command(flatten)]
    change: RoutingChange,
}

/// A percentage. A comparison with NaN is false.
fn share(text: &str) -> Result<f32, String> {
    let number: Option<f32> = text.parse().ok();
    number.filter(|number| (0.0..=100.0).contains(number)).ok_or_else(|| "expected a number from 0 to 100".to_owned())
}

impl SetRamping {
    /// Changes the routing, unless another client changes it in between.
    pub async fn run(self, client: &mut Client) -> anyhow::Result<()> {
        let name = self.target.name;
        let seen = self.change.read(client, &name).await?;
        let config = seen.worker_deployment_info.and_then(|info| info.routing_config).unwrap_or_default();
        let percentage = self.percentage.unwrap_or_default();
        let shown = plain(&name).into_owned();
        let before = routing::ramping(&config).unwrap_or_else(|| "none".to_owned());
        let to = format!("{} at {percentage} %", self.build_id.as_deref().map_or(NO_VERSION.into(), plain));
        let question = match self.delete {
            true => {
                format!("Deployment {shown}: current is {}, ramping {before}. End the ramp?", routing::current(&config))
            }
            false => {
                format!("Deployment {shown}: current is {}, ramping {before}. Ramp {to}?", routing::current(&config))
            }
        };
        confirm(self.change.yes, &question)?;
        let message = SetWorkerDeploymentRampingVersionRequest {
            namespace: client.namespace.clone(),
            deployment_name: name.clone(),
            build_id: self.build_id.clone().unwrap_or_default(),
            percentage,
            conflict_token: seen.conflict_token,
            identity: self.change.author.identity(client),
            ignore_missing_task_queues: self.change.ignore_missing_task_queues,
            allow_no_pollers: self.change.allow_no_pollers,
            ..Default::default()
        };
        client.call("set the ramping version", message).await?;
        let (action, sentence) = match self.delete {
            true => ("endRamp", format!("Deployment {shown}: the ramp has ended")),
            false => ("setRamping", format!("Deployment {shown}: ramping {to}")),
        };
        done(client, &name, self.build_id.as_deref(), action, sentence)
    }
}

#[cfg(test)]
mod tests {
    use super::share;

    #[test]
    fn shares_are_percentages() {
        assert_eq!(share("0.5"), Ok(0.5));
        assert_eq!(share("100"), Ok(100.0));
        for text in ["-1", "101", "NaN", "half", ""] {
            assert!(share(text).is_err(), "{text}");
        }
    }
}
