//! The worker: pollers for workflow tasks and activities that keep nothing in memory.
//!
//! What to do next follows from the history alone. Each answer is given under an identity used only once, which the
//! server writes into the event: that is how an acknowledged answer is found again after a crash.

use std::{
    rc::Rc,
    time::{Duration, Instant},
};

use segno_proto::{
    command::{
        Command, SignalExternalWorkflowExecutionCommandAttributes, StartChildWorkflowExecutionCommandAttributes,
        StartTimerCommandAttributes, command::Attributes as Order,
    },
    common::WorkflowType,
    enums::{CommandType, ParentClosePolicy, WorkflowIdReusePolicy},
    events::{HistoryEvent, history_event::Attributes},
    workflowservice::{
        PollActivityTaskQueueRequest, PollActivityTaskQueueResponse, PollWorkflowTaskQueueResponse,
        RespondActivityTaskCompletedRequest, RespondWorkflowTaskCompletedRequest,
        respond_workflow_task_completed_request::Capabilities,
    },
};

use tonic::Code;

use super::{
    flows::{QUEUE, Shared, insist, is_transient},
    ledger::{Answer, Breach, Kind, child_id},
    operations, updates,
};
use crate::wire::{self, CALL_TIMEOUT, Client, NAMESPACE, POLL_PAUSE, POLL_TIMEOUT};

/// An activity whose worker or server died is tried again after this.
const START_TO_CLOSE: Duration = Duration::from_secs(1);

/// One poller for workflow tasks.
pub async fn poll_workflow_tasks(shared: Rc<Shared>, mut client: Client) {
    loop {
        let task = wire::poll_workflow_task(&mut client, QUEUE).await;
        answer_workflow_task(&shared, &mut client, task).await;
    }
}

async fn answer_workflow_task(shared: &Shared, client: &mut Client, task: PollWorkflowTaskQueueResponse) {
    let run = task.workflow_execution.unwrap_or_default();
    let name = task.workflow_type.map(|kind| kind.name).unwrap_or_default();
    let mut events = task.history.unwrap_or_default().events().unwrap_or_default();
    if !task.next_page_token.is_empty() {
        match insist(async || wire::history(client, &run.workflow_id, &run.run_id).await).await {
            Ok(all) => events = all,
            Err(status) => {
                return shared.ledger.breach(Breach::Wrong(format!("history of {}: {status}", run.workflow_id)));
            }
        }
    }
    let Some(kind) = Kind::named(&name) else {
        return shared.ledger.breach(Breach::Wrong(format!("a task of unknown type `{name}`")));
    };
    if events.first().is_none_or(|event| event.event_id != 1) {
        return shared
            .ledger
            .breach(Breach::Wrong(format!("a task of {} without the start of its history", run.workflow_id)));
    }
    if kind == Kind::Script {
        let text = format!("{} was started as a script, and a worker has its task", run.workflow_id);
        return shared.ledger.breach(Breach::Lost(text));
    }
    let identity = shared.ledger.fresh_name("task");
    let (mut commands, messages) = match kind {
        Kind::Updates => updates::answer(&task.messages, &events, task.previous_started_event_id, &identity),
        _ => Default::default(),
    };
    commands.extend(decide(kind, &run.workflow_id, &events));
    let count = commands.len();
    let answer = RespondWorkflowTaskCompletedRequest {
        task_token: task.task_token,
        commands,
        messages,
        identity: identity.clone(),
        namespace: NAMESPACE.to_owned(),
        capabilities: Some(Capabilities { discard_speculative_workflow_task_with_events: true }),
        ..Default::default()
    };
    match client.insist_briefly(shared, &answer).await {
        // A task that only brought what was rejected leaves no trace.
        Ok(reply) if reply.reset_history_event_id > 0 && count == 0 => {}
        Ok(_) => shared.ledger.note(kind, &run.workflow_id, &run.run_id, |facts, round| {
            facts.workflow_tasks.insert(identity, Answer { round, commands: count });
        }),
        Err(status) if status.code() == Code::InvalidArgument => {
            shared.ledger.breach(Breach::Wrong(format!("an answer of {} was refused: {status}", run.workflow_id)));
        }
        // No violation: the task may have timed out, or this is a repeat of an answer that had arrived.
        Err(_) => {}
    }
}

/// The workflows: what each kind does next, given its history.
fn decide(kind: Kind, id: &str, events: &[HistoryEvent]) -> Vec<Command> {
    let input = events.first().and_then(|event| match &event.attributes {
        Some(Attributes::WorkflowExecutionStartedEventAttributes(start)) => Some(wire::untext(start.input.as_ref())),
        _ => None,
    });
    let input = input.unwrap_or_default();
    let ordered = events.iter().any(|event| {
        matches!(
            event.attributes,
            Some(
                Attributes::ActivityTaskScheduledEventAttributes(_)
                    | Attributes::TimerStartedEventAttributes(_)
                    | Attributes::StartChildWorkflowExecutionInitiatedEventAttributes(_)
                    | Attributes::SignalExternalWorkflowExecutionInitiatedEventAttributes(_)
                    | Attributes::NexusOperationScheduledEventAttributes(_)
            )
        )
    });
    let signals = {
        let mut names: Vec<&str> = events.iter().filter_map(signal_name).collect();
        names.sort_unstable();
        names.join(",")
    };
    let outcome = match kind {
        Kind::Updates => updates::outcome(events, &signals),
        Kind::Signals | Kind::Receiver => (signals.len() >= kind.result(id).len()).then_some(signals),
        _ => events.iter().find_map(outcome),
    };
    match (outcome, kind) {
        (Some(result), _) => vec![wire::complete(wire::text(&result))],
        (None, Kind::Signals | Kind::Receiver | Kind::Updates) => vec![],
        (None, _) if ordered => vec![],
        (None, Kind::Activity) => vec![wire::schedule_activity(QUEUE, &kind.result(id), START_TO_CLOSE)],
        (None, Kind::Timer) => vec![start_timer(input.parse().unwrap_or(100))],
        (None, Kind::Parent) => vec![start_child(&child_id(id))],
        (None, Kind::Operation) => vec![operations::schedule(id)],
        (None, Kind::Sender) => vec![signal_other(&input)],
        // The server executes its turns.
        (None, Kind::Script) => vec![],
    }
}

