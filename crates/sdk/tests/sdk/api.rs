//! Every name of the API as it is promised: that this compiles is most of the test.

use std::{sync::Arc, time::SystemTime};

use futures::{FutureExt, Stream, StreamExt, future::FusedFuture};
use segno_sdk::{
    CancelledFuture, ConditionFuture, DataConverter, Deployment, Elapsed, ExternalWorkflow, Handlers, JoinHandle,
    LocalOptions, Pollers, RandomStream, Ref, RefMut, RetryState, Scope, SignalFuture, TimeoutType, TlsOptions, Tuner,
    UpdateInfo, WorkflowInfo,
    converter::{ConversionError, codec::PayloadCodec},
    interceptor::{ClientInterceptor, TaskInterceptor},
    prelude::*,
    raw::Payload,
    replay::{History, ReplayError, ReplayReport, Replayer},
    testing::{TaskTest, TestRun, TestServer, WorkflowTest},
};

define_task!(pub Charge = "charge": u32 => String);
define_workflow!(pub Shipping = "shipping": u32 => String);

const PAID: Signal<u32> = Signal::named("paid");
const TOTAL: Query<(), u32> = Query::named("total");
const ADD: Update<u32, u32> = Update::named("add");

/// The options of a task, each by its name.
#[task(
    name = "every-option",
    timeout = "1h30m",
    schedule_to_close = "2h",
    schedule_to_start = "5m",
    heartbeat_timeout = "10s",
    max_retries = 3,
    queue = "elsewhere",
    as = EveryOption
)]
async fn with_every_option(ctx: TaskContext, first: u32, second: String) -> Result<String> {
    ctx.heartbeat(first).await?;
    Ok(second)
}

#[task(dynamic)]
async fn any_task(ctx: TaskContext, arguments: Vec<Value>) -> Result<Value> {
    Ok(Value::from(format!("{} of {}", ctx.info().kind, arguments.len())))
}

#[task]
fn blocking(input: u32) -> Result<u32, std::num::ParseIntError> {
    format!("{input}").parse()
}

struct Shop;

#[tasks]
impl Shop {
    #[task]
    async fn buy(&self, item: String) -> Result<String> {
        Ok(item)
    }
}

#[workflow(name = "renamed", as = Renamed)]
async fn with_a_name(ctx: Context) -> Result<()> {
    let _ = ctx;
    Ok(())
}

#[workflow(dynamic)]
async fn any_workflow(ctx: Context, arguments: Vec<Value>) -> Result<String> {
    Ok(format!("{} of {}", ctx.info().kind, arguments.len()))
}

/// By hand, without the macros.
struct ByHand;

impl TaskDefinition for ByHand {
    type Input = u32;
    type Output = u32;
    const KIND: &'static str = "by_hand";
    fn options() -> ScheduleTaskOptions {
        ScheduleTaskOptions { max_retries: Some(1), ..ScheduleTaskOptions::default() }
    }
}

impl Task for ByHand {
    type State = ();
    async fn execute(_: Arc<()>, _: TaskContext, input: u32) -> Result<u32> {
        Ok(input)
    }
}

struct ByHandWorkflow;

impl WorkflowDefinition for ByHandWorkflow {
    type Input = u32;
    type Output = u32;
    const KIND: &'static str = "ByHandWorkflow";
}

impl Workflow for ByHandWorkflow {
    type State = u32;
    fn init(input: &u32) -> u32 {
        *input
    }
    fn handlers() -> Handlers<u32> {
        Handlers::default()
            .signal(PAID, |state: &mut u32, value| *state += value)
            .query(TOTAL, |state: &u32, ()| *state)
            .update(ADD, None, |state: &mut u32, value| Ok(*state + value))
    }
    async fn run(ctx: Context<u32>, input: u32) -> Result<u32> {
        ctx.wait_condition(move |state| *state > input).await?;
        Ok(*ctx.this())
    }
}

#[derive(Default)]
struct Order {
    lines: Vec<String>,
    seen: Vec<String>,
    done: bool,
}

#[workflow(name = "order")]
impl Order {
    #[init]
    fn begin(first: &str) -> Self {
        Self { lines: vec![first.to_owned()], ..Self::default() }
    }

    #[run]
    async fn run(ctx: Context<Self>, first: String) -> Result<Vec<String>> {
        ctx.wait_condition(|order| order.done).await?;
        let _ = first;
        Ok(ctx.this().seen.clone())
    }

    #[signal]
    fn finish(&mut self) {
        self.done = true;
    }

