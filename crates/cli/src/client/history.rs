//! Reading histories: page by page, waiting for what comes next, and the end of a chain of runs.

use std::time::{Duration, Instant};

use bytes::Bytes;
use segno_proto::{
    common::WorkflowExecution,
    enums::HistoryEventFilterType,
    events::{HistoryEvent, history_event::Attributes},
    workflowservice::GetWorkflowExecutionHistoryRequest,
};
use tonic::{Request, metadata::MetadataValue};

use super::{Client, ClientError, RECONNECT_DELAY, is_out_of_time, request_within};

/// Longest wait for news per call. Servers answer earlier, with nothing new.
const LONG_POLL_MAX: Duration = Duration::from_secs(60);

/// After this time a command that waits for an end prints what keeps the workflow from it.
const EXPLAIN_DELAY: Duration = Duration::from_secs(5);

/// A part of a history.
pub struct Page {
    /// Its events.
    pub events: Vec<HistoryEvent>,
    /// Where the next part begins; empty at the end.
    pub next: Bytes,
}

impl Client {
    /// One page of a history. With `wait`, this comes back when there is something new or the server has nothing to say; a
    /// server that restarts is waited for.
    pub async fn history(
        &mut self,
        execution: &WorkflowExecution,
        token: Bytes,
        wait: bool,
        only_close: bool,
    ) -> anyhow::Result<Page> {
        let filter = if only_close { HistoryEventFilterType::CloseEvent } else { HistoryEventFilterType::AllEvent };
        let message = GetWorkflowExecutionHistoryRequest {
            namespace: self.namespace.clone(),
            execution: Some(execution.clone()),
            next_page_token: token,
            wait_new_event: wait,
            history_event_filter_type: filter as i32,
            ..Default::default()
        };
        let result = loop {
            let begun = Instant::now();
            match self.send(as_command_line(message.clone())).await {
                // Nothing came in time: ask again from the same place.
                Err(status) if wait && is_out_of_time(&status) => {
                    self.notice(&status);
                    // Something between here and the server may say so at once, and again.
                    if begun.elapsed() < RECONNECT_DELAY {
                        tokio::time::sleep(RECONNECT_DELAY).await;
                    }
                }
                Err(status) if wait && self.is_worth_a_retry(&status).await => {}
                result => break result,
            }
        };
        let answer = self.answer("read the history", result)?;
        let events = answer.history.unwrap_or_default().events()?;
        Ok(Page { events, next: answer.next_page_token })
    }

    /// Waits until the workflow has ended, also over runs that continue it; returns the last run and its last event.
    pub async fn wait_for_end(&mut self, workflow_id: &str, run_id: &str) -> anyhow::Result<(String, HistoryEvent)> {
        let mut execution = WorkflowExecution { workflow_id: workflow_id.to_owned(), run_id: run_id.to_owned() };
        if execution.run_id.is_empty() {
            execution.run_id = self.current_run(workflow_id).await?;
        } else if !self.has_answered() {
            // A server that goes away during the first wait is waited for if it was there. What it refuses, that wait tells.
            self.describe(workflow_id, run_id).await.ok();
        }
        let mut token = Bytes::new();
        let mut is_told = false;
        loop {
            let waiting = self.history(&execution, token.clone(), true, true);
            let page = if is_told {
                waiting.await?
            } else if let Ok(page) = tokio::time::timeout(EXPLAIN_DELAY, waiting).await {
                page?
            } else {
                is_told = self.tell_problems(&execution.workflow_id, &execution.run_id).await;
                continue;
            };
            token = page.next;
            let Some(last) = page.events.into_iter().next_back() else { continue };
            match successor(&last) {
                Some(next) => {
                    execution.run_id = next.to_owned();
                    token = Bytes::new();
                }
                None => return Ok((execution.run_id, last)),
            }
        }
    }

    /// The newest run under a workflow id.
    pub async fn current_run(&mut self, workflow_id: &str) -> Result<String, ClientError> {
        let description = self.describe(workflow_id, "").await?;
        let info = description.workflow_execution_info.unwrap_or_default();
        Ok(info.execution.unwrap_or_default().run_id)
    }
}

/// Servers show readers of history the events of a task under way that are not stored, except to Temporal's own command
/// line. A command line is what this is.
fn as_command_line<T>(message: T) -> Request<T> {
    let mut request = request_within(message, LONG_POLL_MAX);
    request.metadata_mut().insert("client-name", MetadataValue::from_static("temporal-cli"));
    request.metadata_mut().insert("client-version", MetadataValue::from_static("1.0.0"));
    request
}

/// The run that continues the one this event ended.
fn successor(last: &HistoryEvent) -> Option<&str> {
    let run_id = match last.attributes.as_ref()? {
        Attributes::WorkflowExecutionContinuedAsNewEventAttributes(a) => &a.new_execution_run_id,
        Attributes::WorkflowExecutionCompletedEventAttributes(a) => &a.new_execution_run_id,
        Attributes::WorkflowExecutionFailedEventAttributes(a) => &a.new_execution_run_id,
        Attributes::WorkflowExecutionTimedOutEventAttributes(a) => &a.new_execution_run_id,
        _ => return None,
    };
    (!run_id.is_empty()).then_some(run_id.as_str())
}
