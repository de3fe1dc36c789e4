//! Checks of Nexus endpoints.

use http::Uri;
use prost::Message;
use segno_engine::validate::is_uuid;
use segno_node::AllowedTargets;
use segno_proto::nexus::{EndpointSpec, endpoint_target::Variant};

use super::{RequestError, links};

const NAME_LENGTH_MAX: usize = 200;
const URL_LENGTH_MAX: usize = 4096;
const DESCRIPTION_BYTES_MAX: usize = 20_000;
/// Endpoints of one answer of a list.
pub const PAGE_SIZE_DEFAULT: usize = 100;
const PAGE_SIZE_MAX: i32 = 1000;

/// A specification. All that is wrong with it is said at once.
pub fn spec(spec: Option<&EndpointSpec>) -> Result<(), RequestError> {
    let absent = EndpointSpec::default();
    let spec = spec.unwrap_or(&absent);
    let mut issues = Vec::new();
    if spec.name.is_empty() {
        issues.push("endpoint name not set".to_owned());
    }
    if spec.name.len() > NAME_LENGTH_MAX {
        issues.push(format!("endpoint name exceeds length limit of {NAME_LENGTH_MAX}"));
    }
    if !spec.name.is_empty() && !is_name(&spec.name) {
        issues.push(r#"endpoint name must match the regex: "^[a-zA-Z][a-zA-Z0-9\\-]*[a-zA-Z0-9]$""#.to_owned());
    }
    match spec.target.as_ref().and_then(|target| target.variant.as_ref()) {
        None => {
            issues.push("empty target variant".to_owned());
            return all(&issues);
        }
        Some(Variant::Worker(worker)) => {
            if worker.namespace.is_empty() {
                issues.push("target namespace not set".to_owned());
            }
            if let Some(why) = queue(&worker.task_queue) {
                issues.push(format!("invalid target task queue: {why:?}"));
            }
        }
        Some(Variant::External(external)) => issues.extend(url(&external.url)),
    }
    if spec.description.as_ref().map_or(0, Message::encoded_len) > DESCRIPTION_BYTES_MAX {
        issues.push(format!("description size exceeds limit of {DESCRIPTION_BYTES_MAX}"));
    }
    all(&issues)
}

fn all(issues: &[String]) -> Result<(), RequestError> {
    if issues.is_empty() { Ok(()) } else { Err(RequestError::invalid(issues.join(", "))) }
}

/// A letter, then letters, digits and hyphens, at the end no hyphen.
fn is_name(name: &str) -> bool {
    let bytes = name.as_bytes();
    let inner = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'-';
    bytes.len() >= 2
        && bytes[0].is_ascii_alphabetic()
        && bytes.iter().all(inner)
        && bytes.last().is_some_and(u8::is_ascii_alphanumeric)
}

/// Why there can be no handlers at a queue.
pub fn queue(name: &str) -> Option<&'static str> {
    if name.is_empty() {
        return Some("taskQueue is not set");
    }
    if name.len() > segno_engine::limits::ID_LENGTH_MAX {
        return Some("taskQueue length exceeds limit");
    }
    name.starts_with("/_sys/").then_some("task queue name cannot start with reserved prefix /_sys/")
}

fn url(url: &str) -> Vec<String> {
    if url.is_empty() {
        return vec!["empty target URL".to_owned()];
    }
    let mut issues = Vec::new();
    if url.len() > URL_LENGTH_MAX {
        issues.push(format!("target URL length exceeds limit of {URL_LENGTH_MAX}"));
    }
    match links::url_error(url) {
        Some(why) => issues.push(format!("invalid target URL: {why}")),
        None => {
            let scheme = url.split_once(':').map_or("", |(scheme, _)| scheme).to_lowercase();
            if scheme != "http" && scheme != "https" {
                issues.push(format!("invalid target URL scheme: {scheme:?}, expected http or https"));
            }
        }
    }
    issues
}

/// A URL that the server may call.
pub fn allowed_target(url: &str, allowed: &AllowedTargets) -> Result<(), RequestError> {
    let parsed: Uri = url.parse().map_err(|error| RequestError::invalid(format!("invalid target URL: {error}")))?;
    allowed.check(&parsed).map_err(|refused| {
        let hint = "The operator of the server allows targets with its setting nexus-allowed-targets";
        RequestError::invalid(format!("target URL {url:?} is not allowed: {refused}. {hint}"))
    })
}

/// The id of an endpoint.
pub fn id(id: &str) -> Result<(), RequestError> {
    if id.is_empty() {
        return Err(RequestError::invalid("endpoint ID not set"));
    }
    if is_uuid(id) {
        return Ok(());
    }
    let why = match id.len() {
        32 | 36 | 38 | 45 => "invalid UUID format".to_owned(),
        length => format!("invalid UUID length: {length}"),
    };
    Err(RequestError::invalid(format!("malformed endpoint ID: {why:?}")))
}

/// An endpoint to delete: all that is wrong at once.
pub fn delete(endpoint: &str, version: i64) -> Result<(), RequestError> {
    let mut issues: Vec<String> = id(endpoint).err().map(|error| error.to_string()).into_iter().collect();
    if version <= 0 {
        issues.push("endpoint version is non-positive".to_owned());
    }
    all(&issues)
}

/// The size of a page.
pub fn page_size(size: i32) -> Result<usize, RequestError> {
    match size {
        ..0 => Err(RequestError::invalid("page_size is negative")),
        0 => Ok(PAGE_SIZE_DEFAULT),
        1..=PAGE_SIZE_MAX => Ok(size as usize),
        _ => Err(RequestError::invalid(format!("page_size exceeds limit of {PAGE_SIZE_MAX}"))),
    }
}
