//! Panics, waits for the world outside, workflows that never rest: the task fails and says why.

use std::sync::{Arc, Mutex};

use segno_sdk::{
    ViolationKind,
    raw::enums::{EventType, WorkflowTaskFailedCause},
    testing::{TestRun, WorkflowTest},
    *,
};

use super::common::*;

macro_rules! workflows {
    ($($name:ident($ctx:ident) $body:block)*) => {
        $(#[workflow(unchecked)] async fn $name($ctx: Context, _input: ()) -> Result<u32> $body)*
    };
}

workflows! {
    panics(ctx) { ctx.sleep(seconds(1)).await?; panic!("in run") }
    thread(ctx) {
        let (sender, receiver) = tokio::sync::oneshot::channel();
        std::thread::spawn(move || {
            std::thread::sleep(std::time::Duration::from_millis(20));
            let _ = sender.send(1);
        });
        let _ = &ctx;
        Ok(receiver.await?)
    }
    tokio_sleep(ctx) { let _ = &ctx; nap().await; Ok(1) }
    tokio_spawn(ctx) { let _ = &ctx; Ok(tokio::spawn(async { 1 }).await?) }
    tokio_timeout(ctx) { Ok(tokio::time::timeout(seconds(1), ctx.schedule::<Third>(1)).await??) }
    blocking(ctx) { let _ = &ctx; Ok(tokio::task::spawn_blocking(|| 1).await?) }
    socket(ctx) { let _ = &ctx; Ok(connect().await?) }
    divides(ctx) { Ok(divide(u32::from(ctx.is_cancelled()))) }
    never_rests(ctx) {
        let _ = &ctx;
        loop { tokio::task::yield_now().await; }
    }
    in_drop(ctx) {
        struct Bomb;
        impl Drop for Bomb { fn drop(&mut self) { if !std::thread::panicking() { panic!("in drop") } } }
        let bomb = Bomb;
        ctx.sleep(seconds(1)).await?;
        drop(bomb);
        Ok(1)
    }
    unserializable(ctx) {
        struct Bad;
        impl serde::Serialize for Bad {
            fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> { panic!("in Serialize") }
        }
        ctx.set_state("bad", &Bad)?;
        Ok(1)
    }
    condition(ctx) { ctx.wait_condition(|_| panic!("in a condition")).await?; Ok(1) }
    polled_twice(ctx) {
        let mut timer = ctx.sleep(seconds(1));
        (&mut timer).await?;
        (&mut timer).await?;
        Ok(1)
    }
    wrong_type(ctx) { Ok(ctx.schedule_raw("text", serde_json::Value::Null).await?.as_u64().unwrap_or(7) as u32) }
    undecodable(ctx) { Ok(ctx.schedule::<Third>(1).await?) }
}

/// Where calls of the functions below panic.
const NAP: u32 = line!() + 3;

async fn nap() {
    tokio::time::sleep(seconds(1)).await;
}

async fn connect() -> std::io::Result<u32> {
    tokio::net::TcpStream::connect("127.0.0.1:1").await.map(|_| 1)
}

const DIVISION: u32 = line!() + 4;

#[inline(never)]
fn divide(by: u32) -> u32 {
    7 / by
}

async fn run<W: Workflow<Input = (), Output = u32>>() -> TestRun<u32> {
    WorkflowTest::<W>::new(())
        .mock_raw("text", |_| Ok("text".into()))
        .mock_raw("third", |_| Ok("not a number".into()))
        .run()
        .await
}

/// The kind and message of the failure, and the cause in the history.
async fn fails<W: Workflow<Input = (), Output = u32>>() -> (String, String, WorkflowTaskFailedCause) {
    let run = run::<W>().await;
    let failure = run.output.as_ref().expect_err("it should fail");
    let cause = run.history.iter().find_map(|event| match &event.attributes {
        Some(raw::Attributes::WorkflowTaskFailedEventAttributes(failed)) => Some(failed.cause()),
        _ => None,
    });
    assert_eq!(count(&run, EventType::WorkflowExecutionFailed), 0, "the run waits for a fix");
    let kind = failure.application_kind().unwrap_or_default().to_owned();
    (kind, failure.message().to_owned(), cause.expect("a failed workflow task"))
}

const UNHANDLED: WorkflowTaskFailedCause = WorkflowTaskFailedCause::WorkflowWorkerUnhandledFailure;

#[tokio::test]
async fn a_panic_fails_the_workflow_task() {
    for (kind, message, cause, text) in [
        with(fails::<Panics>().await, "in run"),
        with(fails::<InDrop>().await, "in drop"),
        with(fails::<Unserializable>().await, "in Serialize"),
        with(fails::<Condition>().await, "in a condition"),
        with(fails::<PolledTwice>().await, "polled after it was ready"),
    ] {
        assert_eq!((kind.as_str(), cause), ("Panic", UNHANDLED), "{message}");
        assert!(message.contains(text), "{message}");
    }
}

fn with<'a>(
    (kind, message, cause): (String, String, WorkflowTaskFailedCause),
    text: &'a str,
) -> (String, String, WorkflowTaskFailedCause, &'a str) {
    (kind, message, cause, text)
}

