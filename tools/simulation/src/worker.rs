//! Workers as models: they poll, take their time, answer, fail, forget, and repeat answers that were lost. A worker checks what an
//! SDK relies on: that its history has no gaps, and never changes where an answer was acknowledged.

use std::{cell::RefCell, collections::BTreeMap, ops::Range, rc::Rc};

use prost::Message as _;
use segno_proto::{
    command::{Command, ProtocolMessageCommandAttributes, command::Attributes as Asked},
    common::{Payload, Payloads, WorkflowExecution},
    enums::{CommandType, EventType, TaskQueueKind},
    events::{HistoryEvent, history_event::Attributes as A},
    failure::{ApplicationFailureInfo, Failure, failure::FailureInfo},
    nanos_duration,
    protocol::{Message, message::SequencingId},
    query::{WorkflowQuery, WorkflowQueryResult},
    taskqueue::{StickyExecutionAttributes, TaskQueue},
    update::{Acceptance, Outcome, Rejection, Request, Response, outcome::Value},
    workflowservice::{
        GetWorkflowExecutionHistoryRequest, PollActivityTaskQueueRequest, PollActivityTaskQueueResponse,
        PollWorkflowTaskQueueRequest, PollWorkflowTaskQueueResponse, RecordActivityTaskHeartbeatRequest,
        RespondActivityTaskCanceledRequest, RespondActivityTaskCompletedRequest, RespondActivityTaskFailedRequest,
        RespondQueryTaskCompletedRequest, RespondWorkflowTaskCompletedRequest, RespondWorkflowTaskFailedRequest,
        respond_workflow_task_completed_request::Capabilities,
    },
};

use crate::{
    Millis,
    executor::TaskId,
    ledger::WorkerAnswer,
    random::Random,
    scenario::{ActivityPlan, Scenario, Step},
    trace::Trace,
    workflow::{self, QUEUE, SCRIPT, closes, nanos, queue},
    world::{CallFailure, Link, World},
};

/// The namespace of everything.
pub const NAMESPACE: &str = "default";
/// How often an answer is repeated.
const REPEATS: usize = 12;
/// How long a task may wait for its sticky worker.
const STICKY: Millis = 5000;

/// A worker process.
pub struct Worker {
    world: Rc<World>,
    link: Rc<Link>,
    name: String,
    random: RefCell<Random>,
    /// Events of runs that it has seen.
    cache: RefCell<BTreeMap<String, Vec<HistoryEvent>>>,
    tasks: RefCell<Vec<TaskId>>,
    is_sticky: bool,
}

impl Worker {
    /// Starts a process with this name.
    pub fn start(world: &Rc<World>, name: String) -> Rc<Self> {
        let mut random = Random::stream(world.scenario.seed, &name);
        let is_sticky = random.per_mille(600);
        world.note(&format!("{name} starts{}", if is_sticky { ", with a sticky queue" } else { "" }));
        let worker = Rc::new(Self {
            world: world.clone(),
            link: Link::new(world),
            name,
            random: RefCell::new(random),
            cache: RefCell::default(),
            tasks: RefCell::default(),
            is_sticky,
        });
        worker.spawn(worker.clone().poll_workflow_tasks(QUEUE.to_owned()));
        worker.spawn(worker.clone().poll_workflow_tasks(QUEUE.to_owned()));
        if is_sticky {
            worker.spawn(worker.clone().poll_workflow_tasks(worker.sticky_queue()));
        }
        for _ in 0..3 {
            worker.spawn(worker.clone().poll_activities());
        }
        worker
    }

    /// Its connection.
    pub fn link(&self) -> &Link {
        &self.link
    }

    /// The process dies.
    pub fn kill(&self) {
        self.world.note(&format!("{} dies", self.name));
        for task in self.tasks.take() {
            self.world.executor.abort(task);
        }
        self.link.close();
    }

    fn spawn(&self, work: impl Future<Output = ()> + 'static) {
        let task = self.world.executor.spawn(work);
        self.tasks.borrow_mut().push(task);
    }

