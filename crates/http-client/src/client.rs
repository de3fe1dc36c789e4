//! One request and its answer.

use std::{net::IpAddr, sync::Arc, sync::OnceLock, time::Duration};

use bytes::Bytes;
use http::{HeaderValue, Request, Response, Uri, header};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::{ClientConfig, pki_types::ServerName};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpStream, lookup_host},
    task::JoinSet,
};
use tokio_rustls::TlsConnector;

use crate::targets::RefusedTarget;

/// Most bytes of the status line and the headers of an answer.
const HEAD_BYTES_MAX: usize = 64 * 1024;

/// What a request may take.
#[derive(Clone, Copy, Debug)]
pub struct RequestLimits {
    /// Time, from the look at its name to the last byte of the answer.
    pub time: Duration,
    /// Bytes of the body of the answer.
    pub body_bytes: usize,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// The URL cannot be called.
    #[error("not a URL that can be called: {0}")]
    Url(String),
    /// It leads to an address that is not allowed.
    #[error(transparent)]
    NotAllowed(#[from] RefusedTarget),
    /// There was no answer in time.
    #[error("request timed out")]
    TimedOut,
    /// The body of the answer is too large.
    #[error("http: response body too large")]
    BodyTooLarge,
    /// The connection could not be made, or broke.
    #[error("{0}")]
    Connection(String),
}

/// The host of a URL, without brackets; empty if it has none.
pub fn host_of(url: &Uri) -> String {
    url.host().unwrap_or_default().trim_matches(['[', ']']).to_owned()
}

/// Sends a request whose URI is a whole URL, and reads the answer. Each address to which its name leads is checked; the first that passes
/// and takes the connection is used.
pub async fn send(
    request: Request<Bytes>,
    limits: RequestLimits,
    check: impl Fn(IpAddr) -> Result<(), RefusedTarget>,
) -> Result<Response<Bytes>, RequestError> {
    match tokio::time::timeout(limits.time, exchange(request, limits.body_bytes, check)).await {
        Ok(answer) => answer,
        Err(_) => Err(RequestError::TimedOut),
    }
}

async fn exchange(
    request: Request<Bytes>,
    body_bytes_max: usize,
    check: impl Fn(IpAddr) -> Result<(), RefusedTarget>,
) -> Result<Response<Bytes>, RequestError> {
    let url = request.uri().clone();
    let is_tls = match url.scheme_str() {
        Some("https") => true,
        Some("http") => false,
        _ => return Err(RequestError::Url("it begins neither with http:// nor with https://".to_owned())),
    };
    let host = host_of(&url);
    let stream = connect(&host, url.port_u16().unwrap_or(if is_tls { 443 } else { 80 }), check).await?;
    if !is_tls {
        return ask(stream, &url, request, body_bytes_max).await;
    }
    let name = ServerName::try_from(host).map_err(|error| RequestError::Url(error.to_string()))?;
    let stream = TlsConnector::from(tls()?).connect(name, stream).await.map_err(broken)?;
    ask(stream, &url, request, body_bytes_max).await
}

async fn connect(
    host: &str,
    port: u16,
    check: impl Fn(IpAddr) -> Result<(), RefusedTarget>,
) -> Result<TcpStream, RequestError> {
    let mut why = RequestError::Connection(format!("{host} has no address"));
    for address in lookup_host((host, port)).await.map_err(|error| at(host, error))? {
        why = match check(address.ip()) {
            Err(refused) => refused.into(),
            Ok(()) => match TcpStream::connect(address).await {
                Ok(stream) => return Ok(stream),
                Err(error) => at(&address.to_string(), error),
            },
        };
    }
    Err(why)
}

/// The configuration of TLS with the roots of the system, which are read once.
fn tls() -> Result<Arc<ClientConfig>, RequestError> {
    static CONFIG: OnceLock<Arc<ClientConfig>> = OnceLock::new();
    if let Some(config) = CONFIG.get() {
        return Ok(config.clone());
    }
    let config = segno_tls::client().map_err(broken)?;
    let config = config.with_root_certificates(segno_tls::system_roots()).with_no_client_auth();
    Ok(CONFIG.get_or_init(|| Arc::new(config)).clone())
}

async fn ask(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    url: &Uri,
    request: Request<Bytes>,
    body_bytes_max: usize,
) -> Result<Response<Bytes>, RequestError> {
    let (mut sender, connection) =
        http1::Builder::new().max_buf_size(HEAD_BYTES_MAX).handshake(TokioIo::new(stream)).await.map_err(broken)?;
    // Ends with this call, however that ends.
    let mut connections = JoinSet::new();
    connections.spawn(connection);
    let (mut head, body) = request.into_parts();
    let authority = url.authority().map_or("", |authority| authority.as_str());
    let named = authority.rsplit('@').next().unwrap_or_default();
    let host = HeaderValue::from_str(named).map_err(|error| RequestError::Url(error.to_string()))?;
    head.headers.insert(header::HOST, host);
    // A server is asked for a path, not for a URL.
    let path = url.path_and_query().map_or("/", |path| path.as_str());
    head.uri = path.parse().map_err(|error: http::uri::InvalidUri| RequestError::Url(error.to_string()))?;
    let answer = sender.send_request(Request::from_parts(head, Full::new(body))).await.map_err(broken)?;
    let (head, body) = answer.into_parts();
    let body =
        Limited::new(body, body_bytes_max).collect().await.map_err(|error| match error.is::<LengthLimitError>() {
            true => RequestError::BodyTooLarge,
            false => broken(error),
        })?;
    Ok(Response::from_parts(head, body.to_bytes()))
}

fn at(place: &str, error: std::io::Error) -> RequestError {
    RequestError::Connection(format!("{place}: {error}"))
}

fn broken(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> RequestError {
    let error = error.into();
    let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
    RequestError::Connection(format!("{error}{cause}"))
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpListener,
        task::JoinHandle,
    };

    use super::*;
    use crate::AllowedTargets;

    /// A server that answers one request with these bytes, and the request as it came.
    async fn server(answer: &'static [u8]) -> (String, JoinHandle<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("it is bound");
        let request = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            let mut request = Vec::new();
            while !request.ends_with(b"body") {
                assert!(stream.read_buf(&mut request).await.expect("a request") > 0);
            }
            let _ = stream.write_all(answer).await;
            // Held until the client leaves.
            let _ = stream.read_to_end(&mut Vec::new()).await;
            String::from_utf8(request).expect("text")
        });
        (format!("http://{address}/a/b?c=d"), request)
    }

    async fn get(url: &str, allowed: &str, body_bytes: usize) -> Result<Response<Bytes>, RequestError> {
        let mut targets = AllowedTargets::default();
        targets.add(allowed).expect("a pattern");
        let request = Request::post(url).header("x-own", "v").body(Bytes::from_static(b"body")).expect("a URL");
        let limits = RequestLimits { time: Duration::from_millis(500), body_bytes };
        let uri: Uri = url.parse().expect("a URL");
        send(request, limits, |address| targets.check_address(&uri, address)).await
    }

    #[tokio::test]
    async fn a_redirect_is_an_answer() {
        let (url, request) =
            server(b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 2\r\n\r\nhi").await;
        let answer = get(&url, "127.0.0.1:*", 2).await.expect("an answer");
        assert_eq!((answer.status().as_u16(), &answer.body()[..]), (302, &b"hi"[..]));
        let sent = request.await.expect("a request");
        assert!(sent.starts_with("POST /a/b?c=d HTTP/1.1\r\n"), "{sent}");
        let host = url.trim_start_matches("http://").split('/').next().expect("a host");
        assert!(sent.contains(&format!("\r\nhost: {host}\r\n")) && sent.contains("\r\nx-own: v\r\n"), "{sent}");
    }

    #[tokio::test]
    async fn answers_are_bounded_in_time_and_size() {
        let (url, _) = server(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc").await;
        assert!(matches!(get(&url, "127.0.0.1:*", 2).await, Err(RequestError::BodyTooLarge)));
        let (url, _) = server(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n").await;
        assert!(matches!(get(&url, "127.0.0.1:*", 2).await, Err(RequestError::BodyTooLarge)));
        let (url, _) = server(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\na").await;
        assert!(matches!(get(&url, "127.0.0.1:*", 3).await, Err(RequestError::TimedOut)));
        let (url, _) = server(b"").await;
        assert!(matches!(get(&url, "127.0.0.1:*", 3).await, Err(RequestError::TimedOut)));
        let (url, _) = server(b"no HTTP").await;
        assert!(matches!(get(&url, "127.0.0.1:*", 3).await, Err(RequestError::Connection(_))));
    }

    #[tokio::test]
    async fn the_address_of_a_name_is_checked() {
        let (url, _) = server(b"").await;
        assert!(matches!(get(&url, "*", 3).await, Err(RequestError::NotAllowed(_))));
        let named = url.replace("127.0.0.1", "localhost");
        assert!(matches!(get(&named, "*", 3).await, Err(RequestError::NotAllowed(_))));
        assert!(matches!(get(&named, "localhost:*", 3).await, Err(RequestError::TimedOut)));
        assert!(matches!(get("ftp://a/", "*", 3).await, Err(RequestError::Url(_))));
    }
}
