//! Updates: request messages, and the answers to them.

use prost::Message as _;
use segno_proto::{common::Payload, events::*, protocol::Message, update};

use super::{
    Server,
    event::{Event, IDENTITY},
    run::{Run, UpdateOutcome, WorkflowTask},
};
use crate::{converter, failure::Failure};

pub(crate) const REQUEST: &str = "type.googleapis.com/temporal.api.update.v1.Request";
pub(crate) const ACCEPTANCE: &str = "type.googleapis.com/temporal.api.update.v1.Acceptance";
pub(crate) const REJECTION: &str = "type.googleapis.com/temporal.api.update.v1.Rejection";
pub(crate) const RESPONSE: &str = "type.googleapis.com/temporal.api.update.v1.Response";

/// The id of the message that carries the request of an update.
pub(crate) fn request_id(update_id: &str) -> String {
    format!("{update_id}/request")
}

/// A body of a message.
pub(crate) fn pack(kind: &str, body: &impl prost::Message) -> Option<prost_types::Any> {
    Some(prost_types::Any { type_url: kind.to_owned(), value: body.encode_to_vec() })
}

/// An answer to an update, understood.
pub(crate) enum Reply {
    Accepted { update_id: String, acceptance: update::Acceptance },
    Rejected { update_id: String, failure: Failure },
    Completed { update_id: String, response: update::Response },
}

/// Reads a message of a worker.
pub(crate) fn read(message: &Message) -> Result<Reply, String> {
    let body = message.body.as_ref().ok_or("a message without a body")?;
    let update_id = message.protocol_instance_id.clone();
    let bad = |error: prost::DecodeError| error.to_string();
    match body.type_url.as_str() {
        ACCEPTANCE => {
            let acceptance = update::Acceptance::decode(body.value.as_slice()).map_err(bad)?;
            Ok(Reply::Accepted { update_id, acceptance })
        }
        REJECTION => {
            let rejection = update::Rejection::decode(body.value.as_slice()).map_err(bad)?;
            let failure = Failure::from_wire(rejection.failure.unwrap_or_default());
            Ok(Reply::Rejected { update_id, failure })
        }
        RESPONSE => {
            let response = update::Response::decode(body.value.as_slice()).map_err(bad)?;
            Ok(Reply::Completed { update_id, response })
        }
        other => Err(format!("a message of the type {other}")),
    }
}

impl Server {
    /// An update arrives. One with an id that is known is the same update.
    pub(super) fn admit_update(&mut self, index: usize, id: String, name: String, input: Vec<Payload>) {
        let run = &mut self.runs[index];
        let waiting = run.updates.iter().any(|request| request.meta.as_ref().is_some_and(|meta| meta.update_id == id));
        if waiting || run.accepted.contains_key(&id) || run.outcomes.contains_key(&id) {
            return;
        }
        run.updates.push(update::Request {
            meta: Some(update::Meta { update_id: id, identity: IDENTITY.to_owned() }),
            input: Some(update::Input { header: None, name, args: converter::list(input) }),
            ..Default::default()
        });
        if run.workflow_task == WorkflowTask::None {
            self.schedule_workflow_task(index, 1, true);
        }
    }
}

impl Run {
    /// Takes an answer to an update of this run: writes the event that belongs to it, if any.
    pub(crate) fn reply(&mut self, now: i64, reply: Reply) {
        match reply {
            Reply::Accepted { update_id, acceptance } => {
                let Some(position) = self.position(&update_id) else { return };
                let request = self.updates.remove(position);
                let event = WorkflowExecutionUpdateAcceptedEventAttributes {
                    protocol_instance_id: update_id.clone(),
                    accepted_request_message_id: acceptance.accepted_request_message_id,
                    accepted_request_sequencing_event_id: acceptance.accepted_request_sequencing_event_id,
                    accepted_request: acceptance.accepted_request.or(Some(request)),
                };
                let event_id = self.write(now, Event::WorkflowExecutionUpdateAcceptedEventAttributes(event));
                self.accepted.insert(update_id, event_id);
            }
            Reply::Rejected { update_id, failure } => {
                if let Some(position) = self.position(&update_id) {
                    self.updates.remove(position);
                    self.outcomes.insert(update_id, UpdateOutcome::Rejected(failure));
                }
            }
            Reply::Completed { update_id, response } => {
                let Some(accepted_event_id) = self.accepted.remove(&update_id) else { return };
                let outcome = match response.outcome.clone().and_then(|outcome| outcome.value) {
                    Some(update::outcome::Value::Failure(failure)) => {
                        UpdateOutcome::Failed(Failure::from_wire(failure))
                    }
                    Some(update::outcome::Value::Success(output)) => UpdateOutcome::Completed(output.payloads),
                    None => UpdateOutcome::Completed(Vec::new()),
                };
                self.outcomes.insert(update_id, outcome);
                let event = WorkflowExecutionUpdateCompletedEventAttributes {
                    meta: response.meta,
                    accepted_event_id,
                    outcome: response.outcome,
                };
                self.write(now, Event::WorkflowExecutionUpdateCompletedEventAttributes(event));
            }
        }
    }

    fn position(&self, update_id: &str) -> Option<usize> {
        self.updates.iter().position(|request| request.meta.as_ref().is_some_and(|meta| meta.update_id == update_id))
    }
}
