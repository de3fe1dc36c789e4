//! Temporal's HTTP API: JSON over the same calls as gRPC.
//!
//! [`answer`] is the one entry. Method and path name a call ([`routes`]); body, path and query become its request
//! ([`segno_proto_json`], [`parameters`]), which [`Service`] handles like a gRPC call; the response or the status becomes
//! JSON. All of it goes by the descriptors of the protocol: nothing is written per call. Texts of errors and the short form
//! of payloads ([`payload`]) are those of Temporal's server. See docs/reference/http-api.md.

pub mod flows;
mod parameters;
mod payload;
mod routes;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header};
use http_body_util::Full;
use prost::Message;
use segno_calls::{CallMetadata, MESSAGE_BYTES_MAX, Service};
use segno_proto::{HttpRoute, google::rpc};
use segno_proto_json::{
    Reading, View, bytes_to_json, descriptor, from_json, parse,
    prost_reflect::{DynamicMessage, MessageDescriptor, ReflectMessage},
};
use tonic::{Code, Extensions, Status};

use self::routes::Match;

/// Longest body of a request.
pub const BODY_BYTES_MAX: usize = MESSAGE_BYTES_MAX;

/// Headers with this prefix are metadata of the call, without it.
const METADATA_PREFIX: &str = "grpc-metadata-";
/// Headers that are metadata of the call without it.
const FORWARDED: [&str; 3] = ["client-name", "client-version", "grpc-timeout"];
/// The content type of a browser's form.
const FORM: &str = "application/x-www-form-urlencoded";

/// How JSON is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Style {
    pretty: bool,
    /// Payloads in their short form.
    short: bool,
}

/// A request as it arrived. `body` is `None` while it is not read, or if it was longer than [`BODY_BYTES_MAX`].
pub struct ApiRequest<'a> {
    /// Its method.
    pub method: &'a Method,
    /// Its path, as it was sent.
    pub path: &'a str,
    /// The text after the question mark.
    pub query: &'a str,
    /// Its headers.
    pub headers: &'a HeaderMap,
    /// All of its body.
    pub body: Option<Bytes>,
}

/// A message as JSON, by its full name, with payloads as they are; nothing if its bytes are not such a message.
pub fn message_json(name: &str, bytes: &[u8]) -> Option<serde_json::Value> {
    serde_json::from_str(&bytes_to_json(name, bytes, View::EXACT).ok()?.to_string()).ok()
}

/// Answers a request of Temporal's HTTP API, or says in its words that there is nothing.
pub async fn answer(service: &dyn Service, request: ApiRequest<'_>) -> Response<Full<Bytes>> {
    let (inbound, outbound) = styles(&request);
    let answered = match call(service, &request, inbound).await {
        Ok((route, message)) => outbound
            .print(route.response, &message)
            .map(|json| (StatusCode::OK, json))
            .map_err(|error| Status::internal(format!("the response is malformed: {error}"))),
        Err(status) => Err(status),
    };
    let (status, json) = answered.unwrap_or_else(|status| (http_status(status.code()), refusal(&status, outbound)));
    respond(status, json, outbound)
}

/// Refuses a request.
pub fn refuse(request: &ApiRequest<'_>, status: &Status) -> Response<Full<Bytes>> {
    let (_, outbound) = styles(request);
    respond(http_status(status.code()), refusal(status, outbound), outbound)
}

fn respond(status: StatusCode, json: String, outbound: Style) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(json)));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(outbound.content_type()));
    response
}

/// Whether there is a call at this path, with any HTTP method.
pub fn has(path: &str) -> bool {
    unescaped(path).is_some_and(|path| !matches!(routes::find("GET", &path), Match::Nothing))
}

