//! Workers in Rust beside each other: ours and the one of Temporal's SDK, with the same workflow, the same server and the
//! same clients.

use std::{
    io::{BufRead, BufReader, Lines},
    path::{Path, PathBuf},
    process::{ChildStdout, Command, Stdio},
};

use anyhow::{Context, Result, ensure};
use tokio::runtime::Runtime;

use super::{measure::Contender, programs::Program, report::Report};
use crate::process;

/// What both print when they serve.
const READY: &str = "ready";

/// Measures both workers, many workflows at a time and one at a time.
pub fn measure(who: &Contender, quick: bool, runtime: &Runtime, report: &mut Report) -> Result<()> {
    let root = process::workspace_dir();
    let ours = built(
        &root,
        &["--release", "-p", "segno-harness", "--example", "worker_cost"],
        "release/examples/worker_cost",
    )?;
    // Not part of the workspace, so that its many crates are compiled for this only.
    let official = built(&root.join("bench/rust"), &["--release"], "release/official-worker")?;
    let mut server = who.plan.spawn()?;
    runtime.block_on(server.ready())?;
    let address = format!("http://127.0.0.1:{}", who.plan.port);
    for (count, concurrency) in [(4_000, 32), (400, 1)] {
        let count: u32 = if quick { count / 10 } else { count };
        for (name, program) in [("segno-sdk", &ours), ("temporalio-sdk 1.1.1", &official)] {
            let queue = format!("{concurrency}-{}", name.split(' ').next().unwrap_or_default());
            let mut worker = Command::new(program);
            if program == &ours {
                worker.arg("worker");
            }
            worker.arg(&queue).env("TEMPORAL_ADDRESS", &address).stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut worker = Program(worker.spawn().with_context(|| format!("{name} does not start"))?);
            let mut lines = BufReader::new(worker.0.stdout.take().context("no output")?).lines();
            ensure!(next(&mut lines)? == READY, "{name} is not ready");
            let load = Command::new(&ours)
                .args(["load", &queue, &count.to_string(), &concurrency.to_string()])
                .env("TEMPORAL_ADDRESS", &address)
                .output()?;
            ensure!(load.status.success(), "the load failed: {}", String::from_utf8_lossy(&load.stderr));
            // The end of its input ends it.
            drop(worker.0.stdin.take());
            let cpu_ms = cpu_ms(&next(&mut lines)?).with_context(|| format!("{name} did not say what it took"))?;
            let label = format!("{name} worker, {concurrency} at a time: CPU, ms/workflow");
            println!("  {label}: {:.3}; {}", cpu_ms / f64::from(count), String::from_utf8_lossy(&load.stdout).trim());
            report.add(who.name, &label, cpu_ms / f64::from(count));
        }
    }
    server.terminate()?;
    Ok(())
}

/// Builds a program, optimised as it would be shipped.
fn built(directory: &Path, arguments: &[&str], program: &str) -> Result<PathBuf> {
    println!("building {program}");
    let mut build = Command::new("cargo");
    build.arg("build").args(arguments).current_dir(directory);
    let target =
        if arguments == ["--release"] { process::target_dir().join("bench-rust") } else { process::target_dir() };
    let status = build.env("CARGO_TARGET_DIR", &target).status().context("cargo is needed")?;
    ensure!(status.success(), "{program} cannot be built");
    Ok(target.join(program))
}

/// The number in `cpu 123 ms`.
fn cpu_ms(line: &str) -> Option<f64> {
    line.strip_prefix("cpu ")?.split(' ').next()?.parse().ok()
}

fn next(lines: &mut Lines<BufReader<ChildStdout>>) -> Result<String> {
    Ok(lines.next().context("the worker ended early")??)
}
