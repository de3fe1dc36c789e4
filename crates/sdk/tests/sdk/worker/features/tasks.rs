//! `activity`, `child_workflow`, `continue_as_new`, `eager_activity`, `schedule`, `worker_shutdown`.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use segno_sdk::{
    CancelReason, FailureKind, TimeoutType, WorkflowStatus,
    prelude::*,
    raw::enums::EventType as E,
    schedule::{Schedule, ScheduleAction, ScheduleSpec},
};

use super::{shape, start};
use crate::worker::until;

#[task]
async fn echo(text: String) -> Result<String> {
    Ok(text)
}

/// Without any time-out of the workflow, and with either time-out of the task.
#[workflow]
async fn basic(ctx: Context) -> Result<String> {
    let options = ScheduleTaskOptions { schedule_to_close: Some(Duration::from_secs(60)), ..Default::default() };
    ctx.schedule_with_options::<Echo>("echo".into(), options).await?;
    let options = ScheduleTaskOptions { timeout: Some(Duration::from_secs(60)), ..Default::default() };
    Ok(ctx.schedule_with_options::<Echo>("echo".into(), options).await?)
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test --only build,venv,sdk"]
async fn activity_basic_no_workflow_timeout() {
    let (_server, queue) = start().await;
    let worker = queue.worker().workflow::<Basic>().task::<Echo>().build().unwrap();
    let body = async {
        let handle = queue.start::<Basic>("basic", ()).await?;
        assert_eq!(handle.result().await?, "echo");
        assert_eq!(
            shape(&handle).await,
            [
                E::WorkflowExecutionStarted,
                E::ActivityTaskScheduled,
                E::ActivityTaskStarted,
                E::ActivityTaskCompleted,
                E::ActivityTaskScheduled,
                E::ActivityTaskStarted,
                E::ActivityTaskCompleted,
                E::WorkflowExecutionCompleted,
            ]
        );
        Ok::<_, ClientError>(())
    };
    worker.run_until(body).await.unwrap();
}

const SEEN: Signal<String> = Signal::named("seen");

struct Reporter(Client);

#[tasks]
impl Reporter {
    /// Tells its workflow how it ended.
    #[task(timeout = "90s", heartbeat_timeout = "5s", max_retries = 0)]
    async fn watch(&self, ctx: TaskContext) -> Result<()> {
        let mut seen = "timed out";
        for _ in 0..600 {
            if ctx.heartbeat(()).await.is_err() {
                seen = "cancelled";
                break;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let workflow = self.0.handle_raw(&ctx.info().workflow_id);
        workflow.signal(SEEN, seen.to_owned()).await?;
        Err(Failure::cancelled().into())
    }
}

#[workflow]
async fn try_to_cancel(ctx: Context) -> Result<String> {
    let task = ctx.schedule::<Watch>(());
    ctx.sleep(Duration::from_millis(500)).await?;
    task.cancel();
    let failure = task.await.unwrap_err();
    assert!(failure.is_cancelled());
    Ok(ctx.receive(SEEN).await?)
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test --only build,venv,sdk"]
async fn activity_cancel_try_cancel() {
    let (server, queue) = start().await;
    let worker = queue.worker().workflow::<TryToCancel>().tasks(Reporter(server.client())).build().unwrap();
    let body = async {
        let handle = queue.start::<TryToCancel>("try", ()).await?;
        assert_eq!(handle.result().await?, "cancelled");
        assert!(shape(&handle).await.contains(&E::ActivityTaskCancelRequested));
        Ok::<_, ClientError>(())
    };
    worker.run_until(body).await.unwrap();
}

#[task]
async fn always_fail(ctx: TaskContext) -> Result<()> {
    Err(format!("activity attempt {} failed", ctx.info().attempt).into())
}

#[workflow]
async fn retry_five_times(ctx: Context) -> Result<()> {
    let policy = RetryPolicy {
        initial_interval: Duration::from_millis(1),
        backoff_coefficient: 1.0,
        maximum_attempts: 5,
        ..RetryPolicy::default()
    };
    let options = ScheduleTaskOptions {
        schedule_to_close: Some(Duration::from_secs(60)),
        retry_policy: Some(policy),
        ..Default::default()
    };
    Ok(ctx.schedule_with_options::<AlwaysFail>((), options).await?)
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test --only build,venv,sdk"]
async fn activity_retry_on_error() {
    let (_server, queue) = start().await;
    let worker = queue.worker().workflow::<RetryFiveTimes>().task::<AlwaysFail>().build().unwrap();
    let error = worker.run_until(queue.execute::<RetryFiveTimes>("retry", ())).await.unwrap_err();
    let failure = error.failure().unwrap();
    assert!(matches!(failure.kind(), FailureKind::Task { kind, .. } if kind == "always_fail"), "{failure:?}");
    assert_eq!(failure.cause().unwrap().message(), "activity attempt 5 failed");
}

#[derive(Default)]
struct Begun(AtomicU32);

struct Stopping(Arc<Begun>);

#[tasks]
impl Stopping {
    #[task(schedule_to_close = "30s", max_retries = 0)]
    async fn end_well(&self, ctx: TaskContext) -> Result<()> {
        self.0.0.fetch_add(1, Ordering::SeqCst);
        ctx.cancelled().await;
        assert_eq!(ctx.cancel_reason(), Some(CancelReason::WorkerShutdown));
        Ok(())
    }

    #[task(schedule_to_close = "30s", max_retries = 0)]
    async fn end_badly(&self, ctx: TaskContext) -> Result<()> {
        self.0.0.fetch_add(1, Ordering::SeqCst);
        ctx.cancelled().await;
        Err("worker is shutting down".into())
    }

    #[task(schedule_to_close = "300ms", max_retries = 0)]
    async fn not_end(&self) -> Result<()> {
        self.0.0.fetch_add(1, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_secs(15)).await;
        Ok(())
    }
}

#[workflow]
async fn be_shut_down(ctx: Context) -> Result<String> {
    let (well, badly, never) =
        join!(ctx.schedule::<EndWell>(()), ctx.schedule::<EndBadly>(()), ctx.schedule::<NotEnd>(()));
    well?;
    let badly = badly.unwrap_err();
    let never = never.unwrap_err();
    let late =
        matches!(never.cause().map(Failure::kind), Some(FailureKind::Timeout { r#type: TimeoutType::ScheduleToClose }));
    Ok(format!("{}, {late}", badly.cause().map(Failure::message).unwrap_or_default()))
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a server: cargo xtask test --only build,venv,sdk"]
async fn activity_shutdown() {
    let (_server, queue) = start().await;
    let begun = Arc::new(Begun::default());
    let second = Duration::from_secs(1);
    let make = || {
        let builder = queue.worker().workflow::<BeShutDown>().tasks(Stopping(begun.clone()));
        builder.shutdown_grace(second).shutdown_force(second).build().unwrap()
    };
    let first = make();
    let shutdown = first.shutdown_handle();
    let running = tokio::spawn(first.run());
    let handle = queue.start::<BeShutDown>("stopped", ()).await.unwrap();
    until("all tasks have begun", || begun.0.load(Ordering::SeqCst) == 3).await;
    shutdown.shutdown();
    running.await.unwrap().unwrap();
    assert_eq!(make().run_until(handle.result()).await.unwrap(), "worker is shutting down, true");
}

#[workflow]
async fn child(ctx: Context, input: String) -> Result<String> {
    let _ = ctx;
    Ok(input)
}

#[workflow]
async fn parent(ctx: Context) -> Result<String> {
    Ok(ctx.schedule_workflow::<Child>("child", "test".to_owned()).await?)
}

#[derive(Default)]
struct Unblocked(Option<String>);

#[workflow]
impl Unblocked {
    #[run]
    async fn run(ctx: Context<Self>) -> Result<String> {
        ctx.wait_condition(|state| state.0.is_some()).await?;
        Ok(ctx.this().0.clone().unwrap_or_default())
    }
    #[signal]
    fn unblock(&mut self, message: String) {
        self.0 = Some(message);
    }
}

#[workflow]
async fn signalling_parent(ctx: Context) -> Result<String> {
    let child = ctx.schedule_workflow::<Unblocked>("child", ());
    child.started().await?;
    child.signal(Unblocked::UNBLOCK, "unblock".to_owned()).await?;
    Ok(child.await?)
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test --only build,venv,sdk"]
async fn child_workflow_result_and_signal() {
    let (_server, queue) = start().await;
    let builder = queue.worker().workflow::<Parent>().workflow::<Child>();
    let worker = builder.workflow::<SignallingParent>().workflow::<Unblocked>().build().unwrap();
    let body = async {
        let result = queue.start::<Parent>("result", ()).await?;
        assert_eq!(result.result().await?, "test");
        assert_eq!(
            shape(&result).await,
            [
                E::WorkflowExecutionStarted,
                E::StartChildWorkflowExecutionInitiated,
                E::ChildWorkflowExecutionStarted,
                E::ChildWorkflowExecutionCompleted,
                E::WorkflowExecutionCompleted,
            ]
        );
        let signal = queue.start::<SignallingParent>("signal", ()).await?;
        assert_eq!(signal.result().await?, "unblock");
        let events = shape(&signal).await;
        assert!(events.contains(&E::ExternalWorkflowExecutionSignaled), "{events:?}");
        Ok::<_, ClientError>(())
    };
    worker.run_until(body).await.unwrap();
}

#[workflow]
async fn once_more(ctx: Context, input: String) -> Result<String> {
    match &ctx.info().continued_run_id {
        None => Err(ctx.continue_as_new::<OnceMore>(input)),
        Some(_) => Ok(format!("{input} {}", ctx.info().memo::<String>("note").unwrap_or_default())),
    }
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test --only build,venv,sdk"]
async fn continue_as_new_continue_as_same() {
    let (_server, queue) = start().await;
    let worker = queue.worker().workflow::<OnceMore>().build().unwrap();
    let body = async {
        let memo = vec![("note".to_owned(), Value::from("kept"))];
        let options = StartOptions { memo, ..StartOptions::new("same") };
        let handle = queue.start_with_options::<OnceMore>(options, "InputData".to_owned()).await?;
        assert_eq!(handle.result().await?, "InputData kept");
        assert_eq!(shape(&handle).await, [E::WorkflowExecutionStarted, E::WorkflowExecutionContinuedAsNew]);
        assert_eq!(handle.describe().await?.memo::<String>("note")?.as_deref(), Some("kept"));
        Ok::<_, ClientError>(())
    };
    worker.run_until(body).await.unwrap();
}

static FIRST_TASK: AtomicBool = AtomicBool::new(false);
static UPDATE_SENT: AtomicBool = AtomicBool::new(false);

#[derive(Default)]
struct Overtaken {
    updated: bool,
}

#[workflow]
impl Overtaken {
    /// Blocks its thread, which no workflow should do: so the update comes while its workflow task is worked on.
    #[run]
    async fn run(ctx: Context<Self>) -> Result<String> {
        if ctx.info().continued_run_id.is_some() {
            ctx.wait_condition(|state| state.updated).await?;
            return Ok(ctx.info().run_id.clone());
        }
        FIRST_TASK.store(true, Ordering::SeqCst);
        while !UPDATE_SENT.load(Ordering::SeqCst) {
            std::thread::park_timeout(Duration::from_millis(10));
        }
        Err(ctx.continue_as_new::<Overtaken>(()))
    }
    #[update]
    async fn which_run(ctx: Context<Self>) -> Result<String> {
        ctx.this_mut().updated = true;
        Ok(ctx.info().run_id.clone())
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a server: cargo xtask test --only build,venv,sdk"]
async fn continue_as_new_updates_do_not_block_continue_as_new() {
    let (_server, queue) = start().await;
    let worker = queue.worker().workflow::<Overtaken>().build().unwrap();
    let body = async {
        let handle = queue.start::<Overtaken>("overtaken", ()).await?;
        until("the first workflow task runs", || FIRST_TASK.load(Ordering::SeqCst)).await;
        let update = tokio::spawn({
            let handle = handle.clone();
            async move { handle.update(Overtaken::WHICH_RUN, ()).await }
        });
        // If it is not there yet the update finds the second run, which is as right.
        tokio::time::sleep(Duration::from_millis(500)).await;
        UPDATE_SENT.store(true, Ordering::SeqCst);
        let updated = update.await.unwrap()?;
        assert_ne!(Some(updated.as_str()), handle.run_id());
        assert_eq!(handle.result().await?, updated);
        assert!(!shape(&handle).await.contains(&E::WorkflowExecutionUpdateAccepted));
        Ok::<_, ClientError>(())
    };
    worker.run_until(body).await.unwrap();
}

define_task!(Nobody = "nobody": () => ());

#[workflow]
async fn ask_nobody(ctx: Context) -> Result<bool> {
    let options = ScheduleTaskOptions { schedule_to_close: Some(Duration::from_secs(2)), ..Default::default() };
    let failure = ctx.schedule_with_options::<Nobody>((), options).await.unwrap_err();
    let kind = failure.cause().map(Failure::kind).cloned();
    Ok(matches!(
        kind,
        Some(FailureKind::Timeout { r#type: TimeoutType::ScheduleToStart | TimeoutType::ScheduleToClose })
    ))
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test --only build,venv,sdk"]
async fn eager_activity_non_remote_activities_worker() {
    let (_server, queue) = start().await;
    let worker = queue.worker().workflow::<AskNobody>().build().unwrap();
    assert!(worker.run_until(queue.execute::<AskNobody>("nobody", ())).await.unwrap());
}

#[workflow]
async fn by_cron(ctx: Context) -> Result<()> {
    assert_eq!(ctx.info().cron.as_deref(), Some("@every 2s"));
    Ok(())
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test --only build,venv,sdk"]
async fn schedule_cron() {
    let (server, queue) = start().await;
    let worker = queue.worker().workflow::<ByCron>().build().unwrap();
    let body = async {
        let options = StartOptions { cron: Some("@every 2s".to_owned()), ..StartOptions::new("cron") };
        let handle = queue.start_with_options::<ByCron>(options, ()).await?;
        for _ in 0..60 {
            tokio::time::sleep(Duration::from_millis(500)).await;
            let runs = server.client().list("WorkflowId = 'cron'").all().await?;
            if runs.iter().filter(|run| run.status == WorkflowStatus::Completed).count() >= 2 {
                handle.terminate("enough").await?;
                return Ok(());
            }
        }
        panic!("two runs did not complete within 30 s");
    };
    worker.run_until::<_, ClientError>(body).await.unwrap();
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test --only build,venv,sdk"]
async fn schedule_duplicate_error_and_more() {
    let (server, queue) = start().await;
    let client = server.client();
    let worker = queue.worker().workflow::<Child>().build().unwrap();
    let schedule = || {
        let action = ScheduleAction::start::<Child>(queue.name(), "scheduled", "tea".to_owned()).unwrap();
        Schedule::new(ScheduleSpec::every(Duration::from_secs(3_600)), action)
    };
    let body = async {
        let handle = client.create_schedule("hourly", schedule()).await?;
        let again = client.create_schedule("hourly", schedule()).await;
        assert!(matches!(again, Err(ClientError::AlreadyStarted { .. })), "{again:?}");
        handle.pause("a break").await?;
        let paused = handle.describe().await?;
        assert_eq!((paused.is_paused, paused.note.as_str(), paused.actions), (true, "a break", 0));
        handle.unpause("").await?;
        handle.trigger(None).await?;
        let mut described = handle.describe().await?;
        for _ in 0..60 {
            if described.actions == 1 && !described.recent.is_empty() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
            described = handle.describe().await?;
        }
        assert!(!described.is_paused && !described.next.is_empty());
        let (workflow_id, run_id) = described.recent.first().cloned().expect("an action within 30 s");
        assert!(workflow_id.starts_with("scheduled"), "{workflow_id}");
        assert_eq!(client.handle_of_run::<Child>(workflow_id, run_id).result().await?, "tea");
        let now = std::time::SystemTime::now();
        let times = handle.matching_times(now, now + Duration::from_secs(4 * 3_600)).await?;
        assert_eq!(times.len(), 4);
        handle.update(|schedule| schedule.state.get_or_insert_default().notes = "changed".to_owned()).await?;
        assert_eq!(handle.describe().await?.note, "changed");
        handle.delete().await?;
        assert!(matches!(handle.describe().await, Err(ClientError::NotFound(_))));
        Ok::<_, ClientError>(())
    };
    worker.run_until(body).await.unwrap();
}

#[task(schedule_to_close = "10s", timeout = "5s", max_retries = 0)]
async fn nothing() -> Result<()> {
    Ok(())
}

#[workflow]
async fn never_end(ctx: Context) -> Result<()> {
    loop {
        ctx.sleep(Duration::from_millis(20)).await?;
        ctx.schedule::<Nothing>(()).await?;
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a server: cargo xtask test --only build,venv,sdk"]
async fn worker_shutdown_poll_complete_on_shutdown() {
    let (_server, queue) = start().await;
    let worker = queue.worker().workflow::<NeverEnd>().task::<Nothing>().build().unwrap();
    let shutdown = worker.shutdown_handle();
    let running = tokio::spawn(worker.run());
    let mut handles = Vec::new();
    for number in 0..5 {
        handles.push(queue.start::<NeverEnd>(format!("busy-{number}"), ()).await.unwrap());
    }
    for handle in &handles {
        while !shape(handle).await.contains(&E::ActivityTaskCompleted) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    shutdown.shutdown();
    tokio::time::timeout(Duration::from_secs(60), running).await.expect("it ends").unwrap().unwrap();
    for handle in &handles {
        for event in handle.history().await.unwrap() {
            let kind = event.event_type();
            assert!(!matches!(kind, E::WorkflowTaskFailed | E::WorkflowTaskTimedOut), "{event:?}");
        }
        handle.terminate("enough").await.unwrap();
    }
}
