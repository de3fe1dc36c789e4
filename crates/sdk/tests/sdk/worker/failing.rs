//! Failures of workflow tasks that the worker was told to take as failures of the workflow.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use segno_sdk::{
    Client, ClientError, Context, Failure, FailureKind, Handle, Metrics, Result, RetryPolicy, ScheduleTaskOptions,
    WorkflowContext, raw, task, workflow,
};

use super::{client::Inverted, queue, server};

#[workflow]
async fn stumble(_ctx: Context, how: String) -> Result<u32> {
    assert_ne!(how, "panic", "asked to");
    Ok(1)
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a server: cargo xtask test --only build,venv,sdk"]
async fn chosen_kinds_fail_the_workflow() {
    let server = server().await;
    let queue = queue(&server.client());
    let worker = queue.worker().workflow::<Stumble>().fail_workflow_on(["Panic", "UnknownWorkflow"]).build().unwrap();
    let failures = worker
        .run_until(async {
            let panicked = queue.execute::<Stumble>("panics", "panic".to_owned()).await;
            let unknown = queue.execute_raw("no_such_workflow", "unknown", serde_json::Value::Null).await;
            let fine = queue.execute::<Stumble>("fine", String::new()).await;
            assert_eq!(fine.unwrap(), 1);
            Ok::<_, ClientError>([panicked.map(drop), unknown.map(drop)])
        })
        .await
        .unwrap();
    for (failed, expected) in failures.into_iter().zip(["Panic", "UnknownWorkflow"]) {
        let Err(ClientError::WorkflowFailed(failure)) = failed else { panic!("{failed:?}") };
        assert!(matches!(failure.kind(), FailureKind::Application { kind, .. } if kind == expected), "{failure:?}");
    }
}

#[task]
async fn leak() -> Result<()> {
    Err(Failure::application("Leak", "the secret of the task").into())
}

#[workflow]
async fn keep(ctx: Context) -> Result<()> {
    let retry_policy = Some(RetryPolicy { maximum_attempts: 1, ..RetryPolicy::default() });
    let options = ScheduleTaskOptions { retry_policy, ..ScheduleTaskOptions::default() };
    Ok(ctx.schedule_with_options::<Leak>((), options).await?)
}

/// The messages of a failure and of its causes.
fn messages(failed: std::result::Result<(), ClientError>) -> Vec<String> {
    let Err(ClientError::WorkflowFailed(failure)) = failed else { panic!("{failed:?}") };
    let links = std::iter::successors(Some(&failure), |failure| failure.cause());
    links.map(|failure| failure.message().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a server: cargo xtask test --only build,venv,sdk"]
async fn texts_of_failures_pass_the_codecs() {
    let server = server().await;
    let metrics = Metrics::new();
    let client = Client::builder().target(server.address()).codec(Inverted).encode_failure_attributes();
    let client = client.metrics(metrics.clone());
    let queue = queue(&client.connect().await.unwrap());
    let worker = queue.worker().workflow::<Keep>().task::<Leak>().build().unwrap();
    let failed = worker.run_until(async { Ok::<_, ClientError>(queue.execute::<Keep>("keeps", ()).await) }).await;
    let seen = messages(failed.unwrap());
    assert_eq!(seen.last().map(String::as_str), Some("the secret of the task"), "{seen:?}");
    let plain: Handle<Keep> = server.client().handle("keeps");
    let seen = messages(plain.result().await);
    assert!(seen.iter().all(|message| message == "Encoded failure"), "{seen:?}");

    let labels = |label| [("namespace", "default"), ("task_queue", queue.name()), label];
    for (name, label) in [
        ("temporal_activity_execution_failed", ("activity_type", "leak")),
        ("temporal_activity_execution_latency_seconds", ("activity_type", "leak")),
        ("temporal_activity_schedule_to_start_latency_seconds", ("activity_type", "leak")),
        ("temporal_workflow_failed", ("workflow_type", "keep")),
        ("temporal_worker_start", ("worker_type", "Worker")),
    ] {
        assert_eq!(metrics.value(name, &labels(label)), Some(1.0), "{name}\n{}", metrics.render());
    }
    let operation = |name| [("namespace", "default"), ("operation", name)];
    assert_eq!(metrics.value("temporal_request", &operation("StartWorkflowExecution")), Some(1.0));
    assert_eq!(metrics.value("temporal_request", &operation("RespondActivityTaskFailed")), Some(1.0));
    assert!(metrics.value("temporal_long_request", &operation("PollWorkflowTaskQueue")).is_some());
}

/// Log lines of this thread.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

const LAST_CALL: u32 = line!() + 4;

#[workflow]
async fn block(ctx: Context) -> Result<()> {
    let _waits = ctx.sleep(Duration::from_secs(60));
    let (_sender, receiver) = std::sync::mpsc::channel::<()>();
    let _ = receiver.recv_timeout(Duration::from_millis(2_600));
    ctx.sleep(Duration::from_millis(1)).await?;
    Ok(())
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test --only build,venv,sdk"]
async fn a_workflow_task_that_blocks_is_logged_while_it_does_and_when_it_has_ended() {
    let server = server().await;
    let lines = Lines::default();
    let writer = lines.clone();
    let log = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
    let queue = queue(&server.client());
    let worker = queue.worker().workflow::<Block>().build().unwrap();
    {
        // Everything of the worker that logs is on this thread.
        let _log = tracing::subscriber::set_default(log);
        worker.run_until(queue.execute::<Block>("blocks", ())).await.unwrap();
    }
    let text = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
    for what in ["a workflow task has not ended after 2s", "a workflow task took long"] {
        let line = text.lines().find(|line| line.contains(what)).unwrap_or_else(|| panic!("{what}: {text}"));
        assert!(line.contains("workflow_id=\"blocks\" kind=\"block\""), "{line}");
        assert_eq!(line.contains("waits_for=\"timer"), what.contains("took"), "{line}");
        // While it blocks: where it called its context last.
        assert_eq!(line.contains(&format!("worker/failing.rs:{LAST_CALL}:")), what.contains("ended"), "{line}");
    }
}

/// The failures of workflow tasks in a history: kind and message.
async fn task_failures<W>(handle: &Handle<W>) -> Vec<(String, String)> {
    let failure = |event: &raw::HistoryEvent| match &event.attributes {
        Some(raw::Attributes::WorkflowTaskFailedEventAttributes(failed)) => {
            let failure = Failure::from_wire(failed.failure.clone().unwrap());
            Some((failure.application_kind().unwrap_or_default().to_owned(), failure.message().to_owned()))
        }
        _ => None,
    };
    handle.history().await.unwrap().iter().filter_map(failure).collect()
}

/// The first failure of a workflow task, once there is one.
async fn first_task_failure<W>(handle: &Handle<W>) -> (String, String) {
    let failed = async {
        loop {
            if let Some(failure) = task_failures(handle).await.into_iter().next() {
                return failure;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), failed).await.expect("a failed workflow task within 30 s")
}

/// Not in the workflow itself, where it does not compile.
fn nap(duration: Duration) {
    std::thread::sleep(duration);
}

const BEFORE_NAP: u32 = line!() + 4;

#[workflow]
async fn nap_on_the_thread(ctx: Context) -> Result<()> {
    ctx.sleep(Duration::from_millis(1)).await?;
    nap(Duration::from_millis(3_500));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a server: cargo xtask test --only build,venv,sdk"]
async fn a_workflow_that_sleeps_on_its_thread_fails_its_task_and_says_what_to_write() {
    let server = server().await;
    let queue = queue(&server.client());
    let worker = queue.worker().workflow::<NapOnTheThread>().build().unwrap();
    let (kind, message) = worker
        .run_until(async {
            let handle = queue.start::<NapOnTheThread>("naps", ()).await?;
            let failure = first_task_failure(&handle).await;
            // Otherwise the worker waits for it when it shuts down.
            handle.terminate("seen").await?;
            Ok::<_, ClientError>(failure)
        })
        .await
        .unwrap();
    assert_eq!(kind, "Blocked", "{message}");
    for part in ["`std::thread::sleep`", "`ctx.sleep(duration).await`", &format!("worker/failing.rs:{BEFORE_NAP}:")] {
        assert!(message.contains(part), "{part}: {message}");
    }
}

const TICK: u32 = line!() + 3;

async fn tick() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

const UNWRAP: u32 = line!() + 6;

#[workflow]
async fn tick_and_break(ctx: Context, how: String) -> Result<()> {
    match how.as_str() {
        "tokio" => tick().await,
        _ => drop(ctx.info().run_id.parse::<u32>().unwrap()),
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a server: cargo xtask test --only build,venv,sdk"]
async fn the_history_has_the_line_of_a_panic() {
    let server = server().await;
    let queue = queue(&server.client());
    let worker = queue.worker().workflow::<TickAndBreak>().build().unwrap();
    let failures = worker.run_until(async {
        let mut failures = Vec::new();
        for how in ["tokio", "unwrap"] {
            let handle = queue.start::<TickAndBreak>(how, how.to_owned()).await?;
            failures.push(first_task_failure(&handle).await);
            handle.terminate("seen").await?;
        }
        Ok::<_, ClientError>(failures)
    });
    let failures = failures.await.unwrap();
    let [(_, tokio), (_, unwrap)] = failures.as_slice() else { panic!("{failures:?}") };
    assert!(tokio.starts_with("tokio::time::sleep cannot be called in a workflow, at "), "{tokio}");
    assert!(tokio.contains(&format!("worker/failing.rs:{TICK}:")), "{tokio}");
    assert!(tokio.contains("write `ctx.sleep(duration).await`"), "{tokio}");
    assert!(unwrap.contains(&format!("worker/failing.rs:{UNWRAP}:")), "{unwrap}");
    assert!(!unwrap.contains("start_thread"), "{unwrap}");
}