/// The result that an event means for its workflow.
fn outcome(event: &HistoryEvent) -> Option<String> {
    match event.attributes.as_ref()? {
        Attributes::ActivityTaskCompletedEventAttributes(done) => Some(wire::untext(done.result.as_ref())),
        Attributes::ChildWorkflowExecutionCompletedEventAttributes(done) => Some(wire::untext(done.result.as_ref())),
        Attributes::NexusOperationCompletedEventAttributes(done) => Some(wire::untext_one(done.result.as_ref())),
        Attributes::TimerFiredEventAttributes(_) => Some(Kind::Timer.result("")),
        Attributes::ExternalWorkflowExecutionSignaledEventAttributes(_) => Some(Kind::Sender.result("")),
        // Nothing of the kind may happen: shown as a wrong result.
        Attributes::ActivityTaskFailedEventAttributes(_)
        | Attributes::ActivityTaskTimedOutEventAttributes(_)
        | Attributes::StartChildWorkflowExecutionFailedEventAttributes(_)
        | Attributes::ChildWorkflowExecutionFailedEventAttributes(_)
        | Attributes::SignalExternalWorkflowExecutionFailedEventAttributes(_)
        | Attributes::NexusOperationFailedEventAttributes(_)
        | Attributes::NexusOperationCanceledEventAttributes(_)
        | Attributes::NexusOperationTimedOutEventAttributes(_) => Some(event.event_type().as_str_name().to_owned()),
        _ => None,
    }
}

fn signal_name(event: &HistoryEvent) -> Option<&str> {
    match event.attributes.as_ref()? {
        Attributes::WorkflowExecutionSignaledEventAttributes(signal) => Some(&signal.signal_name),
        _ => None,
    }
}

fn start_timer(delay_ms: u64) -> Command {
    let delay = Some(wire::millis(delay_ms));
    let attributes = StartTimerCommandAttributes { timer_id: "1".to_owned(), start_to_fire_timeout: delay };
    wire::command(CommandType::StartTimer, Order::StartTimerCommandAttributes(attributes))
}

fn start_child(id: &str) -> Command {
    let attributes = StartChildWorkflowExecutionCommandAttributes {
        workflow_id: id.to_owned(),
        workflow_type: Some(WorkflowType { name: Kind::Activity.name().to_owned() }),
        task_queue: wire::queue(QUEUE),
        workflow_task_timeout: Some(wire::millis(2_000)),
        parent_close_policy: ParentClosePolicy::Terminate.into(),
        workflow_id_reuse_policy: WorkflowIdReusePolicy::RejectDuplicate.into(),
        ..Default::default()
    };
    wire::command(
        CommandType::StartChildWorkflowExecution,
        Order::StartChildWorkflowExecutionCommandAttributes(attributes),
    )
}

fn signal_other(id: &str) -> Command {
    let attributes = SignalExternalWorkflowExecutionCommandAttributes {
        execution: wire::execution(id, ""),
        signal_name: "cross".to_owned(),
        ..Default::default()
    };
    wire::command(
        CommandType::SignalExternalWorkflowExecution,
        Order::SignalExternalWorkflowExecutionCommandAttributes(attributes),
    )
}

/// One poller for activities; each gives back its input.
pub async fn poll_activities(shared: Rc<Shared>, mut client: Client) {
    loop {
        let poll = PollActivityTaskQueueRequest {
            namespace: NAMESPACE.to_owned(),
            task_queue: wire::queue(QUEUE),
            identity: "segno-harness".to_owned(),
            ..Default::default()
        };
        let answer = client.call(poll, POLL_TIMEOUT).await;
        shared.last_poll.set(Instant::now());
        match answer {
            Ok(reply) if reply.task_token.is_empty() => {}
            Ok(reply) => do_activity(&shared, &mut client, reply).await,
            Err(status) if is_transient(&status) => tokio::time::sleep(POLL_PAUSE).await,
            Err(status) => {
                shared.ledger.breach(Breach::Wrong(format!("an activity poll was refused: {status}")));
                tokio::time::sleep(CALL_TIMEOUT).await;
            }
        }
    }
}

async fn do_activity(shared: &Shared, client: &mut Client, task: PollActivityTaskQueueResponse) {
    let run = task.workflow_execution.unwrap_or_default();
    let identity = shared.ledger.fresh_name("activity");
    let answer = RespondActivityTaskCompletedRequest {
        task_token: task.task_token,
        result: task.input,
        identity: identity.clone(),
        namespace: NAMESPACE.to_owned(),
        ..Default::default()
    };
    if client.insist_briefly(shared, &answer).await.is_ok() {
        shared.ledger.note(Kind::Activity, &run.workflow_id, &run.run_id, |facts, round| {
            facts.activities.insert(identity, Answer { round, commands: 0 });
        });
    }
}
