//! TLS to the database: `sslmode`, `sslrootcert`, `sslcert` and `sslkey` of the URL, as libpq has them.
//!
//! | mode | encrypted | certificate | host name |
//! |---|---|---|---|
//! | `disable` | no | | |
//! | `prefer` | if the server offers it | not checked | not checked |
//! | `require` | yes | not checked, or as `verify-ca` with `sslrootcert` | not checked |
//! | `verify-ca` | yes | signed by a root | not checked |
//! | `verify-full` | yes | signed by a root | checked |
//!
//! Without `sslmode`, a unix socket is not encrypted, a loopback address is `prefer`, and any other host is `verify-full`:
//! what crosses a network is protected unless the user says otherwise. Files are read again with each connection, so that
//! renewed certificates need no restart.
//!
//! Passwords are bound to the connection (SCRAM-SHA-256-PLUS, tls-server-end-point of RFC 5929) where the server offers it.

use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::client::verify_server_name;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, ClientConfig, RootCertStore};
use segno_tls::{CertificateCheck, PemError, ServerVerifier, ShownCertificate};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::Socket;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_rustls::TlsConnector;

use crate::OpenError;

/// The value of `sslrootcert` that means the roots of the system.
const SYSTEM: &str = "system";

/// How much of a server's identity is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Disable,
    Prefer,
    Require,
    VerifyCa,
    VerifyFull,
}

/// How connections are encrypted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    mode: Mode,
    root: Option<String>,
    certificate: Option<(PathBuf, PathBuf)>,
    /// The user said nothing: errors explain the default.
    is_default: bool,
}

/// The TLS options of a URL.
#[derive(Debug, Default)]
pub(crate) struct UrlTlsOptions {
    mode: Option<String>,
    root: Option<String>,
    certificate: Option<String>,
    key: Option<String>,
}

/// Takes the parameters of TLS out of a URL: the library knows only one of them, and only some of its values.
pub(crate) fn split(url: &str) -> Result<(String, UrlTlsOptions), OpenError> {
    let mut given = UrlTlsOptions::default();
    let Some((base, query)) = url.split_once('?').filter(|_| url.contains("://")) else {
        return Ok((url.to_owned(), given));
    };
    let mut rest = Vec::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let place = match name {
            "sslmode" => &mut given.mode,
            "sslrootcert" => &mut given.root,
            "sslcert" => &mut given.certificate,
            "sslkey" => &mut given.key,
            _ => {
                rest.push(pair);
                continue;
            }
        };
        *place = Some(decode(value)?);
    }
    Ok((if rest.is_empty() { base.to_owned() } else { format!("{base}?{}", rest.join("&")) }, given))
}

/// Percent-decodes a value of a URL.
fn decode(value: &str) -> Result<String, OpenError> {
    let wrong = || OpenError::Url(format!("{value:?} is not percent-encoded text"));
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digits = [rest.next().ok_or_else(wrong)?, rest.next().ok_or_else(wrong)?];
        let digits = std::str::from_utf8(&digits).map_err(|_| wrong())?;
        bytes.push(u8::from_str_radix(digits, 16).map_err(|_| wrong())?);
    }
    String::from_utf8(bytes).map_err(|_| wrong())
}

