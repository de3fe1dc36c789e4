//! The client of all commands: its connection, its calls, its errors. It works with any server that speaks the
//! protocol.

mod error;
mod history;
mod profile;
mod tls;

pub use profile::config_dir;

use std::{
    cell::{Cell, RefCell},
    collections::BTreeSet,
    path::PathBuf,
    pin::Pin,
    time::{Duration, Instant},
};

use clap::Args;
use http::uri::PathAndQuery;
use segno_proto::{Nanos, Rpc, codec::Codec};
use tonic::{Request, Response, Status, client::Grpc, metadata::MetadataMap};

pub use error::{ClientError, is_interruption, is_not_grpc, is_out_of_time, is_too_large};
use tls::{Channel, Security};

use crate::{
    args,
    output::{self, Color, Format, Json},
};

const DEFAULT_ADDRESS: &str = "127.0.0.1:7233";
const DEFAULT_NAMESPACE: &str = "default";
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Time for a call that answers at once. A query waits for a worker, so this is generous.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a command that waits goes on waiting for a server that is away, for example because it is being upgraded.
const RECONNECT_TIMEOUT: Duration = Duration::from_secs(60);
/// Pause between two attempts to reach it.
const RECONNECT_DELAY: Duration = Duration::from_millis(500);
/// Largest answer: a page of history can be large. SDKs have the same limit.
const ANSWER_BYTES_MAX: usize = 128 * 1024 * 1024;

/// Flags of every command that speaks to a server.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Options of every command")]
pub struct Connection {
    /// The server. [env: SEGNO_ADDRESS, TEMPORAL_ADDRESS] [default: 127.0.0.1:7233]
    #[arg(long, global = true, value_name = "HOST:PORT")]
    address: Option<String>,
    /// The namespace. [env: SEGNO_NAMESPACE, TEMPORAL_NAMESPACE] [default: default]
    #[arg(short, long, global = true, value_name = "NAME")]
    namespace: Option<String>,
    /// A file with profiles. [env: SEGNO_CONFIG_FILE, TEMPORAL_CONFIG_FILE]
    #[arg(long, global = true, value_name = "FILE")]
    config_file: Option<PathBuf>,
    /// The profile. [env: SEGNO_PROFILE, TEMPORAL_PROFILE] [default: default]
    #[arg(long, global = true, value_name = "NAME")]
    profile: Option<String>,
    #[command(flatten)]
    security: Security,
    /// Format of the output.
    #[arg(short, long, global = true, value_enum, default_value_t, value_name = "FORM")]
    output: Format,
    /// When to use colours; auto: on a terminal, unless NO_COLOR is set.
    #[arg(long, global = true, value_enum, default_value_t, value_name = "WHEN")]
    color: Color,
    /// Give up after this time, such as 30s. [default: wait as long as it takes]
    #[arg(long, global = true, value_parser = args::duration, value_name = "DURATION")]
    command_timeout: Option<Nanos>,
}

/// The first variable of the environment that is set.
fn variable(names: &[&str]) -> Option<String> {
    names.iter().find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()))
}

impl Connection {
    /// Format of the output, for commands that need no server.
    pub fn format(&self) -> Format {
        self.output
    }

    /// Whether there are colours, for commands that need no server.
    pub fn colors(&self) -> bool {
        self.color.is_on()
    }

    /// The same connection, for a command that has little time.
    pub fn within_a_second(self) -> Self {
        Self { command_timeout: Some(1_000_000_000), ..self }
    }

    /// Runs a command on the server, within its time.
    pub fn run<C: AsyncFnOnce(&mut Client) -> anyhow::Result<()>>(self, command: C) -> anyhow::Result<()> {
        let limit = self.command_timeout.filter(|limit| *limit > 0);
        // Boxed, so that the code of each command is compiled once and not once for each way of waiting for it.
        block_on(
            limit,
            Box::pin(async {
                let mut client = Client::connect(self).await?;
                command(&mut client).await?;
                client.is_in_effect()
            }),
        )
    }
}

/// Waits for the end of a command, or until its time is over.
fn block_on(limit: Option<Nanos>, work: Pin<Box<dyn Future<Output = anyhow::Result<()>> + '_>>) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        match limit {
            None => work.await,
            Some(nanos) => {
                let limit = Duration::from_nanos(nanos.unsigned_abs());
                tokio::time::timeout(limit, work).await.unwrap_or(Err(ClientError::OutOfTime(limit).into()))
            }
        }
    })
}

/// A connection, and how results are printed.
pub struct Client {
    /// Makes the calls.
    grpc: Grpc<Channel>,
    /// The namespace the command is about.
    pub namespace: String,
    /// Who asks.
    pub identity: String,
    /// The server.
    pub address: String,
    /// Format of the output.
    pub format: Format,
    /// Whether there are colours.
    pub colors: bool,
    /// Whether the server has answered a call.
    answered: Cell<bool>,
    /// Since when it does not answer, if a command waits for it.
    away_since: Cell<Option<Instant>>,
    /// Nodes of which it is not known whether they have a change.
    unconfirmed: RefCell<BTreeSet<String>>,
}

