//! Nexus operations between workers, through a server.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use futures_util::future::BoxFuture;
use segno_sdk::{
    HandlerError, HandlerErrorType, IdConflictPolicy, Metrics, NexusCancellationType, NexusClient, NexusFn,
    NexusRequest, OperationError, RawWorkflow, TimeoutType,
    interceptor::NexusInterceptor,
    prelude::*,
    raw::{Attributes, enums::EventType},
    replay::Replayer,
};
use serde_json::json;

use super::{queue, server, until};

#[nexus_service]
trait Shop {
    #[operation]
    async fn describe(&self, ctx: NexusContext, word: String) -> Result<BTreeMap<String, String>>;
    #[operation]
    async fn nothing(&self) -> Result<()>;
    #[operation]
    async fn fail(&self, how: String) -> Result<u32>;
    #[operation]
    async fn wait(&self, ctx: NexusContext, id: String) -> Result<StartedOperation<u32>, HandlerError>;
    #[operation]
    async fn refuse(&self, ctx: NexusContext, id: String) -> Result<StartedOperation<u32>>;
    #[cancel(refuse)]
    async fn cancel_refuse(&self, token: String) -> Result<(), HandlerError>;
    #[operation]
    async fn twice(&self, ctx: NexusContext) -> Result<StartedOperation<u32>>;
    #[operation]
    async fn hang(&self) -> Result<u32>;
}

#[derive(Default)]
struct Counting {
    attempts: AtomicU32,
    cancelled: Mutex<Vec<String>>,
}

impl Shop for Counting {
    async fn describe(&self, ctx: NexusContext, word: String) -> Result<BTreeMap<String, String>> {
        let info = ctx.info();
        assert!(!info.request_id.is_empty() && ctx.time_left().is_some_and(|left| left > Duration::from_secs(1)));
        let link = info.links.first().map(|link| link.url.clone()).unwrap_or_default();
        let header = ctx.header("customer").unwrap_or_default().to_owned();
        let endpoint = info.endpoint.clone();
        Ok([("word", word), ("link", link), ("header", header), ("endpoint", endpoint)]
            .map(|(key, value)| (key.to_owned(), value))
            .into())
    }

    async fn nothing(&self) -> Result<()> {
        Ok(())
    }

    async fn fail(&self, how: String) -> Result<u32> {
        let attempt = self.attempts.fetch_add(1, Ordering::Relaxed);
        match how.as_str() {
            "failed" => Err(OperationError::failed("no tea").into()),
            "failed with" => {
                Err(OperationError::failed_with(Failure::application("SoldOut", "no tea").details(&7)).into())
            }
            "canceled" => Err(OperationError::canceled("changed my mind").into()),
            "bad request" => Err(HandlerError::new(HandlerErrorType::BadRequest, "what is tea?").into()),
            "non-retryable" => Err(Failure::application("SoldOut", "never").non_retryable().into()),
            "override" => Err(HandlerError::new(HandlerErrorType::Unavailable, "gone").retryable(false).into()),
            "panic" if attempt == 0 => panic!("no tea"),
            "retried" if attempt == 0 => Err("just now".into()),
            _ => Ok(attempt),
        }
    }

    async fn wait(&self, ctx: NexusContext, id: String) -> Result<StartedOperation<u32>, HandlerError> {
        let options = StartOptions { id_conflict_policy: IdConflictPolicy::UseExisting, ..StartOptions::new(id) };
        ctx.start_workflow::<WaitForTea>(options, ()).await
    }

    async fn refuse(&self, ctx: NexusContext, id: String) -> Result<StartedOperation<u32>> {
        Ok(ctx.start_workflow::<WaitForTea>(id, ()).await?)
    }

    async fn cancel_refuse(&self, token: String) -> Result<(), HandlerError> {
        self.cancelled.lock().unwrap().push(token);
        Err(HandlerError::new(HandlerErrorType::Unauthorized, "it goes on"))
    }

    async fn twice(&self, ctx: NexusContext) -> Result<StartedOperation<u32>> {
        let first = ctx.start_workflow::<WaitForTea>("", ()).await?;
        let _ = ctx.start_workflow::<WaitForTea>("second", ()).await?;
        Ok(first)
    }

    async fn hang(&self) -> Result<u32> {
        match self.attempts.fetch_add(1, Ordering::Relaxed) {
            0 => std::future::pending().await,
            attempt => Ok(attempt),
        }
    }
}

const TEA: Signal<u32> = Signal::named("tea");

#[workflow]
async fn wait_for_tea(ctx: Context) -> Result<u32> {
    Ok(ctx.receive(TEA).await?)
}

