//! Links as URLs: `temporal:///namespaces/NAMESPACE/workflows/ID/RUN/history?...` and the like.

use crate::{
    common::{
        Link,
        link::{
            Activity, NexusOperation, Variant, Workflow, WorkflowEvent,
            workflow_event::{EventReference, Reference, RequestIdReference},
        },
    },
    enums::EventType,
    nexus,
};

const PREFIX: &str = "temporal:///";
const WORKFLOW_EVENT: &str = "temporal.api.common.v1.Link.WorkflowEvent";
const WORKFLOW: &str = "temporal.api.common.v1.Link.Workflow";
const ACTIVITY: &str = "temporal.api.common.v1.Link.Activity";
const NEXUS_OPERATION: &str = "temporal.api.common.v1.Link.NexusOperation";

/// A link to an event.
pub fn to_event(namespace: &str, workflow_id: &str, run_id: &str, event_id: i64, event_type: EventType) -> Link {
    let reference = EventReference { event_id, event_type: event_type as i32 };
    Link {
        variant: Some(Variant::WorkflowEvent(WorkflowEvent {
            namespace: namespace.to_owned(),
            workflow_id: workflow_id.to_owned(),
            run_id: run_id.to_owned(),
            reference: Some(Reference::EventRef(reference)),
        })),
    }
}

/// A link to an operation without a workflow.
pub fn to_operation(namespace: &str, operation_id: &str, run_id: &str) -> Link {
    Link {
        variant: Some(Variant::NexusOperation(NexusOperation {
            namespace: namespace.to_owned(),
            operation_id: operation_id.to_owned(),
            run_id: run_id.to_owned(),
        })),
    }
}

/// A link in the form in which it travels with Nexus requests; `None` if it has no such form.
pub fn to_url(link: &Link) -> Option<nexus::Link> {
    let path = |namespace: &str, kind: &str, id: &str, run: &str, end: &str| {
        let [namespace, id, run] = [namespace, id, run].map(|part| escape(part, is_plain_in_path));
        format!("{PREFIX}namespaces/{namespace}/{kind}/{id}/{run}/{end}")
    };
    let (url, kind) = match link.variant.as_ref()? {
        Variant::WorkflowEvent(to) => {
            let path = path(&to.namespace, "workflows", &to.workflow_id, &to.run_id, "history");
            (format!("{path}{}", query(to.reference.as_ref())), WORKFLOW_EVENT)
        }
        Variant::Workflow(to) => (path(&to.namespace, "workflows", &to.workflow_id, &to.run_id, "history"), WORKFLOW),
        Variant::Activity(to) => (path(&to.namespace, "activities", &to.activity_id, &to.run_id, "details"), ACTIVITY),
        Variant::NexusOperation(to) => {
            (path(&to.namespace, "nexus-operations", &to.operation_id, &to.run_id, "details"), NEXUS_OPERATION)
        }
        Variant::BatchJob(_) | Variant::Callback(_) => return None,
    };
    Some(nexus::Link { url, r#type: kind.to_owned() })
}

/// The query of a link to an event. Keys are sorted.
fn query(reference: Option<&Reference>) -> String {
    let name = |number: i32| {
        let kind = EventType::try_from(number).unwrap_or_default();
        let words = kind.as_str_name().trim_start_matches("EVENT_TYPE_").split('_');
        words
            .map(|word| word.chars().take(1).chain(word.to_ascii_lowercase().chars().skip(1)).collect::<String>())
            .collect::<String>()
    };
    match reference {
        None => String::new(),
        Some(Reference::EventRef(to)) => {
            let id = if to.event_id == 0 { String::new() } else { format!("eventID={}&", to.event_id) };
            format!("?{id}eventType={}&referenceType=EventReference", name(to.event_type))
        }
        Some(Reference::RequestIdRef(to)) => {
            let id = escape(&to.request_id, is_plain);
            format!("?eventType={}&referenceType=RequestIdReference&requestID={id}", name(to.event_type))
        }
    }
}

/// A link as the server keeps it; `None` if its type or its URL is not known.
pub fn from_url(link: &nexus::Link) -> Option<Link> {
    let (path, query) = link.url.strip_prefix(PREFIX)?.split_once('?').unwrap_or((link.url.strip_prefix(PREFIX)?, ""));
    let parts: Vec<String> = path.split('/').map(|part| unescape(part, false)).collect::<Option<_>>()?;
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    let ["namespaces", namespace, kind, id, run_id, end] = parts[..] else { return None };
    let (namespace, id, run_id) = (namespace.to_owned(), id.to_owned(), run_id.to_owned());
    let variant = match (link.r#type.as_str(), kind, end) {
        (WORKFLOW_EVENT, "workflows", "history") => {
            let reference = reference_of(query)?;
            Variant::WorkflowEvent(WorkflowEvent { namespace, workflow_id: id, run_id, reference: Some(reference) })
        }
        (WORKFLOW, "workflows", _) => {
            Variant::Workflow(Workflow { namespace, workflow_id: id, run_id, ..Default::default() })
        }
        (ACTIVITY, "activities", "details") => Variant::Activity(Activity { namespace, activity_id: id, run_id }),
        (NEXUS_OPERATION, "nexus-operations", "details") => {
            Variant::NexusOperation(NexusOperation { namespace, operation_id: id, run_id })
        }
        _ => return None,
    };
    Some(Link { variant: Some(variant) })
}

fn reference_of(query: &str) -> Option<Reference> {
    let mut fields = std::collections::BTreeMap::new();
    for field in query.split('&') {
        let (name, value) = field.split_once('=')?;
        fields.insert(unescape(name, true)?, unescape(value, true)?);
    }
    let event_type = match fields.get("eventType") {
        Some(name) => event_type(name)?,
        None => EventType::Unspecified,
    } as i32;
    match fields.get("referenceType")?.as_str() {
        "EventReference" => {
            let event_id = fields.get("eventID").map_or(Some(0), |id| id.parse().ok())?;
            Some(Reference::EventRef(EventReference { event_id, event_type }))
        }
        "RequestIdReference" => {
            let request_id = fields.get("requestID").cloned().unwrap_or_default();
            Some(Reference::RequestIdRef(RequestIdReference { request_id, event_type }))
        }
        _ => None,
    }
}

/// A type of event by its name: `NexusOperationScheduled`, or as the protocol spells it.
fn event_type(name: &str) -> Option<EventType> {
    if let Some(kind) = EventType::from_str_name(name) {
        return Some(kind);
    }
    let mut upper = String::from("EVENT_TYPE");
    for letter in name.chars() {
        if letter.is_ascii_uppercase() {
            upper.push('_');
        }
        upper.push(letter.to_ascii_uppercase());
    }
    EventType::from_str_name(&upper)
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte)
}

fn is_plain_in_path(byte: u8) -> bool {
    is_plain(byte) || b"$&+=:@".contains(&byte)
}

/// A text as one part of the path of a URL.
pub fn path_part(text: &str) -> String {
    escape(text, is_plain_in_path)
}

/// A text as the value of a parameter of a URL.
pub fn query_part(text: &str) -> String {
    escape(text, is_plain)
}

fn escape(text: &str, is_plain: fn(u8) -> bool) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        match is_plain(byte) {
            true => escaped.push(char::from(byte)),
            false => escaped.push_str(&format!("%{byte:02X}")),
        }
    }
    escaped
}

