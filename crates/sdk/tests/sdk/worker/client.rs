//! What a client can do with workflows.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use segno_sdk::{
    Client, ClientError, Context, FailureKind, Handle, IdConflictPolicy, Priority, ResetOptions, Result, StartOptions,
    TaskContext, UpdateOptions, WorkflowContext, WorkflowStatus, task, workflow,
};
use serde_json::{Value, json};

use super::{queue, server};

#[derive(Default)]
struct Counter {
    value: i64,
    done: bool,
}

#[workflow]
impl Counter {
    #[run]
    async fn run(ctx: Context<Self>, first: i64) -> Result<i64> {
        ctx.this_mut().value += first;
        ctx.set_state("first", &first)?;
        ctx.wait_condition(|counter| counter.done).await?;
        let value = ctx.this().value;
        match value {
            100 => Err(ctx.continue_as_new::<Counter>(1_000)),
            value => Ok(value),
        }
    }

    #[signal]
    fn finish(&mut self) {
        self.done = true;
    }

    #[signal]
    fn add_both(&mut self, first: i64, second: i64) {
        self.value += first + second;
    }

    #[query]
    fn value(&self) -> i64 {
        self.value
    }

    #[query]
    fn broken(&self) -> Result<i64> {
        Err("no value".into())
    }

    #[update]
    async fn add(ctx: Context<Self>, number: i64) -> Result<i64> {
        ctx.sleep(Duration::from_millis(1)).await?;
        if number == 13 {
            return Err(segno_sdk::Failure::application("Unlucky", "not thirteen").into());
        }
        ctx.this_mut().value += number;
        Ok(ctx.this().value)
    }

    #[update]
    fn fail_at_once(&mut self) -> Result<()> {
        Err("at once".into())
    }

    #[validate(add)]
    fn check(&self, number: &i64) -> Result<()> {
        if *number == 0 { Err("a number, please".into()) } else { Ok(()) }
    }
}

static TOKENS: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());

async fn serve<T>(body: impl AsyncFnOnce(segno_sdk::Queue) -> T) -> T {
    let server = server().await;
    let queue = queue(&server.client());
    let worker = queue.worker().workflow::<Counter>().build().unwrap();
    let outcome = {
        let body = body(queue);
        let shutdown = worker.shutdown_handle();
        let (worker, outcome) = tokio::join!(worker.run(), async {
            let outcome = body.await;
            shutdown.shutdown();
            outcome
        });
        worker.unwrap();
        outcome
    };
    drop(server);
    outcome
}

