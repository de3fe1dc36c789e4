//! `segno workflow query`.

use clap::{Args, ValueEnum};
use segno_proto::{enums::QueryRejectCondition, query::WorkflowQuery, workflowservice::QueryWorkflowRequest};

use crate::{
    client::{Client, ClientError},
    commands::{Input, Target},
    output::{Json, payload, plain, status},
};

#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  segno workflow query --workflow-id order-7 --type status")]
pub struct Query {
    #[command(flatten)]
    target: Target,
    /// Type of the query: its name.
    #[arg(long, alias = "name", value_name = "NAME")]
    r#type: String,
    #[command(flatten)]
    input: Input,
    /// Do not query if the workflow is not open, or did not complete.
    #[arg(long, value_enum, ignore_case = true, value_name = "CONDITION")]
    reject_condition: Option<Condition>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
enum Condition {
    NotOpen,
    NotCompletedCleanly,
}

impl Query {
    /// Asks, and prints the answer.
    pub async fn run(self, client: &mut Client) -> anyhow::Result<()> {
        let condition = match self.reject_condition {
            None => QueryRejectCondition::Unspecified,
            Some(Condition::NotOpen) => QueryRejectCondition::NotOpen,
            Some(Condition::NotCompletedCleanly) => QueryRejectCondition::NotCompletedCleanly,
        };
        let message = QueryWorkflowRequest {
            namespace: client.namespace.clone(),
            execution: Some(self.target.execution()),
            query: Some(WorkflowQuery {
                query_type: self.r#type,
                query_args: self.input.payloads()?,
                ..Default::default()
            }),
            query_reject_condition: condition as i32,
        };
        client.warn_if_no_worker_answers(&self.target).await;
        let answer = client.call("query the workflow", message).await?;
        if let Some(rejected) = answer.query_rejected {
            let (id, status) = (plain(&self.target.workflow_id), status::word(rejected.status()));
            return Err(ClientError::Outcome(format!("the query was not asked: workflow {id} is {status}")).into());
        }
        let payloads = answer.query_result.unwrap_or_default().payloads;
        client.print(
            || payloads.iter().map(|one| plain(&payload::text(one)).into_owned() + "\n").collect(),
            || Json::object([("queryResult", Json::Array(payloads.iter().map(payload::json).collect()))]),
        )
    }
}
