//! `segno activity pause`, `unpause`, `reset` and `update-options`.

use clap::Args;
use prost_types::FieldMask;
use segno_proto::{
    Nanos,
    activity::ActivityOptions,
    common::RetryPolicy,
    nanos_duration,
    taskqueue::TaskQueue,
    workflowservice::{
        PauseActivityRequest, ResetActivityExecutionRequest, ResetActivityRequest, UnpauseActivityExecutionRequest,
        UnpauseActivityRequest, UpdateActivityOptionsRequest, pause_activity_request, reset_activity_request,
        unpause_activity_request, update_activity_options_request,
    },
};

use super::{ActivitySelector, AnySelector, done};
use crate::{
    args,
    client::{Client, ClientError, uuid},
    output::plain,
};

#[derive(Args, Clone, Debug)]
#[command(
    after_help = "Example:\n  segno activity pause --workflow-id order-7 --activity-id 5 --reason 'bank is down'"
)]
pub struct Pause {
    #[command(flatten)]
    activity: ActivitySelector,
    /// Why; shown with the activity.
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    reason: String,
}

#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  segno activity unpause --workflow-id order-7 --activity-id 5 --reset-attempts")]
pub struct Unpause {
    #[command(flatten)]
    activity: AnySelector,
    /// Count attempts from one again.
    #[arg(long, requires = "workflow_id")]
    reset_attempts: bool,
    /// Discard heartbeat details.
    #[arg(long, requires = "workflow_id")]
    reset_heartbeats: bool,
}

#[derive(Args, Clone, Debug)]
#[command(
    after_help = "Examples:\n  segno activity reset --workflow-id order-7 --activity-id 5\n  segno activity reset --activity-id mail-7"
)]
pub struct Reset {
    #[command(flatten)]
    activity: AnySelector,
    /// Discard heartbeat details.
    #[arg(long)]
    reset_heartbeats: bool,
    /// Keep a paused activity paused.
    #[arg(long)]
    keep_paused: bool,
}

#[derive(Args, Clone, Debug)]
#[command(
    after_help = "Example:\n  segno activity update-options --workflow-id order-7 --activity-id 5 --start-to-close-timeout 5m"
)]
pub struct UpdateOptions {
    #[command(flatten)]
    activity: ActivitySelector,
    /// The queue of its tasks.
    #[arg(long, value_name = "NAME")]
    task_queue: Option<String>,
    /// Longest time for all attempts together.
    #[arg(long, value_name = "DURATION", value_parser = args::duration)]
    schedule_to_close_timeout: Option<Nanos>,
    /// Longest time a task waits for a worker.
    #[arg(long, value_name = "DURATION", value_parser = args::duration)]
    schedule_to_start_timeout: Option<Nanos>,
    /// Longest time of one attempt.
    #[arg(long, value_name = "DURATION", value_parser = args::duration)]
    start_to_close_timeout: Option<Nanos>,
    /// Longest time between heartbeats.
    #[arg(long, value_name = "DURATION", value_parser = args::duration)]
    heartbeat_timeout: Option<Nanos>,
    /// Maximum number of attempts; 0 is no limit.
    #[arg(long, value_name = "NUMBER")]
    retry_maximum_attempts: Option<i32>,
    /// The first pause between attempts.
    #[arg(long, value_name = "DURATION", value_parser = args::duration)]
    retry_initial_interval: Option<Nanos>,
    /// The longest pause between attempts.
    #[arg(long, value_name = "DURATION", value_parser = args::duration)]
    retry_maximum_interval: Option<Nanos>,
}

impl Pause {
    /// Pauses the activity.
    pub async fn run(self, client: &mut Client) -> anyhow::Result<()> {
        let message = PauseActivityRequest {
            namespace: client.namespace.clone(),
            execution: Some(self.activity.target.execution()),
            identity: client.identity.clone(),
            reason: self.reason,
            activity: Some(pause_activity_request::Activity::Id(self.activity.activity_id.clone())),
            ..Default::default()
        };
        client.call("pause the activity", message).await?;
        self.activity.done(client, "paused")
    }
}

