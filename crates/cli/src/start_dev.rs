//! `segno server start-dev`: a server for development, with the command line of `temporal server start-dev`.
//!
//! SDKs start their local test server with exactly this command line. All of its flags are accepted; those without an
//! effect here are logged once.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, ToSocketAddrs},
    path::{Path, PathBuf},
};

use anyhow::bail;
use clap::{Args, Subcommand, ValueEnum};
use segno_node::{AllowedTargets, CallbackUrl, NodeOptions};
use segno_proto::{Nanos, enums::IndexedValueType};
use segno_server::ServerOptions;
use segno_store_sqlite::DATABASE_FILE;

use crate::{
    args,
    connections::Connections,
    exit::Usage,
    liveness::Liveness,
    logs,
    outside::{self, Outside},
    protection::Protection,
    running::{Data, Plan, TimeSkippingMode},
    setup::Setup,
};

/// Commands that run a server, as the temporal command line has them.
#[derive(Subcommand, Clone, Debug)]
pub enum Server {
    /// Runs a server for development and tests. In memory, unless --db-filename is given.
    #[command(
        after_help = "Example:\n  segno server start-dev --port 7233 --namespace default --namespace orders \\\n      \
                            --search-attribute Customer=Keyword --db-filename ./data"
    )]
    StartDev(Box<StartDev>),
}

/// Flags of `segno server start-dev`.
#[derive(Args, Clone, Debug)]
pub struct StartDev {
    /// Directory for the data. Without it, everything is in memory and lost at the end.
    #[arg(short = 'f', long, value_name = "PATH")]
    db_filename: Option<PathBuf>,
    /// Port for gRPC.
    #[arg(short, long, default_value_t = 7233)]
    port: u16,
    /// Address to listen on.
    #[arg(long, default_value = "localhost")]
    ip: String,
    /// Namespace to create; may be repeated. `default` is always there.
    #[arg(short, long, value_name = "NAME")]
    namespace: Vec<String>,
    /// Search attribute to add to each namespace; may be repeated. Types: Text, Keyword, Int, Double, Bool, Datetime,
    /// KeywordList.
    #[arg(long, value_name = "NAME=TYPE", value_parser = search_attribute)]
    search_attribute: Vec<(String, IndexedValueType)>,
    /// Setting; may be repeated. Known: limit.historyCount.suggestContinueAsNew, limit.historySize.suggestContinueAsNew,
    /// limit.blobSize.error, limit.blobSize.warn, frontend.enableCancelWorkerPollsOnShutdown,
    /// frontend.WorkflowPauseEnabled, frontend.workflowRulesAPIsEnabled, history.enableWorkflowTaskCompletionPagination,
    /// nexusoperation.enableStandalone, activity.enableCallbacks, history.enableUpdateCallbacks, history.enableSignalWithStartFromWorkflow,
    /// system.transactionSizeLimit, system.enableDeploymentVersions, matching.maxDeployments, matching.maxVersionsInDeployment,
    /// matching.maxTaskQueuesInDeploymentVersion, matching.maxVersionsInTaskQueue, matching.PollerHistoryTTL,
    /// matching.wv.VersionDrainageStatusVisibilityGracePeriod, component.nexusoperations.limit.operation.concurrency,
    /// component.nexusoperations.callback.endpoint.template, callback.allowedAddresses.
    #[arg(long, value_name = "KEY=VALUE", value_parser = setting)]
    dynamic_config_value: Vec<Setting>,
    /// Port for HTTP if --http-port is not given.
    #[arg(long, value_name = "PORT")]
    ui_port: Option<u16>,
    /// Port for HTTP if neither --http-port nor --ui-port is given.
    #[arg(long, value_name = "PORT")]
    metrics_port: Option<u16>,
    /// Port for HTTP: web pages, Temporal's HTTP API, /healthz and /metrics. [default: 1000 above --port, or a free one if that
    /// is taken or with --headless]
    #[arg(long, value_name = "PORT")]
    http_port: Option<u16>,
    /// Format of the log.
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    log_format: LogFormat,
    /// What is logged.
    #[arg(long, value_enum, default_value_t = LogLevel::Warn)]
    log_level: LogLevel,
    /// Skips time: while no workflow task and no activity is under way, the clock jumps to the next timer, back-off,
    /// time-out or schedule. In memory only. Clients can lock it with Temporal's TestService.
    #[arg(long, conflicts_with = "db_filename")]
    skip_time: bool,
    #[command(flatten)]
    connections: Connections,
    #[command(flatten)]
    liveness: Liveness,
    #[command(flatten)]
    outside: Outside,
    #[command(flatten)]
    protection: Protection,
    #[command(flatten)]
    meaningless: IgnoredFlags,
}

