//! One-activity workflows with Temporal's own SDKs: what a user would feel. The scripts are in `bench/`.

use std::{
    io::{BufRead, BufReader, Lines},
    path::PathBuf,
    process::{ChildStdout, Command, Stdio},
};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tokio::runtime::Runtime;

use super::{measure::Contender, programs, programs::Program, report::Report};
use crate::{gauge::Gauge, process};

/// Longest that one run takes new work, in seconds.
const SECONDS_MAX: usize = 20;

/// Runs the script of a language against a fresh server, many workflows at a time and one at a time.
pub fn measure(
    who: &Contender,
    language: &str,
    quick: bool,
    python: Option<PathBuf>,
    runtime: &Runtime,
    report: &mut Report,
) -> Result<()> {
    let script = || -> Result<Command> {
        if language == "python" {
            let mut command = Command::new(programs::python(python.clone())?);
            command.arg(process::workspace_dir().join("bench/python/main.py"));
            return Ok(command);
        }
        let mut command = Command::new("node");
        command.arg("main.js").current_dir(programs::installed(language)?);
        Ok(command)
    };
    let mut server = who.plan.spawn()?;
    runtime.block_on(server.ready())?;
    for (count, concurrency) in [(4_000, 64), (200, 1)] {
        let count: usize = if quick { count / 20 } else { count };
        let mut command = script()?;
        let address = format!("127.0.0.1:{}", who.plan.port);
        command.args([address, count.to_string(), concurrency.to_string(), SECONDS_MAX.to_string()]);
        let label = format!("{language} SDK, {concurrency} at a time");
        one(&label, who.name, &server.gauge(), command, report).with_context(|| label.clone())?;
    }
    server.terminate()?;
    Ok(())
}

fn one(label: &str, name: &str, gauge: &Gauge, mut command: Command, report: &mut Report) -> Result<()> {
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let child = command.spawn().with_context(|| format!("cannot start {}", command.get_program().display()))?;
    let mut program = Program(child);
    let mut lines = BufReader::new(program.0.stdout.take().context("no output")?).lines();
    ensure!(next(&mut lines)? == "ready", "the script did not come to its measured part");
    let before = gauge.read()?;
    let figures: Value = serde_json::from_str(&next(&mut lines)?).context("no figures")?;
    let cost = gauge.read()?.since(&before);
    let number = |field: &str| figures[field].as_f64().with_context(|| format!("no `{field}`"));
    let count = number("count")?;
    println!("  {label}: {:.0}/s, p50 {:.2} ms", count / number("seconds")?, number("p50_ms")?);
    report.add(name, &format!("{label}: workflows/s"), count / number("seconds")?);
    report.add(name, &format!("{label}: p50, ms"), number("p50_ms")?);
    report.add(name, &format!("{label}: p99, ms"), number("p99_ms")?);
    report.add(name, &format!("{label}: server CPU, ms/workflow"), cost.cpu_ms / count);
    ensure!(program.0.wait()?.success(), "the script failed");
    Ok(())
}

fn next(lines: &mut Lines<BufReader<ChildStdout>>) -> Result<String> {
    Ok(lines.next().context("the script ended early")??)
}
