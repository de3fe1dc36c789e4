//! The workflows of a scenario: what a workflow asks for next is a function of its plan and its history, as with any SDK.

use std::collections::{BTreeMap, BTreeSet};

use segno_proto::{
    command::{
        CancelTimerCommandAttributes, CancelWorkflowExecutionCommandAttributes, Command,
        CompleteWorkflowExecutionCommandAttributes, ContinueAsNewWorkflowExecutionCommandAttributes,
        FailWorkflowExecutionCommandAttributes, RecordMarkerCommandAttributes,
        RequestCancelActivityTaskCommandAttributes, ScheduleActivityTaskCommandAttributes,
        SignalExternalWorkflowExecutionCommandAttributes, StartChildWorkflowExecutionCommandAttributes,
        StartTimerCommandAttributes, command::Attributes as Asked,
    },
    common::{ActivityType, RetryPolicy, WorkflowExecution, WorkflowType},
    enums::{CommandType, EventType, ParentClosePolicy},
    events::{HistoryEvent, history_event::Attributes as A},
    failure::Failure,
    nanos_duration,
    taskqueue::TaskQueue,
};

use crate::{
    Millis,
    scenario::{ActivityPlan, End, Scenario, Step, WorkflowPlan},
};

/// The task queue of all workflows and activities.
pub const QUEUE: &str = "queue";
/// The name of the script that the node executes, and its type.
pub const SCRIPT: &str = "script";
/// Its code: turns begin with the start, a timer, the end of a task, a signal or its time-out.
pub const SCRIPT_SOURCE: &str = "workflow script(input) {
  let called = false
  signal go() { called = true }
  query state() { return called }
  await Task.delay(\"300ms\")
  const pause = Task.delay(\"2s\")
  await Task.run(\"step\", input, { start_to_close: \"5s\" })
  await pause
  return await wait_until(() => called, \"8s\")
}
";
/// Scheduled workflows have no steps.
pub const SCHEDULED: &str = "scheduled";

/// The workflow id of a plan that a client starts.
pub fn workflow_id(plan: usize) -> String {
    format!("workflow{plan}")
}

/// The workflow type of a plan.
pub fn type_of(plan: usize) -> String {
    format!("plan{plan}")
}

/// What a workflow asks for.
#[derive(Debug, Default)]
pub struct Decision {
    /// Its commands.
    pub commands: Vec<Command>,
    /// It asks for another workflow task.
    pub wants_task: bool,
}

/// What a run's history says.
#[derive(Default)]
struct Seen<'a> {
    /// Ids of timers, and the events that started them.
    timers: BTreeMap<&'a str, i64>,
    /// Ids of activities, and the events that scheduled them.
    activities: BTreeMap<&'a str, i64>,
    /// Workflow ids of children that were asked for.
    children: BTreeMap<&'a str, i64>,
    /// Workflows that were signalled, with the name of the signal.
    signalled: BTreeMap<(&'a str, &'a str), i64>,
    markers: BTreeSet<&'a str>,
    /// Activities whose cancellation was requested.
    cancel_requested: BTreeSet<i64>,
    /// Timers, activities, children and signals that came to their end, by the events with which they began.
    ended: BTreeSet<i64>,
    signals: usize,
    is_cancel_requested: bool,
    is_continued: bool,
}

impl<'a> Seen<'a> {
    fn of(events: &'a [HistoryEvent]) -> Self {
        let mut seen = Self::default();
        for event in events {
            if let Some(attributes) = &event.attributes {
                seen.note(event.event_id, attributes);
            }
        }
        seen
    }

    fn note(&mut self, id: i64, attributes: &'a A) {
        let ended = match attributes {
            A::WorkflowExecutionStartedEventAttributes(it) => {
                self.is_continued = !it.continued_execution_run_id.is_empty();
                return;
            }
            A::TimerStartedEventAttributes(it) => {
                self.timers.insert(&it.timer_id, id);
                return;
            }
            A::ActivityTaskScheduledEventAttributes(it) => {
                self.activities.insert(&it.activity_id, id);
                return;
            }
            A::ActivityTaskCancelRequestedEventAttributes(it) => {
                self.cancel_requested.insert(it.scheduled_event_id);
                return;
            }
            A::StartChildWorkflowExecutionInitiatedEventAttributes(it) => {
                self.children.insert(&it.workflow_id, id);
                return;
            }
            A::SignalExternalWorkflowExecutionInitiatedEventAttributes(it) => {
                let target = it.workflow_execution.as_ref().map_or("", |target| &target.workflow_id);
                self.signalled.insert((target, &it.signal_name), id);
                return;
            }
            A::MarkerRecordedEventAttributes(it) => {
                self.markers.insert(&it.marker_name);
                return;
            }
            A::WorkflowExecutionSignaledEventAttributes(_) => return self.signals += 1,
            A::WorkflowExecutionCancelRequestedEventAttributes(_) => return self.is_cancel_requested = true,
            A::TimerFiredEventAttributes(it) => it.started_event_id,
            A::TimerCanceledEventAttributes(it) => it.started_event_id,
            A::ActivityTaskCompletedEventAttributes(it) => it.scheduled_event_id,
            A::ActivityTaskFailedEventAttributes(it) => it.scheduled_event_id,
            A::ActivityTaskTimedOutEventAttributes(it) => it.scheduled_event_id,
            A::ActivityTaskCanceledEventAttributes(it) => it.scheduled_event_id,
            A::StartChildWorkflowExecutionFailedEventAttributes(it) => it.initiated_event_id,
            A::ChildWorkflowExecutionCompletedEventAttributes(it) => it.initiated_event_id,
            A::ChildWorkflowExecutionFailedEventAttributes(it) => it.initiated_event_id,
            A::ChildWorkflowExecutionCanceledEventAttributes(it) => it.initiated_event_id,
            A::ChildWorkflowExecutionTerminatedEventAttributes(it) => it.initiated_event_id,
            A::ChildWorkflowExecutionTimedOutEventAttributes(it) => it.initiated_event_id,
            A::ExternalWorkflowExecutionSignaledEventAttributes(it) => it.initiated_event_id,
            A::SignalExternalWorkflowExecutionFailedEventAttributes(it) => it.initiated_event_id,
            _ => return,
        };
        self.ended.insert(ended);
    }

    fn has_ended(&self, begun: Option<&i64>) -> bool {
        begun.is_some_and(|begun| self.ended.contains(begun))
    }
}

/// How far a step is.
enum Progress {
    Done,
    Waits,
    Asks(Vec<Command>),
    /// It asks for something, and nothing that follows from it will come: the workflow goes on.
    AsksAndIsDone(Box<Command>),
}

/// What a workflow asks for, given its history.
pub fn decide(scenario: &Scenario, workflow_type: &str, id: &str, events: &[HistoryEvent]) -> Decision {
    let seen = Seen::of(events);
    let number = workflow_type.strip_prefix("plan").and_then(|number| number.parse::<usize>().ok());
    let Some(plan) = number.and_then(|number| scenario.workflows.get(number)) else {
        return Decision { commands: vec![completion(End::Completes)], wants_task: false };
    };
    if seen.is_cancel_requested {
        let attributes = CancelWorkflowExecutionCommandAttributes::default();
        let cancelled =
            make(CommandType::CancelWorkflowExecution, Asked::CancelWorkflowExecutionCommandAttributes(attributes));
        return Decision { commands: vec![cancelled], wants_task: false };
    }
    let mut decision = Decision::default();
    for (number, step) in steps(plan, seen.is_continued) {
        match progress(&seen, id, workflow_type, number, step) {
            Progress::Done => {}
            Progress::Waits => return decision,
            Progress::AsksAndIsDone(command) => decision.commands.push(*command),
            Progress::Asks(commands) => {
                decision.commands.extend(commands);
                decision.wants_task = *step == Step::Marker;
                return decision;
            }
        }
    }
    decision.commands.push(completion(plan.end));
    decision
}

/// The steps of a run: those after the step that continued it, if it was continued.
fn steps(plan: &WorkflowPlan, is_continued: bool) -> impl Iterator<Item = (usize, &Step)> {
    let continues = plan.steps.iter().position(|step| *step == Step::ContinueAsNew);
    let first = continues.filter(|_| is_continued).map_or(0, |place| place + 1);
    plan.steps.iter().enumerate().skip(first)
}

fn progress(seen: &Seen, id: &str, workflow_type: &str, number: usize, step: &Step) -> Progress {
    let (timer, activity) = (format!("t{number}"), format!("a{number}"));
    let timer_begun = seen.timers.get(&*timer);
    let activity_begun = seen.activities.get(&*activity);
    let done_or_waits = |done: bool| if done { Progress::Done } else { Progress::Waits };
    match step {
        Step::Timer(_) if timer_begun.is_some() => done_or_waits(seen.has_ended(timer_begun)),
        Step::Timer(after) => Progress::Asks(vec![start_timer(&timer, *after)]),
        Step::Activity(_) if activity_begun.is_some() => done_or_waits(seen.has_ended(activity_begun)),
        Step::Activity(plan) => Progress::Asks(vec![schedule_activity(&activity, number, plan)]),
        Step::Both(..) if timer_begun.is_some() => {
            done_or_waits(seen.has_ended(timer_begun) && seen.has_ended(activity_begun))
        }
        Step::Both(after, plan) => {
            Progress::Asks(vec![start_timer(&timer, *after), schedule_activity(&activity, number, plan)])
        }
        Step::Signals(wanted, _) => match timer_begun {
            _ if seen.has_ended(timer_begun) => Progress::Done,
            Some(_) if seen.signals >= *wanted => Progress::AsksAndIsDone(Box::new(cancel_timer(&timer))),
            Some(_) => Progress::Waits,
            None => Progress::Asks(vec![start_timer(&timer, step_timer(step))]),
        },
        Step::Child(plan) => {
            let child = format!("{id}/{number}");
            match seen.children.get(&*child) {
                None => Progress::Asks(vec![start_child(&child, *plan)]),
                begun => done_or_waits(seen.has_ended(begun)),
            }
        }
        Step::SignalOther(plan) => {
            let (target, name) = (workflow_id(*plan), format!("from-{id}-{number}"));
            match seen.signalled.get(&(&*target, &*name)) {
                None => Progress::Asks(vec![signal(&target, &name)]),
                begun => done_or_waits(seen.has_ended(begun)),
            }
        }
        Step::Marker if seen.markers.contains(&*format!("m{number}")) => Progress::Done,
        Step::Marker => Progress::Asks(vec![marker(&format!("m{number}"))]),
        Step::CancelledActivity(after, plan) => match activity_begun {
            None => Progress::Asks(vec![start_timer(&timer, *after), schedule_activity(&activity, number, plan)]),
            Some(_) if seen.has_ended(activity_begun) => Progress::Done,
            Some(begun) if seen.has_ended(timer_begun) && !seen.cancel_requested.contains(begun) => {
                Progress::Asks(vec![cancel_activity(*begun)])
            }
            Some(_) => Progress::Waits,
        },
        Step::ContinueAsNew => Progress::Asks(vec![continue_as_new(workflow_type)]),
    }
}

fn step_timer(step: &Step) -> Millis {
    match step {
        Step::Timer(after) | Step::Both(after, _) | Step::Signals(_, after) | Step::CancelledActivity(after, _) => {
            *after
        }
        _ => 0,
    }
}

/// Nanoseconds.
pub fn nanos(time: Millis) -> i64 {
    time as i64 * 1_000_000
}

fn make(kind: CommandType, attributes: Asked) -> Command {
    Command { command_type: kind as i32, attributes: Some(attributes), ..Default::default() }
}

/// The queue, as requests name it.
pub fn queue(name: &str) -> Option<TaskQueue> {
    Some(TaskQueue { name: name.to_owned(), ..Default::default() })
}

fn start_timer(id: &str, after: Millis) -> Command {
    let attributes = StartTimerCommandAttributes {
        timer_id: id.to_owned(),
        start_to_fire_timeout: Some(nanos_duration(nanos(after))),
    };
    make(CommandType::StartTimer, Asked::StartTimerCommandAttributes(attributes))
}

fn cancel_timer(id: &str) -> Command {
    let attributes = CancelTimerCommandAttributes { timer_id: id.to_owned() };
    make(CommandType::CancelTimer, Asked::CancelTimerCommandAttributes(attributes))
}

fn schedule_activity(id: &str, number: usize, plan: &ActivityPlan) -> Command {
    let duration = |time: Millis| (time > 0).then(|| nanos_duration(nanos(time)));
    let attributes = ScheduleActivityTaskCommandAttributes {
        activity_id: id.to_owned(),
        activity_type: Some(ActivityType { name: format!("step{number}") }),
        task_queue: queue(QUEUE),
        start_to_close_timeout: duration(plan.start_to_close),
        heartbeat_timeout: duration(plan.heartbeat),
        request_eager_execution: plan.is_eager,
        retry_policy: Some(RetryPolicy {
            initial_interval: duration(200),
            backoff_coefficient: 1.5,
            maximum_interval: duration(2000),
            ..Default::default()
        }),
        ..Default::default()
    };
    make(CommandType::ScheduleActivityTask, Asked::ScheduleActivityTaskCommandAttributes(attributes))
}

fn cancel_activity(scheduled_event_id: i64) -> Command {
    let attributes = RequestCancelActivityTaskCommandAttributes { scheduled_event_id };
    make(CommandType::RequestCancelActivityTask, Asked::RequestCancelActivityTaskCommandAttributes(attributes))
}

fn start_child(id: &str, plan: usize) -> Command {
    let attributes = StartChildWorkflowExecutionCommandAttributes {
        workflow_id: id.to_owned(),
        workflow_type: Some(WorkflowType { name: type_of(plan) }),
        task_queue: queue(QUEUE),
        workflow_task_timeout: Some(nanos_duration(nanos(2000))),
        parent_close_policy: ParentClosePolicy::Abandon as i32,
        ..Default::default()
    };
    make(CommandType::StartChildWorkflowExecution, Asked::StartChildWorkflowExecutionCommandAttributes(attributes))
}

fn signal(target: &str, name: &str) -> Command {
    let attributes = SignalExternalWorkflowExecutionCommandAttributes {
        execution: Some(WorkflowExecution { workflow_id: target.to_owned(), run_id: String::new() }),
        signal_name: name.to_owned(),
        ..Default::default()
    };
    make(
        CommandType::SignalExternalWorkflowExecution,
        Asked::SignalExternalWorkflowExecutionCommandAttributes(attributes),
    )
}

fn marker(name: &str) -> Command {
    let attributes = RecordMarkerCommandAttributes { marker_name: name.to_owned(), ..Default::default() };
    make(CommandType::RecordMarker, Asked::RecordMarkerCommandAttributes(attributes))
}

fn continue_as_new(workflow_type: &str) -> Command {
    let attributes = ContinueAsNewWorkflowExecutionCommandAttributes {
        workflow_type: Some(WorkflowType { name: workflow_type.to_owned() }),
        task_queue: queue(QUEUE),
        ..Default::default()
    };
    make(
        CommandType::ContinueAsNewWorkflowExecution,
        Asked::ContinueAsNewWorkflowExecutionCommandAttributes(attributes),
    )
}

fn completion(end: End) -> Command {
    match end {
        End::Completes => make(
            CommandType::CompleteWorkflowExecution,
            Asked::CompleteWorkflowExecutionCommandAttributes(CompleteWorkflowExecutionCommandAttributes::default()),
        ),
        End::Fails => make(
            CommandType::FailWorkflowExecution,
            Asked::FailWorkflowExecutionCommandAttributes(FailWorkflowExecutionCommandAttributes {
                failure: Some(Failure { message: "as planned".to_owned(), ..Default::default() }),
            }),
        ),
    }
}

/// Whether a command closes its run.
pub fn closes(command: &Command) -> bool {
    matches!(
        command.command_type(),
        CommandType::CompleteWorkflowExecution
            | CommandType::FailWorkflowExecution
            | CommandType::CancelWorkflowExecution
            | CommandType::ContinueAsNewWorkflowExecution
    )
}

/// Whether an event closes its run.
pub fn is_closing(event: &HistoryEvent) -> bool {
    matches!(
        event.event_type(),
        EventType::WorkflowExecutionCompleted
            | EventType::WorkflowExecutionFailed
            | EventType::WorkflowExecutionTimedOut
            | EventType::WorkflowExecutionCanceled
            | EventType::WorkflowExecutionTerminated
            | EventType::WorkflowExecutionContinuedAsNew
    )
}
