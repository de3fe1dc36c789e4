//! `segno workflow why`.

use clap::Args;
use segno_proto::segno_workflow::{ExplainRequest, ExplainResponse, Reason};
use tonic::Code;

use crate::{
    client::{Client, ClientError, request},
    commands::Target,
    output::{
        dynamic::{View, to_json},
        plain,
        style::Style,
    },
};

#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  segno workflow why --workflow-id order-7")]
pub struct Why {
    #[command(flatten)]
    target: Target,
}

impl Why {
    /// Prints the sentences of the server.
    pub async fn run(self, client: &mut Client) -> anyhow::Result<()> {
        let answer = client.explain(&self.target.workflow_id, &self.target.run_id).await?;
        client.print(
            || text(&answer, client.colors),
            || Ok(to_json("segno.workflow.v1.ExplainResponse", &answer, View::Decoded)?),
        )
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
        let answer = self.explanations.explain(request(message)).await;
        self.answer("explain the workflow", answer)
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

/// The sentences, each with what to do and with its details below it.
fn text(answer: &ExplainResponse, colors: bool) -> String {
    let kind = plain(&answer.workflow_type).into_owned();
    let status = answer.status.to_lowercase().replace('_', " ");
    let title = format!("Workflow {} ({kind}) is {status}.", plain(&answer.workflow_id));
    let mut lines = vec![Style::Bold.paint(&title, colors)];
    lines.extend(answer.reasons.iter().flat_map(told));
    lines.join("\n")
}

fn told(reason: &Reason) -> Vec<String> {
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
            text: "Nobody polls.".to_owned(),
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
            "Workflow w (W) is timed out.\n- Nobody polls.\n    at \\u{1b}f\n  Start a worker.\n- More."
        );
    }
}
