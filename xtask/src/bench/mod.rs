//! `cargo xtask bench [--quick]`: Segno next to Temporal's development server, same machine, same driver, same work.
//!
//! The comparison is at equal durability: Temporal's server is told to use SQLite as Segno does (a write-ahead log, synced
//! at each commit). Left alone it uses a rollback journal, which made it about three times slower here; that would
//! measure a setting, not a server. `--temporal-stock` leaves it alone.
//!
//! Servers take turns, several times over, because the machine is noisy; the table shows medians. Both keep their data
//! in SQLite on the disk under `target/`. Needs `target/release/segno` (or `--binary`) and a `temporal` (`--temporal`,
//! `TEMPORAL_BIN`, `target/venv/bin`, the path; `--only segno` does without). The driver shares the cores with the
//! server: rates are of both together, CPU is of the server alone.

mod report;

use std::{
    fs::File,
    io::Write,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};

use crate::{
    args::Args,
    load::{self, Load, Outcome, Workload},
    process::{self, Kind, Plan, Server},
    wire,
};
use report::Report;

/// What makes Temporal's SQLite as durable as Segno's, in the same way.
const EQUAL_SQLITE: [&str; 4] = ["--sqlite-pragma", "journal_mode=WAL", "--sqlite-pragma", "synchronous=FULL"];

/// How much of everything.
struct Sizes {
    repeats: usize,
    warm_up: usize,
    busy: usize,
    serial: usize,
    open: usize,
    idle: Duration,
    /// Longest time for a measured load, and for opening workflows; a slow server then gets through less.
    load_max: Duration,
    open_max: Duration,
}

/// `cargo xtask bench`.
pub fn command(mut args: Args) -> Result<()> {
    let quick = args.flag("--quick");
    let seconds = Duration::from_secs;
    let mut sizes = match quick {
        true => Sizes {
            repeats: 1,
            warm_up: 100,
            busy: 2_000,
            serial: 100,
            open: 5_000,
            idle: seconds(2),
            load_max: seconds(8),
            open_max: seconds(15),
        },
        false => Sizes {
            repeats: 3,
            warm_up: 500,
            busy: 10_000,
            serial: 1_000,
            open: 100_000,
            idle: seconds(5),
            load_max: seconds(20),
            open_max: seconds(180),
        },
    };
    sizes.repeats = args.option_or("--repeats", sizes.repeats)?;
    sizes.busy = args.option_or("--count", sizes.busy)?;
    sizes.open = args.option_or("--open", sizes.open)?;
    let sticky = args.flag("--sticky");
    let stock = args.flag("--temporal-stock");
    let only: Option<String> = args.option("--only")?;
    let port = args.option_or("--port", 17_600)?;
    let segno: PathBuf = args.option_or("--binary", process::target_dir().join("release/segno"))?;
    let temporal = args.option("--temporal")?;
    args.finish()?;
    if !only.as_deref().is_none_or(|name| ["segno", "temporal"].contains(&name)) {
        bail!("--only takes segno or temporal");
    }

    let mut plans = Vec::new();
    let wanted = |name| only.as_deref().is_none_or(|only| only == name);
    if wanted("segno") {
        plans.push(plan(Kind::Segno, segno, port));
    }
    if wanted("temporal") {
        let mut temporal = plan(Kind::Temporal, process::find_temporal(temporal)?, port + 2);
        if !stock {
            temporal.arguments = EQUAL_SQLITE.map(str::to_owned).to_vec();
        }
        println!("temporal's SQLite: {}", if stock { "stock settings" } else { "WAL, synchronous=FULL, as Segno's" });
        plans.push(temporal);
    }
    let mut report = Report::default();
    let runtime = wire::runtime()?;
    for plan in &plans {
        let size = plan.binary.metadata().with_context(|| format!("{}", plan.binary.display()))?.len();
        report.add(plan.name(), "binary, MiB", size as f64 / (1 << 20) as f64);
    }
    for repeat in 1..=sizes.repeats {
        for plan in &mut plans {
            println!("{} {repeat}/{}", plan.name(), sizes.repeats);
            plan.data = process::fresh_dir(&format!("bench/{}", plan.name()))?;
            report.add(plan.name(), "disk: fdatasync of 4 KiB, ms", sync_ms(&plan.data)?);
            runtime.block_on(measure_work(plan, &sizes, sticky, &mut report))?;
        }
    }
    if sizes.open > 0 {
        for plan in &mut plans {
            println!("{}: {} open workflows", plan.name(), sizes.open);
            plan.data = process::fresh_dir(&format!("bench/{}-open", plan.name()))?;
            runtime.block_on(measure_open(plan, &sizes, &mut report))?;
        }
    }
    report.print();
    let path = process::target_dir().join("bench.json");
    std::fs::write(&path, report.json())?;
    println!("written to {}", path.display());
    Ok(())
}

