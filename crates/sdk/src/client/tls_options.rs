//! Certificates that a client is given.

/// Certificates for a connection with TLS. Everything in PEM.
#[derive(Clone, Debug, Default)]
pub struct TlsOptions {
    /// The authorities that the server's certificate is checked with; none: those of the system.
    pub server_root_ca: Option<Vec<u8>>,
    /// The server's name, if it is not that of the address.
    pub domain: Option<String>,
    /// The client's own certificate.
    pub client_certificate: Option<Vec<u8>>,
    /// The key to it.
    pub client_key: Option<Vec<u8>>,
}
