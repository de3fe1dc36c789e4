//! Nexus on the HTTP port: calls of the handlers of operations, and reports that operations ended.
//!
//! Which route a path is ([`route`]) and who may use it is decided here. [`calls`] hands a request to the workers of a handler and waits
//! for their answer, [`answers`] turns that into a response, [`completions`] has the reports of handlers outside the server.

mod answers;
mod calls;
mod completions;

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, request::Parts};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use segno_http_api::flows;
use segno_node::{EndpointTarget, Namespace, NamespaceName};

use self::answers::Refusal;
use crate::{
    connections::{Services, request::RequestInProgress},
    http_access,
    security::{Credentials, rules::WRITE},
};

/// Longest body of a request.
const BODY_BYTES_MAX: usize = 2 * 1024 * 1024;

/// The subject of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// A call of a handler. `None` if nothing is at its path.
    Call(Target, Option<Operation>),
    /// A report that an operation ended; with the namespace that its path names.
    Completion(Option<String>),
}

/// The place of a handler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// Workers that poll a queue.
    Queue { namespace: String, queue: String },
    /// An endpoint, by its id.
    Endpoint(String),
}

/// The operation that is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Operation {
    service: String,
    operation: String,
    action: Action,
}

/// The purpose of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Action {
    Start,
    /// With the token of the operation, if it is in the path.
    Cancel(Option<String>),
}

/// The route of a path, if it is one of these.
pub(crate) fn route(path: &str) -> Option<Route> {
    let parts: Vec<&str> = path.strip_prefix('/')?.split('/').collect();
    let text = |part: &str| flows::decode(part).ok();
    Some(match parts[..] {
        ["nexus", "callback"] => Route::Completion(None),
        ["namespaces", namespace, "nexus", "callback"] => Route::Completion(Some(text(namespace)?)),
        ["namespaces", namespace, "task-queues", queue, "nexus-services", ref rest @ ..] => {
            Route::Call(Target::Queue { namespace: text(namespace)?, queue: text(queue)? }, operation(rest))
        }
        ["nexus", "endpoints", endpoint, "services", ref rest @ ..] => {
            Route::Call(Target::Endpoint(text(endpoint)?), operation(rest))
        }
        _ => return None,
    })
}

/// The operation that the end of a path names.
fn operation(parts: &[&str]) -> Option<Operation> {
    let parts: Vec<String> = parts.iter().map(|part| flows::decode(part).ok()).collect::<Option<_>>()?;
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    let (service, operation, action) = match parts[..] {
        [service, operation] => (service, operation, Action::Start),
        [service, operation, "cancel"] => (service, operation, Action::Cancel(None)),
        [service, operation, token, "cancel"] => (service, operation, Action::Cancel(Some(token.to_owned()))),
        _ => return None,
    };
    let (service, operation) = (service.to_owned(), operation.to_owned());
    (!service.is_empty() && !operation.is_empty()).then_some(Operation { service, operation, action })
}

/// Answers a request.
pub(crate) async fn answer(
    services: &Services,
    route: Route,
    request: Request<Incoming>,
    credentials: Credentials,
    under_way: &RequestInProgress,
) -> Response<Full<Bytes>> {
    let (head, body) = request.into_parts();
    let answered = match route {
        Route::Completion(namespace) => completions::complete(services, namespace, &head, body, &credentials).await,
        Route::Call(target, operation) => call(services, target, operation, &head, body, &credentials, under_way).await,
    };
    answered.unwrap_or_else(Refusal::into_response)
}

async fn call(
    services: &Services,
    target: Target,
    operation: Option<Operation>,
    head: &Parts,
    body: Incoming,
    credentials: &Credentials,
    under_way: &RequestInProgress,
) -> Result<Response<Full<Bytes>>, Refusal> {
    let what = format!("{} {}", head.method, head.uri.path());
    // Strangers learn nothing of namespaces and endpoints, and their bodies are not read.
    services.security.is_known(&what, credentials).await.map_err(|status| Refusal::of(&status))?;
    if services.security.authenticates() {
        under_way.of_known_caller();
    }
    let namespace = match &target {
        Target::Queue { namespace, .. } => namespace.clone(),
        Target::Endpoint(_) => find(services, &target)?.namespace.name.clone(),
    };
    let admitted = services.security.admit_to(&what, WRITE, &namespace, credentials).await;
    let admitted = admitted.map_err(|status| Refusal::of(&status))?;
    let answered = match (find(services, &target), operation) {
        (Ok(handler), Some(operation)) => calls::call(services, handler, operation, head, body, under_way).await,
        (Ok(_), None) => Err(Refusal::not_found("not found")),
        (Err(refusal), _) => Err(refusal),
    };
    let answered = answered.unwrap_or_else(Refusal::into_response);
    admitted.ended(http_access::code_of(answered.status())).map_err(|status| Refusal::of(&status))?;
    Ok(answered)
}

