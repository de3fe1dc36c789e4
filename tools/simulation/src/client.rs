//! Clients: they start workflows, make calls on them, and repeat what was lost with the same request ids.

use std::{collections::BTreeSet, rc::Rc};

use segno_proto::{
    common::{WorkflowExecution, WorkflowType},
    enums::{HistoryEventFilterType, UpdateWorkflowExecutionLifecycleStage as Lifecycle, WorkflowIdReusePolicy},
    events::history_event::Attributes as A,
    nanos_duration,
    query::WorkflowQuery,
    schedule::{IntervalSpec, Schedule, ScheduleAction, SchedulePolicies, ScheduleSpec, schedule_action::Action},
    segno_flow::DeployRequest,
    update::{Input, Meta, Request, WaitPolicy, outcome::Value},
    workflow::NewWorkflowExecutionInfo,
    workflowservice::{
        CreateScheduleRequest, DeleteScheduleRequest, DescribeWorkflowExecutionRequest,
        GetWorkflowExecutionHistoryRequest, QueryWorkflowRequest, RequestCancelWorkflowExecutionRequest,
        SignalWorkflowExecutionRequest, StartWorkflowExecutionRequest, TerminateWorkflowExecutionRequest,
        UpdateWorkflowExecutionRequest,
    },
};
use tonic::Code;

use crate::{
    Millis,
    ledger::ScheduleFacts,
    scenario::{ClientCall, DURATION, Part, SchedulePlan, ScriptPlan, Stage},
    worker::{NAMESPACE, hash_of, untext},
    workflow::{QUEUE, SCHEDULED, SCRIPT, SCRIPT_SOURCE, is_closing, nanos, queue, type_of, workflow_id},
    world::{CallFailure, Link, World},
};

/// How often a call is repeated: longer than any fault lasts.
const REPEATS: usize = 60;
/// How long a client waits in one call.
const LONG: Millis = 15_000;

fn execution(id: &str, run_id: &str) -> Option<WorkflowExecution> {
    Some(WorkflowExecution { workflow_id: id.to_owned(), run_id: run_id.to_owned() })
}

/// Starts a workflow and makes its calls.
pub async fn workflow(world: Rc<World>, number: usize) {
    let scenario = world.scenario.clone();
    let Some(plan) = scenario.workflows.get(number) else { return };
    let Some(starts_at) = plan.starts_at else { return };
    let link = Link::new(&world);
    world.executor.sleep_until(starts_at).await;
    let id = workflow_id(number);
    let request = StartWorkflowExecutionRequest {
        namespace: NAMESPACE.to_owned(),
        workflow_id: id.clone(),
        workflow_type: Some(WorkflowType { name: type_of(number) }),
        task_queue: queue(QUEUE),
        workflow_task_timeout: Some(nanos_duration(nanos(plan.task_timeout))),
        identity: "client".to_owned(),
        request_id: format!("start-{id}"),
        workflow_id_reuse_policy: WorkflowIdReusePolicy::RejectDuplicate as i32,
        ..Default::default()
    };
    world.ledger.borrow_mut().of(&id).is_asked = true;
    match link.insist(&request, REPEATS).await {
        Ok(reply) => {
            world.note(&format!("{id} is started: {}", reply.run_id));
            world.ledger.borrow_mut().of(&id).run_id = Some(reply.run_id);
        }
        // An earlier copy started it, and it was continued by another run since.
        Err(CallFailure::Status(status)) if status.code() == Code::AlreadyExists => {
            world.note(&format!("{id} was started and continued"));
        }
        Err(failure) => return world.finding(format!("{id} cannot be started: {failure:?}")),
    }
    for (call_number, (after, call)) in plan.calls.iter().enumerate() {
        if scenario.omits(Part::Call(number, call_number)) {
            continue;
        }
        let caller = Caller { world: world.clone(), link: Link::new(&world), id: id.clone(), number: call_number };
        let (after, call) = (*after, *call);
        world.executor.spawn(async move {
            caller.world.executor.sleep(after).await;
            caller.make(call).await;
        });
    }
}

