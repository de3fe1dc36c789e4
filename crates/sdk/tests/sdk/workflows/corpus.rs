//! Histories that servers wrote, with the programs that made them: every commit can still replay them.
//!
//! `tests/corpus/<server>-<program>.json` are recorded by [`record`], an ignored test, from Segno and from Temporal:
//!
//! ```text
//! SEGNO_SDK_RECORD=http://127.0.0.1:7233 cargo test -p segno-sdk --test sdk corpus::record -- --ignored
//! temporal workflow show --workflow-id corpus-race --output json > crates/sdk/tests/corpus/temporal-race.json
//! ```

use std::time::Duration;

use segno_sdk::{
    replay::{History, Replayer},
    *,
};

use super::common::*;

const NUMBER: Signal<u32> = Signal::named("number");

#[task(max_retries = 3)]
async fn double(ctx: TaskContext, n: u32) -> Result<u32> {
    match n {
        13 if ctx.info().attempt == 1 => Err("unlucky the first time".into()),
        99 => Err(Failure::application("TooMuch", "99 is too much").non_retryable().into()),
        _ => Ok(n * 2),
    }
}

#[task(heartbeat_timeout = "5s")]
async fn endless(ctx: TaskContext, _n: u32) -> Result<u32> {
    loop {
        ctx.heartbeat(1).await?;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[workflow(name = "corpus_sequence")]
async fn sequence(ctx: Context, n: u32) -> Result<u32> {
    let once = ctx.schedule::<Double>(n).await?;
    ctx.sleep(Duration::from_millis(20)).await?;
    let unlucky = ctx.schedule::<Double>(13).await?;
    Ok(ctx.schedule::<Double>(once).await? + unlucky)
}

#[workflow(name = "corpus_fan_out")]
async fn fan_out(ctx: Context, n: u32) -> Result<u32> {
    let all = (0..n).map(|n| ctx.schedule::<Double>(n));
    Ok(futures::future::try_join_all(all).await?.into_iter().sum())
}

#[workflow(name = "corpus_race")]
async fn race(ctx: Context, _n: u32) -> Result<String> {
    let first = tokio::select! {
        _ = ctx.schedule::<Endless>(1) => "task",
        _ = ctx.sleep(Duration::from_millis(200)) => "timer",
    };
    ctx.schedule::<Double>(1).await?;
    Ok(first.to_owned())
}

#[workflow(name = "corpus_saga")]
async fn saga(ctx: Context, _n: u32) -> Result<u32> {
    let booked = ctx.schedule::<Double>(1).await?;
    match ctx.schedule::<Double>(99).await {
        Ok(n) => Ok(n),
        Err(failure) => {
            ctx.detached().schedule::<Double>(booked).await?;
            Err(failure.into())
        }
    }
}

#[workflow(name = "corpus_signals")]
async fn signals(ctx: Context, count: u32) -> Result<u32> {
    let mut sum = 0;
    for _ in 0..count {
        sum += ctx.receive(NUMBER).await?;
        ctx.schedule::<Double>(sum).await?;
    }
    Ok(sum)
}

#[derive(Default)]
struct Cart {
    lines: Vec<u32>,
    done: bool,
}

#[workflow(name = "corpus_cart")]
impl Cart {
    #[run]
    async fn run(ctx: Context<Self>, _n: u32) -> Result<u32> {
        ctx.wait_condition(|cart| cart.done).await?;
        Ok(ctx.this().lines.iter().sum())
    }
    #[update]
    async fn add(ctx: Context<Self>, n: u32) -> Result<usize> {
        let n = ctx.schedule::<Double>(n).await?;
        ctx.this_mut().lines.push(n);
        Ok(ctx.this().lines.len())
    }
    #[validate(add)]
    fn check(&self, n: &u32) -> Result<()> {
        if *n == 0 { Err("nothing".into()) } else { Ok(()) }
    }
    #[signal]
    fn finish(&mut self) {
        self.done = true;
    }
}

#[workflow(name = "corpus_child")]
async fn child(ctx: Context, n: u32) -> Result<u32> {
    Ok(ctx.schedule::<Double>(n).await?)
}

#[workflow(name = "corpus_parent")]
async fn parent(ctx: Context, _n: u32) -> Result<u32> {
    let one = ctx.schedule_workflow::<Child>("one", 1);
    let two = ctx.schedule_workflow::<Child>("two", 2);
    let bad = ctx.schedule_workflow::<Child>("bad", 99);
    let (one, two, bad) = tokio::join!(one, two, bad);
    Ok(one? + two? + u32::from(bad.is_err()))
}

#[workflow(name = "corpus_promise")]
async fn promise(ctx: Context, _n: u32) -> Result<u32> {
    let paid = ctx.promise::<u32>("paid");
    match ctx.timeout(Duration::from_secs(60), paid).await {
        Ok(paid) => Ok(paid?),
        Err(_) => Ok(0),
    }
}

#[workflow(name = "corpus_state")]
async fn state(ctx: Context, n: u32) -> Result<u32> {
    let token = ctx.run("token", || 7u32).await?;
    ctx.set_state("n", &n)?;
    ctx.set_state("token", &token)?;
    let local = ctx.schedule_local::<Double>(n).await?;
    ctx.schedule::<Double>(local).await?;
    ctx.clear_state("token")?;
    Ok(local + ctx.get_state::<u32>("n")?.unwrap_or_default())
}

#[workflow(name = "corpus_cancelled")]
async fn cancelled(ctx: Context, n: u32) -> Result<u32> {
    match ctx.schedule::<Endless>(n).await {
        Err(failure) if failure.is_cancelled() => {
            ctx.detached().schedule::<Double>(n).await?;
            Err(failure.into())
        }
        other => Ok(other?),
    }
}

#[workflow(name = "corpus_again")]
async fn again(ctx: Context, n: u32) -> Result<u32> {
    ctx.set_state("left", &n)?;
    ctx.schedule::<Double>(n).await?;
    if n > 0 {
        return Err(ctx.continue_as_new::<Again>(n - 1));
    }
    Ok(n)
}

#[workflow(name = "corpus_patched")]
async fn patched(ctx: Context, n: u32) -> Result<u32> {
    let mut sum = 0;
    for n in 0..n {
        sum += if ctx.patched("double") { ctx.schedule::<Double>(n).await? } else { n };
    }
    Ok(sum)
}

fn replayer() -> Replayer {
    Replayer::new()
        .workflow::<Sequence>()
        .workflow::<FanOut>()
        .workflow::<Race>()
        .workflow::<Saga>()
        .workflow::<Signals>()
        .workflow::<Cart>()
        .workflow::<Child>()
        .workflow::<Parent>()
        .workflow::<Promise>()
        .workflow::<State>()
        .workflow::<Cancelled>()
        .workflow::<Again>()
        .workflow::<Patched>()
}

#[test]
fn every_recorded_history_can_be_replayed() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    let mut files = 0;
    for entry in std::fs::read_dir(&folder).expect("the folder of the corpus") {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let history = History::from_json(std::fs::read_to_string(&path).unwrap()).unwrap();
        let report = replayer().replay(history.clone()).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert!(report.closed && report.workflow_tasks > 0, "{}", path.display());
        // Cut off after every turn.
        let events = history.events().unwrap();
        for cut in 1..=events.len() {
            if events[cut - 1].event_type() == raw::enums::EventType::WorkflowTaskStarted {
                let open = History::from_events(events[..cut].to_vec());
                replayer().replay(open).unwrap_or_else(|error| panic!("{} at {cut}: {error}", path.display()));
            }
        }
        files += 1;
    }
    assert!(files >= 24, "{files} histories");
}

#[test]
fn histories_are_replayed_one_after_the_other() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    let read = |name: &str| History::from_json(std::fs::read_to_string(folder.join(name)).unwrap()).unwrap();
    let cut = History::from_events(read("segno-saga.json").events().unwrap()[1..].to_vec());
    let histories = [read("segno-sequence.json"), cut, read("temporal-saga.json")];
    let replayer = replayer();
    let reports: Vec<_> = replayer.replay_all(histories).collect();
    assert_eq!(reports[0].as_ref().unwrap().kind, "corpus_sequence");
    assert!(matches!(reports[1], Err(ReplayError::Malformed(_))), "{:?}", reports[1]);
    assert_eq!(reports[2].as_ref().unwrap().kind, "corpus_saga", "a failure does not end the others");
}

