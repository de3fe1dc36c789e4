//! Races: what is first in history wins, with every combinator and every order of polls.

use futures::{
    FutureExt, StreamExt,
    future::{join_all, select_all},
    stream::FuturesUnordered,
};
use segno_sdk::{
    raw::enums::{CommandType, EventType},
    testing::WorkflowTest,
    *,
};

use super::common::*;

/// How a race is written.
const WAYS: [&str; 9] =
    ["select", "tokio", "biased", "futures", "unordered", "select_all", "buffered", "join in spawn", "reused"];

/// Races three tasks and says who won, in which way it is told.
#[workflow]
async fn race(ctx: Context, way: String) -> Result<Vec<String>> {
    let mut work = ctx.schedule::<Work>(1);
    let mut other = ctx.schedule::<Other>(2);
    let mut third = ctx.schedule::<Third>(3);
    let first = match way.as_str() {
        "select" => select! {
            it = &mut work => { it?; "work" }
            it = &mut other => { it?; "other" }
            it = &mut third => { it?; "third" }
        },
        "tokio" => tokio::select! {
            it = &mut work => { it?; "work" }
            it = &mut other => { it?; "other" }
            it = &mut third => { it?; "third" }
        },
        "biased" => tokio::select! {
            biased;
            it = &mut third => { it?; "third" }
            it = &mut other => { it?; "other" }
            it = &mut work => { it?; "work" }
        },
        "futures" => futures::select! {
            it = work => { it?; "work" }
            it = other => { it?; "other" }
            it = third => { it?; "third" }
        },
        "unordered" => {
            let all = FuturesUnordered::new();
            all.push(work.map(|_| "work").boxed());
            all.push(other.map(|_| "other").boxed());
            all.push(third.map(|_| "third").boxed());
            let order: Vec<&str> = all.collect().await;
            return Ok(order.into_iter().map(str::to_owned).collect());
        }
        "select_all" => {
            let names = ["third", "other", "work"];
            let (_, index, _) = select_all([third, other, work]).await;
            names[index]
        }
        "buffered" => {
            let all = futures::stream::iter([
                third.map(|_| "third").boxed(),
                other.map(|_| "other").boxed(),
                work.map(|_| "work").boxed(),
            ]);
            let order: Vec<&str> = all.buffer_unordered(3).collect().await;
            return Ok(order.into_iter().map(str::to_owned).collect());
        }
        "join in spawn" => {
            let inner = ctx.spawn(async move {
                let race = async {
                    tokio::select! {
                        _ = &mut work => "work",
                        _ = &mut other => "other",
                        _ = &mut third => "third",
                    }
                };
                tokio::join!(race, async { 1 }).0
            });
            inner.await?
        }
        "reused" => {
            let mut order = Vec::new();
            let (mut a, mut b, mut c) = (false, false, false);
            while order.len() < 3 {
                tokio::select! {
                    _ = &mut work, if !a => { a = true; order.push("work".to_owned()); }
                    _ = &mut other, if !b => { b = true; order.push("other".to_owned()); }
                    _ = &mut third, if !c => { c = true; order.push("third".to_owned()); }
                }
            }
            return Ok(order);
        }
        _ => unreachable!(),
    };
    Ok(vec![first.to_owned()])
}

fn race_test(way: &str, latencies: [u64; 3], batch: Option<u64>) -> WorkflowTest<Race> {
    let test = WorkflowTest::<Race>::new(way.to_owned())
        .mock::<Work>(Ok)
        .mock::<Other>(Ok)
        .mock::<Third>(Ok)
        .latency("work", seconds(latencies[0]))
        .latency("other", seconds(latencies[1]))
        .latency("third", seconds(latencies[2]));
    match batch {
        Some(window) => test.batch(seconds(window)),
        None => test,
    }
}

fn expected(latencies: [u64; 3]) -> Vec<&'static str> {
    let mut order = [(latencies[0], "work"), (latencies[1], "other"), (latencies[2], "third")];
    order.sort();
    order.into_iter().map(|(_, name)| name).collect()
}

