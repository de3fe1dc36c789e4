//! Signals, queries, updates, promises.

use std::sync::{Arc, Mutex};

use segno_sdk::{raw::enums::EventType, testing::WorkflowTest, *};

use super::common::*;

#[derive(Default)]
struct Cart {
    lines: Vec<u64>,
    checked_out: bool,
}

#[workflow]
impl Cart {
    #[run]
    async fn run(ctx: Context<Self>, limit: usize) -> Result<u64> {
        ctx.wait_condition(move |cart| cart.checked_out || cart.lines.len() >= limit).await?;
        Ok(ctx.this().total())
    }
    #[signal]
    fn check_out(&mut self) {
        self.checked_out = true;
    }
    #[query]
    fn total(&self) -> u64 {
        self.lines.iter().sum()
    }
    #[update]
    async fn add(ctx: Context<Self>, cents: u64) -> Result<usize> {
        ctx.sleep(Duration::from_millis(10)).await?;
        ctx.this_mut().lines.push(cents);
        Ok(ctx.this().lines.len())
    }
    #[validate(add)]
    fn check(&self, cents: &u64) -> Result<()> {
        if *cents == 0 { Err("a price, please".into()) } else { Ok(()) }
    }
    #[update]
    fn put(&mut self, cents: u64) -> Result<usize> {
        self.lines.push(cents);
        if cents == 13 {
            return Err("unlucky".into());
        }
        Ok(self.lines.len())
    }
    #[validate(put)]
    fn only_two(&self, _cents: &u64) -> Result<()> {
        if self.lines.len() >= 2 { Err("full".into()) } else { Ok(()) }
    }
}

use std::time::Duration;

#[tokio::test]
async fn signals_queries_and_updates() {
    let answers = Arc::new(Mutex::new(Vec::new()));
    let seen = answers.clone();
    let run = WorkflowTest::<Cart>::new(100)
        .update(seconds(1), Cart::ADD, 450)
        .update(seconds(2), Cart::ADD, 0)
        .query(seconds(3), Cart::TOTAL, (), move |answer| seen.lock().unwrap().push(answer.unwrap()))
        .signal(seconds(4), Cart::CHECK_OUT, ())
        .run()
        .await;
    assert_eq!(run.output.as_ref().unwrap(), &450);
    assert_eq!(run.updates[0].as_ref().unwrap(), &1);
    assert_eq!(run.updates[1].as_ref().unwrap_err().message(), "a price, please");
    assert_eq!(*answers.lock().unwrap(), [450]);
    assert_eq!(count(&run, EventType::WorkflowExecutionUpdateAccepted), 1);
    assert_eq!(count(&run, EventType::WorkflowExecutionUpdateCompleted), 1);
}

#[tokio::test]
async fn a_rejected_update_costs_nothing() {
    let without = both(|| WorkflowTest::<Cart>::new(100).signal(seconds(4), Cart::CHECK_OUT, ())).await;
    let with = both(|| {
        WorkflowTest::<Cart>::new(100).update(seconds(1), Cart::ADD, 0).update(seconds(2), Cart::ADD, 0).signal(
            seconds(4),
            Cart::CHECK_OUT,
            (),
        )
    })
    .await;
    assert_eq!(with.history, without.history);
    assert_eq!(with.updates.len(), 2);
    assert!(with.updates.iter().all(Result::is_err));
}

#[tokio::test]
async fn the_second_validator_sees_the_effect_of_the_first_update() {
    let run = both(|| {
        WorkflowTest::<Cart>::new(100)
            .update(seconds(1), Cart::PUT, 1)
            .update(seconds(1), Cart::PUT, 2)
            .update(seconds(1), Cart::PUT, 3)
            .signal(seconds(4), Cart::CHECK_OUT, ())
            .batch(Duration::from_millis(500))
    })
    .await;
    assert_eq!(run.output.as_ref().unwrap(), &3);
    let outcomes: Vec<bool> = run.updates.iter().map(Result::is_ok).collect();
    assert_eq!(outcomes, [true, true, false]);
    assert_eq!(run.updates[2].as_ref().unwrap_err().message(), "full");
}

