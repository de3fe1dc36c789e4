//! The step `h2spec` of `cargo xtask test`: a conformance test of HTTP/2 by other people, run against the server.
//!
//! h2spec is a Go program. Without Go, or if it cannot be downloaded, the step is skipped and says so.

use std::{fs, process::Stdio};

use anyhow::{Context, Result, bail};

use crate::{
    test_commands::Commands,
    test_steps::{Outcome, Server},
    workspace::{self, command},
};

const MODULE: &str = "github.com/summerwind/h2spec/cmd/h2spec@v2.2.1+incompatible";

/// A unary call: one that is not complete stays open, so that the cases do not race with the response.
const PATH: &str = "/temporal.api.workflowservice.v1.WorkflowService/GetSystemInfo";

/// Cases that do not fit a gRPC server. Two wait for a DATA frame, but a call without a message is answered with one
/// HEADERS frame. One opens streams beyond the limit, but each is answered before the next arrives.
const EXPECTED_FAILURES: [&str; 3] = [
    "Sends a WINDOW_UPDATE frame on half-closed (remote) stream",
    "Sends a PRIORITY frame on half-closed (remote) stream",
    "Sends HEADERS frames that causes their advertised concurrent stream limit to be exceeded",
];

/// Runs h2spec, strict cases included.
pub fn h2spec(commands: &mut Commands) -> Result<Outcome> {
    let place = workspace::target().join("h2spec");
    let program = place.join("h2spec");
    if !program.exists() {
        let asked = command("go", &["version"]).stdout(Stdio::null()).stderr(Stdio::null()).status();
        if !asked.is_ok_and(|status| status.success()) {
            return Ok(Outcome::Skipped("Go is not installed, with which h2spec is built".to_owned()));
        }
        if let Err(error) = commands.run(command("go", &["install", MODULE]).env("GOBIN", &place)) {
            return Ok(Outcome::Skipped(format!("h2spec cannot be installed: {error}")));
        }
    }
    let server = Server::start("h2spec-server.log")?;
    let (report, port) = (place.join("report.xml"), server.port().to_string());
    // Its exit code says that some case failed; which ones may is decided here.
    let arguments = ["--strict", "--timeout", "5", "--path", PATH, "--port", &port, "--junit-report"];
    let outcome = commands.run(command(&program, &arguments).arg(&report));
    let report = fs::read_to_string(&report).with_context(|| format!("h2spec left no report ({outcome:?})"))?;
    let (cases, failures) = read(&report);
    let unexpected: Vec<_> = failures.into_iter().filter(|case| !EXPECTED_FAILURES.contains(&case.as_str())).collect();
    if cases < 100 || !unexpected.is_empty() {
        bail!("of {cases} cases of h2spec these failed: {}", unexpected.join("; "));
    }
    commands.say(&format!("{cases} cases, none failed but those expected to"));
    Ok(Outcome::Passed)
}

/// How many cases a JUnit report has, and which failed.
fn read(report: &str) -> (usize, Vec<String>) {
    let (mut cases, mut failures, mut case) = (0, Vec::new(), String::new());
    for line in report.lines() {
        if let Some((_, rest)) = line.split_once("<testcase ") {
            cases += 1;
            case = rest.split("classname=\"").nth(1).and_then(|name| name.split('"').next()).unwrap_or(rest).to_owned();
        } else if line.contains("<error") || line.contains("<failure") {
            failures.push(case.clone());
        }
    }
    (cases, failures)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_are_read() {
        let report = r#"<testsuite name="a" errors="1">
            <testcase package="p" classname="Sends one thing" time="0.1"></testcase>
            <testcase package="p" classname="Sends another" time="0.1">
              <error>DATA frame
            </error>
            </testcase>
            <testcase package="p" classname="Skips" time="0.1"><skipped></skipped></testcase>"#;
        assert_eq!(read(report), (3, vec!["Sends another".to_owned()]));
    }
}
