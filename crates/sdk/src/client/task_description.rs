//! Descriptions and lists of tasks without a workflow.

use std::{collections::BTreeMap, time::SystemTime};

use segno_proto::{
    activity::{ActivityExecutionInfo, ActivityExecutionListInfo},
    common::Payload,
    enums::ActivityExecutionStatus,
    workflowservice::{CountActivityExecutionsRequest, ListActivityExecutionsRequest},
};
use serde::de::DeserializeOwned;

use super::{
    Client, ClientError,
    pages::{PAGE, Pages},
    time,
};
use crate::{converter, failure::Failure};

/// How a task without a workflow stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum TaskStatus {
    #[default]
    Unspecified,
    Running,
    Completed,
    Failed,
    Cancelled,
    Terminated,
    TimedOut,
    Paused,
}

impl TaskStatus {
    fn from_wire(status: i32) -> Self {
        match ActivityExecutionStatus::try_from(status).unwrap_or_default() {
            ActivityExecutionStatus::Unspecified => Self::Unspecified,
            ActivityExecutionStatus::Running => Self::Running,
            ActivityExecutionStatus::Completed => Self::Completed,
            ActivityExecutionStatus::Failed => Self::Failed,
            ActivityExecutionStatus::Canceled => Self::Cancelled,
            ActivityExecutionStatus::Terminated => Self::Terminated,
            ActivityExecutionStatus::TimedOut => Self::TimedOut,
            ActivityExecutionStatus::Paused => Self::Paused,
        }
    }
}

/// A task without a workflow, as the server describes it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TaskDescription {
    /// The task's id.
    pub task_id: String,
    /// The run's id.
    pub run_id: String,
    /// The task's kind.
    pub kind: String,
    /// The task queue.
    pub queue: String,
    /// How it stands.
    pub status: TaskStatus,
    /// When it was started.
    pub schedule_time: Option<SystemTime>,
    /// When it was closed.
    pub close_time: Option<SystemTime>,
    /// The attempt that runs, or that was the last; 0 in lists.
    pub attempt: u32,
    /// Why the last attempt failed; `None` in lists.
    pub last_failure: Option<Failure>,
    heartbeat_details: Vec<Payload>,
    search_attributes: BTreeMap<String, Payload>,
    raw: ActivityExecutionInfo,
}

impl TaskDescription {
    pub(super) async fn new(client: &Client, mut info: ActivityExecutionInfo) -> Result<Self, ClientError> {
        let last_failure = match info.last_failure.take() {
            Some(failure) => Some(client.incoming_failure(Some(failure)).await?),
            None => None,
        };
        Ok(Self {
            task_id: info.activity_id.clone(),
            run_id: info.run_id.clone(),
            kind: info.activity_type.clone().unwrap_or_default().name,
            queue: info.task_queue.clone(),
            status: TaskStatus::from_wire(info.status),
            schedule_time: info.schedule_time.as_ref().and_then(time),
            close_time: info.close_time.as_ref().and_then(time),
            attempt: u32::try_from(info.attempt).unwrap_or_default(),
            last_failure,
            heartbeat_details: client.incoming(info.heartbeat_details.take()).await?,
            search_attributes: info.search_attributes.clone().unwrap_or_default().indexed_fields,
            raw: info,
        })
    }

    async fn of_list(client: &Client, info: ActivityExecutionListInfo) -> Result<Self, ClientError> {
        let info = ActivityExecutionInfo {
            activity_id: info.activity_id,
            run_id: info.run_id,
            activity_type: info.activity_type,
            schedule_time: info.schedule_time,
            close_time: info.close_time,
            status: info.status,
            search_attributes: info.search_attributes,
            task_queue: info.task_queue,
            execution_duration: info.execution_duration,
            execution_time: info.execution_time,
            ..Default::default()
        };
        Self::new(client, info).await
    }

    /// The details of the last heartbeat.
    pub fn heartbeat_details<T: DeserializeOwned>(&self) -> Result<Option<T>, ClientError> {
        self.heartbeat_details.first().map(converter::decode_payload).transpose().map_err(Into::into)
    }

    /// A value to search by.
    pub fn search_attribute<T: DeserializeOwned>(&self, key: &str) -> Result<Option<T>, ClientError> {
        self.search_attributes.get(key).map(converter::decode_payload).transpose().map_err(Into::into)
    }

    /// What else the server says: everything but the last failure and the details of the last heartbeat.
    pub fn raw(&self) -> &ActivityExecutionInfo {
        &self.raw
    }
}

/// Tasks without a workflow that a filter matches, fetched a page at a time.
pub struct TaskList(Pages<ActivityExecutionListInfo>);

impl TaskList {
    /// The next one; `None` at the end.
    pub async fn next(&mut self) -> Result<Option<TaskDescription>, ClientError> {
        let fetch = async |pages: &Pages<_>, next_page_token| {
            let request = ListActivityExecutionsRequest {
                namespace: pages.client.namespace().to_owned(),
                page_size: PAGE,
                next_page_token,
                query: pages.query.clone(),
            };
            let call = pages.client.call(|mut service| {
                let request = request.clone();
                async move { service.list_activity_executions(request).await }
            });
            let answer = call.await?;
            Ok((answer.executions, answer.next_page_token))
        };
        match self.0.next(fetch).await? {
            Some(info) => TaskDescription::of_list(&self.0.client, info).await.map(Some),
            None => Ok(None),
        }
    }

    /// All that are left.
    pub async fn all(mut self) -> Result<Vec<TaskDescription>, ClientError> {
        let mut all = Vec::new();
        while let Some(task) = self.next().await? {
            all.push(task);
        }
        Ok(all)
    }
}

impl Client {
    /// The tasks without a workflow that a filter matches, such as `ActivityType = 'charge' AND ExecutionStatus = 'Running'`. An
    /// empty one matches all.
    pub fn list_tasks(&self, query: impl Into<String>) -> TaskList {
        TaskList(Pages::new(self.clone(), query.into()))
    }

    /// How many tasks without a workflow a filter matches.
    pub async fn count_tasks(&self, query: impl Into<String>) -> Result<u64, ClientError> {
        let request = CountActivityExecutionsRequest { namespace: self.namespace().to_owned(), query: query.into() };
        let answer = self
            .call(|mut service| {
                let request = request.clone();
                async move { service.count_activity_executions(request).await }
            })
            .await?;
        Ok(u64::try_from(answer.count).unwrap_or_default())
    }
}
