//! Links: references to events of other histories.

use segno_engine::Run;
use segno_proto::{
    common::{
        Link,
        link::{
            Variant, WorkflowEvent,
            workflow_event::{EventReference, Reference, RequestIdReference},
        },
    },
    enums::EventType,
};

fn to(run: &Run, reference: Reference) -> Link {
    Link {
        variant: Some(Variant::WorkflowEvent(WorkflowEvent {
            namespace: run.info.namespace.clone(),
            workflow_id: run.info.workflow_id.clone(),
            run_id: run.info.run_id.clone(),
            reference: Some(reference),
        })),
    }
}

/// A link to the first event.
pub fn to_start(run: &Run) -> Link {
    let event = EventReference { event_id: 1, event_type: EventType::WorkflowExecutionStarted as i32 };
    to(run, Reference::EventRef(event))
}

/// A link to the event a request caused.
pub fn to_request(run: &Run, request_id: &str, event_type: EventType) -> Link {
    let request = RequestIdReference { request_id: request_id.to_owned(), event_type: event_type as i32 };
    to(run, Reference::RequestIdRef(request))
}
