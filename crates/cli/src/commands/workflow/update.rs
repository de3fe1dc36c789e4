//! `segno workflow update`.

use clap::Args;
use segno_proto::{
    enums::UpdateWorkflowExecutionLifecycleStage as Stage,
    update::{Input as UpdateInput, Meta, Request, WaitPolicy, outcome::Value},
    workflowservice::{PollWorkflowExecutionUpdateRequest, UpdateWorkflowExecutionRequest},
};

use crate::{
    client::{Client, ClientError, uuid},
    commands::{Input, Target},
    output::{Json, failure, payload, plain},
};

#[derive(Args, Clone, Debug)]
#[command(
    after_help = "Examples:\n  segno workflow update --workflow-id order-7 --name add --input '{\"item\": \"tea\"}'\n  \
                        segno workflow update --workflow-id order-7 --name add --accepted\n\n\
                        Ends with 0 if the update completed, with 1 if the workflow refused it or its handler failed."
)]
pub struct Update {
    #[command(flatten)]
    target: Target,
    /// Name of the update.
    #[arg(long, alias = "type", value_name = "NAME")]
    name: String,
    #[command(flatten)]
    input: Input,
    /// Id of the update: an id is executed once. [default: a random one]
    #[arg(long, value_name = "ID")]
    update_id: Option<String>,
    /// Refuse if the workflow has another first run.
    #[arg(long, value_name = "ID", default_value = "", hide_default_value = true)]
    first_execution_run_id: String,
    /// Do not wait for the result, only until the workflow has accepted the update.
    #[arg(long)]
    accepted: bool,
}

impl Update {
    /// Sends the update and prints what came of it.
    pub async fn run(self, client: &mut Client) -> anyhow::Result<()> {
        let stage = if self.accepted { Stage::Accepted } else { Stage::Completed };
        let wait = WaitPolicy { lifecycle_stage: stage as i32 };
        let update_id = self.update_id.clone().map_or_else(uuid, Ok)?;
        let message = UpdateWorkflowExecutionRequest {
            namespace: client.namespace.clone(),
            workflow_execution: Some(self.target.execution()),
            first_execution_run_id: self.first_execution_run_id.clone(),
            wait_policy: Some(wait),
            request: Some(Request {
                meta: Some(Meta { update_id, identity: client.identity.clone() }),
                input: Some(UpdateInput {
                    name: self.name.clone(),
                    args: self.input.payloads()?,
                    ..Default::default()
                }),
                ..Default::default()
            }),
        };
        client.warn_if_no_worker_answers(&self.target).await;
        let mut answer = client.call("update the workflow", message).await?;
        while answer.outcome.is_none() && !(self.accepted && answer.stage() == Stage::Accepted) {
            let poll = PollWorkflowExecutionUpdateRequest {
                namespace: client.namespace.clone(),
                update_ref: answer.update_ref.clone(),
                identity: client.identity.clone(),
                wait_policy: Some(wait),
            };
            let polled = client.call_until_answered("wait for the update", poll).await?;
            (answer.outcome, answer.stage) = (polled.outcome, polled.stage);
        }
        let reference = answer.update_ref.unwrap_or_default();
        let run_id = reference.workflow_execution.map(|execution| execution.run_id).unwrap_or_default();
        match answer.outcome.and_then(|outcome| outcome.value) {
            Some(Value::Failure(failed)) => {
                let lines = failure::chain(&failed).join("\n");
                Err(ClientError::Outcome(format!("the update {} failed: {lines}", plain(&self.name))).into())
            }
            outcome => {
                let results = match outcome {
                    Some(Value::Success(results)) => results.payloads,
                    _ => Vec::new(),
                };
                client.print(
                    || match self.accepted && results.is_empty() {
                        true => format!("Update {} was accepted", plain(&reference.update_id)),
                        false => results.iter().map(|one| plain(&payload::text(one)).into_owned() + "\n").collect(),
                    },
                    || {
                        Json::object([
                            ("workflowId", Json::text(&self.target.workflow_id)),
                            ("runId", Json::text(&run_id)),
                            ("updateId", Json::text(&reference.update_id)),
                            ("result", Json::Array(results.iter().map(payload::json).collect())),
                        ])
                    },
                )
            }
        }
    }
}
