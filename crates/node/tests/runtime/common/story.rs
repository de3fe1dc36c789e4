//! Workflows that use everything which must survive: timers, retried activities, children, signals between workflows,
//! signals from outside, continue-as-new, updates (see `updates.rs`). What a workflow wants next is a function of its
//! history, as with any SDK.

use segno_engine::start::{Start, StartOptions};
use segno_node::Namespace;
use segno_proto::{
    command::{self, Command, command::Attributes as C},
    common::{ActivityType, RetryPolicy, WorkflowExecution, WorkflowType},
    enums::{CommandType, EventType},
    events::{HistoryEvent, history_event::Attributes as A},
    nanos_duration,
    taskqueue::TaskQueue,
};

pub const MILLISECOND: i64 = 1_000_000;
pub const QUEUE: &str = "q";
/// Where the sticky worker asks.
pub const STICKY_QUEUE: &str = "q-sticky";

/// Workflows a client starts, and those that come of them.
pub const STARTED: [&str; 5] = ["target", "parent", "chain", "updates", "sticky"];
pub const ALL: [&str; 6] = ["target", "parent", "chain", "child", "updates", "sticky"];

/// A client's request to start a workflow; the type is the id.
pub fn start(namespace: &Namespace, id: &str) -> Start {
    let options = StartOptions {
        namespace: namespace.name.clone(),
        workflow_id: id.to_owned(),
        workflow_type: Some(WorkflowType { name: id.to_owned() }),
        task_queue: Some(TaskQueue { name: QUEUE.to_owned(), ..Default::default() }),
        workflow_task_timeout: Some(nanos_duration(1000 * MILLISECOND)),
        request_id: format!("start-{id}"),
        ..Default::default()
    };
    Start { retention: 0, ..namespace.start(options) }
}

/// What a workflow wants, given its history.
pub fn decide(kind: &str, history: &[HistoryEvent]) -> Vec<Command> {
    let has = |wanted: EventType| history.iter().any(|event| event.event_type() == wanted);
    match kind {
        "parent" if !has(EventType::TimerStarted) => {
            vec![timer(20 * MILLISECOND), activity("flaky"), child(), signal("target", "hello")]
        }
        "parent" => {
            let done = has(EventType::TimerFired)
                && has(EventType::ActivityTaskCompleted)
                && has(EventType::ChildWorkflowExecutionCompleted)
                && has(EventType::ExternalWorkflowExecutionSignaled)
                && has(EventType::WorkflowExecutionSignaled);
            if done { vec![complete()] } else { Vec::new() }
        }
        "child" if !has(EventType::ActivityTaskScheduled) => vec![activity("plain")],
        "child" if has(EventType::ActivityTaskCompleted) => vec![complete()],
        "target" | "updates" | "sticky" if has(EventType::WorkflowExecutionSignaled) => vec![complete()],
        "chain" => match history.first().and_then(|first| first.attributes.as_ref()) {
            Some(A::WorkflowExecutionStartedEventAttributes(a)) if a.continued_execution_run_id.is_empty() => {
                vec![continue_as_new()]
            }
            _ => vec![complete()],
        },
        _ => Vec::new(),
    }
}

fn make(kind: CommandType, attributes: C) -> Command {
    Command { command_type: kind as i32, attributes: Some(attributes), ..Default::default() }
}

pub fn timer(after: i64) -> Command {
    make(
        CommandType::StartTimer,
        C::StartTimerCommandAttributes(command::StartTimerCommandAttributes {
            timer_id: "t".to_owned(),
            start_to_fire_timeout: Some(nanos_duration(after)),
        }),
    )
}

pub fn activity(kind: &str) -> Command {
    activity_within(kind, 1000 * MILLISECOND)
}

/// An activity with this much time.
pub fn activity_within(kind: &str, start_to_close: i64) -> Command {
    make(
        CommandType::ScheduleActivityTask,
        C::ScheduleActivityTaskCommandAttributes(command::ScheduleActivityTaskCommandAttributes {
            activity_id: "a".to_owned(),
            activity_type: Some(ActivityType { name: kind.to_owned() }),
            task_queue: Some(TaskQueue { name: QUEUE.to_owned(), ..Default::default() }),
            start_to_close_timeout: Some(nanos_duration(start_to_close)),
            retry_policy: Some(RetryPolicy {
                initial_interval: Some(nanos_duration(10 * MILLISECOND)),
                backoff_coefficient: 1.0,
                ..Default::default()
            }),
            ..Default::default()
        }),
    )
}

pub fn child() -> Command {
    make(
        CommandType::StartChildWorkflowExecution,
        C::StartChildWorkflowExecutionCommandAttributes(command::StartChildWorkflowExecutionCommandAttributes {
            workflow_id: "child".to_owned(),
            workflow_type: Some(WorkflowType { name: "child".to_owned() }),
            workflow_task_timeout: Some(nanos_duration(1000 * MILLISECOND)),
            ..Default::default()
        }),
    )
}

pub fn signal(target: &str, name: &str) -> Command {
    make(
        CommandType::SignalExternalWorkflowExecution,
        C::SignalExternalWorkflowExecutionCommandAttributes(
            command::SignalExternalWorkflowExecutionCommandAttributes {
                execution: Some(WorkflowExecution { workflow_id: target.to_owned(), run_id: String::new() }),
                signal_name: name.to_owned(),
                ..Default::default()
            },
        ),
    )
}

pub fn complete() -> Command {
    make(CommandType::CompleteWorkflowExecution, C::CompleteWorkflowExecutionCommandAttributes(Default::default()))
}

fn continue_as_new() -> Command {
    make(
        CommandType::ContinueAsNewWorkflowExecution,
        C::ContinueAsNewWorkflowExecutionCommandAttributes(command::ContinueAsNewWorkflowExecutionCommandAttributes {
            workflow_type: Some(WorkflowType { name: "chain".to_owned() }),
            ..Default::default()
        }),
    )
}
