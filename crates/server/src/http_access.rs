//! Who may use which route of the HTTP port.

use std::{net::IpAddr, sync::Arc};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header, request::Parts};
use http_body_util::Full;
use segno_http_api::flows;
use segno_web::{FORM_SCRIPT, Web, WebBody, guard, login};
use tonic::{Code, Status};

use crate::security::{
    AdmittedCall, Credentials, Security,
    rules::{KNOWN, PUBLIC, READ, Rule, SERVER_ADMIN, SERVER_READ, WRITE},
    tls::Tls,
};

/// Checks the requests of the HTTP port.
#[derive(Clone)]
pub(crate) struct Guard {
    /// Without it nothing is encrypted.
    pub(crate) tls: Option<Arc<Tls>>,
    /// Decides who may do what.
    pub(crate) security: Arc<Security>,
    /// Only programs of this machine reach the port. Browsers among them may be led here by a page of another site.
    pub(crate) is_loopback: bool,
}

/// Routes by their whole path.
const ROUTES: &[(&str, Rule)] = &[
    ("/", KNOWN),
    ("/cluster", SERVER_READ),
    ("/favicon.ico", PUBLIC),
    ("/healthz", PUBLIC),
    ("/metrics", SERVER_READ),
    ("/ui", KNOWN),
    ("/ui/", KNOWN),
];

/// Files that every page loads, and that tell nothing.
const ASSETS: &str = "/ui/assets/";

/// Areas of the pages that are about the whole server: what reading needs there, and what changing does. All others are about a
/// namespace.
const SERVER_AREAS: &[(&str, Rule, Rule)] = &[
    ("cluster", SERVER_READ, SERVER_ADMIN),
    ("namespaces", SERVER_READ, SERVER_ADMIN),
    ("server", SERVER_READ, SERVER_ADMIN),
];

impl Guard {
    /// Whether a request names this server by a name that only it has. Where every caller may do everything because only this
    /// machine reaches the port, a page of another site must not be able to read under a name of its own that it points
    /// here (DNS rebinding). Programs that send no `Host` are no browsers.
    pub(crate) fn is_named_rightly(&self, headers: &HeaderMap, path: &str) -> bool {
        let is_open = self.is_loopback && self.tls.is_none() && !self.security.authenticates();
        !is_open || path == "/healthz" || guard::has_known_host(headers)
    }

    /// Answers what has to do with logging in, and asks browsers to do so.
    pub(crate) async fn log_in(&self, head: &Parts, body: Bytes, address: Option<IpAddr>) -> Response<WebBody> {
        let is_tls = self.tls.is_some();
        if head.method != Method::POST {
            return login::ask("/", None);
        }
        if !login::is_ours(head, is_tls) {
            return login::ask("/", Some("The form came from another site."));
        }
        if head.uri.path() == login::LOGOUT {
            return login::keep(None, "/", is_tls);
        }
        let Some((key, next)) = login::read(&body) else { return login::ask("/", Some("That is not a key.")) };
        let authorization = HeaderValue::from_str(&format!("Bearer {key}")).ok();
        let what = format!("POST {}", login::LOGIN);
        match self.security.is_known(&what, &Credentials::new(authorization, None, address)).await {
            Ok(()) => login::keep(Some(&key), &next, is_tls),
            Err(status) => {
                let mut asked = login::ask(&next, Some(status.message()));
                *asked.status_mut() = status_of(&status);
                asked
            }
        }
    }

