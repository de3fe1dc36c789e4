//! Updates: the callers, the worker's answers, and what must be found again after a crash.
//!
//! A workflow of kind `Updates` is asked everything in [`UPDATE_CASES`]. Each answer of the worker carries a name used once, so
//! that an answer given a second time, after the first was lost, is seen to be another one. A rejection is kept in memory
//! only: after a crash it may be unknown, and the caller asks again.

use std::{collections::BTreeMap, rc::Rc, time::Duration};

use prost::Message as _;
use segno_proto::{
    command::{Command, ProtocolMessageCommandAttributes, StartTimerCommandAttributes, command::Attributes as Order},
    enums::{CommandType, UpdateWorkflowExecutionLifecycleStage as Stage},
    events::{HistoryEvent, history_event::Attributes},
    failure::{ApplicationFailureInfo, Failure, failure::FailureInfo},
    protocol::{Message, message::SequencingId},
    update::{Acceptance, Input, Meta, Outcome, Rejection, Request, Response, UpdateRef, WaitPolicy, outcome::Value},
    workflowservice::{PollWorkflowExecutionUpdateRequest, UpdateWorkflowExecutionRequest},
};
use tokio::task::JoinSet;
use tonic::{Code, Status};

use super::{
    flows::{RETRY_PAUSE, Shared, insist, is_transient},
    ledger::{Breach, Facts, Kind, UpdateFacts},
};
use crate::wire::{self, CALL_TIMEOUT, Client, NAMESPACE, POLL_TIMEOUT};

/// What the worker does with an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Handler {
    /// Accepts and completes it in one answer.
    Quick,
    /// Accepts it, and completes it when a timer has fired.
    Slow,
    /// Rejects it.
    Refuse,
}

impl Handler {
    const ALL: [Self; 3] = [Self::Quick, Self::Slow, Self::Refuse];

    fn name(self) -> &'static str {
        match self {
            Self::Quick => "quick",
            Self::Slow => "slow",
            Self::Refuse => "refuse",
        }
    }
}

/// Id, handler, and the stage that the caller waits for first.
const UPDATE_CASES: [(&str, Handler, Stage); 7] = [
    ("quick-admitted", Handler::Quick, Stage::Admitted),
    ("quick-completed", Handler::Quick, Stage::Completed),
    ("refuse-accepted", Handler::Refuse, Stage::Accepted),
    ("refuse-admitted", Handler::Refuse, Stage::Admitted),
    ("slow-accepted", Handler::Slow, Stage::Accepted),
    ("slow-admitted", Handler::Slow, Stage::Admitted),
    ("slow-completed", Handler::Slow, Stage::Completed),
];

/// How long a slow update takes.
const SLOW_MS: u64 = 30;
/// Namespace of the bodies of messages.
const TYPE_PREFIX: &str = "type.googleapis.com/temporal.api.update.v1.";

/// The result of a workflow that was asked everything: the updates it completed.
pub fn result() -> String {
    let completed = UPDATE_CASES.iter().filter(|(_, handler, _)| *handler != Handler::Refuse).map(|(id, ..)| *id);
    completed.collect::<Vec<_>>().join(",")
}

/// Asks a workflow everything, all at once or one after the other, and has each answer.
pub async fn ask_all(
    shared: &Rc<Shared>,
    client: &Client,
    id: &str,
    run_id: &str,
    at_once: bool,
) -> Result<(), Breach> {
    let mut asked = JoinSet::new();
    for (update_id, handler, wait) in UPDATE_CASES {
        let wait = if wait == Stage::Admitted && !shared.admits_durably { Stage::Accepted } else { wait };
        let caller = UpdateCaller {
            shared: shared.clone(),
            client: client.clone(),
            id: id.to_owned(),
            run_id: run_id.to_owned(),
            update_id,
            handler,
            is_stored: wait == Stage::Admitted,
            asked_in: 0,
            told_in: 0,
        };
        asked.spawn_local(caller.ask(wait));
        if !at_once {
            done(&mut asked).await?;
        }
    }
    done(&mut asked).await
}

async fn done(asked: &mut JoinSet<Result<(), Breach>>) -> Result<(), Breach> {
    while let Some(answer) = asked.join_next().await {
        answer.unwrap_or_else(|error| Err(Breach::Wrong(format!("a caller of the harness failed: {error}"))))?;
    }
    Ok(())
}