impl Unpause {
    /// Lets the activity go on.
    pub async fn run(self, client: &mut Client) -> anyhow::Result<()> {
        let activity = match self.activity.split() {
            Ok(activity) => activity,
            Err(target) => {
                let message = UnpauseActivityExecutionRequest {
                    namespace: client.namespace.clone(),
                    activity_id: target.activity_id.clone(),
                    run_id: target.run_id.clone(),
                    identity: client.identity.clone(),
                    request_id: uuid()?,
                    ..Default::default()
                };
                client.call("unpause the activity", message).await?;
                let sentence = format!("Activity {}: unpaused", plain(&target.activity_id));
                return done(client, &target, "unpaused", sentence);
            }
        };
        let message = UnpauseActivityRequest {
            namespace: client.namespace.clone(),
            execution: Some(activity.target.execution()),
            identity: client.identity.clone(),
            activity: Some(unpause_activity_request::Activity::Id(activity.activity_id.clone())),
            reset_attempts: self.reset_attempts,
            reset_heartbeat: self.reset_heartbeats,
            ..Default::default()
        };
        client.call("unpause the activity", message).await?;
        activity.done(client, "unpaused")
    }
}

impl Reset {
    /// Begins the activity anew.
    pub async fn run(self, client: &mut Client) -> anyhow::Result<()> {
        let activity = match self.activity.split() {
            Ok(activity) => activity,
            Err(target) => {
                let message = ResetActivityExecutionRequest {
                    namespace: client.namespace.clone(),
                    activity_id: target.activity_id.clone(),
                    run_id: target.run_id.clone(),
                    identity: client.identity.clone(),
                    request_id: uuid()?,
                    reset_heartbeat: self.reset_heartbeats,
                    keep_paused: self.keep_paused,
                    ..Default::default()
                };
                client.call("reset the activity", message).await?;
                let sentence = format!("Activity {}: reset", plain(&target.activity_id));
                return done(client, &target, "reset", sentence);
            }
        };
        let message = ResetActivityRequest {
            namespace: client.namespace.clone(),
            execution: Some(activity.target.execution()),
            identity: client.identity.clone(),
            activity: Some(reset_activity_request::Activity::Id(activity.activity_id.clone())),
            reset_heartbeat: self.reset_heartbeats,
            keep_paused: self.keep_paused,
            ..Default::default()
        };
        client.call("reset the activity", message).await?;
        activity.done(client, "reset")
    }
}

impl UpdateOptions {
    /// Changes the options that were given.
    pub async fn run(self, client: &mut Client) -> anyhow::Result<()> {
        let paths = self.paths();
        if paths.is_empty() {
            let text = "no option was given; `segno activity update-options --help` names them";
            return Err(ClientError::Outcome(text.to_owned()).into());
        }
        let duration = |nanos: Option<Nanos>| nanos.map(nanos_duration);
        let options = ActivityOptions {
            task_queue: self.task_queue.clone().map(|name| TaskQueue { name, ..Default::default() }),
            schedule_to_close_timeout: duration(self.schedule_to_close_timeout),
            schedule_to_start_timeout: duration(self.schedule_to_start_timeout),
            start_to_close_timeout: duration(self.start_to_close_timeout),
            heartbeat_timeout: duration(self.heartbeat_timeout),
            retry_policy: Some(RetryPolicy {
                maximum_attempts: self.retry_maximum_attempts.unwrap_or(0),
                initial_interval: duration(self.retry_initial_interval),
                maximum_interval: duration(self.retry_maximum_interval),
                ..Default::default()
            }),
            ..Default::default()
        };
        let message = UpdateActivityOptionsRequest {
            namespace: client.namespace.clone(),
            execution: Some(self.activity.target.execution()),
            identity: client.identity.clone(),
            activity: Some(update_activity_options_request::Activity::Id(self.activity.activity_id.clone())),
            activity_options: Some(options),
            update_mask: Some(FieldMask { paths: paths.into_iter().map(str::to_owned).collect() }),
            ..Default::default()
        };
        client.call("change the activity", message).await?;
        self.activity.done(client, "changed")
    }

    /// The fields that were given.
    fn paths(&self) -> Vec<&'static str> {
        let given = [
            (self.task_queue.is_some(), "task_queue.name"),
            (self.schedule_to_close_timeout.is_some(), "schedule_to_close_timeout"),
            (self.schedule_to_start_timeout.is_some(), "schedule_to_start_timeout"),
            (self.start_to_close_timeout.is_some(), "start_to_close_timeout"),
            (self.heartbeat_timeout.is_some(), "heartbeat_timeout"),
            (self.retry_maximum_attempts.is_some(), "retry_policy.maximum_attempts"),
            (self.retry_initial_interval.is_some(), "retry_policy.initial_interval"),
            (self.retry_maximum_interval.is_some(), "retry_policy.maximum_interval"),
        ];
        given.into_iter().filter(|(given, _)| *given).map(|(_, path)| path).collect()
    }
}
