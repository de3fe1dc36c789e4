//! Tasks without a workflow.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use segno_sdk::{
    Client, ClientError, Failure, FailureKind, IdConflictPolicy, IdReusePolicy, Result, RetryPolicy, StartTaskOptions,
    TaskContext, TaskStatus, task, tasks, testing::TestServer,
};

use super::{client::Inverted, queue, until};

/// Temporal's server for development refuses such tasks without this setting. Segno has no such setting.
async fn server() -> TestServer {
    let settings = ["--dynamic-config-value", "activity.enableStandalone=true"];
    let server = settings.into_iter().fold(TestServer::builder(), |server, setting| server.argument(setting));
    server.start().await.expect("a server; SEGNO_BIN names one")
}

#[task(timeout = "30s", max_retries = 2)]
async fn greet_standalone(name: String, times: u32) -> Result<String> {
    if name.is_empty() {
        return Err(Failure::application("NoName", "who is it?").non_retryable().into());
    }
    Ok(name.repeat(times as usize))
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a server: cargo xtask test --only build,venv,sdk"]
async fn a_task_is_executed_without_a_workflow() {
    let server = server().await;
    // Inputs and results pass the codecs.
    let client = Client::builder().target(server.address()).codec(Inverted).connect().await.unwrap();
    let queue = queue(&client);
    let worker = queue.worker().task::<GreetStandalone>().build().unwrap();
    worker
        .run_until(async {
            let handle = queue.start_task::<GreetStandalone>("greet-1", ("Ann".to_owned(), 2)).await?;
            assert_eq!(handle.task_id(), "greet-1");
            assert!(handle.run_id().is_some());
            assert_eq!(handle.result().await?, "AnnAnn");
            let description = handle.describe().await?;
            assert_eq!(
                (description.task_id.as_str(), description.run_id.as_str()),
                ("greet-1", handle.run_id().unwrap())
            );
            assert_eq!((description.kind.as_str(), description.queue.as_str()), ("greet_standalone", queue.name()));
            assert_eq!((description.status, description.attempt), (TaskStatus::Completed, 1));
            assert!(description.schedule_time <= description.close_time && description.close_time.is_some());
            // Options of the definition.
            assert_eq!(description.raw().start_to_close_timeout.unwrap().seconds, 30);
            assert_eq!(description.raw().retry_policy.as_ref().unwrap().maximum_attempts, 3);

            // Without an id it gets one; by name it takes JSON; another program knows the id alone.
            assert_eq!(queue.execute_task::<GreetStandalone>("", ("Bo".to_owned(), 1)).await?, "Bo");
            let raw = queue.start_task_raw("greet_standalone", "greet-2", serde_json::json!(["Cy", 3])).await?;
            assert_eq!(raw.result().await?, "CyCyCy");
            let other = client.task_handle::<GreetStandalone>("greet-1");
            assert_eq!(other.result().await?, "AnnAnn");
            assert_eq!(client.task_handle_raw("greet-1").result().await?, "AnnAnn");
            assert!(matches!(client.task_handle_raw("none").describe().await, Err(ClientError::NotFound(_))));

            let failed = queue.execute_task::<GreetStandalone>("nobody", (String::new(), 1)).await.unwrap_err();
            let ClientError::TaskFailed(failure) = &failed else { panic!("{failed:?}") };
            assert_eq!((failure.application_kind(), failure.message()), (Some("NoName"), "who is it?"));
            let description = client.task_handle::<GreetStandalone>("nobody").describe().await?;
            assert_eq!(description.status, TaskStatus::Failed);
            assert_eq!(description.last_failure.unwrap().application_kind(), Some("NoName"));
            Ok::<_, ClientError>(())
        })
        .await
        .unwrap();
}

#[derive(Clone, Default)]
struct Slow {
    begun: Arc<AtomicU32>,
}

#[tasks]
impl Slow {
    /// Fails twice, then waits until it is told to stop.
    #[task(timeout = "60s", heartbeat_timeout = "2s")]
    async fn linger(&self, ctx: TaskContext) -> Result<()> {
        self.begun.fetch_add(1, Ordering::SeqCst);
        if ctx.info().attempt < 3 {
            return Err("not yet".into());
        }
        loop {
            ctx.heartbeat(ctx.info().attempt).await?;
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

fn at_once(id: &str) -> StartTaskOptions {
    let retry_policy = Some(RetryPolicy { initial_interval: Duration::from_millis(20), ..RetryPolicy::default() });
    StartTaskOptions { retry_policy, ..StartTaskOptions::new(id) }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a server: cargo xtask test --only build,venv,sdk"]
async fn a_task_without_a_workflow_is_retried_and_cancelled_and_terminated() {
    let server = server().await;
    let queue = queue(&server.client());
    let client = server.client();
    let slow = Slow::default();
    let worker = queue.worker().tasks(slow.clone()).build().unwrap();
    let kept = worker.run_until(async {
        let handle = queue.start_task::<Linger>(at_once("lingers"), ()).await?;
        until("the third attempt runs", || slow.begun.load(Ordering::SeqCst) == 3).await;
        // One with the id is open.
        let again = queue.start_task::<Linger>(at_once("lingers"), ()).await.unwrap_err();
        let ClientError::TaskAlreadyStarted { task_id, run_id } = again else { panic!("{again:?}") };
        assert_eq!((task_id.as_str(), Some(run_id.as_str())), ("lingers", handle.run_id()));
        let join = StartTaskOptions { id_conflict_policy: IdConflictPolicy::UseExisting, ..at_once("lingers") };
        assert_eq!(queue.start_task::<Linger>(join, ()).await?.run_id(), handle.run_id());

        let description = loop {
            let description = handle.describe().await?;
            if description.heartbeat_details::<u32>()?.is_some() {
                break description;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        };
        assert_eq!((description.status, description.attempt), (TaskStatus::Running, 3));
        assert_eq!(description.heartbeat_details::<u32>()?, Some(3));
        assert_eq!(description.last_failure.unwrap().message(), "not yet");

        handle.cancel_with_reason("enough").await?;
        let cancelled = handle.result().await.unwrap_err();
        assert!(matches!(&cancelled, ClientError::TaskFailed(failure) if failure.is_cancelled()), "{cancelled:?}");
        assert_eq!(handle.describe().await?.status, TaskStatus::Cancelled);

        // The id is free again unless the start says otherwise.
        let reject = StartTaskOptions { id_reuse_policy: IdReusePolicy::RejectDuplicate, ..at_once("lingers") };
        let rejected = queue.start_task::<Linger>(reject, ()).await.unwrap_err();
        assert!(matches!(rejected, ClientError::TaskAlreadyStarted { .. }), "{rejected:?}");
        let second = queue.start_task::<Linger>(at_once("lingers"), ()).await?;
        assert_ne!(second.run_id(), handle.run_id());
        second.terminate("enough of that, too").await?;
        let terminated = second.result().await.unwrap_err();
        let ClientError::TaskFailed(failure) = &terminated else { panic!("{terminated:?}") };
        assert_eq!(failure.kind(), &FailureKind::Terminated);
        assert_eq!(second.describe().await?.status, TaskStatus::Terminated);
        // The first run is still known by its id.
        let first = client.task_handle_of_run::<Linger>("lingers", handle.run_id().unwrap());
        assert_eq!(first.describe().await?.status, TaskStatus::Cancelled);
        Ok::<_, ClientError>((handle, second))
    });
    let (first, second) = kept.await.unwrap();

    // Lists follow a moment later in Temporal.
    let filter = "ActivityType = 'linger'";
    let found = async || {
        let listed = client.list_tasks(filter).all().await.unwrap();
        let mut runs: Vec<(String, TaskStatus)> = listed.into_iter().map(|task| (task.run_id, task.status)).collect();
        runs.sort_by_key(|(_, status)| *status == TaskStatus::Terminated);
        runs
    };
    let run = |id: Option<&str>| id.unwrap().to_owned();
    let expected = [(run(first.run_id()), TaskStatus::Cancelled), (run(second.run_id()), TaskStatus::Terminated)];
    let listed = async {
        while found().await != expected {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), listed).await.expect("both runs are listed");
    assert_eq!(client.count_tasks(filter).await.unwrap(), 2);
    let terminating = StartTaskOptions { id_conflict_policy: IdConflictPolicy::TerminateExisting, ..at_once("x") };
    let refused = queue.start_task::<Linger>(terminating, ()).await.unwrap_err();
    assert!(matches!(refused, ClientError::Configuration(_)), "{refused:?}");
    second.delete().await.unwrap();
    let gone = async {
        while !matches!(second.describe().await, Err(ClientError::NotFound(_))) {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), gone).await.expect("it is deleted");
}
