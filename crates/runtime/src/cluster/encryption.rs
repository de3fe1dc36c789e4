//! TLS between nodes. Each life of a node has a key and a self-signed certificate of its own, made when it starts. The
//! certificate is in the node's row of the database, and other nodes accept that one and nothing else: who can write the
//! database is the cluster anyway. There are no files and no settings, and a link is never in the clear.
//!
//! What holds: whoever dials knows before its first byte that the other side has the key of the node that it meant; whoever
//! accepts knows which certificate the other side has the key of, and compares it with the row of the node that it says
//! it is.

use std::{io, sync::Arc};

use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, DistinguishedName, Error, ServerConfig, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime},
    server::danger::{ClientCertVerified, ClientCertVerifier},
    version::TLS13,
};
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, TlsConnector, TlsStream};

/// What a node's certificate is made for. Nobody looks at it: the certificate as a whole is compared.
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

    /// Encrypts a connection to the node that has this certificate.
    pub(super) async fn connect(&self, stream: TcpStream, pinned: &[u8]) -> io::Result<TlsStream<TcpStream>> {
        if pinned.is_empty() {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, "the node has no certificate in the database"));
        }
        let provider = Arc::new(ring::default_provider());
        let verifier = Pinned { certificate: Some(pinned.to_vec()), provider: provider.clone() };
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])
            .map_err(io::Error::other)?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_client_auth_cert(vec![self.certificate.clone()], self.key())
            .map_err(io::Error::other)?;
        config.resumption = rustls::client::Resumption::disabled();
        let name = ServerName::try_from(NAME).map_err(io::Error::other)?;
        Ok(TlsStream::Client(TlsConnector::from(Arc::new(config)).connect(name, stream).await?))
    }

    /// What accepts connections of other nodes.
    pub(super) fn acceptor(&self) -> io::Result<TlsAcceptor> {
        let provider = Arc::new(ring::default_provider());
        let verifier = Pinned { certificate: None, provider: provider.clone() };
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])
            .map_err(io::Error::other)?
            .with_client_cert_verifier(Arc::new(verifier))
            .with_single_cert(vec![self.certificate.clone()], self.key())
            .map_err(io::Error::other)?;
        config.send_tls13_tickets = 0;
        Ok(TlsAcceptor::from(Arc::new(config)))
    }
}

/// Encrypts a connection that another node made; gives the certificate that it has the key of.
pub(super) async fn accept(acceptor: &TlsAcceptor, stream: TcpStream) -> io::Result<(TlsStream<TcpStream>, Vec<u8>)> {
    let stream = acceptor.accept(stream).await?;
    let shown = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
    let shown = shown.ok_or_else(|| io::Error::new(io::ErrorKind::PermissionDenied, "no certificate"))?.to_vec();
    Ok((TlsStream::Server(stream), shown))
}

/// Accepts one certificate; or any, where the caller compares it as soon as it knows with which.
#[derive(Debug)]
struct Pinned {
    certificate: Option<Vec<u8>>,
    provider: Arc<CryptoProvider>,
}

impl Pinned {
    fn verify12(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn verify13(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _between: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _stapled: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match &self.certificate {
            Some(pinned) if certificate.as_ref() == pinned.as_slice() => Ok(ServerCertVerified::assertion()),
            _ => Err(Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure)),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verify12(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verify13(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.schemes()
    }
}

impl ClientCertVerifier for Pinned {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _certificate: &CertificateDer<'_>,
        _between: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verify12(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verify13(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.schemes()
    }
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpListener,
    };

    use super::*;

    /// Accepts one connection and gives what the accepting side found.
    async fn listen(identity: &NodeIdentity) -> (String, tokio::task::JoinHandle<io::Result<Vec<u8>>>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let acceptor = identity.acceptor().expect("an acceptor");
        let accepted = tokio::spawn(async move {
            let (stream, _) = listener.accept().await?;
            let (mut stream, shown) = accept(&acceptor, stream).await?;
            stream.write_all(b"hello").await?;
            stream.flush().await?;
            Ok(shown)
        });
        (address, accepted)
    }

    #[tokio::test]
    async fn nodes_know_each_other_by_their_certificates() {
        let (one, other) = (NodeIdentity::generate().expect("made"), NodeIdentity::generate().expect("made"));
        let (address, accepted) = listen(&one).await;
        let stream = TcpStream::connect(&address).await.expect("connected");
        let mut stream = other.connect(stream, one.certificate()).await.expect("the node that was meant");
        let mut heard = [0; 5];
        stream.read_exact(&mut heard).await.expect("encrypted");
        assert_eq!(&heard, b"hello");
        let shown = accepted.await.expect("no panic").expect("accepted");
        assert_eq!(shown, other.certificate(), "whoever accepts learns who dialled");
        assert_ne!(shown, one.certificate());
    }

    #[tokio::test]
    async fn a_stranger_in_the_place_of_a_node_is_refused() {
        let (node, stranger) = (NodeIdentity::generate().expect("made"), NodeIdentity::generate().expect("made"));
        for pinned in [node.certificate(), &[]] {
            let (address, accepted) = listen(&stranger).await;
            let stream = TcpStream::connect(&address).await.expect("connected");
            assert!(node.connect(stream, pinned).await.is_err());
            assert!(accepted.await.expect("no panic").is_err());
        }
    }

    #[tokio::test]
    async fn cleartext_and_callers_without_a_certificate_are_refused() {
        let node = NodeIdentity::generate().expect("made");
        let (address, accepted) = listen(&node).await;
        let mut stream = TcpStream::connect(&address).await.expect("connected");
        stream.write_all(&[20, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]).await.expect("sent");
        assert!(accepted.await.expect("no panic").is_err());

        let (address, accepted) = listen(&node).await;
        let provider = Arc::new(ring::default_provider());
        let pinned = Pinned { certificate: Some(node.certificate().to_vec()), provider: provider.clone() };
        let config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])
            .expect("TLS 1.3")
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(pinned))
            .with_no_client_auth();
        let stream = TcpStream::connect(&address).await.expect("connected");
        let name = ServerName::try_from(NAME).expect("a name");
        // The refusal comes after the client's side of the handshake.
        let _ = TlsConnector::from(Arc::new(config)).connect(name, stream).await;
        assert!(accepted.await.expect("no panic").is_err());
    }
}
