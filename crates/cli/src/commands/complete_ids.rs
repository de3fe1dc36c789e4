//! `segno complete-ids`: ids of a server, a line each. The completions of shells call it.

use clap::{Args, ValueEnum};
use segno_proto::workflowservice::{
    ListActivityExecutionsRequest, ListBatchOperationsRequest, ListSchedulesRequest, ListWorkflowExecutionsRequest,
};

use crate::{
    client::{Client, ClientError, Connection},
    output,
};

/// Most ids that are offered.
const OFFERED_MAX: usize = 50;
/// How many of a list are looked at.
const PAGE: i32 = 200;

/// Prints ids that begin with a text. What cannot be found out in a second is not printed.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  segno complete-ids workflow-id order-")]
pub struct CompleteIds {
    #[command(flatten)]
    connection: Connection,
    /// The flag that takes the id.
    #[arg(value_enum)]
    flag: IdFlag,
    /// The beginning of the id.
    #[arg(default_value = "", hide_default_value = true)]
    prefix: String,
}

/// A flag that takes an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum IdFlag {
    #[value(name = "workflow-id")]
    Workflow,
    #[value(name = "schedule-id")]
    Schedule,
    #[value(name = "job-id")]
    Job,
    #[value(name = "activity-id")]
    Activity,
}

impl CompleteIds {
    /// Prints them. An error is no reason to disturb a user who types.
    pub fn run(self) -> anyhow::Result<()> {
        let Self { connection, flag, prefix } = self;
        let _ = connection.within_a_second().run(async move |client: &mut Client| {
            let mut ids = ids(client, flag, &prefix).await?;
            ids.retain(|id| id.starts_with(&prefix) && !id.contains(char::is_control));
            ids.dedup();
            ids.truncate(OFFERED_MAX);
            if !ids.is_empty() {
                output::print(&ids.join("\n"))?;
            }
            Ok(())
        });
        Ok(())
    }
}

async fn ids(client: &mut Client, flag: IdFlag, prefix: &str) -> Result<Vec<String>, ClientError> {
    let namespace = client.namespace.clone();
    Ok(match flag {
        IdFlag::Workflow => {
            let query = match prefix.contains('\'') || prefix.is_empty() {
                true => String::new(),
                false => format!("WorkflowId STARTS_WITH '{prefix}'"),
            };
            let message = ListWorkflowExecutionsRequest { namespace, page_size: PAGE, query, ..Default::default() };
            let listed = client.call("list workflows", message).await?.executions;
            listed.into_iter().filter_map(|info| info.execution).map(|execution| execution.workflow_id).collect()
        }
        IdFlag::Schedule => {
            let message = ListSchedulesRequest { namespace, maximum_page_size: PAGE, ..Default::default() };
            let listed = client.call("list schedules", message).await?.schedules;
            listed.into_iter().map(|entry| entry.schedule_id).collect()
        }
        IdFlag::Job => {
            let message = ListBatchOperationsRequest { namespace, page_size: PAGE, ..Default::default() };
            let listed = client.call("list batch jobs", message).await?.operation_info;
            listed.into_iter().map(|info| info.job_id).collect()
        }
        IdFlag::Activity => {
            let message = ListActivityExecutionsRequest { namespace, page_size: PAGE, ..Default::default() };
            let listed = client.call("list activities", message).await?.executions;
            listed.into_iter().map(|info| info.activity_id).collect()
        }
    })
}
