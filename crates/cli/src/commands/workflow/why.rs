//! `segno workflow why`.

use clap::Args;
use jiff::Timestamp;
use segno_proto::segno_workflow::{DescribeQueueRequest, ExplainRequest, ExplainResponse, Reason};
use tonic::Code;

use crate::{
    client::{Client, ClientError, is_interruption, request},
    commands::{
        Target,
        watch::Watch,
        why::{Subject, look},
        workflow::start_options::StartedWorkflow,
    },
    output::plain,
};

/// A poll lasts a minute; a worker that polled within this time is probably there.
const POLL_SECONDS: i64 = 70;

/// Kinds of reasons that wait as intended, and that a user who waits wants to know of all the same.
const INTENDED: [&str; 2] = ["PAUSED", "ACTIVITY_PAUSED"];

/// The queue of scripts, which the server itself serves.
const SCRIPT_QUEUE: &str = "segno-flow";

#[derive(Args, Clone, Debug)]
#[command(
    after_help = "Examples:\n  segno workflow why --workflow-id order-7\n  segno workflow why --workflow-id order-7 --watch"
)]
pub struct Why {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    watch: Watch,
}

impl Why {
    /// Prints the sentences of the server.
    pub async fn run(self, client: &mut Client) -> anyhow::Result<()> {
        let request =
            ExplainRequest { workflow_id: self.target.workflow_id, run_id: self.target.run_id, ..Default::default() };
        look(client, self.watch, &Subject::Workflow, request).await
    }
}

impl Client {
    /// Why a workflow does not go on.
    pub async fn explain(&mut self, workflow_id: &str, run_id: &str) -> Result<ExplainResponse, ClientError> {
        let message = ExplainRequest {
            namespace: self.namespace.clone(),
            workflow_id: workflow_id.to_owned(),
            run_id: run_id.to_owned(),
            ..Default::default()
        };
        self.call("explain the workflow", message).await
    }

    /// The same, or nothing if the server is none of Segno's.
    pub async fn explain_if_possible(
        &mut self,
        workflow_id: &str,
        run_id: &str,
    ) -> Result<Option<ExplainResponse>, ClientError> {
        match self.explain(workflow_id, run_id).await {
            Ok(answer) => Ok(Some(answer)),
            Err(ClientError::Status { status, .. }) if status.code() == Code::Unimplemented => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl Client {
    /// Says on standard error that a script executes a workflow that was started on another queue than that of scripts, or that it will
    /// wait, if no worker polls its queue. What cannot be found out is not said.
    pub async fn tell_executor(&mut self, started: &StartedWorkflow) {
        if started.task_queue == SCRIPT_QUEUE {
            return;
        }
        match self.executed_by(&started.workflow_id, &started.run_id).await {
            Some(script) => eprintln!("segno: executed by {}", plain(&script)),
            None => self.warn_if_no_worker(&started.task_queue, "the workflow waits until a worker does").await,
        }
    }

    /// The same before a worker is asked something about a workflow that is there.
    pub async fn warn_if_no_worker_answers(&mut self, target: &Target) {
        let Ok(description) = self.describe(&target.workflow_id, &target.run_id).await else { return };
        if self.executed_by(&target.workflow_id, &target.run_id).await.is_none() {
            let queue = description.workflow_execution_info.unwrap_or_default().task_queue;
            self.warn_if_no_worker(&queue, "only a worker can answer").await;
        }
    }

    /// Says on standard error what keeps a workflow from going on, if that is something to look at. What cannot be found
    /// out is not said. Whether the server was there to be asked.
    pub async fn tell_problems(&mut self, workflow_id: &str, run_id: &str) -> bool {
        let reasons = match self.explain_if_possible(workflow_id, run_id).await {
            Ok(answer) => answer.unwrap_or_default().reasons,
            Err(ClientError::Status { status, .. }) if is_interruption(&status) => return false,
            Err(_) => return true,
        };
        let is_told = |reason: &&Reason| {
            matches!(reason.severity.as_str(), "STUCK" | "DELAYED") || INTENDED.contains(&reason.kind.as_str())
        };
        for reason in reasons.iter().filter(is_told) {
            eprintln!("segno: still waiting: {}", plain(&reason.text));
        }
        true
    }

    async fn warn_if_no_worker(&mut self, task_queue: &str, meaning: &str) {
        let message = DescribeQueueRequest { namespace: self.namespace.clone(), task_queue: task_queue.to_owned() };
        let Ok(answer) = self.send(request(message)).await else { return };
        let side = answer.into_inner().workflow.unwrap_or_default();
        // A worker that is busy asks again when it is done; one that died does not.
        let recent = side.last_poll.is_some_and(|last| Timestamp::now().as_second() - last.seconds < POLL_SECONDS);
        if side.polls_waiting == 0 && !recent {
            eprintln!("segno: no worker polls task queue {} for workflow tasks: {meaning}", plain(task_queue));
        }
    }

    /// The script that executes a run, in words; nothing if workers do, or it cannot be found out.
    async fn executed_by(&mut self, workflow_id: &str, run_id: &str) -> Option<String> {
        let explained = self.explain_if_possible(workflow_id, run_id).await.ok()??;
        Some(explained.executed_by).filter(|script| !script.is_empty())
    }
}