#[tokio::test]
async fn a_failed_update_is_accepted_and_has_a_failed_outcome() {
    let run = both(|| {
        WorkflowTest::<Cart>::new(100).update(seconds(1), Cart::PUT, 13).signal(seconds(4), Cart::CHECK_OUT, ())
    })
    .await;
    assert_eq!(run.updates[0].as_ref().unwrap_err().message(), "unlucky");
    assert_eq!(count(&run, EventType::WorkflowExecutionUpdateCompleted), 1);
}

#[tokio::test]
async fn an_update_that_closes_the_workflow_is_answered() {
    let run = both(|| WorkflowTest::<Cart>::new(1).update(seconds(1), Cart::PUT, 5)).await;
    assert_eq!(run.output.unwrap(), 5);
    assert_eq!(run.updates[0].as_ref().unwrap(), &1);
}

#[tokio::test]
async fn an_accepted_update_that_the_end_overtakes() {
    let run = both(|| {
        WorkflowTest::<Cart>::new(100).update(seconds(1), Cart::ADD, 5).signal(
            Duration::from_millis(1005),
            Cart::CHECK_OUT,
            (),
        )
    })
    .await;
    assert_eq!(run.output.unwrap(), 0);
    assert!(run.updates[0].is_err());
}

#[tokio::test]
async fn a_repeated_update_id_is_the_same_update() {
    let run = both(|| {
        WorkflowTest::<Cart>::new(100)
            .update_with_id(seconds(1), "a", Cart::PUT, 5)
            .update_with_id(seconds(2), "a", Cart::PUT, 5)
            .signal(seconds(4), Cart::CHECK_OUT, ())
    })
    .await;
    assert_eq!(run.output.unwrap(), 5);
}

#[tokio::test]
async fn messages_at_the_start_are_there_before_run() {
    let run = both(|| {
        WorkflowTest::<Cart>::new(100).update(seconds(0), Cart::PUT, 5).signal(seconds(0), Cart::CHECK_OUT, ())
    })
    .await;
    assert_eq!(run.output.unwrap(), 5);
    assert_eq!(run.workflow_tasks, 1);
}

const NUMBER: Signal<u32> = Signal::named("number");

#[workflow]
async fn channel(ctx: Context, _input: ()) -> Result<Vec<u32>> {
    // A signal that resolved a `receive` which lost goes back to the front.
    let mut got = Vec::new();
    let lost = ctx.receive(NUMBER);
    ctx.sleep(seconds(5)).await?;
    drop(lost);
    while let Some(n) = ctx.try_receive(NUMBER) {
        got.push(n);
    }
    got.push(1000);
    got.push(ctx.receive(NUMBER).await?);
    Ok(got)
}

#[tokio::test]
async fn signals_wait_in_order_and_none_is_lost() {
    let run = both(|| {
        WorkflowTest::<Channel>::new(())
            .signal(seconds(1), NUMBER, 1)
            .signal(seconds(2), NUMBER, 2)
            .signal(seconds(3), NUMBER, 3)
            .signal(seconds(9), NUMBER, 4)
    })
    .await;
    assert_eq!(run.output.unwrap(), [1, 2, 3, 1000, 4]);
}

#[workflow]
async fn counts(ctx: Context, _input: ()) -> Result<Vec<u32>> {
    let mut at = Vec::new();
    for _ in 0..3 {
        ctx.sleep(seconds(2)).await?;
        let mut waiting = 0;
        while ctx.try_receive(NUMBER).is_some() {
            waiting += 1;
        }
        at.push(waiting);
    }
    Ok(at)
}

#[tokio::test]
async fn what_is_there_is_what_was_there_at_that_point_of_history() {
    let run = both(|| {
        WorkflowTest::<Counts>::new(()).signal(seconds(1), NUMBER, 1).signal(seconds(3), NUMBER, 2).signal(
            Duration::from_millis(3500),
            NUMBER,
            3,
        )
    })
    .await;
    assert_eq!(run.output.unwrap(), [1, 2, 0]);
}

