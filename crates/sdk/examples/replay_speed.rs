//! How fast histories are replayed, decoding included: `cargo run --release -p segno-sdk --features testing --example
//! replay_speed`. docs/guides/sdk.md has figures.

use std::time::{Duration, Instant};

use futures_util::StreamExt;
use segno_sdk::{
    Context, Result, Signal, WorkflowContext,
    replay::{History, Replayer},
    task,
    testing::WorkflowTest,
    workflow,
};

#[task]
async fn step(number: u32) -> Result<u32> {
    Ok(number + 1)
}

/// One task after the other.
#[workflow]
async fn sequence(ctx: Context, count: u32) -> Result<u32> {
    let mut number = 0;
    for _ in 0..count {
        number = ctx.schedule::<Step>(number).await?;
    }
    Ok(number)
}

/// 33 tasks at a time.
#[workflow]
async fn fan_out(ctx: Context, count: u32) -> Result<u32> {
    let mut number = 0;
    for _ in 0..count {
        let steps: Vec<_> = (0..33).map(|_| ctx.schedule::<Step>(number)).collect();
        for step in futures_util::future::join_all(steps).await {
            number = step?;
        }
    }
    Ok(number)
}

const TICK: Signal<u32> = Signal::named("tick");

/// Signals only.
#[workflow]
async fn ticks(ctx: Context, count: u32) -> Result<u32> {
    let signals = ctx.signals(TICK);
    Ok(signals.take(count as usize).fold(0, |sum, number| async move { sum + number }).await)
}

fn measure(name: &str, replayer: &Replayer, bytes: &[u8]) {
    let mut best = Duration::MAX;
    let mut events = 0;
    for _ in 0..9 {
        let began = Instant::now();
        let history = History::from_bytes(bytes).expect("it was just encoded");
        events = replayer.replay(history).expect("it was just recorded").events;
        best = best.min(began.elapsed());
    }
    let rate = events as f64 / best.as_secs_f64();
    println!("{name:<24} {events:>6} events  {:>8.2} ms  {rate:>10.0} events/s", best.as_secs_f64() * 1e3);
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let replayer = Replayer::new().workflow::<Sequence>().workflow::<FanOut>().workflow::<Ticks>();
    for count in [166, 3_333, 8_333] {
        let run = WorkflowTest::<Sequence>::new(count).mock::<Step>(|number| Ok(number + 1)).run().await;
        measure("tasks one by one", &replayer, &History::from_events(run.history).to_bytes());
    }
    let run = WorkflowTest::<FanOut>::new(100).mock::<Step>(|number| Ok(number + 1)).run().await;
    measure("33 tasks at a time", &replayer, &History::from_events(run.history).to_bytes());
    let mut test = WorkflowTest::<Ticks>::new(6_600);
    for number in 0..6_600_u64 {
        test = test.signal(Duration::from_millis(10 * number), TICK, 1);
    }
    let run = test.run().await;
    measure("signals", &replayer, &History::from_events(run.history).to_bytes());
}
