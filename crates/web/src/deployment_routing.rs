//! The routing of a deployment, and the forms that change it.

use std::collections::BTreeMap;

use maud::{Markup, html};
use prost_types::Timestamp;
use segno_proto::{
    deployment::{RoutingConfig, worker_deployment_info::WorkerDeploymentVersionSummary},
    enums::WorkerDeploymentVersionStatus as Status,
    workflowservice::{
        CountWorkflowExecutionsRequest, DeleteWorkerDeploymentRequest, DeleteWorkerDeploymentVersionRequest,
        SetWorkerDeploymentCurrentVersionRequest, SetWorkerDeploymentRampingVersionRequest,
    },
};
use tonic::Status as CallStatus;

use super::{
    Answer, IDENTITY, Outcome, PageError, PageRequest, Web,
    deployments::deployment_address,
    fields::words,
    forms::{Form, encode, hex, unhex},
    layout::{action, button},
    payloads,
};

/// Workers without a version, in the words of the protocol.
const UNVERSIONED: &str = "__unversioned__";

/// Workers to which tasks go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// Those of a version.
    Build(String),
    /// Those without a version.
    Unversioned,
}

/// Where tasks go that belong to no ramp.
pub(super) fn current(routing: &RoutingConfig) -> Target {
    match &routing.current_deployment_version {
        Some(version) => Target::Build(version.build_id.clone()),
        None => Target::Unversioned,
    }
}

/// The ramp with its percentage, if there is one.
pub(super) fn ramping(routing: &RoutingConfig) -> Option<(Target, f32)> {
    let target = match &routing.ramping_deployment_version {
        Some(version) => Target::Build(version.build_id.clone()),
        None if routing.ramping_version == UNVERSIONED => Target::Unversioned,
        None => return None,
    };
    Some((target, routing.ramping_version_percentage))
}

/// How many percent of the workflows that are not pinned go somewhere.
pub(super) fn share(routing: &RoutingConfig, target: &Target) -> f32 {
    let ramp = ramping(routing);
    let ramped = ramp.as_ref().map_or(0.0, |(_, percentage)| *percentage);
    match ramp {
        Some((ramping, percentage)) if ramping == *target => percentage,
        _ if current(routing) == *target => 100.0 - ramped,
        _ => 0.0,
    }
}

/// When the routing changed last.
pub(super) fn last_change(routing: &RoutingConfig) -> Option<Timestamp> {
    let times = [
        routing.current_version_changed_time,
        routing.ramping_version_changed_time,
        routing.ramping_version_percentage_changed_time,
    ];
    times.into_iter().flatten().max_by_key(|time| (time.seconds, time.nanos))
}

/// The build id of a version.
pub(super) fn build_of(summary: &WorkerDeploymentVersionSummary) -> &str {
    summary.deployment_version.as_ref().map(|version| version.build_id.as_str()).unwrap_or_default()
}

/// The name of a status and the class of its badge.
pub(super) fn status_words(status: Status) -> (String, &'static str) {
    let class = match status {
        Status::Current => "good",
        Status::Ramping => "running",
        Status::Draining => "warn",
        Status::Unspecified | Status::Created | Status::Inactive | Status::Drained => "plain",
    };
    (words(status.as_str_name(), "WORKER_DEPLOYMENT_VERSION_STATUS_"), class)
}

/// A badge for the status of a version.
pub(super) fn status_badge(status: Status) -> Markup {
    let (name, class) = status_words(status);
    html! { span class={ "badge " (class) } { (name) } }
}

/// The filter of the open workflows that are pinned to a version.
pub(super) fn pinned_filter(name: &str, build: &str) -> String {
    let version = format!("{name}:{build}").replace('\\', "\\\\").replace('\'', "\\'");
    format!(
        "TemporalWorkerDeploymentVersion = '{version}' AND TemporalWorkflowVersioningBehavior = 'Pinned' AND \
         ExecutionStatus = 'Running'"
    )
}

/// The address of the list of these workflows.
pub(super) fn pinned_address(namespace: &str, name: &str, build: &str) -> String {
    format!("/ui/{}/workflows?query={}", encode(namespace), encode(&pinned_filter(name, build)))
}

/// Whether the reader of a page may change the routing.
pub(super) fn may_change(asked: &PageRequest<'_>, namespace: &str) -> bool {
    asked.caller.as_ref().is_none_or(|caller| caller.may_write(namespace))
}

/// The fields of a form that makes a version current.
fn protections() -> Markup {
    html! {
        label { span { input type="checkbox" name="ignore-missing" value="yes"; " Even if task queues of the current version have no workers in it" } }
        label { span { input type="checkbox" name="allow-no-pollers" value="yes"; " Even if no worker of it has polled" } }
    }
}

/// Which version a form is about: this one, or one that the reader chooses.
fn choice(chosen: Option<&str>, builds: &[&str]) -> Markup {
    html! {
        @match chosen {
            Some(build) => input type="hidden" name="build" value=(build);
            None => label { "Version" select name="build" {
                @for build in builds { option value=(build) { (build) } }
                option value="" { "unversioned workers" }
            } }
        }
    }
}

