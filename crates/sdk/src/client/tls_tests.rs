//! A server with TLS that asks for a certificate, too.

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::{ServerConfig, server::WebPkiClientVerifier};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::*;

struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    fn pem(&self) -> Vec<u8> {
        self.0.pem().into_bytes()
    }

    /// A certificate and its key, in PEM.
    fn issue(&self, name: &str) -> (Vec<u8>, Vec<u8>) {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(vec![name.to_owned()]).unwrap().signed_by(&key, &self.0).unwrap();
        (certificate.pem().into_bytes(), key.serialize_pem().into_bytes())
    }
}

/// Whether a connection comes about; the server is called `segno.test`, and offers these protocols.
async fn connects(authority: &Authority, options: TlsOptions, protocols: &[&[u8]]) -> Result<(), String> {
    let provider = Arc::new(ring::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(
        Arc::new(super::roots(Some(&authority.pem())).unwrap()),
        provider.clone(),
    );
    let (certificate, key) = authority.issue("segno.test");
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(verifier.build().unwrap())
        .with_single_cert(certificates(&certificate).unwrap(), PrivateKeyDer::from_pem_slice(&key).unwrap())
        .unwrap();
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let tls = Tls::new(options, "127.0.0.1")?;
    let serve = async {
        let (stream, _) = listener.accept().await.unwrap();
        TlsAcceptor::from(Arc::new(config)).accept(stream).await.map(|_| ()).map_err(|error| error.to_string())
    };
    let connect = async {
        let stream = TcpStream::connect(address).await.unwrap();
        tls.connect(stream).await.map(|_| ()).map_err(|error| error.to_string())
    };
    let (served, connected) = tokio::join!(serve, connect);
    connected.and(served)
}

fn options(authority: &Authority, client: Option<(Vec<u8>, Vec<u8>)>) -> TlsOptions {
    let (client_certificate, client_key) = client.unzip();
    let domain = Some("segno.test".to_owned());
    TlsOptions { server_root_ca: Some(authority.pem()), domain, client_certificate, client_key }
}

#[tokio::test]
async fn both_sides_show_who_they_are() {
    let (authority, other) = (Authority::new(), Authority::new());
    let client = || Some(authority.issue("client"));
    connects(&authority, options(&authority, client()), &[HTTP2]).await.unwrap();
    // Another authority, on either side; no certificate; another name.
    assert!(connects(&authority, options(&other, client()), &[HTTP2]).await.is_err());
    assert!(connects(&authority, options(&authority, Some(other.issue("client"))), &[HTTP2]).await.is_err());
    assert!(connects(&authority, options(&authority, None), &[HTTP2]).await.is_err());
    let unnamed = TlsOptions { domain: None, ..options(&authority, client()) };
    assert!(connects(&authority, unnamed, &[HTTP2]).await.unwrap_err().contains("127.0.0.1"));
}

#[tokio::test]
async fn a_server_without_http2_is_named() {
    let authority = Authority::new();
    let options = options(&authority, Some(authority.issue("client")));
    let refused = connects(&authority, options, &[]).await.unwrap_err();
    assert!(refused.contains("does not offer HTTP/2"), "{refused}");
}

#[test]
fn wrong_options_are_refused() {
    let authority = Authority::new();
    let refused = |options: TlsOptions| Tls::new(options, "segno.test").err().unwrap();
    let (certificate, _) = authority.issue("client");
    let half = TlsOptions { client_certificate: Some(certificate.clone()), ..options(&authority, None) };
    assert!(refused(half).contains("belong together"));
    let wrong = TlsOptions { server_root_ca: Some(b"no PEM".to_vec()), ..TlsOptions::default() };
    assert!(refused(wrong).contains("no certificate in PEM"));
    let wrong = options(&authority, Some((certificate, b"no PEM".to_vec())));
    assert!(refused(wrong).contains("the client's key"));
    let wrong = TlsOptions { domain: Some("not a name".to_owned()), ..options(&authority, None) };
    assert!(refused(wrong).contains("no name of a server"));
}