/// Flags that are accepted, for compatibility with scripts that pass them, and ignored.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Accepted, without a meaning here")]
struct IgnoredFlags {
    /// The web pages are parts of the HTTP port, which is any free one then.
    #[arg(long)]
    headless: bool,
    /// The web pages have no such setting.
    #[arg(long, value_name = "IP")]
    ui_ip: Option<String>,
    /// The web pages have no such setting.
    #[arg(long, value_name = "PATH")]
    ui_asset_path: Option<String>,
    /// The web pages have no such setting.
    #[arg(long, value_name = "PATH")]
    ui_public_path: Option<String>,
    /// The web pages have no such setting.
    #[arg(long)]
    ui_disable_news_fetch: bool,
    /// Segno sets its own pragmas.
    #[arg(long, value_name = "PRAGMA=VALUE")]
    sqlite_pragma: Vec<String>,
    /// There is no such configuration to print.
    #[arg(long)]
    log_config: bool,
}

/// Format of the log, in the words of the temporal command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum LogFormat {
    Text,
    Pretty,
    Json,
}

/// What is logged, in the words of the temporal command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum LogLevel {
    Debug,
    Info,
    Warn,
    Error,
    Never,
}

/// A dynamic config value.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Setting {
    EventsSuggest(i64),
    BytesSuggest(i64),
    BlobBytes(usize),
    FailureBytesKept(usize),
    PollsEndOnShutdown(bool),
    WorkflowPause(bool),
    WorkflowRules(bool),
    CompletionPages(bool),
    NexusStandalone(bool),
    ActivityCallbacks(bool),
    UpdateCallbacks(bool),
    SystemOperations(bool),
    TransactionBytes(usize),
    Deployments(bool),
    DeploymentsMax(usize),
    VersionsMax(usize),
    QueuesOfVersionMax(usize),
    VersionsOfQueueMax(usize),
    DrainageGrace(Nanos),
    PollerTtl(Nanos),
    PendingOperations(usize),
    CallbackTargets(AllowedTargets),
    CallbackUrl(CallbackUrl),
    NoEffect,
    Unknown(String),
}

