//! Connections: how one is made, checked and set up, and how a broken one is replaced.
//!
//! There is no pool. Each connection has one purpose, and one attempt at a time is made to replace it, so that an
//! outage of the database does not multiply connections. Each new one checks the settings again: after a failover they
//! may differ.
//!
//! What holds: a [`Session`] that a [`Link`] gives belongs to a primary whose settings make commits durable.

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::Instant;
use tokio_postgres::config::{Host, TargetSessionAttrs};
use tokio_postgres::error::{Severity, SqlState};
use tokio_postgres::{AsyncMessage, Client, Config, SimpleQueryMessage, Statement};

use crate::{OpenError, tls};
use segno_store::lock::lock;

/// How long a read or a commit that was not sent waits for the database.
pub(crate) const WAIT_MAX: Duration = Duration::from_secs(10);
const BACK_OFF_MIN: Duration = Duration::from_millis(50);
const BACK_OFF_MAX: Duration = Duration::from_secs(1);
/// The connection to one host and its checks together.
pub(crate) const CONNECT_MAX: Duration = Duration::from_secs(5);

/// How long a server that starts waits for a database that starts, too.
const START_MAX: Duration = Duration::from_secs(60);

/// The use of a connection, which decides its settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Commits.
    Commits,
    /// Reads by key, and small writes outside of commits.
    Reader,
    /// Lists, counts and scans.
    Lists,
    /// The beat.
    Pulse,
}

/// The state that all connections of a store share.
#[derive(Debug)]
pub(crate) struct Common {
    /// How each host of the URL is reached.
    pub(crate) hosts: Vec<Config>,
    /// The host that is tried first: the one that answered last.
    pub(crate) first: AtomicUsize,
    pub(crate) tls: tls::Settings,
    pub(crate) may_lose_commits: bool,
    /// The store is closing: no connection is made.
    pub(crate) closing: AtomicBool,
    /// Connections that were made again.
    pub(crate) reconnects: AtomicU64,
}

/// A connection.
pub(crate) struct Session {
    pub(crate) client: Client,
    connector: tls::Connector,
    /// By their texts, which are long and looked up with every commit.
    statements: tokio::sync::Mutex<HashMap<String, Statement, foldhash::fast::RandomState>>,
    /// A warning came since this was last looked at. During a commit it may mean that a wait for a standby was given up.
    warned: Arc<AtomicBool>,
    broken: AtomicBool,
    driver: tokio::task::AbortHandle,
}

impl Drop for Session {
    fn drop(&mut self) {
        // The client alone would wait for answers that are under way.
        self.driver.abort();
    }
}

impl Session {
    pub(crate) fn is_usable(&self) -> bool {
        !self.broken.load(Ordering::Acquire) && !self.client.is_closed()
    }

    /// It is not to be used again.
    pub(crate) fn give_up(&self) {
        self.broken.store(true, Ordering::Release);
        self.driver.abort();
    }

    /// Whether a warning came since the last time.
    pub(crate) fn take_warning(&self) -> bool {
        self.warned.swap(false, Ordering::AcqRel)
    }

    /// Tells the server that the statement is to be cancelled, on a connection of its own.
    pub(crate) async fn cancel(&self) {
        let _ = self.client.cancel_token().cancel_query(self.connector.clone()).await;
    }

    /// A statement, prepared once for each connection.
    pub(crate) async fn prepare(&self, text: &str) -> Result<Statement, tokio_postgres::Error> {
        let mut statements = self.statements.lock().await;
        if let Some(known) = statements.get(text) {
            return Ok(known.clone());
        }
        let statement = self.client.prepare(text).await?;
        statements.insert(text.to_owned(), statement.clone());
        Ok(statement)
    }
}

/// A connection that is made again when it broke.
pub(crate) struct Link {
    common: Arc<Common>,
    purpose: Purpose,
    session: tokio::sync::Mutex<Option<Arc<Session>>>,
    /// The last error: logged when it changes.
    trouble: Mutex<Option<String>>,
}

impl Link {
    pub(crate) fn new(common: Arc<Common>, purpose: Purpose) -> Self {
        Self { common, purpose, session: tokio::sync::Mutex::default(), trouble: Mutex::default() }
    }

    /// The connection, made again if it broke. Fails when `patience` is over.
    pub(crate) async fn session(&self, patience: Duration) -> Result<Arc<Session>, OpenError> {
        self.session_after(patience, true).await
    }

    /// The connection at a start: the first refusal counts, unless the database says that it is starting.
    pub(crate) async fn first_session(&self) -> Result<Arc<Session>, OpenError> {
        self.session_after(START_MAX, false).await
    }

