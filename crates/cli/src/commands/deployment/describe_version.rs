//! `segno deployment describe-version`.

use clap::Args;
use jiff::Timestamp;
use segno_proto::{
    deployment::WorkerDeploymentVersionInfo,
    enums::TaskQueueType,
    workflowservice::{
        DescribeWorkerDeploymentVersionRequest, DescribeWorkerDeploymentVersionResponse,
        describe_worker_deployment_version_response::VersionTaskQueue,
    },
};

use super::{
    VersionTarget,
    describe::{pinned_to, status},
};
use crate::{
    client::Client,
    output::{
        Json,
        dynamic::{decoded, short_name},
        fields::Fields,
        payload,
        table::{Cell, Table},
        time,
    },
};

const DESCRIPTION: &str = "temporal.api.workflowservice.v1.DescribeWorkerDeploymentVersionResponse";

#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  segno deployment describe-version orders --build-id 2026-11-19.1")]
pub struct DescribeVersion {
    #[command(flatten)]
    target: VersionTarget,
}

impl DescribeVersion {
    /// Prints what the server knows about the version, with the tasks that wait in its queues.
    pub async fn run(self, client: &mut Client) -> anyhow::Result<()> {
        let message = DescribeWorkerDeploymentVersionRequest {
            namespace: client.namespace.clone(),
            deployment_version: self.target.version(),
            report_task_queue_stats: true,
            ..Default::default()
        };
        let answer = client.call("describe the version", message).await?;
        let pinned = pinned_to(client, &self.target.text()).await?;
        client.print(
            || text(&self.target, &answer, pinned, client.colors, Timestamp::now()),
            || {
                let mut json = decoded(DESCRIPTION, &answer);
                json.push("pinnedWorkflows", Json::number(pinned));
                json
            },
        )
    }
}

fn text(
    target: &VersionTarget,
    answer: &DescribeWorkerDeploymentVersionResponse,
    pinned: i64,
    colors: bool,
    now: Timestamp,
) -> String {
    let info = answer.worker_deployment_version_info.clone().unwrap_or_default();
    let mut fields = Fields::new(colors);
    fields.section("Version");
    fields.add("Deployment", &target.name);
    fields.add("BuildId", &target.build_id);
    let (word, style) = status(info.status());
    fields.styled("Status", word, style);
    if info.ramping_since_time.is_some() {
        fields.add("Share", format!("{} %", info.ramp_percentage));
    }
    fields.add("Pinned", pinned.to_string());
    times(&mut fields, &info, now);
    fields.add("LastModifiedBy", &info.last_modifier_identity);
    if let Some(metadata) = info.metadata.as_ref().filter(|metadata| !metadata.entries.is_empty()) {
        fields.section("Metadata");
        for (key, value) in &metadata.entries {
            fields.add(key, payload::text(value));
        }
    }
    fields.section("TaskQueues");
    let rows: Vec<_> = answer.version_task_queues.iter().map(row).collect();
    fields.block(&Table::new(&["TaskQueue", "Type", "Waiting"], colors).render(&rows));
    fields.finish()
}

fn times(fields: &mut Fields, info: &WorkerDeploymentVersionInfo, now: Timestamp) {
    fields.add("Created", time::both(info.create_time.as_ref(), now));
    fields.add("CurrentSince", time::both(info.current_since_time.as_ref(), now));
    fields.add("RampingSince", time::both(info.ramping_since_time.as_ref(), now));
    fields.add("LastCurrent", time::both(info.last_current_time.as_ref(), now));
    let drainage = info.drainage_info.as_ref();
    fields.add("DrainageChanged", time::both(drainage.and_then(|drainage| drainage.last_changed_time.as_ref()), now));
}

fn row(queue: &VersionTaskQueue) -> Vec<Cell> {
    let kind = TaskQueueType::try_from(queue.r#type).unwrap_or_default();
    let waiting = queue.stats.as_ref().map(|stats| stats.approximate_backlog_count.to_string());
    vec![
        (&queue.name).into(),
        short_name("TaskQueueType", kind.as_str_name()).into(),
        waiting.unwrap_or_default().into(),
    ]
}

#[cfg(test)]
mod tests {
    use segno_proto::{deployment::VersionMetadata, enums::WorkerDeploymentVersionStatus, taskqueue::TaskQueueStats};

    use super::*;

    #[test]
    fn queues_and_metadata_are_shown() {
        let metadata = VersionMetadata { entries: [("commit".to_owned(), payload::of_json("\"4f2a\""))].into() };
        let queue = VersionTaskQueue {
            name: "orders".to_owned(),
            r#type: TaskQueueType::Workflow as i32,
            stats: Some(TaskQueueStats { approximate_backlog_count: 3, ..Default::default() }),
            ..Default::default()
        };
        let answer = DescribeWorkerDeploymentVersionResponse {
            worker_deployment_version_info: Some(WorkerDeploymentVersionInfo {
                status: WorkerDeploymentVersionStatus::Inactive as i32,
                metadata: Some(metadata),
                ..Default::default()
            }),
            version_task_queues: vec![queue],
        };
        let target = VersionTarget { name: "orders".to_owned(), build_id: "b1".to_owned() };
        let shown = text(&target, &answer, 2, false, Timestamp::from_second(1_000_000_000).expect("a time"));
        let expected = "\
Version
  Deployment  orders
  BuildId     b1
  Status      Inactive
  Pinned      2

Metadata
  commit  \"4f2a\"

TaskQueues
  TaskQueue  Type      Waiting
  orders     Workflow  3
";
        assert_eq!(shown, expected);
    }
}
