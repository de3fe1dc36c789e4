//! Workers that end while tasks run.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use segno_sdk::{
    CancelReason, Client, ClientError, Context, Result, RetryPolicy, ScheduleTaskOptions, TaskContext, WorkflowContext,
    task, tasks, workflow,
};
use tokio::sync::Notify;

use super::{queue, server, until};

/// A time that no test waits for: a worker that waits for it does not end.
const NEVER: Duration = Duration::from_secs(3_600);
/// How long a worker may take to end that has nothing to wait for, on the busiest machine.
const END_MAX: Duration = Duration::from_secs(60);

/// How an attempt of the task ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Finished,
    Cancelled,
    Dropped,
}

/// What tests know of the attempts of a task, and how they let it finish.
#[derive(Default)]
struct Attempts {
    begun: AtomicUsize,
    ends: Mutex<Vec<End>>,
    may_finish: Notify,
}

/// Notes how an attempt ended.
struct Attempt {
    attempts: Arc<Attempts>,
    end: End,
}

impl Drop for Attempt {
    fn drop(&mut self) {
        self.attempts.ends.lock().unwrap().push(self.end);
    }
}

struct Patient {
    attempts: Arc<Attempts>,
    /// Whether a task heeds being told to stop.
    heeds: bool,
}

#[tasks]
impl Patient {
    #[task]
    async fn ponder(&self, ctx: TaskContext) -> Result<u32> {
        let mut attempt = Attempt { attempts: self.attempts.clone(), end: End::Dropped };
        self.attempts.begun.fetch_add(1, Ordering::SeqCst);
        let work = self.attempts.may_finish.notified();
        if self.heeds {
            tokio::select! {
                () = work => {}
                _ = ctx.cancelled() => {
                    assert_eq!(ctx.cancel_reason(), Some(CancelReason::WorkerShutdown));
                    attempt.end = End::Cancelled;
                    return Err(segno_sdk::Failure::cancelled().into());
                }
            }
        } else {
            work.await;
        }
        attempt.end = End::Finished;
        Ok(ctx.info().attempt)
    }
}

#[workflow]
async fn ask(ctx: Context) -> Result<u32> {
    let retry_policy = RetryPolicy { initial_interval: Duration::from_millis(20), ..RetryPolicy::default() };
    let options = ScheduleTaskOptions { retry_policy: Some(retry_policy), ..ScheduleTaskOptions::default() };
    Ok(ctx.schedule_with_options::<Ponder>((), options).await?)
}

/// Shuts a worker down when its task has begun, and has another one take over. Returns how long the first one took to end, how the
/// first attempt had ended by then, and which attempt succeeded. The task finishes when the shutdown has begun, if it is to.
async fn shut_down(finishes: bool, heeds: bool, grace: Duration, force: Duration) -> (Duration, End, u32) {
    let server = server().await;
    let queue = queue(&server.client());
    let attempts = Arc::new(Attempts::default());
    let worker = queue
        .worker()
        .workflow::<Ask>()
        .tasks(Patient { attempts: attempts.clone(), heeds })
        .shutdown_grace(grace)
        .shutdown_force(force)
        .build()
        .unwrap();
    let end = worker.shutdown_handle();
    let running = tokio::spawn(worker.run());
    let handle = queue.start::<Ask>("ask", ()).await.unwrap();
    until("the task has begun", || attempts.begun.load(Ordering::SeqCst) == 1).await;
    let asked = Instant::now();
    end.shutdown();
    if finishes {
        // By then a worker that gives no grace has ended the task.
        tokio::time::sleep(Duration::from_millis(300)).await;
        attempts.may_finish.notify_one();
    }
    tokio::time::timeout(END_MAX, running).await.expect("the worker ends").unwrap().unwrap();
    let took = asked.elapsed();
    let ends = attempts.ends.lock().unwrap().clone();
    assert_eq!(ends.len(), 1, "{ends:?}");

    // The next attempt, if there is one, finishes at once.
    attempts.may_finish.notify_one();
    let next = queue.worker().workflow::<Ask>().tasks(Patient { attempts, heeds }).build().unwrap();
    (took, ends[0], next.run_until(handle.result()).await.unwrap())
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a server: cargo xtask test --only build,venv,sdk"]
async fn a_task_may_finish() {
    let (_, end, attempt) = shut_down(true, true, NEVER, NEVER).await;
    assert_eq!((end, attempt), (End::Finished, 1));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a server: cargo xtask test --only build,venv,sdk"]
async fn a_task_that_takes_too_long_is_told_and_goes_elsewhere() {
    let grace = Duration::from_millis(200);
    let (took, end, attempt) = shut_down(false, true, grace, NEVER).await;
    assert!(took >= grace, "{took:?}");
    assert_eq!((end, attempt), (End::Cancelled, 2));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a server: cargo xtask test --only build,venv,sdk"]
async fn a_task_that_does_not_heed_is_dropped_and_goes_elsewhere() {
    let (grace, force) = (Duration::from_millis(100), Duration::from_millis(200));
    let (took, end, attempt) = shut_down(false, false, grace, force).await;
    assert!(took >= grace + force, "{took:?}");
    assert_eq!((end, attempt), (End::Dropped, 2));
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

    let worker = queue(&server.client()).worker().task::<Nothing>();
    let worker = worker.shutdown_grace(NEVER).shutdown_force(NEVER).build().unwrap();
    let end = worker.shutdown_handle();
    let running = tokio::spawn(worker.run());
    tokio::time::sleep(Duration::from_millis(500)).await;
    end.shutdown();
    tokio::time::timeout(END_MAX, running).await.expect("nothing is waited for").unwrap().unwrap();
}