/// Who asks for one update.
struct UpdateCaller {
    shared: Rc<Shared>,
    client: Client,
    id: String,
    run_id: String,
    update_id: &'static str,
    handler: Handler,
    /// Whether its admission is asked for, so that a rejection is stored as well.
    is_stored: bool,
    /// Round in which the last call was made.
    asked_in: u32,
    /// Round in which the call was made that brought the last acknowledgement. An answer may be read only after the crash
    /// that followed it, so this says more than when it was read: the server that answered lived in this round or later.
    told_in: u32,
}

/// How far an update came, as the server says it.
type UpdateProgress = (Stage, Option<Outcome>);

impl UpdateCaller {
    /// Asks until the update is answered, then once more: a repeated call hears the same.
    async fn ask(mut self, wait: Stage) -> Result<(), Breach> {
        // Asks until the server acknowledged something that lasts, and waits for that from then on.
        let mut lasts = false;
        loop {
            let told = if lasts { self.poll().await } else { self.update(wait).await };
            match told {
                Ok((stage, Some(outcome))) => {
                    self.answered(stage, &outcome)?;
                    break;
                }
                Ok((stage @ (Stage::Admitted | Stage::Accepted), None)) => {
                    let is_new = !lasts && (stage == Stage::Accepted || wait == Stage::Admitted);
                    if is_new || stage == Stage::Accepted {
                        self.came_to(stage)?;
                        lasts = true;
                    }
                }
                Ok((stage, None)) => return Err(self.wrong(&format!("is {} without an outcome", stage.as_str_name()))),
                Err(status) if may_repeat(&status) => tokio::time::sleep(RETRY_PAUSE).await,
                Err(status) => return Err(self.refused(&status)),
            }
        }
        loop {
            match self.update(Stage::Completed).await {
                Ok((stage, Some(outcome))) => return self.answered(stage, &outcome),
                Ok(_) => {}
                Err(status) if may_repeat(&status) => tokio::time::sleep(RETRY_PAUSE).await,
                Err(status) => return Err(self.refused(&status)),
            }
        }
    }

    async fn update(&mut self, wait: Stage) -> Result<UpdateProgress, Status> {
        self.asked_in = self.shared.ledger.round();
        let meta = Meta { update_id: self.update_id.to_owned(), identity: "segno-harness".to_owned() };
        let input = Input { name: self.handler.name().to_owned(), args: wire::text(self.update_id), header: None };
        let call = UpdateWorkflowExecutionRequest {
            namespace: NAMESPACE.to_owned(),
            workflow_execution: wire::execution(&self.id, &self.run_id),
            wait_policy: Some(WaitPolicy { lifecycle_stage: wait.into() }),
            request: Some(Request { meta: Some(meta), input: Some(input), ..Default::default() }),
            ..Default::default()
        };
        let reply = self.client.call(call, POLL_TIMEOUT).await?;
        Ok((reply.stage(), reply.outcome))
    }

    async fn poll(&mut self) -> Result<UpdateProgress, Status> {
        self.asked_in = self.shared.ledger.round();
        poll(&mut self.client, &self.id, &self.run_id, self.update_id, Stage::Completed).await
    }

    /// The server acknowledged a stage on the way.
    fn came_to(&mut self, stage: Stage) -> Result<(), Breach> {
        if self.handler == Handler::Refuse && stage != Stage::Admitted {
            return Err(self.wrong("was accepted, though the worker rejects it"));
        }
        self.note(stage, None);
        Ok(())
    }

    /// The server gave an answer, perhaps not the first one.
    fn answered(&mut self, stage: Stage, outcome: &Outcome) -> Result<(), Breach> {
        let text = text_of(outcome);
        let fits = match outcome.value {
            Some(Value::Success(_)) => self.handler != Handler::Refuse && text.starts_with(self.update_id),
            Some(Value::Failure(_)) => self.handler == Handler::Refuse && text.starts_with(REJECTED),
            None => false,
        };
        if !fits || stage != Stage::Completed {
            return Err(self.wrong(&format!("is {} with the outcome `{text}`", stage.as_str_name())));
        }
        if let Some((before, round)) = self.known().and_then(|known| Some((known.outcome?, known.round)))
            && before != text
        {
            return match (self.handler, self.shared.ledger.crashed_since(round)) {
                // Known in memory alone, forgotten in a crash, and given again.
                (Handler::Refuse, _) if !self.is_stored && self.shared.ledger.crashed_since(self.told_in) => Ok(()),
                (_, true) => Err(Breach::Lost(self.name(&format!("was answered `{before}`, and now `{text}`")))),
                (_, false) => Err(self.wrong(&format!("was answered `{before}`, and without a crash `{text}`"))),
            };
        }
        self.note(stage, Some(text));
        Ok(())
    }

