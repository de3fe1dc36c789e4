//! `segno activity complete` and `segno activity fail`.

use clap::Args;
use segno_proto::{
    failure::{ApplicationFailureInfo, Failure, failure::FailureInfo},
    workflowservice::{RespondActivityTaskCompletedByIdRequest, RespondActivityTaskFailedByIdRequest},
};

use super::ActivitySelector;
use crate::{args, client::Client, output::payload};

#[derive(Args, Clone, Debug)]
#[command(
    after_help = "Example:\n  segno activity complete --workflow-id order-7 --activity-id 5 --result '{\"ok\": true}'"
)]
pub struct Complete {
    #[command(flatten)]
    activity: ActivitySelector,
    /// The result, as JSON.
    #[arg(long, value_name = "JSON", value_parser = args::json)]
    result: Option<String>,
}

#[derive(Args, Clone, Debug)]
#[command(
    after_help = "Example:\n  segno activity fail --workflow-id order-7 --activity-id 5 --reason 'the bank said no'"
)]
pub struct Fail {
    #[command(flatten)]
    activity: ActivitySelector,
    /// The message of the failure.
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    reason: String,
    /// Details of the failure, as JSON.
    #[arg(long, value_name = "JSON", value_parser = args::json)]
    detail: Option<String>,
}

impl Complete {
    /// Completes the activity.
    pub async fn run(self, client: &mut Client) -> anyhow::Result<()> {
        let result: Vec<String> = self.result.into_iter().collect();
        let message = RespondActivityTaskCompletedByIdRequest {
            namespace: client.namespace.clone(),
            workflow_id: self.activity.target.workflow_id.clone(),
            run_id: self.activity.target.run_id.clone(),
            activity_id: self.activity.activity_id.clone(),
            result: payload::of_arguments(&result),
            identity: client.identity.clone(),
            ..Default::default()
        };
        client.call("complete the activity", message).await?;
        self.activity.done(client, "completed")
    }
}

impl Fail {
    /// Fails the activity.
    pub async fn run(self, client: &mut Client) -> anyhow::Result<()> {
        let details: Vec<String> = self.detail.into_iter().collect();
        // A user decided that it failed: another attempt would not change that.
        let info = ApplicationFailureInfo {
            non_retryable: true,
            details: payload::of_arguments(&details),
            ..Default::default()
        };
        let failure = Failure {
            message: self.reason,
            source: "CLI".to_owned(),
            failure_info: Some(FailureInfo::ApplicationFailureInfo(info)),
            ..Default::default()
        };
        let message = RespondActivityTaskFailedByIdRequest {
            namespace: client.namespace.clone(),
            workflow_id: self.activity.target.workflow_id.clone(),
            run_id: self.activity.target.run_id.clone(),
            activity_id: self.activity.activity_id.clone(),
            failure: Some(failure),
            identity: client.identity.clone(),
            ..Default::default()
        };
        client.call("fail the activity", message).await?;
        self.activity.done(client, "failed")
    }
}