impl Client {
    async fn connect(connection: Connection) -> anyhow::Result<Self> {
        let profile = profile::load(connection.config_file.as_deref(), connection.profile.as_deref())?;
        let address = connection.address.or_else(|| variable(&["SEGNO_ADDRESS", "TEMPORAL_ADDRESS"]));
        let address = address.or(profile.address).unwrap_or_else(|| DEFAULT_ADDRESS.to_owned());
        let namespace = connection.namespace.or_else(|| variable(&["SEGNO_NAMESPACE", "TEMPORAL_NAMESPACE"]));
        let namespace = namespace.or(profile.namespace);
        let (_, wants_tls) = host_of(&address)?;
        let security = connection.security.settings(wants_tls, profile.api_key, profile.tls)?;
        let namespace = namespace.unwrap_or_else(|| DEFAULT_NAMESPACE.to_owned());
        Self::open(address, namespace, &security, (connection.output, connection.color.is_on())).await
    }

    /// A connection to another server. Neither the profile nor the environment is used for it.
    pub async fn of_other(
        &self,
        address: &str,
        namespace: String,
        api_key: Option<String>,
        roots: Option<PathBuf>,
    ) -> anyhow::Result<Self> {
        let (_, wants_tls) = host_of(address)?;
        let security = tls::Settings::of_other(wants_tls, api_key, roots);
        Self::open(address.to_owned(), namespace, &security, (self.format, self.colors)).await
    }

    async fn open(
        address: String,
        namespace: String,
        security: &tls::Settings,
        (format, colors): (Format, bool),
    ) -> anyhow::Result<Self> {
        let (host, _) = host_of(&address)?;
        let channel = security
            .connect(host, CONNECT_TIMEOUT)
            .await
            .map_err(|error| match error.is::<http::uri::InvalidUri>() {
                true => ClientError::Address { address: address.clone(), detail: error.to_string() }.into(),
                false => error,
            })?
            .map_err(|error| ClientError::connect(&address, &error))?;
        let channel = Channel::new(channel, security.credentials()?);
        Ok(Self {
            grpc: Grpc::new(channel).max_decoding_message_size(ANSWER_BYTES_MAX),
            namespace,
            identity: identity(),
            address,
            format,
            colors,
            answered: Cell::new(false),
            away_since: Cell::new(None),
            unconfirmed: RefCell::default(),
        })
    }

    /// Whether programs read the output.
    pub fn is_json(&self) -> bool {
        self.format != Format::Text
    }

    /// Prints a result in the form that was asked for.
    pub fn print(&self, text: impl FnOnce() -> String, json: impl FnOnce() -> Json) -> anyhow::Result<()> {
        let shown = if self.is_json() { self.format.render(&json()) } else { text() };
        // A list without items has no lines.
        if self.format == Format::Jsonl && shown.is_empty() {
            return Ok(());
        }
        Ok(output::print(&shown)?)
    }

    /// Makes a call that answers at once, or soon. `what` completes the sentence "cannot ...".
    pub async fn call<Q: Rpc>(&mut self, what: &str, message: Q) -> Result<Q::Response, ClientError> {
        let answer = self.send(request(message)).await;
        self.answer(what, answer)
    }

    /// Makes a call that only waits for something, and makes it again when a server that went away is back.
    pub async fn call_until_answered<Q: Rpc + Clone>(
        &mut self,
        what: &str,
        message: Q,
    ) -> Result<Q::Response, ClientError> {
        loop {
            let answer = self.send(request(message.clone())).await;
            match &answer {
                Err(status) if self.is_worth_a_retry(status).await => {}
                _ => return self.answer(what, answer),
            }
        }
    }

    /// Makes a call; [`Client::answer`] reads its result.
    pub async fn send<Q: Rpc>(&mut self, request: Request<Q>) -> Result<Response<Q::Response>, Status> {
        self.grpc.ready().await.map_err(|error| Status::unknown(format!("Service was not ready: {error}")))?;
        self.grpc.unary(request, PathAndQuery::from_static(Q::PATH), Codec::default()).await
    }

    /// What an answer says, or what was refused. `what` completes the sentence "cannot ...".
    pub fn answer<T>(&self, what: &str, result: Result<Response<T>, Status>) -> Result<T, ClientError> {
        match &result {
            Ok(answer) => {
                self.answered.set(true);
                self.away_since.set(None);
                self.note_nodes(answer.metadata());
            }
            Err(status) => self.notice(status),
        }
        result.map(Response::into_inner).map_err(|status| self.refused(what, status))
    }