    async fn session_after(&self, patience: Duration, again_and_again: bool) -> Result<Arc<Session>, OpenError> {
        let until = Instant::now() + patience;
        let Ok(mut place) = tokio::time::timeout_at(until, self.session.lock()).await else {
            return Err(OpenError::Unreachable(self.last_trouble()));
        };
        if let Some(session) = place.as_ref().filter(|session| session.is_usable()) {
            return Ok(session.clone());
        }
        let again = place.take().is_some();
        let mut back_off = BACK_OFF_MIN;
        loop {
            if self.common.closing.load(Ordering::Acquire) {
                return Err(OpenError::Unreachable("the server is shutting down".to_owned()));
            }
            let attempt = connect(&self.common, self.purpose);
            let trouble = match tokio::time::timeout_at(until, attempt).await {
                Ok(Ok(session)) => {
                    if again {
                        self.common.reconnects.fetch_add(1, Ordering::Relaxed);
                    }
                    self.note(None);
                    let session = Arc::new(session);
                    *place = Some(session.clone());
                    return Ok(session);
                }
                Ok(Err(error)) => error,
                Err(_) => late(),
            };
            self.note(Some(trouble.to_string()));
            let is_hopeless = !again_and_again && !matches!(trouble, OpenError::Starting(_));
            if is_hopeless || Instant::now() + back_off >= until {
                return Err(trouble);
            }
            tokio::time::sleep(back_off).await;
            back_off = (back_off * 2).min(BACK_OFF_MAX);
        }
    }

    fn note(&self, trouble: Option<String>) {
        let mut last = lock(&self.trouble);
        if *last != trouble {
            match &trouble {
                Some(trouble) => tracing::warn!(purpose = ?self.purpose, "no connection to the database: {trouble}"),
                None => tracing::info!(purpose = ?self.purpose, "connected to the database"),
            }
            *last = trouble;
        }
    }

    fn last_trouble(&self) -> String {
        let last = lock(&self.trouble).clone();
        last.unwrap_or_else(|| "the connection is busy".to_owned())
    }
}

pub(crate) fn late() -> OpenError {
    OpenError::Unreachable("it did not answer in time".to_owned())
}

/// Takes the URL apart, host by host, and adds what every connection has.
pub(crate) fn configure(url: &str, name: &str) -> Result<(Vec<Config>, tls::Settings), OpenError> {
    let (url, given) = tls::split(url)?;
    let mut config: Config = url.parse().map_err(|error| OpenError::Url(describe(&error)))?;
    let tls = tls::Settings::new(given, config.get_hosts())?;
    // For all files an error is found at the start.
    tls.connector()?;
    config
        .ssl_mode(tls.library_mode())
        .application_name(format!("segno/{name}"))
        .connect_timeout(Duration::from_secs(3))
        .keepalives(true)
        .keepalives_idle(Duration::from_secs(5))
        .keepalives_interval(Duration::from_secs(2))
        .keepalives_retries(3)
        .tcp_user_timeout(Duration::from_secs(10))
        .target_session_attrs(TargetSessionAttrs::ReadWrite);
    Ok((by_host(&config), tls))
}

/// The library tries one host after the other, and waits for one that takes connections and says nothing. So each is a
/// configuration of its own.
fn by_host(config: &Config) -> Vec<Config> {
    let (hosts, addresses, ports) = (config.get_hosts(), config.get_hostaddrs(), config.get_ports());
    let count = hosts.len().max(addresses.len());
    let fits = |length: usize| length == 0 || length == count;
    if count < 2 || !fits(hosts.len()) || !fits(addresses.len()) || !(ports.len() < 2 || ports.len() == count) {
        // The library says what is wrong with it.
        return vec![config.clone()];
    }
    (0..count).map(|place| one_host(config, place)).collect()
}

fn one_host(config: &Config, place: usize) -> Config {
    let mut one = Config::new();
    match config.get_hosts().get(place) {
        Some(Host::Tcp(name)) => {
            one.host(name);
        }
        Some(Host::Unix(path)) => {
            one.host_path(path);
        }
        None => {}
    }
    if let Some(address) = config.get_hostaddrs().get(place) {
        one.hostaddr(*address);
    }
    if let Some(port) = config.get_ports().get(place).or(config.get_ports().first()) {
        one.port(*port);
    }
    config.get_user().map(|user| one.user(user));
    config.get_password().map(|password| one.password(password));
    config.get_dbname().map(|name| one.dbname(name));
    config.get_options().map(|options| one.options(options));
    config.get_application_name().map(|name| one.application_name(name));
    config.get_connect_timeout().map(|timeout| one.connect_timeout(*timeout));
    config.get_tcp_user_timeout().map(|timeout| one.tcp_user_timeout(*timeout));
    config.get_keepalives_interval().map(|interval| one.keepalives_interval(interval));
    config.get_keepalives_retries().map(|retries| one.keepalives_retries(retries));
    one.ssl_mode(config.get_ssl_mode())
        .ssl_negotiation(config.get_ssl_negotiation())
        .keepalives(config.get_keepalives())
        .keepalives_idle(config.get_keepalives_idle())
        .target_session_attrs(config.get_target_session_attrs())
        .channel_binding(config.get_channel_binding())
        .load_balance_hosts(config.get_load_balance_hosts());
    one
}

