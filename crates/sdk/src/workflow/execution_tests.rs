//! Tests of the executor: events in, commands out.

use std::{sync::Arc, time::Duration};

use segno_proto::{
    command::command::Attributes as Asked,
    common::{ActivityType, Payload, WorkflowType},
    enums::{CommandType, EventType},
    events::{self as wire, HistoryEvent, history_event::Attributes},
    nanos_timestamp,
};

use super::{
    Context, WorkflowContext, WorkflowRegistry,
    execution::{Execution, WorkflowTaskAnswer},
};
use crate::{converter, definition::*, failure::Result};

crate::define_task!(First = "first": u32 => u32);
crate::define_task!(Second = "second": u32 => u32);

/// A workflow of a closure's kind.
macro_rules! workflow {
    ($name:ident, |$ctx:ident| $body:expr) => {
        struct $name;
        impl WorkflowDefinition for $name {
            type Input = u32;
            type Output = String;
            const KIND: &'static str = "test";
        }
        impl Workflow for $name {
            type State = ();
            fn init(_: &u32) {}
            async fn run($ctx: Context, _: u32) -> Result<String> {
                $body
            }
        }
    };
}

/// A history that grows.
#[derive(Default)]
struct Recorder(Vec<HistoryEvent>);

impl Recorder {
    fn push(&mut self, kind: EventType, attributes: Attributes) -> i64 {
        let event_id = self.0.len() as i64 + 1;
        self.0.push(HistoryEvent {
            event_id,
            event_type: kind as i32,
            event_time: Some(nanos_timestamp(event_id * 1_000_000_000)),
            attributes: Some(attributes),
            ..Default::default()
        });
        event_id
    }

    fn start() -> Self {
        let mut history = Self::default();
        let started = wire::WorkflowExecutionStartedEventAttributes {
            workflow_type: Some(WorkflowType { name: "test".to_owned() }),
            workflow_id: "w".to_owned(),
            original_execution_run_id: "0199d3a2-5b1e-7c3a-8f00-000000000001".to_owned(),
            input: converter::list(vec![converter::encode_json(&7).expect("a number")]),
            ..Default::default()
        };
        let started = Attributes::WorkflowExecutionStartedEventAttributes(Box::new(started));
        history.push(EventType::WorkflowExecutionStarted, started);
        history.task();
        history
    }

    fn task(&mut self) {
        self.push(
            EventType::WorkflowTaskScheduled,
            Attributes::WorkflowTaskScheduledEventAttributes(Default::default()),
        );
        self.push(EventType::WorkflowTaskStarted, Attributes::WorkflowTaskStartedEventAttributes(Default::default()));
    }

    /// Writes what a server makes of the commands, and gives the ids of the events.
    fn complete(&mut self, finished: &WorkflowTaskAnswer) -> Vec<i64> {
        let completed = Attributes::WorkflowTaskCompletedEventAttributes(Default::default());
        self.push(EventType::WorkflowTaskCompleted, completed);
        finished.commands.iter().map(|command| self.command(command.attributes.clone().expect("a command"))).collect()
    }

    fn command(&mut self, asked: Asked) -> i64 {
        match asked {
            Asked::ScheduleActivityTaskCommandAttributes(asked) => {
                let event = wire::ActivityTaskScheduledEventAttributes {
                    activity_id: asked.activity_id,
                    activity_type: asked.activity_type,
                    ..Default::default()
                };
                self.push(EventType::ActivityTaskScheduled, Attributes::ActivityTaskScheduledEventAttributes(event))
            }
            Asked::StartTimerCommandAttributes(asked) => {
                let event = wire::TimerStartedEventAttributes {
                    timer_id: asked.timer_id,
                    start_to_fire_timeout: asked.start_to_fire_timeout,
                    ..Default::default()
                };
                self.push(EventType::TimerStarted, Attributes::TimerStartedEventAttributes(event))
            }
            Asked::RequestCancelActivityTaskCommandAttributes(asked) => {
                let event = wire::ActivityTaskCancelRequestedEventAttributes {
                    scheduled_event_id: asked.scheduled_event_id,
                    ..Default::default()
                };
                let attributes = Attributes::ActivityTaskCancelRequestedEventAttributes(event);
                self.push(EventType::ActivityTaskCancelRequested, attributes)
            }
            Asked::CancelTimerCommandAttributes(asked) => {
                let event = wire::TimerCanceledEventAttributes { timer_id: asked.timer_id, ..Default::default() };
                self.push(EventType::TimerCanceled, Attributes::TimerCanceledEventAttributes(event))
            }
            Asked::RecordMarkerCommandAttributes(asked) => {
                let event = wire::MarkerRecordedEventAttributes {
                    marker_name: asked.marker_name,
                    details: asked.details,
                    failure: asked.failure,
                    ..Default::default()
                };
                self.push(EventType::MarkerRecorded, Attributes::MarkerRecordedEventAttributes(event))
            }
            Asked::CompleteWorkflowExecutionCommandAttributes(asked) => {
                let event =
                    wire::WorkflowExecutionCompletedEventAttributes { result: asked.result, ..Default::default() };
                let attributes = Attributes::WorkflowExecutionCompletedEventAttributes(event);
                self.push(EventType::WorkflowExecutionCompleted, attributes)
            }
            other => panic!("not expected: {other:?}"),
        }
    }