#[tokio::test]
async fn a_result_that_does_not_decode_fails_the_workflow_task() {
    let (kind, message, cause) = fails::<Undecodable>().await;
    assert_eq!((kind.as_str(), cause), ("Conversion", UNHANDLED));
    assert!(message.contains("not a number"), "{message}");
    assert_eq!(run::<WrongType>().await.output.unwrap(), 7);
}

#[tokio::test]
async fn tokio_is_not_there_and_the_message_says_what_is() {
    for ((kind, message, _), call, instead) in [
        (fails::<TokioSleep>().await, "tokio::time::sleep", "`ctx.sleep(duration).await`"),
        (fails::<TokioSpawn>().await, "tokio::spawn", "`ctx.spawn(future)`"),
        (fails::<TokioTimeout>().await, "tokio::time::timeout", "`ctx.timeout(duration, future).await`"),
        (fails::<Blocking>().await, "tokio::task::spawn_blocking", "`ctx.run(name, closure).await`"),
        (fails::<Socket>().await, "tokio::net", "a task"),
    ] {
        assert_eq!(kind, "Panic", "{message}");
        assert!(message.starts_with(&format!("{call} cannot be called in a workflow, at ")), "{message}");
        assert!(message.contains(&format!("write {instead}")), "{message}");
        assert!(message.contains("workflows/failures.rs:"), "{message}");
        assert!(message.contains("reactor") || message.contains("runtime"), "{message}");
    }
    let (_, message, _) = fails::<TokioSleep>().await;
    assert!(message.contains(&format!("workflows/failures.rs:{NAP}:")), "{message}");
    // The function and the workflow that called it; names are those that the debug information has.
    assert!(message.matches(" (tests/sdk/workflows/failures.rs:").count() >= 2, "{message}");
}

#[tokio::test]
async fn a_panic_names_its_line_and_the_functions_that_led_there() {
    let run = run::<Divides>().await;
    let failure = run.output.unwrap_err();
    let (message, trace) = (failure.message(), failure.stack_trace());
    assert!(message.starts_with("attempt to divide by zero, at "), "{message}");
    assert!(
        message.contains(&format!("workflows/failures.rs:{DIVISION}:5, in sdk::workflows::failures::divide")),
        "{message}"
    );
    assert!(message.contains(", called by ") && !message.contains("sdk/src/"), "{message}");
    let lines: Vec<&str> = trace.lines().collect();
    assert_eq!(lines[0], "sdk::workflows::failures::divide", "{trace}");
    assert!(
        lines[1].trim_start().starts_with("at ") && lines[1].contains(&format!("failures.rs:{DIVISION}:")),
        "{trace}"
    );
    // The workflow that called it.
    assert!(lines[3].contains("failures.rs:"), "{trace}");
}

#[task]
async fn explodes(_input: ()) -> Result<u32> {
    panic!("in a task")
}

#[task]
fn explodes_on_a_thread(_input: ()) -> Result<u32> {
    panic!("on a thread")
}