/// Makes one call on a workflow.
struct Caller {
    world: Rc<World>,
    link: Rc<Link>,
    id: String,
    number: usize,
}

impl Caller {
    async fn make(&self, call: ClientCall) {
        match call {
            ClientCall::Signal => self.send_signal(&format!("signal{}", self.number)).await,
            ClientCall::Update { is_rejected, stage } => self.update(is_rejected, stage).await,
            ClientCall::Query => self.query().await,
            ClientCall::Cancel => self.cancel().await,
            ClientCall::Terminate => self.terminate().await,
            ClientCall::Describe => self.describe().await,
            ClientCall::Result => self.result().await,
        }
    }

    fn note(&self, text: &str) {
        self.world.note(&format!("{}, call {}: {text}", self.id, self.number));
    }

    async fn send_signal(&self, name: &str) {
        let name = name.to_owned();
        let request = SignalWorkflowExecutionRequest {
            namespace: NAMESPACE.to_owned(),
            workflow_execution: execution(&self.id, ""),
            signal_name: name.clone(),
            request_id: format!("{}-{name}", self.id),
            identity: "client".to_owned(),
            ..Default::default()
        };
        self.world.ledger.borrow_mut().of(&self.id).signals.insert(name.clone(), false);
        let outcome = self.link.insist(&request, REPEATS).await;
        self.note(&format!("signal {:?}", outcome.as_ref().map_or_else(CallFailure::code, |_| Some(Code::Ok))));
        if outcome.is_ok() {
            self.world.ledger.borrow_mut().of(&self.id).signals.insert(name, true);
        }
    }

    async fn update(&self, is_rejected: bool, stage: Stage) {
        let update_id = format!("update{}", self.number);
        let wanted = match stage {
            Stage::Admitted => Lifecycle::Admitted,
            Stage::Accepted => Lifecycle::Accepted,
            Stage::Completed => Lifecycle::Completed,
        };
        let request = UpdateWorkflowExecutionRequest {
            namespace: NAMESPACE.to_owned(),
            workflow_execution: execution(&self.id, ""),
            wait_policy: Some(WaitPolicy { lifecycle_stage: wanted as i32 }),
            request: Some(Request {
                meta: Some(Meta { update_id: update_id.clone(), identity: "client".to_owned() }),
                input: Some(Input {
                    name: if is_rejected { "reject" } else { "accept" }.to_owned(),
                    ..Default::default()
                }),
                ..Default::default()
            }),
            ..Default::default()
        };
        self.world.ledger.borrow_mut().of(&self.id).updates.entry(update_id.clone()).or_default();
        for _ in 0..REPEATS {
            match self.link.call(&request, LONG).await {
                Ok(reply) => {
                    let stage = reply.stage();
                    self.note(&format!("update is {stage:?}"));
                    let mut ledger = self.world.ledger.borrow_mut();
                    let facts = ledger.of(&self.id).updates.entry(update_id.clone()).or_default();
                    let succeeded = reply.outcome.filter(|outcome| matches!(outcome.value, Some(Value::Success(_))));
                    facts.is_accepted |= stage == Lifecycle::Accepted || succeeded.is_some();
                    if let (Some(before), Some(now)) = (&facts.outcome, &succeeded)
                        && before != now
                    {
                        drop(ledger);
                        return self.world.finding(format!("{}: {update_id} has two outcomes", self.id));
                    }
                    facts.outcome = succeeded.or(facts.outcome.take());
                    drop(ledger);
                    if stage as i32 >= wanted as i32 {
                        return;
                    }
                }
                Err(failure) if failure.is_transient() => self.world.executor.sleep(300).await,
                Err(failure) => return self.note(&format!("update {:?}", failure.code())),
            }
        }
        if self.world.now() > DURATION {
            self.world.finding(format!("{}: {update_id} is never answered", self.id));
        }
    }

