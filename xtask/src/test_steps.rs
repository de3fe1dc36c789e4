//! What each step of `cargo xtask test` does.

use std::{
    ffi::OsStr,
    fs::{self, File},
    net::{TcpListener, TcpStream},
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};

use crate::{
    check,
    process::{target_dir, workspace_dir},
};

/// How long the server under test may take to accept connections.
const READY_MAX: Duration = Duration::from_secs(30);
/// Scenarios with which the comparison of transcripts proves that it can fail.
const SABOTAGED: [&str; 3] = ["starting.minimal", "activities.completed", "activity_answers.bad_token"];

/// How a step ended that did not fail.
pub enum Outcome {
    /// It ran and all is well.
    Passed,
    /// It could not run here, for a reason that is nobody's mistake.
    Skipped(String),
}

/// Runs a command to its end, its output going where ours goes.
fn finish(command: &mut Command) -> Result<Outcome> {
    let line: Vec<_> =
        std::iter::once(command.get_program()).chain(command.get_args()).map(OsStr::to_string_lossy).collect();
    let line = line.join(" ");
    println!("$ {line}");
    let status = command.status().with_context(|| format!("`{line}` could not be started"))?;
    if status.success() { Ok(Outcome::Passed) } else { bail!("`{line}` failed ({status})") }
}

/// A command in the workspace's directory.
fn command(program: impl AsRef<OsStr>, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(workspace_dir());
    command
}

fn cargo(arguments: &[&str]) -> Command {
    command(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()), arguments)
}

fn segno() -> PathBuf {
    target_dir().join("release/segno")
}

fn venv_python() -> PathBuf {
    target_dir().join("venv/bin/python")
}

/// See `check.rs`.
pub fn check() -> Result<Outcome> {
    check::run(&workspace_dir()).map(|()| Outcome::Passed)
}

/// Formatting.
pub fn fmt() -> Result<Outcome> {
    finish(&mut cargo(&["fmt", "--all", "--check"]))
}

/// Lints, where clippy is installed.
pub fn clippy() -> Result<Outcome> {
    let asked = cargo(&["clippy", "--version"]).stdout(Stdio::null()).stderr(Stdio::null()).status();
    if !asked.is_ok_and(|status| status.success()) {
        return Ok(Outcome::Skipped("clippy is not installed: rustup component add clippy".to_owned()));
    }
    finish(&mut cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))
}

/// Unit and contract tests.
pub fn rust() -> Result<Outcome> {
    finish(&mut cargo(&["test", "--workspace", "--no-fail-fast"]))
}

/// The binary that all later steps use.
pub fn build() -> Result<Outcome> {
    finish(&mut cargo(&["build", "--release"]))
}

/// A virtual environment with the pinned packages, made anew when the list changes.
pub fn venv() -> Result<Outcome> {
    let requirements = workspace_dir().join("tests/requirements.txt");
    let wanted = fs::read_to_string(&requirements).context("reading tests/requirements.txt")?;
    let place = target_dir().join("venv");
    // Written last: an environment that was cut short has none.
    let stamp = place.join("requirements.stamp");
    if fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted) && venv_python().exists() {
        println!("the packages of tests/requirements.txt are installed");
        return Ok(Outcome::Passed);
    }
    if place.exists() {
        fs::remove_dir_all(&place).context("removing the old environment")?;
    }
    finish(command("python3", &["-m", "venv"]).arg(&place)).context("Python 3.10 or newer is needed")?;
    finish(command(venv_python(), &["-m", "pip", "install", "--quiet", "-r"]).arg(&requirements))?;
    fs::write(stamp, wanted)?;
    Ok(Outcome::Passed)
}

/// A server in memory on free loopback ports; gone when dropped.
struct Server {
    child: Child,
    port: u16,
}