    /// The answer to a request for a page that was refused: the login, if that helps.
    pub(crate) fn ask_to_log_in(&self, head: &Request<impl Sized>, status: &Status) -> Option<Response<WebBody>> {
        let accepts = head.headers().get(header::ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
        let is_page = Web::has(head.uri().path()) && accepts.contains("text/html");
        let next = Web::address(head.uri().path(), head.uri().query());
        (is_page && status.code() == Code::Unauthenticated).then(|| login::ask(&next, None))
    }

    /// Lets a request in, or says why not.
    pub(crate) async fn admit<B>(
        &self,
        request: &Request<B>,
        credentials: &Credentials,
    ) -> Result<AdmittedCall, Status> {
        if !self.security.is_on() {
            return Ok(AdmittedCall::default());
        }
        let uri = request.uri();
        let (rule, namespace) = rule_of(request.method(), uri.path(), uri.query().unwrap_or_default())?;
        let what = format!("{} {}", request.method(), uri.path());
        self.security.admit_to(&what, rule, &namespace, credentials).await
    }
}

/// Whether a known caller may not open a page, or not do what a form of one asks for: the answer is a page, too.
pub(crate) fn is_forbidden_page<B>(request: &Request<B>, status: &Status) -> bool {
    let headers = request.headers();
    let accepts = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
    let shows_pages = accepts.contains("text/html") || headers.contains_key(FORM_SCRIPT);
    status.code() == Code::PermissionDenied && Web::has(request.uri().path()) && shows_pages
}

/// The credentials in a request. Browsers have the key in a cookie.
pub(crate) fn credentials<B>(
    request: &Request<B>,
    certificate: Option<Arc<str>>,
    address: Option<IpAddr>,
) -> Credentials {
    let headers = request.headers();
    let authorization = headers.get(header::AUTHORIZATION).cloned();
    let from_cookie = || Web::has(request.uri().path()).then(|| login::authorization(headers)).flatten();
    Credentials::new(authorization.or_else(from_cookie), certificate, address)
}

/// The rule for a request, and its namespace.
fn rule_of(method: &Method, path: &str, query: &str) -> Result<(Rule, String), Status> {
    let is_reading = matches!(*method, Method::GET | Method::HEAD);
    if let Some((_, rule)) = ROUTES.iter().find(|(route, _)| *route == path) {
        return Ok((*rule, String::new()));
    }
    if path.starts_with(ASSETS) {
        return Ok((PUBLIC, String::new()));
    }
    if Web::has(path) {
        let mut parts = Web::page_of(path, query).into_iter();
        let (namespace, area) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        return Ok(match SERVER_AREAS.iter().find(|(name, ..)| *name == area) {
            Some((_, reading, changing)) => (if is_reading { *reading } else { *changing }, String::new()),
            None => (if is_reading { READ } else { WRITE }, namespace),
        });
    }
    let Some(rest) = path.strip_prefix(flows::PREFIX) else { return Ok((SERVER_ADMIN, String::new())) };
    let namespace = flows::decode(rest.split('/').next().unwrap_or_default())?;
    // Checking a script changes nothing.
    let is_check = *method == Method::POST && rest.split_once('/').is_some_and(|(_, rest)| rest == "flows:check");
    let is_reading = is_reading || is_check;
    Ok((if is_reading { READ } else { WRITE }, namespace))
}

/// The response to a request that was not let in.
pub(crate) fn refused(status: &Status) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(format!("{}\n", status.message()))));
    *response.status_mut() = status_of(status);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    if status.code() == Code::Unauthenticated {
        headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    response
}

fn status_of(status: &Status) -> StatusCode {
    match status.code() {
        Code::Unauthenticated => StatusCode::UNAUTHORIZED,
        Code::PermissionDenied => StatusCode::FORBIDDEN,
        Code::ResourceExhausted => StatusCode::TOO_MANY_REQUESTS,
        Code::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::BAD_REQUEST,
    }
}

/// The response to a request under a name that is not this server's.
pub(crate) fn misnamed() -> Response<Full<Bytes>> {
    let text = "nothing is served under this host name: use the server's address or localhost, or start it with the name in \
                SEGNO_HTTP_HOSTS\n";
    let mut response = Response::new(Full::new(Bytes::from_static(text.as_bytes())));
    *response.status_mut() = StatusCode::MISDIRECTED_REQUEST;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain"));
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
        let rule = |method: Method, path: &str| {
            let (path, query) = path.split_once('?').unwrap_or((path, ""));
            rule_of(&method, path, query).expect("a route")
        };
        let nowhere = String::new;
        assert_eq!(rule(Method::GET, "/healthz"), (PUBLIC, nowhere()));
        assert_eq!(rule(Method::GET, "/metrics"), (SERVER_READ, nowhere()));
        assert_eq!(rule(Method::GET, "/anything"), (SERVER_ADMIN, nowhere()));
        assert_eq!(rule(Method::GET, "/api/v1/namespaces/a%20b/flows"), (READ, "a b".to_owned()));
        assert_eq!(rule(Method::POST, "/api/v1/namespaces/n/flows"), (WRITE, "n".to_owned()));
        assert_eq!(rule(Method::POST, "/api/v1/namespaces/n/flows:check"), (READ, "n".to_owned()));
        assert_eq!(rule(Method::DELETE, "/api/v1/namespaces/n/flows/x"), (WRITE, "n".to_owned()));
    }

    #[test]
    fn pages_need_roles() {
        let rule = |method: Method, path: &str| {
            let (path, query) = path.split_once('?').unwrap_or((path, ""));
            rule_of(&method, path, query).expect("a route")
        };
        assert_eq!(rule(Method::GET, "/ui/assets/style.css").0, PUBLIC);
        assert_eq!(rule(Method::GET, "/").0, KNOWN);
        assert_eq!(rule(Method::GET, "/ui/n%20m/workflows?query=x"), (READ, "n m".to_owned()));
        assert_eq!(rule(Method::POST, "/ui/n/workflows/w/r"), (WRITE, "n".to_owned()));
        assert_eq!(rule(Method::GET, "/ui//n//workflows"), (READ, "n".to_owned()));
        assert_eq!(rule(Method::GET, "/ui/live?page=%2Fui%2Fother%2Fworkflows%3Fa%3Db"), (READ, "other".to_owned()));
        assert_eq!(rule(Method::GET, "/ui/live?page=%2Fui%2Fn%2Fserver"), (SERVER_READ, String::new()));
        assert_eq!(rule(Method::GET, "/ui/n/namespaces").0, SERVER_READ);
        assert_eq!(rule(Method::POST, "/ui/n/namespaces").0, SERVER_ADMIN);
    }
}