    async fn query(&self) {
        let acknowledged: BTreeSet<String> = {
            let mut ledger = self.world.ledger.borrow_mut();
            let signals = &ledger.of(&self.id).signals;
            signals.iter().filter(|(_, told)| **told).map(|(name, _)| name.clone()).collect()
        };
        let request = QueryWorkflowRequest {
            namespace: NAMESPACE.to_owned(),
            execution: execution(&self.id, ""),
            query: Some(WorkflowQuery { query_type: "signals".to_owned(), ..Default::default() }),
            ..Default::default()
        };
        let reply = match self.link.call(&request, LONG).await {
            Ok(reply) => untext(reply.query_result.as_ref()),
            Err(failure) => return self.note(&format!("query {:?}", failure.code())),
        };
        self.note(&format!("query says `{reply}`"));
        let seen: BTreeSet<&str> = reply.split(',').collect();
        if let Some(name) = acknowledged.iter().find(|name| !seen.contains(name.as_str()))
            && !seen.contains("continued")
        {
            self.world.finding(format!("{}: a query does not see {name}, which was acknowledged before", self.id));
        }
    }

    async fn cancel(&self) {
        let request = RequestCancelWorkflowExecutionRequest {
            namespace: NAMESPACE.to_owned(),
            workflow_execution: execution(&self.id, ""),
            request_id: format!("cancel-{}", self.number),
            identity: "client".to_owned(),
            ..Default::default()
        };
        let outcome = self.link.insist(&request, REPEATS).await;
        self.note(&format!("cancel {:?}", outcome.as_ref().map_or_else(CallFailure::code, |_| Some(Code::Ok))));
        if outcome.is_ok() {
            let now = self.world.now();
            self.world.ledger.borrow_mut().of(&self.id).cancelled_at.get_or_insert(now);
        }
    }

    async fn terminate(&self) {
        let request = TerminateWorkflowExecutionRequest {
            namespace: NAMESPACE.to_owned(),
            workflow_execution: execution(&self.id, ""),
            identity: "client".to_owned(),
            ..Default::default()
        };
        let outcome = self.link.insist(&request, REPEATS).await;
        self.note(&format!("terminate {:?}", outcome.as_ref().map_or_else(CallFailure::code, |_| Some(Code::Ok))));
        if outcome.is_ok() {
            let now = self.world.now();
            self.world.ledger.borrow_mut().of(&self.id).terminated_at = Some(now);
        }
    }

    async fn describe(&self) {
        let request =
            DescribeWorkflowExecutionRequest { namespace: NAMESPACE.to_owned(), execution: execution(&self.id, "") };
        match self.link.insist(&request, REPEATS).await {
            Ok(_) => self.note("described"),
            Err(failure) => self.note(&format!("describe {:?}", failure.code())),
        }
    }

    /// Reads the end of the workflow, and of the runs that continue it.
    async fn result(&self) {
        let mut run_id = String::new();
        let mut token = bytes::Bytes::new();
        loop {
            let request = GetWorkflowExecutionHistoryRequest {
                namespace: NAMESPACE.to_owned(),
                execution: execution(&self.id, &run_id),
                wait_new_event: true,
                history_event_filter_type: HistoryEventFilterType::CloseEvent as i32,
                next_page_token: token.clone(),
                ..Default::default()
            };
            let reply = match self.link.call(&request, LONG).await {
                Ok(reply) => reply,
                Err(failure) if failure.is_transient() => {
                    self.world.executor.sleep(200).await;
                    continue;
                }
                Err(failure) => return self.world.finding(format!("{}: no result: {failure:?}", self.id)),
            };
            token = reply.next_page_token;
            let event = reply.history.unwrap_or_default().events().ok().and_then(|mut events| events.pop());
            let Some(event) = event.filter(is_closing) else { continue };
            if let Some(A::WorkflowExecutionContinuedAsNewEventAttributes(it)) = &event.attributes {
                run_id.clone_from(&it.new_execution_run_id);
                token = bytes::Bytes::new();
                continue;
            }
            self.note(&format!("ends with {:?}", event.event_type()));
            let mut ledger = self.world.ledger.borrow_mut();
            ledger.of(&self.id).result = Some((run_id, hash_of(&event)));
            return;
        }
    }
}

