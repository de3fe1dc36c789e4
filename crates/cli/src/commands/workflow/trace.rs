//! `segno workflow trace`: a workflow, what is pending in it, and its children, as a tree.

use clap::Args;
use segno_proto::workflowservice::DescribeWorkflowExecutionResponse;

use crate::{
    client::Client,
    commands::{Target, watch::Watch},
    output::{Json, dynamic::short_name, failure, plain, status},
};

/// Children of one workflow that are shown.
const CHILDREN_MAX: usize = 50;

#[derive(Args, Clone, Debug)]
#[command(
    after_help = "Examples:\n  segno workflow trace --workflow-id order-7\n  segno workflow trace -w order-7 --depth 3 --watch"
)]
pub struct Trace {
    #[command(flatten)]
    target: Target,
    /// How many generations of children are shown.
    #[arg(long, value_name = "NUMBER", default_value_t = 5, value_parser = clap::value_parser!(u32).range(0..=20))]
    depth: u32,
    #[command(flatten)]
    watch: Watch,
}

/// A workflow in the tree.
struct Branch {
    workflow_id: String,
    line: String,
    pending: Vec<String>,
    children: Vec<Branch>,
}

impl Trace {
    /// Prints the tree.
    pub async fn run(self, client: &mut Client) -> anyhow::Result<()> {
        self.watch
            .clone()
            .repeat(client, async |client: &mut Client| {
                let tree = branch(client, &self.target.workflow_id, &self.target.run_id, self.depth).await?;
                client.print(
                    || {
                        let mut lines = Vec::new();
                        show(&tree, "", &mut lines);
                        lines.join("\n")
                    },
                    || json(&tree),
                )
            })
            .await
    }
}

async fn branch(client: &mut Client, workflow_id: &str, run_id: &str, depth: u32) -> anyhow::Result<Branch> {
    let answer = client.describe(workflow_id, run_id).await?;
    let mut children = Vec::new();
    if depth > 0 {
        for child in answer.pending_children.iter().take(CHILDREN_MAX) {
            // One that has not begun cannot be described.
            match Box::pin(branch(client, &child.workflow_id, "", depth - 1)).await {
                Ok(child) => children.push(child),
                Err(_) => children.push(Branch {
                    workflow_id: child.workflow_id.clone(),
                    line: format!("{} ({}) has not begun", plain(&child.workflow_id), plain(&child.workflow_type_name)),
                    pending: Vec::new(),
                    children: Vec::new(),
                }),
            }
        }
    }
    Ok(Branch { workflow_id: workflow_id.to_owned(), line: line(&answer), pending: pending(&answer), children })
}

fn line(answer: &DescribeWorkflowExecutionResponse) -> String {
    let info = answer.workflow_execution_info.clone().unwrap_or_default();
    let id = info.execution.as_ref().map_or("", |execution| &execution.workflow_id);
    let kind = info.r#type.as_ref().map_or("", |kind| &kind.name);
    let (id, kind) = (plain(id), plain(kind));
    format!("{id} ({kind}) {}, {} events", status::word(info.status()), info.history_length)
}

fn pending(answer: &DescribeWorkflowExecutionResponse) -> Vec<String> {
    let task = answer.pending_workflow_task.as_ref().map(|task| {
        let state = short_name("PendingWorkflowTaskState", task.state().as_str_name());
        format!("workflow task: {state}, attempt {}", task.attempt)
    });
    let activities = answer.pending_activities.iter().map(|activity| {
        let kind = activity.activity_type.as_ref().map_or("", |kind| &kind.name);
        let state = short_name("PendingActivityState", activity.state().as_str_name());
        let failed = activity.last_failure.as_ref().map(|last| format!(", last failure: {}", failure::chain(last)[0]));
        let failed = failed.unwrap_or_default();
        format!(
            "activity {} ({}): {state}, attempt {}{failed}",
            plain(kind),
            plain(&activity.activity_id),
            activity.attempt
        )
    });
    task.into_iter().chain(activities).collect()
}

fn show(branch: &Branch, indent: &str, lines: &mut Vec<String>) {
    lines.push(format!("{indent}{}", branch.line));
    let indent = format!("{indent}  ");
    lines.extend(branch.pending.iter().map(|pending| format!("{indent}- {pending}")));
    branch.children.iter().for_each(|child| show(child, &indent, lines));
}

fn json(branch: &Branch) -> Json {
    Json::object([
        ("workflowId", Json::text(&branch.workflow_id)),
        ("line", Json::text(&branch.line)),
        ("pending", Json::Array(branch.pending.iter().map(Json::text).collect())),
        ("children", Json::Array(branch.children.iter().map(json).collect())),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_are_indented() {
        let leaf = |line: &str, children| Branch {
            workflow_id: line.to_owned(),
            line: line.to_owned(),
            pending: vec!["activity".to_owned()],
            children,
        };
        let mut lines = Vec::new();
        show(&leaf("a", vec![leaf("b", Vec::new())]), "", &mut lines);
        assert_eq!(lines, ["a", "  - activity", "  b", "    - activity"]);
    }
}
