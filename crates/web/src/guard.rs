//! Protects the HTTP port from pages of other sites.
//!
//! A page of another site must not act here with the rights of the user: requests other than GET and HEAD are refused
//! if the browser says that they come from another site (`Sec-Fetch-Site`, `Origin`). It must not read here under a
//! host name that it points to this address (DNS rebinding) either: the `Host` must be an address, a loopback name, the
//! name of this machine or one that the operator names. A content security policy allows only scripts of this server.

use std::{net::IpAddr, sync::OnceLock};

use http::{HeaderMap, HeaderValue, Method, StatusCode, header, request::Parts};

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// Why a request gets no answer.
#[derive(Debug)]
pub(super) struct Denial {
    pub(super) status: StatusCode,
    pub(super) text: &'static str,
}

fn refused(status: StatusCode, text: &'static str) -> Result<(), Denial> {
    Err(Denial { status, text })
}

/// Whether a request may be answered.
pub(super) fn check(head: &Parts, is_tls: bool) -> Result<(), Denial> {
    let Some(host) = text(&head.headers, "host") else {
        return refused(StatusCode::BAD_REQUEST, "a Host header is needed\n");
    };
    // With TLS no other server can take this server's name.
    if !is_tls && !is_known(host) {
        return refused(
            StatusCode::MISDIRECTED_REQUEST,
            "the pages are not served under this host name: use the server's address or localhost, or start \
             it with the name in SEGNO_HTTP_HOSTS\n",
        );
    }
    match head.method {
        Method::GET | Method::HEAD => Ok(()),
        Method::POST if is_same_site(&head.headers, host) => Ok(()),
        Method::POST => refused(StatusCode::FORBIDDEN, "the request comes from another site\n"),
        _ => refused(StatusCode::METHOD_NOT_ALLOWED, "only GET and POST are understood here\n"),
    }
}

/// Whether a page of another site makes a browser send this request, which would act with the rights of its reader.
/// Programs that are no browsers send no such headers.
pub fn is_of_another_site(headers: &HeaderMap, method: &Method, is_tls: bool) -> bool {
    if matches!(*method, Method::GET | Method::HEAD) {
        return false;
    }
    let host = text(headers, "host").unwrap_or_default();
    // A site may point a name of its own to this address.
    let is_named = headers.contains_key(header::ORIGIN) && !is_tls && !is_known(host);
    is_named || !is_same_site(headers, host)
}

/// Whether a request has no `Host`, or one that a page of another site cannot take for itself.
pub fn has_known_host(headers: &HeaderMap) -> bool {
    match headers.get(header::HOST) {
        None => true,
        Some(host) => host.to_str().is_ok_and(is_known),
    }
}

/// Adds what browsers are to respect.
pub(super) fn protect(headers: &mut HeaderMap) {
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "same-origin"),
        (header::X_FRAME_OPTIONS, "DENY"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// A host without its port.
fn name_of(host: &str) -> &str {
    match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, _)) => address,
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    }
}

fn is_known(host: &str) -> bool {
    let name = name_of(host).trim_end_matches('.').to_ascii_lowercase();
    let is_address = name.parse::<IpAddr>().is_ok();
    // A page cannot take these names for itself: browsers resolve them to this machine.
    let is_loopback = name == "localhost" || name.ends_with(".localhost");
    is_address || is_loopback || configured_names().contains(&name) || is_machine(&name)
}

/// Names that the operator gave, for servers behind a proxy: `SEGNO_HTTP_HOSTS`, with commas between them.
fn configured_names() -> &'static [String] {
    static TOLD: OnceLock<Vec<String>> = OnceLock::new();
    TOLD.get_or_init(|| {
        let told = std::env::var("SEGNO_HTTP_HOSTS").unwrap_or_default();
        told.split(',').map(|name| name.trim().to_ascii_lowercase()).filter(|name| !name.is_empty()).collect()
    })
}

/// Whether a name is this machine's.
fn is_machine(name: &str) -> bool {
    let machine = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let machine = machine.trim().to_ascii_lowercase();
    !machine.is_empty() && machine == name
}

/// Programs that are no browsers send none of these headers; they act with rights of their own.
fn is_same_site(headers: &HeaderMap, host: &str) -> bool {
    let site_is_ours = text(headers, "sec-fetch-site").is_none_or(|site| site == "same-origin" || site == "none");
    let is_ours = |origin: &str| origin.split_once("://").is_some_and(|(_, named)| named.eq_ignore_ascii_case(host));
    // A header that is no text is not ours.
    let origin_is_ours = match headers.get(header::ORIGIN) {
        None => true,
        Some(origin) => origin.to_str().is_ok_and(is_ours),
    };
    site_is_ours && origin_is_ours
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn status(method: &str, headers: &[(&str, &str)]) -> Option<StatusCode> {
        let mut request = Request::builder().method(method).uri("/ui");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (head, ()) = request.body(()).expect("a request").into_parts();
        check(&head, false).err().map(|refused| refused.status)
    }

    #[test]
    fn hosts() {
        for host in ["127.0.0.1:8233", "localhost:8233", "LOCALHOST", "[::1]:8233", "10.1.2.3", "segno.localhost:1"] {
            assert_eq!(status("GET", &[("host", host)]), None, "{host}");
        }
        for host in ["evil.example:8233", "localhost.evil.example", "127.0.0.1.evil.example", ""] {
            assert_eq!(status("GET", &[("host", host)]), Some(StatusCode::MISDIRECTED_REQUEST), "{host}");
        }
        assert_eq!(status("GET", &[]), Some(StatusCode::BAD_REQUEST));
    }

    #[test]
    fn actions_come_from_our_pages() {
        let host = ("host", "127.0.0.1:8233");
        let ours = ("origin", "http://127.0.0.1:8233");
        assert_eq!(status("POST", &[host, ours, ("sec-fetch-site", "same-origin")]), None);
        assert_eq!(status("POST", &[host]), None);
        for foreign in [
            ("origin", "http://evil.example"),
            ("origin", "null"),
            ("origin", "http://127.0.0.1:9999"),
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-site", "same-site"),
        ] {
            assert_eq!(status("POST", &[host, foreign]), Some(StatusCode::FORBIDDEN), "{foreign:?}");
        }
        assert_eq!(status("PUT", &[host]), Some(StatusCode::METHOD_NOT_ALLOWED));
    }
}
