//! Updates of long-running workflows: each caller has its own target and waits for each update's end.
//!
//! An accepted update is answered at once, so that acceptance and result come with one workflow task; a rejected one leaves no
//! trace. Targets are started, and updated once, before anything is measured: then the worker holds them in its sticky
//! queue, as SDKs do. A run takes 2,000 updates in all; no target gets as many.

use std::{
    rc::Rc,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use prost::Message as _;
use segno_proto::{
    command::{Command, ProtocolMessageCommandAttributes, command::Attributes},
    enums::{CommandType, UpdateWorkflowExecutionLifecycleStage as Stage},
    failure::{ApplicationFailureInfo, Failure, failure::FailureInfo},
    protocol::{Message, message::SequencingId},
    update::{self, Acceptance, Input, Meta, Rejection, Request, Response, WaitPolicy, outcome::Value},
    workflowservice::{TerminateWorkflowExecutionRequest, UpdateWorkflowExecutionRequest},
};
use tonic::Status;

use super::{
    outcome::Outcome,
    session::Session,
    worker::{Answer, Workers},
};
use crate::wire::{self, CALL_TIMEOUT, Client, NAMESPACE, POLL_TIMEOUT};

/// Updates one target is given; servers take 2,000 at most.
const PER_TARGET_MAX: usize = 1_900;
/// Times a target is prepared before that counts as failed.
const PREPARE_ATTEMPTS: usize = 4;

/// Updates targets until the load is done; every outcome must be the one asked for.
pub async fn run(session: &Rc<Session>, accepted: bool) -> Result<Outcome> {
    let workers = Workers::start(session);
    let callers = session.load.concurrency;
    let targets_each = session.load.count.div_ceil(PER_TARGET_MAX * callers).max(1);
    // A caller's share is not fixed: one may do more than its part. Half as many again is room for that.
    let targets_each = if targets_each > 1 { targets_each + targets_each.div_ceil(2) } else { 1 };
    session.call_all(|caller, _| prepare(session.clone(), caller, targets_each, accepted)).await;
    let work = session.call_all(|caller, started| call(session.clone(), caller, targets_each, accepted, started));
    let outcome = session.measure("", "update", work).await?;
    session.call_all(|caller, _| finish(session.clone(), caller, targets_each)).await;
    workers.stop().await;
    ensure!(outcome.count() > 0 || !outcome.errors.is_empty(), "no update came to an end");
    Ok(outcome)
}

fn target(session: &Session, caller: usize, number: usize) -> String {
    format!("{}-target-{caller}-{number}", session.load.prefix)
}

/// Starts a caller's targets and brings each into the worker's sticky queue.
async fn prepare(session: Rc<Session>, caller: usize, targets: usize, accepted: bool) {
    let mut client = session.client();
    let kind = if accepted { "update-accepted" } else { "update-rejected" };
    for number in 0..targets {
        let workflow_id = target(&session, caller, number);
        // A server that has just started may be slow at first. Both calls may be repeated; the last answer counts.
        for attempt in 1..=PREPARE_ATTEMPTS {
            let start = wire::start(kind, &workflow_id, session.queue(), "");
            let answer = match client.call(start, CALL_TIMEOUT).await {
                Ok(_) => update(&mut client, &workflow_id, "first", accepted).await,
                Err(status) => Err(status),
            };
            match answer {
                Ok(()) => break,
                Err(status) if attempt == PREPARE_ATTEMPTS => session.failed("first update", &status),
                Err(_) => tokio::time::sleep(Duration::from_millis(500)).await,
            }
        }
    }
}

/// One caller: one update after the other, on its current target.
async fn call(session: Rc<Session>, caller: usize, targets: usize, accepted: bool, started: Instant) {
    let mut client = session.client();
    for number in 0..targets {
        let workflow_id = target(&session, caller, number);
        for _ in 0..PER_TARGET_MAX {
            let Some(index) = session.take_next(started) else { return };
            let begun = Instant::now();
            match update(&mut client, &workflow_id, &format!("update-{index}"), accepted).await {
                Ok(()) => session.finished(begun),
                Err(status) => session.failed("update", &status),
            }
        }
    }
}

/// Ends a caller's targets, so that they are no burden to what comes next.
async fn finish(session: Rc<Session>, caller: usize, targets: usize) {
    let mut client = session.client();
    for number in 0..targets {
        let call = TerminateWorkflowExecutionRequest {
            namespace: NAMESPACE.to_owned(),
            workflow_execution: wire::execution(&target(&session, caller, number), ""),
            ..Default::default()
        };
        if let Err(status) = client.call(call, CALL_TIMEOUT).await {
            session.failed("terminate", &status);
        }
    }
}

/// One update, waited for until it is completed.
async fn update(client: &mut Client, workflow_id: &str, update_id: &str, accepted: bool) -> Result<(), Status> {
    let input = Input { name: "set".to_owned(), args: wire::text("hello"), ..Default::default() };
    let call = UpdateWorkflowExecutionRequest {
        namespace: NAMESPACE.to_owned(),
        workflow_execution: wire::execution(workflow_id, ""),
        wait_policy: Some(WaitPolicy { lifecycle_stage: Stage::Completed.into() }),
        request: Some(Request {
            meta: Some(Meta { update_id: update_id.to_owned(), identity: "segno-harness".to_owned() }),
            input: Some(input),
            ..Default::default()
        }),
        ..Default::default()
    };
    let started = Instant::now();
    while started.elapsed() < Duration::from_secs(60) {
        let reply = client.call(call.clone(), POLL_TIMEOUT).await?;
        return match reply.outcome.and_then(|outcome| outcome.value) {
            Some(Value::Success(_)) if accepted => Ok(()),
            Some(Value::Failure(_)) if !accepted => Ok(()),
            Some(_) => Err(Status::unknown("the other outcome")),
            // The server ended the wait: ask again, the id names the same update.
            None => continue,
        };
    }
    Err(Status::deadline_exceeded("no outcome"))
}

/// What the worker says to the updates of a task.
pub fn answer(messages: &[Message], accepted: bool) -> Answer {
    let mut answer = Answer::default();
    for message in messages {
        let body = message.body.as_ref().map(|body| &body.value[..]).unwrap_or_default();
        let asked = Request::decode(body).unwrap_or_default();
        let event_id = match message.sequencing_id {
            Some(SequencingId::EventId(id)) => id,
            _ => 0,
        };
        if accepted {
            let meta = asked.meta.clone();
            let accept = Acceptance {
                accepted_request_message_id: message.id.clone(),
                accepted_request_sequencing_event_id: event_id,
                accepted_request: Some(asked),
            };
            let value = Some(Value::Success(wire::text("done").unwrap_or_default()));
            let respond = Response { meta, outcome: Some(update::Outcome { value }) };
            answer.messages.push(packed(message, "accept", "Acceptance", &accept));
            answer.messages.push(packed(message, "complete", "Response", &respond));
        } else {
            let reject = Rejection {
                rejected_request_message_id: message.id.clone(),
                rejected_request_sequencing_event_id: event_id,
                rejected_request: Some(asked),
                failure: Some(refusal()),
            };
            answer.messages.push(packed(message, "reject", "Rejection", &reject));
        }
    }
    if accepted {
        answer.commands = answer.messages.iter().map(place).collect();
    }
    answer
}

/// An answer to a request message.
fn packed(asked: &Message, suffix: &str, name: &str, body: &impl prost::Message) -> Message {
    let type_url = format!("type.googleapis.com/temporal.api.update.v1.{name}");
    Message {
        id: format!("{}/{suffix}", asked.id),
        protocol_instance_id: asked.protocol_instance_id.clone(),
        body: Some(prost_types::Any { type_url, value: body.encode_to_vec() }),
        sequencing_id: None,
    }
}

/// The command that says where a message belongs.
fn place(message: &Message) -> Command {
    let attributes = ProtocolMessageCommandAttributes { message_id: message.id.clone() };
    wire::command(CommandType::ProtocolMessage, Attributes::ProtocolMessageCommandAttributes(attributes))
}

/// What a validator raises.
fn refusal() -> Failure {
    let info = ApplicationFailureInfo { r#type: "Refused".to_owned(), ..Default::default() };
    Failure {
        message: "no".to_owned(),
        failure_info: Some(FailureInfo::ApplicationFailureInfo(info)),
        ..Default::default()
    }
}