/// Reads `KEY=VALUE`. Keys are matched as Temporal does, regardless of case.
fn setting(text: &str) -> Result<Setting, String> {
    let (key, value) = args::key_value(text)?;
    let number = || match value.parse() {
        Ok(number) if number > 0 => Ok(number),
        _ => Err(format!("{key} must be a whole number above zero")),
    };
    let bytes = || usize::try_from(number()?).map_err(|_| format!("{key} is too large"));
    let truth = || value.parse().map_err(|_| format!("{key} must be true or false"));
    let duration = || duration(&value).map_err(|error| format!("{key}: {error}"));
    match key.to_ascii_lowercase().as_str() {
        "limit.historycount.suggestcontinueasnew" => Ok(Setting::EventsSuggest(number()?)),
        "limit.historysize.suggestcontinueasnew" => Ok(Setting::BytesSuggest(number()?)),
        "limit.blobsize.error" => Ok(Setting::BlobBytes(bytes()?)),
        "limit.blobsize.warn" => Ok(Setting::FailureBytesKept(bytes()?)),
        "frontend.enablecancelworkerpollsonshutdown" => Ok(Setting::PollsEndOnShutdown(truth()?)),
        "frontend.workflowpauseenabled" => Ok(Setting::WorkflowPause(truth()?)),
        "frontend.workflowrulesapisenabled" => Ok(Setting::WorkflowRules(truth()?)),
        "history.enableworkflowtaskcompletionpagination" => Ok(Setting::CompletionPages(truth()?)),
        "nexusoperation.enablestandalone" => Ok(Setting::NexusStandalone(truth()?)),
        "activity.enablecallbacks" => Ok(Setting::ActivityCallbacks(truth()?)),
        "history.enableupdatecallbacks" => Ok(Setting::UpdateCallbacks(truth()?)),
        "history.enablesignalwithstartfromworkflow" => Ok(Setting::SystemOperations(truth()?)),
        "system.transactionsizelimit" => Ok(Setting::TransactionBytes(bytes()?)),
        "system.enabledeploymentversions" => Ok(Setting::Deployments(truth()?)),
        "matching.maxdeployments" => Ok(Setting::DeploymentsMax(bytes()?)),
        "matching.maxversionsindeployment" => Ok(Setting::VersionsMax(bytes()?)),
        "matching.maxtaskqueuesindeploymentversion" => Ok(Setting::QueuesOfVersionMax(bytes()?)),
        "matching.maxversionsintaskqueue" => Ok(Setting::VersionsOfQueueMax(bytes()?)),
        "matching.wv.versiondrainagestatusvisibilitygraceperiod" => Ok(Setting::DrainageGrace(duration()?)),
        "matching.pollerhistoryttl" => Ok(Setting::PollerTtl(duration()?)),
        "callback.allowedaddresses" | "component.callbacks.allowedaddresses" => {
            let targets = outside::temporal_addresses(&value).map_err(|error| format!("{key}: {error}"))?;
            Ok(Setting::CallbackTargets(targets))
        }
        "component.nexusoperations.callback.endpoint.template" => {
            let url = CallbackUrl::template(value.trim_matches('"')).map_err(|error| format!("{key}: {error}"))?;
            Ok(Setting::CallbackUrl(url))
        }
        "component.nexusoperations.limit.operation.concurrency" => Ok(Setting::PendingOperations(bytes()?)),
        // What they set is always so here, or the calls that they allow stay refused.
        "system.enabledeployments"
        | "system.userevisionnumberforworkerversioning"
        | "system.enablesendtargetversionchanged"
        | "system.enablesuggestcanonnewtargetversion"
        | "matching.wv.versiondrainagestatusrefreshinterval"
        | "frontend.workerversioningdataapis"
        | "frontend.workerversioningruleapis"
        | "frontend.workerversioningworkflowapis"
        | "system.refreshnexusendpointsminwait"
        | "component.nexusoperations.usesystemcallbackurl"
        | "history.enablechasmcallbacks"
        | "history.enablechasmsignalbacklinks" => Ok(Setting::NoEffect),
        _ => Ok(Setting::Unknown(key)),
    }
}

/// Reads a duration as Temporal does, a number of seconds or a JSON string such as `"10s"`, or without the quotes.
fn duration(text: &str) -> Result<Nanos, String> {
    match serde_json::from_str(text) {
        Ok(serde_json::Value::Number(seconds)) => args::duration(&format!("{seconds}s")),
        Ok(serde_json::Value::String(inner)) => args::duration(&inner),
        _ => args::duration(text),
    }
}

fn search_attribute(text: &str) -> Result<(String, IndexedValueType), String> {
    let (name, kind) = args::key_value(text)?;
    Ok((name, args::search_attribute_type(&kind)?))
}

