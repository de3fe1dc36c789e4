//! `segno flow run`.

use std::collections::BTreeMap;

use clap::Args;
use segno_proto::{
    common::{Header, WorkflowType},
    enums::TaskQueueKind,
    taskqueue::TaskQueue,
    workflowservice::StartWorkflowExecutionRequest,
};

use crate::{
    client::Client,
    commands::{Input, workflow::Outcome},
    output::{Json, payload, plain},
};

/// The queue on which only scripts can be started.
const QUEUE: &str = "segno-flow";
/// The field of the header of a start that names the executor of the run.
const EXECUTOR_HEADER: &str = "segno-executor";

#[derive(Args, Clone, Debug)]
#[command(
    after_help = "Example:\n  segno flow run order --input '{\"id\": 7}'\n\nThe result goes to standard output, the ids to \
                        standard error. Ends with 0 if the script completed, else with 1."
)]
pub struct Run {
    /// The script.
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    input: Input,
    /// Workflow id. [default: a random one]
    #[arg(short, long, value_name = "ID")]
    workflow_id: Option<String>,
    /// Task queue of its tasks, unless the script names one.
    #[arg(short, long, value_name = "QUEUE", default_value = QUEUE)]
    task_queue: String,
    /// Start it and do not wait.
    #[arg(long)]
    detach: bool,
}

impl Run {
    /// Starts it and waits for its end.
    pub async fn run(self, client: &mut Client) -> anyhow::Result<()> {
        let workflow_id = match self.workflow_id {
            Some(id) => id,
            None => format!("{}-{}", self.name, crate::client::uuid()?),
        };
        let message = StartWorkflowExecutionRequest {
            namespace: client.namespace.clone(),
            workflow_id: workflow_id.clone(),
            workflow_type: Some(WorkflowType { name: self.name }),
            task_queue: Some(TaskQueue {
                name: self.task_queue,
                kind: TaskQueueKind::Normal as i32,
                ..Default::default()
            }),
            input: self.input.payloads()?,
            // Also on a queue of workers.
            header: Some(Header {
                fields: BTreeMap::from([(EXECUTOR_HEADER.to_owned(), payload::of_json("\"script\""))]),
            }),
            identity: client.identity.clone(),
            request_id: crate::client::uuid()?,
            ..Default::default()
        };
        let started = client.call("start the script", message).await?;
        eprintln!("segno: started workflow {}, run {}", plain(&workflow_id), plain(&started.run_id));
        if self.detach {
            return client.print(
                || format!("{}\n", plain(&workflow_id)),
                || {
                    let ids = [("workflowId", Json::text(&workflow_id)), ("runId", Json::text(&started.run_id))];
                    Json::object(ids)
                },
            );
        }
        let (run_id, last) = client.wait_for_end(&workflow_id, &started.run_id).await?;
        Outcome { workflow_id, run_id, last }.print(client)
    }
}