const ORDERS: [[u64; 3]; 6] = [[1, 2, 3], [1, 3, 2], [2, 1, 3], [3, 1, 2], [2, 3, 1], [3, 2, 1]];

#[tokio::test]
async fn the_winner_is_the_first_in_history_in_every_way() {
    for way in WAYS {
        for latencies in ORDERS {
            // One event per turn; two in one; all in one.
            for batch in [None, Some(1), Some(10)] {
                let run = both(|| race_test(way, latencies, batch)).await;
                let expected = expected(latencies);
                let output = run.output.unwrap_or_else(|failure| panic!("{way} {latencies:?} {batch:?}: {failure}"));
                assert_eq!(output[..], expected[..output.len()], "{way} {latencies:?} {batch:?}");
            }
        }
    }
}

#[tokio::test]
async fn losers_of_a_race_are_cancelled() {
    let run = both(|| race_test("select_all", [1, 2, 3], None)).await;
    // `select_all` gives the others back, and they are dropped with the end of the run, which cancels nothing itself.
    assert_eq!(commands(&run)[3..], [CommandType::CompleteWorkflowExecution]);
}

/// A race between things that are resolved before the code asks.
#[workflow]
async fn late_race(ctx: Context, _input: ()) -> Result<String> {
    let mut work = ctx.schedule::<Work>(1);
    let mut other = ctx.schedule::<Other>(2);
    ctx.sleep(seconds(60)).await?;
    let first = tokio::select! {
        _ = &mut other => "other",
        _ = &mut work => "work",
    };
    Ok(first.to_owned())
}

#[tokio::test]
async fn both_before_the_race() {
    for (work, other, winner) in [(1, 2, "work"), (2, 1, "other")] {
        for _ in 0..5 {
            let run = both(|| {
                WorkflowTest::<LateRace>::new(())
                    .mock::<Work>(Ok)
                    .mock::<Other>(Ok)
                    .latency("work", seconds(work))
                    .latency("other", seconds(other))
            })
            .await;
            assert_eq!(run.output.unwrap(), winner);
        }
    }
}

#[tokio::test]
async fn without_the_rule_the_winner_is_wrong() {
    let mut wrong = 0;
    for _ in 0..20 {
        let run = WorkflowTest::<LateRace>::new(())
            .mock::<Work>(Ok)
            .mock::<Other>(Ok)
            .latency("work", seconds(1))
            .latency("other", seconds(2))
            .sabotage("NoGrant")
            .run()
            .await;
        wrong += usize::from(run.output.ok().as_deref() != Some("work"));
    }
    assert!(wrong > 0, "the tests of races do not need the rule that decides them");
}

/// Four operations, asked for after some of them are resolved; each winner in turn, arms in a random order.
#[workflow]
async fn all_orders(ctx: Context, asked_after: u64) -> Result<Vec<u32>> {
    let mut tasks: Vec<_> = (0..4).map(|n| Some(ctx.schedule_raw(&format!("task-{n}"), n.into()))).collect();
    if asked_after > 0 {
        ctx.sleep(seconds(asked_after)).await?;
    }
    let mut order = Vec::new();
    let [a, b, c, d] = &mut tasks[..] else { unreachable!() };
    while order.len() < 4 {
        let first = tokio::select! {
            it = async { a.as_mut().unwrap().await }, if a.is_some() => { it?; *a = None; 0 }
            it = async { b.as_mut().unwrap().await }, if b.is_some() => { it?; *b = None; 1 }
            it = async { c.as_mut().unwrap().await }, if c.is_some() => { it?; *c = None; 2 }
            it = async { d.as_mut().unwrap().await }, if d.is_some() => { it?; *d = None; 3 }
        };
        order.push(first);
    }
    Ok(order)
}