/// The forms that change the routing, for a version or for one that the reader chooses.
pub(super) fn routing_forms(routing: &RoutingConfig, token: &[u8], chosen: Option<&str>, builds: &[&str]) -> Markup {
    let token = hex(token);
    let percentage = match ramping(routing) {
        Some((Target::Build(build), percentage)) if chosen.is_none_or(|chosen| chosen == build) => percentage,
        _ => 10.0,
    };
    html! {
        (action("Set current", "primary", html! {
            input type="hidden" name="do" value="current";
            input type="hidden" name="token" value=(token);
            (choice(chosen, builds))
            p { "New workflows, and those that upgrade by themselves, go to it at once. Pinned ones stay." }
            (protections())
            button.primary { "Set current" }
        }))
        (action("Ramp", "", html! {
            input type="hidden" name="do" value="ramp";
            input type="hidden" name="token" value=(token);
            (choice(chosen, builds))
            label { "Percentage" input name="percentage" type="number" min="0" max="100" step="any" required value=(percentage); }
            (protections())
            button.primary { "Ramp" }
        }))
        @if ramping(routing).is_some() { (button("End ramp", "", &[("do", "end-ramp"), ("token", &token)])) }
    }
}

impl Web {
    /// How many open workflows are pinned to the versions of a deployment, by build id.
    pub(super) async fn pinned(&self, namespace: &str, name: &str) -> Result<BTreeMap<String, i64>, CallStatus> {
        let deployment = name.replace('\\', "\\\\").replace('\'', "\\'");
        let request = CountWorkflowExecutionsRequest {
            namespace: namespace.to_owned(),
            query: format!(
                "TemporalWorkerDeployment = '{deployment}' AND TemporalWorkflowVersioningBehavior = 'Pinned' AND \
                 ExecutionStatus = 'Running' GROUP BY TemporalWorkerDeploymentVersion"
            ),
        };
        let counted = self.call(request).await?;
        let prefix = format!("{name}:");
        let build = |group: &segno_proto::workflowservice::count_workflow_executions_response::AggregationGroup| {
            let version = group.group_values.first().and_then(payloads::json_of)?;
            Some((version.as_str()?.strip_prefix(&prefix)?.to_owned(), group.count))
        };
        Ok(counted.groups.iter().filter_map(build).collect())
    }

    /// Carries out the forms of a deployment and of its versions.
    pub(super) async fn deployment_action(
        &self,
        namespace: &str,
        name: &str,
        form: &Form,
    ) -> Result<Answer, PageError> {
        let conflict_token = unhex(form.get("token")).into();
        let (namespace, deployment_name) = (namespace.to_owned(), name.to_owned());
        let (build_id, identity) = (form.get("build").to_owned(), IDENTITY.to_owned());
        let ignore_missing_task_queues = form.get("ignore-missing") == "yes";
        let allow_no_pollers = form.get("allow-no-pollers") == "yes";
        let target = if build_id.is_empty() { "unversioned workers" } else { &build_id }.to_owned();
        match form.get("do") {
            "current" => {
                let request = SetWorkerDeploymentCurrentVersionRequest {
                    namespace,
                    deployment_name,
                    build_id,
                    conflict_token,
                    identity,
                    ignore_missing_task_queues,
                    allow_no_pollers,
                    ..Default::default()
                };
                self.call(request).await?;
                Ok(Outcome::done(html! { "Current: " (target) }))
            }
            "ramp" | "end-ramp" => {
                let is_end = form.get("do") == "end-ramp";
                let percentage = match form.number::<f32>("percentage") {
                    Some(percentage) => percentage,
                    None if is_end => 0.0,
                    None => return Err(CallStatus::invalid_argument("the percentage is no number").into()),
                };
                let request = SetWorkerDeploymentRampingVersionRequest {
                    namespace,
                    deployment_name,
                    build_id: if is_end { String::new() } else { build_id },
                    percentage,
                    conflict_token,
                    identity,
                    ignore_missing_task_queues,
                    allow_no_pollers,
                    ..Default::default()
                };
                self.call(request).await?;
                Ok(Outcome::done(match is_end {
                    true => html! { "The ramp has ended" },
                    false => html! { "Ramping: " (target) " at " (percentage) " %" },
                }))
            }
            "delete" => {
                let next = format!("/ui/{}/deployments", encode(&namespace));
                self.call(DeleteWorkerDeploymentRequest { namespace, deployment_name, identity }).await?;
                Ok(Outcome::then(html! { "It is deleted" }, next))
            }
            "delete-version" => {
                let next = deployment_address(&namespace, name);
                let request = DeleteWorkerDeploymentVersionRequest {
                    namespace,
                    deployment_version: Some(segno_proto::deployment::WorkerDeploymentVersion {
                        deployment_name,
                        build_id,
                    }),
                    skip_drainage: form.get("skip-drainage") == "yes",
                    identity,
                    ..Default::default()
                };
                self.call(request).await?;
                Ok(Outcome::then(html! { "Version " (target) " is deleted" }, next))
            }
            _ => Err(PageError::Missing),
        }
    }
}

#[cfg(test)]
mod tests {
    use segno_proto::deployment::WorkerDeploymentVersion;

    use super::*;

    #[test]
    fn shares_of_a_ramp() {
        let version = |build: &str| {
            Some(WorkerDeploymentVersion { deployment_name: "orders".to_owned(), build_id: build.to_owned() })
        };
        let build = |build: &str| Target::Build(build.to_owned());
        let mut routing = RoutingConfig { current_deployment_version: version("b1"), ..Default::default() };
        assert_eq!((share(&routing, &build("b1")), share(&routing, &Target::Unversioned)), (100.0, 0.0));
        routing.ramping_deployment_version = version("b2");
        routing.ramping_version_percentage = 30.0;
        assert_eq!((share(&routing, &build("b1")), share(&routing, &build("b2"))), (70.0, 30.0));
        assert_eq!(share(&routing, &build("b3")), 0.0);
        routing.current_deployment_version = None;
        assert_eq!(share(&routing, &Target::Unversioned), 70.0);
    }

    #[test]
    fn versions_are_quoted_in_filters() {
        assert!(pinned_filter("o'hara", "b1").contains("'o\\'hara:b1'"));
    }
}
