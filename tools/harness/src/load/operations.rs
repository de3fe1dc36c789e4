//! Workflows with one Nexus operation, which its handler completes at once.

use std::{rc::Rc, time::Duration};

use anyhow::{Result, bail};
use segno_proto::{
    command::{Command, ScheduleNexusOperationCommandAttributes, command::Attributes as CommandAttributes},
    common::Payloads,
    enums::CommandType,
    events::history_event::Attributes,
    nexus::{
        EndpointSpec, EndpointTarget, Response, StartOperationResponse, endpoint_target, request, response,
        start_operation_response,
    },
    operatorservice::CreateNexusEndpointRequest,
    workflowservice::{PollNexusTaskQueueRequest, RespondNexusTaskCompletedRequest},
};
use tokio::task::JoinSet;

use super::{outcome::Outcome, session::Session, workflows};
use crate::wire::{self, CALL_TIMEOUT, Client, NAMESPACE, POLL_TIMEOUT};

/// How long Temporal's server needs until it knows a new endpoint.
const ENDPOINT_KNOWN: Duration = Duration::from_secs(2);

/// Creates an endpoint for the queue of the load, and runs workflows that call it.
pub async fn run(session: &Rc<Session>) -> Result<Outcome> {
    let target = endpoint_target::Worker { namespace: NAMESPACE.to_owned(), task_queue: session.queue().to_owned() };
    let spec = EndpointSpec {
        name: endpoint(session).to_owned(),
        description: None,
        target: Some(EndpointTarget { variant: Some(endpoint_target::Variant::Worker(target)) }),
    };
    let call = CreateNexusEndpointRequest { spec: Some(spec) };
    if let Err(status) = session.client().call(call, CALL_TIMEOUT).await {
        bail!("the endpoint was not created: {}", status.message());
    }
    let mut handlers = JoinSet::new();
    for _ in 0..session.load.pollers {
        handlers.spawn_local(poll_operations(session.clone(), session.client()));
    }
    tokio::time::sleep(ENDPOINT_KNOWN).await;
    let outcome = workflows::run(session, "operation").await;
    handlers.shutdown().await;
    outcome
}

/// The endpoint of a load.
fn endpoint(session: &Session) -> &str {
    &session.load.prefix
}

/// An operation with the workflow's input, then its result.
pub fn decide(event: &Attributes, session: &Session) -> Option<Command> {
    match event {
        Attributes::NexusOperationCompletedEventAttributes(done) => {
            Some(wire::complete(Some(Payloads { payloads: done.result.clone().into_iter().collect() })))
        }
        Attributes::WorkflowExecutionStartedEventAttributes(start) => {
            let attributes = ScheduleNexusOperationCommandAttributes {
                endpoint: endpoint(session).to_owned(),
                service: "echo".to_owned(),
                operation: "echo".to_owned(),
                input: start.input.as_ref().and_then(|input| input.payloads.first().cloned()),
                ..Default::default()
            };
            let attributes = CommandAttributes::ScheduleNexusOperationCommandAttributes(attributes);
            Some(wire::command(CommandType::ScheduleNexusOperation, attributes))
        }
        _ => None,
    }
}

/// One poller for requests to handlers; the operation gives back its input.
async fn poll_operations(session: Rc<Session>, mut client: Client) {
    loop {
        let poll = PollNexusTaskQueueRequest {
            namespace: NAMESPACE.to_owned(),
            task_queue: wire::queue(session.queue()),
            identity: "segno-harness".to_owned(),
            ..Default::default()
        };
        let task = match client.call(poll, POLL_TIMEOUT).await {
            Ok(reply) => reply,
            Err(_) => {
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let Some(request::Variant::StartOperation(start)) = task.request.and_then(|request| request.variant) else {
            continue;
        };
        let done = start_operation_response::Sync { payload: start.payload, ..Default::default() };
        let started = StartOperationResponse { variant: Some(start_operation_response::Variant::SyncSuccess(done)) };
        let answer = RespondNexusTaskCompletedRequest {
            namespace: NAMESPACE.to_owned(),
            identity: "segno-harness".to_owned(),
            task_token: task.task_token,
            response: Some(Response { variant: Some(response::Variant::StartOperation(started)) }),
            ..Default::default()
        };
        if let Err(status) = client.call(answer, CALL_TIMEOUT).await {
            session.failed("complete operation", &status);
        }
    }
}
