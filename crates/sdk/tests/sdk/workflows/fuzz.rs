//! Random programs, random latencies, batches and messages: live, replayed and cut off, the commands are the same.
//!
//! `SEGNO_SDK_FUZZ=100000 cargo test -p segno-sdk --test sdk fuzz` tries so many programs; `SEGNO_SDK_FUZZ_SEED` begins
//! elsewhere. A failure names the seed.

use std::time::Duration;

use futures::{
    FutureExt, StreamExt,
    future::{BoxFuture, select_all},
    stream::FuturesUnordered,
};
use segno_sdk::{testing::WorkflowTest, *};
use serde::{Deserialize, Serialize};

use super::common::*;

/// A program.
#[derive(Clone, Debug, Serialize, Deserialize)]
enum Op {
    Work(u32),
    Other(u32),
    Local(u32),
    Run(u32),
    Sleep(u32),
    Receive,
    State(u32),
    Random,
    Time,
    Seq(Vec<Op>),
    Join(Vec<Op>),
    Race(u8, Vec<Op>),
    Spawn(Box<Op>),
    Timeout(u32, Box<Op>),
    Scope(u32, Box<Op>),
    Detach(Box<Op>),
    Child(Box<Op>),
    Patched(Box<Op>, Box<Op>),
    Condition(u32),
}

/// Some tasks fail for ever.
fn thrice() -> ScheduleTaskOptions {
    ScheduleTaskOptions { max_retries: Some(2), ..Default::default() }
}

const NUMBER: Signal<u32> = Signal::named("number");

#[derive(Default)]
struct Fuzz {
    sum: u32,
}

#[workflow]
impl Fuzz {
    #[run]
    async fn run(ctx: Context<Self>, program: Op) -> Result<u64> {
        Ok(execute(ctx, program, 0).await)
    }
    #[signal]
    async fn poke(ctx: Context<Self>, n: u32) {
        let n = ctx.schedule_with_options::<Work>(n, thrice()).await.unwrap_or_default();
        ctx.this_mut().sum += n;
    }
    #[update]
    async fn add(ctx: Context<Self>, n: u32) -> Result<u32> {
        if n % 2 == 0 {
            ctx.sleep(Duration::from_millis(u64::from(n))).await?;
        }
        ctx.this_mut().sum += n;
        Ok(ctx.this().sum)
    }
    #[validate(add)]
    fn check(&self, n: &u32) -> Result<()> {
        if n % 5 == 0 { Err("no".into()) } else { Ok(()) }
    }
    #[query]
    fn sum(&self) -> u32 {
        self.sum
    }
}