#[tokio::test]
async fn every_order_of_events_and_of_asking() {
    let mut orders = Vec::new();
    for code in 0..256u32 {
        let order: Vec<u32> = (0..4).map(|place| code >> (2 * place) & 3).collect();
        if (0..4).all(|n| order.contains(&n)) {
            orders.push(order);
        }
    }
    assert_eq!(orders.len(), 24);
    for order in orders {
        for asked_after in 0..=5 {
            for window in [None, Some(2), Some(9)] {
                let mut test = WorkflowTest::<AllOrders>::new(asked_after);
                for (place, n) in order.iter().enumerate() {
                    let kind = format!("task-{n}");
                    test = test
                        .mock_raw(kind.clone(), Ok)
                        .latency(kind, std::time::Duration::from_millis(900 * (place as u64 + 1)));
                }
                if let Some(window) = window {
                    test = test.batch(seconds(window));
                }
                let run = test.run().await;
                assert_eq!(run.output.unwrap(), order, "asked after {asked_after} s, window {window:?}");
            }
        }
    }
}

const GO: Signal<u32> = Signal::named("go");

/// A signal, a timer, a task and a cancellation in one batch.
#[workflow]
async fn ties(ctx: Context, _input: ()) -> Result<Vec<String>> {
    let mut order = Vec::new();
    let mut timer = ctx.sleep(seconds(5));
    let mut work = ctx.schedule::<Work>(1);
    let mut signal = ctx.receive(GO);
    let mut cancelled = ctx.detached().receive(Signal::<()>::named("never"));
    let mut gone = ctx.cancelled();
    let (mut a, mut b, mut c, mut d) = (false, false, false, false);
    while order.len() < 4 {
        let name = tokio::select! {
            it = &mut timer, if !a => { a = true; if it.is_ok() { "timer" } else { "timer cancelled" } }
            it = &mut work, if !b => { b = true; if it.is_ok() { "work" } else { "work cancelled" } }
            it = &mut signal, if !c => { c = true; if it.is_ok() { "signal" } else { "signal cancelled" } }
            () = &mut gone, if !d => { d = true; "cancel" }
            _ = &mut cancelled => unreachable!(),
        };
        order.push(name.to_owned());
    }
    Ok(order)
}

fn ties_test(work: u64, signal: u64, cancel: u64) -> WorkflowTest<Ties> {
    WorkflowTest::<Ties>::new(())
        .mock::<Work>(Ok)
        // The first workflow task starts after the window, too.
        .latency("work", seconds(work - 20))
        .signal(seconds(signal), GO, 1)
        .cancel(seconds(cancel))
        .batch(seconds(20))
}

#[tokio::test]
async fn ties_are_decided_by_history() {
    let run = both(|| ties_test(24, 23, 27)).await;
    assert_eq!(count(&run, EventType::WorkflowTaskStarted), 2, "all in one workflow task");
    assert_eq!(run.output.unwrap(), ["signal", "work", "timer", "cancel"]);
    let run = both(|| ties_test(26, 27, 28)).await;
    assert_eq!(run.output.unwrap(), ["timer", "work", "signal", "cancel"]);
}

#[tokio::test]
async fn a_cancellation_in_the_batch_ends_what_comes_later() {
    let run = both(|| ties_test(26, 27, 24)).await;
    // All by the same event, so by age: the wait for the cancellation is the youngest.
    assert_eq!(run.output.unwrap(), ["timer cancelled", "work cancelled", "signal cancelled", "cancel"]);
}

#[workflow]
async fn thousand(ctx: Context, count: u32) -> Result<u64> {
    let all = join_all((0..count).map(|n| ctx.schedule::<Work>(n))).await;
    let mut sum = 0;
    for one in all {
        sum += u64::from(one?);
    }
    Ok(sum)
}

#[tokio::test]
async fn a_thousand_at_once() {
    let run = WorkflowTest::<Thousand>::new(1000).mock::<Work>(Ok).batch(seconds(1)).run().await;
    assert_eq!(run.output.unwrap(), 499_500);
    assert_eq!(run.workflow_tasks, 2);
}

#[tokio::test]
async fn more_than_the_server_takes_is_refused_with_a_reason() {
    let run = WorkflowTest::<Thousand>::new(2001).mock::<Work>(Ok).batch(seconds(1)).run().await;
    let failure = run.output.unwrap_err();
    assert!(failure.message().contains("limit of 2000"), "{failure}");
}
