//! What each step of `cargo xtask test` does.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};

use crate::{
    dist, fuzz, simulate,
    test_commands::Commands,
    test_crate,
    test_flaky::{self, Runner, node_pattern},
    workspace::{self, cargo, command},
};

/// How long the server under test may take to accept connections.
const READY_MAX: Duration = Duration::from_secs(30);
/// Scenarios with which the comparison of transcripts proves that it can fail.
const SABOTAGED: [&str; 3] = ["starting.minimal", "activities.completed", "activity_answers.bad_token"];

/// Processes that run Python tests.
const PYTHON_PROCESSES: &str = "3";
/// The Python test that plays every transcript. It is a step of its own: beside other tests its time-outs of a second are missed.
const TRANSCRIPTS_ON_POSTGRES: &str = "test_transcripts_on_postgresql.py";
/// The Python test that installs the packages of a release. It is a step of its own: it does not depend on the store.
const PACKAGES: &str = "test_packages.py";

/// What has pytest run the tests that failed, and nothing if it knows of none.
pub(crate) const LAST_FAILED: [&str; 3] = ["--last-failed", "--last-failed-no-failures", "none"];

/// Faults of a cluster that the storm must notice, and what happens to it meanwhile.
const STORM_SABOTAGES: [(&str, &str); 11] = [
    ("ack-before-commit", "kill-and-start,database-immediate"),
    ("drop-on-send", "kill-and-start,split"),
    ("fence-without-beat", "short-pause"),
    ("ignore-revisions", "silent-changes"),
    ("ignore-warning", "failover-behind"),
    ("no-fence", "database-silent,pause"),
    ("old-routing", "kill,leave"),
    ("serve-after-lease", "database-silent,pause"),
    ("two-owners", "leave,kill"),
    ("unknown-is-not-done", "cut-answers"),
    ("wake-by-scan", SCANS),
];

/// What makes nodes take runs over.
const SCANS: &str = "kill,kill-and-start,pause";

/// The contract test that fails when a store does not compare versions.
const VERSIONS: &str = "contract: a wrong version conflicts";

/// How a step ended that did not fail.
pub enum Outcome {
    /// It ran and all is well.
    Passed,
    /// It could not run here, for a reason outside the repository.
    Skipped(String),
}

/// The server that all steps test: of the dev profile, which has the engine's assertions and checks for overflow, and
/// whose dependencies the step `compile` compiles as well. The step `release` tests the released build.
pub(crate) fn segno() -> PathBuf {
    workspace::target().join("debug/segno")
}

fn harness(arguments: &[&str]) -> Command {
    command(workspace::target().join("debug/segno-harness"), arguments)
}

pub(crate) fn venv_python() -> PathBuf {
    workspace::target().join("venv/bin/python")
}

/// See `check.rs`.
pub fn check(commands: &mut Commands) -> Result<Outcome> {
    let program = std::env::current_exe().context("the path of this program")?;
    commands.run(&mut command(program, &["check"]))?;
    Ok(Outcome::Passed)
}

/// Formatting.
pub fn fmt(commands: &mut Commands) -> Result<Outcome> {
    commands.run(&mut cargo(&["fmt", "--all", "--check"]))?;
    Ok(Outcome::Passed)
}

/// Lints, where clippy is installed.
pub fn clippy(commands: &mut Commands) -> Result<Outcome> {
    let asked = cargo(&["clippy", "--version"]).stdout(Stdio::null()).stderr(Stdio::null()).status();
    if !asked.is_ok_and(|status| status.success()) {
        return Ok(Outcome::Skipped("clippy is not installed: rustup component add clippy".to_owned()));
    }
    // With the fuzz targets that nothing else compiles.
    let words = ["clippy", "--workspace", "--all-targets", "--features", "segno-fuzz/server", "--", "-D", "warnings"];
    commands.run(&mut cargo(&words))?;
    Ok(Outcome::Passed)
}

/// The documentation of the crates that are published, without warnings. With `segno-features`, so that cargo shares what the step `clippy`
/// has compiled.
pub fn doc(commands: &mut Commands) -> Result<Outcome> {
    let mut doc = cargo(&["doc", "--no-deps", "--package", "segno-features"]);
    for published in ["segno-proto", "segno-proto-json", "segno-sdk-macros", "segno-sdk"] {
        doc.args(["--package", published]);
    }
    commands.run(doc.env("RUSTDOCFLAGS", "-D warnings"))?;
    Ok(Outcome::Passed)
}