/// Executes a program. What comes out depends on everything that it saw, so that a difference anywhere shows.
fn execute(ctx: Context<Fuzz>, op: Op, depth: u32) -> BoxFuture<'static, u64> {
    async move {
        let mix = |value: u64, by: u64| (value ^ by).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(17);
        let of = |result: Result<u32, Failure>| match result {
            Ok(n) => u64::from(n),
            Err(failure) => failure.to_string().len() as u64 + 1_000_000,
        };
        match op {
            Op::Work(n) => of(ctx.schedule_with_options::<Work>(n, thrice()).await),
            Op::Other(n) => of(ctx.schedule::<Other>(n).await),
            Op::Local(n) => of(ctx.schedule_local::<Third>(n).await),
            Op::Run(n) => of(ctx.run("run", move || n).await),
            Op::Sleep(millis) => {
                let slept = ctx.sleep(Duration::from_millis(u64::from(millis))).await;
                u64::from(slept.is_ok())
            }
            Op::Receive => match ctx.timeout(Duration::from_millis(700), ctx.receive(NUMBER)).await {
                Ok(received) => of(received),
                Err(_) => ctx.try_receive(NUMBER).map_or(3, u64::from),
            },
            Op::State(n) => {
                let before: Option<u32> = ctx.get_state("state").unwrap_or_default();
                let _ = ctx.set_state("state", &(n + before.unwrap_or_default()));
                u64::from(before.unwrap_or(77))
            }
            Op::Random => (ctx.random() * 1e9) as u64,
            Op::Time => ctx.current_time_millis() as u64,
            Op::Seq(ops) => {
                let mut value = 1;
                for op in ops {
                    value = mix(value, execute(ctx.clone(), op, depth + 1).await);
                    // Something that depends on the value, in history.
                    if value % 7 == 0 {
                        let _ = ctx.sleep(Duration::from_millis(value % 50 + 1)).await;
                    }
                }
                value
            }
            Op::Join(ops) => {
                let all = ops.into_iter().map(|op| execute(ctx.clone(), op, depth + 1));
                futures::future::join_all(all).await.into_iter().fold(2, mix)
            }
            Op::Race(way, ops) => {
                let mut all: Vec<_> = ops.into_iter().map(|op| execute(ctx.clone(), op, depth + 1)).collect();
                match way % 4 {
                    0 => {
                        let (value, index, _) = select_all(all).await;
                        mix(value, index as u64)
                    }
                    1 => {
                        let mut unordered: FuturesUnordered<_> = all.into_iter().collect();
                        let first = unordered.next().await.unwrap_or_default();
                        let second = unordered.next().await.unwrap_or_default();
                        mix(first, second)
                    }
                    2 if all.len() >= 2 => {
                        let (second, first) = (all.remove(1), all.remove(0));
                        // Not tokio's: the arms do something when they are first polled, and its order is random.
                        select! {
                            value = first => mix(value, 1),
                            value = second => mix(value, 2),
                        }
                    }
                    _ => {
                        let order: Vec<u64> = futures::stream::iter(all).buffer_unordered(2).collect().await;
                        order.into_iter().fold(3, mix)
                    }
                }
            }
            Op::Spawn(op) => ctx.spawn(execute(ctx.clone(), *op, depth + 1)).await.unwrap_or(11),
            Op::Timeout(millis, op) => {
                let inner = execute(ctx.clone(), *op, depth + 1);
                ctx.timeout(Duration::from_millis(u64::from(millis)), inner).await.unwrap_or(12)
            }
            Op::Scope(millis, op) => {
                let (inner, scope) = ctx.scope();
                let inside = ctx.spawn(execute(inner, *op, depth + 1));
                let _ = ctx.sleep(Duration::from_millis(u64::from(millis))).await;
                scope.cancel();
                inside.await.unwrap_or(13)
            }
            Op::Detach(op) => {
                let inner = execute(ctx.detached(), *op, depth + 1);
                drop(ctx.spawn(inner));
                14
            }
            Op::Child(op) => match ctx.schedule_workflow::<Fuzz>("", *op).await {
                Ok(value) => value,
                Err(failure) => failure.to_string().len() as u64,
            },
            Op::Patched(new, old) => match ctx.patched("patch") {
                true => execute(ctx, *new, depth + 1).await,
                false => execute(ctx, *old, depth + 1).await,
            },
            Op::Condition(n) => {
                let waited = ctx.wait_condition_timeout(Duration::from_millis(900), move |fuzz| fuzz.sum >= n).await;
                waited.map_or(15, u64::from)
            }
        }
    }
    .boxed()
}

/// A generator of its own, so that a seed is a program for ever.
struct Seeded(u64);

impl Seeded {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut value = self.0;
        value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (value ^ (value >> 31)) % n
    }

    fn small(&mut self) -> u32 {
        self.below(1000) as u32
    }

    fn ops(&mut self, depth: u32, most: u64) -> Vec<Op> {
        (0..1 + self.below(most)).map(|_| self.op(depth + 1)).collect()
    }

    fn op(&mut self, depth: u32) -> Op {
        let kinds = if depth >= 4 { 9 } else { 19 };
        match self.below(kinds) {
            0 => Op::Work(self.small()),
            1 => Op::Other(self.small()),
            2 => Op::Local(self.small()),
            3 => Op::Run(self.small()),
            4 => Op::Sleep(self.small()),
            5 => Op::Receive,
            6 => Op::State(self.small()),
            7 => Op::Random,
            8 => Op::Time,
            9 | 10 => Op::Seq(self.ops(depth, 4)),
            11 => Op::Join(self.ops(depth, 4)),
            12 | 13 => Op::Race(self.below(4) as u8, self.ops(depth, 4)),
            14 => Op::Spawn(Box::new(self.op(depth + 1))),
            15 => Op::Timeout(self.small(), Box::new(self.op(depth + 1))),
            16 => Op::Scope(self.small(), Box::new(self.op(depth + 1))),
            17 if self.below(2) == 0 => Op::Detach(Box::new(self.op(depth + 1))),
            17 => Op::Child(Box::new(self.op(depth + 2))),
            _ if self.below(2) == 0 => Op::Patched(Box::new(self.op(depth + 1)), Box::new(self.op(depth + 1))),
            _ => Op::Condition(self.small()),
        }
    }
}

