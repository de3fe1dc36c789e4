//! Information about the current attempt of a task.

use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime},
};

use segno_proto::common::Payload;
use serde::de::DeserializeOwned;

use crate::{converter, options::RetryPolicy};

/// Information about the attempt of a task.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TaskInfo {
    /// The task's kind.
    pub kind: String,
    /// The task's id, unique among the open ones of its workflow run.
    pub id: String,
    /// Which attempt this is, from 1.
    pub attempt: u32,
    /// The id of the workflow that scheduled it; empty for one that no workflow scheduled.
    pub workflow_id: String,
    /// The workflow's run.
    pub run_id: String,
    /// The workflow's kind.
    pub workflow_kind: String,
    /// The namespace.
    pub namespace: String,
    /// The task queue.
    pub queue: String,
    /// When it was scheduled, by the server's clock.
    pub scheduled_time: SystemTime,
    /// When this attempt was scheduled, by the server's clock.
    pub attempt_scheduled_time: SystemTime,
    /// When this attempt began, by the server's clock.
    pub started_time: SystemTime,
    /// From the start of an attempt to its end.
    pub timeout: Option<Duration>,
    /// From scheduling to the final end, all attempts included.
    pub schedule_to_close: Option<Duration>,
    /// Between two heartbeats.
    pub heartbeat_timeout: Option<Duration>,
    /// How attempts are repeated, if the server says so.
    pub retry_policy: Option<RetryPolicy>,
    /// How urgent it is, from 1 (most) to 5; 0 if not set.
    pub priority: i32,
    /// The token that identifies this attempt to the server: [`Client::task_by_token`](crate::Client::task_by_token) takes it.
    pub token: Vec<u8>,
    /// Whether it is a local task: executed by the workflow's own worker, without a task queue.
    pub is_local: bool,
    /// The headers of the call, for interceptors.
    pub headers: BTreeMap<String, Payload>,
    pub(crate) heartbeat_details: Vec<Payload>,
}

impl TaskInfo {
    /// An attempt of which nothing else is known.
    pub(crate) fn new(kind: impl Into<String>, id: impl Into<String>) -> Self {
        let now = SystemTime::now();
        Self {
            kind: kind.into(),
            id: id.into(),
            attempt: 1,
            workflow_id: String::new(),
            run_id: String::new(),
            workflow_kind: String::new(),
            namespace: String::new(),
            queue: String::new(),
            scheduled_time: now,
            attempt_scheduled_time: now,
            started_time: now,
            timeout: None,
            schedule_to_close: None,
            heartbeat_timeout: None,
            retry_policy: None,
            priority: 0,
            token: Vec::new(),
            is_local: false,
            headers: BTreeMap::new(),
            heartbeat_details: Vec::new(),
        }
    }

    /// The details of the last heartbeat of the attempt before. `None` if there was none, or if they are no `T`.
    pub fn heartbeat_details<T: DeserializeOwned>(&self) -> Option<T> {
        let first = self.heartbeat_details.first()?;
        match converter::decode_payload(first) {
            Ok(details) => Some(details),
            Err(error) => {
                tracing::warn!(task = %self.kind, id = %self.id, %error, "heartbeat details of the attempt before are unreadable");
                None
            }
        }
    }
}
