//! Nexus operations: a caller, and a handler that starts a workflow whose end is that of the operation.

use std::rc::Rc;

use segno_proto::{
    command::{Command, ScheduleNexusOperationCommandAttributes, command::Attributes as Order},
    common::{Callback, callback},
    enums::CommandType,
    nexus::{
        EndpointSpec, EndpointTarget, Response, StartOperationResponse, endpoint_target, request::Variant as Asked,
        response::Variant as Answered, start_operation_response,
    },
    operatorservice::CreateNexusEndpointRequest,
    workflowservice::{PollNexusTaskQueueRequest, PollNexusTaskQueueResponse, RespondNexusTaskCompletedRequest},
};
use tonic::Code;

use super::{
    flows::{QUEUE, Shared},
    ledger::{Breach, Kind, handler_id},
};
use crate::wire::{self, Client, NAMESPACE, POLL_PAUSE, POLL_TIMEOUT};

const ENDPOINT: &str = "crash";

/// Creates the endpoint. From then on clients start callers.
pub async fn prepare(shared: Rc<Shared>, mut client: Client) {
    let target = endpoint_target::Worker { namespace: NAMESPACE.to_owned(), task_queue: QUEUE.to_owned() };
    let spec = EndpointSpec {
        name: ENDPOINT.to_owned(),
        description: None,
        target: Some(EndpointTarget { variant: Some(endpoint_target::Variant::Worker(target)) }),
    };
    let call = CreateNexusEndpointRequest { spec: Some(spec) };
    match client.insist(&call).await {
        // A repeat of a call that was carried out and not answered.
        Err(status) if status.code() != Code::AlreadyExists => {
            shared.ledger.breach(Breach::Wrong(format!("the endpoint was refused: {status}")));
        }
        _ => shared.has_endpoint.set(true),
    }
}

/// The command with which a caller calls its handler.
pub fn schedule(caller_id: &str) -> Command {
    let attributes = ScheduleNexusOperationCommandAttributes {
        endpoint: ENDPOINT.to_owned(),
        service: "crash".to_owned(),
        operation: Kind::Activity.name().to_owned(),
        input: wire::text(&handler_id(caller_id)).and_then(|input| input.payloads.into_iter().next()),
        ..Default::default()
    };
    wire::command(CommandType::ScheduleNexusOperation, Order::ScheduleNexusOperationCommandAttributes(attributes))
}

/// One poller for requests to start operations.
pub async fn poll(shared: Rc<Shared>, mut client: Client) {
    loop {
        let poll = PollNexusTaskQueueRequest {
            namespace: NAMESPACE.to_owned(),
            task_queue: wire::queue(QUEUE),
            identity: "segno-harness".to_owned(),
            ..Default::default()
        };
        let Ok(reply) = client.call(poll, POLL_TIMEOUT).await else {
            tokio::time::sleep(POLL_PAUSE).await;
            continue;
        };
        handle(&shared, &mut client, reply).await;
    }
}

/// Starts the workflow that the operation stands for. Cancellations are not asked for, and an empty poll has no request.
async fn handle(shared: &Shared, client: &mut Client, task: PollNexusTaskQueueResponse) {
    let Some(Asked::StartOperation(start)) = task.request.and_then(|request| request.variant) else { return };
    let id = wire::untext_one(start.payload.as_ref());
    let mut header = start.callback_header;
    header.insert("nexus-operation-token".to_owned(), id.clone());
    let callback = callback::Nexus { url: start.callback, header };
    let mut call = wire::start(Kind::Activity.name(), &id, QUEUE, "");
    call.workflow_task_timeout = Some(wire::millis(2_000));
    // A request that comes again starts the workflow once.
    call.request_id = start.request_id;
    call.completion_callbacks =
        vec![Callback { variant: Some(callback::Variant::Nexus(callback)), ..Default::default() }];
    let Ok(reply) = client.insist_briefly(shared, &call).await else { return };
    let run_id = reply.run_id;
    shared.ledger.note(Kind::Activity, &id, &run_id, |_, _| {});
    let started = start_operation_response::Async { operation_token: id, ..Default::default() };
    let response = StartOperationResponse { variant: Some(start_operation_response::Variant::AsyncSuccess(started)) };
    let answer = RespondNexusTaskCompletedRequest {
        namespace: NAMESPACE.to_owned(),
        identity: "segno-harness".to_owned(),
        task_token: task.task_token,
        response: Some(Response { variant: Some(Answered::StartOperation(response)) }),
        ..Default::default()
    };
    // An answer that is refused came too late: the operation has its callback, or the request is made again.
    let _ = client.insist_briefly(shared, &answer).await;
}
