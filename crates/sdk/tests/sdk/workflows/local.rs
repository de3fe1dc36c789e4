//! Work of the worker itself: `run`, `run_async`, local tasks. Its results are markers.

use std::sync::atomic::{AtomicU32, Ordering};

use segno_sdk::{
    raw::enums::{CommandType, EventType},
    testing::WorkflowTest,
    *,
};

use super::common::*;

static ONCE: AtomicU32 = AtomicU32::new(0);

#[workflow]
async fn once(ctx: Context, _input: ()) -> Result<u32> {
    let token = ctx.run("token", || ONCE.fetch_add(1, Ordering::Relaxed)).await?;
    ctx.sleep(seconds(1)).await?;
    let again = ctx.run("token", || ONCE.fetch_add(1, Ordering::Relaxed)).await?;
    Ok(again * 10 + token)
}

#[tokio::test]
async fn a_closure_is_executed_once() {
    // Several replays later it is still the first value.
    let run = WorkflowTest::<Once>::new(()).without_cache().run().await;
    assert_eq!(run.output.as_ref().unwrap(), &10);
    assert_eq!(ONCE.load(Ordering::Relaxed), 2);
    use CommandType::*;
    assert_eq!(commands(&run), [RecordMarker, StartTimer, RecordMarker, CompleteWorkflowExecution]);
}

#[workflow]
async fn panics(ctx: Context, _input: ()) -> Result<String> {
    let failure = ctx.run::<_, u32>("bad", || panic!("in a closure")).await.unwrap_err();
    ctx.sleep(seconds(1)).await?;
    Ok(format!("{:?} {}", failure.application_kind(), failure.message()))
}

#[tokio::test]
async fn a_panic_in_a_closure_is_remembered() {
    let run = both(|| WorkflowTest::<Panics>::new(())).await;
    let output = run.output.unwrap();
    assert!(output.starts_with("Some(\"Panic\") in a closure, at "), "{output}");
    assert!(output.contains("workflows/local.rs:"), "{output}");
}

/// Schedules by the order in which results come.
#[workflow]
async fn by_order_of_results(ctx: Context, _input: ()) -> Result<Vec<u32>> {
    use futures::StreamExt;
    let mut all: futures::stream::FuturesUnordered<_> = [3u64, 1, 2]
        .into_iter()
        .map(|n| {
            let inner = ctx.clone();
            async move {
                let done = inner.run_async("wait", move || async move {
                    tokio::time::sleep(seconds(n)).await;
                    n as u32
                });
                let n = done.await?;
                inner.schedule::<Work>(n).await
            }
        })
        .collect();
    let mut order = Vec::new();
    while let Some(n) = all.next().await {
        order.push(n?);
    }
    Ok(order)
}

#[tokio::test]
async fn results_are_delivered_one_at_a_time() {
    let run = both(|| WorkflowTest::<ByOrderOfResults>::new(()).mock::<Work>(Ok)).await;
    assert_eq!(run.output.as_ref().unwrap(), &[1, 2, 3]);
    use CommandType::*;
    let first: Vec<CommandType> = commands(&run).into_iter().take(6).collect();
    assert_eq!(
        first,
        [RecordMarker, ScheduleActivityTask, RecordMarker, ScheduleActivityTask, RecordMarker, ScheduleActivityTask]
    );
}

#[task]
async fn slow(n: u64) -> Result<u64> {
    tokio::time::sleep(seconds(n)).await;
    Ok(n)
}

#[workflow]
async fn long(ctx: Context, n: u64) -> Result<u64> {
    let slow = ctx.schedule_local::<Slow>(n);
    let timer = ctx.sleep(seconds(3));
    let (slow, timer) = tokio::join!(slow, timer);
    timer?;
    ctx.schedule::<Work>(1).await?;
    Ok(slow?)
}

#[tokio::test]
async fn long_local_tasks_keep_the_workflow_task_alive() {
    let run = WorkflowTest::<Long>::new(30).task::<Slow>().mock::<Work>(Ok).run().await;
    assert_eq!(run.output.as_ref().unwrap(), &30);
    assert_eq!(run.elapsed, seconds(30));
    // Without a command in between: the workflow tasks of the heartbeat.
    assert!(count(&run, EventType::WorkflowTaskCompleted) >= 5, "{}", count(&run, EventType::WorkflowTaskCompleted));
    assert_eq!(count(&run, EventType::MarkerRecorded), 1);
}

