//! `segno task-queue describe`.

use clap::{Args, ValueEnum};
use jiff::Timestamp;
use segno_proto::{
    enums::TaskQueueType,
    taskqueue::TaskQueue,
    workflowservice::{DescribeTaskQueueRequest, DescribeTaskQueueResponse},
};

use crate::{
    client::Client,
    output::{Json, dynamic::decoded, fields::Fields, table::Table, time},
};

#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  segno task-queue describe --task-queue orders")]
pub struct Describe {
    /// The task queue.
    #[arg(short, long, value_name = "NAME")]
    task_queue: String,
    /// Only tasks of this type. [default: workflow and activity]
    #[arg(long, value_enum, ignore_case = true, value_name = "TYPE")]
    task_queue_type: Option<Type>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Type {
    Workflow,
    Activity,
    Nexus,
}

impl Type {
    fn name(self) -> &'static str {
        match self {
            Self::Workflow => "workflow",
            Self::Activity => "activity",
            Self::Nexus => "nexus",
        }
    }
}

impl Describe {
    /// Prints pollers, and what waits if the server says so.
    pub async fn run(self, client: &mut Client) -> anyhow::Result<()> {
        let types = self.task_queue_type.map_or(vec![Type::Workflow, Type::Activity], |one| vec![one]);
        let mut answers = Vec::new();
        for kind in types {
            let wire = match kind {
                Type::Workflow => TaskQueueType::Workflow,
                Type::Activity => TaskQueueType::Activity,
                Type::Nexus => TaskQueueType::Nexus,
            };
            let message = DescribeTaskQueueRequest {
                namespace: client.namespace.clone(),
                task_queue: Some(TaskQueue { name: self.task_queue.clone(), ..Default::default() }),
                task_queue_type: wire as i32,
                report_stats: true,
                ..Default::default()
            };
            let answer = client.call("describe the task queue", message).await?;
            answers.push((kind.name(), answer));
        }
        client.print(|| text(&answers, client.colors, Timestamp::now()), || json(&answers))
    }
}

fn text(answers: &[(&str, DescribeTaskQueueResponse)], colors: bool, now: Timestamp) -> String {
    let mut fields = Fields::new(colors);
    for (kind, answer) in answers {
        let pollers = answer.pollers.len();
        fields.section(&format!("{}{} tasks", kind[..1].to_ascii_uppercase(), &kind[1..]));
        if let Some(stats) = &answer.stats {
            fields.add("Waiting", stats.approximate_backlog_count.to_string());
            fields.add("OldestWaits", time::span(stats.approximate_backlog_age.as_ref()));
            fields.add("AddedPerSecond", format!("{:.1}", stats.tasks_add_rate));
            fields.add("DispatchedPerSecond", format!("{:.1}", stats.tasks_dispatch_rate));
        }
        fields.add("Pollers", pollers.to_string());
        let rows: Vec<_> = answer
            .pollers
            .iter()
            .map(|poller| {
                let seen = poller.last_access_time.as_ref();
                vec![(&poller.identity).into(), time::relative(seen, now).into(), time::short(seen).into()]
            })
            .collect();
        if !rows.is_empty() {
            fields.block(&Table::new(&["Identity", "LastSeen", "LastAccessTime"], colors).render(&rows));
        }
    }
    fields.finish()
}

/// An array with one object per type: its name, then the fields of the answer.
fn json(answers: &[(&str, DescribeTaskQueueResponse)]) -> Json {
    let mut list = Vec::new();
    for (kind, answer) in answers {
        let mut object = Json::object([("taskQueueType", Json::text(*kind))]);
        let name = "temporal.api.workflowservice.v1.DescribeTaskQueueResponse";
        if let Json::Object(fields) = decoded(name, answer) {
            fields.into_iter().for_each(|(name, value)| object.push(&name, value));
        }
        list.push(object);
    }
    Json::Array(list)
}

#[cfg(test)]
mod tests {
    use segno_proto::{nanos_timestamp, taskqueue::PollerInfo};

    use super::*;

    #[test]
    fn pollers_are_shown() {
        let poller = PollerInfo {
            identity: "worker-1".to_owned(),
            last_access_time: Some(nanos_timestamp(1_000_000_000_000_000_000)),
            ..Default::default()
        };
        let answers = [
            ("workflow", DescribeTaskQueueResponse { pollers: vec![poller], ..Default::default() }),
            ("activity", DescribeTaskQueueResponse::default()),
        ];
        let expected = "\
Workflow tasks
  Pollers  1
  Identity  LastSeen       LastAccessTime
  worker-1  5 seconds ago  2001-09-09T01:46:40Z

Activity tasks
  Pollers  0
";
        assert_eq!(text(&answers, false, Timestamp::from_second(1_000_000_005).expect("a time")), expected);
        let json = json(&answers).to_string();
        assert!(json.starts_with(r#"[{"taskQueueType":"workflow","pollers":[{"lastAccessTime""#), "{json}");
        assert!(json.ends_with(r#"{"taskQueueType":"activity"}]"#), "{json}");
    }
}
