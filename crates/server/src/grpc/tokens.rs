//! Decodes tokens that clients return, with Temporal's errors for invalid ones.

use std::sync::Arc;

use bytes::Bytes;
use segno_engine::{activity::ActivityRef, task_calls::TaskRef};
use segno_node::{ActivityToken, Namespace, TaskToken, Token, WorkflowKey};
use segno_proto::Nanos;
use tonic::Status;

use super::{
    Workflows,
    namespaces::{USABLE, in_state},
};

/// Temporal's words for a token of another namespace than the one that the request names.
pub const DIFFERENT_NAMESPACE: &str = "Operation requested with a token from a different namespace.";

/// Where a page of history goes on.
#[derive(Clone, PartialEq, prost::Message)]
pub struct PageToken {
    /// The run.
    #[prost(string, tag = "1")]
    pub run_id: String,
    /// The next event.
    #[prost(int64, tag = "2")]
    pub event_id: i64,
    /// The last event, if the history does not go on to its end; else 0.
    #[prost(int64, tag = "3")]
    pub last_event_id: i64,
    /// Whether a workflow task follows that last event.
    #[prost(bool, tag = "4")]
    pub with_task: bool,
}

impl Token for PageToken {
    const KIND: u8 = 4;
}

impl Workflows {
    /// Opens a token that was made for a namespace. Without a name the token says which one it is for.
    pub fn open<T: Token>(&self, name: &str, token: &Bytes) -> Result<(Arc<Namespace>, T), Status> {
        if token.is_empty() {
            return Err(Status::invalid_argument("Task token not set on request."));
        }
        if !name.is_empty() {
            let namespace = self.namespace(name)?;
            if let Ok(token) = T::open(token, &namespace.token_key) {
                return Ok((namespace, token));
            }
        }
        for namespace in self.node.runs.namespaces.all() {
            if let Ok(token) = T::open(token, &namespace.token_key) {
                if name.is_empty() {
                    return Ok((in_state(namespace, USABLE)?, token));
                }
                return Err(Status::invalid_argument(DIFFERENT_NAMESPACE));
            }
        }
        Err(Status::invalid_argument("Error deserializing task token."))
    }
}

/// The workflow, run and task a workflow task's token names.
pub fn task_of(namespace: &Namespace, token: &TaskToken) -> (WorkflowKey, TaskRef) {
    let task = TaskRef {
        scheduled_event_id: token.scheduled_event_id,
        started_event_id: token.started_event_id,
        attempt: token.attempt,
        started_time: token.started_time,
    };
    (WorkflowKey::new(namespace.key, &token.workflow_id), task)
}

/// The workflow and activity an activity's token names.
pub fn activity_of(namespace: &Namespace, token: &ActivityToken) -> (WorkflowKey, ActivityRef) {
    let reference = ActivityRef::Token {
        scheduled_event_id: token.scheduled_event_id,
        attempt: token.attempt,
        started_time: token.started_time as Nanos,
    };
    (WorkflowKey::new(namespace.key, &token.workflow_id), reference)
}
