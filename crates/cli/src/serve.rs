//! `segno serve`.

use std::{
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    sync::Arc,
};

use anyhow::Context;
use clap::Args;
use segno_runtime::{Node, NodeOptions, SystemClock};
use segno_server::{Server, ServerOptions};
use segno_store::{MemoryStore, Store};
use segno_store_sqlite::{Options, SqliteStore};
use tokio::signal::unix::{SignalKind, signal};

use crate::logs;

/// How long the end waits for what is still under way.
const STOP_PATIENCE: std::time::Duration = std::time::Duration::from_secs(2);

/// Where the server listens and keeps its data.
#[derive(Args, Clone, Debug)]
pub struct Serve {
    /// Address to listen on. Anything but loopback lets other machines in.
    #[arg(long, env = "SEGNO_IP", default_value = "127.0.0.1")]
    ip: IpAddr,
    /// Port for gRPC: SDKs, workers, the command line.
    #[arg(long, env = "SEGNO_PORT", default_value_t = 7233)]
    port: u16,
    /// Port for HTTP: /healthz and /metrics.
    #[arg(long, env = "SEGNO_HTTP_PORT", default_value_t = 8233)]
    http_port: u16,
    /// Directory for the data. [default: segno in the user's data directory]
    #[arg(long, env = "SEGNO_DATA_DIR", value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Keep everything in memory: fast, and gone when the server stops.
    #[arg(long, env = "SEGNO_IN_MEMORY", conflicts_with = "data_dir")]
    in_memory: bool,
    /// Memory for cached runs, in MiB.
    #[arg(long, env = "SEGNO_CACHE_MIB", default_value_t = 64, value_name = "MIB")]
    cache_mib: usize,
    /// How log lines look.
    #[arg(long, env = "SEGNO_LOG_FORMAT", value_enum, default_value_t = logs::Format::Human)]
    log_format: logs::Format,
    /// What is logged: error, warn, info, debug, trace, or a filter.
    #[arg(long, env = "SEGNO_LOG_LEVEL", default_value = "info")]
    log_level: String,
}

/// The store in use, and how to close it.
enum Kept {
    InMemory(Arc<MemoryStore>),
    OnDisk(Arc<SqliteStore>, PathBuf),
}

impl Serve {
    /// Runs the server until it is told to stop.
    pub fn run(self) -> anyhow::Result<()> {
        logs::start(self.log_format, &self.log_level)?;
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
        let options =
            ServerOptions { grpc: SocketAddr::new(self.ip, self.port), http: SocketAddr::new(self.ip, self.http_port) };
        let kept = self.open()?;
        let server = Server::bind(options).await?;
        let (grpc, http) = server.addresses().context("the server does not know its own address")?;
        let store: Arc<dyn Store> = match &kept {
            Kept::InMemory(store) => store.clone(),
            Kept::OnDisk(store, _) => store.clone(),
        };
        let options = NodeOptions { cache_bytes_max: self.cache_mib * 1024 * 1024, ..Default::default() };
        let node = Node::start(store, Arc::new(SystemClock), options).await?;
        let place = match &kept {
            Kept::InMemory(_) => "in memory: everything is lost when the server stops".to_owned(),
            Kept::OnDisk(_, directory) => directory.display().to_string(),
        };
        println!("Segno is ready. gRPC on {grpc}, HTTP on http://{http}, data {place}");
        tracing::info!(%grpc, %http, data = place, "ready");
        server.run(node, stopped()?).await?;
        Ok(kept)
    }

    fn open(&self) -> anyhow::Result<Kept> {
        if self.in_memory {
            return Ok(Kept::InMemory(Arc::new(MemoryStore::default())));
        }
        let directory = match &self.data_dir {
            Some(directory) => directory.clone(),
            None => default_data_dir()
                .context("there is no home directory to keep data in. Say where with --data-dir, or use --in-memory")?,
        };
        let store = SqliteStore::open(&directory, Options::default())?;
        Ok(Kept::OnDisk(Arc::new(store), directory))
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
    let until = std::time::Instant::now() + STOP_PATIENCE;
    loop {
        match Arc::try_unwrap(store) {
            Ok(store) => {
                store.close().context("closing the store")?;
                tracing::info!("stopped cleanly");
                return Ok(());
            }
            Err(_) if std::time::Instant::now() > until => {
                tracing::warn!("stopped while a commit was under way; nothing that was acknowledged is lost");
                return Ok(());
            }
            Err(shared) => {
                // The writer thread ends as soon as it has nothing left to write.
                store = shared;
                std::thread::sleep(std::time::Duration::from_millis(2));
            }
        }
    }
}

/// The user's data directory, by the conventions of the platform.
fn default_data_dir() -> Option<PathBuf> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if cfg!(target_os = "macos") {
        return Some(variable("HOME")?.join("Library/Application Support/segno"));
    }
    match variable("XDG_DATA_HOME") {
        Some(data) => Some(data.join("segno")),
        None => Some(variable("HOME")?.join(".local/share/segno")),
    }
}