/// PostgreSQL for the tests of the store on it, which start servers of their own, and pgbouncer for the storm. Where they are
/// missing they are installed from Debian's packages, which needs root. The storm can do without pgbouncer, and says so.
pub fn postgres(commands: &mut Commands) -> Result<Outcome> {
    let debian =
        fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten().map(|entry| entry.path().join("bin"));
    let in_path = std::env::var_os("PATH").unwrap_or_default();
    let named = std::env::var_os("SEGNO_POSTGRES_BIN").map(PathBuf::from);
    let mut places = debian.chain(std::env::split_paths(&in_path)).chain(named);
    if places.any(|place| place.join("initdb").exists() && place.join("postgres").exists()) {
        commands.say("PostgreSQL is installed");
    } else {
        install("postgresql", commands).context("PostgreSQL 15 or newer is needed")?;
    }
    if has_pgbouncer() {
        commands.say("pgbouncer is installed");
    } else if let Err(error) = install("pgbouncer", commands) {
        commands.say(&format!("!!! {error:#}. There is no pgbouncer: the storm leaves out the fault `pgbouncer`"));
    }
    Ok(Outcome::Passed)
}

fn has_pgbouncer() -> bool {
    let in_path = std::env::var_os("PATH").unwrap_or_default();
    let mut places = ["/usr/sbin".into()].into_iter().chain(std::env::split_paths(&in_path));
    std::env::var_os("SEGNO_PGBOUNCER").is_some() || places.any(|place| place.join("pgbouncer").exists())
}

fn install(package: &str, commands: &mut Commands) -> Result<()> {
    commands.run(&mut command("apt-get", &["update"]))?;
    let mut install = command("apt-get", &["install", "--yes", "--no-install-recommends", package]);
    commands.run(install.env("DEBIAN_FRONTEND", "noninteractive"))
}

/// The server on PostgreSQL: it starts, works, survives a restart of the database and its own end.
pub fn store(commands: &mut Commands) -> Result<Outcome> {
    let mut tests = cargo(&["test", "--workspace", "--test", "store_postgres", "--", "--ignored", "serve::"]);
    commands.run(tests.env("SEGNO_BIN", segno()))?;
    Ok(Outcome::Passed)
}

/// What the Rust tests and those of the documentation run, so that the time for compiling and the time for testing are told apart.
pub fn compile(commands: &mut Commands) -> Result<Outcome> {
    commands.run(&mut cargo(&["test", "--workspace", "--no-run"]))?;
    commands.run(&mut cargo(&["build", "--workspace", "--examples"]))?;
    Ok(Outcome::Passed)
}

/// Unit and contract tests.
pub fn rust(commands: &mut Commands) -> Result<Outcome> {
    let tests = cargo(&["test", "--workspace", "--no-fail-fast"]);
    test_flaky::run(commands, Runner::Cargo, tests, |failed| {
        let mut again = cargo(&["test", "--workspace", "--no-fail-fast", "--", "--exact"]);
        again.args(failed);
        again
    })
}

/// The binaries that all later steps use. Chosen from the whole workspace, as in the step `rust`: with the features of a
/// part of it, cargo would compile many dependencies once more.
pub fn build(commands: &mut Commands) -> Result<Outcome> {
    features_are_unified()?;
    commands.run(&mut cargo(&["build", "--workspace", "--bin", "segno", "--bin", "segno-harness"]))?;
    Ok(Outcome::Passed)
}