fn plan(kind: Kind, binary: PathBuf, port: u16) -> Plan {
    Plan {
        kind,
        binary,
        data: PathBuf::new(),
        port,
        http_port: port + 1,
        arguments: Vec::new(),
        environment: Vec::new(),
    }
}

/// A fresh server: start, idleness, then one-activity workflows, many at a time and one at a time.
async fn measure_work(plan: &Plan, sizes: &Sizes, sticky: bool, report: &mut Report) -> Result<()> {
    let name = plan.name();
    let mut server = plan.spawn()?;
    report.add(name, "start to ready, ms", server.ready().await?.as_secs_f64() * 1e3);

    // What starting set in motion is not idleness.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let (cpu, sleeps) = server.gauge().living()?;
    tokio::time::sleep(sizes.idle).await;
    let (cpu_after, sleeps_after) = server.gauge().living()?;
    report.add(name, "idle CPU, ms/s", cpu_after.saturating_sub(cpu) as f64 / 1e6 / sizes.idle.as_secs_f64());
    let wakes = sleeps_after.saturating_sub(sleeps) as f64;
    report.add(name, "idle wake-ups/s", wakes / sizes.idle.as_secs_f64());
    report.add(name, "RSS idle, MiB", server.gauge().rss_mib()?);

    let load = |count, concurrency, prefix: &str| Load {
        sticky,
        time_max: sizes.load_max,
        ..Load::new(plan.port, count, concurrency, prefix)
    };
    load::run(&load(sizes.warm_up, 32, "warm")).await?;
    for (label, count, concurrency) in [("32 at a time", sizes.busy, 32), ("1 at a time", sizes.serial, 1)] {
        let load = load(count, concurrency, &format!("c{concurrency}"));
        measure_parts(&server, &load, label, report).await?;
    }
    for workload in [Workload::UpdateRejected, Workload::UpdateAccepted] {
        for (count, concurrency) in [(sizes.busy, 64), (sizes.serial, 1)] {
            let label = format!("{}, {concurrency} at a time", workload.name());
            let load = load(count, concurrency, &format!("{}-{concurrency}", workload.name())).of(workload);
            measure_parts(&server, &load, &label, report).await?;
        }
    }
    report.add(name, "RSS after work, MiB", server.gauge().rss_mib()?);
    report.add(name, "SIGTERM to end, ms", server.terminate()?.as_secs_f64() * 1e3);
    Ok(())
}