#[tokio::test]
async fn a_panic_of_a_task_names_its_line() {
    let first = TaskTest::new().run::<Explodes>(()).await.unwrap_err();
    let second = TaskTest::new().run::<ExplodesOnAThread>(()).await.unwrap_err();
    for (failure, text, function) in
        [(first, "in a task", "failures::explodes"), (second, "on a thread", "failures::explodes_on_a_thread")]
    {
        let message = failure.message();
        assert!(message.starts_with(&format!("{text}, at ")), "{message}");
        assert!(message.contains("workflows/failures.rs:") && message.contains(function), "{message}");
    }
}

fn by_the_clock() -> bool {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    // Another answer each time, however fast the clock is read.
    static LAST: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    let odd = LAST.fetch_add(1, std::sync::atomic::Ordering::SeqCst) % 2 == 1;
    now.as_nanos() > 0 && odd
}

const SCHEDULED: u32 = line!() + 4;

#[workflow]
async fn chooses(ctx: Context, _input: ()) -> Result<u32> {
    Ok(ctx.schedule::<Work>(by_the_clock().into()).await?)
}

#[tokio::test]
async fn what_a_replay_does_not_repeat_is_found_at_the_line_of_the_command() {
    let run = WorkflowTest::<Chooses>::new(()).mock::<Work>(Ok).run().await;
    let failure = run.output.unwrap_err();
    let message = failure.message();
    assert_eq!(failure.application_kind(), Some("DeterminismViolation"));
    assert!(message.contains(&format!("workflows/failures.rs:{SCHEDULED}:")), "{message}");
    for part in ["`SystemTime::now`", "`ctx.now()`", "`rand`", "`ctx.random()`"] {
        assert!(message.contains(part), "{message}");
    }
}

#[tokio::test]
async fn what_waits_for_a_thread_is_named() {
    // Nothing in history wakes it, so that a test finds it stuck; a wake from outside is a violation.
    let run = run::<Thread>().await;
    let failure = run.output.unwrap_err();
    assert!(matches!(failure.application_kind(), Some("Stuck" | "DeterminismViolation")), "{failure}");
}

#[tokio::test]
async fn a_workflow_that_never_rests_is_ended() {
    let run = run::<NeverRests>().await;
    let violation = run.violation.expect("a violation");
    assert_eq!(violation.kind, ViolationKind::NeverRests);
}

#[workflow]
async fn waits(ctx: Context, _input: ()) -> Result<()> {
    ctx.receive(Signal::<()>::named("never")).await?;
    Ok(())
}

#[tokio::test]
async fn a_workflow_that_waits_for_nothing_is_stuck() {
    let run = WorkflowTest::<Waits>::new(()).run().await;
    let failure = run.output.unwrap_err();
    assert_eq!(failure.application_kind(), Some("Stuck"));
    assert!(failure.message().contains("Waits") || failure.message().contains("waits"), "{failure}");
}

#[workflow]
async fn for_ever(ctx: Context, _input: ()) -> Result<u32> {
    Ok(ctx.schedule::<Work>(1).await?)
}

#[tokio::test]
async fn a_task_that_is_retried_for_ever_is_noticed() {
    let run = WorkflowTest::<ForEver>::new(()).mock::<Work>(|_| Err("never".into())).run().await;
    assert_eq!(run.output.unwrap_err().application_kind(), Some("Stuck"));
}

#[workflow]
async fn by_hash(ctx: Context, _input: ()) -> Result<()> {
    let names: std::collections::HashSet<u32> = (0..20).collect();
    let tasks: Vec<_> = names.into_iter().map(|n| ctx.schedule::<Work>(n)).collect();
    futures::future::join_all(tasks).await;
    Ok(())
}

#[tokio::test]
async fn the_order_of_a_hash_set_is_noticed() {
    for _ in 0..20 {
        let run = WorkflowTest::<ByHash>::new(()).mock::<Work>(Ok).run().await;
        assert_eq!(run.output.unwrap_err().application_kind(), Some("DeterminismViolation"));
    }
}

#[derive(Default)]
struct Panicky;

