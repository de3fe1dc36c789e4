//! The result of a workflow: the end of its last run.

use std::time::Duration;

use bytes::Bytes;
use segno_proto::{
    common::{Payload, WorkflowExecution},
    enums::{HistoryEventFilterType, TimeoutType},
    events::{HistoryEvent, history_event::Attributes},
    workflowservice::GetWorkflowExecutionHistoryRequest,
};

use super::{Client, ClientError};
use crate::failure::Failure;

/// The interval of polls for the result of a paused workflow.
const PAUSED_POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Where the end of a run leads.
enum End {
    /// To its result.
    Closed(Result<Vec<Payload>, Failure>),
    /// To the next run.
    Continued(String),
}

/// Waits for the end of a workflow. An empty run id is the current run.
pub(super) async fn wait(client: &Client, workflow_id: &str, run_id: &str) -> Result<Vec<Payload>, ClientError> {
    let mut run_id = run_id.to_owned();
    loop {
        let event = closing_event(client, workflow_id, &run_id).await?;
        match end(client, event).await? {
            End::Continued(next) => run_id = next,
            End::Closed(Ok(payloads)) => return Ok(payloads),
            End::Closed(Err(failure)) => return Err(ClientError::WorkflowFailed(failure)),
        }
    }
}

async fn closing_event(client: &Client, workflow_id: &str, run_id: &str) -> Result<HistoryEvent, ClientError> {
    let mut request = GetWorkflowExecutionHistoryRequest {
        namespace: client.namespace().to_owned(),
        execution: Some(WorkflowExecution { workflow_id: workflow_id.to_owned(), run_id: run_id.to_owned() }),
        wait_new_event: true,
        history_event_filter_type: HistoryEventFilterType::CloseEvent as i32,
        skip_archival: true,
        ..Default::default()
    };
    loop {
        let answer = client
            .long_poll(|mut service| {
                let request = request.clone();
                async move { service.get_workflow_execution_history(request).await }
            })
            .await?;
        let events = answer.history.unwrap_or_default().events().map_err(super::error::unreadable)?;
        match events.into_iter().next_back() {
            Some(event) if is_end(&event) => return Ok(event),
            // Temporal gives the last event of a run that is paused, at once.
            Some(_) => {
                tokio::time::sleep(PAUSED_POLL_INTERVAL).await;
                request.next_page_token = Bytes::new();
            }
            // No news yet: the token makes the server go on with the same run.
            None => request.next_page_token = answer.next_page_token,
        }
    }
}

fn is_end(event: &HistoryEvent) -> bool {
    use Attributes as A;
    matches!(
        event.attributes,
        Some(
            A::WorkflowExecutionCompletedEventAttributes(_)
                | A::WorkflowExecutionFailedEventAttributes(_)
                | A::WorkflowExecutionTimedOutEventAttributes(_)
                | A::WorkflowExecutionContinuedAsNewEventAttributes(_)
                | A::WorkflowExecutionCanceledEventAttributes(_)
                | A::WorkflowExecutionTerminatedEventAttributes(_)
        )
    )
}

async fn end(client: &Client, event: HistoryEvent) -> Result<End, ClientError> {
    let continued = |next: String, end: End| if next.is_empty() { end } else { End::Continued(next) };
    Ok(match event.attributes {
        Some(Attributes::WorkflowExecutionCompletedEventAttributes(completed)) => {
            let payloads = client.incoming(completed.result).await?;
            continued(completed.new_execution_run_id, End::Closed(Ok(payloads)))
        }
        Some(Attributes::WorkflowExecutionFailedEventAttributes(failed)) => {
            let failure = client.incoming_failure(failed.failure).await?;
            continued(failed.new_execution_run_id, End::Closed(Err(failure)))
        }
        Some(Attributes::WorkflowExecutionTimedOutEventAttributes(timed_out)) => {
            let failure = Failure::timeout(TimeoutType::StartToClose, "the workflow timed out");
            continued(timed_out.new_execution_run_id, End::Closed(Err(failure)))
        }
        Some(Attributes::WorkflowExecutionContinuedAsNewEventAttributes(continued)) => {
            End::Continued(continued.new_execution_run_id)
        }
        Some(Attributes::WorkflowExecutionCanceledEventAttributes(_)) => End::Closed(Err(Failure::cancelled())),
        Some(Attributes::WorkflowExecutionTerminatedEventAttributes(terminated)) => {
            let reason = terminated.reason;
            let message = match reason.is_empty() {
                true => "the workflow was terminated".to_owned(),
                false => format!("the workflow was terminated: {reason}"),
            };
            End::Closed(Err(Failure::terminated(message)))
        }
        _ => {
            let message = format!("event {} was given as the end of a workflow", event.event_id);
            return Err(ClientError::Rpc { code: tonic::Code::Internal, message });
        }
    })
}
