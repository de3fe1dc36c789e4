//! Calls of handlers: a request becomes a task of their workers.

use std::{collections::BTreeMap, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, Response, request::Parts};
use http_body_util::Full;
use hyper::body::Incoming;
use prost::Message;
use segno_engine::script;
use segno_nexus::{CONTENT_PREFIX, Content, LINK_HEADER, from_url, links_from_header, read_span};
use segno_node::{CALL_AGE_MAX, DirectCall, DirectCallError, QueueKey, QueueKind};
use segno_proto::{
    common::{Callback, callback},
    nanos_timestamp,
    nexus::{
        CancelOperationRequest, Request, StartOperationRequest,
        request::{Capabilities, Variant},
    },
};
use tokio::time::Instant;

use super::{
    Action, Handler, Operation,
    answers::{Refusal, answered},
    check_method, header, read_body,
};
use crate::{
    connections::{Services, request::RequestInProgress},
    validate,
};

/// How long a caller waits that does not say so.
const WAIT_DEFAULT: Duration = Duration::from_secs(10);
/// A caller that says how long it waits hears so much earlier that no worker answered; earlier still by a tenth if it waits shortly.
const REPLY_RESERVE: Duration = Duration::from_millis(500);
const CALLBACK_PREFIX: &str = "nexus-callback-";
const REQUEST_TIMEOUT: &str = "request-timeout";
/// The caller knows the new form of failures.
const FAILURE_SUPPORT: &str = "temporal-nexus-failure-support";
/// Headers of the connection, or with which the caller authenticates itself to this server. Handlers do not get them.
const DROPPED: [&str; 9] = [
    "accept-encoding",
    "authorization",
    "connection",
    "cookie",
    "host",
    REQUEST_TIMEOUT,
    FAILURE_SUPPORT,
    "transfer-encoding",
    "x-forwarded-for",
];

/// Calls a handler.
pub(super) async fn call(
    services: &Services,
    handler: Handler,
    operation: Operation,
    head: &Parts,
    body: Incoming,
    under_way: &RequestInProgress,
) -> Result<Response<Full<Bytes>>, Refusal> {
    check_method(&head.method)?;
    if let Some(why) = validate::endpoint::queue(&handler.queue) {
        return Err(Refusal::bad_request(why));
    }
    let deadline = Instant::now() + wait_of(&head.headers)?;
    let is_cancel = operation.action != Action::Start;
    let is_new_form = header(&head.headers, FAILURE_SUPPORT).is_some_and(|value| value == "true");
    let query = head.uri.query().unwrap_or_default();
    let mut headers = headers_of(&head.headers);
    let variant = match operation.action {
        Action::Start => {
            let body = read_body(body).await.ok_or_else(|| Refusal::bad_request("invalid input"))?;
            let start = start(services, operation, query, &mut headers, body)?;
            if handler.queue == script::QUEUE {
                check_callback(services, &start)?;
            }
            Variant::StartOperation(start)
        }
        Action::Cancel(ref token) => {
            let token = token.clone().or_else(|| headers.remove("nexus-operation-token"));
            let token = token.or_else(|| parameter(query, "token")).filter(|token| !token.is_empty());
            let token = token.ok_or_else(|| Refusal::bad_request("missing operation token"))?;
            Variant::CancelOperation(CancelOperationRequest {
                service: operation.service,
                operation: operation.operation,
                operation_id: token.clone(),
                operation_token: token,
            })
        }
    };
    let node = &services.node;
    let request = Request {
        header: headers,
        scheduled_time: Some(nanos_timestamp(node.runs.clock_now())),
        capabilities: Some(Capabilities { temporal_failure_responses: is_new_form }),
        endpoint: handler.endpoint,
        variant: Some(variant),
    };
    let queue = QueueKey { namespace: handler.namespace.key, kind: QueueKind::Nexus, name: handler.queue };
    under_way.waits();
    match node.dispatch.call_handler(DirectCall { queue, request, deadline }).await {
        Ok(answer) => Ok(answered(answer, is_cancel, is_new_form)),
        Err(DirectCallError::TimedOut) => Err(Refusal::timed_out()),
        Err(error @ DirectCallError::TooMany) => Err(Refusal::exhausted(error.to_string())),
        Err(error @ DirectCallError::Stopped) => Err(Refusal::unavailable(error.to_string())),
    }
}

/// How long a call may wait for its answer.
fn wait_of(headers: &HeaderMap) -> Result<Duration, Refusal> {
    let Some(given) = header(headers, REQUEST_TIMEOUT) else { return Ok(WAIT_DEFAULT) };
    let given = read_span(&given).ok_or_else(|| Refusal::bad_request("invalid request timeout header"))?;
    let given = Duration::from_nanos(given.clamp(0, CALL_AGE_MAX) as u64);
    Ok(given - REPLY_RESERVE.min(given / 10))
}

