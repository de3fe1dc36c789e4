//! A server as a child process: starting it, waiting until it answers, ending it politely or not. What it costs is read
//! by `gauge.rs`.

use std::{
    fs::{self, File, OpenOptions},
    net::{TcpListener, TcpStream},
    ops::Range,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU16, Ordering},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use segno_proto::workflowservice::{DescribeWorkflowExecutionRequest, GetSystemInfoRequest};

use crate::{
    gauge::Gauge,
    wire::{self, NAMESPACE},
};

/// Pause between two looks at a server that is starting.
const READY_PROBE_PAUSE: Duration = Duration::from_millis(2);
/// How long a server may take to start or to end.
const PROCESS_TIMEOUT: Duration = Duration::from_secs(120);

/// Where servers listen that get a free port.
const PORTS: Range<u16> = 18_000..28_000;

/// Which server a process is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Ours.
    Segno,
    /// Temporal's development server with its own SQLite file.
    Temporal,
}

/// How to start a server; starting twice from one plan means a restart on the same data.
#[derive(Clone)]
pub struct Plan {
    /// Which server.
    pub kind: Kind,
    /// The executable.
    pub binary: PathBuf,
    /// Directory of its data, made when absent.
    pub data: PathBuf,
    /// Port for gRPC.
    pub port: u16,
    /// Port for HTTP, of Segno only.
    pub http_port: u16,
    /// Further arguments.
    pub arguments: Vec<String>,
    /// Further environment.
    pub environment: Vec<(String, String)>,
}

impl Plan {
    /// Name for tables and logs.
    pub fn name(&self) -> &'static str {
        match self.kind {
            Kind::Segno => "segno",
            Kind::Temporal => "temporal",
        }
    }

    /// Where the output of the server goes: beside its data, so that the data is only what the server wrote.
    pub fn log_path(&self) -> PathBuf {
        self.data.with_extension("log")
    }

    /// Starts the server; see [`Server::ready`] for when it answers.
    pub fn spawn(&self) -> Result<Server> {
        fs::create_dir_all(&self.data)?;
        let log = OpenOptions::new().create(true).append(true).open(self.log_path())?;
        let port = self.port.to_string();
        let mut command = Command::new(&self.binary);
        match self.kind {
            Kind::Segno => {
                command.args(["serve", "--port", &port, "--http-port", &self.http_port.to_string()]);
                // What keeps nothing, or keeps it in a database, has no directory.
                if !self.arguments.iter().any(|word| word == "--in-memory" || word == "--store") {
                    command.arg("--data-dir").arg(&self.data);
                }
            }
            Kind::Temporal => {
                command.args(["server", "start-dev", "--headless", "--ip", "127.0.0.1", "--log-level", "error"]);
                command.args(["--port", &port, "--db-filename"]).arg(self.data.join("temporal.db"));
            }
        }
        command.args(&self.arguments);
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        let started = Instant::now();
        let child = command.spawn().with_context(|| format!("cannot start {}", self.binary.display()))?;
        Ok(Server { plan: self.clone(), child, started, done: false })
    }
}

/// A running server; killed when dropped.
pub struct Server {
    plan: Plan,
    child: Child,
    started: Instant,
    done: bool,
}

impl Server {
    /// Waits until the server answers calls about workflows of the namespace; the time since it was started.
    pub async fn ready(&mut self) -> Result<Duration> {
        loop {
            if let Some(status) = self.child.try_wait()? {
                bail!("{} ended while starting ({status}); its last words:\n{}", self.plan.name(), self.last_words());
            }
            // A bare connection first: a refused one costs microseconds, a gRPC channel does not.
            if TcpStream::connect(("127.0.0.1", self.plan.port)).is_ok() && self.answers().await {
                return Ok(self.started.elapsed());
            }
            if self.started.elapsed() > PROCESS_TIMEOUT {
                bail!("{} is not ready after {PROCESS_TIMEOUT:?}:\n{}", self.plan.name(), self.last_words());
            }
            tokio::time::sleep(READY_PROBE_PAUSE).await;
        }
    }

