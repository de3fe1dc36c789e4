//! What a worker says about updates: accepted, rejected, answered.
//!
//! Messages come beside the commands of a workflow task. A command may name one, which is then handled in its place;
//! what no command names is handled after all commands, in order.

use std::{collections::BTreeSet, sync::Arc};

use prost::Message as _;
use segno_proto::{
    enums::WorkflowTaskFailedCause,
    events::{
        HistoryEvent, WorkflowExecutionUpdateAcceptedEventAttributes, WorkflowExecutionUpdateCompletedEventAttributes,
        history_event::Attributes,
    },
    protocol::Message,
    update::{Acceptance, Rejection as UpdateRejection, Request, Response},
};

use crate::{
    error::{CommandError, Rejection, TaskFailure},
    events::event,
    limits::UpdateLimits,
    machine::update::{self as machine, Event, State},
    parts::{
        callbacks,
        update::{
            admission::take_buffered_admission,
            admit::check_total,
            deliver::request_message_id,
            status::{self, Status, unprocessed},
        },
    },
    state::{machines, updates::UpdateEnd},
    transition::{draft::Draft, steps::UpdateMachine},
};

const PROTOCOL: &str = "temporal.api.update.v1";

/// The messages of one answer, each handled once.
#[derive(Debug, Default)]
pub struct Inbox {
    messages: Vec<Option<Message>>,
    limits: UpdateLimits,
    /// Updates that messages of this answer were about: how they stand is not stored yet.
    handled: BTreeSet<String>,
}

impl Inbox {
    /// Messages as they came.
    pub fn new(messages: Vec<Message>, limits: UpdateLimits) -> Self {
        Self { messages: messages.into_iter().map(Some).collect(), limits, handled: BTreeSet::new() }
    }

    /// Handles the message that a command names.
    pub fn handle_named(&mut self, draft: &mut Draft, id: &str) -> Result<(), CommandError> {
        let place = self.messages.iter().position(|message| message.as_ref().is_some_and(|message| message.id == id));
        match place.and_then(|place| self.messages[place].take()) {
            Some(message) => self.handle(draft, message),
            None => Err(bad(format!("ProtocolMessageCommand referenced absent message ID {id}"))),
        }
    }

    /// Handles all that no command named.
    pub fn handle_rest(&mut self, draft: &mut Draft) -> Result<(), CommandError> {
        for place in 0..self.messages.len() {
            if let Some(message) = self.messages[place].take() {
                self.handle(draft, message)?;
            }
        }
        Ok(())
    }

    fn handle(&mut self, draft: &mut Draft, message: Message) -> Result<(), CommandError> {
        let id = message.protocol_instance_id.clone();
        handle(draft, message, &self.limits, &self.handled)?;
        self.handled.insert(id);
        Ok(())
    }
}

/// Whether a message rejects an update, so that it leaves no trace.
pub fn is_rejection(message: &Message) -> bool {
    kind_of(message).is_some_and(|(protocol, kind)| protocol == PROTOCOL && kind == "Rejection")
}

/// Protocol and kind of a message's body.
fn kind_of(message: &Message) -> Option<(&str, &str)> {
    let url = &message.body.as_ref()?.type_url;
    url.rsplit('/').next()?.rsplit_once('.')
}

/// Updates that a worker was sent and says nothing about are rejected: it cannot know them.
pub fn reject_unprocessed(draft: &mut Draft) {
    let sent: Vec<_> = draft.run.updates.waiting().iter().filter(|update| update.sent).cloned().collect();
    for update in sent {
        draft.step(UpdateMachine(&update.id), Event::Reject, |draft| end_rejected(draft, &update.id, unprocessed()));
    }
}

fn bad(text: String) -> CommandError {
    CommandError::Task(TaskFailure::new(WorkflowTaskFailedCause::BadUpdateWorkflowExecutionMessage, text))
}