    fn sticky_queue(&self) -> String {
        format!("{}-sticky", self.name)
    }

    fn draw<T>(&self, draw: impl FnOnce(&mut Random) -> T) -> T {
        draw(&mut self.random.borrow_mut())
    }

    async fn sleep(&self, least: Millis, most: Millis) {
        let time = self.draw(|random| random.between(least, most));
        self.world.executor.sleep(time).await;
    }

    async fn poll_workflow_tasks(self: Rc<Self>, name: String) {
        loop {
            let is_sticky = name != QUEUE;
            let task_queue = match is_sticky {
                false => queue(&name),
                true => Some(TaskQueue {
                    name: name.clone(),
                    kind: TaskQueueKind::Sticky as i32,
                    normal_name: QUEUE.to_owned(),
                }),
            };
            let poll = PollWorkflowTaskQueueRequest {
                namespace: NAMESPACE.to_owned(),
                task_queue,
                identity: self.name.clone(),
                ..Default::default()
            };
            let timeout = self.draw(|random| random.between(4000, 15_000));
            match self.link.call(&poll, timeout).await {
                Ok(task) if task.task_token.is_empty() => {}
                Ok(task) => {
                    let mut next = Some(task);
                    while let Some(task) = next {
                        next = self.clone().work_on(task).await;
                    }
                }
                Err(_) => self.sleep(50, 1000).await,
            }
        }
    }

    /// Answers a workflow task. Gives the next one if the response brings it.
    async fn work_on(self: Rc<Self>, task: PollWorkflowTaskQueueResponse) -> Option<PollWorkflowTaskQueueResponse> {
        let run = task.workflow_execution.clone().unwrap_or_default();
        if task.workflow_type.as_ref().is_some_and(|kind| kind.name == SCRIPT) {
            self.world.finding(format!("{}: a worker has a task of a script", run.workflow_id));
            return None;
        }
        let (events, cached) = self.history_of(&task, &run).await?;
        // The task's own two events belong to history once it is completed: a later attempt has others in their place.
        self.check_history(&run, &events, cached..events.len().saturating_sub(2).max(cached));
        if let Some(query) = &task.query {
            self.answer_query(&task, query, &events).await;
            return None;
        }
        if events.last().map(HistoryEvent::event_type) != Some(EventType::WorkflowTaskStarted) {
            let last = events.last().map(HistoryEvent::event_type);
            self.world.finding(format!("{}: a workflow task whose history ends with {last:?}", run.workflow_id));
        }
        match self.draw(|random| random.below(100)) {
            0 => self.sleep(2000, 12_000).await,
            1 | 2 => return self.fail(&task, &run).await,
            _ => self.sleep(1, 60).await,
        }
        self.complete(&task, &run, &events).await
    }

    /// The whole history of a task: from the task, from the cache, from the server. And how many of its events are from the cache, in
    /// which those of an attempt that expired may be.
    async fn history_of(
        &self,
        task: &PollWorkflowTaskQueueResponse,
        run: &WorkflowExecution,
    ) -> Option<(Vec<HistoryEvent>, usize)> {
        let news = task.history.clone().unwrap_or_default().events();
        let Ok(mut news) = news else {
            self.world.finding(format!("{}: a history that cannot be read", run.workflow_id));
            return None;
        };
        let mut token = task.next_page_token.clone();
        while !token.is_empty() {
            news.extend(self.page(run, &mut token).await?);
        }
        let first = news.first().map_or(1, |event| event.event_id);
        if first == 1 && !news.is_empty() {
            self.cache.borrow_mut().insert(run.run_id.clone(), news.clone());
            return Some((news, 0));
        }
        let known = {
            let mut cache = self.cache.borrow_mut();
            let known = cache.entry(run.run_id.clone()).or_default();
            if !news.is_empty() {
                known.truncate(first as usize - 1);
            }
            known.clone()
        };
        let (known, cached) = match known.len() as i64 + 1 >= first && !known.is_empty() {
            true => {
                let cached = known.len();
                (known, cached)
            }
            // The worker has not seen it, or lost it: it asks for everything, up to the task.
            false => {
                let mut all = Vec::new();
                let mut token = bytes::Bytes::new();
                loop {
                    all.extend(self.page(run, &mut token).await?);
                    if token.is_empty() {
                        break;
                    }
                }
                if !news.is_empty() {
                    all.truncate(first as usize - 1);
                }
                (all, 0)
            }
        };
        let mut events = known;
        events.extend(news);
        self.cache.borrow_mut().insert(run.run_id.clone(), events.clone());
        Some((events, cached))
    }

