//! `cargo xtask simulate`: builds `tools/simulation` and lets worlds live, see docs/internals/evidence.md.
//!
//! `--release` builds it in the release profile, for many worlds; `--sabotage NAME` builds a server with deliberate faults and turns one on;
//! `--sabotages` tries all of them and prints after how many worlds each is found. Everything else is for the program itself.

use std::{fs, path::PathBuf};

use anyhow::{Context, Result, bail};

use crate::workspace::{cargo, command, target};

/// Mistakes that must be found.
const SABOTAGES: [&str; 15] = [
    "ack-before-commit",
    "drop-on-send",
    "evict-tail",
    "forget-messages",
    "forget-timers",
    "forget-waiting-tasks",
    "keep-after-failure",
    "keep-first-wake",
    "no-earlier-wake",
    "no-refill",
    "no-second-look",
    "one-attempt",
    "schedule-forgets-start",
    "stale-query",
    "unknown-is-done",
];
/// Seeds within which each must be found.
const SEEDS: &str = "1-2000";

/// The command.
pub fn command_line(words: &[String]) -> Result<()> {
    let mut words: Vec<&str> = words.iter().map(String::as_str).collect();
    let is_release = take(&mut words, "--release");
    if take(&mut words, "--sabotages") {
        return sabotages(is_release);
    }
    let sabotage = words.iter().position(|word| *word == "--sabotage");
    let sabotage = match sabotage {
        None => None,
        Some(place) if place + 1 < words.len() => {
            words.remove(place);
            Some(words.remove(place))
        }
        Some(_) => bail!("--sabotage needs a name; there are {}", SABOTAGES.join(", ")),
    };
    let program = if sabotage.is_some() { build_sabotaged(is_release)? } else { build(is_release, false)? };
    let mut program = command(program, &words);
    program.envs(sabotage.map(|name| ("SEGNO_SABOTAGE", name)));
    let status = program.status().context("segno-simulation did not start")?;
    if !status.success() {
        bail!("cargo xtask simulate failed ({status})");
    }
    Ok(())
}

fn take(words: &mut Vec<&str>, option: &str) -> bool {
    let before = words.len();
    words.retain(|word| *word != option);
    words.len() < before
}

/// Builds the program from the whole workspace, so that dependencies have the features of the other steps. Gives its path.
fn build(is_release: bool, is_sabotaged: bool) -> Result<PathBuf> {
    let mut build = cargo(&["build", "--workspace", "--bin", "segno-simulation"]);
    if is_release {
        build.arg("--release");
    }
    if is_sabotaged {
        build.args(["--features", "segno-simulation/sabotage"]);
    }
    if !build.status().context("cargo could not be started")?.success() {
        bail!("segno-simulation could not be built");
    }
    Ok(target().join(if is_release { "release" } else { "debug" }).join("segno-simulation"))
}

/// Builds it with faults, and leaves the ordinary build where it was. Gives the path of the faulty one.
fn build_sabotaged(is_release: bool) -> Result<PathBuf> {
    let place = target().join("sabotage");
    fs::create_dir_all(&place)?;
    let faulty = place.join("segno-simulation");
    fs::copy(build(is_release, true)?, &faulty).context("copying the faulty program")?;
    build(is_release, false)?;
    Ok(faulty)
}

/// Tries every sabotage; each must be found.
pub fn sabotages(is_release: bool) -> Result<()> {
    let program = build_sabotaged(is_release)?;
    let mut missed = Vec::new();
    for name in SABOTAGES {
        let mut search = command(&program, &["--seeds", SEEDS, "--until-found"]);
        let output = search.env("SEGNO_SABOTAGE", name).output().context("segno-simulation did not start")?;
        let text = String::from_utf8_lossy(&output.stdout);
        println!("{name}: {}", text.lines().next_back().unwrap_or_default());
        if !output.status.success() {
            missed.push(name);
        }
    }
    if !missed.is_empty() {
        bail!("NOT found: {}", missed.join(", "));
    }
    Ok(())
}
