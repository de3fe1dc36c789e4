//! A server process for integration tests.

use std::{
    env,
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    time::{Duration, Instant, SystemTime},
};

use segno_proto::{
    nexus::{EndpointSpec, EndpointTarget, endpoint_target},
    operatorservice::CreateNexusEndpointRequest,
    testservice::{LockTimeSkippingRequest, SleepRequest},
};

use crate::{
    client::{Client, ClientError, Queue, time},
    options::wire_duration,
};

/// How long a server may take until it answers.
const START: Duration = Duration::from_secs(30);

/// A server on a port of its own, with everything in memory. It ends when this is dropped.
///
/// It is the program that `SEGNO_BIN` names, else `segno`, else `temporal`, as found on `PATH`.
pub struct TestServer {
    process: Child,
    address: String,
    client: Client,
    clock: Clock,
}

/// The clock of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Clock {
    /// It is the machine's.
    Real,
    /// It jumps only on request.
    Locked,
    /// It jumps whenever nothing is under way.
    Jumping,
}

impl Clock {
    /// The clock of a server with these arguments.
    fn of(is_segno: bool, arguments: &[String]) -> Self {
        let on_disk = |argument: &String| argument == "-f" || argument.starts_with("--db-filename");
        match is_segno {
            true if arguments.iter().any(|argument| argument == SKIP_TIME) => Self::Jumping,
            true if !arguments.iter().any(on_disk) => Self::Locked,
            _ => Self::Real,
        }
    }
}

const SKIP_TIME: &str = "--skip-time";
/// How often a server is started on another free port if it ends at once.
const TRIES: u32 = 3;

/// A [`TestServer`] that is being made.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct TestServerBuilder {
    binary: Option<PathBuf>,
    port: Option<u16>,
    arguments: Vec<String>,
}

impl TestServerBuilder {
    /// The program, if it should not be looked for.
    pub fn binary(mut self, path: impl Into<PathBuf>) -> Self {
        self.binary = Some(path.into());
        self
    }

    /// The port; a free one if not given.
    pub fn port(mut self, port: u16) -> Self {
        self.port = Some(port);
        self
    }

    /// Adds an argument for `server start-dev`.
    pub fn argument(mut self, argument: impl Into<String>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// Starts the server and waits until it answers.
    pub async fn start(self) -> Result<TestServer, ClientError> {
        let binary = match self.binary {
            Some(binary) => binary,
            None => find()?,
        };
        let clock = Clock::of(is_segno(&binary), &self.arguments);
        if let Some(port) = self.port {
            return Self::start_at(&binary, port, clock, &self.arguments).await.map_err(NotStarted::into_error);
        }
        let mut tries = TRIES;
        loop {
            tries -= 1;
            match Self::start_at(&binary, free_port()?, clock, &self.arguments).await {
                Ok(server) => return Ok(server),
                // Perhaps another process took the port, or one of those that Temporal's server takes beside it.
                Err(NotStarted::SimulationResult(_)) if tries > 0 => {}
                Err(error) => return Err(error.into_error()),
            }
        }
    }

    async fn start_at(binary: &Path, port: u16, clock: Clock, arguments: &[String]) -> Result<TestServer, NotStarted> {
        let mut process = Command::new(binary)
            .args(["server", "start-dev", "--headless", "--ip", "127.0.0.1", "--port", &port.to_string()])
            .args(["--log-level", "error"])
            .args((clock == Clock::Locked).then_some(SKIP_TIME))
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| ClientError::Configuration(format!("{} cannot be started: {error}", binary.display())))
            .map_err(NotStarted::Other)?;
        let address = format!("http://127.0.0.1:{port}");
        match reach(&mut process, &address, clock).await {
            Ok(client) => Ok(TestServer { process, address, client, clock }),
            Err(error) => {
                end(&mut process);
                Err(error)
            }
        }
    }
}

impl TestServer {
    /// Starts a server and waits until it answers.
    pub async fn start() -> Result<Self, ClientError> {
        Self::builder().start().await
    }

    /// A server with settings.
    pub fn builder() -> TestServerBuilder {
        TestServerBuilder::default()
    }

    /// A client of it, in the namespace `default`.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// Where it listens: `http://127.0.0.1:<port>`.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The id of its process.
    pub fn process_id(&self) -> u32 {
        self.process.id()
    }

    /// Lets this much time pass on the server, without waiting for it: its clock jumps from timer to timer, and stands
    /// still for workflow tasks and tasks that are under way. Workers keep their own time.
    ///
    /// Temporal's server for development cannot move its clock, nor can one with a file: there it takes as long as it says.
    /// [`WorkflowTest`](crate::testing::WorkflowTest) needs no server for a clock that jumps.
    pub async fn skip(&self, duration: Duration) -> Result<(), ClientError> {
        let request = || SleepRequest { duration: wire_duration(duration) };
        match self.clock {
            Clock::Real => tokio::time::sleep(duration).await,
            Clock::Jumping => {
                self.client.test_service().sleep(request()).await?;
            }
            Clock::Locked => {
                self.client.test_service().unlock_time_skipping_with_sleep(request()).await?;
            }
        }
        Ok(())
    }

