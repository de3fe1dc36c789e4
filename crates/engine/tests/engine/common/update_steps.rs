//! Updates in scenario files: taking them in, what a worker says about them, how they stand.
//!
//! An answer names what it says about updates among its commands, in the order in which a worker would send them:
//! `accept u1`, `respond u1`, `reject u1`. The first two are a message and the command that names it (`bare`: the message
//! alone); a rejection is a message alone. `refer X` is a command that names message X.

use std::sync::Arc;

use prost::Message as _;
use segno_engine::{
    Rejection, Run, Transition,
    complete_task::CompleteTask,
    update::{
        UpdateLimits,
        admit::{self, Admit},
        status::{self, Status},
    },
};
use segno_proto::{
    command::{Command, ProtocolMessageCommandAttributes, command::Attributes as CommandAttributes},
    common::{Payload, Payloads},
    enums::CommandType,
    failure::failure::FailureInfo,
    protocol::Message,
    update::{Acceptance, Input, Meta, Outcome, Rejection as UpdateRejection, Request, Response, outcome},
};

use super::{
    words::{self, Words, failure},
    world::World,
};

/// What a call that brings an update says.
pub fn request(id: &str, bytes: usize) -> Request {
    Request {
        meta: Some(Meta { update_id: id.to_owned(), identity: "client".to_owned() }),
        input: Some(Input {
            name: "set".to_owned(),
            args: (bytes > 0).then(|| words::payloads(bytes)),
            ..Default::default()
        }),
        ..Default::default()
    }
}

/// What a namespace allows, if a step says something of it.
pub fn limits(words: &Words<'_>) -> UpdateLimits {
    let plain = UpdateLimits::default();
    let limit = |key: &str, default: usize| words.get(key).map_or(default, |n| n.parse().expect("a number"));
    UpdateLimits {
        in_flight: limit("in-flight-max", plain.in_flight),
        in_flight_bytes: limit("bytes-max", plain.in_flight_bytes),
        total: limit("total-max", plain.total),
    }
}

/// The call that a step `update u1` makes.
pub fn admission(words: &Words<'_>) -> Admit {
    let bytes = words.get("bytes").map_or(0, |bytes| bytes.parse().expect("a number"));
    let searched =
        words.get("searched").map(|runs| runs.split(',').map(|key| key.parse().expect("a number")).collect());
    let call = Admit::new(request(words.at(0), bytes), words.flag("durable"), limits(words));
    Admit { searched: searched.unwrap_or_default(), ..call }
}

/// `update u1 [durable] [searched=1,2]`. Says in which earlier runs it is to be searched first.
pub fn update(world: &mut World, words: &Words<'_>) -> Result<(String, Transition), Rejection> {
    let mut call = admission(words);
    if let Some(meta) = Arc::make_mut(&mut call.request).meta.as_mut() {
        // `times=` makes many updates out of one step.
        meta.update_id = meta.update_id.replace('%', &world.next_key.to_string());
    }
    let taken = world.call(|run, context| admit::admit(run, context, call))?;
    let note = if taken.reply.is_empty() { String::new() } else { format!(", to search in runs {:?}", taken.reply) };
    Ok((note, taken.transition))
}

/// Puts the commands and messages of an answer in their places.
pub fn say(call: &mut CompleteTask, texts: impl Iterator<Item = impl AsRef<str>>) {
    for text in texts {
        let text = text.as_ref();
        let words = Words::parse(text);
        match words.name {
            "accept" => {
                let message = acceptance(call, &words);
                push(call, message, words.flag("bare"));
            }
            "respond" => {
                let message = response(&words);
                push(call, message, words.flag("bare"));
            }
            "reject" => {
                let message = rejection(call, &words);
                push(call, message, true);
            }
            "message" => {
                let message = Message {
                    id: words.at(0).to_owned(),
                    protocol_instance_id: words.at(1).to_owned(),
                    body: words.get("type").map(|kind| body(kind, Vec::new())),
                    ..Default::default()
                };
                push(call, message, true);
            }
            "refer" => call.commands.push(refer(words.at(0))),
            _ => call.commands.push(words::command(text)),
        }
    }
}

fn push(call: &mut CompleteTask, message: Message, bare: bool) {
    if !bare {
        call.commands.push(refer(&message.id));
    }
    call.messages.push(message);
}

fn refer(message_id: &str) -> Command {
    Command {
        command_type: CommandType::ProtocolMessage as i32,
        attributes: Some(CommandAttributes::ProtocolMessageCommandAttributes(ProtocolMessageCommandAttributes {
            message_id: message_id.trim_matches('"').to_owned(),
        })),
        ..Default::default()
    }
}

