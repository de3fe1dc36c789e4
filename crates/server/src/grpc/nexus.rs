//! The part of Nexus that is built: workers poll for commands of the server. There are no endpoints.

use std::collections::BTreeMap;

use prost::Message;
use segno_node::{
    CONTROL_QUEUES, Caller, Namespace, Poll, PollerVersion, QueueKey, QueueKind, QueueType, Sdk, Token,
    WorkerCommandTask,
};
use segno_proto::{
    common::Payload,
    nanos_timestamp,
    nexus::{Request as NexusRequest, StartOperationRequest, request::Variant},
    nexusservices::workerservice::v1::ExecuteCommandsRequest,
    worker::{CancelActivityCommand, WorkerCommand, worker_command},
    workflowservice::{
        PollNexusTaskQueueRequest, PollNexusTaskQueueResponse, RespondNexusTaskCompletedRequest,
        RespondNexusTaskCompletedResponse, RespondNexusTaskFailedRequest, RespondNexusTaskFailedResponse,
    },
};
use tonic::{Request, Response, Status};

use super::{Workflows, refused};
use crate::{deadline, peers, security, validate};

/// The service that workers offer to the server.
const SERVICE: &str = "temporal.api.nexusservices.workerservice.v1.WorkerService";
/// Its only operation.
const OPERATION: &str = "ExecuteCommands";

/// Names a command, for the answer.
#[derive(Clone, PartialEq, prost::Message)]
struct CommandToken {
    #[prost(string, tag = "1")]
    id: String,
}

impl Token for CommandToken {
    const KIND: u8 = 5;
}

impl Workflows {
    /// Waits like any other poll, and ends when its time is up or its worker shuts down.
    pub(crate) async fn poll_nexus_task(
        &self,
        request: Request<PollNexusTaskQueueRequest>,
    ) -> Result<Response<PollNexusTaskQueueResponse>, Status> {
        security::check_worker_queue(&request, request.get_ref().task_queue.as_ref())?;
        let (until, connection) = (deadline::poll(&request), peers::of(&request));
        let mut request = request.into_inner();
        let namespace = self.namespace(&request.namespace)?;
        validate::worker::poll_nexus_task(&mut request).map_err(refused)?;
        if !request.worker_heartbeat.is_empty() {
            self.tell_everybody(&request.namespace, &request.worker_heartbeat, connection);
            self.node.workers.workers_reported(namespace.key, request.worker_heartbeat, connection);
        }
        let poll = Poll {
            queue: QueueKey {
                namespace: namespace.key,
                kind: QueueKind::WorkerCommand,
                name: request.task_queue.unwrap_or_default().name,
            },
            identity: request.identity,
            caller: Caller { worker: request.worker_instance_key, control_queue: String::new(), connection },
            sticky: false,
            version: PollerVersion {
                capabilities: request.worker_version_capabilities,
                deployment: request.deployment_options,
            },
            sdk: Sdk::default(),
            deadline: until?,
            tasks_per_second: None,
        };
        if !poll.queue.name.starts_with(CONTROL_QUEUES) {
            self.register_member(&poll, QueueType::Nexus).await?;
        }
        let Some((command, delivery)) = self.node.dispatch.poll_command(&poll).await else {
            return Ok(Response::new(PollNexusTaskQueueResponse::default()));
        };
        let mut response = Response::new(task_of(&namespace, command));
        response.extensions_mut().insert(delivery);
        Ok(response)
    }

    /// The answer of a worker to a command. It changes nothing: whether an activity stopped is seen by its own report.
    pub(crate) fn nexus_task_completed(
        &self,
        request: RespondNexusTaskCompletedRequest,
    ) -> Result<RespondNexusTaskCompletedResponse, Status> {
        self.open::<CommandToken>(&request.namespace, &request.task_token)?;
        Ok(RespondNexusTaskCompletedResponse::default())
    }

    /// A command that a worker could not carry out is not repeated.
    pub(crate) fn nexus_task_failed(
        &self,
        request: RespondNexusTaskFailedRequest,
    ) -> Result<RespondNexusTaskFailedResponse, Status> {
        let (_, token) = self.open::<CommandToken>(&request.namespace, &request.task_token)?;
        tracing::debug!(command = token.id, "a worker did not carry out a command");
        Ok(RespondNexusTaskFailedResponse::default())
    }
}

/// A command as the wire has it.
fn task_of(namespace: &Namespace, command: WorkerCommandTask) -> PollNexusTaskQueueResponse {
    let stop = worker_command::Type::CancelActivity(CancelActivityCommand { task_token: command.stop });
    let commands = ExecuteCommandsRequest { commands: vec![WorkerCommand { r#type: Some(stop) }] };
    let metadata = BTreeMap::from([
        ("encoding".to_owned(), "binary/protobuf".into()),
        ("messageType".to_owned(), "temporal.api.nexusservices.workerservice.v1.ExecuteCommandsRequest".into()),
    ]);
    let operation = StartOperationRequest {
        service: SERVICE.to_owned(),
        operation: OPERATION.to_owned(),
        request_id: command.id.clone(),
        payload: Some(Payload { metadata, data: commands.encode_to_vec().into(), ..Default::default() }),
        ..Default::default()
    };
    PollNexusTaskQueueResponse {
        task_token: CommandToken { id: command.id }.seal(&namespace.token_key),
        request: Some(NexusRequest {
            // Workers give up on a command after this time.
            header: BTreeMap::from([("request-timeout".to_owned(), "10s".to_owned())]),
            scheduled_time: Some(nanos_timestamp(command.given)),
            variant: Some(Variant::StartOperation(operation)),
            ..Default::default()
        }),
        ..Default::default()
    }
}
