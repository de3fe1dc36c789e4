//! Handshakes that fail because one side is set up wrongly: what the log says, and what a client without TLS is told.

use std::{
    fmt, io,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use rustls::{AlertDescription, CertificateError, Error as TlsError};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    time::Instant,
};

use super::tls::Protocol;

/// The first byte of a TLS connection: the content type of a handshake record.
const HANDSHAKE: u8 = 22;
/// Each mistake is logged at most once in this time: clients repeat it.
const LOG_INTERVAL: Duration = Duration::from_secs(60);
/// How long a client without TLS may take to read its answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);
/// The text for such a client.
const ENCRYPTED: &str = "this port is encrypted, and the client does not use TLS";
/// The HTTP/2 error code INADEQUATE_SECURITY.
const INADEQUATE_SECURITY: u32 = 0xc;

/// Whether bytes that arrive on a port without TLS begin a TLS connection.
pub fn is_client_hello(bytes: &[u8]) -> bool {
    matches!(bytes, [HANDSHAKE, 3, ..])
}

/// Whether the first byte of a connection, if there is one, begins a TLS connection. A client that is gone is left to the handshake.
pub(super) fn is_handshake(first: &[u8]) -> bool {
    first.first().is_none_or(|first| *first == HANDSHAKE)
}

/// The error of a client without TLS, after it was told so.
pub(super) async fn turn_away(mut stream: impl AsyncRead + AsyncWrite + Unpin, protocol: Protocol) -> io::Error {
    let answer = match protocol {
        Protocol::Grpc => goaway(ENCRYPTED),
        Protocol::Http => {
            let text = format!("{ENCRYPTED}: the address begins with https://\n");
            let length = text.len();
            let head = "HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain\r\nconnection: close\r\ncontent-length:";
            format!("{head} {length}\r\n\r\n{text}").into_bytes()
        }
    };
    let answering = async {
        stream.write_all(&answer).await?;
        stream.shutdown().await?;
        // What the client sent is read: otherwise the system resets the connection before the answer is read.
        let mut rest = [0; 1024];
        while stream.read(&mut rest).await? > 0 {}
        Ok::<_, io::Error>(())
    };
    let _ = tokio::time::timeout(ANSWER_TIMEOUT, answering).await;
    io::Error::new(io::ErrorKind::InvalidData, Mistake::PlainClient)
}

/// SETTINGS, and GOAWAY with a text as its debug data (RFC 9113, sections 6.5 and 6.8).
fn goaway(text: &str) -> Vec<u8> {
    let mut frames = vec![0, 0, 0, 4, 0, 0, 0, 0, 0];
    let length = u32::try_from(8 + text.len()).unwrap_or(8).to_be_bytes();
    frames.extend_from_slice(&length[1..]);
    frames.extend_from_slice(&[7, 0, 0, 0, 0, 0]);
    frames.extend_from_slice(&0_u32.to_be_bytes());
    frames.extend_from_slice(&INADEQUATE_SECURITY.to_be_bytes());
    frames.extend_from_slice(text.as_bytes());
    frames
}

/// How client and server do not fit together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mistake {
    /// A client without TLS on a port with TLS.
    PlainClient,
    /// A client with TLS on a port without it.
    TlsClient,
    /// The client does not know who issued the server's certificate.
    UnknownServer,
    /// The client does not accept the server's certificate.
    RefusedServer,
    /// The client shows no certificate.
    NoCertificate,
    /// The client's certificate is of an authority that the server does not know.
    UnknownClient,
    /// The client's certificate is not accepted.
    RefusedClient,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::PlainClient => {
                "a client does not use TLS, and this port is encrypted: clients need TLS turned on (segno: --tls, browsers: https://)"
            }
            Self::TlsClient => {
                "a client uses TLS, and this port is not encrypted: turn TLS off in the client, or start the server with --tls-cert \
                 and --tls-key"
            }
            Self::UnknownServer => {
                "a client does not know the authority that issued the certificate of this server: give the client its root \
                 certificate (segno: --tls-ca-path)"
            }
            Self::RefusedServer => {
                "a client refused the certificate of this server: it has expired, or does not have the name by which the client \
                 connects (segno: --tls-server-name)"
            }
            Self::NoCertificate => {
                "a client showed no certificate, which --tls-client-ca makes necessary: give it one (segno: --tls-cert-path and \
                 --tls-key-path), or start the server with --tls-client-certs optional"
            }
            Self::UnknownClient => {
                "the certificate of a client was issued by an authority that is not in the file of --tls-client-ca"
            }
            Self::RefusedClient => "the certificate of a client was refused: it has expired, was revoked or is not for clients",
        })
    }
}

