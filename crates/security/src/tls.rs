//! TLS for gRPC and HTTP: certificates from files, loaded again when the files change.

use std::{
    io,
    path::{Path, PathBuf},
    pin::Pin,
    sync::{Arc, PoisonError, RwLock},
    task::{Context, Poll},
    time::{Duration, SystemTime},
};

use rustls::{
    RootCertStore, ServerConfig,
    pki_types::{CertificateDer, CertificateRevocationListDer, UnixTime, pem::PemObject},
    server::{WebPkiClientVerifier, danger::ClientCertVerifier},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

use super::{certificate, tls_mistakes};

/// How often the files are looked at.
const POLL_INTERVAL: Duration = Duration::from_secs(2);
/// How long a client may take for its handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Whether clients show certificates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientCertificates {
    /// Connections without a certificate are refused.
    Required,
    /// A client that shows one is known by it; other clients show a key or a token.
    Optional,
}

/// Where certificates are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The server's certificate and those between it and a root, PEM.
    pub certificate: PathBuf,
    /// Its private key, PEM.
    pub key: PathBuf,
    /// Which certificates of clients are accepted, if any.
    pub clients: Option<ClientFiles>,
}

/// Which certificates of clients are accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientFiles {
    /// Roots, PEM.
    pub roots: PathBuf,
    /// Whether every client has to show one.
    pub wanted: ClientCertificates,
    /// Revocation lists of all authorities that issued them, PEM.
    pub revoked: Option<PathBuf>,
}

/// Certificates that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read, or has other content.
    #[error("{}: {why}. It must have {what} in PEM form; `segno tls init` makes a set for development", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The expected content.
        what: &'static str,
        /// The error.
        why: String,
    },
    /// They do not fit together.
    #[error("the certificate {} and the key {} cannot be used: {why}", files.certificate.display(), files.key.display())]
    Unfit {
        /// All of them.
        files: Box<TlsFiles>,
        /// The error.
        why: String,
    },
}

struct Configs {
    /// Checks certificates of clients, if there are any.
    clients: Option<Arc<dyn ClientCertVerifier>>,
    grpc: Arc<ServerConfig>,
    http: Arc<ServerConfig>,
}

/// Certificates in use.
pub struct Tls {
    files: TlsFiles,
    configs: RwLock<Configs>,
}

/// The protocol of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/2.
    Grpc,
    /// HTTP/1.1.
    Http,
}

impl Tls {
    /// Reads the files.
    pub fn load(files: TlsFiles) -> Result<Self, TlsError> {
        let configs = RwLock::new(load(&files)?);
        Ok(Self { files, configs })
    }

    /// Loads the files again whenever they change; until dropped. Files that cannot be used change nothing.
    pub async fn follow_files(self: Arc<Self>) {
        let mut seen = self.files.state();
        loop {
            tokio::time::sleep(POLL_INTERVAL).await;
            let now = self.files.state();
            if now == seen {
                continue;
            }
            match load(&self.files) {
                Ok(configs) => {
                    *self.configs.write().unwrap_or_else(PoisonError::into_inner) = configs;
                    seen = now;
                    tracing::info!("the certificates have changed and are in use for new connections");
                }
                // Perhaps only one of them is written yet.
                Err(error) => tracing::warn!("the certificates have changed but the old ones stay in use: {error}"),
            }
        }
    }