/// The queue of a handler.
struct Handler {
    namespace: Arc<Namespace>,
    queue: String,
    /// The name of the endpoint; empty if the caller named the queue.
    endpoint: String,
}

fn find(services: &Services, target: &Target) -> Result<Handler, Refusal> {
    let runs = &services.node.runs;
    match target {
        Target::Queue { namespace: name, queue } => {
            let no_namespace = || Refusal::not_found(format!("namespace not found: {name:?}"));
            let namespace = runs.namespaces.get(name).ok_or_else(no_namespace)?;
            Ok(Handler { namespace, queue: queue.clone(), endpoint: String::new() })
        }
        Target::Endpoint(id) => {
            let endpoint = runs.endpoints.by_id(id);
            let endpoint = endpoint.ok_or_else(|| Refusal::not_found("nexus endpoint not found").never_retried())?;
            let Some(EndpointTarget::Worker(target)) = &endpoint.target else {
                return Err(Refusal::bad_request("invalid endpoint target"));
            };
            let id = &target.namespace_id;
            let namespace = runs.namespaces.find(&NamespaceName::Id(id.clone()));
            let namespace = namespace.ok_or_else(|| Refusal::not_found(format!("namespace not found: {id:?}")))?;
            Ok(Handler { namespace, queue: target.queue.clone(), endpoint: endpoint.name.clone() })
        }
    }
}

/// Refuses methods other than POST.
fn check_method(method: &Method) -> Result<(), Refusal> {
    match *method == Method::POST {
        true => Ok(()),
        false => Err(Refusal::bad_request(format!("invalid request method: expected POST, got \"{method}\""))),
    }
}

/// The body of a request; `None` if it is too long, or broke off.
async fn read_body(body: Incoming) -> Option<Bytes> {
    Limited::new(body, BODY_BYTES_MAX).collect().await.ok().map(|body| body.to_bytes())
}

/// A header as text; several of one name are joined.
fn header(headers: &HeaderMap, name: &str) -> Option<String> {
    let values: Vec<String> =
        headers.get_all(name).iter().map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).collect();
    (!values.is_empty()).then(|| values.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(path: &str) -> (Target, Option<(String, String, Action)>) {
        match route(path) {
            Some(Route::Call(target, operation)) => {
                (target, operation.map(|operation| (operation.service, operation.operation, operation.action)))
            }
            other => panic!("{path}: {other:?}"),
        }
    }

    fn named(service: &str, operation: &str, action: Action) -> Option<(String, String, Action)> {
        Some((service.to_owned(), operation.to_owned(), action))
    }

    #[test]
    fn paths_are_routes() {
        let queue = || Target::Queue { namespace: "n m".to_owned(), queue: "a/b".to_owned() };
        let path = |rest: &str| format!("/namespaces/n%20m/task-queues/a%2Fb/nexus-services/{rest}");
        assert_eq!(target(&path("s/op%20x")), (queue(), named("s", "op x", Action::Start)));
        assert_eq!(target(&path("a%2Fb/c%2Fd")), (queue(), named("a/b", "c/d", Action::Start)));
        assert_eq!(target(&path("s/o/cancel")), (queue(), named("s", "o", Action::Cancel(None))));
        let with_token = Action::Cancel(Some("t/k".to_owned()));
        assert_eq!(target(&path("s/o/t%2Fk/cancel")), (queue(), named("s", "o", with_token)));
        for nothing in ["", "s", "s/", "/o", "s/o/x", "s/o/t/x", "s/o/t/x/cancel", "s/%zz"] {
            assert_eq!(target(&path(nothing)), (queue(), None), "{nothing}");
        }
        let endpoint = Target::Endpoint("e".to_owned());
        assert_eq!(target("/nexus/endpoints/e/services/s/o"), (endpoint, named("s", "o", Action::Start)));
        assert_eq!(route("/nexus/callback"), Some(Route::Completion(None)));
        assert_eq!(route("/namespaces/n%20m/nexus/callback"), Some(Route::Completion(Some("n m".to_owned()))));
    }

    #[test]
    fn other_paths_are_none_of_these() {
        for path in ["/", "/nexus", "/nexus/endpoints", "/nexus/callback/x", "/namespaces/n/task-queues/q", "/ui/nexus"]
        {
            assert_eq!(route(path), None, "{path}");
        }
    }
}
