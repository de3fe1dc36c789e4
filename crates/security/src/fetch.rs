//! Reads a small document from a file or over HTTP, and sends one.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderValue, Request, Uri, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
};
use tokio_rustls::TlsConnector;

const TIMEOUT: Duration = Duration::from_secs(10);
const BYTES_MAX: usize = 1024 * 1024;

/// The content of `place`, a path or a URL.
pub async fn read(place: &str) -> Result<Vec<u8>, String> {
    if !place.starts_with("http://") && !place.starts_with("https://") {
        let path = place.strip_prefix("file://").unwrap_or(place).to_owned();
        return tokio::fs::read(path).await.map_err(|error| error.to_string());
    }
    let request = Request::get(place).header(header::ACCEPT, "application/json");
    within_time(exchange(request.body(Full::default()).map_err(|error| format!("not a URL: {error}"))?)).await
}

/// Sends JSON to a URL; it has arrived if this is `Ok`.
pub async fn post(url: &str, headers: &[(String, String)], body: Vec<u8>) -> Result<(), String> {
    let mut request = Request::post(url).header(header::CONTENT_TYPE, "application/json");
    for (name, value) in headers {
        request = request.header(name, value);
    }
    let request = request.body(Full::from(body)).map_err(|error| format!("not a URL or a header: {error}"))?;
    within_time(exchange(request)).await.map(drop)
}

async fn within_time(answer: impl Future<Output = Result<Vec<u8>, String>>) -> Result<Vec<u8>, String> {
    match tokio::time::timeout(TIMEOUT, answer).await {
        Ok(answer) => answer,
        Err(_) => Err(format!("no answer within {TIMEOUT:?}")),
    }
}

async fn exchange(request: Request<Full<Bytes>>) -> Result<Vec<u8>, String> {
    let uri = request.uri().clone();
    let is_tls = uri.scheme_str() == Some("https");
    let host = uri.host().ok_or("the URL has no host")?.trim_matches(['[', ']']).to_owned();
    let port = uri.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
    let stream = TcpStream::connect((host.as_str(), port)).await.map_err(|error| error.to_string())?;
    if !is_tls {
        return ask(stream, &uri, request).await;
    }
    let config = segno_tls::client().map_err(|error| error.to_string())?;
    let config = config.with_root_certificates(segno_tls::system_roots()).with_no_client_auth();
    let name = ServerName::try_from(host).map_err(|error| error.to_string())?;
    let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.map_err(|error| error.to_string())?;
    ask(stream, &uri, request).await
}

async fn ask(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    uri: &Uri,
    mut request: Request<Full<Bytes>>,
) -> Result<Vec<u8>, String> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
    let connection = tokio::spawn(connection);
    let authority = uri.authority().map(|authority| authority.as_str()).unwrap_or_default();
    let host = HeaderValue::from_str(authority).map_err(|error| error.to_string())?;
    request.headers_mut().insert(header::HOST, host);
    // A server is asked for a path, not for a URL.
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    *request.uri_mut() = path.parse().map_err(|error| format!("not a URL: {error}"))?;
    let answer = async {
        let response = sender.send_request(request).await.map_err(|error| error.to_string())?;
        if !response.status().is_success() {
            return Err(format!("the answer was {}", response.status()));
        }
        let body = Limited::new(response.into_body(), BYTES_MAX).collect().await.map_err(|error| error.to_string())?;
        Ok(body.to_bytes().to_vec())
    };
    let answer = answer.await;
    connection.abort();
    answer
}