impl StartDev {
    /// Runs the server until it is told to stop.
    pub fn run(self) -> anyhow::Result<()> {
        let format = if self.log_format == LogFormat::Json { logs::Format::Json } else { logs::Format::Human };
        let level = match self.log_level {
            LogLevel::Debug => "debug",
            LogLevel::Info => "info",
            LogLevel::Warn => "warn",
            LogLevel::Error => "error",
            LogLevel::Never => "off",
        };
        logs::start(format, level)?;
        for note in self.notes() {
            tracing::warn!("{note}");
        }
        self.plan()?.run()
    }

    fn plan(self) -> anyhow::Result<Plan> {
        let ip = resolve(&self.ip)?;
        let given = self.http_port.or(self.ui_port).or(self.metrics_port);
        let http_port = given.unwrap_or_else(|| if self.meaningless.headless { 0 } else { pages_port(ip, self.port) });
        let mut node = NodeOptions { leases: self.liveness.settings(), ..Default::default() };
        let mut http = self.outside.settings();
        let limits = &mut node.limits;
        for setting in &self.dynamic_config_value {
            match setting {
                Setting::EventsSuggest(events) => limits.history_events_suggest = *events,
                Setting::BytesSuggest(bytes) => limits.history_bytes_suggest = *bytes,
                Setting::BlobBytes(bytes) => limits.blob_bytes = *bytes,
                Setting::FailureBytesKept(bytes) => limits.failure_bytes_kept = *bytes,
                Setting::PollsEndOnShutdown(truth) => node.polls_end_on_shutdown = *truth,
                Setting::WorkflowPause(truth) => node.workflow_pause = *truth,
                Setting::WorkflowRules(truth) => node.workflow_rules = *truth,
                Setting::CompletionPages(truth) => node.completion_pages = *truth,
                Setting::NexusStandalone(truth) => node.nexus_standalone = *truth,
                Setting::ActivityCallbacks(truth) => node.activity_callbacks = *truth,
                Setting::UpdateCallbacks(truth) => node.update_callbacks = *truth,
                Setting::SystemOperations(truth) => node.system_operations = *truth,
                Setting::TransactionBytes(bytes) => limits.transaction_bytes = *bytes,
                Setting::Deployments(truth) => node.deployments.enabled = *truth,
                Setting::DeploymentsMax(count) => node.deployments.deployments_max = *count,
                Setting::VersionsMax(count) => node.deployments.versions_max = *count,
                Setting::QueuesOfVersionMax(count) => node.deployments.queues_max = *count,
                Setting::VersionsOfQueueMax(count) => node.deployments.versions_of_queue_max = *count,
                Setting::DrainageGrace(grace) => node.deployments.drainage_grace = *grace,
                Setting::PollerTtl(ttl) => node.deployments.poller_ttl = *ttl,
                Setting::PendingOperations(count) => limits.pending_operations = *count,
                Setting::CallbackTargets(targets) => http.callback_targets = targets.clone(),
                Setting::CallbackUrl(url) => http.callback_url = Some(url.clone()),
                Setting::NoEffect | Setting::Unknown(_) => {}
            }
        }
        let data = self.db_filename.as_deref().map_or(Ok(Data::InMemory), data)?;
        let directory = match &data {
            Data::Directory(directory) => Some(directory.as_path()),
            Data::InMemory | Data::Database { .. } => None,
        };
        Ok(Plan {
            listen: ServerOptions {
                security: self.protection.options(ip, directory)?,
                grpc: SocketAddr::new(ip, self.port),
                http: SocketAddr::new(ip, http_port),
                limits: self.connections.limits(),
                traces: None,
            },
            data,
            discard_damaged_log: false,
            node,
            http,
            skipping: if self.skip_time { TimeSkippingMode::Unlocked } else { TimeSkippingMode::Off },
            setup: Setup { namespaces: self.namespace, search_attributes: self.search_attribute },
        })
    }

