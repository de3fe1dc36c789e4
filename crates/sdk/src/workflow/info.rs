//! Information about the run.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, SystemTime},
};

use prost::Message;
use segno_proto::{
    common::{Payload, RetryPolicy},
    events::WorkflowExecutionStartedEventAttributes,
};
use serde::de::DeserializeOwned;

use super::sorted::Sorted;
use crate::{converter, failure::Failure};

/// The kept part of the first event. [`WorkflowInfo`] is made of it on request: it would take three times the
/// memory in every run that waits in a cache.
pub(crate) struct StartInfo {
    pub workflow_id: String,
    pub kind: String,
    pub queue: String,
    pub task_timeout: Option<Duration>,
    pub history_length: i64,
    pub history_size: i64,
    namespace: Arc<str>,
    run_id: Box<str>,
    start_time: Option<SystemTime>,
    /// The rest, as a message `WorkflowExecutionStartedEventAttributes`.
    encoded: Box<[u8]>,
}

impl StartInfo {
    pub fn of(
        started: &WorkflowExecutionStartedEventAttributes,
        start_time: Option<SystemTime>,
        namespace: Arc<str>,
        run_id: &str,
    ) -> Self {
        let WorkflowInfo { workflow_id, kind, queue, task_timeout, .. } = WorkflowInfo::of(started);
        // Without what the workflow has as its input, and what is kept above.
        let rest = WorkflowExecutionStartedEventAttributes {
            workflow_id: String::new(),
            workflow_type: None,
            task_queue: None,
            input: None,
            original_execution_run_id: String::new(),
            ..started.clone()
        };
        let (encoded, run_id) = (rest.encode_to_vec().into_boxed_slice(), run_id.into());
        let (history_length, history_size) = (0, 0);
        Self {
            workflow_id,
            kind,
            queue,
            task_timeout,
            history_length,
            history_size,
            namespace,
            run_id,
            start_time,
            encoded,
        }
    }

    pub fn run_id(&self) -> &str {
        &self.run_id
    }

    /// The headers that the run was started with.
    pub fn headers(&self) -> BTreeMap<String, Payload> {
        let started = WorkflowExecutionStartedEventAttributes::decode(&*self.encoded).unwrap_or_default();
        started.header.map(|header| header.fields).unwrap_or_default()
    }

    /// How failed runs are repeated, if the workflow was started with that.
    pub fn retry_policy(&self) -> Option<RetryPolicy> {
        WorkflowExecutionStartedEventAttributes::decode(&*self.encoded).ok()?.retry_policy
    }

    /// All of it.
    pub fn build(&self) -> WorkflowInfo {
        // It was encoded here, so that it can be decoded.
        let started = WorkflowExecutionStartedEventAttributes::decode(&*self.encoded).unwrap_or_default();
        WorkflowInfo {
            namespace: self.namespace.to_string(),
            workflow_id: self.workflow_id.clone(),
            run_id: self.run_id.to_string(),
            kind: self.kind.clone(),
            queue: self.queue.clone(),
            start_time: self.start_time,
            history_length: self.history_length,
            history_size: self.history_size,
            ..WorkflowInfo::of(&started)
        }
    }
}

/// A payload that is kept for long: encoded, because its metadata is a map that takes hundreds of bytes, and because its
/// data may be part of a frame that would be kept as a whole.
pub(crate) struct StoredPayload(Box<[u8]>);

impl StoredPayload {
    pub fn of(payload: &Payload) -> Self {
        Self(payload.encode_to_vec().into_boxed_slice())
    }

