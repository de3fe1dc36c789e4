//! A server from its start to its end: store, ports, node, recovery, and a clean stop.
//!
//! `segno serve` and `segno server start-dev` differ only in their flags; both make a [`Plan`] and run it here.

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    pin::Pin,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::Context;
use segno_node::{
    Clock, DatabaseClock, Environment, HttpSettings, Listener, Network, Node, NodeIdentity, NodeOptions, SkippingClock,
    SystemClock,
};
use segno_server::{ConnectionLimits, SecurityOptions, Server, ServerOptions};
use segno_store::{CommitError, MemoryStore, Store};
use segno_store_postgres::PostgresStore;
use segno_store_sqlite::{Options, SqliteStore};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::watch,
};

use crate::{disk::Watch, setup::Setup};

/// How long the end waits for what is still under way.
const STOP_TIMEOUT: Duration = Duration::from_secs(2);

/// Where other nodes reach a server, unless something else is said.
const NODE_PORT: u16 = 7234;

/// How long a node that lost its place tries to join again.
const REJOIN_MAX: Duration = Duration::from_secs(60);
const REJOIN_PAUSE: Duration = Duration::from_secs(1);

/// How often the server looks whether its files are still there. Commits look by themselves; this is what a server at rest does.
const FILE_CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// Two for each connection to the database, and what the runtime and the listeners need.
const OPEN_FILES_MIN: u64 = 96;

/// Where the data is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Data {
    /// In memory: gone when the server stops.
    InMemory,
    /// In this directory.
    Directory(PathBuf),
    /// In a PostgreSQL database.
    Database {
        /// Where it is.
        url: String,
        /// What this server is called there.
        node_name: String,
        /// Whether settings are accepted with which acknowledged changes may be lost.
        may_lose_commits: bool,
        /// Where other servers on it reach this one.
        listen: Option<SocketAddr>,
        /// Where it listens if nothing is said.
        ip: std::net::IpAddr,
        /// What they dial.
        address: Option<String>,
        /// How long a server that shows no sign of life keeps its place.
        lease: Duration,
    },
}

/// An essential part of the server has ended. A new start goes on from the stored state.
#[derive(Debug, thiserror::Error)]
#[error("{0}: the server stops. Nothing that was acknowledged is lost; start it again, and please report this")]
pub struct ServerFailure(String);

/// What to run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Where to listen.
    pub listen: ServerOptions,
    /// Where the data is.
    pub data: Data,
    /// Whether a damaged write-ahead log is cut short instead of refused.
    pub discard_damaged_log: bool,
    /// Settings of the node.
    pub node: NodeOptions,
    /// Which servers elsewhere it may call.
    pub http: HttpSettings,
    /// Whether time is skipped while nothing is under way. Only in memory.
    pub skipping: TimeSkippingMode,
    /// What must be there before the first call is served.
    pub setup: Setup,
}

/// Whether the server's clock jumps while nothing is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeSkippingMode {
    /// It is the clock of the machine, or of the database that nodes share.
    Off,
    /// It jumps as soon as a client asks for it.
    Locked,
    /// It jumps from the start.
    Unlocked,
}

impl TimeSkippingMode {
    fn clock(self, store: &dyn Store) -> Arc<dyn Clock> {
        match self {
            Self::Off => match store.membership() {
                Some(membership) => DatabaseClock::following(&*membership),
                None => Arc::new(SystemClock),
            },
            Self::Locked => Arc::new(SkippingClock::locked()),
            Self::Unlocked => Arc::new(SkippingClock::default()),
        }
    }
}

/// The store in use, and how to close it.
enum ServerStore {
    InMemory(Arc<MemoryStore>),
    OnDisk(Arc<SqliteStore>, PathBuf),
    InDatabase(PostgresStore),
}