fn unescaped(path: &str) -> Option<String> {
    parameters::unescape(path, false).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// Finds the call, makes it, and returns the message of its response.
async fn call(
    service: &dyn Service,
    request: &ApiRequest<'_>,
    style: Style,
) -> Result<(&'static HttpRoute, Bytes), Status> {
    let nothing = || Status::not_found("Not Found");
    let path = unescaped(request.path).ok_or_else(nothing)?;
    let mut query = request.query.to_owned();
    let (route, fields) = match routes::find(request.method.as_str(), &path) {
        Match::Call(route, fields) => (route, fields),
        Match::Nothing => return Err(nothing()),
        Match::OtherMethod => match routes::find("GET", &path) {
            // The gateway of Temporal's server takes a form for a query that was too long for a path.
            Match::Call(route, fields) if is_form(request) => {
                let form = request.body.as_deref().map(String::from_utf8_lossy).unwrap_or_default();
                query = format!("{form}&{query}");
                (route, fields)
            }
            _ => return Err(Status::unimplemented("Method Not Allowed")),
        },
    };
    let message = read(request, route, &fields, &query, style)?;
    let mut extensions = Extensions::default();
    extensions.insert(metadata(request.headers));
    let path = format!("/{}/{}", route.service, route.call);
    Ok((route, service.call(&path, message.into(), extensions).await?))
}

/// The message of a request.
fn read(
    request: &ApiRequest<'_>,
    route: &HttpRoute,
    fields: &[(&'static str, String)],
    query: &str,
    style: Style,
) -> Result<Vec<u8>, Status> {
    let message = descriptor(route.request);
    let message = message.ok_or_else(|| Status::internal(format!("there is no message {}", route.request)))?;
    let mut read = match (route.body, &request.body) {
        ("", _) => DynamicMessage::new(message),
        (_, None) => return Err(Status::invalid_argument("http: request body too large")),
        (_, Some(body)) => style.read(message, body).map_err(Status::invalid_argument)?,
    };
    for (path, value) in fields {
        parameters::set(&mut read, path, std::slice::from_ref(value))
            .map_err(|error| Status::invalid_argument(format!("type mismatch, parameter: {path}, error: {error}")))?;
    }
    if route.body.is_empty() {
        for (path, values) in parameters::query(query) {
            let (path, values) = parameters::of_map(path, values);
            // What the path says counts.
            let path = parameters::normalized(&read.descriptor(), &path);
            let is_in_path = |(field, _): &(&str, String)| {
                path.strip_prefix(field).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
            };
            if !fields.iter().any(is_in_path) {
                parameters::set(&mut read, &path, &values).map_err(Status::invalid_argument)?;
            }
        }
    }
    Ok(read.encode_to_vec())
}

fn is_form(request: &ApiRequest<'_>) -> bool {
    let content_type = request.headers.get(header::CONTENT_TYPE);
    request.method == Method::POST && content_type.is_some_and(|kind| kind.as_bytes() == FORM.as_bytes())
}

/// The metadata of a call, from the headers of a request.
fn metadata(headers: &HeaderMap) -> CallMetadata {
    let mut metadata = CallMetadata::default();
    for (name, value) in headers {
        let prefixed = name.as_str().strip_prefix(METADATA_PREFIX);
        if let Some(name) = prefixed.or_else(|| FORWARDED.contains(&name.as_str()).then_some(name.as_str())) {
            metadata.field(name.as_bytes(), value.as_bytes());
        }
    }
    metadata
}

/// A status as JSON, with the details that SDKs read.
fn refusal(status: &Status, style: Style) -> String {
    let details = match status.details() {
        [] => rpc::Status { code: status.code() as i32, message: status.message().to_owned(), details: Vec::new() }
            .encode_to_vec(),
        details => details.to_vec(),
    };
    let printed = style.print("google.rpc.Status", &details);
    printed.unwrap_or_else(|_| r#"{"code": 13, "message": "failed to marshal error message"}"#.to_owned())
}

fn http_status(code: Code) -> StatusCode {
    let number = match code {
        Code::Ok => 200,
        Code::Cancelled => 499,
        Code::InvalidArgument | Code::FailedPrecondition | Code::OutOfRange => 400,
        Code::Unauthenticated => 401,
        Code::PermissionDenied => 403,
        Code::NotFound => 404,
        Code::AlreadyExists | Code::Aborted => 409,
        Code::ResourceExhausted => 429,
        Code::Unknown | Code::Internal | Code::DataLoss => 500,
        Code::Unimplemented => 501,
        Code::Unavailable => 503,
        Code::DeadlineExceeded => 504,
    };
    StatusCode::from_u16(number).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}

/// How the request is written, and how the response is to be.
fn styles(request: &ApiRequest<'_>) -> (Style, Style) {
    let named = |name: header::HeaderName| request.headers.get(name).and_then(|value| value.to_str().ok());
    let asked: Vec<(String, Vec<String>)> = parameters::query(request.query);
    let has = |name: &str| asked.iter().any(|(known, _)| known == name);
    let (pretty, long) = (has("pretty"), has("noPayloadShorthand"));
    let inbound = named(header::CONTENT_TYPE).and_then(|kind| Style::named(kind.split(';').next().unwrap_or(kind)));
    let outbound = match pretty || long {
        true => Some(Style { pretty, short: !long }),
        false => named(header::ACCEPT).and_then(Style::named),
    };
    let inbound_style = inbound.unwrap_or(Style::USUAL);
    (inbound_style, outbound.unwrap_or(inbound_style))
}

impl Style {
    const USUAL: Self = Self { pretty: false, short: true };

    fn named(name: &str) -> Option<Self> {
        let [pretty, long] = match name.trim() {
            "application/json+pretty" => [true, false],
            "application/json+no-payload-shorthand" => [false, true],
            "application/json+pretty+no-payload-shorthand" => [true, true],
            _ => return None,
        };
        Some(Self { pretty, short: !long })
    }

    /// An encoded message, by its full name, in this style.
    fn print(self, name: &str, message: &[u8]) -> Result<String, String> {
        let view = if self.short { View { payload: Some(payload::short), ..View::EXACT } } else { View::EXACT };
        Ok(bytes_to_json(name, message, view)?.print(self.pretty, |_| false))
    }

    /// A message in this style; an empty text is an empty message.
    fn read(self, message: MessageDescriptor, text: &[u8]) -> Result<DynamicMessage, String> {
        let reading = Reading { payload: self.short.then_some(payload::read), ..Reading::default() };
        match parse(text)? {
            None => Ok(DynamicMessage::new(message)),
            Some(node) => from_json(message, &node, text, reading).map_err(|error| format!("temporalproto: {error}")),
        }
    }

    /// The content type of Temporal's server for this form of JSON.
    fn content_type(self) -> &'static str {
        match (self.pretty, self.short) {
            (false, true) => "*",
            (true, true) => "application/json+pretty",
            (false, false) => "application/json+no-payload-shorthand",
            (true, false) => "application/json+pretty+no-payload-shorthand",
        }
    }
}