/// One attempt with each host, beginning with the one that answered last.
async fn connect(common: &Common, purpose: Purpose) -> Result<Session, OpenError> {
    let first = common.first.load(Ordering::Relaxed);
    let mut trouble = None;
    for step in 0..common.hosts.len() {
        let place = (first + step) % common.hosts.len();
        // A caller that fails with this one, or gives up on it, begins with the next.
        let mut next = NextHost { common, place, answered: false };
        let attempt = connect_to(common, &common.hosts[place], purpose);
        match tokio::time::timeout(CONNECT_MAX, attempt).await.unwrap_or_else(|_| Err(late())) {
            Ok(session) => {
                next.answered = true;
                common.first.store(place, Ordering::Relaxed);
                return Ok(session);
            }
            // Another one may be the primary. That one of them is starting counts for more than that others cannot be reached.
            Err(error @ (OpenError::Unreachable(_) | OpenError::Starting(_) | OpenError::InRecovery)) => {
                if !matches!(trouble, Some(OpenError::Starting(_))) {
                    trouble = Some(error);
                }
            }
            Err(error) => return Err(error),
        }
    }
    Err(trouble.unwrap_or_else(late))
}

/// Has others begin with the next host when an attempt failed or was given up, unless they did already.
struct NextHost<'a> {
    common: &'a Common,
    place: usize,
    answered: bool,
}

impl Drop for NextHost<'_> {
    fn drop(&mut self) {
        if !self.answered {
            let (place, next) = (self.place, (self.place + 1) % self.common.hosts.len());
            let _ = self.common.first.compare_exchange(place, next, Ordering::Relaxed, Ordering::Relaxed);
        }
    }
}

async fn connect_to(common: &Common, config: &Config, purpose: Purpose) -> Result<Session, OpenError> {
    let connector = common.tls.connector()?;
    let (client, mut connection) = config.connect(connector.clone()).await.map_err(|error| match error.code() {
        Some(&SqlState::CANNOT_CONNECT_NOW) => OpenError::Starting(describe(&error)),
        _ => OpenError::Unreachable(format!("{}{}", describe(&error), common.tls.hint())),
    })?;
    let warned = Arc::new(AtomicBool::new(false));
    let noted = warned.clone();
    let driver = tokio::spawn(async move {
        while let Some(message) = poll_fn(|context| connection.poll_message(context)).await {
            match message {
                Ok(AsyncMessage::Notice(notice)) => {
                    if !matches!(notice.parsed_severity(), Some(Severity::Notice | Severity::Info | Severity::Log)) {
                        noted.store(true, Ordering::Release);
                        tracing::warn!("the database warns: {}", notice.message());
                    }
                }
                Ok(_) => {}
                Err(error) => {
                    tracing::debug!("a connection to the database broke: {}", describe(&error));
                    break;
                }
            }
        }
    });
    let session = Session {
        client,
        connector,
        statements: tokio::sync::Mutex::default(),
        warned,
        broken: AtomicBool::new(false),
        driver: driver.abort_handle(),
    };
    check(&session.client).await?;
    set_up(&session.client, common, purpose).await?;
    session.take_warning();
    Ok(session)
}

/// Refuses a server that would not keep what it acknowledges.
async fn check(client: &Client) -> Result<(), OpenError> {
    let settings = "SELECT current_setting('server_version_num')::int, pg_is_in_recovery(), current_setting('fsync'), \
                    current_setting('full_page_writes'), current_setting('server_encoding')";
    let row = client.query_one(settings, &[]).await.map_err(failed)?;
    let version: i32 = row.get(0);
    if version < 150_000 {
        return Err(OpenError::Version { found: format!("{}.{}", version / 10_000, version % 10_000) });
    }
    if row.get(1) {
        return Err(OpenError::InRecovery);
    }
    for (place, name, wanted) in [(2, "fsync", "on"), (3, "full_page_writes", "on"), (4, "server_encoding", "UTF8")] {
        let found: String = row.get(place);
        if found != wanted {
            return Err(OpenError::Setting { name, found, wanted });
        }
    }
    Ok(())
}

