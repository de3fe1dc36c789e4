//! Who may use which route of the HTTP port.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use tonic::{Code, Status};

use crate::security::{
    Admitted, Credentials, Security,
    roles::Roles,
    rules::{Rule, Scope},
    tls::Tls,
};

/// What stands in front of the HTTP port.
#[derive(Clone)]
pub(crate) struct Guard {
    /// Without it nothing is encrypted.
    pub(crate) tls: Option<Arc<Tls>>,
    /// Decides who may do what.
    pub(crate) security: Arc<Security>,
}

/// What a route needs.
struct Route {
    /// The path begins like this.
    prefix: &'static str,
    /// Whether the rest of the path is longer.
    is_whole: bool,
    rule: Rule,
}

const ANYBODY: Rule = Rule { scope: Scope::Anybody, one_of: &[] };
const READ_SERVER: Rule = Rule { scope: Scope::Server, one_of: &[Roles::READ] };
const READ: Rule = Rule { scope: Scope::Namespace, one_of: &[Roles::READ] };
const WRITE: Rule = Rule { scope: Scope::Namespace, one_of: &[Roles::WRITE] };

/// All routes, the first that fits counts. A request that changes something needs `write` where reading needs `read`.
const ROUTES: &[Route] = &[
    Route { prefix: "/healthz", is_whole: true, rule: ANYBODY },
    Route { prefix: "/metrics", is_whole: true, rule: READ_SERVER },
    Route { prefix: "/cluster", is_whole: true, rule: READ_SERVER },
    Route { prefix: "/api/v1/namespaces/", is_whole: false, rule: READ },
    Route { prefix: "/", is_whole: false, rule: READ_SERVER },
];

impl Guard {
    /// Lets a request in, or says why not.
    pub(crate) async fn admit<B>(&self, request: &Request<B>, credentials: &Credentials) -> Result<Admitted, Status> {
        if !self.security.is_on() {
            return Ok(Admitted::default());
        }
        let (rule, namespace) = rule_of(request.method(), request.uri().path())?;
        let what = format!("{} {}", request.method(), request.uri().path());
        self.security.admit_to(&what, rule, &namespace, credentials).await
    }
}

/// What a request shows of its caller.
pub(crate) fn credentials<B>(request: &Request<B>, certificate: Option<Arc<str>>) -> Credentials {
    Credentials { authorization: request.headers().get(header::AUTHORIZATION).cloned(), certificate }
}

/// What a request needs, and where.
fn rule_of(method: &Method, path: &str) -> Result<(Rule, String), Status> {
    let fits = |route: &&Route| if route.is_whole { path == route.prefix } else { path.starts_with(route.prefix) };
    let route = ROUTES.iter().find(fits);
    let rule = route.map_or(READ_SERVER, |route| route.rule);
    let namespace = match (rule.scope, route) {
        (Scope::Namespace, Some(route)) => {
            let rest = &path[route.prefix.len()..];
            crate::http_flows::decode(rest.split('/').next().unwrap_or_default())?
        }
        _ => String::new(),
    };
    // Checking a script changes nothing.
    let is_reading = matches!(*method, Method::GET | Method::HEAD) || path.ends_with("/flows:check");
    let rule = if rule == READ && !is_reading { WRITE } else { rule };
    Ok((rule, namespace))
}

/// The response to a request that was not let in.
pub(crate) fn refused(status: &Status) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(format!("{}\n", status.message()))));
    *response.status_mut() = match status.code() {
        Code::Unauthenticated => StatusCode::UNAUTHORIZED,
        Code::PermissionDenied => StatusCode::FORBIDDEN,
        Code::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::BAD_REQUEST,
    };
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    if status.code() == Code::Unauthenticated {
        headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    response
}

/// How a request ended, for the audit log.
pub(crate) fn code_of(status: StatusCode) -> Code {
    match status {
        status if status.is_success() || status.is_redirection() => Code::Ok,
        StatusCode::NOT_FOUND => Code::NotFound,
        StatusCode::CONFLICT => Code::AlreadyExists,
        status if status.is_client_error() => Code::InvalidArgument,
        _ => Code::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_need_roles() {
        let rule = |method: Method, path: &str| rule_of(&method, path).expect("a route");
        assert_eq!(rule(Method::GET, "/healthz").0, ANYBODY);
        assert_eq!(rule(Method::GET, "/metrics").0, READ_SERVER);
        assert_eq!(rule(Method::GET, "/healthz/x").0, READ_SERVER);
        assert_eq!(rule(Method::GET, "/api/v1/namespaces/a%20b/flows"), (READ, "a b".to_owned()));
        assert_eq!(rule(Method::POST, "/api/v1/namespaces/n/flows"), (WRITE, "n".to_owned()));
        assert_eq!(rule(Method::POST, "/api/v1/namespaces/n/flows:check"), (READ, "n".to_owned()));
        assert_eq!(rule(Method::DELETE, "/api/v1/namespaces/n/flows/x"), (WRITE, "n".to_owned()));
        assert_eq!(rule(Method::POST, "/anything").0, READ_SERVER);
    }
}