/// Whether builds of the workspace and of each crate with `segno-features` take the same features of every package as
/// `cargo test --workspace`.
fn features_are_unified() -> Result<()> {
    let packages = |choice: &[&str], edges: &str| -> Result<BTreeSet<String>> {
        let mut tree = cargo(&["tree", "--edges", edges, "--prefix", "none", "--format", "{p} [{f}]"]);
        let output = tree.args(choice).output().context("cargo tree did not start")?;
        if !output.status.success() {
            bail!("cargo tree: {}", String::from_utf8_lossy(&output.stderr));
        }
        let text = String::from_utf8_lossy(&output.stdout);
        Ok(text.lines().map(|line| line.trim_end_matches(" (*)").to_owned()).collect())
    };
    let tested = packages(&["--workspace"], "normal,build,dev")?;
    let mut others = packages(&["--workspace"], "normal,build")?;
    for crate_name in test_crate::all()? {
        let choice = ["--package", &crate_name, "--package", "segno-features"];
        others.append(&mut packages(&choice, "normal,build,dev")?);
    }
    let twice: Vec<_> = others.difference(&tested).map(String::as_str).collect();
    if !twice.is_empty() {
        bail!(
            "with these features only a part of the workspace is built, so cargo compiles them and all above them again after the \
             tests; add what the whole has more to tools/features/Cargo.toml:\n{}",
            twice.join("\n")
        );
    }
    Ok(())
}

/// See `fuzz.rs`.
pub fn fuzz(commands: &mut Commands) -> Result<Outcome> {
    fuzz::shortly(commands)?;
    Ok(Outcome::Passed)
}

/// A virtual environment with the pinned packages, made anew when the list changes.
pub fn venv(commands: &mut Commands) -> Result<Outcome> {
    let requirements = workspace::root().join("tests/requirements.txt");
    let wanted = fs::read_to_string(&requirements).context("reading tests/requirements.txt")?;
    let place = workspace::target().join("venv");
    // Written last: an environment that was cut short has none.
    let stamp = place.join("requirements.stamp");
    if fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted) && venv_python().exists() {
        commands.say("the packages of tests/requirements.txt are installed");
        return Ok(Outcome::Passed);
    }
    if place.exists() {
        fs::remove_dir_all(&place).context("removing the old environment")?;
    }
    commands.run(command("python3", &["-m", "venv"]).arg(&place)).context("Python 3.10 or newer is needed")?;
    commands
        .run(command(venv_python(), &["-m", "pip", "install", "--progress-bar", "off", "-r"]).arg(&requirements))?;
    fs::write(stamp, wanted)?;
    Ok(Outcome::Passed)
}

/// A server in memory on free loopback ports; gone when dropped.
pub(crate) struct Server {
    child: Child,
    port: u16,
}

impl Server {
    /// Its port for gRPC.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Starts one of the dev profile; its output goes to this file below the target directory.
    pub(crate) fn start(log: &str) -> Result<Self> {
        Self::start_binary(&segno(), log)
    }

    fn start_binary(binary: &Path, log: &str) -> Result<Self> {
        let log = workspace::target().join(log);
        let output = File::create(&log)?;
        // Both are held until both are known, so that they differ.
        let free = [TcpListener::bind("127.0.0.1:0")?, TcpListener::bind("127.0.0.1:0")?];
        let [port, http_port] = [free[0].local_addr()?.port(), free[1].local_addr()?.port()];
        drop(free);
        let (port_text, http_text) = (port.to_string(), http_port.to_string());
        let arguments = ["serve", "--in-memory", "--port", &port_text, "--http-port", &http_text];
        let child = command(binary, &arguments)
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()
            .with_context(|| format!("cannot start {}", binary.display()))?;
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

/// The example scripts: their style, and their tests.
pub fn flows(commands: &mut Commands) -> Result<Outcome> {
    let examples = ["examples/flow", "examples/recipes/flow"].map(|place| workspace::root().join(place));
    let mut files = Vec::new();
    for place in &examples {
        for entry in fs::read_dir(place).with_context(|| format!("{} cannot be read", place.display()))? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "flow") {
                files.push(path);
            }
        }
    }
    files.sort();
    let segno = segno();
    let mut fmt = command(&segno, &["flow", "fmt", "--check"]);
    commands.run(fmt.args(&files))?;
    let mut check = command(&segno, &["flow", "check"]);
    commands.run(check.args(&files))?;
    let mut test = command(&segno, &["flow", "test"]);
    commands.run(test.args(&examples))?;
    Ok(Outcome::Passed)
}

/// Every recorded transcript, and the proof that a difference would be seen.
pub fn transcripts(commands: &mut Commands) -> Result<Outcome> {
    transcripts_of(&segno(), commands)
}

