//! A server from its start to its end: store, ports, node, preparation, and a clean stop.
//!
//! `segno serve` and `segno server start-dev` differ in their flags alone; both end up here with a [`Plan`].

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::Context;
use segno_runtime::{Node, NodeOptions, SystemClock};
use segno_server::{Server, ServerOptions};
use segno_store::{MemoryStore, Store};
use segno_store_sqlite::{Options, SqliteStore};
use tokio::signal::unix::{SignalKind, signal};

use crate::setup::Setup;

/// How long the end waits for what is still under way.
const STOP_PATIENCE: Duration = Duration::from_secs(2);

/// Where the data is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Data {
    /// In memory: gone when the server stops.
    InMemory,
    /// In this directory.
    Directory(PathBuf),
}

/// What to run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Where to listen.
    pub listen: ServerOptions,
    /// Where the data is.
    pub data: Data,
    /// Settings of the node.
    pub node: NodeOptions,
    /// What must be there before anybody is served.
    pub setup: Setup,
}

/// The store in use, and how to close it.
enum Kept {
    InMemory(Arc<MemoryStore>),
    OnDisk(Arc<SqliteStore>, PathBuf),
}

impl Plan {
    /// Runs the server until it is told to stop.
    pub fn run(self) -> anyhow::Result<()> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .thread_name("segno")
            .build()
            .context("the async runtime did not start")?;
        let kept = runtime.block_on(self.serve())?;
        // Whatever still runs is dropped, and with it the last users of the store.
        runtime.shutdown_timeout(STOP_PATIENCE);
        close(kept)
    }

    async fn serve(self) -> anyhow::Result<Kept> {
        let kept = open(self.data)?;
        let server = Server::bind(self.listen).await?;
        let (grpc, http) = server.addresses().context("the server does not know its own address")?;
        let store: Arc<dyn Store> = match &kept {
            Kept::InMemory(store) => store.clone(),
            Kept::OnDisk(store, _) => store.clone(),
        };
        let stopped = stopped()?;
        let node = Node::start(store, Arc::new(SystemClock), self.node).await?;
        prepare(&node, &self.setup).await?;
        let place = match &kept {
            Kept::InMemory(_) => "in memory: everything is lost when the server stops".to_owned(),
            Kept::OnDisk(_, directory) => directory.display().to_string(),
        };
        println!("Segno is ready. gRPC on {grpc}, HTTP on http://{http}, data {place}");
        tracing::info!(%grpc, %http, data = place, "ready");
        server.run(node, stopped).await?;
        Ok(kept)
    }
}

/// Creates what the plan asks for, through a door of its own: whoever waits at the real one finds it done.
async fn prepare(node: &Arc<Node>, setup: &Setup) -> anyhow::Result<()> {
    if setup.is_empty() {
        return Ok(());
    }
    let anywhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let door = Server::bind(ServerOptions { grpc: anywhere, http: anywhere }).await?;
    let (address, _) = door.addresses().context("the server does not know its own address")?;
    tokio::select! {
        served = door.run(node.clone(), std::future::pending()) => Ok(served?),
        done = setup.carry_out(address) => done,
    }
}

fn open(data: Data) -> anyhow::Result<Kept> {
    match data {
        Data::InMemory => Ok(Kept::InMemory(Arc::new(MemoryStore::default()))),
        Data::Directory(directory) => {
            let store = SqliteStore::open(&directory, Options::default())?;
            Ok(Kept::OnDisk(Arc::new(store), directory))
        }
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
fn close(kept: Kept) -> anyhow::Result<()> {
    let Kept::OnDisk(mut store, _) = kept else { return Ok(()) };
    let until = Instant::now() + STOP_PATIENCE;
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
