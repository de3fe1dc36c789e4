//! Drop cancels; `detach` lets go.

use std::collections::HashMap;

use segno_sdk::{
    raw::enums::{CommandType, EventType},
    testing::WorkflowTest,
    *,
};

use super::common::*;
use CommandType::*;

macro_rules! workflows {
    ($($(#[$meta:meta])* $name:ident($ctx:ident) $body:block)*) => {
        $($(#[$meta])* #[workflow] async fn $name($ctx: Context, _input: ()) -> Result<u32> $body)*
    };
}

workflows! {
    unsent_task(ctx) {
        drop(ctx.schedule::<Work>(1));
        drop(ctx.sleep(seconds(5)));
        drop(ctx.schedule_workflow_raw("x", "Nobody", serde_json::Value::Null));
        Ok(ctx.schedule::<Other>(2).await?)
    }
    sent_task(ctx) {
        let work = ctx.schedule::<Work>(1);
        ctx.sleep(seconds(1)).await?;
        drop(work);
        ctx.sleep(seconds(100)).await?;
        Ok(1)
    }
    detached_task(ctx) {
        let work = ctx.schedule::<Work>(1);
        ctx.sleep(seconds(1)).await?;
        work.detach();
        ctx.sleep(seconds(100)).await?;
        Ok(1)
    }
    sent_timer(ctx) {
        let timer = ctx.sleep(seconds(50));
        ctx.sleep(seconds(1)).await?;
        drop(timer);
        ctx.sleep(seconds(100)).await?;
        Ok(1)
    }
    in_drop(ctx) {
        struct Holder<T>(Option<T>);
        impl<T> Drop for Holder<T> {
            fn drop(&mut self) { drop(self.0.take()); }
        }
        let holder = Holder(Some(ctx.schedule::<Work>(1)));
        ctx.sleep(seconds(1)).await?;
        drop(holder);
        ctx.sleep(seconds(1)).await?;
        Ok(1)
    }
    hash_mapped(ctx) {
        let mut map = HashMap::new();
        for n in 0..50 {
            map.insert(n, ctx.schedule::<Work>(n));
        }
        ctx.sleep(seconds(1)).await?;
        drop(map);
        ctx.sleep(seconds(1)).await?;
        Ok(1)
    }
    siblings(ctx) {
        let all = tokio::try_join!(ctx.schedule::<Work>(1), ctx.schedule::<Other>(1), ctx.sleep(seconds(500)));
        ctx.sleep(seconds(1)).await?;
        Ok(if all.is_err() { 1 } else { 0 })
    }
    explicit_cancel(ctx) {
        let work = ctx.schedule::<Work>(1);
        ctx.sleep(seconds(1)).await?;
        work.cancel();
        match work.await {
            Err(failure) if failure.is_cancelled() => Ok(1),
            _ => Ok(0),
        }
    }
    wait_completed(ctx) {
        let options = ScheduleTaskOptions { cancellation: CancellationType::WaitCompleted, ..Default::default() };
        let work = ctx.schedule_with_options::<Work>(1, options);
        ctx.sleep(seconds(1)).await?;
        work.cancel();
        Ok(work.await?)
    }
    abandon(ctx) {
        let options = ScheduleTaskOptions { cancellation: CancellationType::Abandon, ..Default::default() };
        let work = ctx.schedule_with_options::<Work>(1, options);
        ctx.sleep(seconds(1)).await?;
        work.cancel();
        match work.await {
            Err(failure) if failure.is_cancelled() => Ok(1),
            _ => Ok(0),
        }
    }
    at_the_end(ctx) {
        let _work = ctx.schedule::<Work>(1);
        let _timer = ctx.sleep(seconds(500));
        ctx.sleep(seconds(1)).await?;
        Ok(1)
    }
}

async fn run<W: Workflow<Input = (), Output = u32>>() -> testing::TestRun<u32> {
    both(|| {
        WorkflowTest::<W>::new(())
            .mock::<Work>(|n| Ok(n + 41))
            .latency("work", seconds(30))
            .mock::<Other>(|_| Err(Failure::new("no").non_retryable().into()))
    })
    .await
}

#[tokio::test]
async fn what_was_not_sent_is_not_sent() {
    let run = both(|| WorkflowTest::<UnsentTask>::new(()).mock::<Other>(Ok)).await;
    assert_eq!(run.output.as_ref().unwrap(), &2);
    assert_eq!(commands(&run), [ScheduleActivityTask, CompleteWorkflowExecution]);
}

#[tokio::test]
async fn a_task_that_was_sent_is_cancelled() {
    let run = run::<SentTask>().await;
    assert_eq!(run.output.as_ref().unwrap(), &1);
    assert_eq!(
        commands(&run),
        [ScheduleActivityTask, StartTimer, StartTimer, RequestCancelActivityTask, CompleteWorkflowExecution],
        "the cancellation follows what the same poll asked for"
    );
    assert_eq!(
        count(&run, EventType::ActivityTaskCompleted),
        1,
        "the mock completes all the same, and the result is discarded"
    );
}

#[tokio::test]
async fn without_the_rule_nothing_is_cancelled() {
    let run = WorkflowTest::<SentTask>::new(())
        .mock::<Work>(Ok)
        .latency("work", seconds(30))
        .sabotage("DropWithoutCancel")
        .run()
        .await;
    assert!(!commands(&run).contains(&RequestCancelActivityTask), "the test of drops does not need the rule");
}

#[tokio::test]
async fn a_detached_task_goes_on() {
    let run = run::<DetachedTask>().await;
    assert_eq!(commands(&run), [ScheduleActivityTask, StartTimer, StartTimer, CompleteWorkflowExecution]);
    assert_eq!(count(&run, EventType::ActivityTaskCompleted), 1);
}

#[tokio::test]
async fn a_timer_that_was_sent_is_cancelled() {
    let run = run::<SentTimer>().await;
    assert_eq!(commands(&run), [StartTimer, StartTimer, StartTimer, CancelTimer, CompleteWorkflowExecution]);
    assert_eq!(count(&run, EventType::TimerFired), 2);
}

#[tokio::test]
async fn a_drop_inside_of_drop_cancels() {
    let run = run::<InDrop>().await;
    assert!(commands(&run).contains(&RequestCancelActivityTask));
}

#[tokio::test]
async fn a_map_without_order_is_cancelled_in_order() {
    let run = run::<HashMapped>().await;
    let cancelled: Vec<i64> = run
        .history
        .iter()
        .filter_map(|event| match &event.attributes {
            Some(raw::Attributes::ActivityTaskCancelRequestedEventAttributes(event)) => Some(event.scheduled_event_id),
            _ => None,
        })
        .collect();
    assert_eq!(cancelled.len(), 50);
    assert!(cancelled.is_sorted());
}

#[tokio::test]
async fn try_join_cancels_siblings() {
    let run = run::<Siblings>().await;
    assert_eq!(run.output.as_ref().unwrap(), &1);
    let asked = commands(&run);
    assert!(asked.contains(&RequestCancelActivityTask) && asked.contains(&CancelTimer), "{asked:?}");
}

#[tokio::test]
async fn a_cancelled_task_ends_at_once() {
    let run = run::<ExplicitCancel>().await;
    assert_eq!(run.output.unwrap(), 1);
    assert_eq!(run.elapsed, seconds(1));
}

#[tokio::test]
async fn a_cancelled_task_can_be_waited_for() {
    let run = run::<WaitCompleted>().await;
    assert_eq!(run.output.as_ref().unwrap(), &42);
    assert_eq!(run.elapsed, seconds(30));
    assert!(commands(&run).contains(&RequestCancelActivityTask));
}

#[tokio::test]
async fn an_abandoned_task_is_not_told() {
    let run = run::<Abandon>().await;
    assert_eq!(run.output.as_ref().unwrap(), &1);
    assert!(!commands(&run).contains(&RequestCancelActivityTask));
}

#[tokio::test]
async fn the_end_of_the_run_cancels_nothing() {
    let run = run::<AtTheEnd>().await;
    assert_eq!(commands(&run), [ScheduleActivityTask, StartTimer, StartTimer, CompleteWorkflowExecution]);
}