async fn set_up(client: &Client, common: &Common, purpose: Purpose) -> Result<(), OpenError> {
    let version: i32 =
        client.query_one("SELECT current_setting('server_version_num')::int", &[]).await.map_err(failed)?.get(0);
    let mut settings =
        "SET idle_in_transaction_session_timeout = '5s'; SET client_min_messages = 'warning';".to_owned();
    settings.push_str(match purpose {
        Purpose::Commits => "SET statement_timeout = 0; SET lock_timeout = 0;",
        Purpose::Reader => "SET statement_timeout = '30s'; SET lock_timeout = '10s';",
        Purpose::Lists => "SET statement_timeout = '30s'; SET lock_timeout = '10s'; SET jit = off;",
        Purpose::Pulse => "SET statement_timeout = '5s'; SET lock_timeout = '5s'; SET synchronous_commit = off;",
    });
    if matches!(purpose, Purpose::Commits | Purpose::Reader) {
        // On a table that was never analysed a generic plan would be a sequential scan, and a plan of its own for each
        // execution would cost more than the work.
        settings.push_str(
            "SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off; \
             SET enable_bitmapscan = off; SET plan_cache_mode = force_generic_plan; SET jit = off;",
        );
    }
    if version >= 170_000 && purpose != Purpose::Commits {
        settings.push_str("SET transaction_timeout = '30s';");
    }
    client.batch_execute(&settings).await.map_err(failed)?;
    if purpose == Purpose::Pulse {
        return Ok(());
    }
    let read = "SELECT current_setting('synchronous_commit')";
    let found: String = client.query_one(read, &[]).await.map_err(failed)?.get(0);
    if found != "remote_apply" && !common.may_lose_commits {
        client.batch_execute("SET synchronous_commit = on").await.map_err(failed)?;
    }
    let found: String = client.query_one(read, &[]).await.map_err(failed)?.get(0);
    if !matches!(found.as_str(), "on" | "remote_apply") && !common.may_lose_commits {
        return Err(OpenError::Setting { name: "synchronous_commit", found, wanted: "on" });
    }
    Ok(())
}

/// How often two connections are asked alternately who serves them.
const TURNS: usize = 8;

/// Refuses connections whose statements are executed by other sessions than their own. One that commits could then be one that
/// does not wait until commits are safe, and a prepared statement could be another node's.
pub(crate) async fn check_pooler(one: &Client, other: &Client) -> Result<(), OpenError> {
    let mut served: [Option<String>; 2] = [None, None];
    for turn in 0..2 * TURNS {
        let client = [one, other][turn % 2];
        let rows = client.simple_query("SELECT pg_backend_pid()").await.map_err(failed)?;
        let process = rows.iter().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
            _ => None,
        });
        let has_moved = served[turn % 2].is_some() && served[turn % 2] != process;
        if has_moved || served[(turn + 1) % 2] == process {
            return Err(OpenError::Pooler);
        }
        served[turn % 2] = process;
    }
    Ok(())
}

/// The error for a server that could be reached and refused.
pub(crate) fn failed(error: tokio_postgres::Error) -> OpenError {
    match error.code() {
        // A statement was prepared in another session.
        Some(&SqlState::INVALID_SQL_STATEMENT_NAME | &SqlState::DUPLICATE_PSTATEMENT) => OpenError::Pooler,
        _ => OpenError::Unreachable(describe(&error)),
    }
}

/// An error with its causes: the library's own text names only the kind.
pub(crate) fn describe(error: &tokio_postgres::Error) -> String {
    if let Some(database) = error.as_db_error() {
        return format!("{} (SQLSTATE {})", database.message(), database.code().code());
    }
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(found) = cause {
        let found_text = found.to_string();
        if !text.contains(&found_text) {
            text.push_str(": ");
            text.push_str(&found_text);
        }
        cause = found.source();
    }
    text
}

/// Whether an error says nothing about the question but about the connection or the server.
pub(crate) fn is_connection_lost(error: &tokio_postgres::Error) -> bool {
    match error.as_db_error() {
        None => true,
        Some(database) => {
            let code = database.code().code();
            // Shutdown and crash; a primary that became a standby; the session is gone; a statement that was not prepared
            // on this connection, which a pooler gave to another one.
            code.starts_with("57P")
                || code.starts_with("08")
                || code == "25006"
                || code == "26000"
                || matches!(database.parsed_severity(), Some(Severity::Fatal | Severity::Panic))
        }
    }
}
