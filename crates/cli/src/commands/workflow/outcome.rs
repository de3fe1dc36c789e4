//! How a workflow ended: its result on standard output, or its failure with all causes.

use segno_proto::events::{HistoryEvent, history_event::Attributes};

use crate::{
    client::{Client, ClientError},
    output::{self, Json, dynamic::decoded, event, failure, payload, plain},
};

/// The end of a workflow.
pub struct Outcome {
    /// The workflow.
    pub workflow_id: String,
    /// Its last run.
    pub run_id: String,
    /// The event that ended it.
    pub last: HistoryEvent,
}

impl Outcome {
    /// Prints it. Anything but completion is an error.
    pub fn print(&self, client: &Client) -> anyhow::Result<()> {
        let (status, trouble) = self.verdict();
        if client.is_json() {
            output::print(&client.format.render(&self.json(client, status)))?;
        } else if trouble.is_none() {
            for text in self.results() {
                output::print(&text)?;
            }
        }
        match trouble {
            None => Ok(()),
            Some(trouble) => {
                Err(ClientError::Outcome(format!("workflow {} {trouble}", plain(&self.workflow_id))).into())
            }
        }
    }

    /// The status in capitals, and what went wrong if anything did.
    fn verdict(&self) -> (&'static str, Option<String>) {
        match &self.last.attributes {
            Some(Attributes::WorkflowExecutionCompletedEventAttributes(_)) => ("COMPLETED", None),
            Some(Attributes::WorkflowExecutionFailedEventAttributes(a)) => {
                let failure = a.failure.clone().unwrap_or_default();
                let mut lines = failure::chain(&failure);
                lines.extend(failure::script_stack(&failure));
                ("FAILED", Some(format!("failed: {}", lines.join("\n  "))))
            }
            Some(Attributes::WorkflowExecutionCanceledEventAttributes(a)) => {
                let details = payload::texts(a.details.as_ref());
                let details = if details.is_empty() { String::new() } else { format!(": {}", details.join(", ")) };
                ("CANCELED", Some(format!("was canceled{}", plain(&details))))
            }
            Some(Attributes::WorkflowExecutionTerminatedEventAttributes(a)) => {
                let by = if a.identity.is_empty() { String::new() } else { format!(" by {}", a.identity) };
                let reason = if a.reason.is_empty() { String::new() } else { format!(": {}", a.reason) };
                ("TERMINATED", Some(format!("was terminated{}{}", plain(&by), plain(&reason))))
            }
            Some(Attributes::WorkflowExecutionTimedOutEventAttributes(_)) => {
                ("TIMED_OUT", Some("ran out of time".to_owned()))
            }
            _ => ("UNKNOWN", Some(format!("ended with event {}", self.last.event_type().as_str_name()))),
        }
    }

    fn results(&self) -> Vec<String> {
        match &self.last.attributes {
            Some(Attributes::WorkflowExecutionCompletedEventAttributes(a)) => payload::texts(a.result.as_ref()),
            _ => Vec::new(),
        }
    }

    fn json(&self, client: &Client, status: &str) -> Json {
        let mut json = Json::object([
            ("workflowId", Json::text(&self.workflow_id)),
            ("runId", Json::text(&self.run_id)),
            ("namespace", Json::text(&client.namespace)),
            ("status", Json::text(status)),
        ]);
        match &self.last.attributes {
            Some(Attributes::WorkflowExecutionCompletedEventAttributes(a)) => {
                // Workflows return one value in all SDKs.
                let result = a.result.as_ref().and_then(|result| result.payloads.first());
                json.push("result", result.map_or(Json::Null, payload::json));
            }
            Some(Attributes::WorkflowExecutionFailedEventAttributes(a)) => {
                let failure = a.failure.clone().unwrap_or_default();
                json.push("failure", decoded("temporal.api.failure.v1.Failure", &failure));
            }
            _ => {}
        }
        json.push("closeEvent", decoded(event::EVENT, &self.last));
        json
    }
}
