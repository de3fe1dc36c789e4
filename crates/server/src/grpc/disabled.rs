//! What Temporal's server has and refuses unless its configuration says otherwise: the same refusals.

use tonic::{Code, Status};

use super::Workflows;
use crate::status::named;

/// A feature that is off.
#[derive(Clone, Copy, Debug)]
pub enum Disabled {
    /// Workflow rules, by call.
    Rules(&'static str),
    /// Configuration of workers, by call.
    WorkerConfig(&'static str),
    /// Worker versioning by sets of build ids.
    VersionSets,
    /// Worker versioning by rules.
    VersionRules,
    /// The first kind of deployments.
    Deployments,
    /// Pausing workflows.
    WorkflowPause,
    /// Nexus operations without a workflow.
    NexusOperations,
    /// Time that each workflow skips for itself.
    WorkflowTimeSkipping,
}

impl Workflows {
    /// The answer to a call of a feature that is off.
    pub(super) fn disabled(&self, namespace: &str, what: Disabled) -> Status {
        if let Err(status) = self.namespace(namespace) {
            return status;
        }
        match what {
            Disabled::Rules(call) => Status::unimplemented(format!("method {call} not supported")),
            Disabled::WorkerConfig(call) => Status::unimplemented(format!("{call} command is not enabled.")),
            Disabled::VersionSets => denied("v0.1 (Version Set-based, deprecated)"),
            Disabled::VersionRules => denied("v0.2 (Rules-based, deprecated)"),
            Disabled::Deployments => Status::unimplemented(
                "Deployments are deprecated and no longer supported, use Worker Deployments instead",
            ),
            Disabled::WorkflowPause => {
                Status::unimplemented(format!("workflow pause is not enabled for namespace: {namespace}"))
            }
            Disabled::NexusOperations => Status::unimplemented("Standalone Nexus operation is disabled"),
            Disabled::WorkflowTimeSkipping => {
                Status::unimplemented("The Time-Skipping feature is not enabled for namespace.")
            }
        }
    }
}

fn denied(version: &str) -> Status {
    let text = format!("Worker versioning {version} is disabled on this namespace.");
    let kind = "temporal.api.errordetails.v1.PermissionDeniedFailure";
    named(Code::PermissionDenied, text, kind, &segno_proto::errordetails::PermissionDeniedFailure::default())
}
