//! Options of a start.

use std::time::Duration;

use segno_proto::{
    common::{self, Memo, SearchAttributes, WorkflowType},
    enums,
    sdk::UserMetadata,
    taskqueue::TaskQueue,
    workflowservice::StartWorkflowExecutionRequest,
};
use serde_json::Value;
use uuid::Uuid;

use super::{Client, ClientError};
use crate::{
    converter,
    options::{IdConflictPolicy, IdReusePolicy, RetryPolicy, wire_duration},
    priority::Priority,
    versioning::VersioningOverride,
};

/// How a workflow is started. An id alone can stand for it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StartOptions {
    /// The workflow id; empty: a generated one.
    pub id: String,
    /// Whether an id that was used may be used again.
    pub id_reuse_policy: IdReusePolicy,
    /// The effect of a start while a run with the id is open.
    pub id_conflict_policy: IdConflictPolicy,
    /// All runs together.
    pub execution_timeout: Option<Duration>,
    /// One run.
    pub run_timeout: Option<Duration>,
    /// One workflow task.
    pub task_timeout: Option<Duration>,
    /// How failed runs are repeated; not at all by default.
    pub retry_policy: Option<RetryPolicy>,
    /// A cron schedule.
    pub cron: Option<String>,
    /// When the first workflow task comes, counted from now.
    pub start_delay: Option<Duration>,
    /// Notes for people.
    pub memo: Vec<(String, Value)>,
    /// Values to search by.
    pub search_attributes: Vec<(String, Value)>,
    /// How urgent it is.
    pub priority: Option<Priority>,
    /// Which version executes it; this precedes the routing of its deployment.
    pub versioning: Option<VersioningOverride>,
    /// A line for people, shown by user interfaces.
    pub summary: Option<String>,
    /// More for people, shown by user interfaces.
    pub details: Option<String>,
}

impl StartOptions {
    /// Only with an id.
    pub fn new(id: impl Into<String>) -> Self {
        Self { id: id.into(), ..Self::default() }
    }

    /// The request without its request id and input.
    pub(crate) async fn request(
        self,
        client: &Client,
        queue: &str,
        kind: &str,
    ) -> Result<StartWorkflowExecutionRequest, ClientError> {
        let id = if self.id.is_empty() { Uuid::new_v4().to_string() } else { self.id };
        let memo = match self.memo.is_empty() {
            true => None,
            false => {
                let mut fields = std::collections::BTreeMap::new();
                for (key, value) in &self.memo {
                    let payload = client.codecs().encode_one(converter::encode_json(value)?).await?;
                    fields.insert(key.clone(), payload);
                }
                Some(Memo { fields })
            }
        };
        let search_attributes = search_attributes(&self.search_attributes)?;
        let user_metadata = user_metadata(client, &self.summary, &self.details).await?;
        Ok(StartWorkflowExecutionRequest {
            namespace: client.namespace().to_owned(),
            workflow_id: id,
            workflow_type: Some(WorkflowType { name: kind.to_owned() }),
            task_queue: Some(TaskQueue { name: queue.to_owned(), ..Default::default() }),
            workflow_execution_timeout: self.execution_timeout.and_then(wire_duration),
            workflow_run_timeout: self.run_timeout.and_then(wire_duration),
            workflow_task_timeout: self.task_timeout.and_then(wire_duration),
            identity: client.identity().to_owned(),
            request_id: Uuid::new_v4().to_string(),
            workflow_id_reuse_policy: self.id_reuse_policy.to_wire(),
            workflow_id_conflict_policy: conflict(self.id_conflict_policy),
            retry_policy: self.retry_policy.as_ref().map(RetryPolicy::to_wire),
            cron_schedule: self.cron.unwrap_or_default(),
            memo,
            search_attributes,
            workflow_start_delay: self.start_delay.and_then(wire_duration),
            user_metadata,
            priority: self.priority.as_ref().map(Priority::to_wire),
            versioning_override: self.versioning.as_ref().map(VersioningOverride::to_wire),
            ..Default::default()
        })
    }
}

/// Values to search by.
pub(super) fn search_attributes(values: &[(String, Value)]) -> Result<Option<SearchAttributes>, ClientError> {
    if values.is_empty() {
        return Ok(None);
    }
    let mut indexed_fields = std::collections::BTreeMap::new();
    for (key, value) in values {
        indexed_fields.insert(key.clone(), converter::encode_json(value)?);
    }
    Ok(Some(SearchAttributes { indexed_fields }))
}

/// Lines for people.
pub(super) async fn user_metadata(
    client: &Client,
    summary: &Option<String>,
    details: &Option<String>,
) -> Result<Option<UserMetadata>, ClientError> {
    match (summary, details) {
        (None, None) => Ok(None),
        (summary, details) => {
            Ok(Some(UserMetadata { summary: text(client, summary).await?, details: text(client, details).await? }))
        }
    }
}

async fn text(client: &Client, text: &Option<String>) -> Result<Option<common::Payload>, ClientError> {
    match text {
        Some(text) => Ok(Some(client.codecs().encode_one(converter::encode_json(text)?).await?)),
        None => Ok(None),
    }
}

fn conflict(policy: IdConflictPolicy) -> i32 {
    let policy = match policy {
        IdConflictPolicy::Fail => enums::WorkflowIdConflictPolicy::Fail,
        IdConflictPolicy::UseExisting => enums::WorkflowIdConflictPolicy::UseExisting,
        IdConflictPolicy::TerminateExisting => enums::WorkflowIdConflictPolicy::TerminateExisting,
    };
    policy as i32
}

impl From<&str> for StartOptions {
    fn from(id: &str) -> Self {
        Self::new(id)
    }
}

impl From<String> for StartOptions {
    fn from(id: String) -> Self {
        Self::new(id)
    }
}

impl From<&String> for StartOptions {
    fn from(id: &String) -> Self {
        Self::new(id)
    }
}