/// How a server ended.
enum ServerEnd {
    /// It was told to stop.
    Stopped(ServerStore),
    /// Another node took its place. It may join again, with nothing in memory.
    Fenced(PostgresStore),
    /// It had begun to serve and failed: it ends, also if it had joined again before.
    Broken(anyhow::Error),
}

impl Plan {
    /// Runs the server until it is told to stop.
    pub fn run(self) -> anyhow::Result<()> {
        check_open_files()?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .thread_name("segno")
            .build()
            .context("the async runtime did not start")?;
        // Boxed as a trait object: tokio's two schedulers would each get a copy of everything in it.
        let serving: Pin<Box<dyn Future<Output = anyhow::Result<ServerStore>>>> = Box::pin(self.serve());
        let kept = runtime.block_on(serving)?;
        if let ServerStore::InDatabase(store) = &kept {
            runtime.block_on(store.clone().close());
            tracing::info!("stopped cleanly");
        }
        // What still runs is dropped, and with it the last users of the store.
        runtime.shutdown_timeout(STOP_TIMEOUT);
        close(kept)
    }

    /// Serves until it is told to stop. A node that lost its place joins again as a new one.
    async fn serve(self) -> anyhow::Result<ServerStore> {
        let mut rejoining: Option<Instant> = None;
        let (tell, told) = watch::channel(false);
        loop {
            match self.clone().serve_once(&tell, told.clone()).await {
                Ok(ServerEnd::Stopped(kept)) => return Ok(kept),
                Ok(ServerEnd::Broken(error)) => return Err(error),
                // Another node took its place while it was on its way out.
                Ok(ServerEnd::Fenced(store)) if *told.borrow() => return Ok(ServerStore::InDatabase(store)),
                Ok(ServerEnd::Fenced(store)) => {
                    tracing::warn!("this node lost its place; it joins again with what the database has");
                    store.abandon();
                    rejoining = Some(Instant::now());
                }
                Err(error) if rejoining.is_some_and(|since| since.elapsed() < REJOIN_MAX) => {
                    tracing::warn!("joining again failed and is tried again: {error:#}");
                    tokio::time::sleep(REJOIN_PAUSE).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    async fn serve_once(
        self,
        tell: &watch::Sender<bool>,
        mut told: watch::Receiver<bool>,
    ) -> anyhow::Result<ServerEnd> {
        let environment = Environment::of_machine();
        let (kept, listener) = open(self.data, self.discard_damaged_log, &*environment.network).await?;
        let is_tls = self.listen.security.tls.is_some();
        let server = Server::bind(self.listen).await?;
        let (grpc, http) = server.addresses().context("the server does not know its own address")?;
        let store: Arc<dyn Store> = match &kept {
            ServerStore::InMemory(store) => store.clone(),
            ServerStore::OnDisk(store, _) => store.clone(),
            ServerStore::InDatabase(store) => Arc::new(store.clone()),
        };
        // Watched from here on, also while the node joins again: a signal is never lost.
        let (signalled, tell) = (stopped()?, tell.clone());
        tokio::spawn(async move {
            signalled.await;
            tell.send_replace(true);
        });
        let stopped = async move {
            let _ = told.wait_for(|stop| *stop).await;
        };
        let environment = Environment { clock: self.skipping.clock(&*store), ..environment };
        let node = Node::start_among(store, environment, self.node, self.http, listener).await?;
        prepare(&node, &self.setup).await?;
        let place = match &kept {
            ServerStore::InMemory(_) => "in memory: everything is lost when the server stops".to_owned(),
            ServerStore::OnDisk(_, directory) => directory.display().to_string(),
            ServerStore::InDatabase(_) => "in PostgreSQL".to_owned(),
        };
        let scheme = if is_tls { "https" } else { "http" };
        let ready = format!("Segno is ready. gRPC on {grpc}, web pages and HTTP on {scheme}://{http}, data {place}");
        match crate::logs::are_json() {
            // An operator who reads logs as JSON reads all of them as JSON.
            true => println!("{}", serde_json::json!({ "level": "INFO", "message": ready })),
            false => println!("{ready}"),
        }
        tracing::info!(%grpc, %http, data = place, "ready");
        let watched = node.clone();
        let over = tokio::select! {
            served = server.run(node, stopped) => served.map(|()| None).map_err(anyhow::Error::from),
            lost = removed(&kept) => Err(lost.into()),
            why = ended(&kept) => Ok(Some(why)),
            why = watched.runs.lifecycle.failed() => Err(ServerFailure(why).into()),
        };
        // What of the node still runs comes to its end.
        watched.shut_down();
        watched.end();
        Ok(match (over, kept) {
            (Ok(None), kept) => ServerEnd::Stopped(kept),
            (Ok(Some(CommitError::Fenced)), ServerStore::InDatabase(store)) => ServerEnd::Fenced(store),
            (Ok(Some(why)), _) => ServerEnd::Broken(WriteAccessLost(why).into()),
            (Err(error), _) => ServerEnd::Broken(error),
        })
    }
}

/// The data directory was removed while the server was running. What is acknowledged from then on would be lost.
#[derive(Debug, thiserror::Error)]
#[error(
    "the data directory {} was removed or replaced while the server was running. The server has ended, because what \
     it stored from then on would be lost. Put the directory back, or start with another one", .0.display()
)]
pub struct DataDirRemoved(PathBuf);

/// The database does not let this server write. A new start begins from what the database has.
#[derive(Debug, thiserror::Error)]
#[error("{0}: the server has ended, because it may not go on from what it has in memory. Start it again")]
pub struct WriteAccessLost(CommitError);

/// Waits until a server on a database has lost its place.
async fn ended(kept: &ServerStore) -> CommitError {
    match kept {
        ServerStore::InDatabase(store) => store.ended().await,
        ServerStore::InMemory(_) | ServerStore::OnDisk(..) => std::future::pending().await,
    }
}

/// Waits until the files of the store are not where they were.
async fn removed(kept: &ServerStore) -> DataDirRemoved {
    let ServerStore::OnDisk(store, directory) = kept else { return std::future::pending().await };
    let mut watch = Watch::default();
    loop {
        watch.check(directory);
        tokio::time::sleep(FILE_CHECK_INTERVAL).await;
        let store = store.clone();
        // Commits look by themselves and fail at once; this is for the end of the process.
        if matches!(tokio::task::spawn_blocking(move || store.is_in_place()).await, Ok(false)) {
            return DataDirRemoved(directory.clone());
        }
    }
}

/// Refuses to start with so few open files that the server could not do its work.
/// How many files a process may open, if the system tells.
pub fn open_files_max() -> Option<u64> {
    // Other systems than Linux do not tell this way, and then the first file that cannot be opened tells.
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok())
}

fn check_open_files() -> Result<(), FileLimitTooLow> {
    match open_files_max() {
        Some(limit) if limit < OPEN_FILES_MIN => Err(FileLimitTooLow { limit }),
        _ => Ok(()),
    }
}

/// The process may open too few files.
#[derive(Debug, thiserror::Error)]
#[error(
    "this process may open {limit} files, which is too few: the server needs {OPEN_FILES_MIN} for itself and one for each \
     connection. Raise the limit (ulimit -n 1024, or LimitNOFILE= in a systemd unit) and start again"
)]
pub struct FileLimitTooLow {
    limit: u64,
}

