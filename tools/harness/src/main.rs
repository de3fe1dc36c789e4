//! Drives servers of Temporal's protocol: load, benchmarks, crashes and storms. Run as `cargo xtask load|bench|crash|storm`.
//!
//! One module per command; this file only chooses one. Commands talk to servers over the wire and read `/proc`; they use
//! no crate of the server but the wire types, so that what they measure and prove holds for any server of the protocol.

mod args;
mod bench;
mod crash;
mod gauge;
mod load;
mod process;
mod random;
mod storm;
mod wire;

use std::process::ExitCode;

use args::Args;
use mimalloc::MiMalloc;

/// The load driver shares the machine with the server it measures, so it must cost as little as possible.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

const USAGE: &str = "usage: cargo xtask <command> [options]

  load    a workload against a running server, see tools/harness/src/load/mod.rs
  bench   Segno next to Temporal's dev server, see tools/harness/src/bench/mod.rs
  crash   kill and power-cut rounds under load, see tests/crash/README.md
  storm   nodes on PostgreSQL to which something happens under load, see docs/internals/evidence.md";

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let command = words.next().unwrap_or_default();
    let args = Args::new(words.collect());
    let outcome = match command.as_str() {
        "load" => load::command(args),
        "bench" => bench::command(args),
        "crash" => crash::command(args),
        "storm" => storm::command(args),
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