fn handle(
    draft: &mut Draft,
    message: Message,
    limits: &UpdateLimits,
    handled: &BTreeSet<String>,
) -> Result<(), CommandError> {
    let Some((protocol, kind)) = kind_of(&message) else {
        let text = match &message.body {
            None => "nil message body".to_owned(),
            Some(body) => {
                let name = body.type_url.rsplit('/').next().unwrap_or_default();
                format!("failed to extract protocol type: no . found in {name:?}")
            }
        };
        return Err(CommandError::Call(Rejection::InvalidArgument(text)));
    };
    let body = message.body.as_ref().map(|body| &body.value[..]).unwrap_or_default();
    if body.len() > draft.context.limits.blob_bytes {
        let text = format!("Message type {protocol}.{kind} exceeds size limit.");
        let cause = WorkflowTaskFailedCause::BadUpdateWorkflowExecutionMessage;
        return Err(CommandError::Task(TaskFailure::terminating(cause, text)));
    }
    if protocol != PROTOCOL {
        return Err(bad(format!("unsupported protocol type {protocol}")));
    }
    let id = message.protocol_instance_id.as_str();
    let provisional = handled.contains(id);
    // Go's words, with the space that it chooses.
    let unreadable = |_: prost::DecodeError| {
        bad("unable to unmarshal request: proto:\u{a0}cannot parse invalid wire-format data".to_owned())
    };
    match kind {
        "Acceptance" => {
            let acceptance = Acceptance::decode(body).map_err(unreadable)?;
            find_or_resurrect(draft, id, acceptance.accepted_request.as_ref(), limits)?;
            accept(draft, id, acceptance, provisional)
        }
        "Rejection" => {
            let rejection = UpdateRejection::decode(body).map_err(unreadable)?;
            find_or_resurrect(draft, id, rejection.rejected_request.as_ref(), limits)?;
            reject(draft, id, rejection, provisional)
        }
        "Response" => {
            let response = Response::decode(body).map_err(unreadable)?;
            find_or_resurrect(draft, id, None, limits)?;
            respond(draft, id, response, provisional)
        }
        _ => {
            find_or_resurrect(draft, id, None, limits)?;
            Err(bad(format!("Message type *update.{kind} not supported")))
        }
    }
}

/// An update this server forgot is taken up again if the worker still knows what was asked.
fn find_or_resurrect(
    draft: &mut Draft,
    id: &str,
    request: Option<&Request>,
    limits: &UpdateLimits,
) -> Result<(), CommandError> {
    match status::of(&draft.run, id) {
        // An earlier command closed the workflow: what comes for it now is too late, not unknown.
        Some(Status::Aborted(_)) if !draft.run.is_running() => return Ok(()),
        Some(Status::Aborted(_)) | None => {}
        Some(_) => return Ok(()),
    }
    let Some(request) = request else {
        return Err(bad(format!(
            "update {id} wasn't found on the server. This is most likely a transient error which will be resolved \
             automatically by retries"
        )));
    };
    if !draft.run.is_running() {
        return Ok(());
    }
    check_total(draft, limits).map_err(CommandError::Call)?;
    draft.step(UpdateMachine(id), Event::Admit, |draft| {
        draft.run.updates.admit(id.to_owned(), Some(Arc::new(request.clone())), request.encoded_len());
    });
    Ok(())
}

/// A message that does not fit how its update stands is an error of the worker, in Temporal's words.
fn step(draft: &Draft, id: &str, event: Event, kind: &str, provisional: bool) -> Result<(), CommandError> {
    let state = machines::update(&draft.run, id);
    if machine::next(state, event).is_ok() {
        return Ok(());
    }
    let state = match state {
        State::Rejected => State::Completed,
        state => state,
    };
    let prefix = if provisional { "Provisionally" } else { "" };
    Err(bad(format!(
        "invalid state transition attempted for Update {id}: received *update.{kind} message while in state {prefix}{state:?}"
    )))
}

fn unset(kind: &str, field: &str) -> CommandError {
    bad(format!("invalid *update.{kind}: {field} is not set"))
}

