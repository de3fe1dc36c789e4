//! `segno deployment describe`.

use std::collections::BTreeMap;

use clap::Args;
use jiff::Timestamp;
use segno_proto::{
    deployment::{WorkerDeploymentInfo, worker_deployment_info::WorkerDeploymentVersionSummary},
    enums::WorkerDeploymentVersionStatus as Status,
    workflowservice::CountWorkflowExecutionsRequest,
};

use super::{Target, read, routing};
use crate::{
    client::Client,
    output::{
        Json,
        dynamic::{decoded, short_name},
        fields::Fields,
        style::Style,
        table::{Cell, Table},
        time,
    },
};

const DESCRIPTION: &str = "temporal.api.workflowservice.v1.DescribeWorkerDeploymentResponse";

#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  segno deployment describe orders\n\n\
    The column Pinned counts open workflows that only workers of the version continue.")]
pub struct Describe {
    #[command(flatten)]
    target: Target,
}

impl Describe {
    /// Prints the routing and the versions, newest first.
    pub async fn run(self, client: &mut Client) -> anyhow::Result<()> {
        let answer = read(client, &self.target.name).await?;
        let info = answer.worker_deployment_info.clone().unwrap_or_default();
        let mut pinned = BTreeMap::new();
        for summary in &info.version_summaries {
            let Some(version) = &summary.deployment_version else { continue };
            let count = pinned_to(client, &format!("{}:{}", version.deployment_name, version.build_id)).await?;
            pinned.insert(version.build_id.clone(), count);
        }
        client.print(
            || text(&info, &pinned, client.colors, Timestamp::now()),
            || {
                let mut json = decoded(DESCRIPTION, &answer);
                let counts = pinned.iter().map(|(build, count)| (build.clone(), Json::number(*count)));
                json.push("pinnedWorkflows", Json::Object(counts.collect()));
                json
            },
        )
    }
}

/// How many open workflows are pinned to a version, which is written `name:build`.
pub async fn pinned_to(client: &mut Client, version: &str) -> anyhow::Result<i64> {
    let literal = version.replace('\\', "\\\\").replace('\'', "\\'");
    let message = CountWorkflowExecutionsRequest {
        namespace: client.namespace.clone(),
        query: format!(
            "TemporalWorkerDeploymentVersion = '{literal}' AND TemporalWorkflowVersioningBehavior = 'Pinned' AND \
             ExecutionStatus = 'Running'"
        ),
    };
    Ok(client.call("count the workflows of a version", message).await?.count)
}

/// `Current`, `Draining`, ... in its colour.
pub fn status(status: Status) -> (String, Style) {
    let style = match status {
        Status::Current => Style::Green,
        Status::Ramping => Style::Blue,
        Status::Draining => Style::Yellow,
        Status::Unspecified | Status::Inactive | Status::Drained | Status::Created => Style::Plain,
    };
    (short_name("WorkerDeploymentVersionStatus", status.as_str_name()), style)
}

fn text(info: &WorkerDeploymentInfo, pinned: &BTreeMap<String, i64>, colors: bool, now: Timestamp) -> String {
    let config = info.routing_config.clone().unwrap_or_default();
    let mut fields = Fields::new(colors);
    fields.section("Deployment");
    fields.add("Name", &info.name);
    fields.add("Created", time::both(info.create_time.as_ref(), now));
    fields.add("LastModifiedBy", &info.last_modifier_identity);
    fields.add("Manager", &info.manager_identity);
    fields.section("Routing");
    fields.add("Current", routing::current(&config));
    fields.add("CurrentSince", time::both(config.current_version_changed_time.as_ref(), now));
    fields.add("Ramping", routing::ramping(&config).unwrap_or_default());
    fields.add("RampChanged", time::both(config.ramping_version_percentage_changed_time.as_ref(), now));
    fields.add("Revision", config.revision_number.to_string());
    fields.section("Versions");
    let rows: Vec<_> = info.version_summaries.iter().map(|summary| row(summary, pinned, now)).collect();
    let headers = ["BuildId", "Status", "Pinned", "Created", "LastCurrent"];
    fields.block(&Table::new(&headers, colors).render(&rows));
    fields.finish()
}

fn row(summary: &WorkerDeploymentVersionSummary, pinned: &BTreeMap<String, i64>, now: Timestamp) -> Vec<Cell> {
    let build = summary.deployment_version.as_ref().map(|version| version.build_id.clone()).unwrap_or_default();
    let count = pinned.get(&build).map(ToString::to_string).unwrap_or_default();
    let (word, style) = status(summary.status());
    vec![
        build.into(),
        Cell::styled(word, style),
        count.into(),
        time::relative(summary.create_time.as_ref(), now).into(),
        time::relative(summary.last_current_time.as_ref(), now).into(),
    ]
}

#[cfg(test)]
mod tests {
    use segno_proto::{
        deployment::{RoutingConfig, WorkerDeploymentVersion},
        nanos_timestamp,
    };

    use super::*;

    #[test]
    fn versions_are_shown_with_what_is_pinned_to_them() {
        let version = |build: &str| {
            Some(WorkerDeploymentVersion { deployment_name: "orders".to_owned(), build_id: build.to_owned() })
        };
        let summary = |build, status: Status| WorkerDeploymentVersionSummary {
            deployment_version: version(build),
            status: status as i32,
            create_time: Some(nanos_timestamp(1_000_000_000_000_000_000)),
            ..Default::default()
        };
        let info = WorkerDeploymentInfo {
            name: "orders".to_owned(),
            version_summaries: vec![summary("b2", Status::Current), summary("b1", Status::Draining)],
            routing_config: Some(RoutingConfig {
                current_deployment_version: version("b2"),
                revision_number: 2,
                ..Default::default()
            }),
            manager_identity: "ci".to_owned(),
            ..Default::default()
        };
        let pinned = [("b1".to_owned(), 7), ("b2".to_owned(), 0)].into();
        let now = Timestamp::from_second(1_000_000_060).expect("a time");
        let expected = "\
Deployment
  Name     orders
  Manager  ci

Routing
  Current   b2
  Revision  2

Versions
  BuildId  Status    Pinned  Created       LastCurrent
  b2       Current   0       1 minute ago
  b1       Draining  7       1 minute ago
";
        assert_eq!(text(&info, &pinned, false, now), expected);
    }
}
