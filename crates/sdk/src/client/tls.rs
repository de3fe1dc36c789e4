//! Connections with TLS.

use std::{io, sync::Arc};

use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
};
use tokio::net::TcpStream;
use tokio_rustls::{TlsConnector, client::TlsStream};

use super::{dial::without_brackets, tls_options::TlsOptions};

/// The name of HTTP/2 in the handshake.
const HTTP2: &[u8] = b"h2";

/// Makes a connection secure.
pub(super) struct Tls {
    connector: TlsConnector,
    server: ServerName<'static>,
}

impl Tls {
    /// `host`: the server's name, unless the options have another.
    pub fn new(options: TlsOptions, host: &str) -> Result<Self, String> {
        let provider = Arc::new(ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(wrong)?
            .with_root_certificates(roots(options.server_root_ca.as_deref())?);
        let mut config = match (options.client_certificate, options.client_key) {
            (Some(certificate), Some(key)) => {
                let key =
                    PrivateKeyDer::from_pem_slice(&key).map_err(|error| wrong(format!("the client's key: {error}")))?;
                config.with_client_auth_cert(certificates(&certificate)?, key).map_err(wrong)?
            }
            (None, None) => config.with_no_client_auth(),
            _ => return Err("a client certificate and its key belong together".to_owned()),
        };
        config.alpn_protocols = vec![HTTP2.to_vec()];
        let name = options.domain.unwrap_or_else(|| without_brackets(host).to_owned());
        let server =
            ServerName::try_from(name.clone()).map_err(|_| wrong(format!("{name:?} is no name of a server")))?;
        Ok(Self { connector: TlsConnector::from(Arc::new(config)), server })
    }

    pub async fn connect(&self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        let stream = self.connector.connect(self.server.clone(), stream).await?;
        match stream.get_ref().1.alpn_protocol() {
            Some(HTTP2) => Ok(stream),
            _ => Err(io::Error::other("the server does not offer HTTP/2 over TLS")),
        }
    }
}

/// The authorities that a server's certificate is checked with.
fn roots(authorities: Option<&[u8]>) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    match authorities {
        Some(authorities) => {
            for certificate in certificates(authorities)? {
                roots.add(certificate).map_err(wrong)?;
            }
        }
        None => {
            let found = rustls_native_certs::load_native_certs();
            let (added, _) = roots.add_parsable_certificates(found.certs);
            if added == 0 {
                let why = found.errors.first().map(|error| format!(": {error}")).unwrap_or_default();
                return Err(wrong(format!("the system has no certificates of authorities{why}")));
            }
        }
    }
    Ok(roots)
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let found: Vec<_> = CertificateDer::pem_slice_iter(pem).collect::<Result<_, _>>().map_err(wrong)?;
    if found.is_empty() { Err(wrong("no certificate in PEM was found")) } else { Ok(found) }
}

fn wrong(error: impl std::fmt::Display) -> String {
    format!("TLS: {error}")
}

#[cfg(test)]
#[path = "tls_tests.rs"]
mod tests;