fn accept(draft: &mut Draft, id: &str, acceptance: Acceptance, provisional: bool) -> Result<(), CommandError> {
    if !draft.run.is_running() {
        // Closed with an earlier command: it will not be answered.
        return Ok(());
    }
    step(draft, id, Event::Accept, "Acceptance", provisional)?;
    if acceptance.accepted_request_sequencing_event_id == 0 {
        return Err(unset("Acceptance", "accepted_request_sequencing_event_id"));
    }
    if acceptance.accepted_request_message_id.is_empty() {
        return Err(unset("Acceptance", "accepted_request_message_id"));
    }
    draft.step(UpdateMachine(id), Event::Accept, |draft| {
        let waiting = draft.run.updates.remove(id).and_then(|waiting| waiting.request);
        let request = match waiting {
            Some(request) => {
                let now = draft.now();
                let (callbacks, request_id) = (&request.completion_callbacks, &request.request_id);
                callbacks::register_of_update(&mut draft.run.state, id, callbacks, request_id, now);
                Some(Request::clone(&request))
            }
            // The callbacks are registered since its admission.
            None => take_buffered_admission(draft, id),
        };
        // Links belong to the operation that the callbacks complete.
        let for_operation = request.as_ref().filter(|request| !request.completion_callbacks.is_empty());
        let links = for_operation.map(|request| request.links.clone()).unwrap_or_default();
        let accepted = Attributes::WorkflowExecutionUpdateAcceptedEventAttributes(
            WorkflowExecutionUpdateAcceptedEventAttributes {
                protocol_instance_id: id.to_owned(),
                accepted_request_message_id: request_message_id(id),
                accepted_request_sequencing_event_id: acceptance.accepted_request_sequencing_event_id,
                accepted_request: request,
            },
        );
        let event_id = draft.add_event(HistoryEvent { links, ..event(draft.now(), accepted) });
        draft.run.state.updates.entry(id.to_owned()).or_default().accepted_event_id = event_id;
    });
    Ok(())
}

fn reject(draft: &mut Draft, id: &str, rejection: UpdateRejection, provisional: bool) -> Result<(), CommandError> {
    // Rejections have no command, so that they come after one that closes the run. They count all the same.
    if !draft.run.is_running() && machines::update(&draft.run, id) != State::Aborted {
        return Ok(());
    }
    step(draft, id, Event::Reject, "Rejection", provisional)?;
    let failure = rejection.failure.unwrap_or_default();
    draft.step(UpdateMachine(id), Event::Reject, |draft| end_rejected(draft, id, failure));
    Ok(())
}

fn end_rejected(draft: &mut Draft, id: &str, failure: segno_proto::failure::Failure) {
    draft.run.updates.remove(id);
    take_buffered_admission(draft, id);
    if let Some(mut record) = draft.run.state.updates.remove(id) {
        // Its admission was stored, so its end must be: otherwise it would come back after a crash.
        record.rejection = Some(failure.clone());
        draft.run.finished.add(id.to_owned(), record);
        draft.touch();
    }
    draft.run.updates.end(id.to_owned(), UpdateEnd::Rejected(Arc::new(failure)));
    // An update has callbacks before it is accepted if its admission was stored.
    callbacks::send_of_update(draft, id);
}

fn respond(draft: &mut Draft, id: &str, response: Response, provisional: bool) -> Result<(), CommandError> {
    if !draft.run.is_running() {
        return Ok(());
    }
    step(draft, id, Event::Complete, "Response", provisional)?;
    let accepted_event_id = draft.run.state.updates.get(id).map_or(0, |record| record.accepted_event_id);
    let Some(meta) = &response.meta else { return Err(unset("Response", "meta")) };
    if meta.update_id.is_empty() {
        return Err(unset("Response", "meta.update_id"));
    }
    if meta.update_id != id {
        return Err(bad(format!("invalid *update.Response: meta.update_id != {id}")));
    }
    let Some(outcome) = response.outcome else { return Err(unset("Response", "outcome")) };
    draft.step(UpdateMachine(id), Event::Complete, |draft| {
        let event_id = draft.add(Attributes::WorkflowExecutionUpdateCompletedEventAttributes(
            WorkflowExecutionUpdateCompletedEventAttributes {
                meta: response.meta,
                accepted_event_id,
                outcome: Some(outcome.clone()),
            },
        ));
        let mut record = draft.run.state.updates.remove(id).unwrap_or_default();
        record.completed_event_id = event_id;
        draft.run.finished.add(id.to_owned(), record);
        draft.run.updates.end(id.to_owned(), UpdateEnd::Completed(Arc::new(outcome)));
        callbacks::send_of_update(draft, id);
    });
    Ok(())
}