    /// What was asked for and has no meaning here.
    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        let unknown: Vec<&str> = self.dynamic_config_value.iter().filter_map(Setting::unknown).collect();
        if !unknown.is_empty() {
            notes.push(format!("dynamic config keys without a meaning here: {}", unknown.join(", ")));
        }
        let given = &self.meaningless;
        // --headless is what SDKs pass; the pages cost nothing while no browser has them open.
        let flags: Vec<&str> = [
            ("--ui-ip", given.ui_ip.is_some()),
            ("--ui-asset-path", given.ui_asset_path.is_some()),
            ("--ui-public-path", given.ui_public_path.is_some()),
            ("--ui-disable-news-fetch", given.ui_disable_news_fetch),
            ("--sqlite-pragma", !given.sqlite_pragma.is_empty()),
            ("--log-config", given.log_config),
        ]
        .into_iter()
        .filter_map(|(flag, given)| given.then_some(flag))
        .collect();
        if !flags.is_empty() {
            notes.push(format!("flags without a meaning here: {}", flags.join(", ")));
        }
        if let (Some(_), Some(_)) = (self.http_port, self.metrics_port) {
            notes.push("--metrics-port is not used: /metrics is on --http-port".to_owned());
        }
        notes
    }
}

impl Setting {
    fn unknown(&self) -> Option<&str> {
        if let Self::Unknown(key) = self { Some(key) } else { None }
    }
}

/// Where Temporal's development server has its pages: 1000 above the port for gRPC. 0, which is any free port, if the
/// user has that one.
fn pages_port(ip: IpAddr, grpc: u16) -> u16 {
    let usual = grpc.checked_add(1000).filter(|_| grpc != 0);
    usual.filter(|port| TcpListener::bind((ip, *port)).is_ok()).unwrap_or(0)
}

fn resolve(ip: &str) -> anyhow::Result<IpAddr> {
    if ip == "localhost" {
        return Ok(Ipv4Addr::LOCALHOST.into());
    }
    let found = (ip, 0).to_socket_addrs().ok().and_then(|mut addresses| addresses.next());
    match found {
        Some(address) => Ok(address.ip()),
        None => bail!(Usage(format!(
            "--ip {ip:?} is not an address of this machine. Try 127.0.0.1, or 0.0.0.0 to let other machines in"
        ))),
    }
}

