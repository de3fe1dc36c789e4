//! `cargo xtask test --crate NAME`: the Rust tests of one crate, without compiling anything that is above it.
//!
//! `segno-features` goes along, so that dependencies have the features that they have in the whole workspace, and what the whole
//! test has compiled is used.

use std::{fs, time::Instant};

use anyhow::{Context, Result, bail};

use crate::{
    test::print_flaky,
    test_commands::Commands,
    test_flaky::{self, Runner},
    workspace::{self, cargo},
};

/// Where the crates of the workspace are.
const PLACES: [&str; 2] = ["crates", "tools"];

/// The names of all crates.
pub fn all() -> Result<Vec<String>> {
    let mut names = vec!["xtask".to_owned()];
    for place in PLACES {
        for entry in fs::read_dir(workspace::root().join(place)).with_context(|| format!("reading {place}"))? {
            let manifest = entry?.path().join("Cargo.toml");
            let Ok(text) = fs::read_to_string(&manifest) else { continue };
            let name = text.lines().find_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"'));
            names.push(name.with_context(|| format!("{} names no package", manifest.display()))?.to_owned());
        }
    }
    names.sort();
    Ok(names)
}

/// Crates by their names, with commas between; `segno-` may be left out.
fn named(names: &str, all: &[String]) -> Result<Vec<String>> {
    let full = |name: &str| {
        let long = format!("segno-{name}");
        let found = all.iter().find(|known| **known == name || **known == long);
        found.cloned().with_context(|| format!("there is no crate `{name}`; there are {}", all.join(", ")))
    };
    names.split(',').filter(|name| !name.is_empty()).map(full).collect()
}

/// Tests crates.
pub fn command(names: &str) -> Result<()> {
    let names = named(names, &all()?)?;
    if names.is_empty() {
        bail!("--crate needs names of crates, with commas between");
    }
    let begun = Instant::now();
    let mut commands = Commands::of("crate");
    let tests = || {
        let mut tests = cargo(&["test", "--no-fail-fast", "--package", "segno-features"]);
        names.iter().for_each(|name| {
            tests.args(["--package", name]);
        });
        tests
    };
    let outcome = test_flaky::run(&mut commands, Runner::Cargo, tests(), |failed| {
        let mut again = tests();
        again.args(["--", "--exact"]).args(failed);
        again
    });
    print_flaky(commands.flaky().iter().map(|test| ("crate", test)));
    println!("{} after {:.1} s", names.join(", "), begun.elapsed().as_secs_f64());
    outcome.map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crates_are_named_with_or_without_prefix() {
        let all = all().expect("readable");
        assert!(all.iter().any(|name| name == "segno") && all.iter().any(|name| name == "segno-features"));
        assert_eq!(named("engine,segno-store,xtask", &all).expect("known"), ["segno-engine", "segno-store", "xtask"]);
        assert!(named("nonsense", &all).is_err());
    }
}
