//! The project's own commands, run as `cargo xtask <command>`.
//!
//! Small on purpose: it compiles in seconds, so that the rules about the source can be checked on a fresh machine before
//! anything else is built. Everything that talks to a server is in `tools/harness`, which this program builds and starts.

mod check;
mod check_circles;
mod check_crates;
mod check_docs;
mod check_given;
mod check_source;
mod dist;
mod fuzz;
mod simulate;
mod test;
mod test_browser;
mod test_commands;
mod test_crate;
mod test_flaky;
mod test_h2spec;
mod test_schedule;
mod test_sdks;
mod test_steps;
mod workspace;

use std::process::ExitCode;

use anyhow::{Context, Result, bail};

const USAGE: &str = "usage: cargo xtask <command> [options]

  check   rules about the source itself, see xtask/src/check.rs
  dist    the files of a release: static binaries, packages, image, checksums; see xtask/src/dist.rs
  fuzz    coverage-guided fuzzing of all that reads what others wrote, see xtask/src/fuzz.rs
  simulate  the whole server in one thread, in worlds that follow from seeds; see xtask/src/simulate.rs
  test    everything: rules, unit tests, SDKs, transcripts, crashes; see xtask/src/test.rs

Built in the release profile first, see tools/harness:
  load    a workload against a running server, see tools/harness/src/load/mod.rs
  bench   Segno next to Temporal's dev server, see tools/harness/src/bench/mod.rs
  crash   kill and power-cut rounds under load, see tests/crash/README.md
  storm   nodes on PostgreSQL to which something happens under load, see docs/internals/evidence.md";

fn main() -> ExitCode {
    if let Some(code) = fuzz::as_rustc() {
        return code;
    }
    let mut words = std::env::args().skip(1);
    let command = words.next().unwrap_or_default();
    let words: Vec<String> = words.collect();
    let outcome = match command.as_str() {
        "check" => check::command(&words),
        "dist" => dist::command_line(&words),
        "fuzz" => fuzz::command_line(&words),
        "simulate" => simulate::command_line(&words),
        "test" => test::command(&words),
        "load" | "bench" | "crash" | "storm" => harness(&command, &words),
        _ => Err(anyhow::anyhow!("{USAGE}")),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Builds the harness and runs one of its commands; cargo shows what it compiles, the harness what it does.
fn harness(command: &str, words: &[String]) -> Result<()> {
    // The server is named for its features only: with those of the harness alone, cargo would compile shared
    // dependencies once more.
    let both = ["--package", "segno", "--package", "segno-harness", "--bin", "segno-harness"];
    let build = workspace::cargo(&["build", "--release"]).args(both).status().context("cargo could not be started")?;
    if !build.success() {
        bail!("segno-harness could not be built ({build})");
    }
    let binary = workspace::target().join("release/segno-harness");
    let status = workspace::command(binary, &[command]).args(words).status().context("segno-harness did not start")?;
    if !status.success() {
        bail!("cargo xtask {command} failed ({status})");
    }
    Ok(())
}
