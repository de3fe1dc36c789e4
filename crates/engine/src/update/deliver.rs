//! Sending updates to the worker that takes a workflow task.

use prost::Message as _;
use segno_proto::protocol::{Message, message::SequencingId};

use crate::{draft::Draft, machine::update::Event, steps::OfUpdate};

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
    let after = task.started_event_id - 1;
    let mut messages = Vec::new();
    for update in draft.run.updates.waiting().to_vec() {
        if update.sent && !again {
            continue;
        }
        draft.step(OfUpdate(&update.id), Event::Send, |draft| draft.run.updates.send(&update.id));
        let Some(request) = &update.request else { continue };
        messages.push(Message {
            id: request_message_id(&update.id),
            sequencing_id: Some(SequencingId::EventId(after)),
            body: Some(prost_types::Any { type_url: format!("{TYPE_PREFIX}Request"), value: request.encode_to_vec() }),
            protocol_instance_id: update.id,
        });
    }
    messages
}
