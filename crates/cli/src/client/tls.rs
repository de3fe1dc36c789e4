//! How commands connect: with or without TLS, and with which credentials.

use std::{io, path::PathBuf, sync::Arc, time::Duration};

use anyhow::Context;
use clap::Args;
use hyper_util::rt::TokioIo;
use rustls::{ClientConfig, RootCertStore, pki_types::ServerName};
use segno_tls::{CertificateCheck, ServerVerifier, ShownCertificate};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tonic::{
    Request, Status,
    metadata::{Ascii, MetadataValue},
    service::{Interceptor, interceptor::InterceptedService},
    transport::Endpoint,
};

use super::{profile::TlsProfile, variable};
use crate::exit::Usage;

/// A connection on which every call says who makes it.
pub type Channel = InterceptedService<tonic::transport::Channel, Credentials>;

/// Flags for a server with TLS or authentication.
#[derive(Args, Clone, Debug, Default)]
pub struct Security {
    /// API key. [env: SEGNO_API_KEY, TEMPORAL_API_KEY]
    #[arg(long, global = true, value_name = "KEY")]
    api_key: Option<String>,
    /// Encrypt the connection; any other --tls flag does so as well. [env: SEGNO_TLS, TEMPORAL_TLS]
    #[arg(long, global = true, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    tls: Option<bool>,
    /// Authorities of the server's certificate, PEM. [env: SEGNO_TLS_CA, TEMPORAL_TLS_SERVER_CA_CERT_PATH] [default: the system's]
    #[arg(long, global = true, value_name = "FILE")]
    tls_ca_path: Option<PathBuf>,
    /// Certificate of the client, PEM. [env: SEGNO_TLS_CERT, TEMPORAL_TLS_CLIENT_CERT_PATH]
    #[arg(long, global = true, value_name = "FILE")]
    tls_cert_path: Option<PathBuf>,
    /// Its private key, PEM. [env: SEGNO_TLS_KEY, TEMPORAL_TLS_CLIENT_KEY_PATH]
    #[arg(long, global = true, value_name = "FILE")]
    tls_key_path: Option<PathBuf>,
    /// The name in the server's certificate, if it is not the address. [env: SEGNO_TLS_SERVER_NAME, TEMPORAL_TLS_SERVER_NAME]
    #[arg(long, global = true, value_name = "NAME")]
    tls_server_name: Option<String>,
    /// Accept any certificate from the server. For tests only: an attacker in between can read everything.
    /// [env: TEMPORAL_TLS_DISABLE_HOST_VERIFICATION]
    #[arg(long, global = true)]
    tls_disable_host_verification: bool,
}

/// The same with what the environment says.
pub struct Settings {
    api_key: Option<String>,
    is_tls: bool,
    roots: Option<PathBuf>,
    identity: Option<(PathBuf, PathBuf)>,
    server_name: Option<String>,
    is_unverified: bool,
}

fn truth(names: &[&str]) -> anyhow::Result<Option<bool>> {
    let Some(value) = variable(names) else { return Ok(None) };
    match value.to_ascii_lowercase().as_str() {
        "1" | "true" | "yes" | "on" => Ok(Some(true)),
        "0" | "false" | "no" | "off" => Ok(Some(false)),
        _ => anyhow::bail!(Usage(format!("{} must be true or false, not {value:?}", names.join(" or ")))),
    }
}

impl Security {
    /// With what the environment says, and the profile after that; `wants_tls` if the address does.
    pub fn settings(
        self,
        wants_tls: bool,
        profile_key: Option<String>,
        profile: Option<TlsProfile>,
    ) -> anyhow::Result<Settings> {
        // As in Temporal's configuration, a profile with a key is encrypted unless it says otherwise.
        let by_profile = match &profile {
            Some(tls) => !tls.is_disabled,
            None => profile_key.is_some(),
        };
        let profile = profile.unwrap_or_default();
        let path = |given: Option<PathBuf>, names: &[&str]| given.or_else(|| variable(names).map(PathBuf::from));
        let roots = path(self.tls_ca_path, &["SEGNO_TLS_CA", "TEMPORAL_TLS_SERVER_CA_CERT_PATH", "TEMPORAL_TLS_CA"])
            .or(profile.roots);
        let cert = path(self.tls_cert_path, &["SEGNO_TLS_CERT", "TEMPORAL_TLS_CLIENT_CERT_PATH", "TEMPORAL_TLS_CERT"])
            .or(profile.certificate);
        let key = path(self.tls_key_path, &["SEGNO_TLS_KEY", "TEMPORAL_TLS_CLIENT_KEY_PATH", "TEMPORAL_TLS_KEY"])
            .or(profile.key);
        let identity = match (cert, key) {
            (Some(cert), Some(key)) => Some((cert, key)),
            (None, None) => None,
            _ => anyhow::bail!(Usage("a client certificate needs both --tls-cert-path and --tls-key-path".to_owned())),
        };
        let server_name =
            self.tls_server_name.or_else(|| variable(&["SEGNO_TLS_SERVER_NAME", "TEMPORAL_TLS_SERVER_NAME"]));
        let server_name = server_name.or(profile.server_name);
        let unverified = truth(&["TEMPORAL_TLS_DISABLE_HOST_VERIFICATION"])?.unwrap_or(profile.is_unverified);
        let is_unverified = self.tls_disable_host_verification || unverified;
        let asked = match self.tls {
            Some(asked) => Some(asked),
            None => truth(&["SEGNO_TLS", "TEMPORAL_TLS"])?,
        };
        let implied = wants_tls
            || by_profile
            || (!profile.is_disabled
                && (roots.is_some() || identity.is_some() || server_name.is_some() || is_unverified));
        Ok(Settings {
            api_key: self.api_key.or_else(|| variable(&["SEGNO_API_KEY", "TEMPORAL_API_KEY"])).or(profile_key),
            is_tls: asked.unwrap_or(implied),
            roots,
            identity,
            server_name,
            is_unverified,
        })
    }
}

