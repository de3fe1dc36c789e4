//! `segno workflow why`.

use clap::Args;
use jiff::Timestamp;
use segno_proto::segno_workflow::{DescribeQueueRequest, ExplainRequest, ExplainResponse, Reason};
use tonic::Code;

use crate::{
    client::{Client, ClientError, is_interruption, request},
    commands::{Target, watch::Watch, workflow::start_options::StartedWorkflow},
    output::{dynamic::decoded, plain, style::Style},
};

/// A poll lasts a minute; a worker that polled within this time is probably there.
const POLL_SECONDS: i64 = 70;

/// Kinds of reasons that tell a user who waits that waiting alone may not help.
const PROBLEMS: [&str; 8] = [
    "NO_POLLER",
    "WAITS_FOR_VERSION",
    "TASK_FAILING",
    "TASK_TIMING_OUT",
    "WORKER_SILENT",
    "ACTIVITY_FAILING",
    "ACTIVITY_PAUSED",
    "ACTIVITY_QUARANTINED",
];

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
        let target = self.target;
        let look = async |client: &mut Client| {
            let answer = client.explain(&target.workflow_id, &target.run_id).await?;
            client.print(|| text(&answer, client.colors), || decoded("segno.workflow.v1.ExplainResponse", &answer))
        };
        self.watch.repeat(client, look).await
    }
}

impl Client {
    /// Why a workflow does not go on.
    pub async fn explain(&mut self, workflow_id: &str, run_id: &str) -> Result<ExplainResponse, ClientError> {
        let message = ExplainRequest {
            namespace: self.namespace.clone(),
            workflow_id: workflow_id.to_owned(),
            run_id: run_id.to_owned(),
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
    pub async fn warn_if_nobody_answers(&mut self, target: &Target) {
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
        for reason in reasons.iter().filter(|reason| PROBLEMS.contains(&reason.kind.as_str())) {
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

/// The sentences, each with what to do and with its details below it.
fn text(answer: &ExplainResponse, colors: bool) -> String {
    let kind = plain(&answer.workflow_type).into_owned();
    let executed_by = match answer.executed_by.as_str() {
        "" => String::new(),
        script => format!(", executed by {}", plain(script)),
    };
    let title = format!("Workflow {} ({kind}) {}{executed_by}.", plain(&answer.workflow_id), stands(&answer.status));
    let mut lines = vec![Style::Bold.paint(&title, colors)];
    lines.extend(answer.reasons.iter().flat_map(reason_lines));
    lines.join("\n")
}

/// How a run stands, as the end of a sentence.
fn stands(status: &str) -> String {
    match status {
        "FAILED" => "has failed".to_owned(),
        "TIMED_OUT" => "has timed out".to_owned(),
        "CONTINUED_AS_NEW" => "has continued as new".to_owned(),
        "CANCELED" => "was canceled".to_owned(),
        "TERMINATED" => "was terminated".to_owned(),
        other => format!("is {}", other.to_lowercase().replace('_', " ")),
    }
}

fn reason_lines(reason: &Reason) -> Vec<String> {
    let mut lines = vec![format!("- {}", plain(&reason.text))];
    lines.extend(reason.details.iter().map(|line| format!("    {}", plain(line))));
    if !reason.hint.is_empty() {
        lines.push(format!("  {}", plain(&reason.hint)));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_sentence_has_its_details_and_its_hint() {
        let reason = Reason {
            text: "No worker polls.".to_owned(),
            hint: "Start a worker.".to_owned(),
            details: vec!["at \x1bf".to_owned()],
            ..Default::default()
        };
        let answer = ExplainResponse {
            workflow_id: "w".to_owned(),
            workflow_type: "W".to_owned(),
            status: "TIMED_OUT".to_owned(),
            reasons: vec![reason, Reason { text: "More.".to_owned(), ..Default::default() }],
            ..Default::default()
        };
        assert_eq!(
            text(&answer, false),
            "Workflow w (W) has timed out.\n- No worker polls.\n    at \\u{1b}f\n  Start a worker.\n- More."
        );
        let by_script = ExplainResponse { executed_by: "script W".to_owned(), ..answer };
        assert!(text(&by_script, false).starts_with("Workflow w (W) has timed out, executed by script W.\n"));
    }
}
