//! Schedules: workflows that the server starts at given times.
//!
//! ```no_run
//! # use segno_sdk::prelude::*;
//! # use segno_sdk::schedule::{Schedule, ScheduleAction, ScheduleSpec};
//! # define_workflow!(Report = "report": String => ());
//! # async fn example(client: Client) -> Result<()> {
//! let action = ScheduleAction::start::<Report>("reports", "daily-report", "sales".to_string())?;
//! let schedule = Schedule::new(ScheduleSpec::cron("0 6 * * MON-FRI"), action);
//! let handle = client.create_schedule("daily", schedule).await?;
//! handle.pause("month end").await?;
//! # Ok(()) }
//! ```

mod spec;

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use segno_proto::{
    common::Payload,
    enums::ScheduleOverlapPolicy,
    schedule as wire,
    workflow::NewWorkflowExecutionInfo,
    workflowservice::{
        CreateScheduleRequest, DeleteScheduleRequest, DescribeScheduleRequest, DescribeScheduleResponse,
        ListScheduleMatchingTimesRequest, ListSchedulesRequest, PatchScheduleRequest, UpdateScheduleRequest,
    },
};
use tonic::Code;
use uuid::Uuid;

pub use spec::{Calendar, Interval, ScheduleSpec};

use crate::{
    client::{Client, ClientError, PAGE, Pages, StartOptions, time},
    converter,
    definition::WorkflowDefinition,
    options::wire_duration,
};

/// The effect of an action while the workflow of the action before still runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OverlapPolicy {
    /// The action is left out.
    #[default]
    Skip,
    /// One action waits for its end; further ones are left out.
    BufferOne,
    /// Each action waits until those before it have ended.
    BufferAll,
    /// The workflow receives a request to cancel, then the action comes.
    CancelOther,
    /// The workflow is terminated, then the action comes.
    TerminateOther,
    /// Both run.
    AllowAll,
}

impl OverlapPolicy {
    fn to_wire(self) -> i32 {
        let policy = match self {
            Self::Skip => ScheduleOverlapPolicy::Skip,
            Self::BufferOne => ScheduleOverlapPolicy::BufferOne,
            Self::BufferAll => ScheduleOverlapPolicy::BufferAll,
            Self::CancelOther => ScheduleOverlapPolicy::CancelOther,
            Self::TerminateOther => ScheduleOverlapPolicy::TerminateOther,
            Self::AllowAll => ScheduleOverlapPolicy::AllowAll,
        };
        policy as i32
    }
}

/// The action of a schedule: it starts a workflow. The server adds the time to the workflow id.
#[derive(Clone, Debug, PartialEq)]
pub struct ScheduleAction {
    queue: String,
    kind: String,
    options: StartOptions,
    input: Vec<Payload>,
}

impl ScheduleAction {
    /// Starts a workflow on this queue. Of the options an id alone can stand for them; policies about ids, delay and cron
    /// have no meaning here.
    pub fn start<W: WorkflowDefinition>(
        queue: impl Into<String>,
        id: impl Into<StartOptions>,
        input: W::Input,
    ) -> Result<Self, ClientError> {
        let input = converter::encode(&input, W::ARGUMENTS)?;
        Ok(Self { queue: queue.into(), kind: W::KIND.to_owned(), options: id.into(), input })
    }

    /// The same by name.
    pub fn start_raw(
        queue: impl Into<String>,
        kind: impl Into<String>,
        id: impl Into<StartOptions>,
        input: &serde_json::Value,
    ) -> Result<Self, ClientError> {
        let input = vec![converter::encode_json(input)?];
        Ok(Self { queue: queue.into(), kind: kind.into(), options: id.into(), input })
    }