/// Replaying any history ends with a report or an error.
#[test]
fn mutated_histories_neither_panic_nor_hang() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    let (mut passed, mut refused) = (0, 0);
    for entry in std::fs::read_dir(&folder).expect("the folder of the corpus") {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        let events = History::from_json(&text).unwrap().events().unwrap();
        let mut replay = |events: Vec<raw::HistoryEvent>| match replayer().replay(History::from_events(events)) {
            Ok(_) => passed += 1,
            Err(_) => refused += 1,
        };
        for at in 0..events.len() {
            let mut changed = events.clone();
            changed.remove(at);
            replay(changed.clone());
            // The same without a hole in the ids.
            for (index, event) in changed.iter_mut().enumerate() {
                event.event_id = index as i64 + 1;
            }
            replay(changed);
            let mut changed = events.clone();
            changed[at].attributes = None;
            replay(changed);
            for step in [1, 2, 3, 5, 7] {
                let other = &events[(at + step) % events.len()];
                let mut changed = events.clone();
                changed[at].event_type = other.event_type;
                changed[at].attributes = other.attributes.clone();
                replay(changed);
            }
        }
    }
    assert!(passed > 0 && refused > passed, "{passed} passed, {refused} refused");
}

/// An event without what differs from server to server and from run to run: times, ids, names of workers and queues.
fn shape(event: &raw::HistoryEvent) -> raw::HistoryEvent {
    use raw::Attributes as A;
    let mut attributes = event.attributes.clone();
    match attributes.as_mut() {
        Some(A::WorkflowExecutionStartedEventAttributes(_) | A::WorkflowExecutionFailedEventAttributes(_)) => {
            attributes = None;
        }
        Some(A::WorkflowExecutionContinuedAsNewEventAttributes(it)) => {
            it.new_execution_run_id.clear();
            it.task_queue = None;
            (it.workflow_run_timeout, it.workflow_task_timeout, it.backoff_start_interval) = (None, None, None);
        }
        Some(A::WorkflowTaskScheduledEventAttributes(it)) => it.task_queue = None,
        Some(A::WorkflowTaskStartedEventAttributes(it)) => {
            (it.history_size_bytes, it.worker_version) = (0, None);
            it.identity.clear();
            it.request_id.clear();
        }
        Some(A::WorkflowTaskCompletedEventAttributes(it)) => {
            (it.sdk_metadata, it.worker_version, it.metering_metadata) = (None, None, None);
            it.identity.clear();
        }
        Some(A::ActivityTaskScheduledEventAttributes(it)) => {
            it.task_queue = None;
            it.activity_id.clear();
        }
        Some(A::ActivityTaskStartedEventAttributes(it)) => {
            it.worker_version = None;
            it.identity.clear();
            it.request_id.clear();
        }
        Some(A::ActivityTaskCompletedEventAttributes(it)) => {
            it.worker_version = None;
            it.identity.clear();
        }
        Some(A::ActivityTaskFailedEventAttributes(it)) => {
            it.worker_version = None;
            it.identity.clear();
        }
        Some(A::WorkflowExecutionSignaledEventAttributes(it)) => {
            (it.header, it.external_workflow_execution) = (None, None);
            it.identity.clear();
            it.request_id.clear();
        }
        Some(A::WorkflowExecutionCancelRequestedEventAttributes(it)) => it.identity.clear(),
        Some(A::WorkflowExecutionUpdateAcceptedEventAttributes(it)) => {
            it.protocol_instance_id.clear();
            it.accepted_request_message_id.clear();
            let request = it.accepted_request.as_mut().expect("the request");
            request.meta = None;
            request.request_id.clear();
        }
        Some(A::WorkflowExecutionUpdateCompletedEventAttributes(it)) => it.meta = None,
        Some(A::TimerStartedEventAttributes(it)) => it.timer_id.clear(),
        Some(A::TimerFiredEventAttributes(it)) => it.timer_id.clear(),
        Some(A::MarkerRecordedEventAttributes(it)) => {
            it.details.remove("id");
        }
        _ => {}
    }
    let mut shape = event.clone();
    (shape.event_time, shape.task_id, shape.attributes) = (None, 0, attributes);
    shape
}