/// Many workflows that wait for a worker: what they cost in memory, and how long a restart takes.
async fn measure_open(plan: &Plan, sizes: &Sizes, report: &mut Report) -> Result<()> {
    let name = plan.name();
    let start_only = |count, prefix: &str| {
        Load { time_max: sizes.open_max, ..Load::new(plan.port, count, 64, prefix) }.of(Workload::StartOnly)
    };
    let mut server = plan.spawn()?;
    server.ready().await?;
    let (cpu, rss) = (server.gauge().cpu_ms()?, server.gauge().rss_mib()?);
    let outcome = load::run(&start_only(sizes.open, "open")).await?;
    println!("  starts: {}", outcome.line());
    refuse_errors(&outcome)?;
    let count = outcome.latencies.len() as f64;
    report.add(name, "open: workflows", count);
    report.add(name, "open: starts/s", outcome.rate());
    report.add(name, "open: server CPU, ms/start", (server.gauge().cpu_ms()? - cpu) / count);
    report.add(name, "open: RSS, MiB", server.gauge().rss_mib()?);
    report.add(name, "open: RSS growth, KiB/workflow", (server.gauge().rss_mib()? - rss) * 1024.0 / count);
    report.add(name, "open: data on disk, KiB/workflow", disk_mib(&plan.data)? * 1024.0 / count);
    server.terminate()?;

    let mut server = plan.spawn()?;
    let ready = server.ready().await?;
    report.add(name, "open: restart to ready after SIGTERM, ms", ready.as_secs_f64() * 1e3);
    report.add(name, "open: RSS after restart, MiB", server.gauge().rss_mib()?);
    // Something to recover: the last starts are not in a checkpoint yet.
    let more = load::run(&start_only(500, "more")).await?;
    refuse_errors(&more)?;
    server.kill()?;

    let mut server = plan.spawn()?;
    let ready = server.ready().await?;
    report.add(name, "open: restart to ready after kill -9, ms", ready.as_secs_f64() * 1e3);
    server.terminate()?;
    Ok(())
}

/// Runs a load and reports what each of its parts came to.
async fn measure_parts(server: &Server, load: &Load, label: &str, report: &mut Report) -> Result<()> {
    let name = server.name();
    for outcome in load::run_parts(load, Some(server.gauge())).await? {
        let label = if outcome.name.is_empty() { label.to_owned() } else { format!("{label}, {}", outcome.name) };
        println!("  {label}: {}", outcome.line());
        refuse_errors(&outcome)?;
        let unit = outcome.unit;
        report.add(name, &format!("{label}: {unit}s/s"), outcome.rate());
        report.add(name, &format!("{label}: p50, ms"), outcome.percentile_ms(0.50));
        report.add(name, &format!("{label}: p99, ms"), outcome.percentile_ms(0.99));
        let Some(cost) = outcome.cost else { continue };
        report.add(name, &format!("{label}: server CPU, ms/{unit}"), outcome.each(cost.cpu_ms));
        report.add(name, &format!("{label}: written, KiB/{unit}"), outcome.each(cost.written_bytes) / 1024.0);
        if let Some((commits, syncs)) = cost.commits.zip(cost.syncs) {
            report.add(name, &format!("{label}: commits/{unit}"), outcome.each(commits));
            report.add(name, &format!("{label}: syncs/{unit}"), outcome.each(syncs));
            check_commits(load.workload, outcome.count() as f64, commits)?;
        }
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

/// Numbers of a run with errors mean nothing.
fn refuse_errors(outcome: &Outcome) -> Result<()> {
    match outcome.errors.iter().next() {
        Some((error, times)) => bail!("{} kinds of errors, the first {times} times: {error}", outcome.errors.len()),
        None => Ok(()),
    }
}

/// How long the disk takes to make one page durable: the floor under every durable commit.
fn sync_ms(directory: &Path) -> Result<f64> {
    const TIMES: u32 = 50;
    let path = directory.join("sync-probe");
    let mut file = File::create(&path)?;
    let begun = Instant::now();
    for _ in 0..TIMES {
        file.write_all(&[0; 4096])?;
        file.sync_data()?;
    }
    let elapsed = begun.elapsed();
    std::fs::remove_file(path)?;
    Ok(elapsed.as_secs_f64() * 1e3 / f64::from(TIMES))
}

fn disk_mib(directory: &Path) -> Result<f64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(directory)? {
        bytes += entry?.metadata()?.len();
    }
    Ok(bytes as f64 / (1 << 20) as f64)
}
