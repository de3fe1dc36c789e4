//! Repeats the tests that failed, and only these.
//!
//! Tests with real time-outs on a busy machine now and then miss one. A test that fails and then passes is flaky: it is named and
//! counted, and above a budget for the whole run (see `test.rs`) the run fails. A test that fails twice is a defect. If the names
//! of all failed tests cannot be told from the output, as after a crash, nothing is repeated.

use std::process::Command;

use anyhow::{Result, bail};

use crate::{
    test_commands::{Commands, Output},
    test_steps::Outcome,
};

/// How a program that runs tests says which failed.
#[derive(Clone, Copy)]
pub enum Runner {
    /// `cargo test --no-fail-fast`.
    Cargo,
    /// pytest, with the lines `FAILED` and `ERROR` of its summary.
    Pytest,
    /// Node's test runner with the reporter `spec`.
    Node,
}

/// Runs tests; `again` makes the command that runs these tests alone.
pub fn run(
    commands: &mut Commands,
    runner: Runner,
    mut first: Command,
    again: impl FnOnce(&[String]) -> Command,
) -> Result<Outcome> {
    let output = commands.output(&mut first)?;
    if output.status.success() {
        return Ok(Outcome::Passed);
    }
    let failed = match runner {
        Runner::Cargo => failed_in_cargo(&output.lines),
        Runner::Pytest if output.status.code() == Some(1) => Some(failed_in_pytest(&output.lines)),
        Runner::Pytest => None,
        Runner::Node => Some(failed_in_node(&output.lines)),
    };
    let Some(failed) = failed.filter(|failed| !failed.is_empty()) else {
        bail!("tests failed ({}), and not all of them can be named", output.status);
    };
    commands.say(&format!("{} failed and are repeated: {}", failed.len(), failed.join(", ")));
    let output = commands.output(&mut again(&failed))?;
    if !output.status.success() {
        bail!("failed twice: see above; failed at first: {}", failed.join(", "));
    }
    let passed = passed(runner, &output);
    if passed < failed.len() {
        bail!("{passed} tests were repeated instead of {}: {}", failed.len(), failed.join(", "));
    }
    failed.into_iter().for_each(|test| commands.add_flaky(test));
    Ok(Outcome::Passed)
}

/// The tests that failed, unless there is a failure without the name of a test.
fn failed_in_cargo(lines: &[String]) -> Option<Vec<String>> {
    let mut failed: Vec<_> = lines
        .iter()
        .filter_map(|line| line.strip_prefix("test ")?.strip_suffix(" ... FAILED"))
        .map(|name| name.trim_end_matches(" - should panic").to_owned())
        .collect();
    failed.sort();
    failed.dedup();
    // Cargo lists each target that failed; one that crashed or was not compiled has no result of tests.
    let targets = lines.iter().filter(|line| line.trim_start().starts_with("`-p ")).count();
    let single = lines.iter().any(|line| line.contains("to rerun pass `"));
    let results = lines.iter().filter(|line| line.starts_with("test result: FAILED")).count();
    (targets.max(usize::from(single)) == results).then_some(failed)
}

fn failed_in_pytest(lines: &[String]) -> Vec<String> {
    let named = |line: &String| {
        let rest = line.strip_prefix("FAILED ").or_else(|| line.strip_prefix("ERROR "))?;
        let name = rest.split(" - ").next()?.trim();
        name.contains("::").then(|| name.to_owned())
    };
    let mut failed: Vec<_> = lines.iter().filter_map(named).collect();
    failed.sort();
    failed.dedup();
    failed
}

/// The list at the end: `✖ name (12.3ms)` without indentation.
fn failed_in_node(lines: &[String]) -> Vec<String> {
    let list = lines.iter().skip_while(|line| !line.starts_with("✖ failing tests:")).skip(1);
    let name = |line: &String| {
        let (name, _) = line.strip_prefix("✖ ")?.rsplit_once(" (")?;
        Some(name.to_owned())
    };
    let mut failed: Vec<_> = list.filter_map(name).collect();
    failed.sort();
    failed.dedup();
    failed
}