/// Calls an operation by name and reports its failure.
#[workflow]
async fn call(ctx: Context, operation: String, input: Value) -> Result<Value> {
    let client: NexusClient = ctx.nexus("shop");
    Ok(client.start_raw("Shop", &operation, input).await?)
}

#[workflow]
async fn describe_tea(ctx: Context) -> Result<BTreeMap<String, String>> {
    let options = NexusOptions {
        headers: vec![("Customer".to_owned(), "Ann".to_owned())],
        summary: Some("asks".to_owned()),
        ..NexusOptions::default()
    };
    let shop = ctx.nexus::<ShopClient>("shop").with_options(options);
    let described = shop.describe("tea".to_owned());
    assert_eq!(described.started().await?, None);
    shop.nothing().await?;
    Ok(described.await?)
}

/// Replays the history of a run that has closed.
async fn replay<W: Workflow>(handle: &Handle<W>) -> Vec<segno_sdk::raw::HistoryEvent> {
    let events = handle.history().await.unwrap();
    let history = segno_sdk::History::from_events(events.clone());
    assert!(Replayer::new().workflow::<W>().replay(history).unwrap().closed);
    events
}

fn count(events: &[segno_sdk::raw::HistoryEvent], kind: EventType) -> usize {
    events.iter().filter(|event| event.event_type() == kind).count()
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test --only build,venv,sdk"]
async fn operations_that_are_complete_at_once() {
    let server = server().await;
    let metrics = Metrics::new();
    let client = Client::builder().target(server.address()).metrics(metrics.clone()).connect().await.unwrap();
    let queue = queue(&client);
    server.create_nexus_endpoint("shop", &queue).await.unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let worker = queue
        .worker()
        .workflow::<DescribeTea>()
        .nexus_service(ShopHandler::new(Counting::default()))
        .nexus_interceptor(Notes(seen.clone()))
        .build()
        .unwrap();
    let body = async {
        let handle = queue.start::<DescribeTea>("describe", ()).await?;
        let described = handle.result().await?;
        assert_eq!((&*described["word"], &*described["header"]), ("tea", "Ann"));
        assert_eq!(described["endpoint"], "shop");
        let link = &described["link"];
        assert!(link.contains("/workflows/describe/") && link.contains("NexusOperationScheduled"), "{link}");
        let events = replay(&handle).await;
        assert_eq!(count(&events, EventType::NexusOperationStarted), 0);
        assert_eq!(count(&events, EventType::NexusOperationCompleted), 2);
        Ok::<_, ClientError>(())
    };
    worker.run_until(body).await.unwrap();
    let mut seen = seen.lock().unwrap().clone();
    seen.sort();
    assert_eq!(seen, ["Shop.describe", "Shop.nothing"]);
    let text = metrics.render();
    assert!(text.contains("temporal_nexus_task_execution_latency_seconds_count"), "{text}");
    assert!(text.contains("NexusWorker"), "{text}");
}

/// Notes each request.
struct Notes(Arc<Mutex<Vec<String>>>);

impl NexusInterceptor for Notes {
    fn handle(
        &self,
        ctx: NexusContext,
        request: NexusRequest,
        next: NexusFn,
    ) -> BoxFuture<'static, Result<StartedOperation<Option<segno_sdk::raw::Payload>>>> {
        let info = ctx.info();
        self.0.lock().unwrap().push(format!("{}.{}", info.service, info.operation));
        next(ctx, request)
    }
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test --only build,venv,sdk"]
async fn errors_of_each_kind() {
    let server = server().await;
    let queue = queue(&server.client());
    server.create_nexus_endpoint("shop", &queue).await.unwrap();
    let counting = Arc::new(Counting::default());
    let worker = queue.worker().workflow::<Call>().nexus_service(ShopHandler::from(counting.clone())).build().unwrap();
    let handler = |r#type, retryable| FailureKind::NexusHandler { r#type, retryable };
    let application = |kind: &str, non_retryable| FailureKind::Application { kind: kind.to_owned(), non_retryable };
    let body = async {
        let cases = [
            ("fail", json!("failed"), application("OperationError", true), "no tea"),
            ("fail", json!("failed with"), application("SoldOut", false), "no tea"),
            ("fail", json!("canceled"), FailureKind::Cancelled, "changed my mind"),
            ("fail", json!("bad request"), handler(HandlerErrorType::BadRequest, false), "what is tea?"),
            ("fail", json!("non-retryable"), handler(HandlerErrorType::Internal, false), "never"),
            ("fail", json!("override"), handler(HandlerErrorType::Unavailable, false), "gone"),
            ("fail", json!(7), handler(HandlerErrorType::BadRequest, false), "string"),
            ("wonder", json!(null), handler(HandlerErrorType::NotFound, false), "no operation \"wonder\""),
            ("twice", json!(null), handler(HandlerErrorType::Internal, false), "an operation is one workflow"),
        ];
        for (index, (operation, input, kind, message)) in cases.into_iter().enumerate() {
            let handle = queue.start::<Call>(format!("call-{index}"), (operation.to_owned(), input)).await?;
            let error = handle.result().await.unwrap_err();
            let failure = error.failure().unwrap();
            assert!(matches!(failure.kind(), FailureKind::Nexus { service, .. } if service == "Shop"), "{failure:?}");
            let cause = failure.cause().unwrap();
            assert_eq!(cause.kind(), &kind, "{operation}: {failure:?}");
            assert!(cause.message().contains(message), "{operation}: {failure:?}");
            if kind == handler(HandlerErrorType::Internal, false) && operation == "fail" {
                assert_eq!(failure.application_kind(), Some("SoldOut"));
            }
            replay(&handle).await;
        }
        // What may be repeated is repeated.
        for how in ["panic", "retried"] {
            counting.attempts.store(0, Ordering::Relaxed);
            let handle = queue.start::<Call>(how, ("fail".to_owned(), json!(how))).await?;
            assert_eq!(handle.result().await?, json!(1), "{how}");
        }
        Ok::<_, ClientError>(())
    };
    worker.run_until(body).await.unwrap();
}

/// The operation is cancelled once it was started; the workflow reports its end.
#[workflow]
async fn order_and_cancel(ctx: Context, operation: String, kind: u32) -> Result<(bool, bool)> {
    let cancellation = match kind {
        0 => NexusCancellationType::TryCancel,
        1 => NexusCancellationType::WaitRequested,
        2 => NexusCancellationType::WaitCompleted,
        _ => NexusCancellationType::Abandon,
    };
    let options = NexusOptions { cancellation, ..NexusOptions::default() };
    let client = ctx.nexus::<NexusClient>("shop").with_options(options);
    let id = ctx.info().workflow_id.clone();
    let ordered = client.start_raw("Shop", &operation, json!(format!("tea-of-{id}")));
    assert!(ordered.started().await?.is_some());
    ctx.sleep(Duration::from_millis(100)).await?;
    ordered.cancel();
    let failure = ordered.await.unwrap_err();
    // What arrives now must not disturb.
    ctx.sleep(Duration::from_secs(1)).await?;
    Ok((failure.is_cancelled(), matches!(failure.kind(), FailureKind::Nexus { .. })))
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test --only build,venv,sdk"]
async fn cancellation_of_each_type() {
    let server = server().await;
    let (client, queue) = (server.client(), queue(&server.client()));
    server.create_nexus_endpoint("shop", &queue).await.unwrap();
    let counting = Arc::new(Counting::default());
    let worker = queue
        .worker()
        .workflow::<OrderAndCancel>()
        .workflow::<WaitForTea>()
        .nexus_service(ShopHandler::from(counting.clone()))
        .build()
        .unwrap();
    let body = async {
        for (kind, of_event) in [(0, false), (1, false), (2, true), (3, false)] {
            let handle = queue.start::<OrderAndCancel>(format!("order-{kind}"), ("wait".to_owned(), kind)).await?;
            assert_eq!(handle.result().await?, (true, of_event), "type {kind}");
            let events = replay(&handle).await;
            assert_eq!(count(&events, EventType::NexusOperationCancelRequested), usize::from(kind != 3));
            let tea = client.handle::<WaitForTea>(format!("tea-of-order-{kind}"));
            if kind == 3 {
                assert!(tea.describe().await?.status == segno_sdk::WorkflowStatus::Running);
            } else {
                let error = tea.result().await.unwrap_err();
                assert!(error.failure().is_some_and(Failure::is_cancelled), "{error:?}");
            }
        }
        // The handler refuses, which the one that waits for the request is told.
        let handle = queue.start::<OrderAndCancel>("refused", ("refuse".to_owned(), 1)).await?;
        assert_eq!(handle.result().await?, (false, true));
        let events = replay(&handle).await;
        assert_eq!(count(&events, EventType::NexusOperationCancelRequestFailed), 1);
        assert_eq!(counting.cancelled.lock().unwrap().len(), 1);
        Ok::<_, ClientError>(())
    };
    worker.run_until(body).await.unwrap();
}

#[workflow]
async fn order(ctx: Context, id: String) -> Result<u32> {
    Ok(ctx.nexus::<ShopClient>("shop").wait(id).await?)
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test --only build,venv,sdk"]
async fn two_callers_of_one_workflow() {
    let server = server().await;
    let (client, queue) = (server.client(), queue(&server.client()));
    server.create_nexus_endpoint("shop", &queue).await.unwrap();
    let worker = queue
        .worker()
        .workflow::<Order>()
        .workflow::<WaitForTea>()
        .nexus_service(ShopHandler::new(Counting::default()))
        .build()
        .unwrap();
    let body = async {
        let started = async |id: &str| {
            let handle = queue.start::<Order>(id, "shared".to_owned()).await?;
            for _ in 0..100 {
                if count(&handle.history().await?, EventType::NexusOperationStarted) == 1 {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            Ok::<_, ClientError>(handle)
        };
        let (first, second) = (started("first").await?, started("second").await?);
        let tea = client.handle::<WaitForTea>("shared");
        tea.signal(TEA, 42).await?;
        assert_eq!((first.result().await?, second.result().await?), (42, 42));
        let events = tea.history().await?;
        assert_eq!(count(&events, EventType::WorkflowExecutionOptionsUpdated), 1);
        // The handler's workflow leads to its caller, and the caller to it.
        assert!(format!("{:?}", events[0]).contains("\"first\""), "{:?}", events[0]);
        let started =
            replay(&first).await.into_iter().find(|event| event.event_type() == EventType::NexusOperationStarted);
        let started = started.unwrap();
        assert!(format!("{:?}", started.links).contains("shared"), "{started:?}");
        let Some(Attributes::NexusOperationStartedEventAttributes(attributes)) = started.attributes else { panic!() };
        // That of Temporal's SDKs: {"t":1,"ns":"default","wid":"shared"}.
        assert_eq!(attributes.operation_token, "eyJ0IjoxLCJucyI6ImRlZmF1bHQiLCJ3aWQiOiJzaGFyZWQifQ");
        replay(&second).await;
        Ok::<_, ClientError>(())
    };
    worker.run_until(body).await.unwrap();
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test --only build,venv,sdk"]
async fn a_worker_that_shuts_down_gives_its_requests_back() {
    let server = server().await;
    let queue = queue(&server.client());
    server.create_nexus_endpoint("shop", &queue).await.unwrap();
    let counting = Arc::new(Counting::default());
    let build = || {
        let moment = Duration::from_millis(200);
        let worker = queue.worker().workflow::<Call>().nexus_service(ShopHandler::from(counting.clone()));
        worker.shutdown_grace(moment).shutdown_force(moment).build().unwrap()
    };
    let handle = build()
        .run_until(async {
            let handle = queue.start::<Call>("hang", ("hang".to_owned(), json!(null))).await?;
            until("the handler hangs", || counting.attempts.load(Ordering::Relaxed) == 1).await;
            Ok::<_, ClientError>(handle)
        })
        .await
        .unwrap();
    let began = std::time::Instant::now();
    assert_eq!(build().run_until(handle.result()).await.unwrap(), json!(1));
    // Not as late as if the server had waited for the answer.
    assert!(began.elapsed() < Duration::from_secs(6), "{:?}", began.elapsed());
}

#[workflow]
async fn hang_too_long(ctx: Context) -> Result<u32> {
    let options = NexusOptions { schedule_to_close: Some(Duration::from_secs(2)), ..NexusOptions::default() };
    Ok(ctx.nexus::<ShopClient>("shop").with_options(options).hang().await?)
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test --only build,venv,sdk"]
async fn a_handler_that_does_not_answer_is_dropped() {
    let server = server().await;
    let queue = queue(&server.client());
    server.create_nexus_endpoint("shop", &queue).await.unwrap();
    let worker =
        queue.worker().workflow::<HangTooLong>().nexus_service(ShopHandler::new(Counting::default())).build().unwrap();
    let error = worker.run_until(queue.execute::<HangTooLong>("hang", ())).await.unwrap_err();
    let cause = error.failure().unwrap().cause().cloned().unwrap();
    assert_eq!(cause.kind(), &FailureKind::Timeout { r#type: TimeoutType::ScheduleToClose }, "{error:?}");
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test --only build,venv,sdk"]
async fn a_service_alone_is_a_worker() {
    let server = server().await;
    let queue = queue(&server.client());
    let doubled = queue
        .worker()
        .nexus_service(ShopHandler::new(Counting::default()))
        .nexus_service(ShopHandler::new(Counting::default()))
        .build();
    assert!(doubled.unwrap_err().to_string().contains("was added twice"));
    let worker = queue.worker().nexus_service(ShopHandler::new(Counting::default())).build().unwrap();
    let handle = server.client().handle::<RawWorkflow>("nobody");
    let body = async { Ok::<_, ClientError>(handle.describe().await.is_err()) };
    assert!(worker.run_until(body).await.unwrap());
}