/// Creates a schedule, and deletes it when the faults are over.
pub async fn schedule(world: Rc<World>, number: usize, plan: SchedulePlan) {
    let link = Link::new(&world);
    world.executor.sleep_until(plan.created_at).await;
    let id = format!("schedule{number}");
    let start = NewWorkflowExecutionInfo {
        workflow_id: format!("{id}-workflow"),
        workflow_type: Some(WorkflowType { name: SCHEDULED.to_owned() }),
        task_queue: queue(QUEUE),
        ..Default::default()
    };
    let interval = IntervalSpec { interval: Some(nanos_duration(nanos(plan.interval_seconds * 1000))), phase: None };
    let request = CreateScheduleRequest {
        namespace: NAMESPACE.to_owned(),
        schedule_id: id.clone(),
        request_id: format!("create-{id}"),
        schedule: Some(Schedule {
            spec: Some(ScheduleSpec { interval: vec![interval], ..Default::default() }),
            action: Some(ScheduleAction { action: Some(Action::StartWorkflow(start)) }),
            policies: Some(SchedulePolicies {
                overlap_policy: segno_proto::enums::ScheduleOverlapPolicy::AllowAll as i32,
                ..Default::default()
            }),
            ..Default::default()
        }),
        ..Default::default()
    };
    match link.insist(&request, REPEATS).await {
        Ok(_) => {}
        // An earlier copy created it.
        Err(CallFailure::Status(status)) if status.code() == Code::AlreadyExists => {}
        Err(failure) => return world.finding(format!("{id} cannot be created: {failure:?}")),
    }
    world.note(&format!("{id} is created"));
    let facts = ScheduleFacts { created_at: world.now(), deleted_at: None, interval_seconds: plan.interval_seconds };
    world.ledger.borrow_mut().schedules.insert(id.clone(), facts);
    world.executor.sleep_until(DURATION).await;
    if let Some(facts) = world.ledger.borrow_mut().schedules.get_mut(&id) {
        facts.deleted_at = Some(world.now());
    }
    let request =
        DeleteScheduleRequest { namespace: NAMESPACE.to_owned(), schedule_id: id.clone(), ..Default::default() };
    match link.insist(&request, REPEATS).await {
        Ok(_) => world.note(&format!("{id} is deleted")),
        Err(CallFailure::Status(status)) if status.code() == Code::NotFound => {}
        Err(failure) => world.finding(format!("{id} cannot be deleted: {failure:?}")),
    }
}

/// Deploys the script, starts it, sends its signal and waits for its result.
pub async fn script(world: Rc<World>, number: usize, plan: ScriptPlan) {
    let link = Link::new(&world);
    world.executor.sleep_until(plan.starts_at).await;
    let deployment = DeployRequest {
        namespace: NAMESPACE.to_owned(),
        source: SCRIPT_SOURCE.into(),
        file_name: "script.flow".to_owned(),
        take_over: true,
        ..Default::default()
    };
    if let Err(failure) = link.insist(&deployment, REPEATS).await {
        return world.finding(format!("the script cannot be deployed: {failure:?}"));
    }
    let id = format!("script{number}");
    let request = StartWorkflowExecutionRequest {
        namespace: NAMESPACE.to_owned(),
        workflow_id: id.clone(),
        workflow_type: Some(WorkflowType { name: SCRIPT.to_owned() }),
        task_queue: queue(QUEUE),
        identity: "client".to_owned(),
        request_id: format!("start-{id}"),
        workflow_id_reuse_policy: WorkflowIdReusePolicy::RejectDuplicate as i32,
        ..Default::default()
    };
    world.ledger.borrow_mut().of(&id).is_asked = true;
    match link.insist(&request, REPEATS).await {
        Ok(reply) => world.ledger.borrow_mut().of(&id).run_id = Some(reply.run_id),
        Err(failure) => return world.finding(format!("{id} cannot be started: {failure:?}")),
    }
    world.note(&format!("{id} is started"));
    let caller = Caller { world: world.clone(), link, id, number };
    world.executor.sleep(plan.signal_after).await;
    caller.send_signal("go").await;
    caller.result().await;
}
