//! The HTTP port: `/healthz`, Prometheus' `/metrics`, the web pages ([`segno_web`]), Temporal's HTTP API and the calls
//! about scripts ([`segno_http_api`]).
//!
//! A thread of its own accepts connections and answers `/healthz`, so that health is known even if the threads that
//! serve calls are busy. Those handle all other requests.

use std::{convert::Infallible, pin::pin, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Collected, Either, Full, Limited};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use segno_calls::Service;
use segno_http_api::{self as http_api, ApiRequest, flows};
use segno_node::{Cluster, DIRECT_CALLS_MAX, Node};
use segno_web::{Web, WebBody, guard, login};
use serde_json::json;
use tokio::{
    net::TcpListener,
    runtime::{Handle, Runtime},
    sync::oneshot,
};
use tonic::Status;

use crate::{
    connections::accept::{EvictionScope, PortConnections},
    connections::{AbortOnDrop, Services, request::RequestInProgress},
    http_access,
    in_process::InProcessCaller,
    metrics, nexus_http,
    security::{
        Credentials,
        tls::{Protocol, Stream},
        tls_mistakes,
    },
};

pub(crate) use crate::http_access::Guard;

/// Connections at a time. A new one takes the place of another, so that requests which never end cannot keep health probes out.
const CONNECTIONS_MAX: usize = 64;
/// Connections of known callers at a time: the others are left for strangers, such as health probes.
const KNOWN_CONNECTIONS_MAX: usize = 56;
/// How long a client may take for the header section of a request.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
/// A connection gets no new request after this long.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(120);
/// How long the last request of a connection may take, or a client that does not read.
const LAST_REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// Longest body of a request. A source has 256 KiB.
const BODY_BYTES_MAX: usize = 1024 * 1024;

/// The paths of the server's own pages.
const OWN: [&str; 3] = ["/healthz", "/metrics", "/cluster"];

/// Serves until it is dropped, on a thread of its own.
pub async fn serve(listener: TcpListener, services: Arc<Services>, service: Arc<dyn Service>, web: Web, guard: Guard) {
    let (serving, stopped) = oneshot::channel::<()>();
    let (calls, node) = (Handle::current(), services.node.clone());
    let started = own_runtime().and_then(|runtime| {
        let listener = listener.into_std()?;
        let work = move || {
            runtime.block_on(async {
                let listener = match TcpListener::from_std(listener) {
                    Ok(listener) => listener,
                    Err(error) => return services.node.runs.lifecycle.fail("the HTTP port", &error.to_string()),
                };
                tokio::select! {
                    () = accept(listener, services, service, web, guard, calls) => {}
                    _ = stopped => {}
                }
            });
        };
        std::thread::Builder::new().name("segno-http".to_owned()).spawn(work)
    });
    if let Err(error) = started {
        node.runs.lifecycle.fail("the HTTP port", &error.to_string());
    }
    // The thread ends when this is dropped.
    std::future::pending::<()>().await;
    drop(serving);
}

fn own_runtime() -> std::io::Result<Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