    async fn into_wire(self, client: &Client) -> Result<wire::ScheduleAction, ClientError> {
        let input = converter::list(client.codecs().encode(self.input).await?);
        let start = self.options.request(client, &self.queue, &self.kind).await?;
        let start = NewWorkflowExecutionInfo {
            workflow_id: start.workflow_id,
            workflow_type: start.workflow_type,
            task_queue: start.task_queue,
            input,
            workflow_execution_timeout: start.workflow_execution_timeout,
            workflow_run_timeout: start.workflow_run_timeout,
            workflow_task_timeout: start.workflow_task_timeout,
            retry_policy: start.retry_policy,
            memo: start.memo,
            search_attributes: start.search_attributes,
            user_metadata: start.user_metadata,
            priority: start.priority,
            versioning_override: start.versioning_override,
            ..Default::default()
        };
        Ok(wire::ScheduleAction { action: Some(wire::schedule_action::Action::StartWorkflow(start)) })
    }
}

/// A schedule: when, what, and how.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    /// When it acts.
    pub spec: ScheduleSpec,
    /// The action.
    pub action: ScheduleAction,
    /// The effect of an action while the workflow of the action before still runs.
    pub overlap: OverlapPolicy,
    /// How much too late an action may come after the server was away; the server's default, a year, if not given.
    pub catch_up_window: Option<Duration>,
    /// Pauses when a workflow fails.
    pub pause_on_failure: bool,
    /// For people.
    pub note: String,
    /// It does not act until it is unpaused.
    pub is_paused: bool,
    /// It acts so often at most.
    pub remaining_actions: Option<u32>,
    /// It acts once when it is created.
    pub trigger_at_once: bool,
}

impl Schedule {
    /// With nothing but the times and the action.
    pub fn new(spec: ScheduleSpec, action: ScheduleAction) -> Self {
        Self {
            spec,
            action,
            overlap: OverlapPolicy::default(),
            catch_up_window: None,
            pause_on_failure: false,
            note: String::new(),
            is_paused: false,
            remaining_actions: None,
            trigger_at_once: false,
        }
    }

    async fn into_wire(self, client: &Client) -> Result<wire::Schedule, ClientError> {
        Ok(wire::Schedule {
            spec: Some(self.spec.to_wire()),
            policies: Some(wire::SchedulePolicies {
                overlap_policy: self.overlap.to_wire(),
                catchup_window: self.catch_up_window.and_then(wire_duration),
                pause_on_failure: self.pause_on_failure,
                ..Default::default()
            }),
            state: Some(wire::ScheduleState {
                notes: self.note,
                paused: self.is_paused,
                limited_actions: self.remaining_actions.is_some(),
                remaining_actions: i64::from(self.remaining_actions.unwrap_or_default()),
            }),
            action: Some(self.action.into_wire(client).await?),
        })
    }
}

/// A schedule that was created.
#[derive(Clone, Debug)]
pub struct ScheduleHandle {
    client: Client,
    id: String,
}

/// A schedule, as the server describes it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ScheduleDescription {
    /// Whether it is paused.
    pub is_paused: bool,
    /// For people.
    pub note: String,
    /// How often it acted.
    pub actions: u64,
    /// How many actions were left out because a workflow still ran.
    pub skipped: u64,
    /// Workflows of it that run: workflow id and run id.
    pub running: Vec<(String, String)>,
    /// Workflows that it started last: workflow id and run id.
    pub recent: Vec<(String, String)>,
    /// When it acts next.
    pub next: Vec<SystemTime>,
    raw: DescribeScheduleResponse,
}

impl ScheduleDescription {
    fn new(raw: DescribeScheduleResponse) -> Self {
        let state = raw.schedule.as_ref().and_then(|schedule| schedule.state.clone()).unwrap_or_default();
        let info = raw.info.clone().unwrap_or_default();
        let ids = |execution: segno_proto::common::WorkflowExecution| (execution.workflow_id, execution.run_id);
        Self {
            is_paused: state.paused,
            note: state.notes,
            actions: u64::try_from(info.action_count).unwrap_or_default(),
            skipped: u64::try_from(info.overlap_skipped).unwrap_or_default(),
            running: info.running_workflows.into_iter().map(ids).collect(),
            recent: info
                .recent_actions
                .into_iter()
                .filter_map(|action| action.start_workflow_result.map(ids))
                .collect(),
            next: info.future_action_times.iter().filter_map(time).collect(),
            raw,
        }
    }

