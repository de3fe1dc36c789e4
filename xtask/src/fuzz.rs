//! `cargo xtask fuzz`: builds `tools/fuzz` with counters of coverage and lets libFuzzer search.
//!
//! Only our own crates get counters: cargo starts this program instead of rustc for them (`RUSTC_WORKSPACE_WRAPPER`), so that
//! dependencies are those of the other steps. All of it works with a stable compiler. What a search finds interesting
//! stays in `target/fuzz/<target>/`, where the next one begins; an input that breaks something is written beside it.

use std::{
    ffi::{OsStr, OsString},
    fs,
    process::{Command, ExitCode, Stdio},
    thread,
};

use anyhow::{Context, Result, bail, ensure};

use crate::{
    test_commands::Commands,
    workspace::{self, cargo, command},
};

/// Set while this program stands in for rustc.
const AS_RUSTC: &str = "SEGNO_FUZZ_AS_RUSTC";
/// In the order in which they run, two at a time.
const TARGETS: [&str; 7] = ["filters", "hpack", "http2", "nexus", "rows", "schedules", "scripts"];
/// Those that need the whole server, which takes minutes to compile once more: by hand.
const SERVER_TARGETS: [&str; 2] = ["requests", "tokens"];
/// Those of which one input takes seconds: by hand. Their seeds are an ordinary test.
const SLOW_TARGETS: [&str; 1] = ["flow-memory"];
/// A target with a fault that only a search by coverage finds.
const FAULTY: &str = "faulty";
const SECONDS: u32 = 60;
/// An input that takes longer is a finding.
const INPUT_SECONDS_MAX: &str = "-timeout=60";
const MEMORY_MB_MAX: &str = "-rss_limit_mb=3000";

/// `[--seconds N] [target ...]`.
pub fn command_line(words: &[String]) -> Result<()> {
    let all = [&TARGETS[..], &SLOW_TARGETS, &SERVER_TARGETS].concat();
    let mut seconds = SECONDS;
    let mut targets = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--seconds" => seconds = words.next().context("--seconds needs a number")?.parse()?,
            name if all.contains(&name) => targets.push(name),
            name => bail!("there is no target `{name}`; there are {}", all.join(", ")),
        }
    }
    search(&mut Commands::of("fuzz"), if targets.is_empty() { &all } else { &targets }, seconds, None)
}

/// Those that compile quickly, a minute each, always in the same order: what a search finds by chance is not the fault of
/// the change that is being tested.
pub fn shortly(commands: &mut Commands) -> Result<()> {
    search(commands, &TARGETS, SECONDS, Some(1))
}

fn search(commands: &mut Commands, targets: &[&str], seconds: u32, seed: Option<u32>) -> Result<()> {
    let own = std::env::current_exe().context("this program's own path")?;
    // Chosen from the whole workspace, so that dependencies have the features that they have in the other steps.
    let server = if targets.iter().any(|target| SERVER_TARGETS.contains(target)) { ",segno-fuzz/server" } else { "" };
    let features = format!("segno-fuzz/libfuzzer{server}");
    let choice = ["build", "--workspace", "--bin", "segno-fuzz", "--features", &features];
    commands.run(cargo(&choice).env("RUSTC_WORKSPACE_WRAPPER", own).env(AS_RUSTC, "1"))?;
    commands.say("a fault behind four comparisons has to be found first");
    let found = libfuzzer(FAULTY, seconds, None)?.status()?;
    ensure!(!found.success(), "the search did not find the fault of the target `{FAULTY}`: it sees no coverage");
    for pair in targets.chunks(2) {
        let results: Vec<_> = thread::scope(|scope| {
            let running: Vec<_> = pair.iter().map(|target| scope.spawn(|| run(target, seconds, seed))).collect();
            running.into_iter().map(|one| one.join()).collect()
        });
        for result in results {
            result.map_err(|_| anyhow::anyhow!("a thread panicked"))??;
        }
    }
    Ok(())
}

fn run(target: &str, seconds: u32, seed: Option<u32>) -> Result<()> {
    let output = libfuzzer(target, seconds, seed)?.stderr(Stdio::piped()).output()?;
    let text = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        let last: Vec<_> = text.lines().rev().take(60).collect();
        println!("{}", last.into_iter().rev().collect::<Vec<_>>().join("\n"));
        bail!("{target}: see above; the input is in {}", workspace::target().join("fuzz").display());
    }
    let facts = text.lines().rev().find(|line| line.starts_with("Done") || line.contains("DONE"));
    let covered = text.lines().rev().find(|line| line.contains(" cov: ")).unwrap_or_default();
    println!("{target}: {}; {}", facts.unwrap_or_default(), covered.trim());
    Ok(())
}

/// The search of one target, from its seeds and what earlier searches found.
fn libfuzzer(target: &str, seconds: u32, seed: Option<u32>) -> Result<Command> {
    let place = workspace::target().join("fuzz").join(target);
    fs::create_dir_all(&place)?;
    let prefix = format!("-artifact_prefix={}/{target}-", workspace::target().join("fuzz").display());
    let seconds = format!("-max_total_time={seconds}");
    let mut search = command(workspace::target().join("debug/segno-fuzz"), &[]);
    search.args([&seconds, &prefix, INPUT_SECONDS_MAX, MEMORY_MB_MAX, "-len_control=20"]).arg(&place);
    search.args(seed.map(|seed| format!("-seed={seed}")));
    search.env("SEGNO_FUZZ_TARGET", target).env("SEGNO_FUZZ_CORPUS", &place);
    if target == FAULTY {
        search.stderr(Stdio::null());
    }
    Ok(search)
}

/// Whether this process was started in place of rustc, and how that went.
pub fn as_rustc() -> Option<ExitCode> {
    std::env::var_os(AS_RUSTC)?;
    let mut words = std::env::args_os().skip(1);
    let rustc = words.next()?;
    let words: Vec<OsString> = words.collect();
    let mut compile = Command::new(rustc);
    compile.args(&words);
    if has_counters(&words) {
        for flag in COUNTERS {
            compile.arg(flag);
        }
    }
    let status = compile.status();
    Some(match status {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}

/// What libFuzzer needs: a counter for each edge, their places, and the operands of comparisons.
const COUNTERS: [&str; 6] = [
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    // The linker must not drop counters of functions without dropping their places.
    "-Clink-dead-code",
];

/// Build scripts and procedural macros are run by cargo and rustc, which have no libFuzzer.
fn has_counters(words: &[OsString]) -> bool {
    let after = |flag: &str, value: &str| {
        words.windows(2).any(|pair| pair[0] == OsStr::new(flag) && pair[1] == OsStr::new(value))
    };
    after("--crate-type", "lib") || after("--crate-name", "segno_fuzz")
}
