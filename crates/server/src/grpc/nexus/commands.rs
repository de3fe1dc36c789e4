//! Commands of the server to workers, which these poll as Nexus tasks.

use std::collections::BTreeMap;

use prost::Message;
use segno_node::{Namespace, Token, WorkerCommandTask};
use segno_proto::{
    common::Payload,
    nanos_timestamp,
    nexus::{Request as NexusRequest, StartOperationRequest, request::Variant},
    nexusservices::workerservice::v1::ExecuteCommandsRequest,
    worker::{CancelActivityCommand, WorkerCommand, worker_command},
    workflowservice::PollNexusTaskQueueResponse,
};

/// The service that workers offer to the server.
const SERVICE: &str = "temporal.api.nexusservices.workerservice.v1.WorkerService";
/// Its only operation.
const OPERATION: &str = "ExecuteCommands";

/// Names a command, for the answer.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct CommandToken {
    #[prost(string, tag = "1")]
    pub(super) id: String,
}

impl Token for CommandToken {
    const KIND: u8 = 5;
}

/// A command as the wire has it.
pub(super) fn task_of(namespace: &Namespace, command: WorkerCommandTask) -> PollNexusTaskQueueResponse {
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