fn millis(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// What surrounds a program, by the same seed.
fn test(seed: u64) -> WorkflowTest<Fuzz> {
    let mut random = Seeded(seed);
    let program = Op::Seq(random.ops(0, 6));
    let failing = random.below(5);
    let task = move |n: u32| match u64::from(n) % 10 < failing {
        true if n % 3 == 0 => Err(Failure::application("Often", "now and then").into()),
        true => Err(Failure::application("Never", "for good").non_retryable().into()),
        false => Ok(n),
    };
    let mut test = WorkflowTest::<Fuzz>::new(program)
        .seed(seed)
        .mock::<Work>(task)
        .mock::<Other>(|n| if n % 4 == 1 { Err(Failure::new("no").non_retryable().into()) } else { Ok(n) })
        .mock::<Third>(|n| if n % 4 == 2 { Err(Failure::new("no").non_retryable().into()) } else { Ok(n) })
        .latency("work", millis(random.below(400)))
        .latency("other", millis(random.below(400)))
        .latency("third", millis(random.below(300)));
    for _ in 0..random.below(4) {
        test = test.signal(millis(random.below(2000)), NUMBER, random.small());
    }
    for _ in 0..random.below(3) {
        test = test.signal(millis(random.below(2000)), Fuzz::POKE, random.small());
    }
    for _ in 0..random.below(3) {
        test = test.update(millis(random.below(2000)), Fuzz::ADD, random.small());
    }
    if random.below(5) == 0 {
        test = test.cancel(millis(random.below(3000)));
    }
    match random.below(3) {
        0 => test,
        1 => test.batch(millis(random.below(20))),
        _ => test.batch(millis(random.below(1000))),
    }
}

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(otherwise)
}

#[tokio::test]
async fn fuzz_random_programs() {
    let first = number("SEGNO_SDK_FUZZ_SEED", 1);
    let (mut turns, mut closed) = (0, 0);
    for seed in first..first + number("SEGNO_SDK_FUZZ", 150) {
        let cached = test(seed).run().await;
        if let Err(failure) = &cached.output {
            let kind = failure.application_kind().unwrap_or_default();
            let bad = ["Stuck", "DeterminismViolation", "NotRegistered", "Panic", "Conversion", "WorkflowTaskFailed"];
            assert!(!bad.contains(&kind), "seed {seed}: {failure:?}");
        }
        let cold = test(seed).without_cache().run().await;
        // Local operations are executed again without a cache, and may so end in another order; what is compared then is
        // only that every turn can be replayed, which both runs did.
        if cached.commands.iter().all(|command| command.command_type() != raw::enums::CommandType::RecordMarker) {
            assert_eq!(cached.history, cold.history, "seed {seed}");
            assert_eq!(cached.updates.len(), cold.updates.len(), "seed {seed}");
        }
        turns += cached.workflow_tasks + cold.workflow_tasks;
        closed += usize::from(cached.output.is_ok());
    }
    assert!(turns > 0 && closed > 0, "{turns} turns, {closed} closed");
}

#[tokio::test]
async fn fuzz_notices_every_rule_that_is_taken_out() {
    for rule in ["NoGrant", "DropWithoutCancel", "TimeIsNow", "CounterNotAdvanced"] {
        let mut noticed = false;
        for seed in 1..200 {
            let whole = test(seed).run().await;
            let without = test(seed).sabotage(rule).run().await;
            noticed = whole.history != without.history;
            if noticed {
                break;
            }
        }
        assert!(noticed, "{rule}");
    }
}
