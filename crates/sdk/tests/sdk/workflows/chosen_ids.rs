//! Tasks whose ids the workflow chose.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use segno_sdk::{
    ViolationKind::TaskTypeMismatch,
    raw::enums::{CommandType, EventType},
    testing::WorkflowTest,
    *,
};

use super::common::*;

fn named(id: &str) -> ScheduleTaskOptions {
    ScheduleTaskOptions { id: Some(id.to_owned()), ..ScheduleTaskOptions::default() }
}

#[workflow]
async fn repeats(ctx: Context, _input: ()) -> Result<Vec<u32>> {
    let first = ctx.schedule_with_options::<Work>(7, named("charge"));
    assert_eq!(first.id(), "charge");
    let same_turn = ctx.schedule_with_options::<Work>(8, named("charge"));
    ctx.sleep(seconds(1)).await?;
    // A later batch, while the task is open; and one when it has ended.
    let later = ctx.schedule_with_options::<Work>(9, named("charge"));
    let other = ctx.schedule_with_options::<Work>(1, named("refund"));
    let mut results = vec![first.await?, same_turn.await?, later.await?, other.await?];
    results.push(ctx.schedule_with_options::<Work>(10, named("charge")).await?);
    // Ids of others do not depend on how often it asked.
    results.push(ctx.schedule::<Work>(2).await?);
    Ok(results)
}

#[tokio::test]
async fn a_task_with_the_id_of_another_of_its_kind_is_that_task() {
    let run = both(|| WorkflowTest::<Repeats>::new(()).mock::<Work>(|n| Ok(n * 10)).latency("work", seconds(5))).await;
    assert_eq!(run.output.as_ref().unwrap(), &[70, 70, 70, 10, 70, 20]);
    assert_eq!(count(&run, EventType::ActivityTaskScheduled), 3);
    let ids: Vec<String> = run
        .history
        .iter()
        .filter_map(|event| match &event.attributes {
            Some(raw::Attributes::ActivityTaskScheduledEventAttributes(task)) => Some(task.activity_id.clone()),
            _ => None,
        })
        .collect();
    assert_eq!(&ids[..2], ["charge", "refund"]);
}

#[workflow]
async fn fails_for_all(ctx: Context, _input: ()) -> Result<Vec<String>> {
    let options = || ScheduleTaskOptions { max_retries: Some(0), ..named("x") };
    let first = ctx.schedule_with_options::<Work>(1, options());
    let second = ctx.schedule_with_options::<Work>(1, options());
    let (first, second) = tokio::join!(first, second);
    let third = ctx.schedule_with_options::<Work>(1, options()).await;
    Ok([first, second, third].map(|failed| failed.unwrap_err().to_string()).into())
}

#[tokio::test]
async fn a_failure_is_that_of_all() {
    let attempts = Arc::new(AtomicU32::new(0));
    let seen = attempts.clone();
    let run = WorkflowTest::<FailsForAll>::new(())
        .mock::<Work>(move |_| {
            seen.fetch_add(1, Ordering::SeqCst);
            Err("no".into())
        })
        .run()
        .await;
    assert_eq!(run.output.unwrap(), ["task work failed: no"; 3]);
    assert_eq!(attempts.load(Ordering::SeqCst), 1);
}

#[workflow]
async fn drops_the_first(ctx: Context, _input: ()) -> Result<(bool, u32)> {
    let first = ctx.schedule_with_options::<Work>(1, named("x"));
    let second = ctx.schedule_with_options::<Work>(1, named("x"));
    // Not sent yet: the id is free again.
    drop(first);
    let withdrawn = second.await.unwrap_err().is_cancelled();
    let first = ctx.schedule_with_options::<Work>(2, named("x"));
    ctx.sleep(seconds(1)).await?;
    let second = ctx.schedule_with_options::<Work>(2, named("x"));
    drop(first);
    assert!(second.await.unwrap_err().is_cancelled());
    let kept = ctx.schedule_with_options::<Work>(3, named("y"));
    // What joined is let go without an effect on the task.
    drop(ctx.schedule_with_options::<Work>(3, named("y")));
    Ok((withdrawn, kept.await?))
}

#[tokio::test]
async fn the_first_future_is_the_one_that_cancels() {
    let run = both(|| WorkflowTest::<DropsTheFirst>::new(()).mock::<Work>(Ok).latency("work", seconds(5))).await;
    assert_eq!(run.output.as_ref().unwrap(), &(true, 3));
    assert_eq!(
        commands(&run),
        [
            CommandType::ScheduleActivityTask,
            CommandType::StartTimer,
            CommandType::ScheduleActivityTask,
            CommandType::RequestCancelActivityTask,
            CommandType::CompleteWorkflowExecution,
        ]
    );
}

const COLLISION: u32 = line!() + 8;

#[workflow]
async fn collides(ctx: Context, later: bool) -> Result<u32> {
    let first = ctx.schedule_with_options::<Work>(1, named("x"));
    if later {
        ctx.sleep(seconds(1)).await?;
    }
    let second = ctx.schedule_with_options::<Other>(1, named("x"));
    Ok(first.await? + second.await?)
}

#[tokio::test]
async fn one_id_for_two_kinds_is_a_violation_that_names_both() {
    for (later, first) in [(true, r#"event 5 scheduled "work""#), (false, r#"history has "work""#)] {
        let test = WorkflowTest::<Collides>::new(later).mock::<Work>(Ok).mock::<Other>(Ok).latency("work", seconds(5));
        let run = test.run().await;
        let violation = run.violation.expect("a violation");
        assert_eq!(violation.kind, TaskTypeMismatch);
        let text = violation.to_string();
        let place = violation.place.unwrap();
        assert!(place.contains(&format!("chosen_ids.rs:{COLLISION}:")), "{place}");
        assert_eq!(
            text,
            format!(r#"task #1: {first} with the id "x", the code asks for "other" with the same id at {place}"#)
        );
        assert_eq!(run.output.unwrap_err().application_kind(), Some("DeterminismViolation"));
    }
}