/// The headers of a request as handlers get them. What describes the body, and what is for the callback, is among them.
fn headers_of(headers: &HeaderMap) -> BTreeMap<String, String> {
    let names = headers.keys().map(http::HeaderName::as_str);
    let kept = names.filter(|name| !DROPPED.contains(name) && !name.starts_with("xdc-redirection"));
    kept.filter_map(|name| Some((name.to_owned(), header(headers, name)?))).collect()
}

fn start(
    services: &Services,
    operation: Operation,
    query: &str,
    headers: &mut BTreeMap<String, String>,
    body: Bytes,
) -> Result<StartOperationRequest, Refusal> {
    let links = headers.get(LINK_HEADER).map(|links| links_from_header(links)).transpose();
    let links = links.map_err(|error| Refusal::bad_request(error.to_string()))?.unwrap_or_default();
    let content = Content::new(headers.iter().map(|(name, value)| (name.as_str(), value.as_str())), body);
    let payload = content.into_payload().map_err(|_| Refusal::bad_request("invalid input"))?;
    if payload.encoded_len() > services.node.runs.limits().blob_bytes {
        return Err(Refusal::bad_request("input exceeds size limit"));
    }
    headers.retain(|name, _| !name.starts_with(CONTENT_PREFIX));
    let callback_header = headers
        .iter()
        .filter_map(|(name, value)| Some((name.strip_prefix(CALLBACK_PREFIX)?.to_owned(), value.clone())))
        .collect();
    headers.retain(|name, _| !name.starts_with(CALLBACK_PREFIX));
    Ok(StartOperationRequest {
        service: operation.service,
        operation: operation.operation,
        request_id: headers.get("nexus-request-id").cloned().unwrap_or_default(),
        callback: parameter(query, "callback").unwrap_or_default(),
        payload: Some(payload),
        callback_header,
        links,
    })
}

/// Callback and links of a call whose handler is a script: no worker starts the workflow, so that they are checked here.
fn check_callback(services: &Services, start: &StartOperationRequest) -> Result<(), Refusal> {
    let refused = |error: validate::RequestError| Refusal::bad_request(error.to_string());
    let links: Vec<_> = start.links.iter().filter_map(from_url).collect();
    validate::links::check(&links).map_err(refused)?;
    if start.callback.is_empty() {
        return Ok(());
    }
    let nexus = callback::Nexus { url: start.callback.clone(), header: start.callback_header.clone() };
    let mut callbacks = [Callback { variant: Some(callback::Variant::Nexus(nexus)), links }];
    let allowed = &services.node.http_sender.settings.callback_targets;
    validate::links::callbacks(&mut callbacks, allowed).map_err(refused)
}

/// A parameter of a query string.
fn parameter(query: &str, name: &str) -> Option<String> {
    let text = |text: &str| segno_http_api::flows::decode(&text.replace('+', " ")).ok();
    let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    pairs.find_map(|(key, value)| (text(key)? == name).then(|| text(value))?)
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;

    fn headers(given: &[(&'static str, &'static str)]) -> HeaderMap {
        let pair = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        given.iter().map(pair).collect()
    }

    #[test]
    fn callers_hear_of_a_timeout_in_time() {
        let wait = |text: &'static str| wait_of(&headers(&[(REQUEST_TIMEOUT, text)])).map(|wait| wait.as_millis());
        assert_eq!(wait_of(&HeaderMap::new()).ok(), Some(WAIT_DEFAULT));
        assert_eq!([wait("8s"), wait("1s"), wait("100ms"), wait("0s")], [7500, 900, 90, 0].map(Ok));
        assert_eq!(wait("9999999m"), Ok(59_500));
        assert!(wait("x").is_err());
    }

    #[test]
    fn handlers_do_not_get_what_is_for_this_server() {
        let given = headers(&[
            ("authorization", "Bearer x"),
            ("cookie", "a=b"),
            ("xdc-redirection-api", "1"),
            ("x-own", "v"),
            ("request-timeout", "8s"),
            ("accept", "*/*"),
        ]);
        let kept: Vec<_> = headers_of(&given).into_iter().collect();
        let wanted = [("accept", "*/*"), ("x-own", "v")].map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(kept, wanted);
    }

    #[test]
    fn parameters_are_decoded() {
        let query = "a=1&callback=http%3A%2F%2Fl%2Fcb&token=t+k&bad=%zz";
        assert_eq!(parameter(query, "callback").as_deref(), Some("http://l/cb"));
        assert_eq!(parameter(query, "token").as_deref(), Some("t k"));
        assert_eq!([parameter(query, "bad"), parameter(query, "none")], [None, None]);
    }
}
