//! `segno workflow update-options`.

use clap::{Args, ValueEnum};
use prost_types::FieldMask;
use segno_proto::{
    deployment::WorkerDeploymentVersion,
    workflow::{
        VersioningOverride, WorkflowExecutionOptions,
        versioning_override::{OneTimeOverride, Override, PinnedOverride, PinnedOverrideBehavior},
    },
    workflowservice::UpdateWorkflowExecutionOptionsRequest,
};

use super::done;
use crate::{client::Client, commands::Target, output::plain};

#[derive(Args, Clone, Debug)]
#[command(
    after_help = "Examples:\n  segno workflow update-options -w order-7 --versioning-override-behavior auto_upgrade\n  \
    segno workflow update-options -w order-7 --versioning-override-behavior pinned \\\n    \
    --versioning-override-deployment-name orders --versioning-override-build-id b2\n\n\
    An override goes before what the code says of its versioning; `unspecified` removes it."
)]
pub struct UpdateOptions {
    #[command(flatten)]
    target: Target,
    /// To which version of workers the workflow goes.
    #[arg(long, value_enum, ignore_case = true, value_name = "BEHAVIOR")]
    versioning_override_behavior: Behavior,
    /// Deployment of the version, for `pinned` and `one_time`.
    #[arg(long, value_name = "NAME", requires = "versioning_override_build_id")]
    versioning_override_deployment_name: Option<String>,
    /// Build id of the version, for `pinned` and `one_time`.
    #[arg(long, value_name = "ID", requires = "versioning_override_deployment_name")]
    versioning_override_build_id: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
enum Behavior {
    /// As the code says.
    Unspecified,
    /// To this version, and it stays there. Without a version: to the one that it is pinned to.
    Pinned,
    /// To this version until a workflow task completes there.
    OneTime,
    /// To the current version.
    AutoUpgrade,
}

impl UpdateOptions {
    /// Sets the override, or removes it.
    pub async fn run(self, client: &mut Client) -> anyhow::Result<()> {
        let version = match (self.versioning_override_deployment_name, self.versioning_override_build_id) {
            (Some(deployment_name), Some(build_id)) => Some(WorkerDeploymentVersion { deployment_name, build_id }),
            _ => None,
        };
        let given = match self.versioning_override_behavior {
            Behavior::Unspecified => None,
            Behavior::Pinned => {
                Some(Override::Pinned(PinnedOverride { behavior: PinnedOverrideBehavior::Pinned as i32, version }))
            }
            Behavior::OneTime => Some(Override::OneTime(OneTimeOverride { target_deployment_version: version })),
            Behavior::AutoUpgrade => Some(Override::AutoUpgrade(true)),
        };
        let sentence = match (&given, self.versioning_override_behavior) {
            (None, _) => "goes by its code again".to_owned(),
            (_, Behavior::AutoUpgrade) => "goes to the current version".to_owned(),
            (Some(Override::Pinned(PinnedOverride { version: Some(version), .. })), _) => {
                format!("is pinned to {}:{}", version.deployment_name, version.build_id)
            }
            (Some(Override::OneTime(OneTimeOverride { target_deployment_version: Some(version) })), _) => {
                format!("goes to {}:{} once", version.deployment_name, version.build_id)
            }
            _ => "is pinned to its version".to_owned(),
        };
        let message = UpdateWorkflowExecutionOptionsRequest {
            namespace: client.namespace.clone(),
            workflow_execution: Some(self.target.execution()),
            workflow_execution_options: Some(WorkflowExecutionOptions {
                versioning_override: given
                    .map(|given| VersioningOverride { r#override: Some(given), ..Default::default() }),
                ..Default::default()
            }),
            update_mask: Some(FieldMask { paths: vec!["versioning_override".to_owned()] }),
            identity: client.identity.clone(),
        };
        client.call("change the options of the workflow", message).await?;
        let sentence = format!("Workflow {} {}", plain(&self.target.workflow_id), plain(&sentence));
        done(client, &self.target, "updatedOptions", sentence)
    }
}
