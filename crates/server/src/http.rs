//! The small HTTP side: `/healthz` and Prometheus' `/metrics`.

use std::{convert::Infallible, fmt::Write, sync::Arc};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use segno_runtime::Node;
use tokio::net::TcpListener;

/// Serves until the listener is dropped.
pub async fn serve(listener: TcpListener, node: Arc<Node>) {
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "an HTTP connection was not accepted");
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
                continue;
            }
        };
        let node = node.clone();
        tokio::spawn(async move {
            let service = service_fn(move |request| {
                let answer = answer(&node, &request);
                async move { Ok::<_, Infallible>(answer) }
            });
            // A client that breaks off is its own business.
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

fn answer(node: &Node, request: &Request<Incoming>) -> Response<Full<Bytes>> {
    let (status, kind, body) = match (request.method(), request.uri().path()) {
        (&Method::GET | &Method::HEAD, "/healthz") if node.is_stopping() => {
            (StatusCode::SERVICE_UNAVAILABLE, "text/plain", "stopping\n".to_owned())
        }
        (&Method::GET | &Method::HEAD, "/healthz") => (StatusCode::OK, "text/plain", "ok\n".to_owned()),
        (&Method::GET | &Method::HEAD, "/metrics") => (StatusCode::OK, "text/plain; version=0.0.4", metrics(node)),
        (_, "/healthz" | "/metrics") => {
            (StatusCode::METHOD_NOT_ALLOWED, "text/plain", "only GET is understood here\n".to_owned())
        }
        _ => (StatusCode::NOT_FOUND, "text/plain", "here are /healthz and /metrics\n".to_owned()),
    };
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(kind));
    response
}

fn metrics(node: &Node) -> String {
    let mut text = String::new();
    let mut line = |name: &str, suffix: &str, help: &str, kind: &str, value: u64| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "# HELP segno_{name}{suffix} {help}");
        let _ = writeln!(text, "# TYPE segno_{name}{suffix} {kind}");
        let _ = writeln!(text, "segno_{name}{suffix} {value}");
    };
    for (name, help, value) in node.metrics.read() {
        line(name, "_total", help, "counter", value);
    }
    for (name, help, value) in node.gauges() {
        line(name, "", help, "gauge", value);
    }
    text
}
