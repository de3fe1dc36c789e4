//! The scenarios of Temporal's repository `features` that its Python SDK has, said with this SDK. Each is named after its
//! directory there. They run against Segno and against Temporal, and what they say of histories holds for both.
//!
//! Differences: an interceptor of a client adds headers
//! and refuses calls but does not change arguments (`update/client_interceptor`), arguments that are too many are ignored
//! (`query/unexpected_arguments`), and messages of Protocol Buffers need a converter (`data_converter/*_protobuf`).

mod connections;
mod converters;
mod messages;
mod tasks;
mod updates;

use segno_sdk::{
    ClientError, Handle, Queue,
    raw::{Attributes, HistoryEvent, Payload, enums::EventType},
    testing::TestServer,
};

/// A server, and a queue of it.
async fn start() -> (TestServer, Queue) {
    let server = super::server().await;
    let queue = super::queue(&server.client());
    (server, queue)
}

/// The types of a history's events, without those of workflow tasks, whose number depends on who was faster.
async fn shape<W>(handle: &Handle<W>) -> Vec<EventType> {
    use EventType as E;
    let is_task = |kind: &E| {
        matches!(
            kind,
            E::WorkflowTaskScheduled
                | E::WorkflowTaskStarted
                | E::WorkflowTaskCompleted
                | E::WorkflowTaskFailed
                | E::WorkflowTaskTimedOut
        )
    };
    handle.history().await.unwrap().iter().map(HistoryEvent::event_type).filter(|kind| !is_task(kind)).collect()
}

/// What a history has as the workflow's argument and as its result.
async fn payloads<W>(handle: &Handle<W>) -> Result<(Payload, Payload), ClientError> {
    let (mut argument, mut result) = (None, None);
    for event in handle.history().await? {
        match event.attributes {
            Some(Attributes::WorkflowExecutionStartedEventAttributes(started)) => argument = started.input,
            Some(Attributes::WorkflowExecutionCompletedEventAttributes(completed)) => result = completed.result,
            _ => {}
        }
    }
    let first = |list: Option<segno_sdk::raw::Payloads>| list.unwrap().payloads.remove(0);
    Ok((first(argument), first(result)))
}

fn encoding(payload: &Payload) -> &str {
    std::str::from_utf8(&payload.metadata["encoding"]).unwrap()
}
