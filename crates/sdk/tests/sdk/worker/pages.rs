//! Answers to workflow tasks that are larger than a request may be.

use std::time::Duration;

use segno_sdk::{
    Metrics,
    prelude::*,
    raw::{Attributes, HistoryEvent, enums::EventType},
    testing::TestServer,
};

use super::{queue, server};

/// With several of them an answer is too large for one request; one alone is within the limit for payloads.
const BYTES: usize = 1_000_000;
const TASKS: usize = 9;

#[task]
async fn length(text: String) -> Result<usize> {
    Ok(text.len())
}

/// Its first answer has 9 MB; before and after the large commands come small ones.
#[workflow]
async fn large_answers(ctx: Context, bytes: usize) -> Result<Vec<usize>> {
    let first = ctx.sleep(Duration::from_millis(1));
    let lengths: Vec<_> = (0..TASKS).map(|n| ctx.schedule::<Length>("x".repeat(bytes - n))).collect();
    ctx.set_state("scheduled", &lengths.len())?;
    let lengths = try_join_all(lengths).await?;
    first.await?;
    Ok(lengths)
}

/// A server that takes pages.
async fn paged_server() -> TestServer {
    let settings = ["history.enableWorkflowTaskCompletionPagination=true", "system.transactionSizeLimit=33554432"];
    let server = settings
        .into_iter()
        .fold(TestServer::builder(), |server, setting| server.argument("--dynamic-config-value").argument(setting));
    server.start().await.unwrap()
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test --only build,venv,sdk"]
async fn an_answer_goes_out_in_pages() {
    let server = paged_server().await;
    let queue = queue(&server.client());
    let worker = queue.worker().workflow::<LargeAnswers>().task::<Length>().build().unwrap();
    let body = async {
        let handle = queue.start::<LargeAnswers>("pages", BYTES).await?;
        assert_eq!(handle.result().await?, (0..TASKS).map(|n| BYTES - n).collect::<Vec<_>>());
        handle.history().await
    };
    let history = worker.run_until(body).await.unwrap();
    // One workflow task asked for all of it, in the order of the program.
    let asked: Vec<i64> = history
        .iter()
        .filter_map(|event| match &event.attributes {
            Some(Attributes::ActivityTaskScheduledEventAttributes(task)) => Some(task.workflow_task_completed_event_id),
            Some(Attributes::TimerStartedEventAttributes(timer)) => Some(timer.workflow_task_completed_event_id),
            _ => None,
        })
        .collect();
    assert_eq!(asked, vec![4; TASKS + 1]);
    let lengths: Vec<usize> = history
        .iter()
        .filter_map(|event| match &event.attributes {
            Some(Attributes::ActivityTaskScheduledEventAttributes(task)) => task.input.as_ref(),
            _ => None,
        })
        .map(|input| input.payloads[0].data.len() - 2)
        .collect();
    assert_eq!(lengths, (0..TASKS).map(|n| BYTES - n).collect::<Vec<_>>());
}

#[derive(Default)]
struct Talkative;

#[workflow]
impl Talkative {
    #[run]
    async fn run(ctx: Context<Self>) -> Result<()> {
        Ok(ctx.receive(Signal::<()>::named("end")).await?)
    }

    #[query]
    fn talk(&self, bytes: usize) -> String {
        "x".repeat(bytes)
    }
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test --only build,venv,sdk"]
async fn what_is_too_large_to_ask_or_to_answer_is_refused_at_once() {
    let server = server().await;
    let queue = queue(&server.client());
    let worker = queue.worker().workflow::<Talkative>().workflow::<LargeAnswers>().build().unwrap();
    let body = async {
        let handle = queue.start::<Talkative>("talkative", ()).await?;
        assert_eq!(handle.query(Talkative::TALK, 10).await?, "xxxxxxxxxx");
        let error = handle.query(Talkative::TALK, 5 * BYTES).await.unwrap_err();
        assert!(
            matches!(&error, ClientError::QueryFailed(why) if why.message().contains("the answer to the query")),
            "{error:?}"
        );
        let error = handle.signal(Signal::<String>::named("large"), "x".repeat(5 * BYTES)).await.unwrap_err();
        assert!(matches!(error, ClientError::Rpc { .. }), "{error:?}");
        // The workflow goes on.
        handle.signal(Signal::<()>::named("end"), ()).await?;
        handle.result().await?;
        let history = handle.history().await?;
        let repeated = [EventType::WorkflowTaskFailed, EventType::WorkflowTaskTimedOut];
        assert!(history.iter().all(|event| !repeated.contains(&event.event_type())), "{history:?}");
        Ok::<_, ClientError>(())
    };
    worker.run_until(body).await.unwrap();
}

/// A server terminates a run whose answer is reported as too large, because the next attempt would end as this one did.
#[tokio::test]
#[ignore = "needs a server: cargo xtask test --only build,venv,sdk"]
async fn without_pages_the_run_ends_and_says_why() {
    let server = server().await;
    let queue = queue(&server.client());
    let worker = queue.worker().workflow::<LargeAnswers>().task::<Length>().build().unwrap();
    let body = async {
        let handle = queue.start::<LargeAnswers>("too-large", BYTES).await?;
        let error = handle.result().await.unwrap_err();
        assert!(matches!(error.failure().map(Failure::kind), Some(FailureKind::Terminated)), "{error:?}");
        assert!(error.to_string().contains("GrpcMessageTooLarge"), "{error}");
        // Nothing of the answer came into effect.
        let scheduled = |event: &HistoryEvent| {
            matches!(event.attributes, Some(Attributes::ActivityTaskScheduledEventAttributes(_)))
        };
        assert!(!handle.history().await?.iter().any(scheduled));
        // What is small enough is still answered.
        assert_eq!(queue.execute::<LargeAnswers>("small", 10).await?.len(), TASKS);
        Ok::<_, ClientError>(())
    };
    tokio::time::timeout(Duration::from_secs(60), worker.run_until(body)).await.expect("in time").unwrap();
}

#[workflow]
async fn huge_answers(ctx: Context, tasks: usize) -> Result<()> {
    let lengths = (0..tasks).map(|_| ctx.schedule::<Length>("x".repeat(BYTES)));
    try_join_all(lengths.collect::<Vec<_>>()).await?;
    Ok(())
}

/// Servers say how much all pages together may have: 40 MiB.
#[tokio::test]
#[ignore = "needs a server: cargo xtask test --only build,venv,sdk"]
async fn what_is_too_large_for_all_pages_is_not_sent() {
    let server = paged_server().await;
    let metrics = Metrics::new();
    let client = Client::builder().target(server.address()).metrics(metrics.clone()).connect().await.unwrap();
    let queue = queue(&client);
    let worker = queue.worker().workflow::<HugeAnswers>().build().unwrap();
    let error = worker.run_until(queue.execute::<HugeAnswers>("huge", 45)).await.unwrap_err();
    assert!(error.to_string().contains("GrpcMessageTooLarge"), "{error}");
    let text = metrics.render();
    assert!(
        text.contains("\"RespondWorkflowTaskFailed\"") && !text.contains("\"RespondWorkflowTaskCompleted\""),
        "{text}"
    );
}
