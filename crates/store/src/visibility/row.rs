//! The searchable facts of a run.

use std::collections::BTreeMap;

use super::Attribute;
use crate::{NamespaceKey, RunKey};

/// A value of an attribute, or one to compare with.
#[derive(Clone, Debug, PartialEq, PartialOrd)]
pub enum Value {
    /// Of a Keyword or Text.
    Text(String),
    /// Of a KeywordList.
    List(Vec<String>),
    /// Of an Int or Datetime.
    Int(i64),
    /// Of a Double; never NaN.
    Double(f64),
    /// Of a Bool.
    Bool(bool),
}

/// The searchable facts of one run.
#[derive(Clone, Debug, PartialEq)]
pub struct VisibilityRow {
    /// The run.
    pub key: RunKey,
    /// Its namespace.
    pub namespace: NamespaceKey,
    /// See [`Attribute::WorkflowId`], and so on.
    pub workflow_id: String,
    /// See [`Attribute`]. Carries the run's key; see [`key_in_run_id`].
    pub run_id: String,
    /// See [`Attribute`].
    pub workflow_type: String,
    /// See [`Attribute`].
    pub task_queue: String,
    /// See [`Attribute::ExecutionStatus`]: Running (1) or Paused (8) while the run is open, one of the others after.
    pub status: i32,
    /// See [`Attribute`].
    pub start_time: i64,
    /// See [`Attribute`].
    pub execution_time: i64,
    /// Set once the run is closed.
    pub closed: Option<Closed>,
    /// Workflow id and run id of the parent.
    pub parent: Option<(String, String)>,
    /// Workflow id and run id of the root; `None` if it is the run itself.
    pub root: Option<(String, String)>,
    /// Attempt and last failure of a pending activity that is being retried.
    pub activity_retry: Option<Retry>,
    /// Attempt and last failure of a pending workflow task that is being retried.
    pub task_retry: Option<Retry>,
    /// Predefined and custom attributes by number.
    pub attributes: BTreeMap<u32, Value>,
}

/// The facts of a closed run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closed {
    /// When it closed.
    pub time: i64,
    /// Number of events.
    pub history_length: i64,
    /// Bytes of history.
    pub history_bytes: i64,
    /// Number of transitions.
    pub transitions: i64,
}

/// An activity or a workflow task that failed and is tried again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retry {
    /// The attempt, from 2.
    pub attempt: i32,
    /// The message of the last failure.
    pub failure: Option<String>,
}

/// The key that a run id carries: its first twelve hexadecimal digits. `None` if no run has such an id.
pub fn key_in_run_id(run_id: &str) -> Option<RunKey> {
    let bytes = run_id.as_bytes();
    if bytes.len() != 36 || bytes[8] != b'-' || bytes[13] != b'-' {
        return None;
    }
    let digits = format!("{}{}", run_id.get(..8)?, run_id.get(9..13)?);
    let plain = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    plain.then(|| u64::from_str_radix(&digits, 16).ok().map(RunKey)).flatten()
}

impl VisibilityRow {
    /// The value of an attribute, if the run has one.
    pub fn value(&self, attribute: Attribute) -> Option<Value> {
        let text = |text: &str| Some(Value::Text(text.to_owned()));
        let retried = |retry: &Option<Retry>| retry.as_ref().map(|retry| Value::Int(retry.attempt.into()));
        let failed = |retry: &Option<Retry>| retry.as_ref()?.failure.clone().map(Value::Text);
        match attribute {
            Attribute::WorkflowId => text(&self.workflow_id),
            Attribute::RunId => text(&self.run_id),
            Attribute::WorkflowType => text(&self.workflow_type),
            Attribute::ExecutionStatus => Some(Value::Int(self.status.into())),
            Attribute::StartTime => Some(Value::Int(self.start_time)),
            Attribute::ExecutionTime => Some(Value::Int(self.execution_time)),
            Attribute::CloseTime => self.closed.map(|closed| Value::Int(closed.time)),
            Attribute::ExecutionDuration => {
                self.closed.map(|closed| Value::Int(closed.time.saturating_sub(self.execution_time)))
            }
            Attribute::TaskQueue => text(&self.task_queue),
            Attribute::HistoryLength => self.closed.map(|closed| Value::Int(closed.history_length)),
            Attribute::HistorySizeBytes => self.closed.map(|closed| Value::Int(closed.history_bytes)),
            Attribute::StateTransitionCount => self.closed.map(|closed| Value::Int(closed.transitions)),
            Attribute::ParentWorkflowId => self.parent.as_ref().and_then(|parent| text(&parent.0)),
            Attribute::ParentRunId => self.parent.as_ref().and_then(|parent| text(&parent.1)),
            Attribute::RootWorkflowId => text(self.root.as_ref().map_or(&self.workflow_id, |root| &root.0)),
            Attribute::RootRunId => text(self.root.as_ref().map_or(&self.run_id, |root| &root.1)),
            Attribute::ActivityAttempts => retried(&self.activity_retry),
            Attribute::ActivityLastFailure => failed(&self.activity_retry),
            Attribute::WorkflowTaskAttempts => retried(&self.task_retry),
            Attribute::WorkflowTaskLastFailure => failed(&self.task_retry),
            Attribute::Numbered(number, _) => self.attributes.get(&number).cloned(),
        }
    }
}
