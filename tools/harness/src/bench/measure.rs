//! One case on one fresh server, and the servers' life without load.

use std::{
    fs::File,
    io::Write,
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Result, bail, ensure};

use super::{
    cases::{Case, Sizes},
    report::Report,
};
use crate::{
    load::{self, Load, Outcome, Workload},
    process::{self, Plan, Server},
};

/// A server in the comparison: its column and how to start it.
pub struct Contender {
    /// Heading of its column.
    pub name: &'static str,
    /// How to start it.
    pub plan: Plan,
}

impl Contender {
    /// Gives it an empty data directory.
    pub fn renew(&mut self) -> Result<()> {
        self.plan.data = process::fresh_dir(&format!("bench/{}", self.name))?;
        Ok(())
    }
}

/// Runs a case on a fresh server; the label begins each progress line.
pub async fn case(
    who: &Contender,
    case: &Case,
    sizes: &Sizes,
    sticky: bool,
    label: &str,
    report: &mut Report,
) -> Result<()> {
    let mut server = who.plan.spawn()?;
    server.ready().await?;
    let workload = case.workload.name();
    let load = |count: usize, concurrency, prefix: &str| {
        let mut load = case.load(who.plan.port, count.max(1), concurrency, prefix, sizes);
        load.sticky |= sticky;
        load.label = label.to_owned();
        load
    };
    // Where there is no run of one at a time, concurrency is not what the workload is about.
    let at_a_time = match case.serial {
        0 => workload.to_owned(),
        _ => format!("{workload}, {} at a time", case.concurrency),
    };
    let mut small = Vec::new();
    if case.growth {
        if case.serial > 0 {
            load::run(&load(case.many / 20, 32, "warm")).await?;
        }
        small = run(&server, &load(case.many / 10, case.concurrency, "small")).await?;
    }
    let large = run(&server, &load(case.many, case.concurrency, "large")).await?;
    for outcome in &large {
        add(who.name, &at_a_time, case.workload, outcome, report)?;
    }
    // Cost per operation may not grow with the amount of work. A server that was cut short did not do ten times as much.
    for (small, large) in small.iter().zip(&large).filter(|(small, large)| large.count() >= 5 * small.count()) {
        if let Some((before, after)) = small.cost.zip(large.cost) {
            let growth = large.each(after.cpu_ms) / small.each(before.cpu_ms);
            report.add(who.name, &format!("{}: CPU growth, tenfold work", part(&at_a_time, large)), growth);
            let memory = after.peak_mib - before.peak_mib;
            report.add(who.name, &format!("{}: memory growth, tenfold work, MiB", part(&at_a_time, large)), memory);
        }
    }
    if case.serial > 0 {
        let label = format!("{workload}, 1 at a time");
        for outcome in run(&server, &load(case.serial, 1, "serial")).await? {
            add(who.name, &label, case.workload, &outcome, report)?;
        }
    }
    report.add(who.name, &format!("{workload}: peak memory, MiB"), server.gauge().read()?.peak_mib());
    server.terminate()?;
    Ok(())
}

/// Runs a load; figures of a run with errors mean nothing.
async fn run(server: &Server, load: &Load) -> Result<Vec<Outcome>> {
    let outcomes = load::run_parts(load, Some(server.gauge())).await?;
    for outcome in &outcomes {
        if let Some((error, times)) = outcome.errors.iter().next() {
            bail!(
                "{}: {} kinds of errors, the first {times} times: {error}",
                load.workload.name(),
                outcome.errors.len()
            );
        }
    }
    Ok(outcomes)
}

fn part(label: &str, outcome: &Outcome) -> String {
    if outcome.name.is_empty() { label.to_owned() } else { format!("{label}, {}", outcome.name) }
}

/// Reports one outcome.
fn add(name: &str, label: &str, workload: Workload, outcome: &Outcome, report: &mut Report) -> Result<()> {
    let (label, unit) = (part(label, outcome), outcome.unit);
    println!("  {label}: {}", outcome.line().trim_start_matches(&format!("{}: ", outcome.name)));
    let mut add = |measure: &str, value| report.add(name, &format!("{label}: {measure}"), value);
    add(&format!("{}/s", outcome.units()), outcome.rate());
    add("p50, ms", outcome.percentile_ms(0.50));
    add("p99, ms", outcome.percentile_ms(0.99));
    for (measure, value) in &outcome.extras {
        add(measure, *value);
    }
    let Some(cost) = outcome.cost else { return Ok(()) };
    add(&format!("server CPU, ms/{unit}"), outcome.each(cost.cpu_ms));
    add(&format!("written, KiB/{unit}"), outcome.each(cost.written_bytes) / 1024.0);
    if let Some((commits, syncs)) = cost.commits.zip(cost.syncs) {
        add(&format!("commits/{unit}"), outcome.each(commits));
        add(&format!("syncs/{unit}"), outcome.each(syncs));
        check_commits(workload, outcome.count() as f64, commits)?;
    }
    if let Some(times) = cost.amplification() {
        add("bytes written/bytes of history and state", times);
    }
    Ok(())
}

