//! What only Segno does: leases, commands without heartbeats.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use segno_sdk::{
    CancelReason, CancellationType, Client, Context, Failure, Result, RetryPolicy, ScheduleTaskOptions, TaskContext,
    WorkflowContext, tasks, workflow,
};

use super::{proxy::Proxy, queue, server, until};

struct Watched {
    begun: AtomicUsize,
    lost: AtomicUsize,
    cancelled: AtomicUsize,
}

#[derive(Clone)]
struct Watch(Arc<Watched>);

#[tasks]
impl Watch {
    /// The first attempt waits to be told to stop, without saying anything; others succeed.
    #[task]
    async fn be_seen(&self, ctx: TaskContext) -> Result<u32> {
        self.0.begun.fetch_add(1, Ordering::SeqCst);
        if ctx.info().attempt > 1 {
            return Ok(ctx.info().attempt);
        }
        ctx.cancelled().await;
        match ctx.cancel_reason() {
            Some(CancelReason::WorkerLost) => self.0.lost.fetch_add(1, Ordering::SeqCst),
            Some(CancelReason::CancelRequested) => self.0.cancelled.fetch_add(1, Ordering::SeqCst),
            other => panic!("{other:?}"),
        };
        Err(Failure::cancelled().into())
    }
}

fn watch() -> Watch {
    Watch(Arc::new(Watched { begun: AtomicUsize::new(0), lost: AtomicUsize::new(0), cancelled: AtomicUsize::new(0) }))
}

#[workflow]
async fn be_watched(ctx: Context) -> Result<u32> {
    let options = ScheduleTaskOptions {
        timeout: Some(Duration::from_secs(600)),
        retry_policy: Some(RetryPolicy { initial_interval: Duration::from_millis(20), ..RetryPolicy::default() }),
        cancellation: CancellationType::WaitCompleted,
        ..ScheduleTaskOptions::default()
    };
    Ok(ctx.schedule_with_options::<BeSeen>((), options).await?)
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a server: cargo xtask test --only build,venv,sdk"]
async fn a_worker_that_loses_its_lease_stops_its_tasks_and_begins_anew() {
    let server = server().await;
    let proxy = Proxy::start(server.address());
    let queue = queue(&Client::connect(&proxy.address).await.unwrap());
    let watch = watch();
    let worker = queue.worker().tasks(watch.clone()).lease(Duration::from_secs(1)).build().unwrap();
    let direct = server.client().queue(queue.name());
    let workflows = direct.worker().workflow::<BeWatched>().build().unwrap();
    let end = worker.shutdown_handle();
    let running = tokio::spawn(worker.run());
    let attempt = workflows
        .run_until(async {
            let handle = direct.start::<BeWatched>("watched", ()).await?;
            until("the task has begun", || watch.0.begun.load(Ordering::SeqCst) == 1).await;
            // Long enough that the server knows who has it, and shorter than the lease.
            tokio::time::sleep(Duration::from_millis(600)).await;
            proxy.stall(true);
            tokio::time::sleep(Duration::from_secs(3)).await;
            proxy.stall(false);
            // The same worker, under another key, has the second attempt.
            handle.result().await
        })
        .await
        .unwrap();
    assert_eq!(attempt, 2);
    until("the first attempt heard it", || watch.0.lost.load(Ordering::SeqCst) == 1).await;
    end.shutdown();
    running.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a server: cargo xtask test --only build,venv,sdk"]
async fn cancellation_reaches_a_task_without_heartbeats() {
    let server = server().await;
    let queue = queue(&server.client());
    let watch = watch();
    let worker = queue.worker().workflow::<BeWatched>().tasks(watch.clone()).build().unwrap();
    worker
        .run_until(async {
            let handle = queue.start::<BeWatched>("cancelled", ()).await?;
            until("the task has begun", || watch.0.begun.load(Ordering::SeqCst) == 1).await;
            handle.cancel().await?;
            let error = handle.result().await.unwrap_err();
            assert!(error.failure().is_some_and(Failure::is_cancelled), "{error:?}");
            Ok::<_, segno_sdk::ClientError>(())
        })
        .await
        .unwrap();
    // No heartbeat told it: a command of the server did.
    assert_eq!(watch.0.cancelled.load(Ordering::SeqCst), 1);
}

#[workflow]
async fn sleeps_for_days(ctx: Context, days: u64) -> Result<u64> {
    for day in 1..=days {
        ctx.sleep(Duration::from_secs(86_400)).await?;
        ctx.set_state("day", &day)?;
    }
    Ok(days)
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test --only build,venv,sdk"]
async fn a_server_for_tests_skips_time() {
    let server = server().await;
    let queue = queue(&server.client());
    let worker = queue.worker().workflow::<SleepsForDays>().build().unwrap();
    let first = server.now().await.unwrap();
    let body = async {
        let handle = queue.start::<SleepsForDays>("days", 3).await?;
        // Without being told to, it does not jump.
        let early = tokio::time::timeout(Duration::from_millis(500), handle.result()).await;
        assert!(early.is_err());
        server.skip(Duration::from_secs(86_400 + 3_600)).await?;
        assert_eq!(handle.state::<u64>("day").await?, Some(1));
        server.skip(Duration::from_secs(2 * 86_400)).await?;
        handle.result().await
    };
    assert_eq!(worker.run_until(body).await.unwrap(), 3);
    let skipped = server.now().await.unwrap().duration_since(first).unwrap();
    assert!(skipped >= Duration::from_secs(3 * 86_400 + 3_600), "{skipped:?}");
}
