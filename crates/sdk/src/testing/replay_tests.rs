//! Tests of histories that a test run does not produce: resets, failed workflow tasks, parts of histories.

use std::{sync::Arc, time::Duration};

use segno_proto::{
    command::{Command, command::Attributes as Wire},
    enums::{EventType, WorkflowTaskFailedCause},
    events::*,
    nanos_timestamp, timestamp_nanos,
};

use super::{
    WorkflowTest,
    server::event::{Event, HistoryEvent},
};
use crate::{
    Context, Result, WorkflowContext,
    workflow::{WorkflowRegistry, execution::Execution},
};

/// The commands of every workflow task depend on its time.
#[crate::workflow]
async fn several(ctx: Context, _input: ()) -> Result<i64> {
    let begun = ctx.current_time_millis();
    for n in 0..3 {
        ctx.schedule_raw("work", n.into()).await?;
        let elapsed = u64::try_from(ctx.current_time_millis() - begun)?;
        ctx.sleep(Duration::from_millis(elapsed + 1)).await?;
    }
    Ok(ctx.current_time_millis() - begun)
}

async fn history() -> Vec<HistoryEvent> {
    let run =
        WorkflowTest::<Several>::new(()).mock_raw("work", Ok).latency("work", Duration::from_millis(100)).run().await;
    run.output.unwrap();
    run.history
}

fn execution() -> Execution {
    let mut registry = WorkflowRegistry::default();
    registry.add::<Several>();
    Execution::new(Arc::new(registry), "default", "")
}

fn answer(events: &[HistoryEvent]) -> Vec<Command> {
    let mut execution = execution();
    execution.begin(events.to_vec(), Vec::new()).unwrap();
    execution.finish().commands
}

/// Where a workflow task was started that was completed.
fn starts(history: &[HistoryEvent]) -> Vec<usize> {
    (0..history.len())
        .filter(|at| history[*at].event_type() == EventType::WorkflowTaskStarted)
        .map(|at| at + 1)
        .collect()
}

fn push(events: &mut Vec<HistoryEvent>, kind: EventType, later: i64, attributes: Event) {
    let last = events.last().unwrap();
    let time = last.event_time.as_ref().map(timestamp_nanos).unwrap() + later;
    events.push(HistoryEvent {
        event_id: last.event_id + 1,
        event_type: kind as i32,
        event_time: Some(nanos_timestamp(time)),
        attributes: Some(attributes),
        ..Default::default()
    });
}

/// The workflow task that was started last fails, and another one is started.
fn fail(events: &mut Vec<HistoryEvent>, cause: WorkflowTaskFailedCause, later: i64) {
    let failed =
        WorkflowTaskFailedEventAttributes { cause: cause as i32, new_run_id: "after".to_owned(), ..Default::default() };
    push(events, EventType::WorkflowTaskFailed, 0, Event::WorkflowTaskFailedEventAttributes(Box::new(failed)));
    let scheduled = Event::WorkflowTaskScheduledEventAttributes(Default::default());
    push(events, EventType::WorkflowTaskScheduled, 0, scheduled);
    let started = Event::WorkflowTaskStartedEventAttributes(Default::default());
    push(events, EventType::WorkflowTaskStarted, later, started);
}

fn id(command: &Command) -> Option<&str> {
    match command.attributes.as_ref()? {
        Wire::ScheduleActivityTaskCommandAttributes(task) => Some(&task.activity_id),
        Wire::StartTimerCommandAttributes(timer) => Some(&timer.timer_id),
        _ => None,
    }
}

fn ids(commands: &[Command]) -> Vec<&str> {
    commands.iter().filter_map(id).collect()
}

#[tokio::test]
async fn a_reset_keeps_the_ids_before_it_and_changes_those_after_it() {
    let history = history().await;
    for cut in starts(&history) {
        let first = answer(&history[..cut]);
        assert_eq!(first, answer(&history[..cut]));
        let mut reset = history[..cut].to_vec();
        fail(&mut reset, WorkflowTaskFailedCause::ResetWorkflow, 0);
        let again = answer(&reset);
        assert_eq!(again.len(), first.len());
        for (one, other) in ids(&first).iter().zip(ids(&again)) {
            assert_ne!(*one, other, "new work has new ids");
        }
        let mut failed = history[..cut].to_vec();
        fail(&mut failed, WorkflowTaskFailedCause::WorkflowWorkerUnhandledFailure, 0);
        assert_eq!(answer(&failed), first, "a workflow task that failed for another reason changes nothing");
    }
}

#[tokio::test]
async fn time_is_that_of_the_workflow_task_that_is_answered() {
    let history = history().await;
    for cut in starts(&history).into_iter().skip(1) {
        let spans = |commands: Vec<Command>| -> Option<i64> {
            commands.iter().find_map(|command| match command.attributes.as_ref()? {
                Wire::StartTimerCommandAttributes(timer) => {
                    Some(segno_proto::duration_nanos(timer.start_to_fire_timeout.as_ref()) / 1_000_000)
                }
                _ => None,
            })
        };
        let mut later = history[..cut].to_vec();
        fail(&mut later, WorkflowTaskFailedCause::Unspecified, 5_000_000_000);
        match (spans(answer(&history[..cut])), spans(answer(&later))) {
            (Some(first), Some(again)) => assert_eq!(again, first + 5000),
            (first, again) => assert_eq!(first, again),
        }
    }
}

#[tokio::test]
async fn history_may_come_in_parts() {
    let history = history().await;
    for cut in starts(&history) {
        let whole = answer(&history[..cut]);
        for part in starts(&history).into_iter().filter(|part| *part < cut) {
            // A cached instance that answered an earlier workflow task.
            let mut cached = execution();
            cached.begin(history[..part].to_vec(), Vec::new()).unwrap();
            cached.finish();
            cached.begin(history[part..cut].to_vec(), Vec::new()).unwrap();
            assert_eq!(cached.finish().commands, whole, "{part} then {cut}");
            // The same with events that it has seen.
            let mut cached = execution();
            cached.begin(history[..part].to_vec(), Vec::new()).unwrap();
            cached.finish();
            cached.begin(history[..cut].to_vec(), Vec::new()).unwrap();
            assert_eq!(cached.finish().commands, whole);
        }
    }
    let cuts = starts(&history);
    let mut behind = execution();
    behind.begin(history[..cuts[0]].to_vec(), Vec::new()).unwrap();
    behind.finish();
    let hole = behind.begin(history[cuts[1]..cuts[2]].to_vec(), Vec::new());
    assert!(hole.is_err_and(|failed| failed.stale), "a hole is noticed");
}

#[tokio::test]
async fn an_answer_that_was_not_taken_makes_the_instance_stale() {
    let history = history().await;
    let cut = starts(&history)[1];
    let mut cached = execution();
    cached.begin(history[..cut].to_vec(), Vec::new()).unwrap();
    cached.finish();
    let mut failed = history[..cut].to_vec();
    fail(&mut failed, WorkflowTaskFailedCause::UnhandledCommand, 0);
    assert!(cached.begin(failed[cut..].to_vec(), Vec::new()).is_err_and(|failed| failed.stale));
    // A fresh one can answer.
    assert!(!answer(&failed).is_empty());
}
