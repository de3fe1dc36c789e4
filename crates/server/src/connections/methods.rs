//! The direct path: frequent unary calls go from their bytes to their method and back, without tonic in between.
//!
//! The general path ([`super::general`]) would handle them as well, at about twice the cost.

use std::{
    future::poll_fn,
    pin::Pin,
    sync::{Arc, LazyLock},
    task::Poll,
    time::Instant,
};

use bytes::Bytes;
use prost::Message;
use segno_http2::{HeaderBlock, Response as Http2Response};
use segno_proto::{decode::decode, workflowservice::workflow_service_server::WorkflowService};
use segno_runtime::{HashMap, with_request_bytes};
use tokio::task::AbortHandle;
use tonic::{Code, Extensions, Request, Response, Status, metadata::MetadataMap};

use super::{
    compression::{Compression, ENCODING, compress, decompress},
    general,
    incoming::PREFIX_BYTES,
    shared::Responder,
    turns::{self, Arrival, HeldTurn},
};
use crate::{
    delivery::{OneCall, Receipt},
    grpc::Workflows,
    metrics::calls::{self, MethodCalls},
    otel::{self, TraceParent},
    peers::CallMetadata,
    security::{Admission, Admitted},
};

/// A method with a direct path.
pub(super) struct Method {
    pub(super) path: &'static str,
    /// Handles a call in a task of its own.
    pub(super) handle: fn(Arc<Workflows>, Responder, Call, Arrival) -> AbortHandle,
    /// Handles a call of another node.
    handle_forwarded: HandleForwarded,
}

/// From an encoded request to its encoded answer, each with what goes along.
pub(crate) type HandleForwarded = fn(Arc<Workflows>, Bytes, Extensions) -> ForwardedAnswer;
type ForwardedAnswer = Pin<Box<dyn Future<Output = Result<(Bytes, Extensions), Status>> + Send>>;

/// A call of such a method.
pub(super) struct Call {
    pub(super) caller: CallMetadata,
    pub(super) message: Bytes,
    /// What it holds in memory while it is handled.
    pub(super) held_bytes: usize,
    pub(super) is_compressed: bool,
    pub(super) compression: Compression,
    pub(super) under_way: OneCall,
    /// What has to be checked before it is handled.
    pub(super) admission: Option<Admission>,
    /// The caller's trace.
    pub(super) trace: Option<TraceParent>,
}

/// Methods are `short`, or they may be `waiting` for long: for a task, an event, a worker, other lists.
macro_rules! methods {
    (@short $turn:ident, $handling:ident) => {{
        let outcome = $handling.await;
        drop($turn);
        outcome
    }};
    (@waiting $turn:ident, $handling:ident) => {
        turns::handle_waiting($turn, $handling).await
    };
    ($($name:literal $method:ident $kind:ident,)*) => {
        [$(Method {
            path: concat!("/temporal.api.workflowservice.v1.WorkflowService/", $name),
            handle: |service, mut responder, mut call, arrival| {
                // In a box, because tokio moves the future of a task several times when it starts and ends it.
                let task = tokio::spawn(with_request_bytes(call.held_bytes, Box::pin(async move {
                    const PATH: &str = concat!("/temporal.api.workflowservice.v1.WorkflowService/", $name);
                    static CALLS: LazyLock<&'static MethodCalls> = LazyLock::new(|| calls::of_path(PATH));
                    responder.start();
                    let begun = Instant::now();
                    let message = message(&mut call);
                    let bytes = || message.as_deref().unwrap_or_default();
                    let traced = otel::begin(call.trace, PATH, bytes());
                    let mut turn = arrival.turn(|| turns::lane(PATH, bytes())).await;
                    let outcome = match begin(&mut call, &mut turn, message, PATH, |request| service.$method(request)).await {
                        Ok((admitted, handling)) => admitted.outcome(methods!(@$kind turn, handling)),
                        Err(status) => Err(status),
                    };
                    let code = outcome.as_ref().map_or_else(Status::code, |_| Code::Ok);
                    CALLS.ended(code, begun);
                    traced.ended(code);
                    respond(responder, outcome, call.compression, call.under_way);
                })));
                task.abort_handle()
            },
            handle_forwarded: |service, message, extensions| Box::pin(async move {
                let request = Request::from_parts(MetadataMap::new(), extensions, decode(message)?);
                let (_, message, extensions) = service.$method(request).await?.into_parts();
                Ok((message.encode_to_vec().into(), extensions))
            }),
        },)*]
    };
}

static METHODS: &[Method] = &methods! {
    "CountWorkflowExecutions" count_workflow_executions waiting,
    "DescribeWorkflowExecution" describe_workflow_execution short,
    "ExecuteMultiOperation" execute_multi_operation waiting,
    "GetWorkflowExecutionHistory" get_workflow_execution_history waiting,
    "ListWorkflowExecutions" list_workflow_executions waiting,
    "PollActivityTaskQueue" poll_activity_task_queue waiting,
    "PollNexusTaskQueue" poll_nexus_task_queue waiting,
    "PollWorkflowExecutionUpdate" poll_workflow_execution_update waiting,
    "PollWorkflowTaskQueue" poll_workflow_task_queue waiting,
    "QueryWorkflow" query_workflow waiting,
    "RecordActivityTaskHeartbeat" record_activity_task_heartbeat short,
    "RecordWorkerHeartbeat" record_worker_heartbeat short,
    "RespondActivityTaskCompleted" respond_activity_task_completed short,
    "RespondActivityTaskFailed" respond_activity_task_failed short,
    "RespondQueryTaskCompleted" respond_query_task_completed short,
    "RespondWorkflowTaskCompleted" respond_workflow_task_completed short,
    "RespondWorkflowTaskFailed" respond_workflow_task_failed short,
    "SignalWithStartWorkflowExecution" signal_with_start_workflow_execution short,
    "SignalWorkflowExecution" signal_workflow_execution short,
    "StartWorkflowExecution" start_workflow_execution short,
    "TerminateWorkflowExecution" terminate_workflow_execution short,
    "UpdateWorkflowExecution" update_workflow_execution waiting,
};

