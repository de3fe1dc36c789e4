//! Reads a small document from a file or over HTTP, and sends one. The operator chose the places: any address is allowed.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, header};
use segno_http_client::{RequestError, RequestLimits, send};

const TIMEOUT: Duration = Duration::from_secs(10);
const LIMITS: RequestLimits = RequestLimits { time: TIMEOUT, body_bytes: 1024 * 1024 };

/// The content of `place`, a path or a URL.
pub async fn read(place: &str) -> Result<Vec<u8>, String> {
    if !place.starts_with("http://") && !place.starts_with("https://") {
        let path = place.strip_prefix("file://").unwrap_or(place).to_owned();
        return tokio::fs::read(path).await.map_err(|error| error.to_string());
    }
    let request = Request::get(place).header(header::ACCEPT, "application/json");
    exchange(request.body(Bytes::new()).map_err(|error| format!("not a URL: {error}"))?).await
}

/// Sends JSON to a URL; it has arrived if this is `Ok`.
pub async fn post(url: &str, headers: &[(String, String)], body: Vec<u8>) -> Result<(), String> {
    let mut request = Request::post(url).header(header::CONTENT_TYPE, "application/json");
    for (name, value) in headers {
        request = request.header(name, value);
    }
    let request = request.body(body.into()).map_err(|error| format!("not a URL or a header: {error}"))?;
    exchange(request).await.map(drop)
}

async fn exchange(request: Request<Bytes>) -> Result<Vec<u8>, String> {
    let answer = send(request, LIMITS, |_| Ok(())).await.map_err(|error| match error {
        RequestError::TimedOut => format!("no answer within {TIMEOUT:?}"),
        error => error.to_string(),
    })?;
    match answer.status().is_success() {
        true => Ok(answer.into_body().to_vec()),
        false => Err(format!("the answer was {}", answer.status())),
    }
}