    async fn page(&self, run: &WorkflowExecution, token: &mut bytes::Bytes) -> Option<Vec<HistoryEvent>> {
        let request = GetWorkflowExecutionHistoryRequest {
            namespace: NAMESPACE.to_owned(),
            execution: Some(run.clone()),
            next_page_token: token.clone(),
            ..Default::default()
        };
        let page = self.link.call(&request, 3000).await.ok()?;
        *token = page.next_page_token;
        page.history.unwrap_or_default().events().ok()
    }

    /// Ids without gaps, and nothing that was settled has changed among the checked events.
    fn check_history(&self, run: &WorkflowExecution, events: &[HistoryEvent], checked: Range<usize>) {
        let gap = events.iter().enumerate().find(|(place, event)| event.event_id != *place as i64 + 1);
        if let Some((place, event)) = gap {
            let text = format!("{}: a worker sees event {} in place {}", run.workflow_id, event.event_id, place + 1);
            return self.world.finding(text);
        }
        let ledger = self.world.ledger.borrow();
        let Some(settled) = ledger.settled.get(&run.run_id) else { return };
        let changed = events[checked]
            .iter()
            .find(|event| settled.get(&event.event_id).is_some_and(|hash| *hash != settled_hash(event)));
        if let Some(event) = changed {
            self.world.finding(format!("{}: event {} has changed: {event:?}", run.workflow_id, event.event_id));
        }
    }

    async fn answer_query(&self, task: &PollWorkflowTaskQueueResponse, query: &WorkflowQuery, events: &[HistoryEvent]) {
        self.sleep(1, 30).await;
        let answer = RespondQueryTaskCompletedRequest {
            namespace: NAMESPACE.to_owned(),
            task_token: task.task_token.clone(),
            completed_type: segno_proto::enums::QueryResultType::Answered as i32,
            query_result: query_result(query, events).answer,
            ..Default::default()
        };
        let _ = self.link.insist(&answer, 3).await;
    }

    async fn fail(
        &self,
        task: &PollWorkflowTaskQueueResponse,
        run: &WorkflowExecution,
    ) -> Option<PollWorkflowTaskQueueResponse> {
        self.world.note(&format!("{} fails a workflow task of {}", self.name, run.workflow_id));
        let answer = RespondWorkflowTaskFailedRequest {
            namespace: NAMESPACE.to_owned(),
            task_token: task.task_token.clone(),
            failure: Some(Failure { message: "by chance".to_owned(), ..Default::default() }),
            identity: self.name.clone(),
            ..Default::default()
        };
        let _ = self.link.insist(&answer, REPEATS).await;
        self.evict(run);
        None
    }

    /// Forgets a run whose task was not completed, as SDKs do: a later attempt has other events in the place of the task's own.
    fn evict(&self, run: &WorkflowExecution) {
        self.cache.borrow_mut().remove(&run.run_id);
    }