static BY_PATH: LazyLock<HashMap<&'static [u8], &'static Method>> =
    LazyLock::new(|| METHODS.iter().map(|method| (method.path.as_bytes(), method)).collect());

static HEADERS: LazyLock<HeaderBlock> = LazyLock::new(|| HeaderBlock::ok().with(b"content-type", b"application/grpc"));
static COMPRESSED_HEADERS: LazyLock<HeaderBlock> = LazyLock::new(|| HEADERS.clone().with(ENCODING.as_bytes(), b"gzip"));
static TRAILERS: LazyLock<HeaderBlock> = LazyLock::new(|| HeaderBlock::default().with(b"grpc-status", b"0"));

/// The method that a path names.
pub(super) fn find(path: &[u8]) -> Option<&'static Method> {
    BY_PATH.get(path).copied()
}

/// What handles a call of another node, if its method has a direct path.
pub(crate) fn forwarded(path: &str) -> Option<HandleForwarded> {
    find(path.as_bytes()).map(|method| method.handle_forwarded)
}

/// The encoded request.
fn message(call: &mut Call) -> Result<Bytes, Status> {
    let message = std::mem::take(&mut call.message);
    if call.is_compressed { decompress(&message) } else { Ok(message) }
}

/// Lets a call in and begins to handle it.
///
/// What handles it comes in a box, and the request goes into that box before anything waits: a request in the task itself
/// would make it several KiB large, and tokio moves tasks a few times when it starts and ends them.
async fn begin<T: Message + Default, F>(
    call: &mut Call,
    turn: &mut Option<HeldTurn>,
    message: Result<Bytes, Status>,
    path: &str,
    handle: impl FnOnce(Request<T>) -> F,
) -> Result<(Admitted, F), Status> {
    let message = message?;
    let admitted = match call.admission.take() {
        None => Admitted::default(),
        Some(admission) => match admission.admit_now(path, &message) {
            Some(admitted) => admitted?,
            None => {
                let mut admitting = Box::pin(admission.admit(path, &message));
                match poll_fn(|context| Poll::Ready(admitting.as_mut().poll(context))).await {
                    Poll::Ready(admitted) => admitted?,
                    // It may take long to find out who calls.
                    Poll::Pending => {
                        *turn = None;
                        admitting.await?
                    }
                }
            }
        },
    };
    let mut request = match request(call, message) {
        Ok(request) => request,
        Err(status) => return admitted.outcome(Err(status)),
    };
    // Of methods with a direct path only polls want to know who calls, and only if its queues are limited.
    if let Some(caller) = admitted.caller.as_ref().filter(|caller| caller.has_limited_queues()) {
        request.extensions_mut().insert(caller.clone());
    }
    Ok((admitted, handle(request)))
}

fn request<T: Message + Default>(call: &Call, message: Bytes) -> Result<Request<T>, Status> {
    let message = decode::<T>(message)?;
    let mut extensions = Extensions::default();
    extensions.insert(call.caller);
    Ok(Request::from_parts(MetadataMap::new(), extensions, message))
}

fn respond<T: Message>(
    responder: Responder,
    outcome: Result<Response<T>, Status>,
    compression: Compression,
    call: OneCall,
) {
    match outcome {
        Ok(response) => {
            let (_, message, mut extensions) = response.into_parts();
            let receipt = Receipt::of(&mut extensions, call);
            let length = message.encoded_len();
            let headers = if compression.is_agreed() { &COMPRESSED_HEADERS } else { &HEADERS };
            let compressed = if compression.applies_to(length) { compress(&message, length).ok() } else { None };
            let data = compressed.unwrap_or_else(|| {
                let mut data = Vec::with_capacity(PREFIX_BYTES + length);
                data.push(0);
                data.extend_from_slice(&(length as u32).to_be_bytes());
                message.encode_raw(&mut data);
                data
            });
            let response = Http2Response { headers, data, trailers: &TRAILERS };
            responder.finish(|connection, stream| connection.respond(stream, response, receipt));
        }
        Err(status) => refuse(responder, status, call),
    }
}

/// Answers a call with a status and nothing else.
pub(super) fn refuse(responder: Responder, status: Status, call: OneCall) {
    let (mut parts, ()) = status.into_http().into_parts();
    let headers = general::header_block(HeaderBlock::ok(), &parts.headers);
    let receipt = Receipt::of(&mut parts.extensions, call);
    responder.finish(|connection, stream| connection.send_trailers_only(stream, &headers, receipt));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::unbuilt;

    #[test]
    fn only_built_calls_have_a_direct_path() {
        for method in METHODS {
            let name = method.path.rsplit('/').next().expect("a name");
            assert!(unbuilt::BUILT.contains(&name), "{name}");
            assert!(find(method.path.as_bytes()).is_some());
        }
        assert!(find(b"/temporal.api.workflowservice.v1.WorkflowService/GetSystemInfo").is_none());
    }
}