/// What every call carries.
#[derive(Clone)]
pub struct Credentials(Option<MetadataValue<Ascii>>);

impl Interceptor for Credentials {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(value) = &self.0 {
            request.metadata_mut().insert("authorization", value.clone());
        }
        Ok(request)
    }
}

impl Settings {
    /// For another server than that of the command; only what is said here is used.
    pub fn of_other(wants_tls: bool, api_key: Option<String>, roots: Option<PathBuf>) -> Self {
        let is_tls = wants_tls || roots.is_some();
        Self { api_key, is_tls, roots, identity: None, server_name: None, is_unverified: false }
    }

    /// What every call carries.
    pub fn credentials(&self) -> anyhow::Result<Credentials> {
        let Some(key) = &self.api_key else { return Ok(Credentials(None)) };
        let mut value: MetadataValue<Ascii> = format!("Bearer {}", key.trim())
            .parse()
            .ok()
            .context("the API key has characters that a key cannot have")?;
        value.set_sensitive(true);
        Ok(Credentials(Some(value)))
    }

    /// Connects to `host`, which has a port.
    pub async fn connect(
        &self,
        host: &str,
        timeout: Duration,
    ) -> anyhow::Result<Result<tonic::transport::Channel, tonic::transport::Error>> {
        let endpoint = Endpoint::from_shared(format!("http://{host}"))?.connect_timeout(timeout).tcp_nodelay(true);
        if !self.is_tls {
            return Ok(endpoint.connect().await);
        }
        let connector = TlsConnector::from(Arc::new(self.config()?));
        let name = match &self.server_name {
            Some(name) => name.clone(),
            None => endpoint.uri().host().unwrap_or_default().trim_matches(['[', ']']).to_owned(),
        };
        let name = ServerName::try_from(name.clone()).with_context(|| format!("{name:?} is not the name of a host"))?;
        let host = host.to_owned();
        let connect = tower::service_fn(move |_| {
            let (connector, name, host) = (connector.clone(), name.clone(), host.clone());
            async move {
                let stream = TcpStream::connect(host).await?;
                stream.set_nodelay(true)?;
                let shaking_hands = tokio::time::timeout(timeout, connector.connect(name, stream));
                let stream = shaking_hands.await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
                Ok::<_, io::Error>(TokioIo::new(stream))
            }
        });
        Ok(endpoint.connect_with_connector(connect).await)
    }

    fn config(&self) -> anyhow::Result<ClientConfig> {
        let builder = segno_tls::client()?;
        let builder = if self.is_unverified {
            builder.dangerous().with_custom_certificate_verifier(ServerVerifier::new(AnyCertificate))
        } else {
            builder.with_root_certificates(self.roots()?)
        };
        let mut config = match &self.identity {
            None => builder.with_no_client_auth(),
            Some((cert, key)) => {
                let chain = segno_tls::certificates(cert)
                    .with_context(|| format!("reading the certificate {}", cert.display()))?;
                let key = segno_tls::private_key(key).with_context(|| format!("reading the key {}", key.display()))?;
                builder.with_client_auth_cert(chain, key).context("the client certificate cannot be used")?
            }
        };
        config.alpn_protocols = vec![b"h2".to_vec()];
        Ok(config)
    }

    fn roots(&self) -> anyhow::Result<RootCertStore> {
        let Some(path) = &self.roots else { return Ok(segno_tls::system_roots()) };
        let mut roots = RootCertStore::empty();
        for root in segno_tls::certificates(path).with_context(|| format!("reading the roots {}", path.display()))? {
            roots.add(root).with_context(|| format!("a root in {}", path.display()))?;
        }
        Ok(roots)
    }
}

/// Takes every certificate.
#[derive(Debug)]
struct AnyCertificate;

impl CertificateCheck for AnyCertificate {
    fn check(&self, _: &ShownCertificate<'_>) -> Result<(), rustls::Error> {
        Ok(())
    }
}