#[workflow]
impl Panicky {
    #[run]
    async fn run(ctx: Context<Self>, _input: ()) -> Result<()> {
        ctx.sleep(seconds(5)).await?;
        Ok(())
    }
    #[update]
    fn validated(&mut self, _n: u32) -> Result<u32> {
        Ok(1)
    }
    #[validate(validated)]
    fn check(&self, _n: &u32) -> Result<()> {
        panic!("in a validator")
    }
    #[update]
    fn handled(&mut self, _n: u32) -> Result<u32> {
        panic!("in a handler")
    }
    #[signal]
    fn told(&mut self, _n: u32) {
        panic!("in a signal")
    }
}

#[tokio::test]
async fn a_panic_in_a_validator_rejects() {
    let run = both(|| WorkflowTest::<Panicky>::new(()).update(seconds(1), Panicky::VALIDATED, 1)).await;
    run.output.unwrap();
    assert!(run.updates[0].as_ref().unwrap_err().message().contains("in a validator"));
}

#[tokio::test]
async fn a_panic_in_a_handler_fails_the_workflow_task() {
    let run = WorkflowTest::<Panicky>::new(()).update(seconds(1), Panicky::HANDLED, 1).run().await;
    assert!(run.output.unwrap_err().message().contains("in a handler"));
    let run = WorkflowTest::<Panicky>::new(()).signal(seconds(1), Panicky::TOLD, 1).run().await;
    assert!(run.output.unwrap_err().message().contains("in a signal"));
}

#[workflow]
async fn retries(ctx: Context, _input: ()) -> Result<String> {
    let options = ScheduleTaskOptions { max_retries: Some(2), ..Default::default() };
    match ctx.schedule_with_options::<Work>(1, options).await {
        Ok(n) => Ok(n.to_string()),
        Err(failure) => Ok(failure.to_string()),
    }
}

#[tokio::test]
async fn tasks_are_retried_in_virtual_time() {
    let attempts = Arc::new(Mutex::new(0));
    let seen = attempts.clone();
    let run = WorkflowTest::<Retries>::new(())
        .mock::<Work>(move |_| {
            *seen.lock().unwrap() += 1;
            if *seen.lock().unwrap() < 3 { Err("not yet".into()) } else { Ok(5) }
        })
        .run()
        .await;
    assert_eq!(run.output.unwrap(), "5");
    assert_eq!(*attempts.lock().unwrap(), 3);
    assert_eq!(run.elapsed, seconds(3));
    let run = both(|| WorkflowTest::<Retries>::new(()).mock::<Work>(|_| Err("never".into()))).await;
    assert_eq!(run.output.unwrap(), "task work failed: never");
    let run = both(|| WorkflowTest::<Retries>::new(()).mock::<Work>(|_| panic!("a mock"))).await;
    assert!(run.output.unwrap().starts_with("task work failed: a mock, at "));
}

#[tokio::test]
async fn tasks_time_out_in_virtual_time() {
    let run = both(|| WorkflowTest::<Retries>::new(()).mock::<Work>(Ok).latency("work", seconds(3600))).await;
    assert_eq!(run.output.unwrap(), "task work failed: activity StartToClose timeout");
    assert_eq!(run.elapsed, seconds(3 * 300 + 3));
}

#[task(timeout = "1h", heartbeat_timeout = "5s", max_retries = 1)]
async fn falls_silent(ctx: TaskContext) -> Result<u32> {
    if ctx.info().attempt == 2 {
        return Ok(ctx.heartbeat_details::<u32>().unwrap_or_default());
    }
    for n in 1..=3u32 {
        tokio::time::sleep(seconds(4)).await;
        ctx.heartbeat(n).await?;
    }
    tokio::time::sleep(seconds(1000)).await;
    Ok(0)
}

#[workflow]
async fn listens(ctx: Context, _input: ()) -> Result<u32> {
    Ok(ctx.schedule::<FallsSilent>(()).await?)
}

#[tokio::test]
async fn a_task_that_falls_silent_is_tried_again_with_its_details() {
    let run = WorkflowTest::<Listens>::new(()).task::<FallsSilent>().run().await;
    assert_eq!(run.output.unwrap(), 3);
    assert_eq!(run.elapsed, seconds(12 + 5 + 1));
}