#[workflow]
async fn invoice(ctx: Context, cents: u64) -> Result<String> {
    let paid = ctx.promise::<u64>("paid");
    match ctx.timeout(Duration::from_secs(30 * 86_400), paid).await {
        Err(_) => Ok("overdue".into()),
        Ok(Err(failure)) => Ok(failure.message().to_owned()),
        Ok(Ok(payment)) => Ok(if payment >= cents { "paid" } else { "short" }.into()),
    }
}

#[tokio::test]
async fn promises() {
    let run = both(|| WorkflowTest::<Invoice>::new(100).promise(seconds(86_400), "paid", 100)).await;
    assert_eq!(run.output.as_deref().unwrap(), "paid");
    assert_eq!(run.elapsed, seconds(86_400));
    let run = both(|| WorkflowTest::<Invoice>::new(100)).await;
    assert_eq!(run.output.as_deref().unwrap(), "overdue");
    assert_eq!(run.elapsed, seconds(30 * 86_400));
    // The first outcome counts; one that comes before the promise is kept.
    let run =
        both(|| WorkflowTest::<Invoice>::new(100).promise(seconds(0), "paid", 1).promise(seconds(0), "paid", 1000))
            .await;
    assert_eq!(run.output.as_deref().unwrap(), "short");
    let run =
        both(|| WorkflowTest::<Invoice>::new(100).reject_promise(seconds(5), "paid", "Refused", "no cover")).await;
    assert_eq!(run.output.as_deref().unwrap(), "no cover");
}

#[workflow]
async fn functions(ctx: Context, _input: ()) -> Result<u32> {
    let sum = Arc::new(Mutex::new(0));
    let (a, b, c) = (sum.clone(), sum.clone(), sum.clone());
    ctx.on_signal(NUMBER, move |n| *a.lock().unwrap() += n);
    ctx.on_query(Query::<(), u32>::named("sum"), move |()| *b.lock().unwrap());
    ctx.on_update(
        Update::<u32, u32>::named("add"),
        |n: &u32| if *n > 100 { Err("too much".into()) } else { Ok(()) },
        move |n| {
            let c = c.clone();
            async move {
                *c.lock().unwrap() += n;
                Ok(*c.lock().unwrap())
            }
        },
    );
    ctx.sleep(seconds(10)).await?;
    let sum = *sum.lock().unwrap();
    Ok(sum)
}

#[tokio::test]
async fn a_function_has_handlers_too() {
    let answer = Arc::new(Mutex::new(None));
    let seen = answer.clone();
    let run = WorkflowTest::<Functions>::new(())
        .signal(seconds(0), NUMBER, 1)
        .signal(seconds(1), NUMBER, 2)
        .update(seconds(2), Update::<u32, u32>::named("add"), 4)
        .update(seconds(2), Update::<u32, u32>::named("add"), 400)
        .update(seconds(2), Update::<u32, u32>::named("nobody"), 400)
        .query(seconds(3), Query::<(), u32>::named("sum"), (), move |it| *seen.lock().unwrap() = it.ok())
        .run()
        .await;
    assert_eq!(run.output.as_ref().unwrap(), &7);
    assert_eq!(run.updates[0].as_ref().unwrap(), &7);
    assert_eq!(run.updates[1].as_ref().unwrap_err().message(), "too much");
    assert!(run.updates[2].as_ref().unwrap_err().message().contains("nobody"));
    assert_eq!(*answer.lock().unwrap(), Some(7));
}

#[derive(Default)]
struct Greedy;

#[workflow]
impl Greedy {
    #[run]
    async fn run(ctx: Context<Self>, _input: ()) -> Result<()> {
        let inner = ctx.clone();
        ctx.on_query(Query::<(), u32>::named("greedy"), move |()| {
            drop(inner.sleep(seconds(1)));
            1
        });
        ctx.sleep(seconds(10)).await?;
        Ok(())
    }
    #[query]
    fn panics(&self) -> u32 {
        panic!("in a query")
    }
}