    #[signal(name = "slow", unfinished = "abandon")]
    async fn slow(ctx: Context<Self>) {
        let _ = ctx.sleep(Duration::from_secs(86_400)).await;
    }

    #[signal(dynamic)]
    fn any_signal(&mut self, name: String, arguments: Vec<Value>) {
        self.seen.push(format!("{name} {}", Value::from(arguments)));
    }

    #[query(name = "lines")]
    fn all_lines(&self) -> Vec<String> {
        self.lines.clone()
    }

    #[query(dynamic)]
    fn any_query(&self, name: String, arguments: Vec<Value>) -> String {
        format!("{name} {}", arguments.len())
    }

    #[update]
    fn add(&mut self, line: String) -> Result<usize> {
        self.lines.push(line);
        Ok(self.lines.len())
    }

    #[validate(add)]
    fn check(&self, line: &str) -> Result<()> {
        if line.is_empty() { Err("a line, please".into()) } else { Ok(()) }
    }

    #[update(dynamic, unfinished = "warn")]
    async fn any_update(ctx: Context<Self>, name: String, arguments: Vec<Value>) -> Result<String> {
        let UpdateInfo { id, name: own, .. } = ctx.current_update().ok_or("not in an update")?;
        let spawned = ctx.spawn({
            let ctx = ctx.clone();
            async move { ctx.current_update().map(|update| update.id) }
        });
        let inherited = spawned.await?.ok_or("a spawned future does not know the update")?;
        assert_eq!((&own, &inherited), (&name, &id));
        Ok(format!("{id} {name} {}", arguments.len()))
    }

    #[validate(any_update)]
    fn check_any(&self, name: &str, arguments: &[Value]) -> Result<()> {
        let _ = arguments;
        if name == "refused" { Err("refused".into()) } else { Ok(()) }
    }
}

fn is_future<T, F: Future<Output = T> + FusedFuture + Send + Unpin>(future: F) -> F {
    future
}

/// The trait's methods with their exact signatures: through the trait alone.
async fn by_trait(ctx: &impl WorkflowContext) -> Result<()> {
    let task: TaskFuture<String> = ctx.schedule::<Charge>(1);
    is_future::<Result<String, Failure>, _>(task).detach();
    let raw: TaskFuture<Value> = ctx.schedule_raw("charge", Value::from(1));
    raw.cancel();
    let options = ScheduleTaskOptions { cancellation: CancellationType::TryCancel, ..Default::default() };
    let with_options: TaskFuture<String> = ctx.schedule_with_options::<Charge>(1, options.clone());
    let with_options_raw: TaskFuture<Value> = ctx.schedule_with_options_raw("charge", Value::from(1), options);
    drop((with_options, with_options_raw));
    let timer: TimerFuture = ctx.sleep(Duration::from_secs(1));
    let _id: &str = timer.id();
    is_future::<Result<(), Failure>, _>(timer).await?;
    let child: ChildWorkflowFuture<String> = ctx.schedule_workflow::<Shipping>("ship", 1);
    drop(is_future(child));
    let child: ChildWorkflowFuture<Value> = ctx.schedule_workflow_raw("ship", "shipping", Value::from(1));
    drop(child);
    let promise: PromiseFuture<u32> = ctx.promise::<u32>("paid");
    drop(is_future(promise));
    let promise: PromiseFuture<Value> = ctx.promise_raw("paid");
    drop(promise);
    let operation: OperationFuture<u32> = ctx.run("number", || 7);
    assert_eq!(is_future(operation).await?, 7);
    let (_millis, _uuid, _random): (i64, Uuid, f64) = (ctx.current_time_millis(), ctx.random_uuid(), ctx.random());
    ctx.set_state("key", &1_u32)?;
    assert_eq!(ctx.get_state::<u32>("key")?, Some(1));
    ctx.clear_state("key")?;
    Ok(())
}

