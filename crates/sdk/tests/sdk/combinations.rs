//! The names of the API in combinations that the examples do not have. Each run is replayed after every turn, as always.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex},
};

use futures::{FutureExt, StreamExt, stream::FuturesUnordered};
use segno_sdk::{
    Bytes, IdReusePolicy, LocalOptions, ParentClosePolicy, Priority, RetryState, TimeoutType, ViolationKind,
    interceptor::{InboundCall, InboundKind, InterceptedRun, OutboundCall, OutboundKind, WorkflowInterceptor},
    prelude::*,
    raw::{
        Attributes, Command, HistoryEvent,
        enums::{CommandType, EventType},
    },
    replay::{History, Replayer},
    testing::{TaskTest, WorkflowTest},
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

define_task!(Charge = "charge": u32 => u32);
define_task!(Ship = "ship": (String, u32) => String);

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

// Inputs of several arguments, lent to `#[init]` and `#[validate]` as the tuple that the input is.

#[derive(Default)]
struct Order {
    owner: String,
    lines: BTreeMap<String, u32>,
    limit: u32,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum Change {
    Remove(String),
    Rename { from: String, to: String },
    Nothing,
}

#[workflow(name = "order-v2")]
impl Order {
    #[init]
    fn new((owner, limit): &(String, u32)) -> Self {
        Self { owner: owner.clone(), limit: *limit, ..Self::default() }
    }

    #[run]
    pub async fn run(ctx: Context<Self>, owner: String, limit: u32) -> Result<(String, u32)> {
        assert_eq!((&ctx.this().owner, ctx.this().limit), (&owner, limit));
        ctx.wait_condition(|order| order.lines.values().sum::<u32>() >= order.limit).await?;
        Ok((owner, ctx.this().lines.len() as u32))
    }

    #[signal(name = "change")]
    fn change(&mut self, change: Change, note: Option<String>) -> Result<()> {
        match change {
            Change::Remove(item) => drop(self.lines.remove(&item)),
            Change::Rename { from, to } => {
                let count = self.lines.remove(&from).ok_or("no such line")?;
                self.lines.insert(to + note.as_deref().unwrap_or_default(), count);
            }
            Change::Nothing => {}
        }
        Ok(())
    }

    #[query]
    fn count(&self, item: String, otherwise: u32) -> u32 {
        self.lines.get(&item).copied().unwrap_or(otherwise)
    }

    #[query]
    fn owner(&self) -> Result<String, fmt::Error> {
        Ok(self.owner.clone())
    }

    #[update]
    fn add(&mut self, item: String, count: u32) -> Result<u32> {
        *self.lines.entry(item).or_default() += count;
        Ok(self.lines.values().sum())
    }

    #[validate(add)]
    fn check_add(&self, (item, count): &(String, u32)) -> Result<()> {
        if item.is_empty() || *count == 0 { Err(format!("{count} of {item:?}?").into()) } else { Ok(()) }
    }

    #[update]
    async fn buy(ctx: Context<Self>, item: String, count: u32) -> Result<u32> {
        let paid = ctx.schedule::<Charge>(count).await?;
        ctx.this_mut().lines.insert(item, paid);
        Ok(paid)
    }

    #[validate(buy)]
    fn check_buy(&self, item: &String, count: &u32) -> Result<(), String> {
        if item == "air" { Err(format!("{count} of air")) } else { Ok(()) }
    }
}

#[tokio::test]
async fn handlers_with_several_arguments() {
    let run = WorkflowTest::<Order>::new(("Ann".to_string(), 10))
        .mock::<Charge>(|count| Ok(count * 2))
        .update(seconds(1), Order::ADD, ("tea".to_string(), 3))
        .update(seconds(1), Order::ADD, (String::new(), 3))
        .update(seconds(2), Order::BUY, ("milk".to_string(), 2))
        .update(seconds(2), Order::BUY, ("air".to_string(), 2))
        .signal(seconds(3), Order::CHANGE, (Change::Nothing, None))
        .signal(
            seconds(3),
            Order::CHANGE,
            (Change::Rename { from: "tea".into(), to: "chai".into() }, Some("!".to_string())),
        )
        .query(seconds(4), Order::COUNT, ("chai!".to_string(), 0), |count| assert_eq!(count.unwrap(), 3))
        .query(seconds(4), Order::COUNT, ("tea".to_string(), 77), |count| assert_eq!(count.unwrap(), 77))
        .query(seconds(4), Order::OWNER, (), |owner| assert_eq!(owner.unwrap(), "Ann"))
        .update(seconds(5), Order::ADD, ("sugar".to_string(), 3))
        .run()
        .await;
    assert_eq!(run.output.unwrap(), ("Ann".to_string(), 3));
    let outcomes: Vec<_> =
        run.updates.iter().map(|outcome| outcome.as_ref().map_err(|failure| failure.message())).collect();
    assert_eq!(outcomes[..2], [Ok(&Value::from(3)), Err("3 of \"\"?")]);
    assert_eq!(outcomes[2..4], [Ok(&Value::from(4)), Err("2 of air")]);
}

#[tokio::test]
async fn a_signal_whose_handler_fails_fails_the_workflow() {
    let rename = (Change::Rename { from: "tea".into(), to: "chai".into() }, None);
    let run = WorkflowTest::<Order>::new(("Ann".to_string(), 10)).signal(seconds(1), Order::CHANGE, rename).run().await;
    assert_eq!(run.output.unwrap_err().message(), "no such line");
}

// Handlers that a workflow function registers: closures and futures, and what they may not do.

const NUMBER: Signal<u32> = Signal::named("number");
const LATE: Signal<u32> = Signal::named("late");
const NOTHING: Signal<()> = Signal::named("nothing");
const SUM: Query<(), u32> = Query::named("sum");
const GREEDY: Query<(), u32> = Query::named("greedy");
const DOUBLE: Update<u32, u32> = Update::named("double");
const PAY: Update<u32, u32> = Update::named("pay");
const CURIOUS: Update<u32, u32> = Update::named("curious");

#[workflow]
async fn registers(ctx: Context) -> Result<(u32, Uuid)> {
    let sum = Arc::new(Mutex::new(0));
    let (now, later, asked) = (sum.clone(), sum.clone(), sum.clone());
    ctx.on_signal(NUMBER, move |number| *now.lock().unwrap() += number);
    let inner = ctx.clone();
    ctx.on_signal(LATE, move |number| {
        let (ctx, sum) = (inner.clone(), later.clone());
        async move {
            ctx.sleep(seconds(1)).await?;
            *sum.lock().unwrap() += ctx.schedule::<Charge>(number).await?;
            Ok(())
        }
    });
    ctx.on_signal(NOTHING, |()| async {});
    ctx.on_query(SUM, move |()| *asked.lock().unwrap());
    let inner = ctx.clone();
    ctx.on_query(GREEDY, move |()| {
        let _ = (inner.random(), inner.random_uuid(), inner.random_stream("x").next_u64());
        inner.schedule::<Charge>(1).detach();
        drop(inner.sleep(seconds(1)));
        let _ = inner.set_state("asked", &true);
        0
    });
    ctx.on_update(DOUBLE, |_: &u32| Ok(()), |number| Ok(2 * number));
    let inner = ctx.clone();
    ctx.on_update(
        PAY,
        |number| if *number == 0 { Err("nothing".into()) } else { Ok(()) },
        move |number| {
            let ctx = inner.clone();
            async move {
                let paid = ctx.schedule::<Charge>(number).await?;
                Ok(paid + 1)
            }
        },
    );
    let (curious, inner) = (ctx.clone(), ctx.clone());
    ctx.on_update(
        CURIOUS,
        move |number: &u32| {
            let _ = (curious.random(), curious.random_uuid());
            if *number == 1 {
                drop(curious.schedule::<Charge>(*number));
            }
            Ok(())
        },
        move |number| {
            let _ = inner.now();
            Ok(number)
        },
    );
    ctx.sleep(seconds(10)).await?;
    let paid = ctx.schedule::<Charge>(100).await?;
    ctx.sleep(seconds(1)).await?;
    let total = *sum.lock().unwrap();
    assert_eq!(ctx.get_state::<bool>("asked")?, None);
    Ok((paid + total, ctx.random_uuid()))
}

#[tokio::test]
async fn closures_and_futures_handle_messages() {
    let test = || WorkflowTest::<Registers>::new(()).mock::<Charge>(|number| Ok(number + 1));
    let run = test()
        .signal(seconds(1), NUMBER, 1)
        .signal(seconds(1), LATE, 10)
        .update(seconds(2), DOUBLE, 4)
        .update(seconds(2), PAY, 4)
        .update(seconds(2), PAY, 0)
        .query(seconds(5), SUM, (), |sum| assert_eq!(sum.unwrap(), 12))
        .run()
        .await;
    assert_eq!(run.output.unwrap().0, 101 + 12);
    let outcomes: Vec<_> =
        run.updates.iter().map(|outcome| outcome.as_ref().map_err(|failure| failure.message())).collect();
    assert_eq!(outcomes, [Ok(&Value::from(8)), Ok(&Value::from(6)), Err("nothing")]);
}

#[tokio::test]
async fn queries_and_validators_leave_nothing_behind() {
    let test = || WorkflowTest::<Registers>::new(()).mock::<Charge>(Ok);
    let without = test().run().await;
    let with = test()
        .query(seconds(3), GREEDY, (), |answer| {
            let failure = answer.unwrap_err();
            assert_eq!(failure.message(), "query \"greedy\" must not schedule anything");
        })
        .update(seconds(4), CURIOUS, 1)
        .run()
        .await;
    assert_eq!(with.violation, None);
    assert_eq!(
        with.updates[0].as_ref().unwrap_err().message(),
        "the validator of update \"curious\" must not schedule anything"
    );
    assert_eq!(with.output.unwrap(), without.output.unwrap(), "the same random id");
    let ids = |history: &[HistoryEvent]| -> Vec<String> {
        let id = |event: &HistoryEvent| match event.attributes.as_ref()? {
            Attributes::ActivityTaskScheduledEventAttributes(task) => Some(task.activity_id.clone()),
            Attributes::TimerStartedEventAttributes(timer) => Some(timer.timer_id.clone()),
            _ => None,
        };
        history.iter().filter_map(id).collect()
    };
    assert_eq!(ids(&with.history), ids(&without.history));
    // An accepted one may look at time and chance in its validator; replay does not call that.
    let accepted = test().update(seconds(4), CURIOUS, 2).run().await;
    assert_eq!((accepted.violation, accepted.updates[0].as_ref().unwrap()), (None, &Value::from(2)));
}

// Helpers with generic arguments.

async fn charge_all<C: WorkflowContext, T>(ctx: &C, numbers: Vec<u32>) -> Result<Vec<T::Output>>
where
    T: TaskDefinition<Input = u32>,
{
    let mut all: FuturesUnordered<_> = numbers.into_iter().map(|number| ctx.schedule::<T>(number)).collect();
    let mut outputs = Vec::new();
    while let Some(output) = all.next().await {
        outputs.push(output?);
    }
    Ok(outputs)
}

async fn remembered<T: Serialize + DeserializeOwned + Send + 'static>(
    ctx: &impl WorkflowContext,
    key: &str,
    make: impl FnOnce() -> T + Send + 'static,
) -> Result<T> {
    if let Some(there) = ctx.get_state(key)? {
        return Ok(there);
    }
    let made = ctx.run(key, make).await?;
    ctx.set_state(key, &made)?;
    Ok(made)
}

#[workflow]
async fn helpers(ctx: Context, numbers: Vec<u32>) -> Result<Vec<u32>> {
    let first: Vec<u8> = remembered(&ctx, "first", || vec![1, 2, 3]).await?;
    let again: Vec<u8> = remembered(&ctx, "first", || vec![9]).await?;
    assert_eq!(first, again);
    charge_all::<_, Charge>(&ctx.detached(), numbers).await
}

#[tokio::test]
async fn helpers_take_any_context_and_any_task() {
    let run = WorkflowTest::<Helpers>::new(vec![3, 1, 2]).mock::<Charge>(|number| Ok(number * 10)).run().await;
    assert_eq!(run.output.unwrap(), [30, 10, 20], "in the order of history");
    assert_eq!(run.state["first"], Value::from(vec![1, 2, 3]));
}

// Races: a reused timer, handles of spawned futures among them, dropped losers.

#[workflow]
async fn races(ctx: Context) -> Result<Vec<String>> {
    let mut log = Vec::new();
    let mut deadline = ctx.sleep(seconds(100));
    let mut signals = ctx.signals(NUMBER).take(3);
    loop {
        select! {
            fired = &mut deadline => { fired?; log.push("deadline".to_string()); break }
            Some(number) = signals.next() => log.push(format!("signal {number}")),
            else => break,
        }
        let inner = ctx.clone();
        let mut spawned = ctx.spawn(async move { inner.schedule::<Charge>(7).await }).fuse();
        let mut lost = ctx.schedule::<Ship>(("never".into(), 1));
        futures::select! {
            paid = spawned => log.push(format!("paid {}", paid??)),
            shipped = lost => log.push(shipped?),
        }
    }
    // Time-outs of blocks that borrow.
    let text = String::from("borrowed");
    let late = ctx.timeout(seconds(1), async { ctx.sleep(seconds(2)).await.map(|()| text.len()) }).await;
    log.push(format!("{}", late.is_err()));
    let (inner, scope) = ctx.detached().scope();
    let waiting = inner.schedule::<Ship>(("x".into(), 1));
    scope.cancel();
    log.push(format!("{}", waiting.await.unwrap_err().is_cancelled()));
    Ok(log)
}

#[tokio::test]
async fn losers_are_dropped_and_winners_are_by_history() {
    let run = WorkflowTest::<Races>::new(())
        .mock::<Charge>(Ok)
        .mock::<Ship>(|(what, _)| Ok(what))
        .latency("ship", seconds(50))
        .signal(seconds(1), NUMBER, 1)
        .signal(seconds(2), NUMBER, 2)
        .run()
        .await;
    let expected = ["signal 1", "paid 7", "signal 2", "paid 7", "deadline", "true", "true"];
    assert_eq!(run.output.unwrap(), expected);
    let cancelled = run.history.iter().filter(|event| event.event_type() == EventType::ActivityTaskCancelRequested);
    assert_eq!(cancelled.count(), 2);
}

// Continue-as-new: other arguments, another kind.

#[workflow(as = Countdown)]
async fn countdown(ctx: Context, from: u32, log: Vec<u32>) -> Result<Vec<u32>> {
    ctx.set_state("at", &from)?;
    ctx.sleep(seconds(1)).await?;
    match from {
        0 => Err(ctx.continue_as_new::<Landed>(log)),
        from => Err(ctx.continue_as_new::<Countdown>((from - 1, log.into_iter().chain([from]).collect()))),
    }
}

#[workflow]
async fn landed(ctx: Context, log: Vec<u32>) -> Result<Vec<u32>> {
    assert_eq!(ctx.get_state::<u32>("at")?, Some(0));
    assert!(ctx.info().continued_run_id.is_some() && !ctx.should_continue_as_new());
    Ok(log)
}

#[tokio::test]
async fn the_next_run_may_be_another_workflow() {
    let run = WorkflowTest::<Countdown>::new((2, vec![])).child::<Landed>(|test| test).run().await;
    assert_eq!(run.output.unwrap(), [2, 1]);
    assert_eq!(run.earlier.len(), 3);
}

// Options on the wire.

#[workflow]
async fn options(ctx: Context) -> Result<()> {
    let options = ScheduleTaskOptions {
        priority: Some(Priority { key: 5, fairness_key: "team".into(), ..Priority::default() }),
        priority_seconds: 90,
        retry_policy: Some(RetryPolicy { initial_interval: seconds(3), ..RetryPolicy::default() }),
        max_retries: Some(2),
        cancellation: CancellationType::WaitCompleted,
        ..ScheduleTaskOptions::default()
    };
    ctx.schedule_with_options::<Charge>(1, options).await?;
    ctx.schedule_with_options::<Charge>(1, ScheduleTaskOptions { priority_seconds: -1, ..Default::default() }).await?;
    ctx.sleep_with_summary(seconds(1), "a nap").await?;
    let child = ChildOptions {
        name: "one".into(),
        priority: Some(Priority::new(1)),
        parent_close_policy: ParentClosePolicy::Abandon,
        id_reuse_policy: IdReusePolicy::RejectDuplicate,
        ..ChildOptions::default()
    };
    let child = ctx.schedule_workflow_with_options::<Landed>(child, vec![]);
    assert_eq!(child.id(), "test/one");
    child.started().await?;
    // Its policy is to abandon: nothing is asked for.
    drop(child);
    ctx.sleep(seconds(1)).await?;
    Ok(())
}

#[tokio::test]
async fn options_reach_the_wire() {
    let run = WorkflowTest::<Options>::new(())
        .mock::<Charge>(Ok)
        .mock_child::<Landed>(Ok)
        .latency("landed", seconds(60))
        .run()
        .await;
    run.output.unwrap();
    let tasks: Vec<_> = run
        .commands
        .iter()
        .filter_map(|command| match command.attributes.as_ref()? {
            segno_sdk::raw::CommandAttributes::ScheduleActivityTaskCommandAttributes(task) => Some(task),
            _ => None,
        })
        .collect();
    let priority = tasks[0].priority.clone().unwrap();
    assert_eq!((priority.priority_key, priority.fairness_key.as_str()), (5, "team"));
    let policy = tasks[0].retry_policy.clone().unwrap();
    assert_eq!((policy.maximum_attempts, policy.initial_interval.unwrap().seconds), (3, 3));
    assert_eq!(tasks[1].priority.as_ref().unwrap().priority_key, 4);
    assert_eq!(tasks[1].start_to_close_timeout.unwrap().seconds, 300);
    let summary = |command: &Command| command.user_metadata.as_ref().and_then(|data| data.summary.clone());
    let nap = run.commands.iter().find(|command| command.command_type() == CommandType::StartTimer).and_then(summary);
    assert_eq!(nap.unwrap().data.as_ref(), b"\"a nap\"");
    let kinds: Vec<_> = run.commands.iter().map(|command| command.command_type()).collect();
    assert!(!kinds.contains(&CommandType::RequestCancelExternalWorkflowExecution), "{kinds:?}");
}

// Local work: failures look like those of other tasks, panics are failures.

#[task(max_retries = 1)]
async fn picky(number: u32) -> Result<u32> {
    match number {
        0 => Err(Failure::application("Zero", "nothing").details(&vec![1, 2]).non_retryable().into()),
        1 => panic!("one"),
        _ => Ok(number),
    }
}

#[workflow]
async fn local(ctx: Context) -> Result<Vec<String>> {
    let mut log = Vec::new();
    let failure = ctx.schedule_local::<Picky>(0).await.unwrap_err();
    let FailureKind::Task { kind, retry_state, .. } = failure.kind() else { panic!("{failure:?}") };
    log.push(format!("{kind} {retry_state:?} {failure} {:?}", failure.details::<Vec<u8>>()));
    let options = LocalOptions { retry_policy: Some(RetryPolicy::attempts(2)), ..LocalOptions::default() };
    let failure = ctx.schedule_local_with_options::<Picky>(1, options).await.unwrap_err();
    log.push(format!("{failure} {:?}", failure.application_kind()));
    let failure = ctx.run_async::<_, u32>("bad", || async { panic!("in a future") }).await.unwrap_err();
    log.push(format!("{failure} {:?}", failure.application_kind()));
    let bytes: Bytes = ctx.run("bytes", || Bytes::from(vec![0, 255])).await?;
    log.push(format!("{:?}", bytes.to_vec()));
    log.push(format!("{:?}", ctx.run("none", || None::<u32>).await?));
    Ok(log)
}

#[tokio::test]
async fn failures_of_local_work() {
    for _ in 0..2 {
        let run = WorkflowTest::<Local>::new(()).task::<Picky>().run().await;
        let log = run.output.unwrap();
        assert_eq!(log[0], "picky NonRetryableFailure task picky failed: nothing Some([1, 2])");
        for (line, text) in [(&log[1], "task picky failed: one, at "), (&log[2], "in a future, at ")] {
            assert!(line.starts_with(text) && line.ends_with(" Some(\"Panic\")"), "{line}");
            assert!(line.contains("combinations.rs:") && !line.contains("sdk/src"), "{line}");
        }
        assert_eq!(log[3..], ["[0, 255]", "None"]);
    }
}

// Errors of bodies.

#[derive(Debug, thiserror::Error)]
enum SoldOut {
    #[error("no {0} left")]
    Seats(&'static str),
    #[error("cannot count")]
    Count(#[from] std::num::ParseIntError),
}

fn count(text: &str) -> Result<u32, SoldOut> {
    if text == "0" { Err(SoldOut::Seats("chairs")) } else { Ok(text.parse()?) }
}

#[task]
async fn book(text: String) -> Result<u32, SoldOut> {
    count(&text)
}

#[task]
fn boxed(text: String) -> Result<u32> {
    let parsed: Result<u32, Box<dyn std::error::Error + Send + Sync>> = count(&text).map_err(Into::into);
    Ok(parsed?)
}

#[tokio::test]
async fn any_error_is_a_failure() {
    let failure = TaskTest::new().run::<Book>("0".to_string()).await.unwrap_err();
    assert_eq!((failure.application_kind(), failure.message()), (Some("SoldOut"), "no chairs left"));
    let failure = TaskTest::new().run::<Book>("x".to_string()).await.unwrap_err();
    assert_eq!(
        (failure.message(), failure.cause().unwrap().message()),
        ("cannot count", "invalid digit found in string")
    );
    let failure = TaskTest::new().run::<Boxed>("0".to_string()).await.unwrap_err();
    assert_eq!((failure.application_kind(), failure.message()), (Some("Error"), "no chairs left"));
    assert_eq!(book("7".to_string()).await.unwrap(), 7);
}

#[workflow]
async fn times_out(ctx: Context) -> Result<String> {
    let options = ScheduleTaskOptions { timeout: Some(seconds(5)), max_retries: Some(1), ..Default::default() };
    let failure = ctx.schedule_with_options::<Charge>(1, options).await.unwrap_err();
    let FailureKind::Task { retry_state: RetryState::MaximumAttemptsReached | RetryState::Timeout, .. } =
        failure.kind()
    else {
        panic!("{failure:?}")
    };
    let cause = failure.cause().unwrap();
    assert_eq!(cause.kind(), &FailureKind::Timeout { r#type: TimeoutType::StartToClose });
    Ok(failure.to_string())
}

#[tokio::test]
async fn a_task_that_takes_too_long() {
    let run = WorkflowTest::<TimesOut>::new(()).mock::<Charge>(Ok).latency("charge", seconds(60)).run().await;
    let text = run.output.unwrap();
    assert!(text.starts_with("task charge failed: "), "{text}");
}

// Strict comparisons: queue and input of tasks.

#[workflow(name = "changed", as = Before)]
async fn before(ctx: Context) -> Result<u32> {
    Ok(ctx.schedule::<Charge>(1).await?)
}

#[workflow(name = "changed", as = OtherInput)]
async fn other_input(ctx: Context) -> Result<u32> {
    Ok(ctx.schedule::<Charge>(2).await?)
}

#[workflow(name = "changed", as = OtherQueue)]
async fn other_queue(ctx: Context) -> Result<u32> {
    let options = ScheduleTaskOptions { queue: Some("elsewhere".into()), ..Default::default() };
    Ok(ctx.schedule_with_options::<Charge>(1, options).await?)
}

#[tokio::test]
async fn a_strict_replay_compares_queues_and_inputs() {
    let run = WorkflowTest::<Before>::new(()).strict().mock::<Charge>(Ok).run().await;
    let history = History::from_bytes(History::from_events(run.history).to_bytes()).unwrap();
    Replayer::new().workflow::<Before>().strict().replay(history.clone()).unwrap();
    Replayer::new().workflow::<OtherInput>().replay(history.clone()).unwrap();
    Replayer::new().workflow::<OtherQueue>().replay(history.clone()).unwrap();
    let expected =
        "task #1: event 5 scheduled \"charge\" with another input or on another queue, the code asks for \"charge\"";
    for replayer in [Replayer::new().workflow::<OtherInput>(), Replayer::new().workflow::<OtherQueue>()] {
        let error = replayer.strict().replay(history.clone()).unwrap_err();
        let violation = error.violation().unwrap();
        assert_eq!((violation.kind, violation.event_id), (ViolationKind::TaskTypeMismatch, 5));
        assert_eq!(violation.to_string(), format!("{expected} at {}", violation.place.as_ref().unwrap()));
    }
}

// Interceptors of workflows.

#[derive(Clone, Default)]
struct Noted(Arc<Mutex<Vec<String>>>);

impl WorkflowInterceptor for Noted {
    fn inbound(&self, run: &InterceptedRun, call: &mut InboundCall) {
        if !run.is_replaying {
            self.0.lock().unwrap().push(format!("{} {:?} {}", run.workflow_id, call.kind, call.name));
        }
    }

    fn outbound(&self, run: &InterceptedRun, call: &mut OutboundCall) {
        call.headers.insert("from".to_owned(), segno_sdk::raw::Payload::default());
        if !run.is_replaying {
            self.0.lock().unwrap().push(format!("{} asks {:?} {}", run.kind, call.kind, call.name));
        }
    }
}

#[tokio::test]
async fn interceptors_see_what_comes_and_goes() {
    let noted = Noted::default();
    let run = WorkflowTest::<Order>::new(("Ann".to_string(), 4))
        .mock::<Charge>(Ok)
        .workflow_interceptor(noted.clone())
        .signal(seconds(1), Order::CHANGE, (Change::Nothing, None))
        .query(seconds(2), Order::OWNER, (), |_| {})
        .update(seconds(3), Order::BUY, ("tea".to_string(), 4))
        .run()
        .await;
    run.output.unwrap();
    let expected = [
        format!("test {:?} order-v2", InboundKind::Run),
        "test Signal change".to_owned(),
        "test Query owner".to_owned(),
        "test Validate buy".to_owned(),
        "test Update buy".to_owned(),
        format!("order-v2 asks {:?} charge", OutboundKind::Task),
    ];
    // A test replays each turn in a fresh instance, where the last one is no replay.
    let mut seen = Vec::new();
    for note in noted.0.lock().unwrap().iter() {
        if !seen.contains(note) {
            seen.push(note.clone());
        }
    }
    assert_eq!(seen, expected);
    let header = run.history.into_iter().find_map(|event| match event.attributes {
        Some(Attributes::ActivityTaskScheduledEventAttributes(task)) => task.header,
        _ => None,
    });
    assert!(header.unwrap().fields.contains_key("from"));
}

// Several arguments of things that are written elsewhere: one payload each, as `#[task]` and `#[workflow]` have it.

define_task!(
    /// With documentation, and a comma at the end.
    pub(crate) Weigh = "weigh": (String, Option<u32>, bool,) => Vec<String>
);
define_workflow!(Packed = "pack": (String, u32) => String);
define_task!(Nothing = "nothing": () => ());
const BOTH: Signal<(u32, String)> = Signal::named("both");

#[task(name = "weigh", as = RealWeigh)]
async fn real_weigh(item: String, weight: Option<u32>, fragile: bool) -> Result<Vec<String>> {
    Ok(vec![item, format!("{weight:?}"), format!("{fragile}")])
}

#[workflow]
async fn pack(ctx: Context, item: String, count: u32) -> Result<String> {
    let (number, text) = ctx.receive(BOTH).await?;
    Ok(format!("{count} of {item}, {number} {text}"))
}

#[workflow]
async fn packs(ctx: Context) -> Result<Vec<String>> {
    let mut weighed = ctx.schedule::<Weigh>(("tea".into(), None, true)).await?;
    // As one list, which is what a caller sends that knows nothing of arguments.
    let raw = ctx.schedule_raw("weigh", Value::from(vec![Value::from("milk"), Value::from(3), Value::from(false)]));
    weighed.extend(serde_json::from_value::<Vec<String>>(raw.await?)?);
    let packed = ctx.schedule_workflow::<Packed>("one", ("tea".into(), 2));
    packed.signal(BOTH, (7, "seven".into())).await?;
    weighed.push(packed.await?);
    ctx.schedule::<Nothing>(()).await?;
    Ok(weighed)
}

#[tokio::test]
async fn tuples_are_several_arguments() {
    assert_eq!((Weigh::KIND, Weigh::ARGUMENTS, Packed::ARGUMENTS), ("weigh", 3, 2));
    let test = || WorkflowTest::<Packs>::new(()).task::<RealWeigh>().mock::<Nothing>(Ok);
    let run = test().child::<Pack>(|test| test).run().await;
    assert_eq!(run.output.unwrap(), ["tea", "None", "true", "milk", "Some(3)", "false", "2 of tea, 7 seven"]);
    let inputs = run.history.iter().find_map(|event| match event.attributes.as_ref()? {
        Attributes::ActivityTaskScheduledEventAttributes(task) => task.input.clone(),
        _ => None,
    });
    assert_eq!(inputs.unwrap().payloads.len(), 3);
    // Signals from other languages have one payload per argument.
    const AS_TWO: Signal<(u32, String)> = Signal::with_arguments("both", 2);
    let run = WorkflowTest::<Pack>::new(("tea".into(), 1)).signal(seconds(1), AS_TWO, (8, "eight".into())).run().await;
    assert_eq!(run.output.unwrap(), "1 of tea, 8 eight");
}

// Things that stand in odd places.

mod deep {
    pub(super) mod deeper {
        /// Without the prelude, and private elsewhere.
        #[segno_sdk::task]
        pub(in super::super) async fn far_away(_: segno_sdk::TaskContext, r#type: u8) -> segno_sdk::Result<u8> {
            Ok(r#type + 1)
        }
    }
}

struct Kept(Mutex<u32>);

#[tasks]
impl Kept {
    #[task(as = Bump)]
    fn r#move(&self, by: u32) -> Result<u32> {
        let mut number = self.0.lock().unwrap();
        *number += by;
        Ok(*number)
    }
}

#[tokio::test]
async fn definitions_stand_anywhere() {
    use deep::deeper::FarAway;

    #[workflow]
    async fn inside(ctx: Context, (first, second): (u8, u8), [third]: [u8; 1]) -> Result<u8> {
        let mut timer = ctx.sleep(seconds(1));
        let far = select! {
            biased;
            far = ctx.schedule::<FarAway>(first + second + third) => far?,
            fired = &mut timer => { fired?; 0 }
        };
        Ok(far + ctx.schedule::<Bump>(2).await? as u8)
    }

    let kept = Arc::new(Kept(Mutex::new(10)));
    let test = WorkflowTest::<Inside>::new(((1, 2), [3])).task::<FarAway>().tasks(kept.clone());
    assert_eq!(test.run().await.output.unwrap(), 19);
    assert_eq!((*kept.0.lock().unwrap(), Bump::KIND), (12, "move"));
}
