//! What all `segno ... why` commands share: the call and its sentences.

use segno_proto::segno_workflow::{ExplainRequest, ExplainResponse, Reason};

use super::watch::Watch;
use crate::{
    client::Client,
    output::{dynamic::decoded, plain, style::Style},
};

/// What is explained.
pub enum Subject {
    Workflow,
    Schedule,
    Batch,
    Activity,
}

impl Subject {
    /// As the beginning of a sentence.
    fn name(&self) -> &'static str {
        match self {
            Self::Workflow => "Workflow",
            Self::Schedule => "Schedule",
            Self::Batch => "Batch job",
            Self::Activity => "Activity",
        }
    }
}

/// Prints the sentences of the server, once or again and again.
pub async fn look(
    client: &mut Client,
    watch: Watch,
    subject: &Subject,
    mut request: ExplainRequest,
) -> anyhow::Result<()> {
    request.namespace.clone_from(&client.namespace);
    let what = format!("explain the {}", subject.name().to_lowercase());
    let look = async |client: &mut Client| {
        let answer = client.call(&what, request.clone()).await?;
        client.print(|| text(subject, &answer, client.colors), || decoded("segno.workflow.v1.ExplainResponse", &answer))
    };
    watch.repeat(client, look).await
}

/// The sentences, each with its severity, what to do and its details.
fn text(subject: &Subject, answer: &ExplainResponse, colors: bool) -> String {
    let kind = match answer.workflow_type.as_str() {
        kind if kind.is_empty() || matches!(subject, Subject::Schedule) => String::new(),
        kind => format!(" ({})", plain(kind)),
    };
    let executed_by = match answer.executed_by.as_str() {
        "" => String::new(),
        script => format!(", executed by {}", plain(script)),
    };
    let id = if answer.id.is_empty() { &answer.workflow_id } else { &answer.id };
    let state =
        if matches!(subject, Subject::Schedule) { String::new() } else { format!(" {}", stands(&answer.status)) };
    let title = format!("{} {}{kind}{state}{executed_by}.", subject.name(), plain(id));
    let mut lines = vec![Style::Bold.paint(&title, colors)];
    lines.extend(answer.reasons.iter().flat_map(|reason| reason_lines(reason, colors)));
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

fn reason_lines(reason: &Reason, colors: bool) -> Vec<String> {
    let severity = match reason.severity.as_str() {
        "" => String::new(),
        severity => {
            let style = match severity {
                "STUCK" => Style::Red,
                "DELAYED" => Style::Yellow,
                _ => Style::Blue,
            };
            format!("{} ", style.paint(&format!("[{}]", plain(&severity.to_lowercase())), colors))
        }
    };
    let mut lines = vec![format!("- {severity}{}", plain(&reason.text))];
    lines.extend(reason.details.iter().map(|line| format!("    {}", plain(line))));
    if !reason.hint.is_empty() {
        lines.push(format!("  {}", plain(&reason.hint)));
    }
    let below = reason.because.iter().flat_map(|reason| reason_lines(reason, colors));
    lines.extend(below.map(|line| format!("  {line}")));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(text: &str, severity: &str) -> Reason {
        Reason { text: text.to_owned(), severity: severity.to_owned(), ..Default::default() }
    }

    #[test]
    fn each_sentence_has_its_severity_its_details_and_its_hint() {
        let first = Reason {
            hint: "Start a worker.".to_owned(),
            details: vec!["at \x1bf".to_owned()],
            ..reason("No worker polls.", "DELAYED")
        };
        let answer = ExplainResponse {
            workflow_id: "w".to_owned(),
            workflow_type: "W".to_owned(),
            status: "TIMED_OUT".to_owned(),
            reasons: vec![first, reason("More.", "")],
            ..Default::default()
        };
        assert_eq!(
            text(&Subject::Workflow, &answer, false),
            "Workflow w (W) has timed out.\n- [delayed] No worker polls.\n    at \\u{1b}f\n  Start a worker.\n- More."
        );
        let by_script = ExplainResponse { executed_by: "script W".to_owned(), ..answer };
        let told = text(&Subject::Workflow, &by_script, true);
        assert!(told.starts_with("\x1b[1mWorkflow w (W) has timed out, executed by script W.\x1b[0m\n"), "{told}");
        assert!(told.contains("- \x1b[33m[delayed]\x1b[0m No worker polls."), "{told}");
    }

    #[test]
    fn reasons_of_a_child_stand_below_it() {
        let child = Reason { because: vec![reason("It breaks.", "STUCK")], ..reason("It waits for c.", "STUCK") };
        let answer = ExplainResponse { id: "nightly".to_owned(), reasons: vec![child], ..Default::default() };
        let told = text(&Subject::Schedule, &answer, false);
        assert_eq!(told, "Schedule nightly.\n- [stuck] It waits for c.\n  - [stuck] It breaks.");
    }
}
