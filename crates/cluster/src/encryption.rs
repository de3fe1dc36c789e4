//! TLS between nodes. At each start a node makes a key and a self-signed certificate. The certificate is in the node's
//! row of the database, and other nodes accept no other one: a process that can write the database is part of the
//! cluster anyway. There are no files and no settings.
//!
//! A node of an older version has no certificate in its row. A link with it is in cleartext, so that nodes can be
//! upgraded one after the other; when the last one is upgraded cleartext is refused.
//!
//! What holds: before its first byte the dialling node knows that the other side has the key of the intended node; the
//! accepting node compares the certificate of the other side with the row of the node that it claims to be.

use std::{io, sync::Arc};

use rustls::{
    CertificateError, ClientConfig, ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName},
    version::TLS13,
};
use segno_environment::environment::Connection;
use segno_tls::{AnyClientCertificate, CertificateCheck, ServerVerifier, ShownCertificate, provider};
use tokio::io::AsyncReadExt;
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// The name in a node's certificate. No node checks it: the certificate as a whole is compared.
const NAME: &str = "node.segno.invalid";

/// The key and the certificate of one life of a node.
pub struct NodeIdentity {
    certificate: CertificateDer<'static>,
    key: PrivatePkcs8KeyDer<'static>,
}

impl std::fmt::Debug for NodeIdentity {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("NodeIdentity").finish_non_exhaustive()
    }
}

impl NodeIdentity {
    /// Makes a new one.
    pub fn generate() -> io::Result<Self> {
        let made = rcgen::generate_simple_self_signed(vec![NAME.to_owned()]).map_err(io::Error::other)?;
        let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
        Ok(Self { certificate: made.cert.der().clone(), key })
    }

    /// The certificate, DER: what other nodes find in the database.
    pub fn certificate(&self) -> &[u8] {
        &self.certificate
    }

    fn key(&self) -> PrivateKeyDer<'static> {
        PrivateKeyDer::Pkcs8(self.key.clone_key())
    }

    /// Encrypts a connection to the node that has this certificate; a node that has none cannot.
    pub(super) async fn connect(&self, stream: Connection, pinned: &[u8]) -> io::Result<Connection> {
        if pinned.is_empty() {
            return Ok(stream);
        }
        let mut config = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&TLS13])
            .map_err(io::Error::other)?
            .dangerous()
            .with_custom_certificate_verifier(ServerVerifier::new(PinnedCertificate(pinned.to_vec())))
            .with_client_auth_cert(vec![self.certificate.clone()], self.key())
            .map_err(io::Error::other)?;
        config.resumption = rustls::client::Resumption::disabled();
        let name = ServerName::try_from(NAME).map_err(io::Error::other)?;
        Ok(Box::new(TlsConnector::from(Arc::new(config)).connect(name, stream).await?))
    }

    /// Accepts connections of other nodes.
    pub(super) fn acceptor(&self) -> io::Result<TlsAcceptor> {
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&TLS13])
            .map_err(io::Error::other)?
            .with_client_cert_verifier(AnyClientCertificate::new())
            .with_single_cert(vec![self.certificate.clone()], self.key())
            .map_err(io::Error::other)?;
        config.send_tls13_tickets = 0;
        Ok(TlsAcceptor::from(Arc::new(config)))
    }
}

/// Encrypts a connection that another node made; gives the certificate that it has the key of. Where cleartext is allowed, and
/// the other side does not begin with a handshake, that is none.
pub(super) async fn accept(
    acceptor: &TlsAcceptor,
    mut stream: Connection,
    cleartext: bool,
) -> io::Result<(Connection, Vec<u8>)> {
    if cleartext {
        let mut first = [0; 2];
        stream.read_exact(&mut first).await?;
        let (read, write) = tokio::io::split(stream);
        stream = Box::new(tokio::io::join(io::Cursor::new(first).chain(read), write));
        if !is_handshake(first) {
            return Ok((stream, Vec::new()));
        }
    }
    let stream = acceptor.accept(stream).await?;
    let shown = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
    let shown = shown.ok_or_else(|| io::Error::new(io::ErrorKind::PermissionDenied, "no certificate"))?.to_vec();
    Ok((Box::new(stream), shown))
}

/// Whether the first bytes are those of a TLS record with a handshake. In the clear they are the length of a short message,
/// whose second byte is 0.
fn is_handshake(first: [u8; 2]) -> bool {
    first == [0x16, 3]
}

