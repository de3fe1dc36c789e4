//! The HTTP side: `/healthz`, Prometheus' `/metrics`, the calls about scripts ([`crate::http_flows`]), and Temporal's HTTP API
//! ([`crate::http_api`]).

use std::{convert::Infallible, fmt::Write, pin::pin, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use segno_runtime::{Cluster, Histogram, Node};
use serde_json::json;
use tokio::net::TcpListener;

use crate::{
    connections::Services,
    connections::accept::{Accepted, Evicting},
    grpc::FlowCalls,
    http_api::{self, ApiRequest},
    http_flows,
};

/// Connections at a time. A new one takes the place of the oldest, so that requests which never end cannot keep health
/// probes out.
const CONNECTIONS_MAX: usize = 64;
/// How long a client may take for the header section of a request.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
/// A connection gets no new request after this long.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(120);
/// How long the last request of a connection may take, or a client that does not read.
const LAST_REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// Longest body of a request. A source has 256 KiB.
const BODY_BYTES_MAX: usize = 1024 * 1024;

/// Serves until it is dropped.
pub async fn serve(listener: TcpListener, services: Arc<Services>, flows: FlowCalls) {
    let mut accepted = Accepted::new("HTTP", CONNECTIONS_MAX, Evicting::All);
    loop {
        let stream = accepted.next(&listener).await;
        let (services, flows) = (services.clone(), flows.clone());
        accepted.spawn(|_| async move {
            let service = service_fn(move |request: Request<Incoming>| {
                let (services, flows) = (services.clone(), flows.clone());
                async move {
                    let path = request.uri().path();
                    Ok::<_, Infallible>(match path {
                        _ if http_flows::is_one(path) => answer_flows(&flows, request).await,
                        "/healthz" | "/metrics" => answer(&services.node, &request),
                        // Elsewhere it is a path of Temporal's HTTP API.
                        "/cluster" if services.node.cluster().is_some() => answer(&services.node, &request),
                        _ => answer_api(&services, request).await,
                    })
                }
            });
            let mut builder = http1::Builder::new();
            builder.timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT);
            // A client that breaks off, or is cut off, needs no answer.
            let mut serving = pin!(builder.serve_connection(TokioIo::new(stream), service));
            if tokio::time::timeout(CONNECTION_TIMEOUT, &mut serving).await.is_err() {
                serving.as_mut().graceful_shutdown();
                let _ = tokio::time::timeout(LAST_REQUEST_TIMEOUT, serving).await;
            }
        });
    }
}

/// Temporal's HTTP API, and whatever there is not.
async fn answer_api(services: &Services, request: Request<Incoming>) -> Response<Full<Bytes>> {
    let (head, body) = request.into_parts();
    let body = Limited::new(body, http_api::BODY_BYTES_MAX).collect().await.ok().map(|body| body.to_bytes());
    let request = ApiRequest {
        method: &head.method,
        path: head.uri.path(),
        query: head.uri.query().unwrap_or_default(),
        headers: &head.headers,
        body,
    };
    http_api::answer(services, request).await
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
        (&Method::GET | &Method::HEAD, "/metrics") => (StatusCode::OK, "text/plain; version=0.0.4", metrics(node)),
        _ => (StatusCode::METHOD_NOT_ALLOWED, "text/plain", "only GET is understood here\n".to_owned()),
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
    if let Some(cluster) = node.cluster() {
        let (map, links) = (cluster.map(), cluster.links());
        let open = links.iter().filter(|(_, is_open)| *is_open).count();
        let free = map.owners.iter().filter(|owner| owner.is_none()).count();
        for (name, help, value) in [
            ("cluster_nodes", "Nodes on the same database.", map.members.len()),
            ("cluster_links_open", "Other nodes that this one reaches.", open),
            ("cluster_shards_served", "Shards that this node serves.", cluster.served().len()),
            ("cluster_shards_without_owner", "Shards that nobody serves.", free),
            (
                "cluster_within_lease",
                "Whether this node may answer from memory.",
                usize::from(cluster.is_within_lease()),
            ),
        ] {
            line(name, "", help, "gauge", value as u64);
        }
    }
    histogram(
        &mut text,
        "flow_state_bytes",
        "Bytes of the state of a script after a turn.",
        &node.metrics.flow_state_bytes,
    );
    text
}

/// A histogram in Prometheus' text form.
fn histogram(text: &mut String, name: &str, help: &str, values: &Histogram) {
    let (buckets, sum) = values.read();
    let _ = writeln!(text, "# HELP segno_{name} {help}");
    let _ = writeln!(text, "# TYPE segno_{name} histogram");
    for (bound, count) in &buckets {
        let bound = bound.map_or_else(|| "+Inf".to_owned(), |bound| bound.to_string());
        let _ = writeln!(text, "segno_{name}_bucket{{le=\"{bound}\"}} {count}");
    }
    let count = buckets.last().map_or(0, |(_, count)| *count);
    let _ = writeln!(text, "segno_{name}_sum {sum}");
    let _ = writeln!(text, "segno_{name}_count {count}");
}
