//! `segno workflow show`.

use bytes::Bytes;
use clap::Args;
use segno_proto::{enums::EventType, events::HistoryEvent};

use crate::{
    client::Client,
    commands::Target,
    output::{
        self, Format,
        dynamic::{View, to_json},
        event,
    },
};

#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  segno workflow show --workflow-id order-7\n  \
                        segno workflow show --workflow-id order-7 --follow\n  \
                        segno workflow show --workflow-id order-7 --output json > history.json   # for a replayer")]
pub struct Show {
    #[command(flatten)]
    target: Target,
    /// Follow new events until the run ends. As JSON: one event per line.
    #[arg(short, long)]
    follow: bool,
}

impl Show {
    /// Prints events as they come.
    pub async fn run(self, client: &mut Client) -> anyhow::Result<()> {
        let mut execution = self.target.execution();
        if self.follow && execution.run_id.is_empty() {
            // A follower stays with the run it began with.
            execution.run_id = client.current_run(&execution.workflow_id).await?;
        }
        let whole = client.format == Format::Json && !self.follow;
        let mut printed = 0;
        let mut token = Bytes::new();
        loop {
            let page = client.history(&execution, token, self.follow, false).await?;
            for event in &page.events {
                let shown = if client.is_json() {
                    let json = to_json(event::EVENT, event, View::Exact);
                    if whole { json.pretty() } else { json.to_string() }
                } else {
                    event::line(event)
                };
                let before = match printed {
                    0 if whole => "{\"events\": [\n",
                    _ if whole => ",\n",
                    _ => "",
                };
                output::print(&format!("{before}{shown}"))?;
                printed += 1;
            }
            token = page.next;
            if token.is_empty() || page.events.last().is_some_and(is_end) {
                break;
            }
        }
        if whole {
            output::print(if printed == 0 { "{\"events\": []}" } else { "]}" })?;
        }
        Ok(())
    }
}

/// Whether this event ends a run.
fn is_end(event: &HistoryEvent) -> bool {
    matches!(
        event.event_type(),
        EventType::WorkflowExecutionCompleted
            | EventType::WorkflowExecutionFailed
            | EventType::WorkflowExecutionTimedOut
            | EventType::WorkflowExecutionCanceled
            | EventType::WorkflowExecutionTerminated
            | EventType::WorkflowExecutionContinuedAsNew
    )
}