#[workflow]
async fn everything(ctx: Context, input: u32) -> Result<u32> {
    by_trait(&ctx).await?;
    {
        let _this: Ref<'_, ()> = ctx.this();
    }
    {
        let _this: RefMut<'_, ()> = ctx.this_mut();
    }
    let condition: ConditionFuture = ctx.wait_condition(|()| true);
    is_future::<Result<(), Failure>, _>(condition).await?;
    let met: Result<bool, Failure> = ctx.wait_condition_timeout(Duration::from_secs(1), |()| false).await;
    assert!(!met?);
    let late: Result<Result<(), Failure>, Elapsed> =
        ctx.timeout(Duration::from_secs(1), ctx.sleep(Duration::from_secs(2))).await;
    assert_eq!(late.unwrap_err(), Elapsed);
    let spawned: JoinHandle<u32> = ctx.spawn(async { 1 });
    assert_eq!(spawned.await?, 1);
    let aborted = ctx.spawn(std::future::pending::<()>());
    aborted.abort();
    let received: SignalFuture<u32> = ctx.receive(PAID);
    drop(is_future::<Result<u32, Failure>, _>(received));
    assert_eq!(ctx.try_receive(PAID), None);
    let mut signals = ctx.signals(PAID);
    fn stream<T>(_: &(impl Stream<Item = T> + Send + Unpin)) {}
    stream::<u32>(&signals);
    assert!(signals.next().now_or_never().is_none(), "without any trait");
    assert!(StreamExt::next(&mut signals).now_or_never().is_none());
    drop(signals);
    ctx.on_signal(PAID, |_: u32| {});
    ctx.on_query(TOTAL, move |()| input);
    ctx.on_update(ADD, |_: &u32| Ok(()), |value| async move { Ok(value) });
    ctx.on_any_signal(|_name: String, _arguments: Vec<Value>| {});
    ctx.on_any_query(|name: String, _arguments: Vec<Value>| Ok(name));
    ctx.on_any_update(|_: &str, _: &Vec<Value>| Ok(()), |name, _: Vec<Value>| async move { Ok(name) });
    drop(ctx.schedule_local::<Blocking>(1));
    drop(ctx.schedule_local_with_options::<Blocking>(1, LocalOptions::default()));
    let operation: OperationFuture<u32> = ctx.run_async("later", || async { 8 });
    assert_eq!(operation.await?, 8);
    assert_eq!(ctx.run_async::<_, u32>("later", move || async move { input }).await?, input);
    let options = ChildOptions { workflow_id: Some("taken-as-it-is".into()), ..ChildOptions::default() };
    let child = ctx.schedule_workflow_with_options::<Shipping>(options, 1);
    drop(child.started());
    drop(child.signal(PAID, 1));
    drop(child);
    let external: ExternalWorkflow = ctx.external("other");
    drop((external.signal(PAID, 1), external.cancel()));
    let detached: Context = ctx.detached();
    let (inner, scope): (Context, Scope) = ctx.scope();
    scope.cancel();
    assert!(inner.is_cancelled() && !detached.is_cancelled() && inner.cancel_reason().is_some());
    let cancelled: CancelledFuture = inner.cancelled();
    is_future::<(), _>(cancelled).await;
    let _again: Error = ctx.continue_as_new::<Everything>(1);
    let _should: bool = ctx.should_continue_as_new();
    if ctx.patched("a patch") {
        ctx.deprecate_patch("another");
    }
    let (_replaying, _now, _uuid): (bool, SystemTime, Uuid) = (ctx.is_replaying(), ctx.now(), ctx.uuid7());
    let stream: RandomStream = ctx.random_stream("mine");
    let _ = stream.next_u64();
    let info: Arc<WorkflowInfo> = ctx.info();
    assert_eq!(info.kind, "everything");
    ctx.upsert_search_attributes([("CustomKeywordField", "x")]);
    ctx.upsert_memo([("note", 1)]);
    ctx.set_details("nearly done");
    assert!(ctx.all_handlers_finished() && ctx.current_update().is_none());
    let (one, two) = join!(async { 1 }, async { 2 });
    let both = try_join!(async { Result::<u32>::Ok(one) }, async { Result::<u32>::Ok(two) })?;
    let all = join_all([ctx.sleep(Duration::from_secs(1))]).await;
    assert!(all.into_iter().all(|fired| fired.is_ok()));
    try_join_all([ctx.sleep(Duration::from_secs(1))]).await?;
    select! {
        fired = ctx.sleep(Duration::from_secs(1)) => fired?,
        _ = ctx.cancelled() => {}
    }
    Ok(both.0 + both.1)
}

#[tokio::test]
async fn everything_of_the_context_runs() {
    let run: TestRun<u32> = WorkflowTest::<Everything>::new(3)
        .mock::<Charge>(|number| Ok(format!("{number}")))
        .mock_raw("other", Ok)
        .mock_child::<Shipping>(|_| Ok(String::new()))
        .task::<Blocking>()
        .run()
        .await;
    assert_eq!(run.output.unwrap(), 3);
    assert!(run.elapsed >= Duration::from_secs(6));
    let (_history, _commands, _state) = (run.history, run.commands, run.state);
}

