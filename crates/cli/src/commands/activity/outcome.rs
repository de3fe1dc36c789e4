//! How an activity ended: its result on standard output, or its failure with all causes.

use segno_proto::{
    activity::activity_execution_outcome::Value,
    workflowservice::{DescribeActivityExecutionRequest, PollActivityExecutionRequest},
};

use crate::{
    client::{Client, ClientError},
    output::{self, Json, dynamic::decoded, failure, payload, plain},
};

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
        client.call("describe the activity", message).await.ok();
    }
    let (run_id, value) = loop {
        let message = PollActivityExecutionRequest {
            namespace: client.namespace.clone(),
            activity_id: activity_id.to_owned(),
            run_id: run_id.to_owned(),
        };
        let answer = client.call_until_answered("wait for the activity", message).await?;
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
        output::print(&client.format.render(&json))?;
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