static TRIES: AtomicU32 = AtomicU32::new(0);

#[workflow]
async fn retried(ctx: Context, _input: ()) -> Result<u32> {
    let policy = RetryPolicy { initial_interval: seconds(20), ..RetryPolicy::attempts(3) };
    let options = LocalOptions { retry_policy: Some(policy), ..Default::default() };
    Ok(ctx.schedule_local_with_options::<Work>(1, options).await?)
}

#[tokio::test]
async fn local_tasks_are_retried_with_a_backoff_longer_than_the_workflow_task() {
    let run = WorkflowTest::<Retried>::new(())
        .mock::<Work>(|_| match TRIES.fetch_add(1, Ordering::Relaxed) {
            0 | 1 => Err(Failure::new("not yet").into()),
            n => Ok(n),
        })
        .run()
        .await;
    assert_eq!(run.output.as_ref().unwrap(), &2);
    assert_eq!(run.elapsed, seconds(60));
    assert_eq!(TRIES.load(Ordering::Relaxed), 3, "replays do not execute it");
    assert_eq!(count(&run, EventType::MarkerRecorded), 1);
}

#[workflow]
async fn fails_locally(ctx: Context, _input: ()) -> Result<u32> {
    Ok(ctx.schedule_local::<Work>(1).await?)
}

#[tokio::test]
async fn a_local_task_that_fails_for_good() {
    let run = both(|| {
        WorkflowTest::<FailsLocally>::new(())
            .mock::<Work>(|_| Err(Failure::application("Bad", "no").non_retryable().into()))
    })
    .await;
    let failure = run.output.unwrap_err();
    assert_eq!(failure.application_kind(), Some("Bad"));
}

#[workflow]
async fn dropped(ctx: Context, _input: ()) -> Result<u32> {
    tokio::select! {
        _ = ctx.schedule_local::<Slow>(100) => Ok(0),
        _ = ctx.schedule_local::<Work>(1) => Ok(1),
    }
}

#[tokio::test]
async fn a_dropped_local_task_leaves_no_marker() {
    let run = both(|| WorkflowTest::<Dropped>::new(()).task::<Slow>().mock::<Work>(Ok)).await;
    assert_eq!(run.output.as_ref().unwrap(), &1);
    assert_eq!(count(&run, EventType::MarkerRecorded), 1);
    assert_eq!(run.elapsed, seconds(0));
}

const GO: Signal<u32> = Signal::named("go");

/// A signal that comes while the workflow task is under way, with an end that does not know of it.
#[workflow]
async fn overtaken(ctx: Context, _input: ()) -> Result<u32> {
    ctx.schedule_local::<Slow>(3).await?;
    Ok(ctx.try_receive(GO).unwrap_or_default())
}

#[tokio::test]
async fn an_end_that_does_not_know_a_signal_is_done_again() {
    let run = WorkflowTest::<Overtaken>::new(()).task::<Slow>().signal(seconds(1), GO, 5).run().await;
    assert_eq!(run.output.as_ref().unwrap(), &5, "the local task was executed again, as its marker was not stored");
    assert_eq!(count(&run, EventType::WorkflowTaskFailed), 1);
}

#[workflow]
async fn markers(ctx: Context, flip: bool) -> Result<u32> {
    // Not deterministic on purpose: what is asked for differs from replay to replay.
    static CALLS: AtomicU32 = AtomicU32::new(0);
    let name = if flip && CALLS.fetch_add(1, Ordering::Relaxed) > 0 { "other" } else { "one" };
    ctx.run(name, || 1).await?;
    ctx.sleep(seconds(1)).await?;
    Ok(1)
}

#[tokio::test]
async fn other_names_of_markers_are_noticed() {
    let run = WorkflowTest::<Markers>::new(true).run().await;
    assert_eq!(run.output.unwrap_err().application_kind(), Some("DeterminismViolation"));
}