fn body(kind: &str, value: Vec<u8>) -> prost_types::Any {
    let prefix =
        if kind.contains('.') { "type.googleapis.com/" } else { "type.googleapis.com/temporal.api.update.v1." };
    prost_types::Any { type_url: format!("{prefix}{kind}"), value }
}

fn message(update: &str, what: &str, kind: &str, value: Vec<u8>) -> Message {
    Message {
        id: format!("{update}/request/{what}"),
        protocol_instance_id: update.to_owned(),
        sequencing_id: None,
        body: Some(body(kind, value)),
    }
}

/// `accept u1 [echo] [bytes=] [unsequenced] [unnamed]`.
fn acceptance(call: &CompleteTask, words: &Words<'_>) -> Message {
    let id = words.at(0);
    let bytes = words.get("bytes").map_or(0, |bytes| bytes.parse().expect("a number"));
    let acceptance = Acceptance {
        accepted_request_message_id: if words.flag("unnamed") { String::new() } else { format!("{id}/request") },
        accepted_request_sequencing_event_id: if words.flag("unsequenced") {
            0
        } else {
            call.token.started_event_id - 1
        },
        accepted_request: words.flag("echo").then(|| request(id, bytes)),
    };
    message(id, "accept", "Acceptance", acceptance.encode_to_vec())
}

/// `reject u1 [echo]`.
fn rejection(call: &CompleteTask, words: &Words<'_>) -> Message {
    let id = words.at(0);
    let rejection = UpdateRejection {
        rejected_request_message_id: format!("{id}/request"),
        rejected_request_sequencing_event_id: call.token.started_event_id - 1,
        rejected_request: words.flag("echo").then(|| request(id, 0)),
        failure: Some(failure("NotValid", true, None)),
    };
    message(id, "reject", "Rejection", rejection.encode_to_vec())
}

/// `respond u1 [failed] [of=u2] [no-meta] [no-outcome]`.
fn response(words: &Words<'_>) -> Message {
    let id = words.at(0);
    let success = Payloads { payloads: vec![Payload { data: b"done".to_vec().into(), ..Default::default() }] };
    let value = match words.flag("failed") {
        true => outcome::Value::Failure(failure("HandlerFailed", false, None)),
        false => outcome::Value::Success(success),
    };
    let of = words.get("of").unwrap_or(id);
    let response = Response {
        meta: (!words.flag("no-meta")).then(|| Meta { update_id: of.to_owned(), identity: "client".to_owned() }),
        outcome: (!words.flag("no-outcome")).then_some(Outcome { value: Some(value) }),
    };
    message(id, "complete", "Response", response.encode_to_vec())
}

/// Messages for a worker: which, and after which event.
pub fn show_messages(messages: &[Message]) -> String {
    use segno_proto::protocol::message::SequencingId;
    const SHOWN: usize = 12;
    if messages.len() > SHOWN {
        return format!(", brings {} requests", messages.len());
    }
    let shown = messages.iter().map(|message| match message.sequencing_id {
        Some(SequencingId::EventId(event)) => format!(", brings {} after {event}", message.id),
        _ => format!(", brings {} at any time", message.id),
    });
    shown.collect()
}

/// How an update stands, in a few words.
pub fn standing(run: &Run, id: &str) -> String {
    match status::of(run, id) {
        None => "unknown".to_owned(),
        Some(Status::Admitted) => {
            let waiting = run.updates().waiting().iter().find(|update| update.id == id).expect("it waits");
            let place = if waiting.sent { "sent" } else { "admitted" };
            let durable = if waiting.request.is_none() { ", durably" } else { "" };
            format!("{place}{durable}")
        }
        Some(Status::Accepted) => "accepted".to_owned(),
        Some(Status::Completed(outcome)) => show_outcome(&outcome),
        Some(Status::CompletedIn(event)) => format!("answered in event {event}"),
        Some(Status::Aborted(abort)) => format!("aborted, {abort:?}"),
    }
}

/// What came out of an update.
pub fn show_outcome(outcome: &Outcome) -> String {
    match &outcome.value {
        Some(outcome::Value::Success(_)) => "answered".to_owned(),
        Some(outcome::Value::Failure(failure)) => match &failure.failure_info {
            Some(FailureInfo::ApplicationFailureInfo(info)) => format!("failed, {}", info.r#type),
            _ => format!("failed, {}", failure.message),
        },
        None => "answered with nothing".to_owned(),
    }
}
