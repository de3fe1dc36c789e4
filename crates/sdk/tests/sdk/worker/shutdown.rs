//! Workers that end while tasks run.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use segno_sdk::{
    CancelReason, Client, ClientError, Context, Result, RetryPolicy, ScheduleTaskOptions, TaskContext, WorkflowContext,
    task, tasks, workflow,
};

use super::{queue, server, until};

struct Patient {
    begun: Arc<AtomicUsize>,
    /// How long a task takes, and whether it heeds being told to stop.
    takes: Duration,
    heeds: bool,
}

#[tasks]
impl Patient {
    #[task]
    async fn ponder(&self, ctx: TaskContext) -> Result<u32> {
        self.begun.fetch_add(1, Ordering::SeqCst);
        let work = tokio::time::sleep(self.takes);
        if self.heeds {
            tokio::select! {
                _ = work => {}
                _ = ctx.cancelled() => {
                    assert_eq!(ctx.cancel_reason(), Some(CancelReason::WorkerShutdown));
                    return Err(segno_sdk::Failure::cancelled().into());
                }
            }
        } else {
            work.await;
        }
        Ok(ctx.info().attempt)
    }
}

#[workflow]
async fn ask(ctx: Context) -> Result<u32> {
    let retry_policy = RetryPolicy { initial_interval: Duration::from_millis(20), ..RetryPolicy::default() };
    let options = ScheduleTaskOptions { retry_policy: Some(retry_policy), ..ScheduleTaskOptions::default() };
    Ok(ctx.schedule_with_options::<Ponder>((), options).await?)
}

/// Shuts a worker down when its task has begun, and another one takes over. Returns how long the end took, and which
/// attempt succeeded.
async fn shut_down(takes: u64, heeds: bool, grace: u64, force: u64) -> (Duration, u32) {
    let server = server().await;
    let queue = queue(&server.client());
    let begun = Arc::new(AtomicUsize::new(0));
    let worker = queue
        .worker()
        .workflow::<Ask>()
        .tasks(Patient { begun: begun.clone(), takes: Duration::from_millis(takes), heeds })
        .shutdown_grace(Duration::from_millis(grace))
        .shutdown_force(Duration::from_millis(force))
        .build()
        .unwrap();
    let end = worker.shutdown_handle();
    let running = tokio::spawn(worker.run());
    let handle = queue.start::<Ask>("ask", ()).await.unwrap();
    until("the task has begun", || begun.load(Ordering::SeqCst) == 1).await;
    let asked = Instant::now();
    end.shutdown();
    running.await.unwrap().unwrap();
    let took = asked.elapsed();

    let quick = Patient { begun: begun.clone(), takes: Duration::ZERO, heeds };
    let next = queue.worker().workflow::<Ask>().tasks(quick).build().unwrap();
    (took, next.run_until(handle.result()).await.unwrap())
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a server: cargo xtask test --only build,venv,sdk"]
async fn a_task_may_finish() {
    let (took, attempt) = shut_down(500, true, 10_000, 10_000).await;
    assert!(took >= Duration::from_millis(300) && took < Duration::from_secs(5), "{took:?}");
    assert_eq!(attempt, 1);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a server: cargo xtask test --only build,venv,sdk"]
async fn a_task_that_takes_too_long_is_told_and_goes_elsewhere() {
    let (took, attempt) = shut_down(600_000, true, 200, 10_000).await;
    assert!(took >= Duration::from_millis(200) && took < Duration::from_secs(8), "{took:?}");
    assert_eq!(attempt, 2);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a server: cargo xtask test --only build,venv,sdk"]
async fn a_task_that_does_not_heed_is_dropped_and_goes_elsewhere() {
    let (took, attempt) = shut_down(600_000, false, 100, 200).await;
    assert!(took >= Duration::from_millis(300) && took < Duration::from_secs(8), "{took:?}");
    assert_eq!(attempt, 2);
}

#[task]
async fn nothing() -> Result<()> {
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a server: cargo xtask test --only build,venv,sdk"]
async fn an_unknown_namespace_is_an_error_and_an_idle_worker_ends_at_once() {
    let server = server().await;
    let client = Client::builder().target(server.address()).namespace("nowhere").connect().await.unwrap();
    let error = queue(&client).worker().task::<Nothing>().build().unwrap().run().await.unwrap_err();
    assert!(matches!(error, ClientError::NotFound { .. } | ClientError::Rpc { .. }), "{error:?}");

    let worker = queue(&server.client()).worker().task::<Nothing>().build().unwrap();
    let end = worker.shutdown_handle();
    let running = tokio::spawn(worker.run());
    tokio::time::sleep(Duration::from_millis(500)).await;
    let asked = Instant::now();
    end.shutdown();
    running.await.unwrap().unwrap();
    assert!(asked.elapsed() < Duration::from_secs(2), "{:?}", asked.elapsed());
}
