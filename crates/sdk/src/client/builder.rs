//! Options of a client's connection.

use std::{sync::Arc, time::Duration};

use http::{
    HeaderMap, HeaderName, HeaderValue, Uri,
    uri::{Authority, Scheme},
};

use super::{
    Client, ClientError, Inner,
    connection::Connection,
    interceptor::{ClientInterceptor, Interceptors},
    metered::MeteredChannel,
    proxy::HttpProxy,
    tls_options::TlsOptions,
    transport::{Target, Transport},
};
use crate::{
    converter::{
        DataConverter, FailureConverter,
        codec::{Codecs, PayloadCodec},
    },
    telemetry::Metrics,
};

/// Headers that describe a connection, which HTTP/2 does not allow, and those that every call has.
const OF_HTTP: [&str; 9] = [
    "connection",
    "content-type",
    "host",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

const DEFAULT_TARGET: &str = "http://127.0.0.1:7233";

/// A client that is being made: [`Client::builder`].
#[derive(Clone)]
#[must_use]
pub struct ClientBuilder {
    target: String,
    namespace: String,
    identity: String,
    api_key: Option<String>,
    tls: Option<TlsOptions>,
    metadata: Vec<(String, String)>,
    keep_alive: Option<Duration>,
    lazy: bool,
    proxy: Option<HttpProxy>,
    codecs: Codecs,
    interceptors: Interceptors,
    metrics: Option<Metrics>,
}

impl Default for ClientBuilder {
    fn default() -> Self {
        Self {
            target: DEFAULT_TARGET.to_owned(),
            namespace: "default".to_owned(),
            identity: default_identity(),
            api_key: None,
            tls: None,
            metadata: Vec::new(),
            keep_alive: Some(Duration::from_secs(30)),
            lazy: false,
            proxy: None,
            codecs: Codecs::default(),
            interceptors: Interceptors::new(),
            metrics: None,
        }
    }
}

impl ClientBuilder {
    /// The server: `http://host:port`, `https://host:port` or `host:port`.
    pub fn target(mut self, target: impl Into<String>) -> Self {
        self.target = target.into();
        self
    }

    /// The namespace; `default` if not given.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = namespace.into();
        self
    }

    /// Who this is, for histories and logs; `pid@host` if not given.
    pub fn identity(mut self, identity: impl Into<String>) -> Self {
        self.identity = identity.into();
        self
    }

    /// The key that is sent as a bearer token. The connection is then made with TLS, unless the target says `http://`.
    pub fn api_key(mut self, key: impl Into<String>) -> Self {
        self.api_key = Some(key.into());
        self
    }

    /// Connects with TLS. Needs the feature `tls`.
    pub fn tls(mut self, options: TlsOptions) -> Self {
        self.tls = Some(options);
        self
    }

    /// Adds metadata to every call.
    pub fn metadata(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.metadata.push((key.into(), value.into()));
        self
    }

    /// After how long without anything from the server a connection is probed; `None`: never. 30 s if not given.
    pub fn keep_alive(mut self, interval: Option<Duration>) -> Self {
        self.keep_alive = interval;
        self
    }

    /// Connects with the first call, not at once.
    pub fn lazy(mut self) -> Self {
        self.lazy = true;
        self
    }

    /// Connects through a proxy.
    pub fn http_proxy(mut self, proxy: impl Into<HttpProxy>) -> Self {
        self.proxy = Some(proxy.into());
        self
    }

    /// Gives values on the wire another form than JSON, for this client and its workers.
    pub fn converter(mut self, converter: impl DataConverter) -> Self {
        self.codecs.convert(Arc::new(converter));
        self
    }

    /// Gives failures on the wire another form, for this client and its workers.
    pub fn failure_converter(mut self, converter: impl FailureConverter) -> Self {
        self.codecs.convert_failures(Arc::new(converter));
        self
    }

    /// Adds a codec. What is sent passes the codecs in the order in which they were added, what comes in the other order.
    pub fn codec(mut self, codec: impl PayloadCodec) -> Self {
        self.codecs.push(Arc::new(codec));
        self
    }

    /// Messages and stack traces of failures pass the codecs, too; others see "Encoded failure". Readers need no setting.
    pub fn encode_failure_attributes(mut self) -> Self {
        self.codecs.hide_failures();
        self
    }

    /// Counts calls, and what workers of this client do.
    pub fn metrics(mut self, metrics: Metrics) -> Self {
        self.metrics = Some(metrics);
        self
    }

    /// Adds code around calls. The first that is added is the outermost.
    pub fn interceptor(mut self, interceptor: impl ClientInterceptor) -> Self {
        self.interceptors.push(Arc::new(interceptor));
        self
    }

    /// The settings of the environment: `TEMPORAL_ADDRESS`, `TEMPORAL_NAMESPACE`, `TEMPORAL_API_KEY`, `TEMPORAL_TLS`,
    /// `TEMPORAL_TLS_SERVER_CA_CERT_PATH`, `TEMPORAL_TLS_SERVER_NAME`, `TEMPORAL_TLS_CLIENT_CERT_PATH` and
    /// `TEMPORAL_TLS_CLIENT_KEY_PATH` (or `.._DATA` for the text itself), and `TEMPORAL_GRPC_META_<key>`.
    ///
    /// With the feature `envconfig` they go before those of Temporal's configuration file, which is
    /// `temporalio/temporal.toml` in the user's configuration directory or the file that `TEMPORAL_CONFIG_FILE` names.
    /// `TEMPORAL_PROFILE` names the profile in it; `default` if not given.
    pub fn from_env() -> Result<Self, ClientError> {
        #[cfg(feature = "envconfig")]
        let file = super::profile::variables(None, None)?;
        #[cfg(not(feature = "envconfig"))]
        let file = Vec::new();
        Self::from_variables(file.into_iter().chain(environment()))
    }

    /// The settings of a profile in Temporal's configuration file, here without the environment. `file`: where it is, if
    /// not in the usual place. Needs the feature `envconfig`.
    #[cfg(feature = "envconfig")]
    pub fn from_profile(file: Option<&std::path::Path>, profile: &str) -> Result<Self, ClientError> {
        Self::from_variables(super::profile::variables(file, Some(profile))?.into_iter())
    }

    fn from_variables(variables: impl Iterator<Item = (String, String)>) -> Result<Self, ClientError> {
        let mut builder = Self::default();
        let mut tls = TlsOptions::default();
        let (mut tls_given, mut tls_wanted) = (false, None);
        for (name, value) in variables {
            let Some(name) = name.strip_prefix("TEMPORAL_").filter(|_| !value.is_empty()) else { continue };
            if let Some(key) = name.strip_prefix("GRPC_META_") {
                let key = key.to_lowercase().replace('_', "-");
                // The last value counts: the environment comes after the file.
                builder.metadata.retain(|(there, _)| *there != key);
                builder = builder.metadata(key, value);
                continue;
            }
            let certificate = match name {
                "TLS_SERVER_CA_CERT_PATH" | "TLS_SERVER_CA_CERT_DATA" => Some(&mut tls.server_root_ca),
                "TLS_CLIENT_CERT_PATH" | "TLS_CLIENT_CERT_DATA" => Some(&mut tls.client_certificate),
                "TLS_CLIENT_KEY_PATH" | "TLS_CLIENT_KEY_DATA" => Some(&mut tls.client_key),
                _ => None,
            };
            match (name, certificate) {
                (_, Some(place)) => {
                    tls_given = true;
                    *place = Some(if name.ends_with("_PATH") { read(name, &value)? } else { value.into_bytes() });
                }
                ("ADDRESS", _) => builder.target = value,
                ("NAMESPACE", _) => builder.namespace = value,
                ("API_KEY", _) => builder.api_key = Some(value),
                ("TLS_SERVER_NAME", _) => {
                    tls_given = true;
                    tls.domain = Some(value);
                }
                ("TLS", _) => tls_wanted = Some(is_true(&value)?),
                _ => {}
            }
        }
        if tls_wanted.unwrap_or(tls_given) {
            builder.tls = Some(tls);
        }
        Ok(builder)
    }

    /// Whether to use TLS, and the address with its scheme.
    fn address(&self) -> (bool, String) {
        if let Some(rest) = self.target.strip_prefix("https://") {
            return (true, format!("https://{rest}"));
        }
        if let Some(rest) = self.target.strip_prefix("http://") {
            let scheme = if self.tls.is_some() { "https" } else { "http" };
            return (self.tls.is_some(), format!("{scheme}://{rest}"));
        }
        let secure = self.tls.is_some() || self.api_key.is_some();
        (secure, format!("{}://{}", if secure { "https" } else { "http" }, self.target))
    }

    /// Where the server is and how to get there.
    fn destination(&self) -> Result<Target, ClientError> {
        let (secure, address) = self.address();
        let wrong = |error: String| ClientError::Configuration(format!("{address} is not an address: {error}"));
        let uri: Uri = address.parse().map_err(|error: http::uri::InvalidUri| wrong(error.to_string()))?;
        let authority: Authority = uri.authority().cloned().ok_or_else(|| wrong("it has no host".to_owned()))?;
        #[cfg(not(feature = "tls"))]
        if secure {
            let message = "a connection with TLS needs the feature `tls` of segno-sdk";
            return Err(ClientError::Configuration(message.to_owned()));
        }
        Ok(Target {
            scheme: if secure { Scheme::HTTPS } else { Scheme::HTTP },
            proxy: self.proxy.clone(),
            #[cfg(feature = "tls")]
            tls: self.secure(secure, &authority)?,
            authority,
            keep_alive: self.keep_alive,
            metadata: self.entries()?,
        })
    }

    #[cfg(feature = "tls")]
    fn secure(&self, secure: bool, authority: &Authority) -> Result<Option<super::tls::Tls>, ClientError> {
        let options = self.tls.clone().unwrap_or_default();
        secure.then(|| super::tls::Tls::new(options, authority.host())).transpose().map_err(ClientError::Configuration)
    }

    /// The metadata of every call.
    fn entries(&self) -> Result<HeaderMap, ClientError> {
        let own = [
            ("user-agent", concat!("segno-rust/", env!("CARGO_PKG_VERSION")).to_owned()),
            ("client-name", "segno-rust".to_owned()),
            ("client-version", env!("CARGO_PKG_VERSION").to_owned()),
            ("temporal-namespace", self.namespace.clone()),
        ];
        let key = self.api_key.iter().map(|key| ("authorization", format!("Bearer {key}")));
        let added = self.metadata.iter().map(|(key, value)| (key.as_str(), value.clone()));
        let mut entries = HeaderMap::new();
        for (key, value) in own.into_iter().chain(key).chain(added) {
            // Metadata with bytes would be base64; some names belong to HTTP itself.
            let may_be_set = |name: &HeaderName| !name.as_str().ends_with("-bin") && !OF_HTTP.contains(&name.as_str());
            let name: Option<HeaderName> = key.parse().ok().filter(may_be_set);
            let name =
                name.ok_or_else(|| ClientError::Configuration(format!("{key:?} cannot be a key of metadata")))?;
            let value: HeaderValue = value
                .parse()
                .map_err(|_| ClientError::Configuration(format!("the value of {key} cannot be sent as metadata")))?;
            entries.insert(name, value);
        }
        Ok(entries)
    }

    /// Connects, unless [`ClientBuilder::lazy`] was called.
    pub async fn connect(self) -> Result<Client, ClientError> {
        let transport = Transport::new(self.destination()?);
        if !self.lazy {
            transport.connect().await.map_err(|error| {
                let message = format!("{} cannot be reached: {error}", self.address().1);
                ClientError::Rpc { code: tonic::Code::Unavailable, message }
            })?;
        }
        let counting = self.metrics.map(|metrics| (metrics, self.namespace.clone()));
        let inner = Inner {
            connection: Connection { channel: MeteredChannel::new(transport, counting) },
            namespace: self.namespace.into(),
            identity: self.identity,
            codecs: self.codecs,
            interceptors: self.interceptors,
            eager: Default::default(),
        };
        Ok(Client(Arc::new(inner)))
    }
}

