//! `segno workflow signal-with-start`.

use clap::Args;
use segno_proto::workflowservice::{SignalWithStartWorkflowExecutionRequest, StartWorkflowExecutionRequest};

use super::start_options::StartOptions;
use crate::{
    args,
    client::{Client, uuid},
    output::{Json, payload, plain},
};

#[derive(Args, Clone, Debug)]
#[command(
    after_help = "Example:\n  segno workflow signal-with-start --type Cart --task-queue carts --workflow-id cart-7 \\\n      \
                        --signal-name add --signal-input '{\"item\": \"tea\"}'\n\n\
                        Signals the workflow, and starts it before that if it is not open."
)]
pub struct SignalWithStart {
    #[command(flatten)]
    options: StartOptions,
    /// Name of the signal.
    #[arg(long, value_name = "NAME")]
    signal_name: String,
    /// An argument of the signal, as JSON; may be repeated.
    #[arg(long, value_name = "JSON", value_parser = args::json)]
    signal_input: Vec<String>,
}

impl SignalWithStart {
    /// Signals, and starts if there is need.
    pub async fn run(self, client: &mut Client) -> anyhow::Result<()> {
        let workflow_id = self.options.workflow_id()?;
        let start: StartWorkflowExecutionRequest = self.options.message(client, workflow_id.clone())?;
        let message = SignalWithStartWorkflowExecutionRequest {
            namespace: start.namespace,
            workflow_id: start.workflow_id,
            workflow_type: start.workflow_type,
            task_queue: start.task_queue,
            input: start.input,
            workflow_execution_timeout: start.workflow_execution_timeout,
            workflow_run_timeout: start.workflow_run_timeout,
            workflow_task_timeout: start.workflow_task_timeout,
            workflow_start_delay: start.workflow_start_delay,
            cron_schedule: start.cron_schedule,
            workflow_id_reuse_policy: start.workflow_id_reuse_policy,
            workflow_id_conflict_policy: start.workflow_id_conflict_policy,
            memo: start.memo,
            search_attributes: start.search_attributes,
            priority: start.priority,
            user_metadata: start.user_metadata,
            identity: start.identity,
            request_id: uuid()?,
            signal_name: self.signal_name.clone(),
            signal_input: payload::of_arguments(&self.signal_input),
            ..Default::default()
        };
        let answer = client.call("signal the workflow", message).await?;
        client.print(
            || {
                let begun = if answer.started { "started and " } else { "" };
                let (workflow, signal) = (plain(&workflow_id), plain(&self.signal_name));
                format!("Workflow {workflow} was {begun}sent signal {signal}; its run is {}", answer.run_id)
            },
            || {
                Json::object([
                    ("workflowId", Json::text(&workflow_id)),
                    ("runId", Json::text(&answer.run_id)),
                    ("signalName", Json::text(&self.signal_name)),
                    ("started", Json::Bool(answer.started)),
                ])
            },
        )
    }
}
