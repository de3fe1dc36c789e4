//! What a workflow is started with: flags of `start` and `execute`.

use clap::{Args, ValueEnum};
use segno_proto::{
    Nanos,
    common::{Memo, Priority, SearchAttributes, WorkflowType},
    nanos_duration,
    workflowservice::StartWorkflowExecutionRequest,
};

use crate::{
    args,
    client::{Client, uuid},
    commands::{Input, payload_map, task_queue, user_metadata},
};

#[derive(Args, Clone, Debug)]
pub struct StartOptions {
    /// Workflow type: the name workers know it by.
    #[arg(long, alias = "name", value_name = "NAME")]
    r#type: String,
    /// Task queue of the workers.
    #[arg(short, long, value_name = "NAME")]
    task_queue: String,
    /// Workflow id. [default: a random one]
    #[arg(short, long, value_name = "ID")]
    workflow_id: Option<String>,
    #[command(flatten)]
    input: Input,
    /// Longest time for the workflow, over all its runs.
    #[arg(long, value_name = "DURATION", value_parser = args::duration)]
    execution_timeout: Option<Nanos>,
    /// Longest time for one run.
    #[arg(long, value_name = "DURATION", value_parser = args::duration)]
    run_timeout: Option<Nanos>,
    /// Time-out of a workflow task. [default: 10s]
    #[arg(long, value_name = "DURATION", value_parser = args::duration)]
    task_timeout: Option<Nanos>,
    /// Begin only after this time.
    #[arg(long, value_name = "DURATION", value_parser = args::duration)]
    start_delay: Option<Nanos>,
    /// Start a new run at each time of this cron schedule.
    #[arg(long, value_name = "SCHEDULE", default_value = "", hide_default_value = true)]
    cron: String,
    /// Whether the id of an ended workflow may be used again.
    #[arg(long, value_enum, ignore_case = true, value_name = "POLICY")]
    id_reuse_policy: Option<Reuse>,
    /// What to do if the id is in use by an open workflow. [default: Fail]
    #[arg(long, value_enum, ignore_case = true, value_name = "POLICY")]
    id_conflict_policy: Option<Conflict>,
    /// The same as --id-conflict-policy Fail, which is the default.
    #[arg(long, hide = true, conflicts_with = "id_conflict_policy")]
    fail_existing: bool,
    /// A memo field of the workflow, as KEY=JSON; may be repeated.
    #[arg(long, value_name = "KEY=JSON", value_parser = args::key_json)]
    memo: Vec<(String, String)>,
    /// A search attribute, as KEY=JSON; may be repeated.
    #[arg(long, value_name = "KEY=JSON", value_parser = args::key_json)]
    search_attribute: Vec<(String, String)>,
    /// Priority of its tasks: 1 (first) to 5.
    #[arg(long, value_name = "1-5", value_parser = clap::value_parser!(i32).range(1..=5))]
    priority_key: Option<i32>,
    /// One line about the workflow, for user interfaces.
    #[arg(long, value_name = "TEXT")]
    static_summary: Option<String>,
    /// More about the workflow, for user interfaces.
    #[arg(long, value_name = "TEXT")]
    static_details: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "PascalCase")]
enum Reuse {
    AllowDuplicate = 1,
    AllowDuplicateFailedOnly = 2,
    RejectDuplicate = 3,
    TerminateIfRunning = 4,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "PascalCase")]
enum Conflict {
    Fail = 1,
    UseExisting = 2,
    TerminateExisting = 3,
}

/// A workflow that was started.
pub struct StartedWorkflow {
    /// Its id.
    pub workflow_id: String,
    /// Its run.
    pub run_id: String,
    /// Its type.
    pub kind: String,
    /// Its task queue.
    pub task_queue: String,
    /// Whether this call started it; otherwise it ran already.
    pub started: bool,
}

impl StartOptions {
    /// Starts the workflow.
    pub async fn start(self, client: &mut Client) -> anyhow::Result<StartedWorkflow> {
        let workflow_id = self.workflow_id()?;
        let (kind, task_queue) = (self.r#type.clone(), self.task_queue.clone());
        let message = self.message(client, workflow_id.clone())?;
        let answer = client.call("start the workflow", message).await?;
        Ok(StartedWorkflow { workflow_id, run_id: answer.run_id, kind, task_queue, started: answer.started })
    }

    /// The id that was given, or a random one.
    pub fn workflow_id(&self) -> anyhow::Result<String> {
        self.workflow_id.clone().map_or_else(uuid, Ok)
    }

    /// The request.
    pub fn message(self, client: &Client, workflow_id: String) -> anyhow::Result<StartWorkflowExecutionRequest> {
        let duration = |nanos: Option<Nanos>| nanos.map(nanos_duration);
        Ok(StartWorkflowExecutionRequest {
            namespace: client.namespace.clone(),
            workflow_id,
            workflow_type: Some(WorkflowType { name: self.r#type }),
            task_queue: task_queue(self.task_queue),
            input: self.input.payloads()?,
            workflow_execution_timeout: duration(self.execution_timeout),
            workflow_run_timeout: duration(self.run_timeout),
            workflow_task_timeout: duration(self.task_timeout),
            workflow_start_delay: duration(self.start_delay),
            cron_schedule: self.cron,
            workflow_id_reuse_policy: self.id_reuse_policy.map_or(0, |policy| policy as i32),
            workflow_id_conflict_policy: self.id_conflict_policy.map_or(0, |policy| policy as i32),
            memo: payload_map(&self.memo).map(|fields| Memo { fields }),
            search_attributes: payload_map(&self.search_attribute)
                .map(|indexed_fields| SearchAttributes { indexed_fields }),
            priority: self.priority_key.map(|priority_key| Priority { priority_key, ..Default::default() }),
            user_metadata: user_metadata(self.static_summary.as_deref(), self.static_details.as_deref()),
            identity: client.identity.clone(),
            request_id: uuid()?,
            ..Default::default()
        })
    }
}