impl std::error::Error for Mistake {}

impl Mistake {
    /// The mistake behind a handshake that failed, if it is one of these.
    fn of(error: &io::Error) -> Option<Self> {
        let inner = error.get_ref()?;
        if let Some(mistake) = inner.downcast_ref::<Self>() {
            return Some(*mistake);
        }
        match inner.downcast_ref::<TlsError>()? {
            // The second one: there is a root of that name, with another key.
            TlsError::AlertReceived(AlertDescription::UnknownCA | AlertDescription::DecryptError) => {
                Some(Self::UnknownServer)
            }
            TlsError::AlertReceived(
                AlertDescription::BadCertificate
                | AlertDescription::CertificateUnknown
                | AlertDescription::CertificateExpired,
            ) => Some(Self::RefusedServer),
            TlsError::NoCertificatesPresented => Some(Self::NoCertificate),
            TlsError::InvalidCertificate(CertificateError::UnknownIssuer) => Some(Self::UnknownClient),
            TlsError::InvalidCertificate(_) => Some(Self::RefusedClient),
            _ => None,
        }
    }

    /// Writes it to the log, unless it stands there already.
    pub fn note(self) {
        static NOTED: Mutex<Vec<(Mistake, Instant)>> = Mutex::new(Vec::new());
        let mut noted = NOTED.lock().unwrap_or_else(PoisonError::into_inner);
        noted.retain(|(_, at)| at.elapsed() < LOG_INTERVAL);
        if noted.iter().all(|(mistake, _)| *mistake != self) {
            noted.push((self, Instant::now()));
            tracing::warn!("{self}");
        }
    }
}

/// Takes note of a handshake that failed.
pub fn note(error: &io::Error) {
    match Mistake::of(error) {
        Some(mistake) => mistake.note(),
        None => tracing::debug!(%error, "a TLS handshake failed"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_are_recognised() {
        let of = |error: TlsError| Mistake::of(&io::Error::new(io::ErrorKind::InvalidData, error));
        assert_eq!(of(TlsError::AlertReceived(AlertDescription::UnknownCA)), Some(Mistake::UnknownServer));
        assert_eq!(of(TlsError::AlertReceived(AlertDescription::BadCertificate)), Some(Mistake::RefusedServer));
        assert_eq!(of(TlsError::NoCertificatesPresented), Some(Mistake::NoCertificate));
        assert_eq!(of(TlsError::InvalidCertificate(CertificateError::UnknownIssuer)), Some(Mistake::UnknownClient));
        assert_eq!(of(TlsError::InvalidCertificate(CertificateError::Expired)), Some(Mistake::RefusedClient));
        assert_eq!(of(TlsError::HandshakeNotComplete), None);
        let plain = io::Error::new(io::ErrorKind::InvalidData, Mistake::PlainClient);
        assert_eq!(Mistake::of(&plain), Some(Mistake::PlainClient));
        assert!(is_client_hello(&[22, 3, 1, 2]) && !is_client_hello(b"PRI * HTTP/2.0") && !is_client_hello(&[22]));
    }

    #[test]
    fn the_goaway_frame_has_its_length() {
        let frames = goaway("no");
        assert_eq!(&frames[..9], &[0, 0, 0, 4, 0, 0, 0, 0, 0]);
        assert_eq!(&frames[9..18], &[0, 0, 10, 7, 0, 0, 0, 0, 0]);
        assert_eq!(&frames[18..], &[0, 0, 0, 0, 0, 0, 0, 12, b'n', b'o']);
    }
}
