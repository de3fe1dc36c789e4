//! What an activity is started with: flags of `start` and `execute`.

use clap::{Args, ValueEnum};
use segno_proto::{
    Nanos,
    common::{ActivityType, Header, Priority, RetryPolicy, SearchAttributes},
    nanos_duration,
    workflowservice::StartActivityExecutionRequest,
};

use crate::{
    args,
    client::{Client, uuid},
    commands::{Input, payload_map, task_queue, user_metadata},
};

#[derive(Args, Clone, Debug)]
pub struct StartOptions {
    /// Activity id.
    #[arg(short, long, value_name = "ID")]
    activity_id: String,
    /// Activity type: the name workers know it by.
    #[arg(long, alias = "name", value_name = "NAME")]
    r#type: String,
    /// Task queue of the workers.
    #[arg(short, long, value_name = "NAME")]
    task_queue: String,
    #[command(flatten)]
    input: Input,
    /// Longest time for the activity, all attempts together.
    #[arg(long, value_name = "DURATION", value_parser = args::duration)]
    schedule_to_close_timeout: Option<Nanos>,
    /// Longest time that an attempt may wait for a worker.
    #[arg(long, value_name = "DURATION", value_parser = args::duration)]
    schedule_to_start_timeout: Option<Nanos>,
    /// Longest time for one attempt.
    #[arg(long, value_name = "DURATION", value_parser = args::duration)]
    start_to_close_timeout: Option<Nanos>,
    /// Longest time between two heartbeats of its worker.
    #[arg(long, value_name = "DURATION", value_parser = args::duration)]
    heartbeat_timeout: Option<Nanos>,
    /// Begin only after this time.
    #[arg(long, value_name = "DURATION", value_parser = args::duration)]
    start_delay: Option<Nanos>,
    /// Time until the first retry. [default: 1s]
    #[arg(long, value_name = "DURATION", value_parser = args::duration)]
    retry_initial_interval: Option<Nanos>,
    /// Longest time until a retry.
    #[arg(long, value_name = "DURATION", value_parser = args::duration)]
    retry_maximum_interval: Option<Nanos>,
    /// Factor by which the time until a retry grows. [default: 2]
    #[arg(long, value_name = "NUMBER")]
    retry_backoff_coefficient: Option<f64>,
    /// Maximum number of attempts. [default: no limit]
    #[arg(long, value_name = "NUMBER")]
    retry_maximum_attempts: Option<i32>,
    /// Whether the id of an ended activity may be used again.
    #[arg(long, value_enum, ignore_case = true, value_name = "POLICY")]
    id_reuse_policy: Option<Reuse>,
    /// What to do if the id is in use by an open activity. [default: Fail]
    #[arg(long, value_enum, ignore_case = true, value_name = "POLICY")]
    id_conflict_policy: Option<Conflict>,
    /// A header, as KEY=JSON; may be repeated.
    #[arg(long, value_name = "KEY=JSON", value_parser = args::key_json)]
    headers: Vec<(String, String)>,
    /// A search attribute, as KEY=JSON; may be repeated.
    #[arg(long, value_name = "KEY=JSON", value_parser = args::key_json)]
    search_attribute: Vec<(String, String)>,
    /// Priority of its tasks: 1 (first) to 5.
    #[arg(long, value_name = "1-5", value_parser = clap::value_parser!(i32).range(1..=5))]
    priority_key: Option<i32>,
    /// Fairness key: keys share the task queue by their weights.
    #[arg(long, value_name = "KEY")]
    fairness_key: Option<String>,
    /// Weight of the fairness key. [default: 1]
    #[arg(long, value_name = "NUMBER")]
    fairness_weight: Option<f32>,
    /// One line about the activity, for user interfaces.
    #[arg(long, value_name = "TEXT")]
    static_summary: Option<String>,
    /// More about the activity, for user interfaces.
    #[arg(long, value_name = "TEXT")]
    static_details: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "PascalCase")]
enum Reuse {
    AllowDuplicate = 1,
    AllowDuplicateFailedOnly = 2,
    RejectDuplicate = 3,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "PascalCase")]
enum Conflict {
    Fail = 1,
    UseExisting = 2,
}

/// An activity that was started.
pub struct StartedActivity {
    /// Its id.
    pub activity_id: String,
    /// Its run.
    pub run_id: String,
    /// Its type.
    pub kind: String,
    /// Its task queue.
    pub task_queue: String,
    /// Whether this call started it; otherwise it ran already.
    pub started: bool,
}

impl StartOptions {
    /// Starts the activity.
    pub async fn start(self, client: &mut Client) -> anyhow::Result<StartedActivity> {
        let (activity_id, kind, task_queue) = (self.activity_id.clone(), self.r#type.clone(), self.task_queue.clone());
        let message = self.message(client)?;
        let answer = client.call("start the activity", message).await?;
        Ok(StartedActivity { activity_id, run_id: answer.run_id, kind, task_queue, started: answer.started })
    }

    fn message(self, client: &Client) -> anyhow::Result<StartActivityExecutionRequest> {
        let duration = |nanos: Option<Nanos>| nanos.map(nanos_duration);
        let retry = RetryPolicy {
            initial_interval: duration(self.retry_initial_interval),
            maximum_interval: duration(self.retry_maximum_interval),
            backoff_coefficient: self.retry_backoff_coefficient.unwrap_or_default(),
            maximum_attempts: self.retry_maximum_attempts.unwrap_or_default(),
            ..Default::default()
        };
        let priority = Priority {
            priority_key: self.priority_key.unwrap_or_default(),
            fairness_key: self.fairness_key.unwrap_or_default(),
            fairness_weight: self.fairness_weight.unwrap_or_default(),
        };
        Ok(StartActivityExecutionRequest {
            namespace: client.namespace.clone(),
            identity: client.identity.clone(),
            request_id: uuid()?,
            activity_id: self.activity_id,
            activity_type: Some(ActivityType { name: self.r#type }),
            task_queue: task_queue(self.task_queue),
            schedule_to_close_timeout: duration(self.schedule_to_close_timeout),
            schedule_to_start_timeout: duration(self.schedule_to_start_timeout),
            start_to_close_timeout: duration(self.start_to_close_timeout),
            heartbeat_timeout: duration(self.heartbeat_timeout),
            start_delay: duration(self.start_delay),
            retry_policy: (retry != RetryPolicy::default()).then_some(retry),
            input: self.input.payloads()?,
            id_reuse_policy: self.id_reuse_policy.map_or(0, |policy| policy as i32),
            id_conflict_policy: self.id_conflict_policy.map_or(0, |policy| policy as i32),
            search_attributes: payload_map(&self.search_attribute)
                .map(|indexed_fields| SearchAttributes { indexed_fields }),
            header: payload_map(&self.headers).map(|fields| Header { fields }),
            user_metadata: user_metadata(self.static_summary.as_deref(), self.static_details.as_deref()),
            priority: (priority != Priority::default()).then_some(priority),
            ..Default::default()
        })
    }
}