/// Where `--db-filename` puts the data. Segno keeps a directory; the database file in one stands for it.
fn data(path: &Path) -> anyhow::Result<Data> {
    if !path.is_file() {
        return Ok(Data::Directory(path.to_owned()));
    }
    match path.parent() {
        Some(directory) if path.file_name().is_some_and(|name| name == DATABASE_FILE) => {
            let here = directory.as_os_str().is_empty();
            Ok(Data::Directory(if here { PathBuf::from(".") } else { directory.to_owned() }))
        }
        _ => bail!(Usage(format!(
            "--db-filename {}: there is a file of that name, and it is not Segno's. Segno keeps its data in a directory: \
             name one, or a path that does not exist yet",
            path.display()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use segno_node::Limits;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(subcommand)]
        server: Server,
    }

    fn parse(words: &[&str]) -> Result<StartDev, clap::Error> {
        let line = Line::try_parse_from(["server", "start-dev"].iter().chain(words))?;
        let Server::StartDev(start_dev) = line.server;
        Ok(*start_dev)
    }

    #[test]
    fn the_command_line_of_sdks_is_understood() {
        let given = parse(&[
            "--port",
            "7000",
            "--namespace",
            "default",
            "--ip",
            "127.0.0.1",
            "--log-format",
            "pretty",
            "--log-level",
            "warn",
            "--dynamic-config-value",
            "frontend.enableServerVersionCheck=false",
            "--dynamic-config-value",
            "limit.historyCount.suggestContinueAsNew=50",
            "--headless",
            "--search-attribute",
            "A=Keyword",
            "--sqlite-pragma",
            "journal_mode=wal",
            "--http-port",
            "7001",
        ])
        .expect("understood");
        let notes = given.notes();
        assert_eq!(notes.len(), 2, "{notes:?}");
        assert!(notes[0].contains("frontend.enableServerVersionCheck") && notes[1].contains("--sqlite-pragma"));
        let plan = given.plan().expect("a plan");
        assert_eq!(plan.node.limits.history_events_suggest, 50);
        assert_eq!(plan.node.limits.history_bytes_suggest, Limits::default().history_bytes_suggest);
        assert_eq!(plan.data, Data::InMemory);
        assert_eq!(plan.listen.http.port(), 7001);
        assert_eq!(plan.setup.search_attributes, [("A".to_owned(), IndexedValueType::Keyword)]);
    }

    #[test]
    fn headless_alone_is_no_news() {
        assert_eq!(parse(&["--headless"]).expect("understood").notes(), Vec::<String>::new());
    }

    #[test]
    fn the_pages_are_where_temporals_are_if_the_port_is_free() {
        let ip = IpAddr::V4(Ipv4Addr::LOCALHOST);
        // Another process may take a port as soon as it is free.
        let found = (0..10).any(|_| {
            let held = TcpListener::bind((ip, 0)).expect("a port");
            let port = held.local_addr().expect("bound").port();
            assert_eq!(pages_port(ip, port - 1000), 0);
            drop(held);
            pages_port(ip, port - 1000) == port
        });
        assert!(found);
        assert_eq!((pages_port(ip, 0), pages_port(ip, 65_000)), (0, 0));
    }

    #[test]
    fn settings_are_checked() {
        assert_eq!(setting("LIMIT.historysize.suggestContinueAsNew=7"), Ok(Setting::BytesSuggest(7)));
        assert_eq!(setting("limit.blobSize.error=1000"), Ok(Setting::BlobBytes(1000)));
        assert_eq!(setting("limit.blobSize.warn=100"), Ok(Setting::FailureBytesKept(100)));
        assert_eq!(setting("frontend.enableCancelWorkerPollsOnShutdown=false"), Ok(Setting::PollsEndOnShutdown(false)));
        assert!(setting("frontend.enableCancelWorkerPollsOnShutdown=maybe").is_err());
        assert_eq!(setting("frontend.WorkflowPauseEnabled=true"), Ok(Setting::WorkflowPause(true)));
        for value in ["90", "90s", "\"90s\"", "1m30s"] {
            assert_eq!(
                setting(&format!("matching.PollerHistoryTTL={value}")),
                Ok(Setting::PollerTtl(90_000_000_000)),
                "{value}"
            );
        }
        assert!(setting("matching.PollerHistoryTTL=-1").is_err() && setting("matching.PollerHistoryTTL=soon").is_err());
        assert!(setting("limit.historyCount.suggestContinueAsNew=0").is_err());
        assert!(setting("limit.historyCount.suggestContinueAsNew=\"many\"").is_err());
        assert!(setting("nothing").is_err());
        let template = "component.nexusoperations.callback.endpoint.template=\"http://h/{{.NamespaceName}}\"";
        assert!(matches!(setting(template), Ok(Setting::CallbackUrl(_))));
        let addresses = r#"callback.allowedAddresses=[{"Pattern":"*","AllowInsecure":true}]"#;
        assert!(matches!(setting(addresses), Ok(Setting::CallbackTargets(_))));
        assert!(parse(&["--search-attribute", "A=Kewyord"]).is_err());
    }

    #[test]
    fn data_is_a_directory() {
        let folder = std::env::temp_dir().join(format!("segno-start-dev-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let file = |name: &str| {
            let path = folder.join(name);
            std::fs::write(&path, "x").expect("a file");
            path
        };
        assert_eq!(data(&folder).expect("fine"), Data::Directory(folder.clone()));
        assert_eq!(data(&folder.join("new")).expect("fine"), Data::Directory(folder.join("new")));
        assert_eq!(data(&file(DATABASE_FILE)).expect("fine"), Data::Directory(folder.clone()));
        let error = data(&file("temporal.db")).expect_err("a foreign file").to_string();
        assert!(error.contains("not Segno's"), "{error}");
        std::fs::remove_dir_all(&folder).expect("cleaned up");
    }
}