async fn accept(
    listener: TcpListener,
    services: Arc<Services>,
    service: Arc<dyn Service>,
    web: Web,
    guard: Guard,
    calls: Handle,
) {
    let evicting = EvictionScope::Ranked { known_max: KNOWN_CONNECTIONS_MAX, waiting_max: DIRECT_CALLS_MAX };
    let mut accepted = PortConnections::new("HTTP", CONNECTIONS_MAX, evicting);
    loop {
        let (stream, address) = accepted.next(&listener).await;
        let (services, service) = (services.clone(), service.clone());
        let (web, guard) = (web.clone(), guard.clone());
        let calls = calls.clone();
        accepted.spawn(address, |evictable| async move {
            let stream = match &guard.tls {
                None => Stream::Plain(stream),
                Some(tls) => match tls.accept(stream, Protocol::Http).await {
                    Ok(stream) => stream,
                    Err(error) => return tls_mistakes::note(&error),
                },
            };
            let certificate = stream.certificate_subject();
            let service = service_fn(move |request: Request<Incoming>| {
                let is_health = request.uri().path() == "/healthz";
                let (services, service, web) = (services.clone(), service.clone(), web.clone());
                let (guard, certificate) = (guard.clone(), certificate.clone());
                let (calls, under_way) = (calls.clone(), RequestInProgress::begin(&evictable));
                let handle = async move {
                    let under_way = under_way;
                    if guard::is_of_another_site(request.headers(), request.method(), guard.tls.is_some()) {
                        let status = Status::permission_denied("the request comes from another site");
                        return Ok(http_access::refused(&status).map(Either::Left));
                    }
                    if !guard.is_named_rightly(request.headers(), request.uri().path()) {
                        return Ok(http_access::misnamed().map(Either::Left));
                    }
                    let credentials = http_access::credentials(&request, certificate, Some(address));
                    if let Some(route) = nexus_http::route(request.uri().path()) {
                        let answer = nexus_http::answer(&services, route, request, credentials, &under_way).await;
                        return Ok(answer.map(Either::Left));
                    }
                    let path = request.uri().path();
                    let is_known = Web::has(path) || flows::is_one(path) || OWN.contains(&path);
                    // On a server that is alone it is a path of Temporal's HTTP API.
                    let is_known = is_known && (path != "/cluster" || services.node.cluster.is_some());
                    if [login::LOGIN, login::LOGOUT].contains(&path) {
                        let (head, body) = request.into_parts();
                        let body = Limited::new(body, BODY_BYTES_MAX).collect().await;
                        let body = body.map(Collected::to_bytes).unwrap_or_default();
                        return Ok(guard.log_in(&head, body, Some(address)).await);
                    }
                    // Calls of the API are let in where they become calls.
                    if !is_known && is_lost_reader(&request) {
                        return Ok(Web::nothing());
                    }
                    if !is_known {
                        let known = || under_way.of_known_caller();
                        return Ok(answer_api(&services, request, credentials, known).await.map(Either::Left));
                    }
                    let admitted = match guard.admit(&request, &credentials).await {
                        Ok(admitted) => admitted,
                        Err(status) if http_access::is_forbidden_page(&request, &status) => {
                            let caller = guard.security.refused_caller(&credentials).await;
                            return Ok(web.forbidden(request.into_parts().0, caller, &status).await);
                        }
                        Err(status) => {
                            let asked = guard.ask_to_log_in(&request, &status);
                            return Ok(asked.unwrap_or_else(|| http_access::refused(&status).map(Either::Left)));
                        }
                    };
                    let mut request = request;
                    if let Some(caller) = &admitted.caller {
                        under_way.of_known_caller();
                        request.extensions_mut().insert(caller.clone());
                    }
                    let answer = match request.uri().path() {
                        path if Web::has(path) => answer_web(&web, request).await,
                        path if flows::is_one(path) => answer_flows(&*service, request).await.map(Either::Left),
                        _ => answer(&services.node, &request).map(Either::Left),
                    };
                    if let Err(status) = admitted.ended(http_access::code_of(answer.status())) {
                        return Ok(http_access::refused(&status).map(Either::Left));
                    }
                    if matches!(answer.body(), Either::Right(_)) {
                        under_way.goes_on();
                    }
                    Ok::<_, Infallible>(answer)
                };
                async move {
                    if is_health {
                        return handle.await;
                    }
                    let task = calls.spawn(handle);
                    // A request whose client is gone is given up.
                    let _abort = AbortOnDrop(task.abort_handle());
                    task.await.unwrap_or_else(|_| {
                        Ok(http_access::refused(&Status::internal("the request failed")).map(Either::Left))
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

/// Whether a person looks for a page where not even a call of the API is.
fn is_lost_reader<B>(request: &Request<B>) -> bool {
    let accepts = request.headers().get(header::ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
    request.method() == Method::GET && accepts.contains("text/html") && !http_api::has(request.uri().path())
}

async fn answer_web(web: &Web, request: Request<Incoming>) -> Response<WebBody> {
    let (head, body) = request.into_parts();
    match Limited::new(body, BODY_BYTES_MAX).collect().await {
        Ok(body) => web.answer(&head, body.to_bytes()).await,
        Err(_) => {
            let mut response = Response::new(Either::Left(Full::new(Bytes::from_static(b"the body is too long\n"))));
            *response.status_mut() = StatusCode::PAYLOAD_TOO_LARGE;
            response
        }
    }
}

/// Temporal's HTTP API, and every address at which there is nothing.
async fn answer_api(
    services: &Services,
    request: Request<Incoming>,
    credentials: Credentials,
    known: impl FnOnce(),
) -> Response<Full<Bytes>> {
    let (head, body) = request.into_parts();
    let mut request = ApiRequest {
        method: &head.method,
        path: head.uri.path(),
        query: head.uri.query().unwrap_or_default(),
        headers: &head.headers,
        body: None,
    };
    // What strangers send is not read.
    let is_open = head.uri.path().ends_with("/system-info");
    let what = format!("{} {}", head.method, head.uri.path());
    if !is_open && let Err(status) = services.security.is_known(&what, &credentials).await {
        return http_api::refuse(&request, &status);
    }
    if !is_open && services.security.authenticates() {
        known();
    }
    request.body = Limited::new(body, http_api::BODY_BYTES_MAX).collect().await.ok().map(|body| body.to_bytes());
    http_api::answer(&InProcessCaller { services, credentials }, request).await
}

async fn answer_flows(service: &dyn Service, request: Request<Incoming>) -> Response<Full<Bytes>> {
    let (head, body) = request.into_parts();
    let (status, kind, content) = match Limited::new(body, BODY_BYTES_MAX).collect().await {
        Ok(body) => {
            let query = head.uri.query().unwrap_or_default();
            flows::answer(service, &head.method, head.uri.path(), query, body.to_bytes()).await
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
        (&Method::GET | &Method::HEAD, "/healthz") => match node.ill_health() {
            Some(why) => (StatusCode::SERVICE_UNAVAILABLE, "text/plain", format!("{why}\n")),
            None => (StatusCode::OK, "text/plain", "ok\n".to_owned()),
        },
        (&Method::GET | &Method::HEAD, "/cluster") => match &node.cluster {
            Some(cluster) => (StatusCode::OK, "application/json", cluster_json(cluster)),
            None => {
                (StatusCode::NOT_FOUND, "text/plain", "this server is not on a database that nodes share\n".to_owned())
            }
        },
        (&Method::GET | &Method::HEAD, "/metrics") => {
            (StatusCode::OK, "text/plain; version=0.0.4", metrics::text(node))
        }
        _ => (StatusCode::METHOD_NOT_ALLOWED, "text/plain", "only GET is understood here\n".to_owned()),
    };
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(kind));
    response
}

/// Who is there and who owns what, as this node knows it.
fn cluster_json(cluster: &Cluster) -> String {
    let map = cluster.topology.map();
    let links = cluster.peers.links();
    let nodes: Vec<_> = map
        .members
        .iter()
        .map(|member| {
            let here = cluster.topology.is_me(member.id);
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
        "shards_served_here": cluster.topology.served().len(),
        "within_lease": cluster.topology.is_within_lease(),
    });
    format!("{answer}\n")
}