    fn note(&mut self, stage: Stage, outcome: Option<String>) {
        self.told_in = self.asked_in;
        self.shared.ledger.note(Kind::Updates, &self.id, &self.run_id, |facts, round| {
            let known = facts.updates.entry(self.update_id.to_owned()).or_default();
            if known.stage < stage as i32 {
                *known = UpdateFacts { stage: stage as i32, round, outcome };
            }
        });
    }

    fn known(&self) -> Option<UpdateFacts> {
        self.shared.ledger.update(&self.id, self.update_id)
    }

    fn refused(&self, status: &Status) -> Breach {
        let text = self.name(&format!("was refused: {:?} {}", status.code(), status.message()));
        // What the workflow's own start says counts as long as nothing was said of the update.
        let crashed = match self.known() {
            Some(known) => self.shared.ledger.crashed_since(known.round),
            None => self.shared.ledger.crashed_since_start(&self.id),
        };
        if status.code() == Code::NotFound && crashed { Breach::Lost(text) } else { Breach::Wrong(text) }
    }

    fn wrong(&self, what: &str) -> Breach {
        Breach::Wrong(self.name(what))
    }

    fn name(&self, what: &str) -> String {
        format!("update {} of {} {what}", self.update_id, self.id)
    }
}

/// A workflow whose task failed a few times in a row takes no updates for a while; that is no verdict either.
fn may_repeat(status: &Status) -> bool {
    is_transient(status) || status.code() == Code::FailedPrecondition
}

async fn poll(
    client: &mut Client,
    id: &str,
    run_id: &str,
    update_id: &str,
    wait: Stage,
) -> Result<UpdateProgress, Status> {
    let call = PollWorkflowExecutionUpdateRequest {
        namespace: NAMESPACE.to_owned(),
        update_ref: Some(UpdateRef {
            workflow_execution: wire::execution(id, run_id),
            update_id: update_id.to_owned(),
        }),
        identity: "segno-harness".to_owned(),
        wait_policy: Some(WaitPolicy { lifecycle_stage: wait.into() }),
    };
    let timeout: Duration = if wait == Stage::Completed { POLL_TIMEOUT } else { CALL_TIMEOUT };
    let reply = client.call(call, timeout).await?;
    Ok((reply.stage(), reply.outcome))
}

/// How the failure of every rejection begins.
const REJECTED: &str = "rejected by";

fn text_of(outcome: &Outcome) -> String {
    match &outcome.value {
        Some(Value::Success(payloads)) => wire::untext(Some(payloads)),
        Some(Value::Failure(failure)) => failure.message.clone(),
        None => String::new(),
    }
}

/// What the worker says about updates: those that came with the task or with new events, and those whose time is over.
pub fn answer(
    messages: &[Message],
    events: &[HistoryEvent],
    previous_started: i64,
    identity: &str,
) -> (Vec<Command>, Vec<Message>) {
    let mut said = WorkerAnswer { commands: Vec::new(), messages: Vec::new(), identity };
    let completed: Vec<_> = events.iter().filter_map(completed_id).collect();
    for event in events {
        match &event.attributes {
            // An update whose admission was stored comes as an event, without a message.
            Some(Attributes::WorkflowExecutionUpdateAdmittedEventAttributes(admitted))
                if event.event_id > previous_started =>
            {
                said.take(admitted.request.clone().unwrap_or_default(), event.event_id);
            }
            Some(Attributes::TimerFiredEventAttributes(fired)) if !completed.contains(&fired.timer_id.as_str()) => {
                said.complete(&fired.timer_id);
            }
            _ => {}
        }
    }
    for message in messages {
        let body = message.body.as_ref().map(|body| &body.value[..]).unwrap_or_default();
        let sequence = match message.sequencing_id {
            Some(SequencingId::EventId(id)) => id,
            _ => 0,
        };
        said.take(Request::decode(body).unwrap_or_default(), sequence);
    }
    (said.commands, said.messages)
}