/// Creates what the plan asks for, through a listener of its own: clients that wait at the real one find it done.
async fn prepare(node: &Arc<Node>, setup: &Setup) -> anyhow::Result<()> {
    if setup.is_empty() {
        return Ok(());
    }
    let anywhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let door = Server::bind(ServerOptions {
        grpc: anywhere,
        http: anywhere,
        limits: ConnectionLimits::default(),
        security: SecurityOptions::default(),
        traces: None,
    })
    .await?;
    let (address, _) = door.addresses().context("the server does not know its own address")?;
    tokio::select! {
        served = door.without_jobs().run(node.clone(), std::future::pending()) => Ok(served?),
        done = setup.carry_out(address) => done,
    }
}

/// Opens the store. On a database other nodes reach this one through the listener.
async fn open(
    data: Data,
    discard_damaged_log: bool,
    network: &dyn Network,
) -> anyhow::Result<(ServerStore, Option<(Box<dyn Listener>, NodeIdentity)>)> {
    match data {
        Data::InMemory => Ok((ServerStore::InMemory(Arc::new(MemoryStore::default())), None)),
        Data::Database { url, node_name, may_lose_commits, listen, ip, address, lease } => {
            let listener = listen_for_nodes(network, listen, ip).await?;
            let local = listener.address().context("the server does not know its own address")?;
            let node_address = address.unwrap_or_else(|| match local.ip().is_unspecified() {
                true => format!("{node_name}:{}", local.port()),
                false => local.to_string(),
            });
            let identity = NodeIdentity::generate().context("making a certificate for other nodes")?;
            let options = segno_store_postgres::Options {
                node_name,
                node_address,
                lease,
                certificate: identity.certificate().to_vec(),
                may_lose_commits,
                visits: false,
            };
            Ok((ServerStore::InDatabase(PostgresStore::open(&url, options).await?), Some((listener, identity))))
        }
        Data::Directory(directory) => {
            let mut options = Options::default();
            options.discard_damaged_log = discard_damaged_log;
            let store = SqliteStore::open(&directory, options)?;
            if let Some(damage) = store.discarded_log() {
                tracing::error!(damage, "the write-ahead log was damaged: changes that were acknowledged are lost");
            }
            Ok((ServerStore::OnDisk(Arc::new(store), directory), None))
        }
    }
}