    fn completed(&mut self, scheduled_event_id: i64, result: u32) {
        let result = converter::list(vec![converter::encode_json(&result).expect("a number")]);
        let event = wire::ActivityTaskCompletedEventAttributes { scheduled_event_id, result, ..Default::default() };
        self.push(EventType::ActivityTaskCompleted, Attributes::ActivityTaskCompletedEventAttributes(event));
    }

    fn fired(&mut self, started_event_id: i64) {
        let event = wire::TimerFiredEventAttributes { started_event_id, ..Default::default() };
        self.push(EventType::TimerFired, Attributes::TimerFiredEventAttributes(event));
    }
}

fn execution<W: Workflow>() -> Execution {
    let mut registry = WorkflowRegistry::default();
    registry.add::<W>();
    Execution::new(Arc::new(registry), "default", "")
}

/// One workflow task; the answer is written into the history.
fn answer_task(execution: &mut Execution, history: &mut Recorder) -> (WorkflowTaskAnswer, Vec<i64>) {
    let step = execution.begin(history.0.clone(), Vec::new()).unwrap_or_else(|failed| panic!("{}", failed.failure));
    assert_eq!(step.open_locals, 0);
    let finished = execution.finish();
    let events = history.complete(&finished);
    (finished, events)
}

fn kinds(finished: &WorkflowTaskAnswer) -> Vec<CommandType> {
    finished.commands.iter().map(|command| command.command_type()).collect()
}

fn result(finished: &WorkflowTaskAnswer) -> String {
    match finished.commands.last().and_then(|command| command.attributes.as_ref()) {
        Some(Asked::CompleteWorkflowExecutionCommandAttributes(done)) => {
            let payloads: &[Payload] = converter::items(&done.result);
            converter::decode_payload(&payloads[0]).expect("a text")
        }
        other => panic!("not complete: {other:?}"),
    }
}

workflow!(Race, |ctx| {
    let (first, second) = (ctx.schedule::<First>(1), ctx.schedule::<Second>(2));
    // Both are there before the code asks; the random one of tokio's.
    ctx.sleep(Duration::from_secs(1)).await?;
    tokio::select! {
        value = first => Ok(format!("first {}", value?)),
        value = second => Ok(format!("second {}", value?)),
    }
});

#[test]
fn the_winner_of_a_race_is_the_first_in_history() {
    for round in 0..64 {
        let mut history = Recorder::start();
        let mut live = execution::<Race>();
        let (_, events) = answer_task(&mut live, &mut history);
        let (early, late) = if round % 2 == 0 { (0, 1) } else { (1, 0) };
        history.completed(events[early], 10);
        history.completed(events[late], 20);
        history.fired(events[2]);
        history.task();
        let (finished, _) = answer_task(&mut live, &mut history);
        assert_eq!(result(&finished), format!("{} 10", ["first", "second"][early]));
        execution::<Race>().replay(history.0).expect("the same again");
    }
}

workflow!(Loser, |ctx| {
    tokio::select! {
        biased;
        value = ctx.schedule::<First>(1) => Ok(format!("{}", value?)),
        _ = ctx.sleep(Duration::from_secs(1)) => {
            ctx.schedule::<Second>(2).await?;
            Ok("late".to_owned())
        }
    }
});

#[test]
fn the_loser_is_cancelled() {
    let mut history = Recorder::start();
    let mut live = execution::<Loser>();
    let (_, events) = answer_task(&mut live, &mut history);
    history.fired(events[1]);
    history.task();
    let (finished, events) = answer_task(&mut live, &mut history);
    assert_eq!(kinds(&finished), [CommandType::ScheduleActivityTask, CommandType::RequestCancelActivityTask]);
    history.completed(events[0], 3);
    history.task();
    let (finished, _) = answer_task(&mut live, &mut history);
    assert_eq!(result(&finished), "late");
    execution::<Loser>().replay(history.0).expect("the same again");
}

