//! What is done to workflows beside messages: batches, changes on the way to the next run, search attributes, catch-alls.

use std::time::{Duration, UNIX_EPOCH};

use segno_sdk::{ContinueOptions, SearchAttribute, WorkflowStatus, prelude::*, testing::TestServer};
use serde_json::json;

use super::{queue, server};

const GO: Signal<u32> = Signal::named("go");

#[workflow]
async fn wait_for_go(ctx: Context) -> Result<u32> {
    Ok(ctx.receive(GO).await?)
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test --only build,venv,sdk"]
async fn a_batch_signals_and_terminates() {
    let server = server().await;
    let (client, queue) = (server.client(), queue(&server.client()));
    let worker = queue.worker().workflow::<WaitForGo>().build().unwrap();
    let body = async {
        let mut handles = Vec::new();
        for number in 0..4 {
            handles.push(queue.start::<WaitForGo>(format!("batch-{number}"), ()).await?);
        }
        // Lists may come later than starts.
        let running = "WorkflowType = 'wait_for_go' AND ExecutionStatus = 'Running'";
        for _ in 0..60 {
            if client.count(running).await?.count == 4 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(250)).await;
        }
        let job = client.batch("WorkflowId = 'batch-0' OR WorkflowId = 'batch-1'").reason("go").signal(GO, 7).await?;
        assert_eq!((handles[0].result().await?, handles[1].result().await?), (7, 7));
        let mut progress = job.progress().await?;
        for _ in 0..60 {
            if !progress.is_running {
                break;
            }
            tokio::time::sleep(Duration::from_millis(250)).await;
            progress = job.progress().await?;
        }
        assert!(progress.is_completed, "{progress:?}");
        assert_eq!((progress.total, progress.completed, progress.failed), (2, 2, 0));
        client.batch(running).reason("enough").terminate().await?;
        for handle in &handles[2..] {
            let error = handle.result().await.unwrap_err();
            assert!(matches!(error.failure().map(Failure::kind), Some(FailureKind::Terminated)), "{error:?}");
        }
        Ok::<_, ClientError>(())
    };
    worker.run_until(body).await.unwrap();
}

const KEYWORD: SearchAttribute<String> = SearchAttribute::keyword("CustomKeywordField");
const INT: SearchAttribute<i64> = SearchAttribute::int("CustomIntField");
const TIME: SearchAttribute<std::time::SystemTime> = SearchAttribute::datetime("CustomDatetimeField");

#[workflow]
async fn go_round(ctx: Context, rounds: u32) -> Result<u32> {
    let info = ctx.info();
    match &info.continued_run_id {
        None => {
            assert_eq!(KEYWORD.of(&*info).as_deref(), Some("first"));
            ctx.upsert_search_attributes([INT.set(5), KEYWORD.unset()]);
            let options = ContinueOptions {
                run_timeout: Some(Duration::from_secs(77)),
                memo: vec![("note".to_owned(), json!("second"))],
                search_attributes: vec![TIME.set(UNIX_EPOCH + Duration::from_secs(1_794_933_000))],
                ..ContinueOptions::default()
            };
            Err(ctx.continue_as_new_with_options::<GoRound>(rounds + 1, options))
        }
        Some(_) => {
            assert_eq!(
                (info.run_timeout, info.task_timeout),
                (Some(Duration::from_secs(77)), Some(Duration::from_secs(9)))
            );
            Ok(rounds)
        }
    }
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test --only build,venv,sdk"]
async fn the_next_run_has_what_was_said_and_the_rest_as_before() {
    let mut server = TestServer::builder();
    for attribute in ["CustomKeywordField=Keyword", "CustomIntField=Int", "CustomDatetimeField=Datetime"] {
        server = server.argument("--search-attribute").argument(attribute);
    }
    let server = server.start().await.expect("a server; SEGNO_BIN names one");
    let queue = queue(&server.client());
    let worker = queue.worker().workflow::<GoRound>().build().unwrap();
    let body = async {
        let options = StartOptions {
            memo: vec![("kept".to_owned(), json!("first"))],
            search_attributes: vec![KEYWORD.set("first".to_owned())],
            task_timeout: Some(Duration::from_secs(9)),
            retry_policy: Some(RetryPolicy::attempts(3)),
            ..StartOptions::new("round")
        };
        let handle = queue.start_with_options::<GoRound>(options, 1).await?;
        assert_eq!(handle.result().await?, 2);
        let described = server.client().handle::<GoRound>("round").describe().await?;
        assert_eq!(described.status, WorkflowStatus::Completed);
        assert_eq!(described.memo::<String>("note")?.as_deref(), Some("second"));
        assert_eq!(described.memo::<String>("kept")?.as_deref(), Some("first"));
        assert_eq!((INT.of(&described), KEYWORD.of(&described)), (Some(5), None));
        assert_eq!(TIME.of(&described), Some(UNIX_EPOCH + Duration::from_secs(1_794_933_000)));
        let second = server.client().handle_of_run::<GoRound>("round", described.run_id);
        let policy = second.history().await?.into_iter().find_map(|event| match event.attributes {
            Some(segno_sdk::raw::Attributes::WorkflowExecutionStartedEventAttributes(started)) => started.retry_policy,
            _ => None,
        });
        assert_eq!(policy.map(|policy| policy.maximum_attempts), Some(3), "the retry policy goes on");
        Ok::<_, ClientError>(())
    };
    worker.run_until(body).await.unwrap();
}

#[task(dynamic)]
async fn any_task(ctx: TaskContext, arguments: Vec<Value>) -> Result<String> {
    Ok(format!("{} {}", ctx.info().kind, Value::from(arguments)))
}

#[workflow(dynamic)]
async fn any_workflow(ctx: Context, arguments: Vec<Value>) -> Result<String> {
    let kind = ctx.info().kind.clone();
    let answer = ctx.schedule_raw("unheard-of", Value::from(arguments.len())).await?;
    Ok(format!("{kind}: {}", answer.as_str().unwrap_or_default()))
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test --only build,venv,sdk"]
async fn what_nobody_knows_goes_to_the_catch_alls() {
    let server = server().await;
    let queue = queue(&server.client());
    let worker = queue.worker().workflow::<AnyWorkflow>().task::<AnyTask>().build().unwrap();
    let output = worker.run_until(queue.execute_raw("surprise", "dynamic", json!("tea"))).await.unwrap();
    assert_eq!(output, json!("surprise: unheard-of [1]"));
}
