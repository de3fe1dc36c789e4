//! Descriptions of workflows.

use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use segno_proto::{
    common::Payload, enums::WorkflowExecutionStatus, workflow::WorkflowExecutionInfo,
    workflowservice::DescribeWorkflowExecutionResponse,
};
use serde::de::DeserializeOwned;

use super::{Client, ClientError};
use crate::{
    converter,
    versioning::{DeploymentVersion, VersioningBehavior},
};

/// How a run stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum WorkflowStatus {
    #[default]
    Unspecified,
    Running,
    Completed,
    Failed,
    Cancelled,
    Terminated,
    ContinuedAsNew,
    TimedOut,
    Paused,
}

impl WorkflowStatus {
    fn from_wire(status: i32) -> Self {
        match WorkflowExecutionStatus::try_from(status).unwrap_or_default() {
            WorkflowExecutionStatus::Unspecified => Self::Unspecified,
            WorkflowExecutionStatus::Running => Self::Running,
            WorkflowExecutionStatus::Completed => Self::Completed,
            WorkflowExecutionStatus::Failed => Self::Failed,
            WorkflowExecutionStatus::Canceled => Self::Cancelled,
            WorkflowExecutionStatus::Terminated => Self::Terminated,
            WorkflowExecutionStatus::ContinuedAsNew => Self::ContinuedAsNew,
            WorkflowExecutionStatus::TimedOut => Self::TimedOut,
            WorkflowExecutionStatus::Paused => Self::Paused,
        }
    }
}

/// One run of a workflow, as the server describes it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct WorkflowDescription {
    /// The workflow's id.
    pub workflow_id: String,
    /// The run's id.
    pub run_id: String,
    /// The workflow's kind.
    pub kind: String,
    /// The task queue.
    pub queue: String,
    /// How it stands.
    pub status: WorkflowStatus,
    /// When it was started.
    pub start_time: Option<SystemTime>,
    /// When it was closed.
    pub close_time: Option<SystemTime>,
    /// How many events its history has.
    pub history_length: i64,
    /// How large its history is.
    pub history_bytes: i64,
    /// The id of the workflow that started it.
    pub parent_id: Option<String>,
    /// The version of the worker that completed its last workflow task, or to which it was pinned at its start.
    pub version: Option<DeploymentVersion>,
    /// The behaviour that this worker reported.
    pub versioning: VersioningBehavior,
    memo: BTreeMap<String, Payload>,
    search_attributes: BTreeMap<String, Payload>,
    raw: DescribeWorkflowExecutionResponse,
}

impl WorkflowDescription {
    pub(super) async fn new(client: &Client, mut raw: DescribeWorkflowExecutionResponse) -> Result<Self, ClientError> {
        let info = raw.workflow_execution_info.take().unwrap_or_default();
        let mut description = Self::of_info(client, info.clone()).await?;
        raw.workflow_execution_info = Some(info);
        description.raw = raw;
        Ok(description)
    }

    pub(super) async fn of_info(client: &Client, info: WorkflowExecutionInfo) -> Result<Self, ClientError> {
        let execution = info.execution.unwrap_or_default();
        let versioning = info.versioning_info;
        let mut memo = BTreeMap::new();
        for (key, payload) in info.memo.unwrap_or_default().fields {
            memo.insert(key, client.codecs().decode_one(payload).await?);
        }
        Ok(Self {
            workflow_id: execution.workflow_id,
            run_id: execution.run_id,
            kind: info.r#type.unwrap_or_default().name,
            queue: info.task_queue,
            status: WorkflowStatus::from_wire(info.status),
            start_time: info.start_time.as_ref().and_then(time),
            close_time: info.close_time.as_ref().and_then(time),
            history_length: info.history_length,
            history_bytes: info.history_size_bytes,
            versioning: versioning
                .as_ref()
                .map_or_else(Default::default, |it| VersioningBehavior::from_wire(it.behavior)),
            version: versioning.and_then(|it| it.deployment_version).map(DeploymentVersion::from_wire),
            parent_id: info.parent_execution.map(|parent| parent.workflow_id).filter(|id| !id.is_empty()),
            memo,
            search_attributes: info.search_attributes.unwrap_or_default().indexed_fields,
            raw: DescribeWorkflowExecutionResponse::default(),
        })
    }

    /// A note.
    pub fn memo<T: DeserializeOwned>(&self, key: &str) -> Result<Option<T>, ClientError> {
        self.memo.get(key).map(converter::decode_payload).transpose().map_err(Into::into)
    }

    /// The value that the workflow stored with `set_state`.
    pub fn state<T: DeserializeOwned>(&self, key: &str) -> Result<Option<T>, ClientError> {
        self.memo(&format!("state.{key}"))
    }

    /// A value to search by.
    pub fn search_attribute<T: DeserializeOwned>(&self, key: &str) -> Result<Option<T>, ClientError> {
        self.search_attributes.get(key).map(converter::decode_payload).transpose().map_err(Into::into)
    }

    /// Everything that the server says. Of a list only what is above is known.
    pub fn raw(&self) -> &DescribeWorkflowExecutionResponse {
        &self.raw
    }
}

/// A time from the wire.
pub(crate) fn time(time: &prost_types::Timestamp) -> Option<SystemTime> {
    let seconds = u64::try_from(time.seconds).ok()?;
    let nanos = u32::try_from(time.nanos).ok()?;
    UNIX_EPOCH.checked_add(Duration::new(seconds, nanos))
}