#[tokio::test]
async fn what_has_no_handler_of_its_own_goes_to_the_dynamic_one() {
    let unknown: Signal<u32> = Signal::named("unknown");
    let refused: Update<u32, String> = Update::named("refused");
    let other: Update<u32, String> = Update::named("other");
    let run = WorkflowTest::<Order>::new("tea".to_owned())
        .signal(Duration::from_secs(1), unknown, 5)
        .signal(Duration::from_secs(1), Order::SLOW, ())
        .update(Duration::from_secs(2), refused, 1)
        .update(Duration::from_secs(2), other, 1)
        .update(Duration::from_secs(2), Order::ADD, "milk".to_owned())
        .query(Duration::from_secs(3), Query::<u32, String>::named("who"), 1, |answer| {
            assert_eq!(answer.unwrap(), "who 1");
        })
        .query(Duration::from_secs(3), Order::ALL_LINES, (), |answer| {
            assert_eq!(answer.unwrap(), ["tea", "milk"]);
        })
        .signal(Duration::from_secs(4), Order::FINISH, ())
        .run()
        .await;
    assert_eq!(run.output.unwrap(), ["unknown [5]"]);
    assert_eq!(run.updates[0].as_ref().unwrap_err().message(), "refused");
    assert_eq!(run.updates[1].as_ref().unwrap(), "update-2 other 1");
    assert_eq!(run.updates[2].as_ref().unwrap(), 2);
}

struct Plain;

impl DataConverter for Plain {
    fn encode(&self, _: &Value) -> Result<Option<Payload>, ConversionError> {
        Ok(None)
    }
    fn decode(&self, _: &Payload) -> Result<Option<Value>, ConversionError> {
        Ok(None)
    }
}

impl PayloadCodec for Plain {
    fn encode(&self, payloads: Vec<Payload>) -> futures::future::BoxFuture<'_, Result<Vec<Payload>, ConversionError>> {
        async move { Ok(payloads) }.boxed()
    }
    fn decode(&self, payloads: Vec<Payload>) -> futures::future::BoxFuture<'_, Result<Vec<Payload>, ConversionError>> {
        async move { Ok(payloads) }.boxed()
    }
}

impl ClientInterceptor for Plain {}
impl TaskInterceptor for Plain {}

/// Never called: what a client and a worker have, with the types that calls give.
#[allow(dead_code)]
async fn of_clients(from: fn() -> Client) -> Result<(), ClientError> {
    let _connected = Client::connect("http://127.0.0.1:7233").await?;
    let _from_env = Client::from_env().await?;
    let client: Client = Client::builder()
        .target("http://127.0.0.1:7233")
        .namespace("default")
        .api_key("key")
        .tls(TlsOptions::default())
        .identity("me")
        .converter(Plain)
        .codec(Plain)
        .interceptor(Plain)
        .connect()
        .await?;
    let queue: Queue = client.queue("orders");
    let handle: Handle<Order> = queue.start::<Order>("order-1", "tea".to_owned()).await?;
    let _output: Vec<String> = queue.execute::<Order>("order-2", "tea".to_owned()).await?;
    let options = StartOptions { id: "order-3".into(), ..StartOptions::default() };
    let _handle: Handle<Order> = queue.start_with_options::<Order>(options, "tea".to_owned()).await?;
    let _handle: Handle<Order> = queue.signal_with_start::<Order, _>("o", "tea".to_owned(), PAID, 1).await?;
    let (_handle, update) = queue.update_with_start::<Order, _, _>("o", "tea".to_owned(), ADD, 1).await?;
    let _outcome: u32 = update.result().await?;
    let again: Handle<Order> = client.handle::<Order>("order-1");
    let _lines: Vec<String> = handle.query(Order::ALL_LINES, ()).await?;
    handle.signal(Order::FINISH, ()).await?;
    let _count: usize = handle.update(Order::ADD, "milk".to_owned()).await?;
    let started = handle.start_update(Order::ADD, "milk".to_owned()).await?;
    let _count: usize = started.result().await?;
    handle.resolve_promise("paid", 1).await?;
    handle.reject_promise("paid", "Kind", "message").await?;
    let _state: Option<u32> = handle.state::<u32>("cursor").await?;
    handle.cancel().await?;
    handle.terminate("reason").await?;
    let (_description, _history) = (handle.describe().await?, handle.history().await?);
    let _again: Handle<Order> = again.reset(Default::default()).await?;
    let (_id, _run): (&str, Option<&str>) = (handle.workflow_id(), handle.run_id());
    let worker: Worker = queue
        .worker()
        .workflow::<Order>()
        .workflow::<Renamed>()
        .workflow::<AnyWorkflow>()
        .workflow::<ByHandWorkflow>()
        .task::<EveryOption>()
        .task::<AnyTask>()
        .task::<ByHand>()
        .tasks(Shop)
        .max_cached_workflows(10)
        .max_cache_bytes(1 << 20)
        .workflow_threads(2)
        .max_concurrent_tasks(10)
        .tuner(Tuner::fixed(10))
        .pollers(Pollers::Fixed(2))
        .pollers(Pollers::Auto { min: 1, max: 20 })
        .identity("me")
        .deployment(Deployment::new("shop", "1"))
        .lease(Duration::from_secs(20))
        .shutdown_grace(Duration::from_secs(10))
        .fail_workflow_on(["Panic"])
        .interceptor(Plain)
        .build()?;
    worker.shutdown_handle().shutdown();
    let running = tokio::spawn(worker.run());
    let _ = running.await;
    let worker = queue.worker().task::<Blocking>().build()?;
    let _outcome: Vec<String> = worker.run_until(from().queue("x").execute::<Order>("y", String::new())).await?;
    let history = History::from_handle(&handle).await?;
    let report: Result<ReplayReport, ReplayError> = Replayer::new().workflow::<Order>().replay(history);
    let _ = report;
    let _reports = Replayer::new().workflow::<Order>().replay_dir("histories");
    let server: TestServer = TestServer::start().await?;
    let _client: Client = server.client();
    server.skip(Duration::from_secs(1)).await?;
    Ok(())
}