    /// Whether the certificate of a client would still be accepted: it has not expired, was not revoked, and its root is one of
    /// ours.
    pub fn accepts(&self, shown: &[CertificateDer<'static>]) -> bool {
        let clients = self.configs.read().unwrap_or_else(PoisonError::into_inner).clients.clone();
        match (clients, shown) {
            (Some(clients), [certificate, between @ ..]) => {
                clients.verify_client_cert(certificate, between, UnixTime::now()).is_ok()
            }
            _ => true,
        }
    }

    /// Shakes hands with a client.
    pub async fn accept(&self, stream: TcpStream, protocol: Protocol) -> io::Result<Stream> {
        let config = {
            let configs = self.configs.read().unwrap_or_else(PoisonError::into_inner);
            match protocol {
                Protocol::Grpc => configs.grpc.clone(),
                Protocol::Http => configs.http.clone(),
            }
        };
        let accepting = async {
            // The byte stays unread.
            let mut first = [0];
            let peeked = stream.peek(&mut first).await?;
            match tls_mistakes::is_handshake(&first[..peeked]) {
                true => TlsAcceptor::from(config).accept(stream).await,
                false => Err(tls_mistakes::turn_away(stream, protocol).await),
            }
        };
        match tokio::time::timeout(HANDSHAKE_TIMEOUT, accepting).await {
            Ok(stream) => Ok(Stream::Tls(Box::new(stream?))),
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        }
    }
}

impl TlsFiles {
    /// Changes with the files.
    fn state(&self) -> Vec<Option<(SystemTime, u64)>> {
        let clients = self.clients.iter().flat_map(|clients| [&clients.roots].into_iter().chain(&clients.revoked));
        let state = |path: &PathBuf| {
            let metadata = std::fs::metadata(path).ok()?;
            Some((metadata.modified().ok()?, metadata.len()))
        };
        [&self.certificate, &self.key].into_iter().chain(clients).map(state).collect()
    }
}

fn load(files: &TlsFiles) -> Result<Configs, TlsError> {
    let unfit = |why: String| TlsError::Unfit { files: Box::new(files.clone()), why };
    let chain = certificates(&files.certificate)?;
    let key = segno_tls::private_key(&files.key).map_err(|error| TlsError::File {
        path: files.key.clone(),
        what: "a private key",
        why: error.to_string(),
    })?;
    let builder = segno_tls::server().map_err(|error| unfit(error.to_string()))?;
    let mut clients = None;
    let builder = match &files.clients {
        None => builder.with_no_client_auth(),
        Some(of) => {
            let verifier = client_verifier(of)?;
            clients = Some(verifier.clone());
            builder.with_client_cert_verifier(verifier)
        }
    };
    let mut grpc = builder.with_single_cert(chain, key).map_err(|error| unfit(error.to_string()))?;
    let mut http = grpc.clone();
    grpc.alpn_protocols = vec![b"h2".to_vec()];
    http.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Configs { clients, grpc: Arc::new(grpc), http: Arc::new(http) })
}

/// Checks certificates of clients. With revocation lists each certificate below a root must be covered by one of them.
fn client_verifier(of: &ClientFiles) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    let wrong = |path: &Path, what, why: String| TlsError::File { path: path.to_owned(), what, why };
    let mut roots = RootCertStore::empty();
    for root in certificates(&of.roots)? {
        let added = roots.add(root);
        added.map_err(|error| wrong(&of.roots, "root certificates of clients", error.to_string()))?;
    }
    let mut verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), segno_tls::provider());
    if let Some(path) = &of.revoked {
        let unreadable = |why: String| wrong(path, "certificate revocation lists", why);
        let lists = CertificateRevocationListDer::pem_file_iter(path).map_err(|error| unreadable(error.to_string()))?;
        let lists: Vec<_> = lists.collect::<Result<_, _>>().map_err(|error| unreadable(error.to_string()))?;
        if lists.is_empty() {
            return Err(unreadable("there is no revocation list in it".to_owned()));
        }
        verifier = verifier.with_crls(lists);
    }
    if of.wanted == ClientCertificates::Optional {
        verifier = verifier.allow_unauthenticated();
    }
    let file = of.revoked.as_ref().unwrap_or(&of.roots);
    verifier.build().map_err(|error| wrong(file, "what certificates of clients are checked with", error.to_string()))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    segno_tls::certificates(path).map_err(|error| TlsError::File {
        path: path.to_owned(),
        what: "certificates",
        why: error.to_string(),
    })
}

/// A connection, encrypted or not.
pub enum Stream {
    /// As it is.
    Plain(TcpStream),
    /// Encrypted.
    Tls(Box<TlsStream<TcpStream>>),
}

impl Stream {
    /// Sends what is written at once; if the system refuses, it only arrives later.
    pub fn set_nodelay(stream: &TcpStream) {
        let _ = stream.set_nodelay(true);
    }

    /// The certificate of the client, and those between it and a root.
    pub fn certificates(&self) -> Option<Vec<CertificateDer<'static>>> {
        let Self::Tls(stream) = self else { return None };
        stream.get_ref().1.peer_certificates().map(<[_]>::to_vec)
    }

    /// Who the client is by its certificate.
    pub fn certificate_subject(&self) -> Option<Arc<str>> {
        let Self::Tls(stream) = self else { return None };
        let certificate = stream.get_ref().1.peer_certificates()?.first()?;
        certificate::common_name(certificate).map(Arc::from)
    }
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            Self::Tls(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(context),
            Self::Tls(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}