/// Where the history of the server in memory is another one than those that servers wrote for the same program.
async fn differences<W: Workflow<Input = u32>>(
    names: &[&str],
    input: u32,
    configure: impl FnOnce(testing::WorkflowTest<W>) -> testing::WorkflowTest<W>,
) -> Vec<String> {
    let test = testing::WorkflowTest::<W>::new(input).task::<Double>().task::<Endless>();
    let run = configure(test).run().await;
    let ours: Vec<_> = run.earlier.first().unwrap_or(&run.history).iter().map(shape).collect();
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    let difference = |name: &&str| {
        let text = std::fs::read_to_string(folder.join(format!("{name}.json"))).unwrap();
        let theirs: Vec<_> = History::from_json(&text).unwrap().events().unwrap().iter().map(shape).collect();
        let at = (0..ours.len().max(theirs.len())).find(|at| ours.get(*at) != theirs.get(*at))?;
        Some(format!("{name}, event {}: {:?} instead of {:?}", at + 1, ours.get(at), theirs.get(at)))
    };
    names.iter().filter_map(difference).collect()
}

/// Event for event.
#[tokio::test]
async fn the_server_in_memory_writes_what_servers_write() {
    let millis = Duration::from_millis;
    let found = [
        differences::<Sequence>(&["temporal-sequence", "segno-sequence"], 5, |test| test).await,
        differences::<Saga>(&["temporal-saga", "segno-saga"], 1, |test| test).await,
        differences::<State>(&["temporal-state", "segno-state"], 4, |test| test).await,
        differences::<Patched>(&["temporal-patched", "segno-patched"], 3, |test| test).await,
        differences::<Again>(&["temporal-again-first", "segno-again-first"], 2, |test| test).await,
        differences::<Child>(&["temporal-child", "segno-child"], 1, |test| test).await,
        // The task that is cancelled ends after the workflow.
        differences::<Race>(&["temporal-race", "segno-race"], 1, |test| test.latency("endless", millis(9000))).await,
        differences::<Cancelled>(&["temporal-cancelled", "segno-cancelled"], 1, |test| {
            test.latency("endless", millis(9000)).cancel(millis(1000))
        })
        .await,
        // These histories depend on when the messages came, which differed between the servers.
        differences::<Promise>(&["temporal-promise"], 1, |test| test.promise(millis(0), "paid", 9)).await,
        differences::<Promise>(&["segno-promise"], 1, |test| test.promise(millis(5), "paid", 9)).await,
        differences::<Signals>(&["segno-signals"], 3, |test| {
            let test = test.latency("double", millis(100));
            test.signal(millis(1000), NUMBER, 1).signal(millis(1050), NUMBER, 2).signal(millis(1150), NUMBER, 3)
        })
        .await,
        differences::<Cart>(&["temporal-cart"], 1, |test| {
            let test = test.update(millis(0), Cart::ADD, 3).update(millis(1000), Cart::ADD, 0);
            test.update(millis(2000), Cart::ADD, 4).signal(millis(3000), Cart::FINISH, ())
        })
        .await,
    ]
    .concat();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// Runs every program against the server that `SEGNO_SDK_RECORD` names.
#[tokio::test]
#[ignore = "no test: records the corpus from the server that SEGNO_SDK_RECORD names, see CONTRIBUTING.md"]
async fn record() {
    let url = std::env::var("SEGNO_SDK_RECORD").expect("SEGNO_SDK_RECORD names a server");
    let client = Client::connect(&url).await.unwrap();
    let queue = client.queue("corpus");
    let worker = queue
        .worker()
        .workflow::<Sequence>()
        .workflow::<FanOut>()
        .workflow::<Race>()
        .workflow::<Saga>()
        .workflow::<Signals>()
        .workflow::<Cart>()
        .workflow::<Child>()
        .workflow::<Parent>()
        .workflow::<Promise>()
        .workflow::<State>()
        .workflow::<Cancelled>()
        .workflow::<Again>()
        .workflow::<Patched>()
        .task::<Double>()
        .task::<Endless>()
        .build()
        .unwrap();
    let programs = async move {
        assert_eq!(queue.execute::<Sequence>("corpus-sequence", 5).await?, 46);
        assert_eq!(queue.execute::<FanOut>("corpus-fan-out", 5).await?, 20);
        assert_eq!(queue.execute::<Race>("corpus-race", 1).await?, "timer");
        assert!(queue.execute::<Saga>("corpus-saga", 1).await.is_err());
        let signals = queue.start::<Signals>("corpus-signals", 3).await?;
        for n in 1..=3 {
            signals.signal(NUMBER, n).await?;
        }
        assert_eq!(signals.result().await?, 6);
        let cart = queue.start::<Cart>("corpus-cart", 1).await?;
        assert_eq!(cart.update(Cart::ADD, 3).await?, 1);
        assert!(cart.update(Cart::ADD, 0).await.is_err());
        assert_eq!(cart.update(Cart::ADD, 4).await?, 2);
        cart.signal(Cart::FINISH, ()).await?;
        assert_eq!(cart.result().await?, 14);
        assert_eq!(queue.execute::<Parent>("corpus-parent", 1).await?, 7);
        let promise = queue.start::<Promise>("corpus-promise", 1).await?;
        promise.resolve_promise("paid", 9).await?;
        assert_eq!(promise.result().await?, 9);
        assert_eq!(queue.execute::<State>("corpus-state", 4).await?, 12);
        let cancelled = queue.start::<Cancelled>("corpus-cancelled", 1).await?;
        tokio::time::sleep(seconds(1)).await;
        cancelled.cancel().await?;
        assert!(cancelled.result().await.is_err());
        assert_eq!(queue.execute::<Again>("corpus-again", 2).await?, 0);
        assert_eq!(queue.execute::<Patched>("corpus-patched", 3).await?, 6);
        Ok::<(), ClientError>(())
    };
    worker.run_until(programs).await.unwrap();
}