    async fn answers(&self) -> bool {
        let Ok(mut client) = wire::client(self.plan.port) else { return false };
        let second = Duration::from_secs(1);
        if client.call(GetSystemInfoRequest::default(), second).await.is_err() {
            return false;
        }
        let probe = DescribeWorkflowExecutionRequest {
            namespace: NAMESPACE.to_owned(),
            execution: wire::execution("ready-probe", ""),
        };
        match client.call(probe, second).await {
            Ok(_) => true,
            // A namespace that is not there yet is also "not found", but not yet ready.
            Err(status) => status.code() == tonic::Code::NotFound && !status.message().contains("amespace"),
        }
    }

    /// The end of the server's log.
    pub fn last_words(&self) -> String {
        let log = fs::read(self.plan.log_path()).unwrap_or_default();
        String::from_utf8_lossy(&log[log.len().saturating_sub(2_000)..]).into_owned()
    }

    /// Its process id.
    pub fn process(&self) -> u32 {
        self.child.id()
    }

    /// Whether the process ended by itself, and how.
    pub fn ended(&mut self) -> Result<Option<String>> {
        Ok(self.child.try_wait()?.map(|status| status.to_string()))
    }

    /// Ends the server with SIGTERM and waits for it; the time it took.
    pub fn terminate(mut self) -> Result<Duration> {
        let begun = Instant::now();
        let sent = Command::new("kill").arg("-TERM").arg(self.child.id().to_string()).status()?;
        if !sent.success() {
            bail!("cannot send SIGTERM to {}", self.plan.name());
        }
        while self.child.try_wait()?.is_none() {
            if begun.elapsed() > PROCESS_TIMEOUT {
                bail!("{} ignores SIGTERM", self.plan.name());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        self.done = true;
        Ok(begun.elapsed())
    }

    /// Ends the server with SIGKILL and waits until the process is gone.
    pub fn kill(mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        self.done = true;
        Ok(())
    }

    /// What to read about the process.
    pub fn gauge(&self) -> Gauge {
        Gauge::new(self.child.id(), (self.plan.kind == Kind::Segno).then_some(self.plan.http_port))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if !self.done {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// The cargo target directory: everything the harness writes goes there.
pub fn target_dir() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace_dir().join("target"), PathBuf::from)
}

/// The workspace itself: this package is two levels below it.
pub fn workspace_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap_or(Path::new(".")).to_owned()
}

/// Finds Temporal's command line: given, `TEMPORAL_BIN`, the project's virtual environment, or the path.
pub fn find_temporal(given: Option<PathBuf>) -> Result<PathBuf> {
    let named = given.or_else(|| std::env::var_os("TEMPORAL_BIN").map(PathBuf::from));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let beside = [target_dir().join("venv/bin"), workspace_dir().join("target/venv/bin")];
    let mut candidates = beside.into_iter().chain(std::env::split_paths(&path)).map(|folder| folder.join("temporal"));
    match named {
        Some(binary) if binary.is_file() => Ok(binary),
        Some(binary) => bail!("{} is no file", binary.display()),
        None => candidates.find(|file| file.is_file()).context("no `temporal` found: pass --temporal PATH"),
    }
}

/// A free TCP port, another one with each call. It lies below the ephemeral ports, so that no outgoing
/// connection takes it before a node listens on it, or during a restart.
pub fn free_port() -> Result<u16> {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let own = (std::process::id() % 100) as u16 * 100;
    (0..PORTS.len() as u16)
        .map(|_| PORTS.start + (own + NEXT.fetch_add(1, Ordering::Relaxed)) % PORTS.len() as u16)
        .find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok())
        .with_context(|| format!("all ports of {PORTS:?} are taken"))
}

/// An empty directory for one server's data, under the target directory.
pub fn fresh_dir(name: &str) -> Result<PathBuf> {
    let path = target_dir().join(name);
    if path.exists() {
        fs::remove_dir_all(&path)?;
    }
    fs::create_dir_all(&path)?;
    // Start the log of this server anew as well.
    File::create(path.with_extension("log"))?;
    Ok(fs::canonicalize(path)?)
}
