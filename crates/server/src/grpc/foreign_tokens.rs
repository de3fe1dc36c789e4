//! Tokens made by Temporal: clients that move to Segno may have some, and tests of SDKs make them.
//!
//! Such a token is a protobuf message that every client can write. It is therefore only decoded to answer, as Temporal
//! does, that the workflow, activity or query does not exist; it never stands for a task of this server.

use std::sync::Arc;

use bytes::Bytes;
use prost::Message;
use segno_engine::validate::is_uuid;
use segno_node::{ActivityToken, Namespace, Node, QueryToken, TaskToken, Token, WorkflowKey};
use tonic::Status;

use super::{
    Workflows,
    namespaces::{USABLE, in_state},
    tokens::DIFFERENT_NAMESPACE,
};
use crate::status;

/// The fields that tokens of workflow tasks and activities have in common. The fields that are not used keep tokens of other kinds
/// from being taken for one.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ForeignTask {
    #[prost(string, tag = "1")]
    namespace_id: String,
    #[prost(string, tag = "2")]
    workflow_id: String,
    #[prost(string, tag = "3")]
    run_id: String,
    #[prost(int64, tag = "4")]
    scheduled_event_id: i64,
    #[prost(int32, tag = "5")]
    attempt: i32,
    #[prost(string, tag = "6")]
    activity_id: String,
    #[prost(string, tag = "7")]
    workflow_type: String,
    #[prost(string, tag = "8")]
    activity_type: String,
}

/// Token of a query.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ForeignQuery {
    #[prost(string, tag = "1")]
    namespace_id: String,
    #[prost(string, tag = "2")]
    task_queue: String,
    #[prost(string, tag = "3")]
    task_id: String,
}

/// A kind of token that Temporal has too.
pub trait ForeignToken: Token {
    /// Temporal's form.
    type Form: Message + Default;

    /// The namespace's id in it.
    fn namespace_id(form: &Self::Form) -> &str;

    /// A token of ours that names the same run and no task of it.
    fn nothing_of(form: Self::Form) -> Result<Self, Status>;
}

/// An event that no history has.
const NO_EVENT: i64 = -1;

impl ForeignTask {
    fn checked(self) -> Result<Self, Status> {
        if self.workflow_id.is_empty() {
            return Err(Status::invalid_argument("Business ID is not set on request."));
        }
        if !self.run_id.is_empty() && !is_uuid(&self.run_id) {
            return Err(Status::invalid_argument("RunId is not valid UUID."));
        }
        Ok(self)
    }
}

impl ForeignToken for TaskToken {
    type Form = ForeignTask;

    fn namespace_id(form: &ForeignTask) -> &str {
        &form.namespace_id
    }

    fn nothing_of(form: ForeignTask) -> Result<Self, Status> {
        let ForeignTask { workflow_id, run_id, .. } = form.checked()?;
        Ok(Self { workflow_id, run_id, scheduled_event_id: NO_EVENT, ..Default::default() })
    }
}

impl ForeignToken for ActivityToken {
    type Form = ForeignTask;

    fn namespace_id(form: &ForeignTask) -> &str {
        &form.namespace_id
    }

    fn nothing_of(form: ForeignTask) -> Result<Self, Status> {
        let ForeignTask { workflow_id, run_id, .. } = form.checked()?;
        Ok(Self { workflow_id, run_id, scheduled_event_id: NO_EVENT, ..Default::default() })
    }
}

impl ForeignToken for QueryToken {
    type Form = ForeignQuery;

    fn namespace_id(form: &ForeignQuery) -> &str {
        &form.namespace_id
    }

    fn nothing_of(form: ForeignQuery) -> Result<Self, Status> {
        if form.task_queue.is_empty() || form.task_id.is_empty() {
            return Err(Status::invalid_argument("Invalid TaskToken."));
        }
        Err(status::not_found("query task not found, or already expired"))
    }
}

/// The workflow that a task token of Temporal's names.
pub fn foreign_workflow(node: &Node, token: &[u8]) -> Option<WorkflowKey> {
    let form = ForeignTask::decode(token).ok()?;
    let namespace =
        node.runs.namespaces.all().into_iter().find(|namespace| namespace.detail.id == form.namespace_id)?;
    Some(WorkflowKey::new(namespace.key, &form.workflow_id))
}

impl Workflows {
    /// Opens a token of ours, or one of Temporal's as a token that fits nothing.
    pub fn open_any<T: ForeignToken>(&self, name: &str, token: &Bytes) -> Result<(Arc<Namespace>, T), Status> {
        let refused = match self.open(name, token) {
            Err(refused) if !token.is_empty() => refused,
            opened => return opened,
        };
        let Ok(form) = T::Form::decode(token.clone()) else { return Err(refused) };
        let id = T::namespace_id(&form);
        if id.is_empty() {
            return Err(Status::invalid_argument("Namespace not set on request."));
        }
        let all = self.node.runs.namespaces.all();
        let named = all.into_iter().find(|namespace| namespace.detail.id == id);
        let namespace = in_state(named.ok_or_else(|| status::namespace_not_found(id))?, USABLE)?;
        if !name.is_empty() && namespace.name != name {
            return Err(Status::invalid_argument(DIFFERENT_NAMESPACE));
        }
        Ok((namespace, T::nothing_of(form)?))
    }
}