#[tokio::test]
async fn tests_of_tasks_have_their_names() {
    let output = TaskTest::new()
        .attempt(2)
        .heartbeat_details(1)
        .on_heartbeat(|_: Value| {})
        .cancel_after(Duration::from_secs(10))
        .run::<EveryOption>((1, "done".to_owned()))
        .await;
    assert_eq!(output.unwrap(), "done");
    assert_eq!(EveryOption::KIND, "every-option");
    assert_eq!(EveryOption::options().timeout, Some(Duration::from_secs(5400)));
    assert_eq!(blocking(3), Ok(3));
}

#[test]
fn failures_and_errors_have_their_names() {
    let failure: Failure = Failure::application("SoldOut", "no seats")
        .non_retryable()
        .details(&7)
        .retry_after(Duration::from_secs(1))
        .benign()
        .into();
    assert!(matches!(failure.kind(), FailureKind::Application { kind, non_retryable: true } if kind == "SoldOut"));
    assert_eq!((failure.message(), failure.details::<u32>()), ("no seats", Some(7)));
    assert_eq!((failure.application_kind(), failure.cause().is_some()), (Some("SoldOut"), false));
    assert!(Failure::cancelled().is_cancelled() && Failure::new("text").application_kind() == Some("Error"));
    fn kinds(kind: &FailureKind) -> &'static str {
        match kind {
            FailureKind::Application { .. } => "application",
            FailureKind::Task { kind: _, id: _, retry_state: RetryState::Timeout } => "late task",
            FailureKind::Task { .. } => "task",
            FailureKind::Child { .. } => "child",
            FailureKind::Timeout { r#type: TimeoutType::Heartbeat } => "heartbeat",
            FailureKind::Timeout { .. } => "timeout",
            FailureKind::Cancelled => "cancelled",
            FailureKind::Terminated => "terminated",
            FailureKind::Server => "server",
            FailureKind::Nexus { .. } | FailureKind::NexusHandler { .. } => "nexus",
            _ => "new",
        }
    }
    assert_eq!(kinds(failure.kind()), "application");
    let errors: [Error; 4] = ["text".into(), "text".to_owned().into(), failure.into(), std::fmt::Error.into()];
    assert_eq!(errors.len(), 4);
    fn client_errors(error: &ClientError) -> Option<&Failure> {
        match error {
            ClientError::NotFound(_) | ClientError::AlreadyStarted { workflow_id: _, run_id: _ } => None,
            ClientError::Rpc { code: _, message: _ } | ClientError::Conversion(_) => None,
            ClientError::WorkflowFailed(failure) | ClientError::UpdateFailed(failure) => Some(failure),
            ClientError::UpdateRejected(failure) | ClientError::QueryFailed(failure) => Some(failure),
            other => other.failure(),
        }
    }
    assert!(client_errors(&ClientError::NotFound(String::new())).is_none());
}
