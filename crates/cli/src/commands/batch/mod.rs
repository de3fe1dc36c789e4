//! `segno batch ...`, and the flags with which other commands start a batch job.

mod describe;
mod list;
mod terminate;
mod why;

use clap::Args;
use segno_proto::{
    common::WorkflowExecution,
    workflowservice::{
        CountWorkflowExecutionsRequest, StartBatchOperationRequest, start_batch_operation_request::Operation,
    },
};

use crate::{
    client::{Client, uuid},
    commands::{Target, confirm, reason},
    output::{Json, plain},
};

noun!(Batch {
    /// Lists batch jobs.
    List(list::List),
    /// Shows the progress of a batch job.
    Describe(describe::Describe),
    /// Says how far a batch job has come, and what was refused.
    Why(why::Why),
    /// Stops a batch job.
    Terminate(terminate::Terminate),
});

/// One workflow, or all that match a filter.
#[derive(Args, Clone, Debug)]
pub struct Selection {
    /// Workflow id.
    #[arg(short, long, value_name = "ID", required_unless_present = "query")]
    workflow_id: Option<String>,
    /// Run id. [default: the newest run]
    #[arg(short, long, value_name = "ID", default_value = "", hide_default_value = true, conflicts_with = "query")]
    run_id: String,
    /// All workflows that match a list filter: starts a batch job.
    #[arg(short, long, value_name = "FILTER", conflicts_with = "workflow_id")]
    query: Option<String>,
    /// Maximum number of workflows per second.
    #[arg(long, value_name = "NUMBER", requires = "query")]
    rps: Option<f32>,
    /// Do not ask for confirmation.
    #[arg(short, long)]
    pub yes: bool,
}

/// What a [`Selection`] selects.
pub enum SelectedWorkflows {
    /// One workflow.
    One(Target),
    /// All that fit.
    All(Job),
}

/// A job to start.
pub struct Job {
    query: String,
    rps: Option<f32>,
    yes: bool,
}

impl Selection {
    /// What is selected.
    pub fn selected(self) -> SelectedWorkflows {
        match self.query {
            Some(query) => SelectedWorkflows::All(Job { query, rps: self.rps, yes: self.yes }),
            None => SelectedWorkflows::One(Target {
                workflow_id: self.workflow_id.unwrap_or_default(),
                run_id: self.run_id,
            }),
        }
    }
}

impl Job {
    /// Starts the job.
    pub async fn start(
        self,
        client: &mut Client,
        given_reason: Option<String>,
        operation: Operation,
    ) -> anyhow::Result<()> {
        if !self.yes {
            let message =
                CountWorkflowExecutionsRequest { namespace: client.namespace.clone(), query: self.query.clone() };
            let count = client.call("count the workflows", message).await?.count;
            let workflows = if count == 1 { "1 workflow".to_owned() } else { format!("{count} workflows") };
            confirm(false, &format!("Start a batch job on {workflows} that fit {}?", plain(&self.query)))?;
        }
        let job_id = uuid()?;
        let message = StartBatchOperationRequest {
            namespace: client.namespace.clone(),
            visibility_query: self.query,
            job_id: job_id.clone(),
            reason: reason(given_reason, &client.identity),
            executions: Vec::<WorkflowExecution>::new(),
            max_operations_per_second: self.rps.unwrap_or_default(),
            operation: Some(operation),
            ..Default::default()
        };
        client.call("start a batch job", message).await?;
        client.print(|| format!("Started batch job {job_id}"), || Json::object([("batchJobId", Json::text(&job_id))]))
    }
}