/// The result, once the client says that it has all its answers.
pub fn outcome(events: &[HistoryEvent], signals: &str) -> Option<String> {
    let mut ids: Vec<_> = events.iter().filter_map(completed_id).collect();
    ids.sort_unstable();
    (signals == "finish").then(|| ids.join(","))
}

/// Messages and commands of one answer.
struct WorkerAnswer<'a> {
    commands: Vec<Command>,
    messages: Vec<Message>,
    identity: &'a str,
}

impl WorkerAnswer<'_> {
    fn take(&mut self, asked: Request, sequence: i64) {
        let id = asked.meta.as_ref().map(|meta| meta.update_id.clone()).unwrap_or_default();
        let name = asked.input.as_ref().map(|input| input.name.as_str()).unwrap_or_default();
        let handler = Handler::ALL.into_iter().find(|handler| handler.name() == name);
        let request_id = format!("{id}/request");
        if handler.is_none_or(|handler| handler == Handler::Refuse) {
            let info = ApplicationFailureInfo { r#type: "Rejected".to_owned(), ..Default::default() };
            let failure = Failure {
                message: format!("{REJECTED} {}", self.identity),
                failure_info: Some(FailureInfo::ApplicationFailureInfo(info)),
                ..Default::default()
            };
            let body = Rejection {
                rejected_request_message_id: request_id,
                rejected_request_sequencing_event_id: sequence,
                rejected_request: Some(asked),
                failure: Some(failure),
            };
            return self.messages.push(message(&id, "Rejection", &body));
        }
        let body = Acceptance {
            accepted_request_message_id: request_id,
            accepted_request_sequencing_event_id: sequence,
            accepted_request: Some(asked),
        };
        self.say(message(&id, "Acceptance", &body));
        match handler {
            Some(Handler::Slow) => {
                let delay = Some(wire::millis(SLOW_MS));
                let timer = StartTimerCommandAttributes { timer_id: id, start_to_fire_timeout: delay };
                self.commands.push(wire::command(CommandType::StartTimer, Order::StartTimerCommandAttributes(timer)));
            }
            _ => self.complete(&id),
        }
    }

    fn complete(&mut self, id: &str) {
        let body = Response {
            meta: Some(Meta { update_id: id.to_owned(), identity: "segno-harness".to_owned() }),
            outcome: Some(Outcome { value: wire::text(&format!("{id} by {}", self.identity)).map(Value::Success) }),
        };
        self.say(message(id, "Response", &body));
    }

    /// A message, and the command that gives it its place.
    fn say(&mut self, message: Message) {
        let attributes = ProtocolMessageCommandAttributes { message_id: message.id.clone() };
        self.commands
            .push(wire::command(CommandType::ProtocolMessage, Order::ProtocolMessageCommandAttributes(attributes)));
        self.messages.push(message);
    }
}

fn message(update_id: &str, kind: &str, body: &impl prost::Message) -> Message {
    Message {
        id: format!("{update_id}/{kind}"),
        protocol_instance_id: update_id.to_owned(),
        body: Some(prost_types::Any { type_url: format!("{TYPE_PREFIX}{kind}"), value: body.encode_to_vec() }),
        ..Default::default()
    }
}

fn completed_id(event: &HistoryEvent) -> Option<&str> {
    match &event.attributes {
        Some(Attributes::WorkflowExecutionUpdateCompletedEventAttributes(completed)) => {
            completed.meta.as_ref().map(|meta| meta.update_id.as_str())
        }
        _ => None,
    }
}

/// What a history says of one update.
#[derive(Default)]
struct Trace {
    admitted: usize,
    accepted: Vec<i64>,
    /// The acceptance that each completion names, and the outcome.
    completed: Vec<(i64, String)>,
}

