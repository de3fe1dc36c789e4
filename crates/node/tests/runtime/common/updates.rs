//! Updates in the story: what their callers do, what the worker says, what storage must hold in the end.
//!
//! Each answer of the worker is unique, so that one which was given twice, or never stored, is recognised.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use prost::Message as _;
use segno_engine::update::admit::Admit;
use segno_node::{CallError, RunSelector, UpdateStage, WaitFor, WorkflowKey};
use segno_proto::{
    command::{Command, ProtocolMessageCommandAttributes, command::Attributes as C},
    common::{Payload, Payloads},
    enums::CommandType,
    events::{HistoryEvent, history_event::Attributes as A},
    failure::Failure,
    protocol::{Message, message::SequencingId},
    update::{Acceptance, Input, Meta, Outcome, Rejection, Request, Response, outcome::Value},
};
use segno_store::NamespaceKey;
use tokio::time::{Instant, sleep};

use super::{
    Place,
    worker::{Ledger, PAUSE},
};

/// Workflows that take updates: one whose worker asks on the normal queue, one with a sticky worker.
pub const UPDATED: [&str; 2] = ["updates", "sticky"];
/// Accepted and completed.
pub const YES: &str = "yes";
/// Rejected.
pub const NO: &str = "no";
/// Accepted and completed; its caller wants the admission stored first.
pub const LATER: &str = "later";

/// Longest wait of one call: its caller asks again soon, as one whose connection broke would.
const WAIT_MAX: Duration = Duration::from_millis(500);

static ANSWERS: AtomicU64 = AtomicU64::new(1);

pub fn request(id: &str) -> Request {
    Request {
        meta: Some(Meta { update_id: id.to_owned(), identity: "client".to_owned() }),
        input: Some(Input { name: id.to_owned(), ..Default::default() }),
        ..Default::default()
    }
}

/// Asks for all updates of a workflow until each is answered: two at the same time, then a third.
pub async fn ask_all(place: &Place, ledger: &Ledger, workflow: &'static str) {
    if workflow == "sticky" {
        first_turn_is_over(place, workflow).await;
    }
    tokio::join!(ask(place, ledger, workflow, YES), ask(place, ledger, workflow, NO));
    ask(place, ledger, workflow, LATER).await;
}

/// A worker is sticky once it has answered: only then an update comes by its own queue.
async fn first_turn_is_over(place: &Place, workflow: &str) {
    loop {
        if let Some(node) = place.current()
            && let Ok(current) = node.runs.snapshot(&key_of(place, workflow), "").await
            && current.run.state().last_completed_started_id > 0
        {
            return;
        }
        sleep(PAUSE).await;
    }
}

fn key_of(place: &Place, workflow: &str) -> WorkflowKey {
    let namespace = place.current().and_then(|node| node.runs.namespaces.get("default"));
    WorkflowKey::new(namespace.map_or(NamespaceKey(1), |namespace| namespace.key), workflow)
}

/// Asks for one update until it is answered, and then once more.
async fn ask(place: &Place, ledger: &Ledger, workflow: &str, id: &'static str) {
    let key = key_of(place, workflow);
    let mut is_stored = false;
    let mut answers = 0;
    while answers < 2 {
        let Some(node) = place.current() else {
            sleep(PAUSE).await;
            continue;
        };
        let until = Instant::now() + WAIT_MAX;
        let wait = if id == LATER && !is_stored { WaitFor::Admitted } else { WaitFor::Completed };
        let reply = match is_stored && answers == 0 {
            true => node.runs.poll_update(&key, "", id, wait, until).await,
            false => {
                let call = Admit::new(request(id), wait == WaitFor::Admitted, Default::default());
                node.runs.update_workflow(&key, &RunSelector::default(), call, wait, until).await
            }
        };
        let note = |answer| {
            ledger.lock().expect("no holder panics").updates.push((workflow.to_owned(), id.to_owned(), answer));
        };
        match reply.map(|reply| reply.stage) {
            Ok(UpdateStage::Completed(outcome)) => {
                note(Some(*outcome));
                answers += 1;
            }
            Ok(_) if wait == WaitFor::Admitted => {
                note(None);
                is_stored = true;
            }
            Ok(_) => {}
            Err(CallError::UpdateNotFound { .. }) if is_stored => {
                let what = format!("update {id} of {workflow} was admitted and is unknown now");
                ledger.lock().expect("no holder panics").broken.push(what);
                return;
            }
            Err(_) => sleep(PAUSE).await,
        }
    }
}

