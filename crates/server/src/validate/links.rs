//! Links between executions, and the callbacks to call when a workflow closes.

use http::Uri;
use prost::Message;
use segno_engine::callbacks;
use segno_node::{AllowedTargets, RefusedTarget};
use segno_proto::common::{Callback, Link, callback, link};
use segno_proto::enums::EventType;

use super::RequestError;

const LINKS_MAX: usize = 10;
const LINK_SIZE_MAX: usize = 4000;
const CALLBACKS_MAX: usize = 2000;
const CALLBACK_URL_LENGTH_MAX: usize = 1000;
const CALLBACK_HEADER_SIZE_MAX: usize = 8 * 1024;

/// Number, size and completeness of the links of a request.
pub fn check<'a>(links: impl IntoIterator<Item = &'a Link>) -> Result<(), RequestError> {
    let links: Vec<&Link> = links.into_iter().collect();
    if links.len() > LINKS_MAX {
        let count = links.len();
        return Err(RequestError::invalid(format!(
            "cannot attach more than {LINKS_MAX} links per request, got {count}"
        )));
    }
    links.into_iter().try_for_each(one)
}

fn one(link: &Link) -> Result<(), RequestError> {
    let size = link.encoded_len();
    if size > LINK_SIZE_MAX {
        return Err(RequestError::invalid(format!("link exceeds allowed size of {LINK_SIZE_MAX}, got {size}")));
    }
    let (kind, fields) = match &link.variant {
        Some(link::Variant::WorkflowEvent(event)) => {
            let fields =
                [("namespace", &event.namespace), ("workflow ID", &event.workflow_id), ("run ID", &event.run_id)];
            filled("workflow event", fields)?;
            return match &event.reference {
                Some(link::workflow_event::Reference::EventRef(reference))
                    if reference.event_type == EventType::Unspecified as i32 && reference.event_id != 0 =>
                {
                    Err(RequestError::invalid(
                        "workflow event link ref cannot have an unspecified event type and a non-zero event ID",
                    ))
                }
                _ => Ok(()),
            };
        }
        Some(link::Variant::BatchJob(job)) if job.job_id.is_empty() => {
            return Err(RequestError::invalid("batch job link must not have an empty job ID"));
        }
        Some(link::Variant::BatchJob(_)) => return Ok(()),
        Some(link::Variant::NexusOperation(to)) => (
            "nexus operation",
            [("namespace", &to.namespace), ("operation ID", &to.operation_id), ("run ID", &to.run_id)],
        ),
        Some(link::Variant::Activity(to)) => {
            ("activity", [("namespace", &to.namespace), ("activity ID", &to.activity_id), ("run ID", &to.run_id)])
        }
        Some(link::Variant::Workflow(to)) => {
            ("workflow", [("namespace", &to.namespace), ("workflow ID", &to.workflow_id), ("run ID", &to.run_id)])
        }
        Some(link::Variant::Callback(_)) | None => return Err(RequestError::invalid("unsupported link variant")),
    };
    filled(kind, fields)
}

fn filled(kind: &str, fields: [(&str, &String); 3]) -> Result<(), RequestError> {
    match fields.iter().find(|(_, value)| value.is_empty()) {
        None => Ok(()),
        Some((field, _)) => Err(RequestError::invalid(format!("{kind} link must not have an empty {field} field"))),
    }
}

/// Number, address and headers of completion callbacks; header names become lower case. The server's own addresses are always allowed.
pub fn callbacks(callbacks: &mut [Callback], allowed: &AllowedTargets) -> Result<(), RequestError> {
    if callbacks.len() > CALLBACKS_MAX {
        return Err(RequestError::invalid(format!(
            "cannot attach more than {CALLBACKS_MAX} callbacks to an execution"
        )));
    }
    for one in callbacks {
        match &mut one.variant {
            Some(callback::Variant::Nexus(nexus)) => {
                url(&nexus.url, allowed)?;
                let size: usize = nexus.header.iter().map(|(name, value)| name.len() + value.len()).sum();
                if size > CALLBACK_HEADER_SIZE_MAX {
                    return Err(RequestError::invalid(format!(
                        "invalid header: header size longer than max allowed size of {CALLBACK_HEADER_SIZE_MAX}"
                    )));
                }
                let header = std::mem::take(&mut nexus.header);
                nexus.header = header.into_iter().map(|(name, value)| (name.to_lowercase(), value)).collect();
            }
            Some(callback::Variant::Internal(_)) => {
                return Err(RequestError::invalid("unsupported callback variant: *common.Callback_Internal_"));
            }
            // Temporal's server does not know this variant.
            Some(callback::Variant::NexusHandler(_)) | None => {
                return Err(RequestError::unimplemented("unknown callback variant: <nil>"));
            }
        }
    }
    Ok(())
}

fn url(url: &str, allowed: &AllowedTargets) -> Result<(), RequestError> {
    if url.len() > CALLBACK_URL_LENGTH_MAX {
        return Err(RequestError::invalid(format!(
            "invalid url: url length longer than max length allowed of {CALLBACK_URL_LENGTH_MAX}"
        )));
    }
    if url == callbacks::SYSTEM || url == callbacks::INTERNAL {
        return Ok(());
    }
    if let Some(why) = url_error(url) {
        return Err(RequestError::invalid(format!("invalid callback url: {why}")));
    }
    let (scheme, rest) = url.split_once(':').unwrap_or(("", url));
    if !scheme.eq_ignore_ascii_case("http") && !scheme.eq_ignore_ascii_case("https") {
        return Err(RequestError::invalid(format!("invalid url: unknown scheme: {url}")));
    }
    let authority = rest.strip_prefix("//").unwrap_or_default().split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    if host.is_empty() {
        return Err(RequestError::invalid("invalid url: missing host"));
    }
    let parsed: Uri = url.parse().map_err(|error| RequestError::invalid(format!("invalid callback url: {error}")))?;
    allowed.check(&parsed).map_err(|refused| {
        let why = match refused {
            RefusedTarget::Insecure(_) => "callback address does not allow insecure connections",
            _ => "url does not match any configured callback address",
        };
        RequestError::invalid(format!("invalid url: {why}: {url}"))
    })
}

/// Go's error for texts that are no addresses: escapes without a meaning, and characters that no host has.
pub fn url_error(url: &str) -> Option<String> {
    let unreadable = |why: String| Some(format!("parse {url:?}: {why}"));
    if url.bytes().any(|byte| byte.is_ascii_control()) {
        return unreadable("net/url: invalid control character in URL".to_owned());
    }
    for (at, _) in url.match_indices('%') {
        let escape: String = url[at..].chars().take(3).collect();
        if escape.len() < 3 || !escape[1..].bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return unreadable(format!("invalid URL escape {escape:?}"));
        }
    }
    let host = url.split_once("://").map_or("", |(_, rest)| rest.split(['/', '?', '#']).next().unwrap_or_default());
    let odd = host.chars().find(|letter| matches!(letter, ' ' | '"' | '<' | '>' | '^' | '`' | '{' | '|' | '}' | '\\'));
    odd.and_then(|odd| unreadable(format!("invalid character {:?} in host name", odd.to_string())))
}

/// Drops links that a Nexus callback of the same request carries as well.
pub fn without_those_of_callbacks(links: &mut Vec<Link>, callbacks: &[Callback]) {
    let nexus = |callback: &&Callback| matches!(callback.variant, Some(callback::Variant::Nexus(_)));
    links.retain(|link| !callbacks.iter().filter(nexus).any(|callback| callback.links.contains(link)));
}