    async fn complete(
        self: Rc<Self>,
        task: &PollWorkflowTaskQueueResponse,
        run: &WorkflowExecution,
        events: &[HistoryEvent],
    ) -> Option<PollWorkflowTaskQueueResponse> {
        let identity = self.world.ledger.borrow_mut().identity(&self.name);
        let name = task.workflow_type.clone().unwrap_or_default().name;
        let decision = workflow::decide(&self.world.scenario, &name, &run.workflow_id, events);
        let (mut commands, messages) =
            answer_updates(&task.messages, events, task.previous_started_event_id, &identity);
        commands.extend(decision.commands);
        let is_closed = commands.iter().any(closes);
        let answer = RespondWorkflowTaskCompletedRequest {
            namespace: NAMESPACE.to_owned(),
            task_token: task.task_token.clone(),
            identity: identity.clone(),
            sticky_attributes: (self.is_sticky && !is_closed).then(|| self.sticky()),
            return_new_workflow_task: self.draw(|random| random.per_mille(500)),
            force_create_new_workflow_task: decision.wants_task,
            query_results: task.queries.iter().map(|(id, query)| (id.clone(), query_result(query, events))).collect(),
            capabilities: Some(Capabilities { discard_speculative_workflow_task_with_events: true }),
            commands,
            messages,
            ..Default::default()
        };
        self.world.note(&format!(
            "{identity} answers a workflow task of {} ({} events, {} commands, {} messages)",
            run.workflow_id,
            events.len(),
            answer.commands.len(),
            answer.messages.len()
        ));
        let expected = WorkerAnswer {
            run_id: run.run_id.clone(),
            is_activity: false,
            is_acknowledged: false,
            may_leave_no_trace: answer.commands.is_empty(),
        };
        self.world.ledger.borrow_mut().answers.insert(identity.clone(), expected);
        match self.link.insist(&answer, REPEATS).await {
            Ok(reply) => {
                self.settle(&identity, run, events);
                for activity in reply.activity_tasks {
                    self.spawn(self.clone().execute(activity));
                }
                reply.workflow_task
            }
            // Events came that the worker has not seen: it gets another task with them.
            Err(CallFailure::Status(status)) if is_closed && status.message() == "UnhandledCommand" => {
                self.world.note(&format!("{identity} must look again before it ends the workflow"));
                None
            }
            Err(CallFailure::Status(status)) if status.code() == tonic::Code::InvalidArgument => {
                self.world.finding(format!("an answer of {} is refused: {}", run.workflow_id, status.message()));
                None
            }
            Err(failure) => {
                self.world.note(&format!("{identity} is not taken: {:?}", failure.code()));
                self.evict(run);
                None
            }
        }
    }

    /// The answer was taken: what the worker saw has become durable.
    fn settle(&self, identity: &str, run: &WorkflowExecution, events: &[HistoryEvent]) {
        self.world.note(&format!("{identity} is taken"));
        let mut ledger = self.world.ledger.borrow_mut();
        let Some(answer) = ledger.answers.get_mut(identity) else { return };
        answer.is_acknowledged = true;
        // Of a task that left no trace, the events may be given up.
        if answer.may_leave_no_trace {
            return;
        }
        let settled = ledger.settled.entry(run.run_id.clone()).or_default();
        settled.extend(events.iter().map(|event| (event.event_id, settled_hash(event))));
    }

    fn sticky(&self) -> StickyExecutionAttributes {
        StickyExecutionAttributes {
            worker_task_queue: Some(TaskQueue {
                name: self.sticky_queue(),
                kind: TaskQueueKind::Sticky as i32,
                normal_name: QUEUE.to_owned(),
            }),
            schedule_to_start_timeout: Some(nanos_duration(nanos(STICKY))),
        }
    }

    async fn poll_activities(self: Rc<Self>) {
        loop {
            let poll = PollActivityTaskQueueRequest {
                namespace: NAMESPACE.to_owned(),
                task_queue: queue(QUEUE),
                identity: self.name.clone(),
                ..Default::default()
            };
            let timeout = self.draw(|random| random.between(4000, 15_000));
            match self.link.call(&poll, timeout).await {
                Ok(task) if task.task_token.is_empty() => {}
                Ok(task) => self.clone().execute(task).await,
                Err(_) => self.sleep(50, 1000).await,
            }
        }
    }

