//! How an activity ended: its result on standard output, or its failure with all causes.

use std::time::Duration;

use segno_proto::{
    activity::activity_execution_outcome::Value,
    workflowservice::{DescribeActivityExecutionRequest, PollActivityExecutionRequest, PollActivityExecutionResponse},
};

use crate::{
    client::{Client, ClientError, request, request_within},
    output::{self, Json, dynamic::decoded, failure, payload, plain},
};

/// How long one call waits; the server answers before.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);

/// Waits for the end of an activity and prints how it ended. Anything but completion is an error.
pub async fn wait(client: &mut Client, activity_id: &str, run_id: &str) -> anyhow::Result<()> {
    if !client.has_answered() {
        // A server that goes away during the first wait is waited for if it was there. What it refuses, that wait tells.
        let message = DescribeActivityExecutionRequest {
            namespace: client.namespace.clone(),
            activity_id: activity_id.to_owned(),
            run_id: run_id.to_owned(),
            ..Default::default()
        };
        let described = client.workflows.describe_activity_execution(request(message)).await;
        client.answer("describe the activity", described).ok();
    }
    let (run_id, value) = loop {
        let message = PollActivityExecutionRequest {
            namespace: client.namespace.clone(),
            activity_id: activity_id.to_owned(),
            run_id: run_id.to_owned(),
        };
        let answer = client.workflows.poll_activity_execution(request_within(message, CALL_TIMEOUT)).await;
        match &answer {
            Err(status) if client.is_worth_a_retry(status).await => continue,
            _ => {}
        }
        let answer: PollActivityExecutionResponse = client.answer("wait for the activity", answer)?;
        if let Some(value) = answer.outcome.and_then(|outcome| outcome.value) {
            break (answer.run_id, value);
        }
    };
    if client.is_json() {
        let mut json = Json::object([
            ("activityId", Json::text(activity_id)),
            ("runId", Json::text(&run_id)),
            ("namespace", Json::text(&client.namespace)),
        ]);
        match &value {
            Value::Result(result) => {
                json.push("status", Json::text("COMPLETED"));
                json.push("result", result.payloads.first().map_or(Json::Null, payload::json));
            }
            Value::Failure(failure) => {
                json.push("status", Json::text("FAILED"));
                json.push("failure", decoded("temporal.api.failure.v1.Failure", failure));
            }
        }
        output::print(&json.pretty())?;
    }
    match value {
        Value::Result(result) => {
            for text in payload::texts(Some(&result)).iter().filter(|_| !client.is_json()) {
                output::print(text)?;
            }
            Ok(())
        }
        Value::Failure(failure) => {
            let lines = failure::chain(&failure).join("\n  ");
            Err(ClientError::Outcome(format!("activity {} failed: {lines}", plain(activity_id))).into())
        }
    }
}
