//! Tests of the server in memory: commands in, events out.

use segno_proto::{
    command::{Command, command::Attributes as Wire, *},
    common::{ActivityType, WorkflowType},
    enums::EventType,
    update,
};

use super::{run::UpdateOutcome, *};
use crate::converter::encode_json;

const SECOND: Nanos = 1_000_000_000;

fn command(attributes: Wire) -> Command {
    Command { attributes: Some(attributes), ..Default::default() }
}

fn task(id: &str, attempts: i32) -> Command {
    command(Wire::ScheduleActivityTaskCommandAttributes(ScheduleActivityTaskCommandAttributes {
        activity_id: id.to_owned(),
        activity_type: Some(ActivityType { name: "work".to_owned() }),
        start_to_close_timeout: Some(nanos_duration(60 * SECOND)),
        retry_policy: Some(segno_proto::common::RetryPolicy { maximum_attempts: attempts, ..Default::default() }),
        ..Default::default()
    }))
}

fn timer(id: &str, span: Nanos) -> Command {
    command(Wire::StartTimerCommandAttributes(StartTimerCommandAttributes {
        timer_id: id.to_owned(),
        start_to_fire_timeout: Some(nanos_duration(span)),
    }))
}

fn complete() -> Command {
    command(Wire::CompleteWorkflowExecutionCommandAttributes(CompleteWorkflowExecutionCommandAttributes {
        result: None,
    }))
}

fn cancel_task(scheduled_event_id: i64) -> Command {
    command(Wire::RequestCancelActivityTaskCommandAttributes(RequestCancelActivityTaskCommandAttributes {
        scheduled_event_id,
    }))
}

fn types(server: &Server, run: usize) -> Vec<EventType> {
    server.runs[run].history.iter().map(|event| EventType::try_from(event.event_type).unwrap()).collect()
}

fn answer_task(server: &mut Server, commands: Vec<Command>) -> Answer {
    let run = server.next_ready().expect("a workflow task");
    server.start_workflow_task(run).unwrap();
    server.complete_workflow_task(run, commands, &[], false)
}

fn server() -> Server {
    let mut server = Server::new(7, None);
    server.start("root", "Root", "queue", Vec::new());
    server
}

#[test]
fn a_timer_and_a_task() {
    use EventType::*;
    let mut server = server();
    assert_eq!(answer_task(&mut server, vec![task("a", 1), timer("t", 5 * SECOND)]), Answer::Stored);
    assert!(server.advance(), "the attempt begins");
    let orders = server.take_orders();
    assert!(matches!(&orders[1], Order::Attempt { attempt: 1, kind, scheduled_event_id: 5, .. } if kind == "work"));
    server.end_attempt(0, 5, 1, Ok(vec![encode_json(&1).unwrap()]));
    assert_eq!(answer_task(&mut server, Vec::new()), Answer::Stored);
    while server.next_ready().is_none() {
        assert!(server.advance());
    }
    assert_eq!(server.now, ORIGIN + 5 * SECOND);
    server.start_workflow_task(0).unwrap();
    server.complete_workflow_task(0, vec![complete()], &[], false);
    assert_eq!(
        types(&server, 0),
        [
            WorkflowExecutionStarted,
            WorkflowTaskScheduled,
            WorkflowTaskStarted,
            WorkflowTaskCompleted,
            ActivityTaskScheduled,
            TimerStarted,
            ActivityTaskStarted,
            ActivityTaskCompleted,
            WorkflowTaskScheduled,
            WorkflowTaskStarted,
            WorkflowTaskCompleted,
            TimerFired,
            WorkflowTaskScheduled,
            WorkflowTaskStarted,
            WorkflowTaskCompleted,
            WorkflowExecutionCompleted,
        ]
    );
    let Some(Event::ActivityTaskCompletedEventAttributes(end)) = &server.runs[0].history[7].attributes else {
        panic!()
    };
    assert_eq!((end.scheduled_event_id, end.started_event_id), (5, 7));
    assert!(server.runs[0].closed.is_some());
}

#[test]
fn attempts_follow_the_policy_in_virtual_time() {
    let mut server = server();
    answer_task(&mut server, vec![task("a", 3)]);
    let mut starts = Vec::new();
    while server.next_ready().is_none() && server.advance() {
        for order in server.take_orders() {
            if let Order::Attempt { attempt, .. } = order {
                starts.push((server.now - ORIGIN) / SECOND);
                server.end_attempt(0, 5, attempt, Err(Failure::new("no").into()));
            }
        }
        if server.runs[0].tasks.is_empty() {
            break;
        }
    }
    assert_eq!(starts, [0, 1, 3]);
    let Some(Event::ActivityTaskFailedEventAttributes(end)) = &server.runs[0].history[6].attributes else { panic!() };
    assert_eq!(end.retry_state, segno_proto::enums::RetryState::MaximumAttemptsReached as i32);
    let Some(Event::ActivityTaskStartedEventAttributes(started)) = &server.runs[0].history[5].attributes else {
        panic!()
    };
    assert_eq!(started.attempt, 3);
    assert!(started.last_failure.is_some());
}

#[test]
fn an_attempt_that_takes_too_long_times_out() {
    let mut server = server();
    answer_task(&mut server, vec![task("a", 1)]);
    while !server.runs[0].tasks.is_empty() {
        assert!(server.advance());
    }
    assert_eq!(server.now, ORIGIN + 60 * SECOND);
    assert_eq!(types(&server, 0)[6], EventType::ActivityTaskTimedOut);
    // Its result comes too late.
    server.end_attempt(0, 5, 1, Ok(Vec::new()));
    assert_eq!(server.runs[0].history.len(), 8);
}