    /// Takes note of the nodes that have a change, and says which have not.
    fn note_nodes(&self, metadata: &MetadataMap) {
        let names = |list: &str| {
            let names = metadata.get(list).and_then(|names| names.to_str().ok()).unwrap_or_default().split(',');
            names.filter(|name| !name.is_empty()).map(|name| output::plain(name).to_string()).collect::<Vec<_>>()
        };
        let refusing = names("segno-nodes-refusing");
        if !refusing.is_empty() {
            let confirmed = names("segno-nodes-confirmed").join(", ");
            eprintln!(
                "segno: in effect on {confirmed}; not yet on {}, which admit no callers until it is",
                refusing.join(", ")
            );
        }
        self.unconfirmed.borrow_mut().extend(names("segno-nodes-unconfirmed"));
    }

    /// An error if a change may not be in effect on some nodes.
    fn is_in_effect(&self) -> anyhow::Result<()> {
        let nodes: Vec<String> = self.unconfirmed.borrow().iter().cloned().collect();
        if nodes.is_empty() { Ok(()) } else { Err(ClientError::NotEverywhere(nodes.join(", ")).into()) }
    }

    /// Whether the server has answered a call. A command that waits for one that never did soon says so.
    pub fn has_answered(&self) -> bool {
        self.answered.get()
    }

    /// A status that is no interruption: the server is there.
    fn notice(&self, status: &Status) {
        if is_interruption(status) {
            return;
        }
        self.away_since.set(None);
        // The time that ran out may be that of this side; then no server has answered.
        if !is_out_of_time(status) {
            self.answered.set(true);
        }
    }

    /// After a call that only waits for something: whether it should be made again, because the server went away a short
    /// while ago. Comes back after a pause.
    pub async fn is_worth_a_retry(&self, status: &Status) -> bool {
        self.notice(status);
        if !self.answered.get() || !is_interruption(status) {
            return false;
        }
        let since = self.away_since.get().unwrap_or_else(|| {
            eprintln!(
                "segno: the server at {} does not answer; waiting until it is back",
                output::plain(&self.address)
            );
            Instant::now()
        });
        self.away_since.set(Some(since));
        tokio::time::sleep(RECONNECT_DELAY).await;
        since.elapsed() < RECONNECT_TIMEOUT
    }

    /// A refusal in words.
    pub fn refused(&self, what: &str, status: Status) -> ClientError {
        ClientError::Status {
            what: what.to_owned(),
            address: self.address.clone(),
            status: Box::new(status),
            answered: self.answered.get(),
        }
    }
}

/// Host and port in an address, and whether it asks for encryption.
fn host_of(address: &str) -> Result<(&str, bool), ClientError> {
    let wrong = |detail: &str| ClientError::Address { address: address.to_owned(), detail: detail.to_owned() };
    let (host, wants_tls) = match address.split_once("://") {
        None => (address, false),
        Some(("http", host)) => (host, false),
        Some(("https", host)) => (host, true),
        Some(_) => return Err(wrong("it begins with something else than http or https")),
    };
    let host = host.trim_end_matches('/');
    match host.parse::<http::uri::Authority>().is_ok_and(|parts| parts.port_u16().is_none()) {
        true => Err(wrong("it has no port, or not a number as its port")),
        false => Ok((host, wants_tls)),
    }
}

/// A request that is given up after a while.
pub fn request<T>(message: T) -> Request<T> {
    request_within(message, CALL_TIMEOUT)
}

/// A request with a time limit, which the server is told.
pub fn request_within<T>(message: T, limit: Duration) -> Request<T> {
    let mut request = Request::new(message);
    request.set_timeout(limit);
    request
}

/// A random UUID.
pub fn uuid() -> anyhow::Result<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| anyhow::anyhow!("no random numbers: {error}"))?;
    let bits = u128::from_be_bytes(bytes);
    // Version 4, variant 1.
    let bits = bits & !(0xf << 76) & !(0x3 << 62) | 0x4 << 76 | 0x2 << 62;
    let hex = format!("{bits:032x}");
    Ok(format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]))
}

/// Who asks, as histories record it: `segno:user@host`.
fn identity() -> String {
    let user = variable(&["USER", "LOGNAME"]).unwrap_or_else(|| "unknown".to_owned());
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").ok().map(|name| name.trim().to_owned());
    let host = host.or_else(|| variable(&["HOSTNAME", "HOST"])).unwrap_or_else(|| "unknown".to_owned());
    format!("segno:{user}@{host}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids_have_their_form() {
        let (one, other) = (uuid().expect("random"), uuid().expect("random"));
        assert_ne!(one, other);
        assert_eq!(one.len(), 36);
        assert_eq!(&one[14..15], "4");
        assert!("89ab".contains(&one[19..20]), "{one}");
    }
}