/// The environment, without what is no text.
fn environment() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
}

fn read(name: &str, path: &str) -> Result<Vec<u8>, ClientError> {
    std::fs::read(path).map_err(|error| ClientError::Configuration(format!("TEMPORAL_{name}: {path}: {error}")))
}

fn is_true(value: &str) -> Result<bool, ClientError> {
    match value.to_lowercase().as_str() {
        "true" | "1" | "yes" | "on" => Ok(true),
        "false" | "0" | "no" | "off" => Ok(false),
        _ => Err(ClientError::Configuration(format!("TEMPORAL_TLS is true or false, not {value:?}"))),
    }
}

fn default_identity() -> String {
    let host = std::env::var("HOSTNAME")
        .ok()
        .or_else(|| std::fs::read_to_string("/proc/sys/kernel/hostname").ok())
        .map(|name| name.trim().to_owned())
        .filter(|name| !name.is_empty());
    format!("{}@{}", std::process::id(), host.as_deref().unwrap_or("localhost"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(variables: &[(&str, &str)]) -> Result<ClientBuilder, ClientError> {
        ClientBuilder::from_variables(variables.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())))
    }

    #[cfg(feature = "envconfig")]
    #[test]
    fn settings_of_a_profile() {
        let path = std::env::temp_dir().join(format!("segno-sdk-profile-{}.toml", std::process::id()));
        let text = "[profile.shop]\naddress = \"example.com:7233\"\nnamespace = \"shop\"\n";
        std::fs::write(&path, text).unwrap();
        let builder = ClientBuilder::from_profile(Some(&path), "shop");
        let missing = ClientBuilder::from_profile(Some(&path), "till");
        std::fs::remove_file(&path).unwrap();
        let builder = builder.unwrap();
        assert_eq!((builder.target.as_str(), builder.namespace.as_str()), ("example.com:7233", "shop"));
        assert!(
            matches!(missing, Err(ClientError::Configuration(why)) if why.contains("there is no profile \"till\""))
        );
    }

    #[test]
    fn settings_of_the_environment() {
        let builder = from(&[]).unwrap();
        assert_eq!((builder.address(), builder.namespace.as_str()), ((false, DEFAULT_TARGET.to_owned()), "default"));
        let builder = from(&[
            ("TEMPORAL_ADDRESS", "example.com:7233"),
            ("TEMPORAL_NAMESPACE", "shop"),
            ("TEMPORAL_GRPC_META_X_TEAM", "a"),
        ])
        .unwrap();
        assert_eq!(builder.address(), (false, "http://example.com:7233".to_owned()));
        assert_eq!(builder.namespace, "shop");
        assert_eq!(builder.metadata, [("x-team".to_owned(), "a".to_owned())]);
        let builder = from(&[("TEMPORAL_ADDRESS", "example.com:7233"), ("TEMPORAL_API_KEY", "k")]).unwrap();
        assert_eq!(builder.address(), (true, "https://example.com:7233".to_owned()));
        let builder = from(&[("TEMPORAL_TLS_SERVER_CA_CERT_DATA", "pem")]).unwrap();
        assert_eq!(builder.tls.unwrap().server_root_ca.unwrap(), b"pem");
        let builder = from(&[("TEMPORAL_TLS_SERVER_CA_CERT_DATA", "pem"), ("TEMPORAL_TLS", "false")]).unwrap();
        assert!(builder.tls.is_none());
        assert!(matches!(from(&[("TEMPORAL_TLS", "maybe")]), Err(ClientError::Configuration(_))));
        let missing = from(&[("TEMPORAL_TLS_CLIENT_KEY_PATH", "/no/such/file")]);
        assert!(matches!(missing, Err(ClientError::Configuration(_))));
    }

    #[test]
    fn later_settings_count() {
        let builder = from(&[
            ("TEMPORAL_ADDRESS", "file:1"),
            ("TEMPORAL_GRPC_META_x-team", "file"),
            ("TEMPORAL_ADDRESS", "environment:2"),
            ("TEMPORAL_GRPC_META_X_TEAM", "environment"),
        ])
        .unwrap();
        assert_eq!(builder.target, "environment:2");
        assert_eq!(builder.metadata, [("x-team".to_owned(), "environment".to_owned())]);
    }

    #[tokio::test]
    async fn wrong_settings_are_refused() {
        let refused = |builder: ClientBuilder| async move {
            match builder.lazy().connect().await {
                Err(ClientError::Configuration(message)) => message,
                Err(other) => panic!("{other:?}"),
                Ok(_) => panic!("connected"),
            }
        };
        let message = refused(Client::builder().metadata("not a key", "x")).await;
        assert!(message.contains("\"not a key\""), "{message}");
        let message = refused(Client::builder().metadata("Connection", "close")).await;
        assert!(message.contains("\"Connection\""), "{message}");
        let message = refused(Client::builder().target("http://")).await;
        assert!(message.contains("is not an address"), "{message}");
        #[cfg(not(feature = "tls"))]
        {
            let message = refused(Client::builder().target("https://example.com")).await;
            assert!(message.contains("feature `tls`"), "{message}");
        }
    }

    #[tokio::test]
    async fn an_unreachable_server_is_named() {
        let error = Client::connect("http://127.0.0.1:1").await.map(|_| ()).unwrap_err();
        assert!(error.to_string().contains("http://127.0.0.1:1 cannot be reached"), "{error}");
    }
}