impl Settings {
    /// The settings that follow from the options of a URL and its hosts.
    pub(crate) fn new(given: UrlTlsOptions, hosts: &[Host]) -> Result<Self, OpenError> {
        let is_socket = hosts.iter().all(|host| matches!(host, Host::Unix(_)));
        let mode = match given.mode.as_deref() {
            // As in libpq: a socket of this machine is never encrypted.
            _ if is_socket => Mode::Disable,
            None if given.root.is_some() => Mode::VerifyFull,
            None if hosts.iter().all(is_local) => Mode::Prefer,
            None => Mode::VerifyFull,
            Some("disable") => Mode::Disable,
            Some("prefer") => Mode::Prefer,
            // As in libpq, for what was written before there was verify-ca.
            Some("require") if given.root.is_some() => Mode::VerifyCa,
            Some("require") => Mode::Require,
            Some("verify-ca") => Mode::VerifyCa,
            Some("verify-full") => Mode::VerifyFull,
            Some(other) => {
                return Err(OpenError::Url(format!(
                    "sslmode={other} is not understood; there are disable, prefer, require, verify-ca and verify-full"
                )));
            }
        };
        if given.root.as_deref() == Some(SYSTEM) && mode == Mode::VerifyCa {
            return Err(OpenError::Url(
                "sslrootcert=system needs sslmode=verify-full: every host can get such a certificate".into(),
            ));
        }
        let certificate = match (given.certificate, given.key) {
            (None, None) => None,
            (Some(certificate), Some(key)) => Some((certificate.into(), key.into())),
            _ => return Err(OpenError::Url("sslcert and sslkey go together".into())),
        };
        Ok(Self { mode, root: given.root, certificate, is_default: given.mode.is_none() })
    }

    /// As the library has it.
    pub(crate) fn library_mode(&self) -> SslMode {
        match self.mode {
            Mode::Disable => SslMode::Disable,
            Mode::Prefer => SslMode::Prefer,
            Mode::Require | Mode::VerifyCa | Mode::VerifyFull => SslMode::Require,
        }
    }

    /// An addition to an error of a connection, if the default may be the reason.
    pub(crate) fn hint(&self) -> &'static str {
        match (self.is_default, self.mode) {
            (true, Mode::VerifyFull) => {
                ". The URL has no sslmode, so TLS is needed and the certificate is checked: name its root with \
                 sslrootcert=FILE, or say sslmode=disable if the network is safe"
            }
            _ => "",
        }
    }

    /// Reads the files.
    pub(crate) fn connector(&self) -> Result<Connector, OpenError> {
        if self.mode == Mode::Disable {
            return Ok(Connector(None));
        }
        let builder = segno_tls::client().map_err(|error| OpenError::Tls(error.to_string()))?;
        let chain = match self.mode {
            Mode::Disable | Mode::Prefer | Mode::Require => None,
            Mode::VerifyCa | Mode::VerifyFull => {
                let (roots, named) = self.roots()?;
                let roots = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), segno_tls::provider()).build();
                Some((roots.map_err(|error| OpenError::Tls(format!("the roots cannot be used: {error}")))?, named))
            }
        };
        let check = ChainCheck { chain, checks_name: self.mode == Mode::VerifyFull };
        let builder = builder.dangerous().with_custom_certificate_verifier(ServerVerifier::new(check));
        let config = match &self.certificate {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let shown = key.display().to_string();
                let key = segno_tls::private_key(key)
                    .map_err(|error| OpenError::Tls(format!("sslkey {shown} cannot be read: {error}")))?;
                builder
                    .with_client_auth_cert(read("sslcert", &certificate.to_string_lossy())?, key)
                    .map_err(|error| OpenError::Tls(format!("sslcert and sslkey cannot be used: {error}")))?
            }
        };
        Ok(Connector(Some(Arc::new(config))))
    }

    /// The roots, and those of them that were named one by one.
    fn roots(&self) -> Result<(RootCertStore, Vec<CertificateDer<'static>>), OpenError> {
        match self.root.as_deref() {
            None | Some(SYSTEM) => match segno_tls::system_roots() {
                roots if roots.is_empty() => {
                    Err(OpenError::Tls("this system has no roots; name some with sslrootcert=FILE".into()))
                }
                roots => Ok((roots, Vec::new())),
            },
            Some(file) => {
                let mut roots = RootCertStore::empty();
                let named = read("sslrootcert", file)?;
                for root in &named {
                    let wrong = |error| OpenError::Tls(format!("sslrootcert {file} cannot be used: {error}"));
                    roots.add(root.clone()).map_err(wrong)?;
                }
                Ok((roots, named))
            }
        }
    }
}

fn is_local(host: &Host) -> bool {
    match host {
        Host::Unix(_) => true,
        Host::Tcp(name) => name == "localhost" || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback()),
    }
}