/// The port for other nodes. If nothing is said and the usual one is taken, any free one does: others find it in the
/// database.
async fn listen_for_nodes(
    network: &dyn Network,
    listen: Option<SocketAddr>,
    ip: std::net::IpAddr,
) -> anyhow::Result<Box<dyn Listener>> {
    let address = listen.unwrap_or(SocketAddr::new(ip, NODE_PORT));
    match network.listen(address).await {
        Ok(listener) => Ok(listener),
        Err(_) if listen.is_none() => {
            Ok(network.listen(SocketAddr::new(ip, 0)).await.context("there is no free port for other nodes")?)
        }
        Err(error) => Err(error).with_context(|| {
            format!("cannot listen on {address} for other nodes. Choose another address with --node-listen")
        }),
    }
}

/// Waits for SIGTERM or SIGINT.
fn stopped() -> anyhow::Result<impl Future<Output = ()> + Send + 'static> {
    let mut terminate = signal(SignalKind::terminate()).context("SIGTERM cannot be watched")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("SIGINT cannot be watched")?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => tracing::info!("SIGTERM: stopping"),
            _ = interrupt.recv() => tracing::info!("SIGINT: stopping"),
        }
    })
}

/// Closes the store, so that a clean stop leaves one tidy file.
fn close(kept: ServerStore) -> anyhow::Result<()> {
    let ServerStore::OnDisk(mut store, _) = kept else { return Ok(()) };
    let until = Instant::now() + STOP_TIMEOUT;
    loop {
        match Arc::try_unwrap(store) {
            Ok(store) => {
                store.close().context("closing the store")?;
                tracing::info!("stopped cleanly");
                return Ok(());
            }
            Err(_) if Instant::now() > until => {
                tracing::warn!("stopped while a commit was under way; nothing that was acknowledged is lost");
                return Ok(());
            }
            Err(shared) => {
                // The writer thread ends as soon as it has nothing left to write.
                store = shared;
                std::thread::sleep(Duration::from_millis(2));
            }
        }
    }
}