/// Accepts one certificate.
#[derive(Debug)]
struct PinnedCertificate(Vec<u8>);

impl CertificateCheck for PinnedCertificate {
    fn check(&self, shown: &ShownCertificate<'_>) -> Result<(), rustls::Error> {
        match shown.certificate.as_ref() == self.0.as_slice() {
            true => Ok(()),
            false => Err(rustls::Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure)),
        }
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_types, reason = "these tests connect over loopback")]
mod tests {
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::{TcpListener, TcpStream},
    };

    use super::*;

    /// Accepts one connection and gives what the accepting side found.
    async fn listen(
        identity: &NodeIdentity,
        cleartext: bool,
    ) -> (String, tokio::task::JoinHandle<io::Result<Vec<u8>>>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let acceptor = identity.acceptor().expect("an acceptor");
        let accepted = tokio::spawn(async move {
            let (stream, _) = listener.accept().await?;
            let (mut stream, shown) = accept(&acceptor, Box::new(stream), cleartext).await?;
            stream.write_all(b"hello").await?;
            stream.flush().await?;
            Ok(shown)
        });
        (address, accepted)
    }

    #[tokio::test]
    async fn nodes_know_each_other_by_their_certificates() {
        let (one, other) = (NodeIdentity::generate().expect("made"), NodeIdentity::generate().expect("made"));
        let (address, accepted) = listen(&one, true).await;
        let stream = TcpStream::connect(&address).await.expect("connected");
        let mut stream = other.connect(Box::new(stream), one.certificate()).await.expect("the node that was meant");
        let mut heard = [0; 5];
        stream.read_exact(&mut heard).await.expect("encrypted");
        assert_eq!(&heard, b"hello");
        let shown = accepted.await.expect("no panic").expect("accepted");
        assert_eq!(shown, other.certificate(), "the node that accepts learns which one dialled");
        assert_ne!(shown, one.certificate());
    }

    #[tokio::test]
    async fn a_stranger_in_the_place_of_a_node_is_refused() {
        let (node, stranger) = (NodeIdentity::generate().expect("made"), NodeIdentity::generate().expect("made"));
        let (address, accepted) = listen(&stranger, false).await;
        let stream = TcpStream::connect(&address).await.expect("connected");
        assert!(node.connect(Box::new(stream), node.certificate()).await.is_err());
        assert!(accepted.await.expect("no panic").is_err());
    }

    #[tokio::test]
    async fn a_node_without_a_certificate_is_spoken_to_in_the_clear_where_that_is_allowed() {
        let (before, node) = (NodeIdentity::generate().expect("made"), NodeIdentity::generate().expect("made"));
        for cleartext in [true, false] {
            let (address, accepted) = listen(&node, cleartext).await;
            let stream = TcpStream::connect(&address).await.expect("connected");
            let mut stream = before.connect(Box::new(stream), &[]).await.expect("nothing is agreed on");
            // Also if the first byte comes alone, and is that of a handshake.
            stream.write_all(&[0x16]).await.expect("sent");
            tokio::time::sleep(std::time::Duration::from_millis(30)).await;
            stream.write_all(&[0; 30]).await.expect("sent");
            let shown = accepted.await.expect("no panic");
            assert_eq!(shown.ok(), cleartext.then(Vec::new));
        }
    }

    #[tokio::test]
    async fn cleartext_and_callers_without_a_certificate_are_refused() {
        let node = NodeIdentity::generate().expect("made");
        let (address, accepted) = listen(&node, false).await;
        let mut stream = TcpStream::connect(&address).await.expect("connected");
        stream.write_all(&[20, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]).await.expect("sent");
        assert!(accepted.await.expect("no panic").is_err());

        let (address, accepted) = listen(&node, false).await;
        let pinned = PinnedCertificate(node.certificate().to_vec());
        let config = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&TLS13])
            .expect("TLS 1.3")
            .dangerous()
            .with_custom_certificate_verifier(ServerVerifier::new(pinned))
            .with_no_client_auth();
        let stream = TcpStream::connect(&address).await.expect("connected");
        let name = ServerName::try_from(NAME).expect("a name");
        // The refusal comes after the client's side of the handshake.
        let _ = TlsConnector::from(Arc::new(config)).connect(name, stream).await;
        assert!(accepted.await.expect("no panic").is_err());
    }
}
