//! Calls that come in numbers, each with a way of its own: message in, method, message out, nothing between.
//!
//! The general way ([`super::general`]) would answer them as well, at about twice the cost.

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock},
};

use bytes::Bytes;
use prost::Message;
use segno_http2::{Answer, Block};
use segno_proto::workflowservice::workflow_service_server::WorkflowService;
use tokio::task::AbortHandle;
use tonic::{Extensions, Request, Response, Status, metadata::MetadataMap};

use super::{
    general,
    incoming::PREFIX_BYTES,
    line::Turn,
    packing::{ENCODING, Packing, packed, unpacked},
};
use crate::{
    delivery::{OneCall, Receipt},
    grpc::Workflows,
    peers::Caller,
};

/// A method with a way of its own.
pub(super) struct Method {
    pub(super) path: &'static str,
    /// Answers a call, in a task of its own.
    pub(super) answer: fn(Arc<Workflows>, Turn, Call) -> AbortHandle,
}

/// A call of such a method.
pub(super) struct Call {
    pub(super) caller: Caller,
    pub(super) message: Bytes,
    pub(super) compressed: bool,
    pub(super) packing: Packing,
    pub(super) under_way: OneCall,
}

macro_rules! methods {
    ($($name:literal $method:ident,)*) => {
        [$(Method {
            path: concat!("/temporal.api.workflowservice.v1.WorkflowService/", $name),
            answer: |service, mut turn, mut call| {
                let task = tokio::spawn(async move {
                    turn.begin();
                    let outcome = match request(&mut call) {
                        Ok(request) => service.$method(request).await,
                        Err(status) => Err(status),
                    };
                    reply(turn, outcome, call.packing, call.under_way);
                });
                task.abort_handle()
            },
        },)*]
    };
}

static METHODS: &[Method] = &methods! {
    "CountWorkflowExecutions" count_workflow_executions,
    "DescribeWorkflowExecution" describe_workflow_execution,
    "ExecuteMultiOperation" execute_multi_operation,
    "GetWorkflowExecutionHistory" get_workflow_execution_history,
    "ListWorkflowExecutions" list_workflow_executions,
    "PollActivityTaskQueue" poll_activity_task_queue,
    "PollNexusTaskQueue" poll_nexus_task_queue,
    "PollWorkflowExecutionUpdate" poll_workflow_execution_update,
    "PollWorkflowTaskQueue" poll_workflow_task_queue,
    "QueryWorkflow" query_workflow,
    "RecordActivityTaskHeartbeat" record_activity_task_heartbeat,
    "RecordWorkerHeartbeat" record_worker_heartbeat,
    "RespondActivityTaskCompleted" respond_activity_task_completed,
    "RespondActivityTaskFailed" respond_activity_task_failed,
    "RespondQueryTaskCompleted" respond_query_task_completed,
    "RespondWorkflowTaskCompleted" respond_workflow_task_completed,
    "RespondWorkflowTaskFailed" respond_workflow_task_failed,
    "SignalWithStartWorkflowExecution" signal_with_start_workflow_execution,
    "SignalWorkflowExecution" signal_workflow_execution,
    "StartWorkflowExecution" start_workflow_execution,
    "TerminateWorkflowExecution" terminate_workflow_execution,
    "UpdateWorkflowExecution" update_workflow_execution,
};

static BY_PATH: LazyLock<HashMap<&'static [u8], &'static Method>> =
    LazyLock::new(|| METHODS.iter().map(|method| (method.path.as_bytes(), method)).collect());

static HEAD: LazyLock<Block> = LazyLock::new(|| Block::ok().with(b"content-type", b"application/grpc"));
static PACKED_HEAD: LazyLock<Block> = LazyLock::new(|| HEAD.clone().with(ENCODING.as_bytes(), b"gzip"));
static TRAILERS: LazyLock<Block> = LazyLock::new(|| Block::default().with(b"grpc-status", b"0"));

/// The method that a path names.
pub(super) fn find(path: &[u8]) -> Option<&'static Method> {
    BY_PATH.get(path).copied()
}

fn request<T: Message + Default>(call: &mut Call) -> Result<Request<T>, Status> {
    let message = std::mem::take(&mut call.message);
    let message = if call.compressed { unpacked(&message)? } else { message };
    let message = T::decode(message).map_err(|error| Status::internal(error.to_string()))?;
    let mut extensions = Extensions::default();
    extensions.insert(call.caller);
    Ok(Request::from_parts(MetadataMap::new(), extensions, message))
}

fn reply<T: Message>(turn: Turn, outcome: Result<Response<T>, Status>, packing: Packing, call: OneCall) {
    match outcome {
        Ok(response) => {
            let (_, message, mut extensions) = response.into_parts();
            let receipt = Receipt::of(&mut extensions, call);
            let length = message.encoded_len();
            let head = if packing.is_agreed() { &PACKED_HEAD } else { &HEAD };
            if packing.compresses(length)
                && let Ok(data) = packed(&message, length)
            {
                let answer = Answer { head, data, trailers: &TRAILERS };
                return turn.finish(|connection, stream| connection.answer(stream, answer, receipt));
            }
            let mut data = Vec::with_capacity(PREFIX_BYTES + length);
            data.push(0);
            data.extend_from_slice(&(length as u32).to_be_bytes());
            message.encode_raw(&mut data);
            let answer = Answer { head, data, trailers: &TRAILERS };
            turn.finish(|connection, stream| connection.answer(stream, answer, receipt));
        }
        Err(status) => {
            let (mut parts, ()) = status.into_http().into_parts();
            let headers = general::block(Block::ok(), &parts.headers);
            let receipt = Receipt::of(&mut parts.extensions, call);
            turn.finish(|connection, stream| connection.refuse(stream, &headers, receipt));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::unbuilt;

    #[test]
    fn only_built_calls_have_a_way_of_their_own() {
        for method in METHODS {
            let name = method.path.rsplit('/').next().expect("a name");
            assert!(unbuilt::BUILT.contains(&name), "{name}");
            assert!(find(method.path.as_bytes()).is_some());
        }
        assert!(find(b"/temporal.api.workflowservice.v1.WorkflowService/GetSystemInfo").is_none());
    }
}
