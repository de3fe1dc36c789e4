//! `segno serve`: flags of a permanent server.

use std::{
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    time::Duration,
};

use clap::Args;
use segno_node::NodeOptions;
use segno_server::ServerOptions;

use crate::{
    connections::Connections,
    exit::Usage,
    liveness::Liveness,
    logs,
    outside::Outside,
    protection::Protection,
    running::{Data, Plan, TimeSkippingMode},
    setup::Setup,
    traces::Traces,
    versioning::Versioning,
};

/// What a completion in pages may add to history.
const PAGED_TRANSACTION_BYTES: usize = 32 * 1024 * 1024;

/// Where the server listens and keeps its data.
#[derive(Args, Clone, Debug)]
pub struct Serve {
    /// A file with settings: each flag is a key of its table [serve]. Flags and variables take precedence over it.
    /// [default: segno/segno.toml in the user's configuration directory, then /etc/segno/segno.toml]
    #[arg(long, env = "SEGNO_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print all settings that are in effect and where each comes from, as such a file, and end.
    #[arg(long)]
    pub print_config: bool,
    /// Address to listen on. Other machines can connect unless it is a loopback address.
    #[arg(long, env = "SEGNO_IP", default_value = "127.0.0.1")]
    ip: IpAddr,
    /// Port for gRPC: SDKs, workers, the command line.
    #[arg(long, env = "SEGNO_PORT", default_value_t = 7233)]
    port: u16,
    /// Port for HTTP: web pages, Temporal's HTTP API, /healthz and /metrics.
    #[arg(long, env = "SEGNO_HTTP_PORT", default_value_t = 8233)]
    http_port: u16,
    /// Directory for the data. [default: segno in the user's data directory]
    #[arg(long, env = "SEGNO_DATA_DIR", value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Keep everything in memory: fast, and gone when the server stops.
    #[arg(long, env = "SEGNO_IN_MEMORY", conflicts_with = "data_dir")]
    in_memory: bool,
    /// Keep the data in a database instead: postgres://user:password@host:5432/database. Several servers may share it.
    #[arg(long, env = "SEGNO_STORE", value_name = "URL", conflicts_with_all = ["data_dir", "in_memory"])]
    store: Option<String>,
    /// Accept a database whose synchronous_commit lets it lose what it acknowledged.
    #[arg(long, requires = "store")]
    store_may_lose_commits: bool,
    /// Name of this server in the database. [default: the host's name]
    #[arg(long, env = "SEGNO_NODE_NAME", value_name = "NAME", requires = "store")]
    node_name: Option<String>,
    /// Where other nodes on the same database reach this one. [default: the address of --ip, port 7234 or another free one]
    #[arg(long, env = "SEGNO_NODE_LISTEN", value_name = "IP:PORT", requires = "store")]
    node_listen: Option<SocketAddr>,
    /// What other nodes dial to reach this one, if it is not what it listens on. [default: the address of --node-listen]
    #[arg(long, env = "SEGNO_NODE_ADDRESS", value_name = "HOST:PORT", requires = "store")]
    node_address: Option<String>,
    /// Seconds after which a node that does not renew its lease loses its shards (3 to 60).
    #[arg(long, env = "SEGNO_NODE_LEASE", default_value_t = 6, value_name = "SECONDS",
        value_parser = clap::value_parser!(u64).range(3..=60))]
    node_lease: u64,
    /// Start although the write-ahead log is damaged, with what can be read. Changes that were acknowledged are lost.
    #[arg(long, conflicts_with_all = ["in_memory", "store"])]
    discard_damaged_log: bool,
    /// Memory for cached runs, in MiB.
    #[arg(long, env = "SEGNO_CACHE_MIB", default_value_t = 64, value_name = "MIB")]
    cache_mib: usize,
    /// Let operators pause and unpause workflows. Temporal's server has this off by default, too.
    #[arg(long, env = "SEGNO_WORKFLOW_PAUSE")]
    workflow_pause: bool,
    /// Let activities be paused by workflow rules. Temporal's server has this off by default, too.
    #[arg(long, env = "SEGNO_WORKFLOW_RULES")]
    workflow_rules: bool,
    /// Let workers send completions of workflow tasks in pages, up to 32 MiB instead of 4. Temporal's server has this off by
    /// default, too.
    #[arg(long, env = "SEGNO_COMPLETION_PAGES")]
    completion_pages: bool,
    /// Let clients start Nexus operations without a workflow. Temporal's server has this off by default, too.
    #[arg(long, env = "SEGNO_NEXUS_STANDALONE")]
    nexus_standalone: bool,
    /// Let standalone activities carry out Nexus operations: accept their completion callbacks. Temporal's server has this off by
    /// default, too.
    #[arg(long, env = "SEGNO_ACTIVITY_CALLBACKS")]
    activity_callbacks: bool,
    /// Let updates carry out Nexus operations: accept their completion callbacks, which are ignored otherwise. Temporal's server has
    /// this off by default, too.
    #[arg(long, env = "SEGNO_UPDATE_CALLBACKS")]
    update_callbacks: bool,
    /// Let workflows signal a workflow and start it if it is not open, by the Nexus endpoint __temporal_system. Temporal's server has
    /// this off by default, too.
    #[arg(long, env = "SEGNO_SYSTEM_OPERATIONS")]
    system_operations: bool,
    /// Format of the log.
    #[arg(long, env = "SEGNO_LOG_FORMAT", value_enum, default_value_t = logs::Format::Human)]
    log_format: logs::Format,
    /// What is logged: error, warn, info, debug, trace, or a filter.
    #[arg(long, env = "SEGNO_LOG_LEVEL", default_value = "info")]
    log_level: String,
    #[command(flatten)]
    connections: Connections,
    #[command(flatten)]
    liveness: Liveness,
    #[command(flatten)]
    versioning: Versioning,
    #[command(flatten)]
    outside: Outside,
    #[command(flatten)]
    protection: Protection,
    #[command(flatten)]
    traces: Traces,
}