/// A rejected update leaves no trace; an accepted and completed one is a single commit.
fn check_commits(workload: Workload, updates: f64, commits: f64) -> Result<()> {
    let expected = match workload {
        Workload::UpdateRejected => 0.0,
        Workload::UpdateAccepted => updates,
        _ => return Ok(()),
    };
    ensure!(commits == expected, "{}: {updates} updates took {commits} commits", workload.name());
    Ok(())
}

/// A fresh server: start, idleness, end.
pub async fn life(who: &Contender, sizes: &Sizes, report: &mut Report) -> Result<()> {
    report.add(who.name, "disk: fdatasync of 4 KiB, ms", sync_ms(&who.plan.data)?);
    let mut server = who.plan.spawn()?;
    report.add(who.name, "start to ready, ms", ms(server.ready().await?));
    // What starting set in motion is not idleness.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let (cpu, sleeps) = server.gauge().living()?;
    tokio::time::sleep(sizes.idle).await;
    let (cpu_after, sleeps_after) = server.gauge().living()?;
    let seconds = sizes.idle.as_secs_f64();
    report.add(who.name, "idle CPU, ms/s", cpu_after.saturating_sub(cpu) as f64 / 1e6 / seconds);
    report.add(who.name, "idle wake-ups/s", sleeps_after.saturating_sub(sleeps) as f64 / seconds);
    report.add(who.name, "RSS idle, MiB", server.gauge().rss_mib()?);
    report.add(who.name, "SIGTERM to end, ms", ms(server.terminate()?));
    Ok(())
}

/// Many workflows that wait for a worker: what they take on disk, and how long a restart takes.
pub async fn restarts(who: &Contender, sizes: &Sizes, label: &str, report: &mut Report) -> Result<()> {
    let start_only = |count, prefix: &str| {
        let mut load = Load::new(who.plan.port, count, 64, prefix).of(Workload::StartOnly);
        load.time_max = sizes.fill_max;
        load.label = label.to_owned();
        load
    };
    let mut server = who.plan.spawn()?;
    server.ready().await?;
    let outcomes = run(&server, &start_only(sizes.open, "open")).await?;
    let count = outcomes.iter().map(Outcome::count).sum::<usize>() as f64;
    report.add(who.name, "restart: open workflows", count);
    report.add(who.name, "restart: memory before, MiB", server.gauge().rss_mib()?);
    report.add(who.name, "restart: data on disk, KiB/workflow", disk_mib(&who.plan.data)? * 1024.0 / count);
    server.terminate()?;

    let mut server = who.plan.spawn()?;
    report.add(who.name, "restart: to ready after SIGTERM, ms", ms(server.ready().await?));
    report.add(who.name, "restart: memory after, MiB", server.gauge().rss_mib()?);
    // Something to recover: the last starts are not in a checkpoint yet.
    run(&server, &start_only(500, "more")).await?;
    server.kill()?;

    let mut server = who.plan.spawn()?;
    report.add(who.name, "restart: to ready after kill -9, ms", ms(server.ready().await?));
    server.terminate()?;
    Ok(())
}

fn ms(span: Duration) -> f64 {
    span.as_secs_f64() * 1e3
}

/// How long the disk takes to make one page durable: the floor under every durable commit.
fn sync_ms(directory: &Path) -> Result<f64> {
    const SYNC_REPEATS: u32 = 50;
    let path = directory.join("sync-probe");
    let mut file = File::create(&path)?;
    let begun = Instant::now();
    for _ in 0..SYNC_REPEATS {
        file.write_all(&[0; 4096])?;
        file.sync_data()?;
    }
    let elapsed = begun.elapsed();
    std::fs::remove_file(path)?;
    Ok(ms(elapsed) / f64::from(SYNC_REPEATS))
}

fn disk_mib(directory: &Path) -> Result<f64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(directory)? {
        bytes += entry?.metadata()?.len();
    }
    Ok(bytes as f64 / (1 << 20) as f64)
}