impl Server {
    fn start() -> Result<Self> {
        let log = target_dir().join("transcripts-server.log");
        let output = File::create(&log)?;
        // Both are held until both are known, so that they differ.
        let free = [TcpListener::bind("127.0.0.1:0")?, TcpListener::bind("127.0.0.1:0")?];
        let [port, http_port] = [free[0].local_addr()?.port(), free[1].local_addr()?.port()];
        drop(free);
        let (port_text, http_text) = (port.to_string(), http_port.to_string());
        let arguments = ["serve", "--in-memory", "--port", &port_text, "--http-port", &http_text];
        let child = command(segno(), &arguments)
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()
            .with_context(|| format!("cannot start {}", segno().display()))?;
        let mut server = Self { child, port };
        let begun = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            if server.child.try_wait()?.is_some() || begun.elapsed() > READY_MAX {
                bail!("the server did not start: {}", fs::read_to_string(&log).unwrap_or_default().trim());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Every recorded transcript, and the proof that a difference would be seen.
pub fn transcripts() -> Result<Outcome> {
    let server = Server::start()?;
    let address = format!("127.0.0.1:{}", server.port);
    let checking = |more: &[&str]| {
        let mut checking = command(venv_python(), &["-m", "transcripts", "check", "--address", &address]);
        checking.args(more).current_dir(workspace_dir().join("tests/transcripts"));
        checking
    };
    let sabotaged = checking(&["--sabotage"]).args(SABOTAGED).output().context("the self-test did not start")?;
    let output = String::from_utf8_lossy(&sabotaged.stdout);
    let last = output.lines().last().unwrap_or_default();
    println!("self-test with {} perturbed transcripts: {last}", SABOTAGED.len());
    if sabotaged.status.success() || last != format!("0 passed, {} failed", SABOTAGED.len()) {
        let errors = String::from_utf8_lossy(&sabotaged.stderr);
        bail!("the comparison does not see perturbed transcripts: {last} {errors}");
    }
    finish(&mut checking(&[]))
}

/// Runs `first`; if that fails, says so and runs `again`. Real SDKs with real time-outs on a busy machine now and then
/// miss one; what fails twice is a defect.
fn twice_at_most(mut first: Command, mut again: Command) -> Result<Outcome> {
    match finish(&mut first) {
        Err(error) => {
            println!("!!! {error:#}. What failed is tried once more; look at it even if it passes now");
            finish(&mut again)
        }
        passed => passed,
    }
}

/// The Python tests; they start the server themselves.
pub fn python() -> Result<Outcome> {
    let tests = |more: &[&str]| {
        let mut tests = command(venv_python(), &["-m", "pytest", "-q"]);
        tests.args(more).current_dir(workspace_dir().join("tests/python"));
        tests.env("SEGNO_BIN", segno()).env_remove("SEGNO_ADDRESS");
        tests
    };
    twice_at_most(tests(&[]), tests(&["--last-failed", "--last-failed-no-failures", "none"]))
}

/// The TypeScript tests; they start the server themselves. Packages are installed when the lock file changes.
pub fn typescript() -> Result<Outcome> {
    let place = workspace_dir().join("tests/typescript");
    let wanted = fs::read_to_string(place.join("package-lock.json")).context("reading package-lock.json")?;
    let stamp = place.join("node_modules/.lock.stamp");
    let npm = |arguments: &[&str]| {
        let mut npm = command("npm", arguments);
        npm.current_dir(&place).env("SEGNO_BIN", segno()).env_remove("SEGNO_ADDRESS");
        npm
    };
    if fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted) {
        println!("the packages of package-lock.json are installed");
    } else {
        finish(&mut npm(&["ci"])).context("Node 20.14 or newer with npm is needed")?;
        fs::write(stamp, wanted)?;
    }
    twice_at_most(npm(&["test"]), npm(&["test"]))
}

/// A short run of the crash harness; `cargo xtask crash` alone does many more rounds.
pub fn crash() -> Result<Outcome> {
    finish(&mut cargo(&["xtask", "crash", "--kill-rounds", "5", "--power-rounds", "10"]))
}

/// The harness with a disk that forgets every sync: it must find something missing.
pub fn lie() -> Result<Outcome> {
    finish(&mut cargo(&["xtask", "crash", "--expect-caught", "--lie"]))
}

/// The harness with a server built to acknowledge before it syncs: it must find something missing.
pub fn sabotage() -> Result<Outcome> {
    let place = target_dir().join("sabotage");
    finish(cargo(&["build", "--release", "-p", "segno", "--features", "sabotage", "--target-dir"]).arg(place))?;
    finish(&mut cargo(&["xtask", "crash", "--expect-caught", "--sabotage", "ack-before-sync"]))
}
