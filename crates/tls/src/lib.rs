//! TLS as the parts of the server set it up: one provider of cryptography, configurations with it, roots of the system,
//! certificates and keys from PEM files, and verifiers for certificates that no authority signed.
//!
//! The verifiers always check the signature of the handshake: the peer has the key of the certificate that it shows.

use std::{fmt::Debug, path::Path, sync::Arc};

use rustls::{
    ClientConfig, ConfigBuilder, DigitallySignedStruct, DistinguishedName, Error, RootCertStore, ServerConfig,
    SignatureScheme, WantsVerifier,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime, pem, pem::PemObject},
    server::danger::{ClientCertVerified, ClientCertVerifier},
};

/// The provider of cryptography.
pub fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

/// Begins the configuration of a client.
pub fn client() -> Result<ConfigBuilder<ClientConfig, WantsVerifier>, Error> {
    ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions()
}

/// Begins the configuration of a server.
pub fn server() -> Result<ConfigBuilder<ServerConfig, WantsVerifier>, Error> {
    ServerConfig::builder_with_provider(provider()).with_safe_default_protocol_versions()
}

/// The roots of the operating system that can be used; possibly none.
pub fn system_roots() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    roots
}

/// Why a file has no certificates.
#[derive(Debug, thiserror::Error)]
pub enum PemError {
    /// The file cannot be read, or is not PEM.
    #[error(transparent)]
    Unreadable(#[from] pem::Error),
    /// The file has other things in it.
    #[error("there is no certificate in it")]
    NoCertificate,
}

/// The certificates in a PEM file: at least one.
pub fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, PemError> {
    let found: Vec<_> = CertificateDer::pem_file_iter(file)?.collect::<Result<_, _>>()?;
    if found.is_empty() { Err(PemError::NoCertificate) } else { Ok(found) }
}

/// The private key in a PEM file.
pub fn private_key(file: &Path) -> Result<PrivateKeyDer<'static>, pem::Error> {
    PrivateKeyDer::from_pem_file(file)
}

/// A certificate that a server shows.
pub struct ShownCertificate<'a> {
    /// The certificate.
    pub certificate: &'a CertificateDer<'a>,
    /// The certificates between it and a root.
    pub intermediates: &'a [CertificateDer<'a>],
    /// The name of the server, as the client knows it.
    pub name: &'a ServerName<'a>,
    /// The answer of an authority about revocation that the server sent along.
    pub ocsp_response: &'a [u8],
    /// The time of the handshake.
    pub now: UnixTime,
}

/// Decides whether the certificate of a server is accepted.
pub trait CertificateCheck: Debug + Send + Sync {
    /// `Ok` if it is.
    fn check(&self, shown: &ShownCertificate<'_>) -> Result<(), Error>;
}

/// The checks of signatures that every verifier has.
macro_rules! signature_checks {
    () => {
        fn verify_tls12_signature(
            &self,
            message: &[u8],
            certificate: &CertificateDer<'_>,
            signed: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            verify_tls12_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            certificate: &CertificateDer<'_>,
            signed: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            verify_tls13_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            self.provider.signature_verification_algorithms.supported_schemes()
        }
    };
}

/// Verifies servers by a check of ours.
#[derive(Debug)]
pub struct ServerVerifier<C> {
    check: C,
    provider: Arc<CryptoProvider>,
}

impl<C: CertificateCheck> ServerVerifier<C> {
    /// A verifier with this check.
    pub fn new(check: C) -> Arc<Self> {
        Arc::new(Self { check, provider: provider() })
    }
}

impl<C: CertificateCheck> ServerCertVerifier for ServerVerifier<C> {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let shown = ShownCertificate { certificate, intermediates, name, ocsp_response, now };
        self.check.check(&shown).map(|()| ServerCertVerified::assertion())
    }

    signature_checks!();
}

/// Asks clients for a certificate and accepts any: the caller compares it once it knows which client it has.
#[derive(Debug)]
pub struct AnyClientCertificate {
    provider: Arc<CryptoProvider>,
}

impl AnyClientCertificate {
    /// The verifier.
    pub fn new() -> Arc<Self> {
        Arc::new(Self { provider: provider() })
    }
}

impl ClientCertVerifier for AnyClientCertificate {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _certificate: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Ok(ClientCertVerified::assertion())
    }

    signature_checks!();
}
