//! `segno workflow reset`.

use bytes::Bytes;
use clap::{ArgGroup, Args, ValueEnum};
use segno_proto::{enums::EventType, workflowservice::ResetWorkflowExecutionRequest};

use crate::{
    client::{Client, ClientError, uuid},
    commands::{Target, reason},
    output::{Json, plain},
};

#[derive(Args, Clone, Debug)]
#[command(
    group = ArgGroup::new("place").required(true).args(["event_id", "to"]),
    after_help = "Examples:\n  segno workflow reset --workflow-id order-7 --to LastWorkflowTask --reason 'bad deploy'\n  \
                        segno workflow reset --workflow-id order-7 --event-id 14 --reason 'bad deploy'\n\n\
                        A new run goes on from there; the old one is terminated."
)]
pub struct Reset {
    #[command(flatten)]
    target: Target,
    /// The workflow task to reset to: the id of its completed event, or of the one that follows its start.
    #[arg(short, long, value_name = "ID")]
    event_id: Option<i64>,
    /// The workflow task to reset to.
    #[arg(long, alias = "type", value_enum, ignore_case = true, value_name = "PLACE")]
    to: Option<ResetPoint>,
    /// Why; kept in the history.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "PascalCase")]
enum ResetPoint {
    FirstWorkflowTask,
    LastWorkflowTask,
}

impl Reset {
    /// Resets the workflow and says which run goes on.
    pub async fn run(self, client: &mut Client) -> anyhow::Result<()> {
        let event_id = match (self.event_id, self.to) {
            (Some(event_id), _) => event_id,
            (None, place) => find(client, &self.target, place).await?,
        };
        let message = ResetWorkflowExecutionRequest {
            namespace: client.namespace.clone(),
            workflow_execution: Some(self.target.execution()),
            reason: reason(self.reason, &client.identity),
            workflow_task_finish_event_id: event_id,
            request_id: uuid()?,
            identity: client.identity.clone(),
            ..Default::default()
        };
        let answer = client.call("reset the workflow", message).await?;
        client.print(
            || {
                let workflow = plain(&self.target.workflow_id);
                format!("Workflow {workflow} was reset to event {event_id}; run {} goes on", answer.run_id)
            },
            || {
                Json::object([
                    ("workflowId", Json::text(&self.target.workflow_id)),
                    ("runId", Json::text(&answer.run_id)),
                    ("eventId", Json::number(event_id)),
                    ("action", Json::text("reset")),
                ])
            },
        )
    }
}

/// The event that ended the first or the last completed workflow task.
async fn find(client: &mut Client, target: &Target, place: Option<ResetPoint>) -> anyhow::Result<i64> {
    let mut found = None;
    let mut token = Bytes::new();
    loop {
        let page = client.history(&target.execution(), token, false, false).await?;
        let completed = page.events.iter().filter(|event| event.event_type() == EventType::WorkflowTaskCompleted);
        for event in completed {
            if found.is_none() || place != Some(ResetPoint::FirstWorkflowTask) {
                found = Some(event.event_id);
            }
        }
        token = page.next;
        if token.is_empty() {
            break;
        }
    }
    let none = || ClientError::Outcome("no workflow task was completed: there is nothing to go back to".to_owned());
    Ok(found.ok_or_else(none)?)
}