    pub fn payload(&self) -> Payload {
        Payload::decode(bytes::Bytes::copy_from_slice(&self.0)).unwrap_or_default()
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn all(payloads: &BTreeMap<String, Payload>) -> Sorted<String, Self> {
        let mut stored = Sorted::default();
        for (key, payload) in payloads {
            stored.insert(key.clone(), Self::of(payload));
        }
        stored
    }

    pub fn payloads(stored: &Sorted<String, Self>) -> BTreeMap<String, Payload> {
        stored.iter().map(|(key, stored)| (key.clone(), stored.payload())).collect()
    }

    /// Puts changed values over those that are there.
    pub fn keep(stored: &mut Sorted<String, Self>, changed: &[(String, Payload)]) {
        for (key, payload) in changed {
            stored.insert(key.clone(), Self::of(payload));
        }
    }
}

/// Information about a run.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct WorkflowInfo {
    /// The namespace.
    pub namespace: String,
    /// The workflow's id.
    pub workflow_id: String,
    /// The id of this run.
    pub run_id: String,
    /// The id of the first run of the chain.
    pub first_run_id: String,
    /// The run that continued as this one, if any.
    pub continued_run_id: Option<String>,
    /// The workflow's kind.
    pub kind: String,
    /// The task queue.
    pub queue: String,
    /// Which attempt this run is, from 1.
    pub attempt: u32,
    /// When this run was started.
    pub start_time: Option<SystemTime>,
    /// All runs together.
    pub execution_timeout: Option<Duration>,
    /// This run.
    pub run_timeout: Option<Duration>,
    /// One workflow task.
    pub task_timeout: Option<Duration>,
    /// The cron schedule, if any.
    pub cron: Option<String>,
    /// The parent: workflow id and run id.
    pub parent: Option<(String, String)>,
    /// The workflow at the top of the tree: workflow id and run id.
    pub root: Option<(String, String)>,
    /// Events up to this workflow task.
    pub history_length: i64,
    /// Their size in bytes.
    pub history_size: i64,
    pub(crate) memo: BTreeMap<String, Payload>,
    pub(crate) search_attributes: BTreeMap<String, Payload>,
    pub(crate) last_result: Vec<Payload>,
    pub(crate) last_failure: Option<Failure>,
}

/// Which update is handled: [`Context::current_update`](crate::Context::current_update).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UpdateInfo {
    /// The update's id.
    pub id: String,
    /// Its name.
    pub name: String,
}

impl WorkflowInfo {
    fn of(started: &WorkflowExecutionStartedEventAttributes) -> Self {
        let duration = |there: &Option<prost_types::Duration>| {
            there.and_then(|there| Duration::try_from(there).ok()).filter(|there| !there.is_zero())
        };
        let execution = |there: &Option<segno_proto::common::WorkflowExecution>| {
            there.as_ref().map(|there| (there.workflow_id.clone(), there.run_id.clone()))
        };
        let some = |text: &String| (!text.is_empty()).then(|| text.clone());
        Self {
            workflow_id: started.workflow_id.clone(),
            run_id: started.original_execution_run_id.clone(),
            first_run_id: started.first_execution_run_id.clone(),
            continued_run_id: some(&started.continued_execution_run_id),
            kind: started.workflow_type.as_ref().map(|kind| kind.name.clone()).unwrap_or_default(),
            queue: started.task_queue.as_ref().map(|queue| queue.name.clone()).unwrap_or_default(),
            attempt: u32::try_from(started.attempt).unwrap_or(1).max(1),
            execution_timeout: duration(&started.workflow_execution_timeout),
            run_timeout: duration(&started.workflow_run_timeout),
            task_timeout: duration(&started.workflow_task_timeout),
            cron: some(&started.cron_schedule),
            parent: execution(&started.parent_workflow_execution),
            root: execution(&started.root_workflow_execution),
            memo: started.memo.as_ref().map(|memo| memo.fields.clone()).unwrap_or_default(),
            search_attributes: started
                .search_attributes
                .as_ref()
                .map(|there| there.indexed_fields.clone())
                .unwrap_or_default(),
            last_result: converter::items(&started.last_completion_result).to_vec(),
            last_failure: started.continued_failure.clone().map(Failure::from_wire),
            ..Self::default()
        }
    }

    /// A note of the memo that the run was started with.
    pub fn memo<T: DeserializeOwned>(&self, key: &str) -> Option<T> {
        self.memo.get(key).and_then(|payload| converter::decode_payload(payload).ok())
    }

    /// A search attribute that the run was started with.
    pub fn search_attribute<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        self.search_attributes.get(name).and_then(|payload| converter::decode_payload(payload).ok())
    }

    /// The result of the run before (cron).
    pub fn last_result<T: DeserializeOwned>(&self) -> Option<T> {
        self.last_result.first().and_then(|payload| converter::decode_payload(payload).ok())
    }

    /// How the run before failed (cron, retries).
    pub fn last_failure(&self) -> Option<&Failure> {
        self.last_failure.as_ref()
    }
}