fn transcripts_of(binary: &Path, commands: &mut Commands) -> Result<Outcome> {
    let server = Server::start_binary(binary, "transcripts-server.log")?;
    let address = format!("127.0.0.1:{}", server.port);
    let checking = |more: &[&str]| {
        let mut checking = command(venv_python(), &["-m", "transcripts", "check", "--address", &address]);
        checking.args(more).current_dir(workspace::root().join("tests/transcripts"));
        checking
    };
    let sabotaged = checking(&["--sabotage"]).args(SABOTAGED).output().context("the self-test did not start")?;
    let output = String::from_utf8_lossy(&sabotaged.stdout);
    let last = output.lines().last().unwrap_or_default();
    commands.say(&format!("self-test with {} perturbed transcripts: {last}", SABOTAGED.len()));
    if sabotaged.status.success() || last != format!("0 passed, {} failed", SABOTAGED.len()) {
        let errors = String::from_utf8_lossy(&sabotaged.stderr);
        bail!("the comparison does not see perturbed transcripts: {last} {errors}");
    }
    commands.run(&mut checking(&[]))?;
    Ok(Outcome::Passed)
}

/// The Python tests; they start the server themselves. Most of them wait most of the time, so several files run at once,
/// each process with servers of its own (see `tests/python/conftest.py`).
pub fn python(commands: &mut Commands) -> Result<Outcome> {
    python_on("memory", commands)
}

/// The same with every server that would store in memory on a PostgreSQL instead.
pub fn python_on_postgres(commands: &mut Commands) -> Result<Outcome> {
    python_on("postgres", commands)
}

/// Every transcript on a server on PostgreSQL.
pub fn transcripts_on_postgres(commands: &mut Commands) -> Result<Outcome> {
    commands.run(pytest().arg(TRANSCRIPTS_ON_POSTGRES))?;
    Ok(Outcome::Passed)
}

/// Packages of the server under test, installed and run; see `deploy/packages`.
pub fn packages(commands: &mut Commands) -> Result<Outcome> {
    commands.run(pytest().arg(PACKAGES))?;
    Ok(Outcome::Passed)
}

/// Tests in `tests/python`, with the server of this checkout.
fn pytest() -> Command {
    let mut tests = command(venv_python(), &["-m", "pytest", "-q", "--durations=15", "--durations-min=2"]);
    tests.current_dir(workspace::root().join("tests/python"));
    // Unbuffered, so that progress is seen also where the output is a pipe.
    tests.env("SEGNO_BIN", segno()).env_remove("SEGNO_ADDRESS").env("PYTHONUNBUFFERED", "1");
    tests
}

fn python_on(store: &str, commands: &mut Commands) -> Result<Outcome> {
    let cache = format!("cache_dir={}", workspace::target().join("pytest").join(store).display());
    let tests = |more: &[&str]| {
        let mut tests = pytest();
        tests
            .args(["--ignore", TRANSCRIPTS_ON_POSTGRES, "--ignore", PACKAGES, "-o", &cache])
            .args(more)
            .env("SEGNO_TEST_STORE", store);
        // The second run comes with `--full` alone.
        tests.env("SEGNO_DEPLOYMENT_KILLS", if store == "postgres" { "100" } else { "10" });
        tests
    };
    test_flaky::run(commands, Runner::Pytest, tests(&["--numprocesses", PYTHON_PROCESSES]), |_| tests(&LAST_FAILED))
}

