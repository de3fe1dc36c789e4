//! The small HTTP side: `/healthz`, Prometheus' `/metrics`, and the calls about scripts ([`crate::http_flows`]).

use std::{convert::Infallible, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use segno_runtime::{Cluster, Node};
use serde_json::json;
use tokio::net::TcpListener;

use crate::{
    connections::accept::{Accepted, Evicting},
    grpc::FlowCalls,
    http_flows, metrics,
};

/// Connections at a time. A new one takes the place of the oldest, so that requests which never end cannot keep health
/// probes out.
const CONNECTIONS_MAX: usize = 64;
/// How long a client may take for the header section of a request.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
/// A connection is closed after this long, whatever it does: one whose client does not read, for example.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(120);

/// Longest body of a request. A source has 256 KiB.
const BODY_BYTES_MAX: usize = 1024 * 1024;

/// Serves until it is dropped.
pub async fn serve(listener: TcpListener, node: Arc<Node>, flows: FlowCalls) {
    let mut accepted = Accepted::new("HTTP", CONNECTIONS_MAX, Evicting::All);
    loop {
        let stream = accepted.next(&listener).await;
        let (node, flows) = (node.clone(), flows.clone());
        accepted.spawn(|_| async move {
            let service = service_fn(move |request: Request<Incoming>| {
                let (node, flows) = (node.clone(), flows.clone());
                async move {
                    Ok::<_, Infallible>(match request.uri().path().starts_with(http_flows::PREFIX) {
                        true => answer_flows(&flows, request).await,
                        false => answer(&node, &request),
                    })
                }
            });
            let mut builder = http1::Builder::new();
            builder.timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT);
            // A client that breaks off, or is cut off, needs no answer.
            let serving = builder.serve_connection(TokioIo::new(stream), service);
            let _ = tokio::time::timeout(CONNECTION_TIMEOUT, serving).await;
        });
    }
}

async fn answer_flows(flows: &FlowCalls, request: Request<Incoming>) -> Response<Full<Bytes>> {
    let (head, body) = request.into_parts();
    let (status, kind, content) = match Limited::new(body, BODY_BYTES_MAX).collect().await {
        Ok(body) => {
            let query = head.uri.query().unwrap_or_default();
            http_flows::answer(flows, &head.method, head.uri.path(), query, body.to_bytes()).await
        }
        Err(_) => (StatusCode::PAYLOAD_TOO_LARGE, "text/plain", b"the body is too long\n".to_vec()),
    };
    let mut response = Response::new(Full::new(Bytes::from(content)));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(kind));
    response
}

fn answer(node: &Node, request: &Request<Incoming>) -> Response<Full<Bytes>> {
    let (status, kind, body) = match (request.method(), request.uri().path()) {
        (&Method::GET | &Method::HEAD, "/healthz") if node.is_stopping() => {
            (StatusCode::SERVICE_UNAVAILABLE, "text/plain", "stopping\n".to_owned())
        }
        (&Method::GET | &Method::HEAD, "/healthz") if node.failure().is_some() => {
            let why = node.failure().unwrap_or_default();
            (StatusCode::SERVICE_UNAVAILABLE, "text/plain", format!("failed: {why}\n"))
        }
        (&Method::GET | &Method::HEAD, "/healthz")
            if node.cluster().is_some_and(|cluster| !cluster.is_within_lease()) =>
        {
            let text = "the database was not reached for a while, and another node may have taken this one's place\n";
            (StatusCode::SERVICE_UNAVAILABLE, "text/plain", text.to_owned())
        }
        (&Method::GET | &Method::HEAD, "/cluster") => match node.cluster() {
            Some(cluster) => (StatusCode::OK, "application/json", cluster_json(cluster)),
            None => {
                (StatusCode::NOT_FOUND, "text/plain", "this server is not on a database that nodes share\n".to_owned())
            }
        },
        (&Method::GET | &Method::HEAD, "/healthz") => (StatusCode::OK, "text/plain", "ok\n".to_owned()),
        (&Method::GET | &Method::HEAD, "/metrics") => {
            (StatusCode::OK, "text/plain; version=0.0.4", metrics::text(node))
        }
        (_, "/healthz" | "/metrics" | "/cluster") => {
            (StatusCode::METHOD_NOT_ALLOWED, "text/plain", "only GET is understood here\n".to_owned())
        }
        _ => (
            StatusCode::NOT_FOUND,
            "text/plain",
            "here are /healthz, /metrics and, on a shared database, /cluster\n".to_owned(),
        ),
    };
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(kind));
    response
}

/// Who is there and who owns what, as this node knows it.
fn cluster_json(cluster: &Cluster) -> String {
    let map = cluster.map();
    let links = cluster.links();
    let nodes: Vec<_> = map
        .members
        .iter()
        .map(|member| {
            let here = cluster.is_me(member.id);
            let linked = links.iter().find(|(id, _)| *id == member.id).map(|(_, is_open)| *is_open);
            json!({
                "id": member.id.0,
                "name": member.name,
                "address": member.address,
                "version": member.version,
                "leaving": member.leaving,
                "shards": map.shards_of(member.id).len(),
                "this": here,
                "linked": linked,
            })
        })
        .collect();
    let free = map.owners.iter().filter(|owner| owner.is_none()).count();
    let answer = json!({
        "map": map.version,
        "nodes": nodes,
        "shards": map.owners.len(),
        "shards_without_owner": free,
        "shards_served_here": cluster.served().len(),
        "within_lease": cluster.is_within_lease(),
    });
    format!("{answer}\n")
}