    /// Creates a Nexus endpoint whose requests go to the workers of this queue.
    pub async fn create_nexus_endpoint(&self, name: &str, queue: &Queue) -> Result<(), ClientError> {
        let (namespace, task_queue) = (queue.client().namespace().to_owned(), queue.name().to_owned());
        let target = EndpointTarget {
            variant: Some(endpoint_target::Variant::Worker(endpoint_target::Worker { namespace, task_queue })),
        };
        let spec = EndpointSpec { name: name.to_owned(), target: Some(target), ..Default::default() };
        self.client.operator_service().create_nexus_endpoint(CreateNexusEndpointRequest { spec: Some(spec) }).await?;
        Ok(())
    }

    /// The time on the server.
    pub async fn now(&self) -> Result<SystemTime, ClientError> {
        if self.clock == Clock::Real {
            return Ok(SystemTime::now());
        }
        let answer = self.client.test_service().get_current_time(()).await?.into_inner();
        Ok(answer.time.as_ref().and_then(time).unwrap_or(SystemTime::UNIX_EPOCH))
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        end(&mut self.process);
    }
}

fn end(process: &mut Child) {
    // It may have ended by itself; what it keeps is in memory.
    let _ = process.kill();
    let _ = process.wait();
}

/// Why there is no server.
enum NotStarted {
    /// Its process has ended.
    SimulationResult(ExitStatus),
    Other(ClientError),
}

impl NotStarted {
    fn into_error(self) -> ClientError {
        match self {
            Self::SimulationResult(status) => ClientError::Configuration(format!("the server ended with {status}")),
            Self::Other(error) => error,
        }
    }
}

async fn reach(process: &mut Child, address: &str, clock: Clock) -> Result<Client, NotStarted> {
    let began = Instant::now();
    loop {
        let reached = match Client::connect(address).await {
            Ok(client) => is_ready(&client, clock).await.map(|()| client),
            Err(error) => Err(error),
        };
        // Looked at in any case: what was reached may be the server of another process, which has the port.
        if let Ok(Some(status)) = process.try_wait() {
            return Err(NotStarted::SimulationResult(status));
        }
        match reached {
            Ok(client) => return Ok(client),
            Err(error) if began.elapsed() > START => return Err(NotStarted::Other(error)),
            Err(_) => {}
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Temporal's server for development listens before its namespace is there.
async fn is_ready(client: &Client, clock: Clock) -> Result<(), ClientError> {
    let request = segno_proto::workflowservice::DescribeNamespaceRequest {
        namespace: client.namespace().to_owned(),
        ..Default::default()
    };
    client.service().describe_namespace(request).await?;
    if clock == Clock::Locked {
        client.test_service().lock_time_skipping(LockTimeSkippingRequest {}).await?;
    }
    Ok(())
}

/// Whether the program is Segno and not Temporal's.
fn is_segno(binary: &Path) -> bool {
    let output = Command::new(binary).arg("--version").stdin(Stdio::null()).output();
    output.is_ok_and(|output| output.stdout.starts_with(b"segno"))
}

fn free_port() -> Result<u16, ClientError> {
    let bound = TcpListener::bind(("127.0.0.1", 0)).and_then(|listener| listener.local_addr());
    bound.map(|address| address.port()).map_err(|error| ClientError::Configuration(format!("no free port: {error}")))
}

fn find() -> Result<PathBuf, ClientError> {
    if let Some(binary) = env::var_os("SEGNO_BIN").filter(|binary| !binary.is_empty()) {
        return Ok(binary.into());
    }
    let path = env::var_os("PATH").unwrap_or_default();
    let places: Vec<PathBuf> = env::split_paths(&path).collect();
    let found = ["segno", "temporal"]
        .into_iter()
        .find_map(|name| places.iter().map(|place| place.join(name)).find(|candidate| Path::is_file(candidate)));
    found.ok_or_else(|| {
        let message = "there is no server: neither SEGNO_BIN, nor `segno` or `temporal` on PATH";
        ClientError::Configuration(message.to_owned())
    })
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[tokio::test]
    async fn a_server_that_ends_at_once_is_started_on_other_ports() {
        let place = env::temp_dir().join(format!("segno-sdk-ends-{}", std::process::id()));
        std::fs::create_dir_all(&place).unwrap();
        let (program, ports) = (place.join("segno"), place.join("ports"));
        let script = "#!/bin/sh\n[ $1 = server ] && echo $7 >> ${0%/*}/ports\nexit 2\n";
        std::fs::write(&program, script).unwrap();
        std::fs::set_permissions(&program, PermissionsExt::from_mode(0o700)).unwrap();
        let ended = TestServer::builder().binary(&program).start().await.map(|server| server.address().to_owned());
        let Err(ClientError::Configuration(why)) = ended else { panic!("{ended:?}") };
        assert_eq!(why, "the server ended with exit status: 2");
        let tried = std::fs::read_to_string(&ports).unwrap();
        assert_eq!(tried.lines().count(), TRIES as usize, "{tried}");
        // There is no other port than the one that was given.
        assert!(TestServer::builder().binary(&program).port(1).start().await.is_err());
        let tried = std::fs::read_to_string(&ports).unwrap();
        assert_eq!(tried.lines().skip(TRIES as usize).collect::<Vec<_>>(), ["1"]);
        std::fs::remove_dir_all(&place).unwrap();
    }
}