/// Tests of the Rust SDK that need a server: against ours, and against Temporal's, where what only Segno does is left
/// out. Without either they would prove nothing, so the plain `cargo test` ignores them.
pub fn sdk(commands: &mut Commands) -> Result<Outcome> {
    let temporal = workspace::target().join("venv/bin/temporal");
    if !temporal.exists() {
        bail!("{} is missing; remove the directory venv and run the step `venv` again", temporal.display());
    }
    commands.run(&mut cargo(&["build", "--workspace", "--examples"])).context("tests run the examples")?;
    let mut tests_on = |server: &Path, skipped: &[&str]| {
        let tests = |more: &[&str]| {
            // Of the whole workspace, as in `build`.
            let mut tests = cargo(&["test", "--workspace", "--test", "sdk", "--no-fail-fast", "--", "--ignored"]);
            // Each starts a server of its own; most of them wait most of the time.
            tests.args(["--test-threads", "4"]).args(more);
            tests.env("SEGNO_BIN", server).env("SEGNO_PYTHON", venv_python());
            tests
        };
        let mut first = tests(&["worker::"]);
        first.args(skipped);
        test_flaky::run(commands, Runner::Cargo, first, |failed| {
            let mut again = tests(&["--exact"]);
            again.args(failed);
            again
        })
    };
    tests_on(&segno(), &[])?;
    tests_on(&temporal, &["--skip", "segno_only"])
}

/// The TypeScript tests; they start the server themselves. Packages are installed when the lock file changes.
pub fn typescript(commands: &mut Commands) -> Result<Outcome> {
    let place = workspace::root().join("tests/typescript");
    let wanted = fs::read_to_string(place.join("package-lock.json")).context("reading package-lock.json")?;
    let stamp = place.join("node_modules/.lock.stamp");
    let npm = |arguments: &[&str]| {
        let mut npm = command("npm", arguments);
        npm.current_dir(&place).env("SEGNO_BIN", segno()).env_remove("SEGNO_ADDRESS");
        npm
    };
    if fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted) {
        commands.say("the packages of package-lock.json are installed");
    } else {
        commands.run(&mut npm(&["ci"])).context("Node 20.14 or newer with npm is needed")?;
        fs::write(stamp, wanted)?;
    }
    commands.run(&mut npm(&["run", "build"]))?;
    // As `npm test` does, which takes no patterns.
    let tests = |patterns: &[String]| {
        let mut tests = command("node", &["--test", "--test-force-exit", "--test-reporter=spec"]);
        tests.args(patterns).arg("dist/main.js").current_dir(&place);
        tests.env("SEGNO_BIN", segno()).env_remove("SEGNO_ADDRESS");
        tests
    };
    test_flaky::run(commands, Runner::Node, tests(&[]), |failed| {
        let pattern = |name: &String| format!("--test-name-pattern={}", node_pattern(name));
        tests(&failed.iter().map(pattern).collect::<Vec<_>>())
    })
}

/// Commands that stand in README.md and docs/, and the proof that a wrong one would be seen. The examples in Rust come from the step
/// `compile`, the packages of the examples in TypeScript from the step `typescript`.
pub fn docs(commands: &mut Commands) -> Result<Outcome> {
    let tests = |more: &[&str]| {
        let mut tests = command(venv_python(), &["-m", "pytest", "-q", "--numprocesses", PYTHON_PROCESSES]);
        tests.args(more).current_dir(workspace::root().join("tests/docs"));
        tests.env("SEGNO_BIN", segno()).env("DOCS_TARGET", workspace::target()).env("PYTHONUNBUFFERED", "1");
        tests
    };
    test_flaky::run(commands, Runner::Pytest, tests(&[]), |_| tests(&LAST_FAILED))
}

/// A short run of the crash harness; `cargo xtask crash` alone does many more rounds.
pub fn crash(commands: &mut Commands) -> Result<Outcome> {
    commands.run(harness(&["crash", "--kill-rounds", "5", "--power-rounds", "10", "--binary"]).arg(segno()))?;
    Ok(Outcome::Passed)
}

/// A short storm; `cargo xtask storm` alone goes on for longer, with another seed each time.
pub fn storm(commands: &mut Commands) -> Result<Outcome> {
    // A crash of the database is also what happens when its log is full.
    let few = "kill,pause,leave,cut-commits,cut-answers,database-silent,split,fence,terminate,failover,failover-behind,\
               failover-losing,silent-changes,packet-loss,clock,pgbouncer,full-disk,full-log";
    let storm = ["storm", "--seconds", "150", "--rounds", "1", "--seed", "16", "--nemeses", few, "--binary"];
    commands.run(harness(&storm).arg(segno()))?;
    Ok(Outcome::Passed)
}