    async fn execute(self: Rc<Self>, task: PollActivityTaskQueueResponse) {
        let run = task.workflow_execution.clone().unwrap_or_default();
        let Some(plan) = plan_of(&self.world.scenario, &task) else {
            return self.world.finding(format!("{}: an activity that its plan does not have", run.workflow_id));
        };
        let identity = self.world.ledger.borrow_mut().identity(&self.name);
        let what = format!("activity {} of {}, attempt {}", task.activity_id, run.workflow_id, task.attempt);
        self.world.note(&format!("{identity} executes {what}"));
        if self.draw(|random| random.per_mille(20)) {
            return self.world.note(&format!("{identity} forgets it"));
        }
        let slice = if plan.heartbeat > 0 { plan.heartbeat / 3 } else { plan.work };
        let mut left = plan.work;
        while left > 0 {
            self.world.executor.sleep(left.min(slice)).await;
            left -= left.min(slice);
            if plan.heartbeat > 0 {
                let beat = RecordActivityTaskHeartbeatRequest {
                    namespace: NAMESPACE.to_owned(),
                    task_token: task.task_token.clone(),
                    identity: identity.clone(),
                    ..Default::default()
                };
                match self.link.call(&beat, 1000).await {
                    Ok(reply) if reply.cancel_requested => return self.cancelled(&task, &identity).await,
                    Err(CallFailure::Status(status)) if status.code() == tonic::Code::NotFound => {
                        return self.world.note(&format!("{identity} has lost its activity"));
                    }
                    _ => {}
                }
            }
        }
        if task.attempt <= plan.failures {
            let answer = RespondActivityTaskFailedRequest {
                namespace: NAMESPACE.to_owned(),
                task_token: task.task_token.clone(),
                identity,
                failure: Some(retryable()),
                ..Default::default()
            };
            let _ = self.link.insist(&answer, REPEATS).await;
            return;
        }
        let answer = RespondActivityTaskCompletedRequest {
            namespace: NAMESPACE.to_owned(),
            task_token: task.task_token.clone(),
            identity: identity.clone(),
            result: text(&identity),
            ..Default::default()
        };
        let expected = WorkerAnswer {
            run_id: run.run_id.clone(),
            is_activity: true,
            is_acknowledged: false,
            may_leave_no_trace: false,
        };
        self.world.ledger.borrow_mut().answers.insert(identity.clone(), expected);
        let outcome = self.link.insist(&answer, REPEATS).await;
        self.world.note(&format!("{identity}: {}", if outcome.is_ok() { "its result is taken" } else { "not taken" }));
        if outcome.is_ok()
            && let Some(answer) = self.world.ledger.borrow_mut().answers.get_mut(&identity)
        {
            answer.is_acknowledged = true;
        }
    }

    async fn cancelled(&self, task: &PollActivityTaskQueueResponse, identity: &str) {
        self.world.note(&format!("{identity} cancels its activity"));
        let answer = RespondActivityTaskCanceledRequest {
            namespace: NAMESPACE.to_owned(),
            task_token: task.task_token.clone(),
            identity: identity.to_owned(),
            ..Default::default()
        };
        let _ = self.link.insist(&answer, REPEATS).await;
    }
}

/// What the plan of a workflow says of one of its activities.
fn plan_of(scenario: &Scenario, task: &PollActivityTaskQueueResponse) -> Option<ActivityPlan> {
    let name = &task.workflow_type.as_ref()?.name;
    if name == SCRIPT {
        let plain = ActivityPlan { work: 100, start_to_close: 5000, heartbeat: 0, failures: 0, is_eager: false };
        return Some(plain);
    }
    let name = name.strip_prefix("plan")?;
    let plan = scenario.workflows.get(name.parse::<usize>().ok()?)?;
    match plan.steps.get(task.activity_id.strip_prefix('a')?.parse::<usize>().ok()?)? {
        Step::Activity(activity) | Step::Both(_, activity) | Step::CancelledActivity(_, activity) => Some(*activity),
        _ => None,
    }
}

/// A hash of what must not change once the answer to a task was acknowledged. The start of a later attempt is written with the
/// answer, and names the worker that gave it.
fn settled_hash(event: &HistoryEvent) -> u64 {
    let mut event = event.clone();
    if let Some(A::WorkflowTaskStartedEventAttributes(started)) = &mut event.attributes {
        started.identity.clear();
    }
    hash_of(&event)
}

