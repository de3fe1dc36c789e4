//! The project's own tools, run as `cargo xtask <command>`: load driver, benchmark and crash harnesses.
//!
//! One module per command; this file only chooses. Commands talk to servers over the wire and through `/proc`, never
//! through the crates of the server: what they measure and prove holds for any server of the protocol.

mod args;
mod bench;
mod check;
mod check_crates;
mod check_docs;
mod check_source;
mod crash;
mod gauge;
mod load;
mod process;
mod random;
mod test;
mod test_steps;
mod wire;

use std::process::ExitCode;

use args::Args;
use mimalloc::MiMalloc;

/// The load driver shares the machine with the server it measures: the less it costs, the more is left to measure.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

const USAGE: &str = "usage: cargo xtask <command> [options]

  test    everything: rules, unit tests, SDKs, transcripts, crashes; see xtask/src/test.rs
  check   rules about the source itself, see xtask/src/check.rs
  load    a workload against a running server, see xtask/src/load/mod.rs
  bench   Segno next to Temporal's dev server, see xtask/src/bench/mod.rs
  crash   kill and power-cut rounds under load, see tests/crash/README.md";

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let command = words.next().unwrap_or_default();
    let args = Args::new(words.collect());
    let outcome = match command.as_str() {
        "check" => check::command(args),
        "test" => test::command(args),
        "load" => load::command(args),
        "bench" => bench::command(args),
        "crash" => crash::command(args),
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