#[tokio::test]
async fn queries_change_nothing_and_may_fail() {
    let answers = Arc::new(Mutex::new(Vec::new()));
    let (a, b, c) = (answers.clone(), answers.clone(), answers.clone());
    let run = WorkflowTest::<Greedy>::new(())
        .query(seconds(1), Query::<(), u32>::named("greedy"), (), move |it| a.lock().unwrap().push(it))
        .query(seconds(2), Greedy::PANICS, (), move |it| b.lock().unwrap().push(it))
        .query(seconds(3), Query::<(), u32>::named("nobody"), (), move |it| c.lock().unwrap().push(it))
        .run()
        .await;
    run.output.unwrap();
    let answers = answers.lock().unwrap();
    assert!(answers.iter().all(Result::is_err), "{answers:?}");
    assert!(answers[1].as_ref().unwrap_err().message().contains("in a query"));
    assert_eq!(run.commands.len(), 2);
}

/// A handler that is still busy when `run` wants to return.
#[derive(Default)]
struct Patient {
    done: u32,
}

#[workflow]
impl Patient {
    #[run]
    async fn run(ctx: Context<Self>, _input: ()) -> Result<u32> {
        ctx.sleep(seconds(5)).await?;
        let inner = ctx.clone();
        ctx.wait_condition(move |_| inner.all_handlers_finished()).await?;
        Ok(ctx.this().done)
    }
    #[signal]
    async fn work(ctx: Context<Self>, n: u32) {
        let n = ctx.schedule::<Work>(n).await.unwrap_or_default();
        ctx.this_mut().done += n;
    }
}

#[tokio::test]
async fn handlers_can_be_waited_for() {
    let run = both(|| {
        WorkflowTest::<Patient>::new(())
            .mock::<Work>(Ok)
            .latency("work", seconds(60))
            .signal(seconds(1), Patient::WORK, 3)
            .signal(seconds(2), Patient::WORK, 4)
    })
    .await;
    assert_eq!(run.output.unwrap(), 7);
    assert_eq!(run.elapsed, seconds(62));
}

#[tokio::test]
async fn a_closed_run_answers_queries() {
    let answer = Arc::new(Mutex::new(None));
    let seen = answer.clone();
    let run = WorkflowTest::<Cart>::new(1)
        .update(seconds(1), Cart::PUT, 5)
        .query(seconds(100), Cart::TOTAL, (), move |it| *seen.lock().unwrap() = it.ok())
        .run()
        .await;
    run.output.unwrap();
    assert_eq!(*answer.lock().unwrap(), Some(5));
}

/// An update and a timer in one batch: events come before updates.
#[derive(Default)]
struct Tie {
    order: Vec<String>,
}

#[workflow]
impl Tie {
    #[run]
    async fn run(ctx: Context<Self>, _input: ()) -> Result<Vec<String>> {
        ctx.sleep(seconds(5)).await?;
        ctx.this_mut().order.push("timer".to_owned());
        ctx.wait_condition(|tie| tie.order.len() >= 3).await?;
        Ok(ctx.this().order.clone())
    }
    #[update]
    fn note(&mut self, name: String) -> Result<()> {
        self.order.push(name);
        Ok(())
    }
}

#[tokio::test]
async fn an_update_and_a_timer_in_one_batch() {
    let run = both(|| {
        WorkflowTest::<Tie>::new(())
            .update(seconds(12), Tie::NOTE, "one".to_owned())
            .update(seconds(17), Tie::NOTE, "two".to_owned())
            .batch(seconds(10))
    })
    .await;
    // The timer fires at 15 s, between the two; all three are in the workflow task of 22 s.
    assert_eq!(run.output.unwrap(), ["timer", "one", "two"]);
    assert_eq!(run.workflow_tasks, 2);
}

/// Waits that are dropped cost nothing.
#[workflow]
async fn gives_up(ctx: Context, _input: ()) -> Result<u32> {
    let waits = (ctx.receive(NUMBER), ctx.promise::<u32>("p"), ctx.wait_condition(|()| false));
    ctx.sleep(seconds(1)).await?;
    drop(waits);
    Ok(ctx.receive(NUMBER).await?)
}

#[tokio::test]
async fn dropped_waits_cost_nothing_and_lose_nothing() {
    let run = both(|| WorkflowTest::<GivesUp>::new(()).signal(Duration::from_millis(500), NUMBER, 5)).await;
    assert_eq!(run.output.unwrap(), 5);
    assert_eq!(run.commands.len(), 2);
}