fn unescape(text: &str, is_query: bool) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digits = [rest.next()?, rest.next()?];
                let digits = std::str::from_utf8(&digits).ok().filter(|d| d.bytes().all(|b| b.is_ascii_hexdigit()))?;
                u8::from_str_radix(digits, 16).ok()?
            }
            b'+' if is_query => b' ',
            byte => byte,
        });
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_urls_and_back() {
        let link = to_event("n s", "a/b", "r", 5, EventType::NexusOperationScheduled);
        let url = to_url(&link).expect("it has a form");
        assert_eq!(
            url.url,
            "temporal:///namespaces/n%20s/workflows/a%2Fb/r/history\
             ?eventID=5&eventType=NexusOperationScheduled&referenceType=EventReference"
        );
        assert_eq!(from_url(&url), Some(link));
        let request = RequestIdReference { request_id: "a b".into(), event_type: 1 };
        let link = Link {
            variant: Some(Variant::WorkflowEvent(WorkflowEvent {
                namespace: "n".into(),
                workflow_id: "w".into(),
                run_id: "r".into(),
                reference: Some(Reference::RequestIdRef(request)),
            })),
        };
        assert_eq!(from_url(&to_url(&link).expect("it has a form")), Some(link));
    }

    #[test]
    fn what_is_no_link_is_dropped() {
        for url in ["http://a", "temporal:///x", "temporal:///namespaces/n/workflows/w/r/history?x", "temporal:///%"] {
            assert_eq!(from_url(&nexus::Link { url: url.into(), r#type: WORKFLOW_EVENT.into() }), None, "{url}");
        }
        assert_eq!(
            from_url(&nexus::Link { url: "temporal:///namespaces/n/workflows/w/r/history".into(), r#type: "T".into() }),
            None
        );
    }
}