workflow!(Sequence, |ctx| {
    ctx.schedule::<First>(1).await?;
    ctx.schedule::<Second>(2).await?;
    Ok("done".to_owned())
});
workflow!(Swapped, |ctx| {
    ctx.schedule::<First>(1).await?;
    ctx.schedule::<First>(2).await?;
    Ok("done".to_owned())
});
workflow!(Shortened, |ctx| {
    ctx.schedule::<First>(1).await?;
    Ok("done".to_owned())
});
workflow!(Longer, |ctx| {
    ctx.schedule::<First>(1).await?;
    ctx.schedule::<Second>(2).await?;
    ctx.sleep(Duration::from_secs(1)).await?;
    Ok("done".to_owned())
});

#[test]
fn changed_code_is_noticed() {
    use super::ViolationKind as Kind;
    let mut history = Recorder::start();
    let mut live = execution::<Sequence>();
    let (_, events) = answer_task(&mut live, &mut history);
    history.completed(events[0], 1);
    history.task();
    let (_, events) = answer_task(&mut live, &mut history);
    let second = events[0];
    history.completed(second, 1);
    history.task();
    let (_, events) = answer_task(&mut live, &mut history);
    let end = events[0];
    execution::<Sequence>().replay(history.0.clone()).expect("the same again");
    let check = |failed: super::execution::TaskFailed, kind, event_id| {
        let violation = failed.violation.expect("a violation");
        assert_eq!((violation.kind, violation.event_id), (kind, event_id), "{violation}");
        violation.to_string()
    };
    let failed = execution::<Swapped>().replay(history.0.clone()).expect_err("another task");
    let text = check(failed, Kind::TaskTypeMismatch, second);
    assert_eq!(text, format!("task #2: event {second} scheduled \"second\", the code asks for \"first\""));
    let failed = execution::<Shortened>().replay(history.0.clone()).expect_err("too short");
    check(failed, Kind::ClosedEarly, second);
    let failed = execution::<Longer>().replay(history.0.clone()).expect_err("too long");
    check(failed, Kind::ExtraCommand, end);
}

/// The history of a query may end with the start of a workflow task. That task is still to be answered, by the execution that
/// the query leaves in the cache.
#[test]
fn a_query_does_not_take_the_workflow_task_beside_it() {
    let mut history = Recorder::start();
    let query = |history: &Recorder| {
        let mut queried = execution::<Sequence>();
        queried.replay(history.0.clone()).expect("it fits");
        queried
    };
    let (finished, events) = answer_task(&mut query(&history), &mut history);
    assert_eq!(kinds(&finished), [CommandType::ScheduleActivityTask], "the first task");
    history.completed(events[0], 1);
    history.task();
    let (finished, _) = answer_task(&mut query(&history), &mut history);
    assert_eq!(kinds(&finished), [CommandType::ScheduleActivityTask], "a later one");
}

workflow!(Foreign, |ctx| {
    let (sender, receiver) = tokio::sync::oneshot::channel::<()>();
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(20));
        let _ = sender.send(());
    });
    let _ = receiver.await;
    ctx.sleep(Duration::from_secs(1)).await?;
    Ok(String::new())
});
workflow!(Timeless, |_ctx| {
    tokio::time::sleep(Duration::from_millis(1)).await;
    Ok(String::new())
});

#[test]
fn what_waits_for_the_world_outside_fails_the_task() {
    let history = Recorder::start();
    let failed = execution::<Timeless>().begin(history.0.clone(), Vec::new()).err().expect("there is no runtime");
    assert!(failed.failure.message().contains("reactor") || failed.failure.message().contains("runtime"));
    let mut live = execution::<Foreign>();
    live.begin(history.0.clone(), Vec::new()).unwrap_or_else(|failed| panic!("{}", failed.failure));
    std::thread::sleep(Duration::from_millis(100));
    let mut more = Recorder(history.0);
    more.complete(&live.finish());
    more.task();
    let failed = live.begin(more.0, Vec::new()).err().expect("it was woken from outside");
    assert_eq!(failed.violation.expect("a violation").kind, super::ViolationKind::ForeignWake);
}

#[test]
fn types_of_activities_are_as_named() {
    let mut history = Recorder::start();
    let (finished, _) = answer_task(&mut execution::<Sequence>(), &mut history);
    let Some(Asked::ScheduleActivityTaskCommandAttributes(asked)) = &finished.commands[0].attributes else {
        panic!("not a task");
    };
    assert_eq!(asked.activity_type, Some(ActivityType { name: "first".to_owned() }));
    assert_eq!(asked.start_to_close_timeout, Some(prost_types::Duration { seconds: 300, nanos: 0 }));
}