fn traces(events: &[HistoryEvent]) -> BTreeMap<&str, Trace> {
    let mut traces: BTreeMap<&str, Trace> = BTreeMap::new();
    for event in events {
        match &event.attributes {
            Some(Attributes::WorkflowExecutionUpdateAdmittedEventAttributes(admitted)) => {
                let meta = admitted.request.as_ref().and_then(|asked| asked.meta.as_ref());
                traces.entry(meta.map_or("", |meta| &meta.update_id)).or_default().admitted += 1;
            }
            Some(Attributes::WorkflowExecutionUpdateAcceptedEventAttributes(accepted)) => {
                traces.entry(&accepted.protocol_instance_id).or_default().accepted.push(event.event_id);
            }
            Some(Attributes::WorkflowExecutionUpdateCompletedEventAttributes(completed)) => {
                let id = completed_id(event).unwrap_or_default();
                let text = completed.outcome.as_ref().map(text_of).unwrap_or_default();
                traces.entry(id).or_default().completed.push((completed.accepted_event_id, text));
            }
            _ => {}
        }
    }
    traces
}

/// Every way in which a history breaks what was promised of updates. `is_settled`: nothing waits to become history.
pub fn check(
    facts: &Facts,
    events: &[HistoryEvent],
    is_settled: bool,
    lost: &mut Vec<String>,
    broken: &mut Vec<String>,
) {
    let traces = traces(events);
    let refuses = |id: &str| UPDATE_CASES.iter().any(|(asked, handler, _)| *asked == id && *handler == Handler::Refuse);
    for (id, trace) in &traces {
        if refuses(id) && !(trace.accepted.is_empty() && trace.completed.is_empty()) {
            broken.push(format!("update {id} was rejected, yet history accepts it"));
        }
        if trace.admitted > 1 {
            broken.push(format!("update {id} was admitted {} times", trace.admitted));
        }
        if trace.accepted.len() > 1 || trace.completed.len() > 1 {
            let (accepted, completed) = (trace.accepted.len(), trace.completed.len());
            broken.push(format!("update {id} was accepted {accepted} times and completed {completed} times"));
        }
        if trace.completed.iter().any(|(acceptance, _)| !trace.accepted.contains(acceptance)) {
            broken.push(format!("update {id} was completed without being accepted"));
        }
    }
    for (id, known) in facts.updates.iter().filter(|(id, _)| !refuses(id)) {
        let nothing = Trace::default();
        let trace = traces.get(id.as_str()).unwrap_or(&nothing);
        let round = known.round;
        if known.stage >= Stage::Accepted as i32 && trace.accepted.is_empty() {
            lost.push(format!("update {id}, accepted in round {round}, is lost"));
        } else if is_settled && trace.accepted.is_empty() && trace.admitted == 0 {
            lost.push(format!("update {id}, admitted in round {round}, is lost"));
        }
        match (&known.outcome, trace.completed.first()) {
            (Some(_), None) => lost.push(format!("the outcome of update {id}, given in round {round}, is lost")),
            (Some(told), Some((_, stored))) if told != stored => {
                lost.push(format!("update {id} was answered `{told}` in round {round}, history says `{stored}`"));
            }
            _ => {}
        }
    }
}