fn read(what: &str, file: &str) -> Result<Vec<CertificateDer<'static>>, OpenError> {
    segno_tls::certificates(file.as_ref()).map_err(|error| match error {
        PemError::NoCertificate => OpenError::Tls(format!("{what} {file} has no certificate in it")),
        PemError::Unreadable(error) => OpenError::Tls(format!("{what} {file} cannot be read: {error}")),
    })
}

/// Checks certificates as a mode wants it.
#[derive(Debug)]
struct ChainCheck {
    /// `None` if any certificate will do.
    chain: Option<(Arc<WebPkiServerVerifier>, Vec<CertificateDer<'static>>)>,
    checks_name: bool,
}

impl CertificateCheck for ChainCheck {
    fn check(&self, shown: &ShownCertificate<'_>) -> Result<(), rustls::Error> {
        let Some((chain, named)) = &self.chain else { return Ok(()) };
        let ShownCertificate { certificate, intermediates, name, ocsp_response, now } = *shown;
        match chain.verify_server_cert(certificate, intermediates, name, ocsp_response, now) {
            Err(rustls::Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) if !self.checks_name => Ok(()),
            // A self-signed certificate that says it is an authority, as PostgreSQL's manual makes them. Times were checked
            // before this was found.
            Err(rustls::Error::InvalidCertificate(CertificateError::Other(_)))
                if named.iter().any(|root| root == certificate) =>
            {
                if self.checks_name {
                    verify_server_name(&ParsedCertificate::try_from(certificate)?, name)?;
                }
                Ok(())
            }
            verified => verified.map(drop),
        }
    }
}

/// Encrypts connections, if that is wanted.
#[derive(Clone)]
pub(crate) struct Connector(Option<Arc<ClientConfig>>);

impl MakeTlsConnect<Socket> for Connector {
    type Stream = Encrypted;
    type TlsConnect = Handshake;
    type Error = io::Error;

    fn make_tls_connect(&mut self, host: &str) -> io::Result<Handshake> {
        Ok(Handshake { config: self.0.clone(), host: host.to_owned() })
    }
}

/// Encrypts one connection.
pub(crate) struct Handshake {
    config: Option<Arc<ClientConfig>>,
    host: String,
}

impl TlsConnect<Socket> for Handshake {
    type Stream = Encrypted;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Encrypted>> + Send>>;

    fn connect(self, socket: Socket) -> Self::Future {
        Box::pin(async move {
            let config = self.config.ok_or_else(|| io::Error::other("TLS is off"))?;
            let name = ServerName::try_from(self.host).map_err(io::Error::other)?;
            Ok(Encrypted(TlsConnector::from(config).connect(name, socket).await?))
        })
    }
}

/// An encrypted connection.
pub(crate) struct Encrypted(tokio_rustls::client::TlsStream<Socket>);

impl TlsStream for Encrypted {
    fn channel_binding(&self) -> ChannelBinding {
        let certificate = self.0.get_ref().1.peer_certificates().and_then(|chain| chain.first());
        match certificate.and_then(|certificate| end_point(certificate)) {
            Some(digest) => ChannelBinding::tls_server_end_point(digest),
            None => ChannelBinding::none(),
        }
    }
}

/// tls-server-end-point: the certificate's digest, by the hash function of its signature. `None` if that has none of its own.
fn end_point(certificate: &[u8]) -> Option<Vec<u8>> {
    const SEQUENCE: u8 = 0x30;
    const OBJECT_IDENTIFIER: u8 = 0x06;
    let (outer, _) = element(certificate, SEQUENCE)?;
    let (_, rest) = element(outer, SEQUENCE)?;
    let (algorithm, _) = element(rest, SEQUENCE)?;
    let (algorithm, _) = element(algorithm, OBJECT_IDENTIFIER)?;
    let hash = match algorithm {
        // 1.2.840.113549.1.1: RSA with MD5 and SHA-1, which count as SHA-256, then with SHA-2.
        [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 4 | 5 | 11] => &ring::digest::SHA256,
        [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 12] => &ring::digest::SHA384,
        [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 13] => &ring::digest::SHA512,
        // 1.2.840.10045.4: ECDSA with SHA-1 and SHA-2.
        [0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x01] | [0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 2] => {
            &ring::digest::SHA256
        }
        [0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 3] => &ring::digest::SHA384,
        [0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 4] => &ring::digest::SHA512,
        _ => return None,
    };
    Some(ring::digest::digest(hash, certificate).as_ref().to_vec())
}

/// The contents of a DER element, and what follows it.
fn element(bytes: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (found, rest) = bytes.split_first()?;
    let (first, rest) = rest.split_first()?;
    let (length, rest) = match *first {
        length @ 0..=0x7f => (usize::from(length), rest),
        count @ 0x81..=0x84 => {
            let (digits, rest) = rest.split_at_checked(usize::from(count & 0x7f))?;
            (digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit)), rest)
        }
        _ => return None,
    };
    rest.split_at_checked(length).filter(|_| *found == tag)
}