impl Serve {
    /// Runs the server until it is told to stop.
    pub fn run(self) -> anyhow::Result<()> {
        logs::start(self.log_format, &self.log_level)?;
        if let Some(file) = &self.config {
            tracing::info!("settings of {}", file.display());
        }
        if self.port == self.http_port && self.port != 0 {
            let port = self.port;
            return Err(Usage(format!("--port and --http-port are both {port}: gRPC and HTTP need a port each")).into());
        }
        let data = match self.data_dir {
            _ if self.in_memory => Data::InMemory,
            _ if self.store.is_some() => Data::Database {
                url: self.store.unwrap_or_default(),
                node_name: self.node_name.unwrap_or_else(host_name),
                may_lose_commits: self.store_may_lose_commits,
                listen: self.node_listen,
                ip: self.ip,
                address: self.node_address,
                lease: Duration::from_secs(self.node_lease),
            },
            Some(directory) => Data::Directory(directory),
            None => Data::Directory(default_data_dir().ok_or_else(|| {
                Usage(
                    "there is no home directory to keep data in. Say where with --data-dir, or use --in-memory"
                        .to_owned(),
                )
            })?),
        };
        let directory = match &data {
            Data::Directory(directory) => Some(directory.as_path()),
            Data::InMemory | Data::Database { .. } => None,
        };
        let listen = ServerOptions {
            security: self.protection.options(self.ip, directory)?,
            grpc: SocketAddr::new(self.ip, self.port),
            http: SocketAddr::new(self.ip, self.http_port),
            limits: self.connections.limits(),
            traces: self.traces.options()?,
        };
        let mut node = NodeOptions {
            cache_bytes_max: self.cache_mib * 1024 * 1024,
            leases: self.liveness.settings(),
            deployments: self.versioning.limits(),
            workflow_pause: self.workflow_pause,
            workflow_rules: self.workflow_rules,
            completion_pages: self.completion_pages,
            nexus_standalone: self.nexus_standalone,
            activity_callbacks: self.activity_callbacks,
            update_callbacks: self.update_callbacks,
            system_operations: self.system_operations,
            ..Default::default()
        };
        if self.completion_pages {
            node.limits.transaction_bytes = PAGED_TRANSACTION_BYTES;
        }
        let discard_damaged_log = self.discard_damaged_log;
        let (http, skipping) = (self.outside.settings(), TimeSkippingMode::Off);
        Plan { listen, data, discard_damaged_log, node, http, skipping, setup: Setup::default() }.run()
    }
}

/// The host's name, for people who look into the database.
fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = name.trim();
    if name.is_empty() { "segno".to_owned() } else { name.to_owned() }
}

/// The user's data directory, by the conventions of the platform.
pub(crate) fn default_data_dir() -> Option<PathBuf> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if cfg!(target_os = "macos") {
        return Some(variable("HOME")?.join("Library/Application Support/segno"));
    }
    match variable("XDG_DATA_HOME") {
        Some(data) => Some(data.join("segno")),
        None => Some(variable("HOME")?.join(".local/share/segno")),
    }
}
