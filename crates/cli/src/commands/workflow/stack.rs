//! `segno workflow stack`.

use clap::Args;
use segno_proto::{query::WorkflowQuery, workflowservice::QueryWorkflowRequest};

use crate::{
    client::Client,
    commands::Target,
    output::{Json, payload, plain},
};

/// The query that every SDK answers with the stacks of the code that waits.
const STACK_QUERY: &str = "__stack_trace";

#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  segno workflow stack --workflow-id order-7\n\nA worker has to answer.")]
pub struct Stack {
    #[command(flatten)]
    target: Target,
}

impl Stack {
    /// Asks a worker where the code stands.
    pub async fn run(self, client: &mut Client) -> anyhow::Result<()> {
        let query = WorkflowQuery { query_type: STACK_QUERY.to_owned(), ..Default::default() };
        let message = QueryWorkflowRequest {
            namespace: client.namespace.clone(),
            execution: Some(self.target.execution()),
            query: Some(query),
            ..Default::default()
        };
        client.warn_if_no_worker_answers(&self.target).await;
        let answer = client.call("ask for the stack of the workflow", message).await?;
        let texts: Vec<String> = answer
            .query_result
            .iter()
            .flat_map(|result| &result.payloads)
            .map(|one| match serde_json::from_slice(&one.data) {
                Ok(serde_json::Value::String(text)) => text,
                _ => payload::text(one),
            })
            .collect();
        client.print(
            || texts.iter().flat_map(|text| text.lines()).map(|line| plain(line).into_owned() + "\n").collect(),
            || Json::object([("stack", Json::text(texts.join("\n")))]),
        )
    }
}
