//! What a worker costs: `worker_cost worker QUEUE` serves one workflow with one task until its input ends, then prints
//! the CPU time that it took; `worker_cost load QUEUE COUNT CONCURRENCY` starts such workflows and waits for their
//! results; `worker_cost parked QUEUE COUNT` has as many wait in the worker's memory. docs/guides/sdk.md has figures.

use std::{
    io::Read,
    time::{Duration, Instant},
};

use futures_util::stream::{self, StreamExt};
use segno_sdk::prelude::*;

#[task(timeout = "10s")]
async fn compose(name: String) -> Result<String> {
    Ok(format!("Hello, {name}!"))
}

#[workflow]
async fn greet(ctx: Context, name: String) -> Result<String> {
    Ok(ctx.schedule::<Compose>(name).await?)
}

/// Has done its task and waits: what stays in a worker's cache.
#[workflow]
async fn park(ctx: Context, name: String) -> Result<String> {
    let greeting = ctx.schedule::<Compose>(name).await?;
    ctx.promise::<()>("never").await?;
    Ok(greeting)
}

/// A field of `/proc/self/status`, in KiB.
fn status(field: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(field));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or_default()
}

/// CPU time of this process so far.
fn cpu() -> Duration {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = text.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks: u64 = fields.iter().skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 10)
}

async fn worker(queue: &Queue) -> Result<()> {
    let worker = queue.worker().workflow::<Greet>().workflow::<Park>().task::<Compose>().build()?;
    let shutdown = worker.shutdown_handle();
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        shutdown.shutdown();
    });
    let (before, resident) = (cpu(), status("VmRSS:"));
    println!("ready");
    worker.run().await?;
    println!(
        "cpu {:.0} ms, resident {} KiB, {resident} at first",
        (cpu() - before).as_secs_f64() * 1e3,
        status("VmRSS:")
    );
    Ok(())
}

async fn one(queue: &Queue, id: String) -> Result<Duration> {
    let began = Instant::now();
    queue.execute::<Greet>(&id, "Ann".to_owned()).await?;
    Ok(began.elapsed())
}

async fn load(queue: &Queue, count: usize, concurrency: usize) -> Result<()> {
    let run = Uuid::new_v4();
    let began = Instant::now();
    let mut times: Vec<Duration> = stream::iter(0..count)
        .map(|number| one(queue, format!("bench-{run}-{number}")))
        .buffer_unordered(concurrency)
        .collect::<Vec<_>>()
        .await
        .into_iter()
        .collect::<Result<_>>()?;
    let took = began.elapsed();
    times.sort();
    println!(
        "{count} workflows, {concurrency} at a time: {:.0}/s, p50 {:.2} ms, p99 {:.2} ms",
        count as f64 / took.as_secs_f64(),
        times[count / 2].as_secs_f64() * 1e3,
        times[count * 99 / 100].as_secs_f64() * 1e3
    );
    Ok(())
}

async fn parked(queue: &Queue, count: usize) -> Result<()> {
    let run = Uuid::new_v4();
    stream::iter(0..count)
        .map(|number| async move { queue.start::<Park>(&format!("park-{run}-{number}"), "Ann".to_owned()).await })
        .buffer_unordered(32)
        .collect::<Vec<_>>()
        .await
        .into_iter()
        .collect::<std::result::Result<Vec<_>, _>>()?;
    println!("{count} are started");
    Ok(())
}

#[tokio::main]
async fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let client = Client::from_env().await?;
    match words[..] {
        ["worker", queue] => worker(&client.queue(queue)).await,
        ["load", queue, count, concurrency] => load(&client.queue(queue), count.parse()?, concurrency.parse()?).await,
        ["parked", queue, count] => parked(&client.queue(queue), count.parse()?).await,
        _ => Err("usage: worker_cost worker QUEUE | load QUEUE COUNT CONCURRENCY | parked QUEUE COUNT".into()),
    }
}