    /// Everything that the server says.
    pub fn raw(&self) -> &DescribeScheduleResponse {
        &self.raw
    }
}

impl Client {
    /// Creates a schedule. If there is one with this id: [`ClientError::AlreadyStarted`].
    pub async fn create_schedule(
        &self,
        id: impl Into<String>,
        schedule: Schedule,
    ) -> Result<ScheduleHandle, ClientError> {
        let id = id.into();
        let at_once = schedule.trigger_at_once.then(|| wire::SchedulePatch {
            trigger_immediately: Some(wire::TriggerImmediatelyRequest::default()),
            ..Default::default()
        });
        let request = CreateScheduleRequest {
            namespace: self.namespace().to_owned(),
            schedule_id: id.clone(),
            schedule: Some(schedule.into_wire(self).await?),
            initial_patch: at_once,
            identity: self.identity().to_owned(),
            request_id: Uuid::new_v4().to_string(),
            ..Default::default()
        };
        self.call(|mut service| {
            let request = request.clone();
            async move { service.create_schedule(request).await }
        })
        .await
        .map_err(|status| match status.code() {
            Code::AlreadyExists => ClientError::AlreadyStarted { workflow_id: id.clone(), run_id: String::new() },
            _ => status.into(),
        })?;
        Ok(self.schedule(id))
    }

    /// A schedule that was created before.
    pub fn schedule(&self, id: impl Into<String>) -> ScheduleHandle {
        ScheduleHandle { client: self.clone(), id: id.into() }
    }

    /// The schedules that a filter matches; an empty one matches all.
    pub fn list_schedules(&self, query: impl Into<String>) -> ScheduleList {
        ScheduleList(Pages::new(self.clone(), query.into()))
    }
}

impl ScheduleHandle {
    /// Its id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The server's description of it.
    pub async fn describe(&self) -> Result<ScheduleDescription, ClientError> {
        let request =
            DescribeScheduleRequest { namespace: self.client.namespace().to_owned(), schedule_id: self.id.clone() };
        let answer = self
            .client
            .call(|mut service| {
                let request = request.clone();
                async move { service.describe_schedule(request).await }
            })
            .await?;
        Ok(ScheduleDescription::new(answer))
    }

    async fn patch(&self, patch: wire::SchedulePatch) -> Result<(), ClientError> {
        let request = PatchScheduleRequest {
            namespace: self.client.namespace().to_owned(),
            schedule_id: self.id.clone(),
            patch: Some(patch),
            identity: self.client.identity().to_owned(),
            request_id: Uuid::new_v4().to_string(),
        };
        self.client
            .call(|mut service| {
                let request = request.clone();
                async move { service.patch_schedule(request).await }
            })
            .await?;
        Ok(())
    }

    /// It does not act until it is unpaused. The note says why, for people.
    pub async fn pause(&self, note: impl Into<String>) -> Result<(), ClientError> {
        self.patch(wire::SchedulePatch { pause: or_default(note, "Paused via the Rust SDK"), ..Default::default() })
            .await
    }

    /// It acts again.
    pub async fn unpause(&self, note: impl Into<String>) -> Result<(), ClientError> {
        let unpause = or_default(note, "Unpaused via the Rust SDK");
        self.patch(wire::SchedulePatch { unpause, ..Default::default() }).await
    }

    /// It acts now; `overlap`: with this policy, otherwise with its own.
    pub async fn trigger(&self, overlap: Option<OverlapPolicy>) -> Result<(), ClientError> {
        let overlap_policy = overlap.map(OverlapPolicy::to_wire).unwrap_or_default();
        let trigger_immediately = Some(wire::TriggerImmediatelyRequest { overlap_policy, ..Default::default() });
        self.patch(wire::SchedulePatch { trigger_immediately, ..Default::default() }).await
    }

    /// It does now what it would have done in this time.
    pub async fn backfill(&self, from: SystemTime, to: SystemTime, overlap: OverlapPolicy) -> Result<(), ClientError> {
        let backfill = wire::BackfillRequest {
            start_time: Some(from.into()),
            end_time: Some(to.into()),
            overlap_policy: overlap.to_wire(),
        };
        self.patch(wire::SchedulePatch { backfill_request: vec![backfill], ..Default::default() }).await
    }