/// What a worker says about the updates that came with a task, or with its new events.
pub fn answer(messages: &[Message], events: &[HistoryEvent], previous_started: i64) -> (Vec<Command>, Vec<Message>) {
    let mut asked = Vec::new();
    for event in events.iter().filter(|event| event.event_id > previous_started) {
        if let Some(A::WorkflowExecutionUpdateAdmittedEventAttributes(admitted)) = &event.attributes {
            asked.push((admitted.request.clone().expect("an admission has a request"), event.event_id));
        }
    }
    for message in messages {
        let Some(SequencingId::EventId(after)) = message.sequencing_id else { panic!("a request has its place") };
        let body = message.body.as_ref().expect("a request has a body");
        asked.push((Request::decode(&body.value[..]).expect("a request can be read"), after));
    }
    let (mut commands, mut said) = (Vec::new(), Vec::new());
    for (request, after) in asked {
        let meta = request.meta.clone().expect("a request has an id");
        let id = meta.update_id.clone();
        let number = ANSWERS.fetch_add(1, Ordering::Relaxed).to_string();
        if id == NO {
            let failure = Failure { message: number, ..Default::default() };
            let body = Rejection {
                rejected_request_message_id: format!("{id}/request"),
                rejected_request_sequencing_event_id: after,
                rejected_request: Some(request),
                failure: Some(failure),
            };
            said.push(message(&id, "Rejection", &body));
            continue;
        }
        let acceptance = Acceptance {
            accepted_request_message_id: format!("{id}/request"),
            accepted_request_sequencing_event_id: after,
            accepted_request: Some(request),
        };
        let payload = Payload { data: number.into_bytes().into(), ..Default::default() };
        let outcome = Outcome { value: Some(Value::Success(Payloads { payloads: vec![payload] })) };
        let response = Response { meta: Some(meta), outcome: Some(outcome) };
        for message in [message(&id, "Acceptance", &acceptance), message(&id, "Response", &response)] {
            commands.push(place(&message.id));
            said.push(message);
        }
    }
    (commands, said)
}

fn message(update: &str, kind: &str, body: &impl prost::Message) -> Message {
    let type_url = format!("type.googleapis.com/temporal.api.update.v1.{kind}");
    Message {
        id: format!("{update}/{kind}"),
        protocol_instance_id: update.to_owned(),
        body: Some(prost_types::Any { type_url, value: body.encode_to_vec() }),
        ..Default::default()
    }
}

fn place(message_id: &str) -> Command {
    let attributes = ProtocolMessageCommandAttributes { message_id: message_id.to_owned() };
    Command {
        command_type: CommandType::ProtocolMessage as i32,
        attributes: Some(C::ProtocolMessageCommandAttributes(attributes)),
        ..Default::default()
    }
}

/// One acceptance and one completion of what was accepted, no trace of what was rejected, and no answer that history
/// does not have. `answers` are those of one workflow; `None` says that the admission is stored.
pub fn check(events: &[HistoryEvent], answers: &[(&str, Option<&Outcome>)]) -> Result<(), String> {
    let mut admitted: BTreeMap<&str, usize> = BTreeMap::new();
    let mut accepted: BTreeMap<&str, Vec<i64>> = BTreeMap::new();
    let mut completed: BTreeMap<&str, Vec<(i64, &Option<Outcome>)>> = BTreeMap::new();
    for event in events {
        match &event.attributes {
            Some(A::WorkflowExecutionUpdateAdmittedEventAttributes(a)) => {
                let meta = a.request.as_ref().and_then(|request| request.meta.as_ref());
                *admitted.entry(meta.map_or("", |meta| &meta.update_id)).or_default() += 1;
            }
            Some(A::WorkflowExecutionUpdateAcceptedEventAttributes(a)) => {
                accepted.entry(&a.protocol_instance_id).or_default().push(event.event_id);
            }
            Some(A::WorkflowExecutionUpdateCompletedEventAttributes(a)) => {
                let id = a.meta.as_ref().map_or("", |meta| &meta.update_id);
                completed.entry(id).or_default().push((a.accepted_event_id, &a.outcome));
            }
            _ => {}
        }
    }
    if admitted.keys().copied().collect::<Vec<_>>() != [LATER] || admitted.values().any(|times| *times != 1) {
        return Err(format!("admitted in history: {admitted:?}"));
    }
    for id in [YES, LATER] {
        match (accepted.remove(id).as_deref(), completed.remove(id).as_deref()) {
            (Some([acceptance]), Some([(answered, outcome)])) if answered == acceptance => {
                let told = answers.iter().filter(|(told, _)| *told == id).filter_map(|(_, outcome)| *outcome);
                if let Some(other) = told.into_iter().find(|told| outcome.as_ref() != Some(*told)) {
                    return Err(format!("update {id} was answered {other:?}, history says {outcome:?}"));
                }
            }
            (acceptances, outcomes) => {
                return Err(format!("update {id} was accepted by {acceptances:?} and completed by {outcomes:?}"));
            }
        }
    }
    if !accepted.is_empty() || !completed.is_empty() {
        return Err(format!("history has {accepted:?} and {completed:?}, which were never accepted"));
    }
    let is_failure = |outcome: &Outcome| matches!(outcome.value, Some(Value::Failure(_)));
    for (id, outcome) in answers {
        if outcome.is_some_and(|outcome| is_failure(outcome) != (*id == NO)) {
            return Err(format!("update {id} was answered {outcome:?}"));
        }
    }
    for id in [YES, NO, LATER] {
        let count = answers.iter().filter(|(told, outcome)| *told == id && outcome.is_some()).count();
        if count != 2 {
            return Err(format!("update {id} was answered {count} times instead of twice"));
        }
    }
    Ok(())
}
