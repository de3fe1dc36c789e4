//! Tasks: results, failures, heartbeats, cancellation.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use segno_sdk::{
    CancelReason, Context, Failure, FailureKind, Result, RetryPolicy, ScheduleTaskOptions, TaskContext,
    WorkflowContext, task, tasks, workflow,
};

use super::{queue, server, until};

fn quick(attempts: u32) -> ScheduleTaskOptions {
    let retry_policy = RetryPolicy {
        initial_interval: Duration::from_millis(20),
        backoff_coefficient: 1.0,
        maximum_attempts: attempts,
        ..RetryPolicy::default()
    };
    ScheduleTaskOptions {
        retry_policy: Some(retry_policy),
        timeout: Some(Duration::from_secs(30)),
        heartbeat_timeout: Some(Duration::from_secs(2)),
        ..ScheduleTaskOptions::default()
    }
}

#[task]
async fn double(number: u32) -> Result<u32> {
    Ok(number * 2)
}

#[task]
fn sum(numbers: Vec<u64>, more: u64) -> Result<u64> {
    Ok(numbers.iter().sum::<u64>() + more)
}

#[workflow]
async fn fan_out(ctx: Context, width: u32) -> Result<u64> {
    let doubled = (0..width).map(|number| ctx.schedule::<Double>(number)).collect::<Vec<_>>();
    let doubled = futures::future::try_join_all(doubled).await?;
    let doubled = doubled.into_iter().map(u64::from).collect();
    Ok(ctx.schedule::<Sum>((doubled, 1)).await?)
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a server: cargo xtask test --only build,venv,sdk"]
async fn two_hundred_tasks_at_a_time() {
    let server = server().await;
    let queue = queue(&server.client());
    let worker = queue.worker().workflow::<FanOut>().task::<Double>().task::<Sum>().build().unwrap();
    let total = worker.run_until(queue.execute::<FanOut>("fan-out", 200)).await.unwrap();
    assert_eq!(total, 199 * 200 + 1);
}

struct Flaky {
    calls: AtomicUsize,
}

#[tasks]
impl Flaky {
    #[task]
    async fn flake(&self, how: String) -> Result<u32> {
        let call = self.calls.fetch_add(1, Ordering::SeqCst);
        match (how.as_str(), call) {
            ("panic", 0..2) => panic!("call {call}"),
            ("error", 0..2) => Err(format!("call {call}").into()),
            ("final", _) => Err(Failure::application("SoldOut", "no seats").non_retryable().details(&7).into()),
            _ => Ok(call as u32),
        }
    }
}

#[workflow]
async fn try_flaky(ctx: Context, how: String) -> Result<u32> {
    Ok(ctx.schedule_with_options::<Flake>(how, quick(3)).await?)
}

#[workflow]
async fn call_nobody(ctx: Context) -> Result<String> {
    let outcome = ctx.schedule_with_options_raw("nobody", serde_json::Value::Null, quick(1)).await;
    Ok(format!("{}", outcome.unwrap_err()))
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a server: cargo xtask test --only build,venv,sdk"]
async fn failures_are_tried_again_and_end_nothing() {
    let server = server().await;
    let client = server.client();
    for (how, expected) in [("panic", Ok(2)), ("error", Ok(2)), ("final", Err("task flake failed: no seats"))] {
        let queue = queue(&client);
        let flaky = Flaky { calls: AtomicUsize::new(0) };
        let worker = queue.worker().workflow::<TryFlaky>().workflow::<CallNobody>().tasks(flaky).build().unwrap();
        let outcome = worker
            .run_until(async {
                let outcome = queue.execute::<TryFlaky>(format!("flaky-{how}"), how.to_owned()).await;
                if how == "panic" {
                    let nobody = queue.execute::<CallNobody>("nobody", ()).await?;
                    assert!(nobody.contains("this worker has no task \"nobody\"; it has: flake"), "{nobody}");
                }
                outcome
            })
            .await;
        match (outcome, expected) {
            (Ok(calls), Ok(expected)) => assert_eq!(calls, expected),
            (Err(error), Err(expected)) => {
                assert_eq!(error.to_string(), expected);
                let failure = error.failure().unwrap();
                assert_eq!((failure.application_kind(), failure.details()), (Some("SoldOut"), Some(7)));
            }
            (outcome, expected) => panic!("{outcome:?}, expected {expected:?}"),
        }
    }
}

#[task]
async fn count_on(ctx: TaskContext, said: u32) -> Result<Vec<u32>> {
    let before = ctx.heartbeat_details::<u32>();
    if ctx.info().attempt < 3 {
        // Of these only the first is sent before the attempt fails; the last goes along with the failure.
        for number in 1..=said {
            ctx.heartbeat(before.unwrap_or(0) + number).await?;
        }
        return Err("not yet".into());
    }
    Ok(vec![before.unwrap_or(0), ctx.info().attempt])
}

#[workflow]
async fn count_up(ctx: Context, said: u32) -> Result<Vec<u32>> {
    Ok(ctx.schedule_with_options::<CountOn>(said, quick(3)).await?)
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a server: cargo xtask test --only build,venv,sdk"]
async fn heartbeat_details_go_to_the_next_attempt() {
    let server = server().await;
    let queue = queue(&server.client());
    let worker = queue.worker().workflow::<CountUp>().task::<CountOn>().build().unwrap();
    let counted = worker.run_until(queue.execute::<CountUp>("count", 10)).await.unwrap();
    assert_eq!(counted, [20, 3]);
}

struct Endless {
    begun: Arc<AtomicUsize>,
    stopped: Arc<AtomicUsize>,
}

#[tasks]
impl Endless {
    #[task]
    async fn beat_on(&self, ctx: TaskContext) -> Result<()> {
        self.begun.fetch_add(1, Ordering::SeqCst);
        loop {
            if let Err(error) = ctx.heartbeat("on").await {
                assert_eq!(ctx.cancel_reason(), Some(CancelReason::CancelRequested));
                self.stopped.fetch_add(1, Ordering::SeqCst);
                return Err(error);
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

#[workflow]
async fn until_cancelled(ctx: Context) -> Result<()> {
    let options = ScheduleTaskOptions { cancellation: segno_sdk::CancellationType::WaitCompleted, ..quick(1) };
    Ok(ctx.schedule_with_options::<BeatOn>((), options).await?)
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a server: cargo xtask test --only build,venv,sdk"]
async fn cancellation_reaches_a_task_by_heartbeat() {
    let server = server().await;
    let queue = queue(&server.client());
    let (begun, stopped) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let tasks = Endless { begun: begun.clone(), stopped: stopped.clone() };
    let worker = queue.worker().workflow::<UntilCancelled>().tasks(tasks).build().unwrap();
    let outcome = worker
        .run_until(async {
            let handle = queue.start::<UntilCancelled>("cancelled", ()).await?;
            until("the task has begun", || begun.load(Ordering::SeqCst) == 1).await;
            handle.cancel().await?;
            handle.result().await
        })
        .await;
    let error = outcome.unwrap_err();
    assert!(error.failure().is_some_and(Failure::is_cancelled), "{error:?}");
    assert_eq!(stopped.load(Ordering::SeqCst), 1);
}

#[task]
async fn hand_over(ctx: TaskContext, to: String) -> Result<u32> {
    std::fs::write(&to, &ctx.info().token)?;
    Err(ctx.complete_later())
}

#[workflow]
async fn wait_for_others(ctx: Context, to: String) -> Result<u32> {
    Ok(ctx.schedule::<HandOver>(to).await?)
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a server: cargo xtask test --only build,venv,sdk"]
async fn a_task_is_completed_by_somebody_else() {
    let server = server().await;
    let client = server.client();
    let queue = queue(&client);
    let path = super::scratch("token");
    let worker = queue.worker().workflow::<WaitForOthers>().task::<HandOver>().build().unwrap();
    let outcome = worker
        .run_until(async {
            let handle = queue.start::<WaitForOthers>("later", path.display().to_string()).await?;
            until("the task has begun", || std::fs::read(&path).is_ok_and(|token| !token.is_empty())).await;
            // Long enough for a wrong answer of the worker.
            tokio::time::sleep(Duration::from_millis(300)).await;
            client.task_by_token(std::fs::read(&path).unwrap()).complete(42u32).await?;
            handle.result().await
        })
        .await;
    assert_eq!(outcome.unwrap(), 42);
}

#[task]
async fn dawdle(ctx: TaskContext) -> Result<()> {
    // It never says anything, so that the server gives it up; the worker notices by itself.
    ctx.cancelled().await;
    // Segno may be faster: it tells the worker that the attempt is over.
    let reason = ctx.cancel_reason();
    assert!(matches!(reason, Some(CancelReason::TimedOut | CancelReason::CancelRequested)), "{reason:?}");
    STOPPED.fetch_add(1, Ordering::SeqCst);
    Err(Failure::cancelled().into())
}

static STOPPED: AtomicUsize = AtomicUsize::new(0);

#[workflow]
async fn impatient(ctx: Context) -> Result<()> {
    let options = ScheduleTaskOptions { timeout: Some(Duration::from_secs(1)), heartbeat_timeout: None, ..quick(1) };
    Ok(ctx.schedule_with_options::<Dawdle>((), options).await?)
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a server: cargo xtask test --only build,venv,sdk"]
async fn a_task_hears_that_its_time_is_over() {
    let server = server().await;
    let queue = queue(&server.client());
    let worker = queue.worker().workflow::<Impatient>().task::<Dawdle>().build().unwrap();
    let outcome = worker.run_until(queue.execute::<Impatient>("impatient", ())).await;
    let error = outcome.unwrap_err();
    let cause = error.failure().and_then(Failure::cause).expect("a time-out").clone();
    assert!(matches!(cause.kind(), FailureKind::Timeout { .. }), "{error:?}");
    // The worker waited for the task before it ended.
    assert_eq!(STOPPED.load(Ordering::SeqCst), 1);
}
