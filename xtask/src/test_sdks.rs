//! The steps `go` and `java` of `cargo xtask test --full`: Temporal's SDKs for these languages, client and worker, over TLS,
//! mutual TLS and with API keys, and the quick starts and recipes in these languages as `docs/` has them.
//!
//! The sources are in `tests/go` and `tests/java`. Without Go, or without Java and Maven, a step is skipped and says so.

use std::process::Stdio;

use anyhow::Result;

use crate::{
    test_commands::Commands,
    test_steps::{Outcome, segno, venv_python},
    workspace::{self, command},
};

/// The Go SDK.
pub fn go(commands: &mut Commands) -> Result<Outcome> {
    if !answers("go", "version") {
        return Ok(Outcome::Skipped("Go is not installed".to_owned()));
    }
    // Results are not kept from run to run: the server is another one.
    let mut tests = command("go", &["test", "-count=1", "-timeout=300s", "./..."]);
    commands.run(tests.current_dir(workspace::root().join("tests/go")).env("SEGNO_BIN", segno()))?;
    documented_programs("go", commands)
}

/// The Java SDK.
pub fn java(commands: &mut Commands) -> Result<Outcome> {
    if !answers("java", "-version") || !answers("mvn", "--version") {
        return Ok(Outcome::Skipped("Java or Maven is not installed".to_owned()));
    }
    let place = format!("-Dbuild.place={}", workspace::target().join("java").display());
    let mut tests = command("mvn", &["--quiet", "--batch-mode", &place, "test"]);
    commands.run(tests.current_dir(workspace::root().join("tests/java")).env("SEGNO_BIN", segno()))?;
    documented_programs("java", commands)
}

fn answers(program: &str, argument: &str) -> bool {
    let asked = command(program, &[argument]).stdout(Stdio::null()).stderr(Stdio::null()).status();
    asked.is_ok_and(|status| status.success())
}

/// The page with commands, and the recipes, that need this tool, which the step `docs` leaves out.
fn documented_programs(tool: &str, commands: &mut Commands) -> Result<Outcome> {
    let chosen = format!("quickstart or (programs and {tool})");
    let mut page = command(venv_python(), &["-m", "pytest", "-q", "--timeout=900", "-k", &chosen]);
    page.current_dir(workspace::root().join("tests/docs"));
    page.env("SEGNO_BIN", segno()).env("DOCS_TARGET", workspace::target()).env("DOCS_TOOLS", tool);
    commands.run(&mut page)?;
    Ok(Outcome::Passed)
}