/// How many tests passed.
fn passed(runner: Runner, output: &Output) -> usize {
    let before = |line: &str, word: &str| -> Option<usize> {
        let (head, _) = line.split_once(word)?;
        head.rsplit([' ', '=']).next()?.parse().ok()
    };
    let counts = output.lines.iter().filter_map(|line| match runner {
        Runner::Cargo => before(line.strip_prefix("test result: ok.")?, " passed"),
        Runner::Pytest => before(line, " passed"),
        Runner::Node => line.strip_prefix("ℹ pass ")?.trim().parse().ok(),
    });
    counts.sum()
}

/// A pattern for Node's `--test-name-pattern` that fits this name alone.
pub fn node_pattern(name: &str) -> String {
    let mut pattern = String::new();
    for character in name.chars() {
        if "\\^$.|?*+()[]{}/".contains(character) {
            pattern.push('\\');
        }
        pattern.push(character);
    }
    pattern.push('$');
    pattern
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(str::to_owned).collect()
    }

    const CARGO: &str = "     Running unittests src/lib.rs (target/debug/deps/a-0)\n\
        test one ... ok\ntest two::three ... FAILED\ntest four - should panic ... FAILED\n\
        failures:\n    two::three\n\ntest result: FAILED. 1 passed; 2 failed; 0 ignored\n\
        error: 1 target failed:\n    `-p a --lib`";

    #[test]
    fn cargo_names_what_failed() {
        assert_eq!(failed_in_cargo(&lines(CARGO)), Some(vec!["four".to_owned(), "two::three".to_owned()]));
        let crashed = CARGO.replace("1 target", "2 targets") + "\n    `-p b --test c`";
        assert_eq!(failed_in_cargo(&lines(&crashed)), None);
        let one =
            "test a ... FAILED\ntest result: FAILED. 0 passed\nerror: test failed, to rerun pass `-p a --test sdk`";
        assert_eq!(failed_in_cargo(&lines(one)), Some(vec!["a".to_owned()]));
        assert_eq!(failed_in_cargo(&lines("error: test failed, to rerun pass `--lib`\n(signal: 6)")), None);
    }

    #[test]
    fn pytest_names_what_failed() {
        let text =
            "..F.\nFAILED test_a.py::test_b[1 - x] - AssertionError: 1\nERROR test_c.py::test_d\nERROR test_e.py\n";
        // A parameter with ` - ` is cut. Only the report has it so: pytest itself remembers what to repeat.
        assert_eq!(failed_in_pytest(&lines(text)), ["test_a.py::test_b[1", "test_c.py::test_d"]);
    }

    #[test]
    fn node_names_what_failed() {
        let text =
            "▶ all\n  ✖ in (a) tree (3.1ms)\n✖ failing tests:\n\ntest at dist/a.js:1:2\n✖ in (a) tree (3.1ms)\n  Error";
        assert_eq!(failed_in_node(&lines(text)), ["in (a) tree"]);
        assert_eq!(node_pattern("in (a) tree"), "in \\(a\\) tree$");
    }

    /// The first command fails as cargo does; what the second prints is given.
    fn repeated(second: &'static str) -> (Result<Outcome>, Commands) {
        let mut commands = Commands::of("step");
        let script = |text: &str, code: i32| {
            let mut command = Command::new("sh");
            command.args(["-c", "printf '%s\\n' \"$0\"; exit \"$1\"", text, &code.to_string()]);
            command
        };
        let times = Cell::new(0);
        let outcome = run(&mut commands, Runner::Cargo, script(CARGO, 101), |failed| {
            times.set(times.get() + 1);
            assert_eq!(failed, ["four", "two::three"]);
            script(second, i32::from(second.contains("FAILED")))
        });
        assert_eq!(times.get(), 1);
        (outcome, commands)
    }

    #[test]
    fn what_passes_when_it_is_repeated_is_flaky() {
        let (outcome, commands) = repeated("test result: ok. 1 passed; 0 failed\ntest result: ok. 1 passed; 0 failed");
        assert!(outcome.is_ok());
        assert_eq!(commands.flaky(), ["four", "two::three"]);
    }

    #[test]
    fn what_fails_twice_or_is_not_repeated_fails() {
        for second in ["test result: FAILED. 1 passed; 1 failed", "test result: ok. 1 passed; 0 failed", ""] {
            let (outcome, commands) = repeated(second);
            assert!(outcome.is_err() && commands.flaky().is_empty(), "{second}");
        }
    }
}