    /// When it would act in this time.
    pub async fn matching_times(&self, from: SystemTime, to: SystemTime) -> Result<Vec<SystemTime>, ClientError> {
        let request = ListScheduleMatchingTimesRequest {
            namespace: self.client.namespace().to_owned(),
            schedule_id: self.id.clone(),
            start_time: Some(from.into()),
            end_time: Some(to.into()),
        };
        let answer = self
            .client
            .call(|mut service| {
                let request = request.clone();
                async move { service.list_schedule_matching_times(request).await }
            })
            .await?;
        Ok(answer.start_time.iter().filter_map(time).collect())
    }

    /// Puts another schedule in its place, with the same id.
    pub async fn replace(&self, schedule: Schedule) -> Result<(), ClientError> {
        let schedule = schedule.into_wire(&self.client).await?;
        self.send_update(schedule, Bytes::new()).await
    }

    /// Changes the schedule as the server has it. If another client changes it at the same time, `change` is called
    /// again.
    pub async fn update(&self, change: impl Fn(&mut wire::Schedule) + Send) -> Result<(), ClientError> {
        loop {
            let DescribeScheduleResponse { schedule, conflict_token, .. } = self.describe().await?.raw;
            let mut schedule = schedule.unwrap_or_default();
            change(&mut schedule);
            match self.send_update(schedule, conflict_token).await {
                Err(ClientError::Rpc { code: Code::FailedPrecondition, message }) if message.contains("conflict") => {}
                other => return other,
            }
        }
    }

    async fn send_update(&self, schedule: wire::Schedule, conflict_token: Bytes) -> Result<(), ClientError> {
        let request = UpdateScheduleRequest {
            namespace: self.client.namespace().to_owned(),
            schedule_id: self.id.clone(),
            schedule: Some(schedule),
            conflict_token,
            identity: self.client.identity().to_owned(),
            request_id: Uuid::new_v4().to_string(),
            ..Default::default()
        };
        self.client
            .call(|mut service| {
                let request = request.clone();
                async move { service.update_schedule(request).await }
            })
            .await?;
        Ok(())
    }

    /// Deletes it. Workflows that it started go on.
    pub async fn delete(&self) -> Result<(), ClientError> {
        let request = DeleteScheduleRequest {
            namespace: self.client.namespace().to_owned(),
            schedule_id: self.id.clone(),
            identity: self.client.identity().to_owned(),
        };
        self.client
            .call(|mut service| {
                let request = request.clone();
                async move { service.delete_schedule(request).await }
            })
            .await?;
        Ok(())
    }
}

/// Servers take an empty note for no wish at all.
fn or_default(note: impl Into<String>, otherwise: &str) -> String {
    Some(note.into()).filter(|note| !note.is_empty()).unwrap_or_else(|| otherwise.to_owned())
}

/// Schedules that a filter matches, fetched a page at a time.
pub struct ScheduleList(Pages<wire::ScheduleListEntry>);

impl ScheduleList {
    /// The next one; `None` at the end.
    pub async fn next(&mut self) -> Result<Option<ScheduleHandle>, ClientError> {
        let fetch = async |pages: &Pages<_>, next_page_token| {
            let request = ListSchedulesRequest {
                namespace: pages.client.namespace().to_owned(),
                maximum_page_size: PAGE,
                next_page_token,
                query: pages.query.clone(),
            };
            let call = pages.client.call(|mut service| {
                let request = request.clone();
                async move { service.list_schedules(request).await }
            });
            let answer = call.await?;
            Ok((answer.schedules, answer.next_page_token))
        };
        let entry = self.0.next(fetch).await?;
        Ok(entry.map(|entry| self.0.client.schedule(entry.schedule_id)))
    }

    /// All that are left.
    pub async fn all(mut self) -> Result<Vec<ScheduleHandle>, ClientError> {
        let mut all = Vec::new();
        while let Some(schedule) = self.next().await? {
            all.push(schedule);
        }
        Ok(all)
    }
}
