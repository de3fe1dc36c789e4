//! Futures that go on by themselves.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use segno_sdk::{raw::enums::CommandType, testing::WorkflowTest, *};

use super::common::*;

#[workflow]
async fn first_polls(ctx: Context, _input: ()) -> Result<Vec<u32>> {
    let order = Arc::new(std::sync::Mutex::new(vec![0]));
    let mut handles = Vec::new();
    for n in 1..=3 {
        let order = order.clone();
        handles.push(ctx.spawn(async move { order.lock().unwrap().push(n) }));
    }
    order.lock().unwrap().push(10);
    for handle in handles {
        handle.await?;
    }
    let order = order.lock().unwrap().clone();
    Ok(order)
}

#[tokio::test]
async fn spawned_futures_are_polled_first_in_their_order_and_after_their_parent() {
    let run = both(|| WorkflowTest::<FirstPolls>::new(())).await;
    assert_eq!(run.output.unwrap(), [0, 10, 1, 2, 3]);
}

#[workflow]
async fn abort(ctx: Context, _input: ()) -> Result<String> {
    let inner = ctx.clone();
    let handle = ctx.spawn(async move { inner.schedule::<Work>(1).await });
    ctx.sleep(seconds(1)).await?;
    handle.abort();
    match handle.await {
        Err(failure) if failure.is_cancelled() => {}
        other => return Ok(format!("{other:?}")),
    }
    ctx.sleep(seconds(1)).await?;
    Ok("aborted".to_owned())
}

#[tokio::test]
async fn abort_cancels_what_the_future_waits_for() {
    let run = both(|| WorkflowTest::<Abort>::new(()).mock::<Work>(Ok).latency("work", seconds(50))).await;
    assert_eq!(run.output.as_deref().unwrap(), "aborted");
    use CommandType::*;
    // The run comes first: its timer is started before the spawned task is scheduled, or aborted.
    assert_eq!(
        commands(&run),
        [StartTimer, ScheduleActivityTask, StartTimer, RequestCancelActivityTask, CompleteWorkflowExecution]
    );
}

#[workflow]
async fn abandoned(ctx: Context, _input: ()) -> Result<u32> {
    let inner = ctx.clone();
    drop(ctx.spawn(async move {
        loop {
            if inner.sleep(seconds(10)).await.is_err() {
                break;
            }
        }
    }));
    ctx.sleep(seconds(25)).await?;
    Ok(7)
}

#[tokio::test]
async fn what_still_runs_at_the_end_just_ends() {
    let run = both(|| WorkflowTest::<Abandoned>::new(())).await;
    assert_eq!(run.output.as_ref().unwrap(), &7);
    use CommandType::*;
    assert_eq!(commands(&run), [StartTimer, StartTimer, StartTimer, StartTimer, CompleteWorkflowExecution]);
    assert_eq!(run.elapsed, seconds(25));
}

static PANICS: AtomicU32 = AtomicU32::new(0);

#[workflow]
async fn panics_inside(ctx: Context, _input: ()) -> Result<()> {
    let inner = ctx.clone();
    let handle = ctx.spawn(async move {
        let _ = inner.sleep(seconds(1)).await;
        PANICS.fetch_add(1, Ordering::Relaxed);
        panic!("inside a spawned future");
    });
    handle.await?
}

#[tokio::test]
async fn a_panic_inside_fails_the_workflow_task() {
    let run = WorkflowTest::<PanicsInside>::new(()).run().await;
    let failure = run.output.unwrap_err();
    assert_eq!(failure.application_kind(), Some("Panic"));
    assert!(failure.message().contains("inside a spawned future"));
    assert!(PANICS.load(Ordering::Relaxed) > 0);
}

#[workflow]
async fn channel(ctx: Context, _input: ()) -> Result<Vec<u32>> {
    let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel();
    for n in 0..3 {
        let (inner, sender) = (ctx.clone(), sender.clone());
        ctx.spawn(async move {
            let done = inner.schedule::<Work>(n).await;
            let _ = sender.send(done.unwrap_or_default());
        });
    }
    drop(sender);
    let mut all = Vec::new();
    while let Some(n) = receiver.recv().await {
        all.push(n);
    }
    Ok(all)
}

#[tokio::test]
async fn channels_between_futures_of_one_workflow_work() {
    for batch in [false, true] {
        let run = both(|| {
            let test = WorkflowTest::<Channel>::new(()).mock::<Work>(|n| Ok(n * 10));
            if batch { test.batch(seconds(1)) } else { test }
        })
        .await;
        assert_eq!(run.output.unwrap(), [0, 10, 20]);
    }
}