/// Worlds of known seeds. Those in which something was found once are tests of the crate.
pub fn simulate(commands: &mut Commands) -> Result<Outcome> {
    let program = workspace::target().join("debug/segno-simulation");
    commands.run(&mut command(program, &["--seeds", "1-300", "--seconds-max", "110"]))?;
    Ok(Outcome::Passed)
}

/// The harness with a disk that forgets every sync: it must find something missing.
pub fn lie(commands: &mut Commands) -> Result<Outcome> {
    commands.run(harness(&["crash", "--expect-caught", "--lie", "--binary"]).arg(segno()))?;
    Ok(Outcome::Passed)
}

/// The harness with a server built to acknowledge before it syncs, to forget what a schedule is about to start, and to count
/// steps of a batch job before they are done: it must find something missing each time.
pub fn sabotage(commands: &mut Commands) -> Result<Outcome> {
    let place = workspace::target().join("sabotage");
    fs::create_dir_all(&place)?;
    commands.run(&mut cargo(&["build", "--workspace", "--bin", "segno", "--features", "segno/sabotage"]))?;
    fs::copy(segno(), place.join("segno")).context("copying the faulty server")?;
    // Cargo keeps the ordinary build and only puts it back where the faulty one was.
    commands.run(&mut cargo(&["build", "--workspace", "--bin", "segno"]))?;
    for fault in ["ack-before-sync", "batch-counts-first", "schedule-forgets-start"] {
        commands.run(&mut harness(&["crash", "--expect-caught", "--sabotage", fault]))?;
    }
    for (name, nemeses) in STORM_SABOTAGES {
        let storm = ["storm", "--expect-caught", "--seconds", "150", "--seed", "16", "--sabotage", name];
        commands.run(harness(&storm).args(["--nemeses", nemeses]))?;
    }
    // The delay that `wake-by-scan` needs must not be what is noticed.
    let delayed = ["storm", "--seconds", "40", "--seed", "16", "--sabotage", "slow-scan", "--nemeses", SCANS];
    commands.run(&mut harness(&delayed))?;
    versions_are_compared(commands)?;
    simulate::sabotages(false)?;
    if has_pgbouncer() {
        let refused = ["storm", "--pooler", "transaction", "--nemeses", "kill", "--binary"];
        commands.run(harness(&refused).arg(segno()))?;
    } else {
        commands.say("!!! There is no pgbouncer: whether one in transaction mode is refused was not tried");
    }
    Ok(Outcome::Passed)
}

/// While the fence stands, versions always fit: only the contract of stores shows a store that does not compare them.
fn versions_are_compared(commands: &mut Commands) -> Result<()> {
    let words = ["test", "--workspace", "--features", "segno-store/sabotage", "--test", "store_postgres"];
    let contract = || {
        let mut contract = cargo(&words);
        contract.args(["--", "--exact", "contract::contract"]);
        contract
    };
    commands.run(&mut contract())?;
    let done = contract().env("SEGNO_SABOTAGE", "no-version").output().context("the contract test did not start")?;
    let output = String::from_utf8_lossy(&done.stdout);
    let last = output.lines().rfind(|line| line.starts_with("contract: ")).unwrap_or_default();
    if done.status.success() || last != VERSIONS {
        bail!("NOT caught: a store that does not compare versions fails at `{last}` instead of `{VERSIONS}`");
    }
    commands.say(&format!("caught: without versions, `{last}` fails, as it must"));
    Ok(())
}

/// The server as it is released: every transcript, crashes, and the packages with the static binary. The crashes need the dynamic one:
/// they put a library before its calls of the C library.
pub fn release(commands: &mut Commands) -> Result<Outcome> {
    commands.run(&mut cargo(&["build", "--release", "--package", "segno"]))?;
    let released = workspace::target().join("release/segno");
    transcripts_of(&released, commands)?;
    commands.run(harness(&["crash", "--kill-rounds", "5", "--power-rounds", "10", "--binary"]).arg(released))?;
    let mut binaries = Vec::new();
    for (mut build, binary) in dist::builds()? {
        commands.run(&mut build)?;
        binaries.push(binary);
    }
    commands.run(&mut dist::pack(&binaries, &dist::release()))?;
    commands.run(pytest().arg(PACKAGES).env("SEGNO_RELEASE", dist::release()))?;
    Ok(Outcome::Passed)
}
