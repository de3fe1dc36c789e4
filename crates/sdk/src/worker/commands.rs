//! Commands of the server, by which it stops tasks without waiting for their next heartbeat.
//!
//! They come as Nexus tasks on a queue of the worker's own. Best effort: a worker that misses one gets the cancellation
//! with a heartbeat.

use std::{sync::Arc, time::Duration};

use prost::Message;
use segno_proto::{
    common::Payload,
    enums::TaskQueueKind,
    nexus::{self, StartOperationResponse, request, response, start_operation_response},
    nexusservices::workerservice::v1::{ExecuteCommandsRequest, ExecuteCommandsResponse},
    taskqueue::TaskQueue,
    worker::{CancelActivityResult, WorkerCommandResult, worker_command, worker_command_result},
    workflowservice::{PollNexusTaskQueueRequest, PollNexusTaskQueueResponse, RespondNexusTaskCompletedRequest},
};
use tokio::sync::watch;
use tonic::{Code, Status};

use super::{pollers::POLL, shared::Shared};
use crate::{
    client::{Waits, unary},
    task::CancelReason,
};

/// The service that workers offer to the server.
const SERVICE: &str = "temporal.api.nexusservices.workerservice.v1.WorkerService";
/// How long an answer to a command may take.
const LIMIT: Duration = Duration::from_secs(10);

/// Takes commands until `stop`.
pub(super) async fn run(shared: Arc<Shared>, mut stop: watch::Receiver<bool>) {
    let mut waits = Waits::default();
    loop {
        let polled = tokio::select! {
            polled = poll(&shared) => polled,
            _ = stop.wait_for(|stop| *stop) => return,
        };
        match polled {
            Ok(task) => {
                waits = Waits::default();
                if !task.task_token.is_empty() {
                    answer(&shared, task).await;
                }
            }
            Err(status) if matches!(status.code(), Code::Unimplemented | Code::PermissionDenied) => return,
            Err(status) => {
                let wait = waits.next(status.code());
                tracing::debug!(code = ?status.code(), message = status.message(), ?wait, "a poll for commands failed");
                tokio::select! {
                    _ = tokio::time::sleep(wait) => {}
                    _ = stop.wait_for(|stop| *stop) => return,
                }
            }
        }
    }
}

async fn poll(shared: &Shared) -> Result<PollNexusTaskQueueResponse, Status> {
    let queue =
        TaskQueue { name: shared.control_queue(), kind: TaskQueueKind::WorkerCommands as i32, ..Default::default() };
    let request = PollNexusTaskQueueRequest {
        namespace: shared.client.namespace().to_owned(),
        task_queue: Some(queue),
        identity: shared.identity.clone(),
        worker_instance_key: shared.instance_key(),
        ..Default::default()
    };
    shared.client.once(&unary::POLL_NEXUS_TASK, &request, POLL).await
}

/// Carries out a command and says so.
async fn answer(shared: &Shared, task: PollNexusTaskQueueResponse) {
    let Some(commands) = commands_of(&task) else {
        tracing::debug!("a Nexus task that is no command is left to its time-out");
        return;
    };
    let mut results = Vec::new();
    for command in commands.commands {
        let Some(worker_command::Type::CancelActivity(cancel)) = command.r#type else { continue };
        // A worker that lost its lease may hear of its tasks before it hears of itself.
        let reason = match shared.lease_is_over() {
            true => CancelReason::WorkerLost,
            false => CancelReason::CancelRequested,
        };
        shared.running.cancel(&cancel.task_token, reason);
        let done = worker_command_result::Type::CancelActivity(CancelActivityResult {});
        results.push(WorkerCommandResult { r#type: Some(done) });
    }
    let data = ExecuteCommandsResponse { results }.encode_to_vec();
    let metadata = [
        ("encoding", "binary/protobuf"),
        ("messageType", "temporal.api.nexusservices.workerservice.v1.ExecuteCommandsResponse"),
    ];
    let metadata = metadata.into_iter().map(|(key, value)| (key.to_owned(), value.into())).collect();
    let payload = Payload { metadata, data: data.into(), ..Default::default() };
    let success = start_operation_response::Sync { payload: Some(payload), ..Default::default() };
    let started = StartOperationResponse { variant: Some(start_operation_response::Variant::SyncSuccess(success)) };
    let request = RespondNexusTaskCompletedRequest {
        namespace: shared.client.namespace().to_owned(),
        identity: shared.identity.clone(),
        task_token: task.task_token,
        response: Some(nexus::Response { variant: Some(response::Variant::StartOperation(started)) }),
        ..Default::default()
    };
    let mut service = shared.client.service();
    if let Ok(Err(status)) = tokio::time::timeout(LIMIT, service.respond_nexus_task_completed(request)).await {
        tracing::debug!(code = ?status.code(), message = status.message(), "the answer to a command was not taken");
    }
}

fn commands_of(task: &PollNexusTaskQueueResponse) -> Option<ExecuteCommandsRequest> {
    match task.request.as_ref()?.variant.as_ref()? {
        request::Variant::StartOperation(operation) if operation.service == SERVICE => {
            ExecuteCommandsRequest::decode(operation.payload.as_ref()?.data.clone()).ok()
        }
        _ => None,
    }
}
