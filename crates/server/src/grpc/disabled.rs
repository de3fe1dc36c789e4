//! Calls that Temporal's server refuses unless it is configured otherwise: the same refusals.

use segno_proto::workflowservice::PollWorkflowExecutionTimeSkippingRequest;
use tonic::{Code, Status};

use super::{Workflows, refused};
use crate::{status::named, validate};

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
    /// The answer to a poll for time that a workflow skips for itself. Its execution is checked first.
    pub(crate) fn workflow_time_skipping(&self, request: &PollWorkflowExecutionTimeSkippingRequest) -> Status {
        let checked = self
            .namespace(&request.namespace)
            .and_then(|_| validate::execution(request.workflow_execution.as_ref()).map_err(refused));
        match checked {
            Ok(()) => self.disabled(&request.namespace, Disabled::WorkflowTimeSkipping),
            Err(status) => status,
        }
    }

    /// The answer to a call of a feature that is off.
    pub(crate) fn disabled(&self, namespace: &str, what: Disabled) -> Status {
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