impl AsyncRead for Encrypted {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().0).poll_read(context, buffer)
    }
}

impl AsyncWrite for Encrypted {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().0).poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().0).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().0).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(url: &str) -> Result<Settings, OpenError> {
        let (url, given) = split(url)?;
        let config: tokio_postgres::Config = url.parse().expect(&url);
        Settings::new(given, config.get_hosts())
    }

    #[test]
    fn modes_are_those_of_libpq_and_the_default_is_safe() {
        for (url, mode) in [
            ("postgres://u@%2Frun%2Fpg/d", Mode::Disable),
            ("postgres://u@%2Frun%2Fpg/d?sslmode=require", Mode::Disable),
            ("postgres://u@127.0.0.1/d", Mode::Prefer),
            ("postgres://u@localhost/d?connect_timeout=3", Mode::Prefer),
            ("postgres://u@db.example/d", Mode::VerifyFull),
            ("postgres://u@127.0.0.1,db.example/d", Mode::VerifyFull),
            ("postgres://u@db.example/d?sslmode=disable", Mode::Disable),
            ("postgres://u@db.example/d?sslmode=prefer", Mode::Prefer),
            ("postgres://u@db.example/d?sslmode=require", Mode::Require),
            ("postgres://u@db.example/d?sslmode=require&sslrootcert=r", Mode::VerifyCa),
            ("postgres://u@db.example/d?sslmode=verify-ca&sslrootcert=r", Mode::VerifyCa),
            ("postgres://u@127.0.0.1/d?sslrootcert=r", Mode::VerifyFull),
        ] {
            assert_eq!(settings(url).map(|settings| settings.mode), Ok(mode), "{url}");
        }
        for wrong in ["sslmode=allow", "sslcert=c", "sslmode=verify-ca&sslrootcert=system", "sslrootcert=%g0"] {
            assert!(settings(&format!("postgres://u@db.example/d?{wrong}")).is_err(), "{wrong}");
        }
        let all =
            settings("postgres://u@h/d?sslmode=verify-full&sslrootcert=%2Fa%20b&sslcert=c&sslkey=k").expect("read");
        assert_eq!(all.root.as_deref(), Some("/a b"));
        assert_eq!(all.certificate, Some(("c".into(), "k".into())));
    }

    #[test]
    fn elements_of_der_end_where_they_say() {
        assert_eq!(element(&[0x30, 2, 1, 2, 3], 0x30), Some((&[1, 2][..], &[3][..])));
        assert_eq!(element(&[0x30, 0x81, 1, 7], 0x30), Some((&[7][..], &[][..])));
        for wrong in [&[][..], &[0x30], &[0x30, 2, 1], &[0x31, 0], &[0x30, 0x85, 0, 0, 0, 0, 0], &[0x30, 0x80]] {
            assert_eq!(element(wrong, 0x30), None, "{wrong:?}");
        }
        assert_eq!(end_point(b"no certificate"), None);
    }
}