fn failure(error: ClientError) -> (String, FailureKind) {
    let failure = error.failure().unwrap_or_else(|| panic!("{error:?}")).clone();
    (failure.message().to_owned(), failure.kind().clone())
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test --only build,venv,sdk"]
async fn updates_queries_and_signals() {
    serve(async |queue| {
        let counter = queue.start::<Counter>("counter", 1).await.unwrap();
        assert_eq!(counter.update(Counter::ADD, 5).await.unwrap(), 6);
        assert_eq!(counter.update_raw("add", json!(1)).await.unwrap(), json!(7));
        let rejected = counter.update(Counter::ADD, 0).await.unwrap_err();
        assert!(matches!(&rejected, ClientError::UpdateRejected(_)), "{rejected:?}");
        assert_eq!(rejected.to_string(), "a number, please");
        let failed = counter.update(Counter::ADD, 13).await.unwrap_err();
        assert!(matches!(&failed, ClientError::UpdateFailed(_)), "{failed:?}");
        assert_eq!(failed.failure().unwrap().application_kind(), Some("Unlucky"));
        let failed = counter.update(Counter::FAIL_AT_ONCE, ()).await.unwrap_err();
        assert!(matches!(&failed, ClientError::UpdateFailed(_)), "accepted in the same turn: {failed:?}");
        let unknown = counter.update_raw("nothing", json!(1)).await.unwrap_err();
        assert!(matches!(&unknown, ClientError::UpdateRejected(_)), "{unknown:?}");

        let options = UpdateOptions { id: "once".to_owned() };
        let update = counter.start_update_with_options(Counter::ADD, 3, options.clone()).await.unwrap();
        assert_eq!((update.id(), update.result().await.unwrap()), ("once", 10));
        let again = counter.start_update_with_options(Counter::ADD, 3, options).await.unwrap();
        assert_eq!(again.result().await.unwrap(), 10, "the same update happens once");
        assert_eq!(counter.update_handle::<i64>("once").result().await.unwrap(), 10);

        assert_eq!(counter.query(Counter::VALUE, ()).await.unwrap(), 10);
        let broken = counter.query(Counter::BROKEN, ()).await.unwrap_err();
        assert!(matches!(&broken, ClientError::QueryFailed(_)), "{broken:?}");
        counter.signal(Counter::ADD_BOTH, (1, 2)).await.unwrap();
        assert_eq!(counter.query_raw("value", Value::Null).await.unwrap(), json!(13));
        counter.signal(Counter::FINISH, ()).await.unwrap();
        assert_eq!(counter.result().await.unwrap(), 13);
        assert_eq!(counter.state::<i64>("first").await.unwrap(), Some(1));
        assert_eq!(counter.state::<i64>("second").await.unwrap(), None);
        let late = counter.signal(Counter::FINISH, ()).await.unwrap_err();
        assert!(matches!(late, ClientError::NotFound(_)), "{late:?}");
    })
    .await;
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test --only build,venv,sdk"]
async fn ends_of_workflows() {
    serve(async |queue| {
        let client = queue.client().clone();
        let counter = queue.start::<Counter>("terminated", 1).await.unwrap();
        counter.terminate("enough").await.unwrap();
        let (message, kind) = failure(counter.result().await.unwrap_err());
        assert_eq!((message.as_str(), kind), ("the workflow was terminated: enough", FailureKind::Terminated));

        let counter = queue.start::<Counter>("cancelled", 1).await.unwrap();
        counter.cancel_with_reason("tired").await.unwrap();
        let error = counter.result().await.unwrap_err();
        assert!(error.failure().is_some_and(segno_sdk::Failure::is_cancelled), "{error:?}");
        assert_eq!(counter.describe().await.unwrap().status, WorkflowStatus::Cancelled);

        let options = StartOptions { run_timeout: Some(Duration::from_millis(300)), ..StartOptions::new("late") };
        let counter = queue.start_with_options::<Counter>(options, 1).await.unwrap();
        let (_, kind) = failure(counter.result().await.unwrap_err());
        assert!(matches!(kind, FailureKind::Timeout { .. }), "{kind:?}");

        let counter = queue.start::<Counter>("continued", 100).await.unwrap();
        counter.signal(Counter::FINISH, ()).await.unwrap();
        let second: Handle<Counter> = client.handle("continued");
        let mut described = second.describe().await.unwrap();
        while Some(described.run_id.as_str()) == counter.run_id() {
            tokio::time::sleep(Duration::from_millis(20)).await;
            described = second.describe().await.unwrap();
        }
        counter.signal(Counter::FINISH, ()).await.unwrap();
        assert_eq!(counter.result().await.unwrap(), 1_000, "the result is that of the last run");

        let nobody: Handle<Counter> = client.handle("nobody");
        assert!(matches!(nobody.result().await, Err(ClientError::NotFound(_))));
        assert!(matches!(nobody.describe().await, Err(ClientError::NotFound(_))));
    })
    .await;
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test --only build,venv,sdk"]
async fn starts() {
    serve(async |queue| {
        let client = queue.client().clone();
        let first = queue.start::<Counter>("one", 1).await.unwrap();
        match queue.start::<Counter>("one", 1).await {
            Err(ClientError::AlreadyStarted { workflow_id, run_id }) => {
                assert_eq!((workflow_id.as_str(), Some(run_id.as_str())), ("one", first.run_id()));
            }
            other => panic!("{other:?}"),
        }
        let options = StartOptions { id_conflict_policy: IdConflictPolicy::UseExisting, ..StartOptions::new("one") };
        let same = queue.start_with_options::<Counter>(options, 1).await.unwrap();
        assert_eq!(same.run_id(), first.run_id());
        let options =
            StartOptions { id_conflict_policy: IdConflictPolicy::TerminateExisting, ..StartOptions::new("one") };
        let other = queue.start_with_options::<Counter>(options, 1).await.unwrap();
        assert_ne!(other.run_id(), first.run_id());
        assert!(matches!(first.result().await, Err(ClientError::WorkflowFailed(_))), "its own run, not the newest");

        let options = StartOptions {
            memo: vec![("note".to_owned(), json!({"a": 1}))],
            summary: Some("a line".to_owned()),
            priority: Some(Priority::new(2)),
            start_delay: Some(Duration::from_millis(200)),
            ..StartOptions::new("options")
        };
        let counter = queue.start_with_options::<Counter>(options, 1).await.unwrap();
        let described = counter.describe().await.unwrap();
        assert_eq!(described.memo::<Value>("note").unwrap(), Some(json!({"a": 1})));
        assert_eq!((described.kind.as_str(), described.queue.as_str()), ("Counter", queue.name()));
        counter.signal(Counter::FINISH, ()).await.unwrap();
        assert_eq!(counter.result().await.unwrap(), 1);

        let counter = queue.signal_with_start::<Counter, _>("signalled", 1, Counter::FINISH, ()).await.unwrap();
        assert_eq!(counter.result().await.unwrap(), 1, "the signal is seen by the first line");

        let (counter, update) = queue.update_with_start::<Counter, _, _>("updated", 1, Counter::ADD, 2).await.unwrap();
        assert_eq!(update.result().await.unwrap(), 3);
        let (same, update) = queue.update_with_start::<Counter, _, _>("updated", 1, Counter::ADD, 0).await.unwrap();
        assert_eq!(same.run_id(), counter.run_id());
        assert!(matches!(update.result().await, Err(ClientError::UpdateRejected(_))));

        let raw = queue.start_raw("Counter", "raw", json!(4)).await.unwrap();
        raw.signal_raw("finish", Value::Null).await.unwrap();
        assert_eq!(raw.result().await.unwrap(), json!(4));
        // By now the worker has offered to take first workflow tasks.
        let accepted = raw.history().await.unwrap().into_iter().next().is_some_and(|event| match event.attributes {
            Some(segno_sdk::raw::Attributes::WorkflowExecutionStartedEventAttributes(started)) => {
                started.eager_execution_accepted
            }
            _ => false,
        });
        assert!(accepted, "the first workflow task came with the answer to the start");
        let listed = client.list("WorkflowType = 'Counter'").all().await.unwrap();
        assert_eq!(client.count("WorkflowType = 'Counter'").await.unwrap().count, listed.len() as u64);
        assert!(listed.iter().any(|workflow| workflow.workflow_id == "raw"), "{listed:?}");
        let wrong = client.count("nonsense").await.unwrap_err();
        assert!(matches!(wrong, ClientError::Rpc { code: tonic::Code::InvalidArgument, .. }), "{wrong:?}");
    })
    .await;
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test --only build,venv,sdk"]
async fn resets_and_deletions() {
    serve(async |queue| {
        let counter = queue.start::<Counter>("counter", 1).await.unwrap();
        counter.update(Counter::ADD, 5).await.unwrap();
        counter.signal(Counter::FINISH, ()).await.unwrap();
        assert_eq!(counter.result().await.unwrap(), 6);
        let events = counter.history().await.unwrap();
        assert_eq!(
            events.iter().map(|event| event.event_id).collect::<Vec<_>>(),
            (1..=events.len() as i64).collect::<Vec<_>>()
        );
        let options =
            ResetOptions { event_id: 4, reason: "a test".to_owned(), exclude_updates: true, ..Default::default() };
        let again = counter.reset(options).await.unwrap();
        assert_ne!(again.run_id(), counter.run_id());
        assert_eq!(again.result().await.unwrap(), 1, "the signal is there again, the update is not");
        again.delete().await.unwrap();
        // Temporal takes half a minute.
        for _ in 0..2400 {
            if matches!(again.history().await, Err(ClientError::NotFound(_))) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("a deleted workflow is still there");
    })
    .await;
}

#[task(timeout = "1m")]
async fn wait_for_somebody(ctx: TaskContext) -> Result<String> {
    TOKENS.lock().unwrap().push(ctx.info().token.clone());
    Err(ctx.complete_later())
}

#[workflow]
async fn waiting(ctx: Context) -> Result<String> {
    Ok(ctx.schedule::<WaitForSomebody>(()).await?)
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test --only build,venv,sdk"]
async fn tasks_that_are_finished_from_outside() {
    let server = server().await;
    let client: Client = server.client();
    let queue = queue(&client);
    let worker = queue.worker().workflow::<Waiting>().task::<WaitForSomebody>().build().unwrap();
    let token = || async {
        loop {
            if let Some(token) = TOKENS.lock().unwrap().pop() {
                return token;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let body = async {
        let first = queue.start::<Waiting>("first", ()).await?;
        let task = client.task_by_token(token().await);
        assert!(!task.heartbeat(1).await?.cancel_requested);
        task.complete("by token".to_owned()).await?;
        assert_eq!(first.result().await?, "by token");
        let gone = task.complete("twice".to_owned()).await;
        assert!(!matches!(gone, Err(ClientError::Rpc { .. })), "{gone:?}");

        let second = queue.start::<Waiting>("second", ()).await?;
        let task = client.task_by_token(token().await);
        task.fail(segno_sdk::Failure::application("Refused", "no").non_retryable()).await?;
        let error = second.result().await.unwrap_err();
        assert_eq!(error.failure().and_then(segno_sdk::Failure::application_kind), Some("Refused"));

        let third = queue.start::<Waiting>("third", ()).await?;
        token().await;
        let events = third.history().await?;
        let id = events.iter().find_map(|event| match &event.attributes {
            Some(segno_sdk::raw::Attributes::ActivityTaskScheduledEventAttributes(scheduled)) => {
                Some(scheduled.activity_id.clone())
            }
            _ => None,
        });
        client.task_by_id("third", "", id.unwrap_or_default()).complete("by id".to_owned()).await?;
        assert_eq!(third.result().await?, "by id");
        Ok::<_, ClientError>(())
    };
    worker.run_until(body).await.unwrap();
}

/// Turns every byte of a payload around, which no reader can miss.
pub(super) struct Inverted;

impl segno_sdk::PayloadCodec for Inverted {
    fn encode(
        &self,
        payloads: Vec<segno_sdk::raw::Payload>,
    ) -> futures::future::BoxFuture<'_, std::result::Result<Vec<segno_sdk::raw::Payload>, segno_sdk::ConversionError>>
    {
        Box::pin(async move {
            let mut encoded = Vec::new();
            for payload in payloads {
                let inner = prost::Message::encode_to_vec(&payload);
                let data: Vec<u8> = inner.iter().map(|byte| !byte).collect();
                let metadata = [("encoding".to_owned(), "binary/inverted".into())].into();
                encoded.push(segno_sdk::raw::Payload { metadata, data: data.into(), ..Default::default() });
            }
            Ok(encoded)
        })
    }

    fn decode(
        &self,
        payloads: Vec<segno_sdk::raw::Payload>,
    ) -> futures::future::BoxFuture<'_, std::result::Result<Vec<segno_sdk::raw::Payload>, segno_sdk::ConversionError>>
    {
        Box::pin(async move {
            payloads
                .into_iter()
                .map(|payload| {
                    if payload.metadata.get("encoding").is_none_or(|name| name.as_ref() != b"binary/inverted") {
                        return Ok(payload);
                    }
                    let inner: Vec<u8> = payload.data.iter().map(|byte| !byte).collect();
                    prost::Message::decode(inner.as_slice())
                        .map_err(|error: prost::DecodeError| segno_sdk::ConversionError(error.to_string()))
                })
                .collect()
        })
    }
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test --only build,venv,sdk"]
async fn payloads_are_encoded_on_the_wire() {
    let server = server().await;
    let client = Client::builder().target(server.address()).codec(Inverted).connect().await.unwrap();
    let queue = queue(&client);
    let worker = queue.worker().workflow::<Counter>().build().unwrap();
    let body = async {
        let options = StartOptions { memo: vec![("note".to_owned(), json!("secret"))], ..StartOptions::new("secret") };
        let counter = queue.start_with_options::<Counter>(options, 1).await?;
        assert_eq!(counter.update(Counter::ADD, 5).await?, 6);
        assert_eq!(counter.query(Counter::VALUE, ()).await?, 6);
        assert!(matches!(counter.update(Counter::ADD, 0).await, Err(ClientError::UpdateRejected(_))));
        counter.signal(Counter::ADD_BOTH, (1, 2)).await?;
        counter.signal(Counter::FINISH, ()).await?;
        assert_eq!(counter.result().await?, 9);
        let described = counter.describe().await?;
        assert_eq!(described.memo::<String>("note")?.as_deref(), Some("secret"));
        assert_eq!(described.state::<i64>("first")?, Some(1));
        Ok::<_, ClientError>(())
    };
    worker.run_until(body).await.unwrap();
    let plain: Handle<Counter> = server.client().handle("secret");
    assert!(matches!(plain.result().await, Err(ClientError::Conversion(_))), "the server has the encoded form");
    let note = plain.describe().await.unwrap().memo::<String>("note");
    assert!(matches!(note, Err(ClientError::Conversion(_))), "{note:?}");
}

/// For the compiler: what a client makes can be used from other threads.
#[allow(dead_code)]
fn is_send(queue: segno_sdk::Queue) -> impl Send {
    let shared = Arc::new(queue);
    async move {
        let counter = shared.start::<Counter>("x", 1).await?;
        counter.update(Counter::ADD, 1).await?;
        let (_, update) = shared.update_with_start::<Counter, _, _>("x", 1, Counter::ADD, 1).await?;
        update.result().await?;
        counter.client().list("").all().await?;
        counter.result().await
    }
}
