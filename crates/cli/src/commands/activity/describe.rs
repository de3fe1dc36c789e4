//! `segno activity describe`.

use clap::Args;
use jiff::Timestamp;
use segno_proto::{
    activity::ActivityExecutionInfo,
    enums::PendingActivityState,
    workflowservice::{DescribeActivityExecutionRequest, DescribeActivityExecutionResponse},
};

use super::Target;
use crate::{
    client::Client,
    output::{
        dynamic::{decoded, short_name},
        failure,
        fields::Fields,
        payload, time,
    },
};

#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  segno activity describe --activity-id mail-7")]
pub struct Describe {
    #[command(flatten)]
    target: Target,
}

impl Describe {
    /// Prints how the activity stands.
    pub async fn run(self, client: &mut Client) -> anyhow::Result<()> {
        let message = DescribeActivityExecutionRequest {
            namespace: client.namespace.clone(),
            activity_id: self.target.activity_id,
            run_id: self.target.run_id,
            include_input: true,
            include_outcome: true,
            include_heartbeat_details: true,
            include_last_failure: true,
            ..Default::default()
        };
        let answer = client.call("describe the activity", message).await?;
        client.print(
            || text(&answer, client.colors),
            || decoded("temporal.api.workflowservice.v1.DescribeActivityExecutionResponse", &answer),
        )
    }
}

fn text(answer: &DescribeActivityExecutionResponse, colors: bool) -> String {
    let default = ActivityExecutionInfo::default();
    let info = answer.info.as_ref().unwrap_or(&default);
    let now = Timestamp::now();
    let mut fields = Fields::new(colors);
    fields.section("Activity");
    fields.add("ActivityId", &info.activity_id);
    fields.add("RunId", &info.run_id);
    fields.add("Type", info.activity_type.as_ref().map_or("", |kind| &kind.name));
    fields.add("Status", short_name("ActivityExecutionStatus", info.status().as_str_name()));
    if info.run_state() != PendingActivityState::Unspecified {
        fields.add("RunState", short_name("PendingActivityState", info.run_state().as_str_name()));
    }
    fields.add("TaskQueue", &info.task_queue);
    fields.add("Attempt", info.attempt.to_string());
    fields.add("ScheduleTime", time::both(info.schedule_time.as_ref(), now));
    fields.add("LastStartedTime", time::both(info.last_started_time.as_ref(), now));
    fields.add("NextAttempt", time::both(info.next_attempt_schedule_time.as_ref(), now));
    fields.add("CloseTime", time::both(info.close_time.as_ref(), now));
    fields.add("ScheduleToClose", time::span(info.schedule_to_close_timeout.as_ref()));
    fields.add("StartToClose", time::span(info.start_to_close_timeout.as_ref()));
    fields.add("Heartbeat", time::span(info.heartbeat_timeout.as_ref()));
    fields.add("LastWorker", &info.last_worker_identity);
    fields.add("HeartbeatDetails", payload::texts(info.heartbeat_details.as_ref()).join(", "));
    fields.add("Input", payload::texts(answer.input.as_ref()).join(", "));
    if let Some(last) = &info.last_failure {
        fields.add("LastFailure", failure::chain(last).join("; "));
    }
    fields.finish()
}
