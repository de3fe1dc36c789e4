//! The step `browser`: the web pages in Debian's chromium, driven by playwright, with axe as the judge of accessibility.
//!
//! Chromium comes from Debian's packages, which needs root; playwright from PyPI and axe-core from the npm registry, both
//! below the target directory.

use std::{fs, path::Path};

use anyhow::{Context, Result};

use crate::{
    test_commands::Commands,
    test_flaky::{self, Runner},
    test_steps::{LAST_FAILED, Outcome, segno, venv_python},
    workspace::{self, command},
};

/// The checker of accessibility.
const AXE: &str = "axe-core@4.14.0";

/// The tests in `tests/browser`.
pub fn browser(commands: &mut Commands) -> Result<Outcome> {
    chromium(commands)?;
    let place = workspace::target().join("browser");
    fs::create_dir_all(&place)?;
    let requirements = workspace::root().join("tests/browser/requirements.txt");
    commands.run(
        command(venv_python(), &["-m", "pip", "install", "--quiet", "--progress-bar", "off", "-r"]).arg(requirements),
    )?;
    if !place.join("node_modules/axe-core/axe.min.js").exists() {
        let mut install = command("npm", &["install", "--no-save", "--no-audit", "--no-fund", "--prefix"]);
        commands.run(install.arg(&place).arg(AXE)).context("Node 20.14 or newer with npm is needed")?;
    }
    let tests = |more: &[&str]| {
        let mut tests = command(venv_python(), &["-m", "pytest", "-q", "--durations=10", "--durations-min=2"]);
        tests.args(more).current_dir(workspace::root().join("tests/browser"));
        tests.env("SEGNO_BIN", segno()).env("PYTHONUNBUFFERED", "1");
        tests.env("SEGNO_AXE", place.join("node_modules/axe-core/axe.min.js"));
        tests
    };
    test_flaky::run(commands, Runner::Pytest, tests(&[]), |_| tests(&LAST_FAILED))
}

/// Debian's chromium, installed if it is missing.
fn chromium(commands: &mut Commands) -> Result<()> {
    if std::env::var_os("SEGNO_CHROMIUM").is_some() || Path::new("/usr/bin/chromium").exists() {
        commands.say("chromium is installed");
        return Ok(());
    }
    let needed = "chromium is needed; SEGNO_CHROMIUM names one that is elsewhere";
    commands.run(&mut command("apt-get", &["update"])).context(needed)?;
    let mut install =
        command("apt-get", &["install", "--yes", "--no-install-recommends", "chromium", "fonts-dejavu-core"]);
    commands.run(install.env("DEBIAN_FRONTEND", "noninteractive")).context(needed)
}