#[test]
fn a_cancel_that_crosses_the_completion_is_refused() {
    let mut server = server();
    answer_task(&mut server, vec![task("a", 1), timer("t", SECOND)]);
    server.advance();
    server.advance();
    let run = server.next_ready().unwrap();
    server.start_workflow_task(run).unwrap();
    server.end_attempt(0, 5, 1, Ok(Vec::new()));
    let answer = server.complete_workflow_task(0, vec![cancel_task(5)], &[], false);
    assert!(matches!(answer, Answer::CommandError(WorkflowTaskFailedCause::BadRequestCancelActivityAttributes, _)));
    let end = &types(&server, 0)[9..];
    use EventType::*;
    assert_eq!(end, [WorkflowTaskFailed, ActivityTaskStarted, ActivityTaskCompleted, WorkflowTaskScheduled]);
    assert_eq!(server.attempt(0), 2);
}

#[test]
fn a_closing_command_with_unseen_events_is_refused() {
    let mut server = server();
    let run = server.next_ready().unwrap();
    server.start_workflow_task(run).unwrap();
    server.input(run, Input::Signal { name: "s".to_owned(), input: Vec::new() });
    let answer = server.complete_workflow_task(0, vec![complete()], &[], false);
    assert!(matches!(answer, Answer::CommandError(WorkflowTaskFailedCause::UnhandledCommand, _)));
    assert_eq!(types(&server, 0)[4], EventType::WorkflowExecutionSignaled);
    assert_eq!(answer_task(&mut server, vec![complete()]), Answer::Stored);
    assert!(server.runs[0].closed.is_some());
}

#[test]
fn a_timer_that_fired_meanwhile_can_be_cancelled() {
    let mut server = server();
    answer_task(&mut server, vec![timer("t", SECOND)]);
    server.input(0, Input::Signal { name: "s".to_owned(), input: Vec::new() });
    let run = server.next_ready().unwrap();
    server.start_workflow_task(run).unwrap();
    server.advance();
    let cancel = command(Wire::CancelTimerCommandAttributes(CancelTimerCommandAttributes { timer_id: "t".to_owned() }));
    assert_eq!(server.complete_workflow_task(0, vec![cancel], &[], false), Answer::Stored);
    assert_eq!(types(&server, 0).last(), Some(&EventType::TimerCanceled));
}

#[test]
fn a_task_that_waits_for_its_next_attempt_is_cancelled_at_once() {
    use EventType::*;
    let mut server = server();
    answer_task(&mut server, vec![task("a", 0)]);
    server.advance();
    server.end_attempt(0, 5, 1, Err(Failure::new("no").into()));
    server.input(0, Input::Cancel { reason: "why".to_owned() });
    answer_task(&mut server, vec![cancel_task(5), timer("t", SECOND)]);
    let end = &types(&server, 0)[9..];
    assert_eq!(end, [ActivityTaskCancelRequested, TimerStarted, ActivityTaskCanceled, WorkflowTaskScheduled]);
}

#[test]
fn a_rejected_update_leaves_no_trace() {
    let reject = |commands: Vec<Command>| {
        let mut server = server();
        answer_task(&mut server, commands);
        let before = server.runs[0].history.clone();
        server.input(0, Input::Update { id: "u".to_owned(), name: "add".to_owned(), input: Vec::new() });
        let run = server.next_ready().unwrap();
        let task = server.start_workflow_task(run).unwrap();
        assert_eq!(task.messages[0].id, "u/request");
        let rejection = Message {
            id: "u/rejection".to_owned(),
            protocol_instance_id: "u".to_owned(),
            body: messages::pack(messages::REJECTION, &update::Rejection::default()),
            ..Default::default()
        };
        let answer = server.complete_workflow_task(0, Vec::new(), &[rejection], false);
        assert!(matches!(server.runs[0].outcomes["u"], UpdateOutcome::Rejected(_)));
        (answer, before, server.runs.remove(0).history)
    };
    let (answer, before, after) = reject(Vec::new());
    assert_eq!(answer, Answer::Dropped(before.len() as i64));
    assert_eq!(after, before);
    // With an event since the last completion the workflow task stays.
    let (answer, before, after) = reject(vec![timer("t", SECOND)]);
    assert_eq!(answer, Answer::Stored);
    assert_eq!(after.len(), before.len() + 3);
}

#[test]
fn a_child_lives_and_its_parent_hears_of_it() {
    use EventType::*;
    let mut server = server();
    let child =
        command(Wire::StartChildWorkflowExecutionCommandAttributes(StartChildWorkflowExecutionCommandAttributes {
            workflow_id: "root/x".to_owned(),
            workflow_type: Some(WorkflowType { name: "Child".to_owned() }),
            ..Default::default()
        }));
    answer_task(&mut server, vec![child.clone(), child]);
    assert!(server.advance(), "the first child starts");
    assert!(server.advance(), "the second has the same id");
    assert_eq!(server.runs.len(), 2);
    assert_eq!(server.next_ready(), Some(1));
    server.start_workflow_task(1).unwrap();
    server.complete_workflow_task(1, vec![complete()], &[], false);
    let end = &types(&server, 0)[4..];
    assert_eq!(
        end,
        [
            StartChildWorkflowExecutionInitiated,
            StartChildWorkflowExecutionInitiated,
            ChildWorkflowExecutionStarted,
            WorkflowTaskScheduled,
            StartChildWorkflowExecutionFailed,
            ChildWorkflowExecutionCompleted,
        ]
    );
    let Some(Event::ChildWorkflowExecutionCompletedEventAttributes(end)) = &server.runs[0].history[9].attributes else {
        panic!()
    };
    assert_eq!((end.initiated_event_id, end.started_event_id), (5, 7));
}