/// A hash of all that an event says.
pub fn hash_of(event: &HistoryEvent) -> u64 {
    let trace = Trace::new(false);
    trace.bytes(&event.encode_to_vec());
    trace.hash()
}

/// A payload with a text.
pub fn text(text: &str) -> Option<Payloads> {
    let payload = Payload { data: text.to_owned().into_bytes().into(), ..Default::default() };
    Some(Payloads { payloads: vec![payload] })
}

/// The text of such a payload.
pub fn untext(payloads: Option<&Payloads>) -> String {
    let first = payloads.and_then(|payloads| payloads.payloads.first());
    first.map(|payload| String::from_utf8_lossy(&payload.data).into_owned()).unwrap_or_default()
}

fn retryable() -> Failure {
    let info = ApplicationFailureInfo { r#type: "Chance".to_owned(), ..Default::default() };
    Failure {
        message: "as planned".to_owned(),
        failure_info: Some(FailureInfo::ApplicationFailureInfo(info)),
        ..Default::default()
    }
}

/// The answer to a query: the signals that the worker has seen, and whether the run was continued by another one before.
fn query_result(_query: &WorkflowQuery, events: &[HistoryEvent]) -> WorkflowQueryResult {
    let mut seen = Vec::new();
    for event in events {
        match &event.attributes {
            Some(A::WorkflowExecutionStartedEventAttributes(it)) if !it.continued_execution_run_id.is_empty() => {
                seen.push("continued");
            }
            Some(A::WorkflowExecutionSignaledEventAttributes(it)) => seen.push(&it.signal_name),
            _ => {}
        }
    }
    WorkflowQueryResult {
        result_type: segno_proto::enums::QueryResultType::Answered as i32,
        answer: text(&seen.join(",")),
        ..Default::default()
    }
}

/// What a worker says about the updates that came with a task, or with its new events.
fn answer_updates(
    messages: &[Message],
    events: &[HistoryEvent],
    previous_started: i64,
    identity: &str,
) -> (Vec<Command>, Vec<Message>) {
    let mut asked: Vec<(Request, String, i64)> = Vec::new();
    for event in events.iter().filter(|event| event.event_id > previous_started) {
        if let Some(A::WorkflowExecutionUpdateAdmittedEventAttributes(admitted)) = &event.attributes {
            let request = admitted.request.clone().unwrap_or_default();
            let id = request.meta.clone().unwrap_or_default().update_id;
            asked.push((request, format!("{id}/request"), event.event_id));
        }
    }
    for message in messages {
        let Some(SequencingId::EventId(after)) = message.sequencing_id else { continue };
        let body = message.body.as_ref().map(|body| &body.value[..]).unwrap_or_default();
        if let Ok(request) = Request::decode(body) {
            asked.push((request, message.id.clone(), after));
        }
    }
    let (mut commands, mut said) = (Vec::new(), Vec::new());
    for (request, message_id, after) in asked {
        let meta = request.meta.clone().unwrap_or_default();
        let id = meta.update_id.clone();
        if request.input.as_ref().is_some_and(|input| input.name == "reject") {
            let body = Rejection {
                rejected_request_message_id: message_id,
                rejected_request_sequencing_event_id: after,
                rejected_request: Some(request),
                failure: Some(retryable()),
            };
            said.push(protocol_message(&id, "Rejection", &body));
            continue;
        }
        let acceptance = Acceptance {
            accepted_request_message_id: message_id,
            accepted_request_sequencing_event_id: after,
            accepted_request: Some(request),
        };
        let outcome = Outcome { value: text(identity).map(Value::Success) };
        let response = Response { meta: Some(meta), outcome: Some(outcome) };
        for message in [protocol_message(&id, "Acceptance", &acceptance), protocol_message(&id, "Response", &response)]
        {
            commands.push(place(&message.id));
            said.push(message);
        }
    }
    (commands, said)
}

fn protocol_message(update: &str, kind: &str, body: &impl prost::Message) -> Message {
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
        attributes: Some(Asked::ProtocolMessageCommandAttributes(attributes)),
        ..Default::default()
    }
}