/// Asks the server how the acknowledged updates of a workflow stand.
pub async fn ask_again(client: &mut Client, id: &str, run_id: &str, facts: &Facts) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for (update_id, handler, _) in UPDATE_CASES {
        let Some(known) = facts.updates.get(update_id).filter(|_| handler != Handler::Refuse) else { continue };
        let round = known.round;
        let told = insist(async || poll(client, id, run_id, update_id, Stage::Admitted).await).await;
        match told {
            Ok((stage, outcome)) => {
                let text = outcome.as_ref().map(text_of);
                if (stage as i32) < known.stage || (known.outcome.is_some() && known.outcome != text) {
                    breaches.push(Breach::Lost(format!(
                        "update {update_id}, {known:?}, is now {} with the outcome {text:?}",
                        stage.as_str_name()
                    )));
                }
            }
            Err(status) if status.code() == Code::NotFound => {
                breaches.push(Breach::Lost(format!("update {update_id}, acknowledged in round {round}, is unknown")));
            }
            Err(status) => breaches.push(Breach::Wrong(format!("update {update_id} cannot be asked for: {status}"))),
        }
    }
    breaches
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use segno_proto::events::{
        WorkflowExecutionUpdateAcceptedEventAttributes, WorkflowExecutionUpdateAdmittedEventAttributes,
        WorkflowExecutionUpdateCompletedEventAttributes,
    };

    use super::*;

    fn meta(id: &str) -> Option<Meta> {
        Some(Meta { update_id: id.to_owned(), identity: String::new() })
    }

    fn events() -> Vec<HistoryEvent> {
        let admitted = |id| {
            Attributes::WorkflowExecutionUpdateAdmittedEventAttributes(WorkflowExecutionUpdateAdmittedEventAttributes {
                request: Some(Request { meta: meta(id), ..Default::default() }),
                ..Default::default()
            })
        };
        let accepted = |id: &str| {
            Attributes::WorkflowExecutionUpdateAcceptedEventAttributes(WorkflowExecutionUpdateAcceptedEventAttributes {
                protocol_instance_id: id.to_owned(),
                ..Default::default()
            })
        };
        let completed = Attributes::WorkflowExecutionUpdateCompletedEventAttributes(
            WorkflowExecutionUpdateCompletedEventAttributes {
                meta: meta("quick-completed"),
                accepted_event_id: 3,
                outcome: Some(Outcome { value: wire::text("one").map(Value::Success) }),
            },
        );
        let all = [admitted("quick-admitted"), accepted("slow-accepted"), accepted("quick-completed"), completed];
        let event =
            |(id, attributes)| HistoryEvent { event_id: id, attributes: Some(attributes), ..Default::default() };
        (1..).zip(all).map(event).collect()
    }

    fn breaches(facts: &Facts, events: &[HistoryEvent], is_settled: bool) -> (usize, usize) {
        let (mut lost, mut broken) = (Vec::new(), Vec::new());
        check(facts, events, is_settled, &mut lost, &mut broken);
        (lost.len(), broken.len())
    }

    fn facts(outcome: &str) -> Facts {
        let fact = |stage: Stage, outcome: Option<&str>| UpdateFacts {
            stage: stage as i32,
            round: 3,
            outcome: outcome.map(str::to_owned),
        };
        Facts {
            kind: Kind::Updates,
            runs: BTreeSet::new(),
            round: 1,
            signals: BTreeMap::new(),
            workflow_tasks: BTreeMap::new(),
            activities: BTreeMap::new(),
            updates: BTreeMap::from([
                ("quick-admitted".to_owned(), fact(Stage::Admitted, None)),
                ("slow-accepted".to_owned(), fact(Stage::Accepted, None)),
                ("quick-completed".to_owned(), fact(Stage::Completed, Some(outcome))),
            ]),
            result: None,
        }
    }

    #[test]
    fn every_missing_stage_is_noticed() {
        assert_eq!(breaches(&facts("one"), &events(), true), (0, 0));
        for lost in 0..4 {
            let mut events = events();
            events.remove(lost);
            assert!(breaches(&facts("one"), &events, true).0 > 0, "without event {}", lost + 1);
        }
        // While a worker has a task, an admission may wait to become history.
        assert_eq!(breaches(&facts("one"), &events()[1..], false), (0, 0));
        assert_eq!(breaches(&facts("two"), &events(), true), (1, 0), "another outcome was told");
    }

    #[test]
    fn repeats_and_rejections_are_noticed() {
        for again in 0..4 {
            let mut events = events();
            events.push(HistoryEvent { event_id: 5, ..events[again].clone() });
            assert_eq!(breaches(&facts("one"), &events, true).1, 1, "event {} twice", again + 1);
        }
        let mut events = events();
        if let Some(Attributes::WorkflowExecutionUpdateAcceptedEventAttributes(it)) = &mut events[1].attributes {
            it.protocol_instance_id = "refuse-admitted".to_owned();
        }
        assert_eq!(breaches(&facts("one"), &events, true), (1, 1), "what is rejected is never accepted");
    }

    #[test]
    fn the_worker_answers_each_update_as_its_handler_says() {
        let asked = |id: &str, handler: Handler| Request {
            meta: meta(id),
            input: Some(Input { name: handler.name().to_owned(), ..Default::default() }),
            ..Default::default()
        };
        let messages = Handler::ALL.map(|handler| message(handler.name(), "Request", &asked(handler.name(), handler)));
        let (commands, said) = answer(&messages, &[], 0, "task-1");
        let said: Vec<_> = said.iter().map(|message| message.id.as_str()).collect();
        assert_eq!(said, ["quick/Acceptance", "quick/Response", "slow/Acceptance", "refuse/Rejection"]);
        let kinds: Vec<_> = commands.iter().map(Command::command_type).collect();
        let message = CommandType::ProtocolMessage;
        assert_eq!(kinds, [message, message, message, CommandType::StartTimer]);
    }
}
