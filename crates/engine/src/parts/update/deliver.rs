//! Sending updates to the worker that takes a workflow task.

use prost::Message as _;
use segno_proto::protocol::{Message, message::SequencingId};

use crate::{
    machine::update::Event,
    state::{run::Run, updates::WaitingUpdate},
    transition::{draft::Draft, steps::UpdateMachine},
};

/// Names a message's body.
const TYPE_PREFIX: &str = "type.googleapis.com/temporal.api.update.v1.";

/// The id of the message that carries an update's request.
pub fn request_message_id(update: &str) -> String {
    format!("{update}/request")
}

/// Messages for the task that was just started, oldest update first. Updates whose admission is an event need none. A
/// worker that only asked for more time still has what it was sent: `again` is false then.
pub fn deliver(draft: &mut Draft, again: bool) -> Vec<Message> {
    let Some(task) = &draft.run.state.task else { return Vec::new() };
    let started_event_id = task.started_event_id;
    let mut messages = Vec::new();
    for update in draft.run.updates.waiting().to_vec() {
        if update.sent && !again {
            continue;
        }
        draft.step(UpdateMachine(&update.id), Event::Send, |draft| draft.run.updates.send(&update.id));
        messages.extend(message_of(&update, started_event_id));
    }
    messages
}

/// The messages of these updates once more, for the task that brought them.
pub(crate) fn messages_of(run: &Run, updates: &[String]) -> Vec<Message> {
    let Some(task) = &run.state.task else { return Vec::new() };
    let sent = run.updates.waiting().iter().filter(|update| update.sent && updates.contains(&update.id));
    sent.filter_map(|update| message_of(update, task.started_event_id)).collect()
}

fn message_of(update: &WaitingUpdate, started_event_id: i64) -> Option<Message> {
    let request = update.request.as_ref()?;
    Some(Message {
        id: request_message_id(&update.id),
        sequencing_id: Some(SequencingId::EventId(started_event_id - 1)),
        body: Some(prost_types::Any { type_url: format!("{TYPE_PREFIX}Request"), value: request.encode_to_vec() }),
        protocol_instance_id: update.id.clone(),
    })
}
