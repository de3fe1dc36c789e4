//! The operation of the server itself, which workflows call by the endpoint `__temporal_system`: it signals a workflow of their
//! namespace, and starts it if it is not open. It is the call that a client could make, with the request id of the operation, so that
//! a repeated call is recognised.

use std::sync::{Arc, Weak};

use segno_engine::nexus::{OperationEnd, StartAnswer};
use segno_nexus::{message_payload, read_message};
use segno_node::{PortFuture, SystemCall, SystemOperations};
use segno_proto::{
    command::ScheduleNexusOperationCommandAttributes,
    common::Payload,
    failure::{Failure, ServerFailureInfo, failure::FailureInfo},
    workflowservice::{SignalWithStartWorkflowExecutionRequest, SignalWithStartWorkflowExecutionResponse},
};
use tonic::{Code, Status};

use crate::calls::{Handlers, WORKFLOW_SERVICE};

const SIGNAL_WITH_START: &str = "SignalWithStartWorkflowExecution";
const REQUEST: &str = "temporal.api.workflowservice.v1.SignalWithStartWorkflowExecutionRequest";
const RESPONSE: &str = "temporal.api.workflowservice.v1.SignalWithStartWorkflowExecutionResponse";

/// The service's calls, as operations of workflows.
pub(crate) struct SystemCalls {
    /// Not held: the node has the operations, and the service has the node.
    service: Weak<Handlers>,
}

impl SystemCalls {
    /// Operations that are calls of a service.
    pub(crate) fn new(service: &Arc<Handlers>) -> Self {
        Self { service: Arc::downgrade(service) }
    }
}

impl SystemOperations for SystemCalls {
    fn check(&self, namespace: &str, call: &ScheduleNexusOperationCommandAttributes) -> Result<(), String> {
        if call.service != WORKFLOW_SERVICE {
            return Err(format!("service {:?} not found", call.service));
        }
        if call.operation != SIGNAL_WITH_START {
            return Err(format!("operation {:?} not found", call.operation));
        }
        let request = request_of(call.input.as_ref(), namespace)?;
        let Some(service) = self.service.upgrade() else { return Err("the server is stopping".to_owned()) };
        if !service.allows_system_operations() {
            return Err("SignalWithStart operation is disabled".to_owned());
        }
        let request = request.ok_or("Request is empty")?;
        if !request.namespace.is_empty() && request.namespace != namespace {
            let own = request.namespace;
            return Err(format!("Namespace in request {own:?} does not match namespace in context {namespace:?}"));
        }
        if !request.request_id.is_empty() {
            return Err("RequestID should not be set on the request".to_owned());
        }
        if !request.links.is_empty() {
            return Err("Links should not be set on the request".to_owned());
        }
        let request = SignalWithStartWorkflowExecutionRequest { namespace: namespace.to_owned(), ..request };
        service.check_signal_with_start(request).map_err(|status| status.message().to_owned())
    }

    fn carry_out(&self, call: SystemCall) -> PortFuture<'_, StartAnswer> {
        let service = self.service.upgrade();
        Box::pin(async move {
            let Some(service) = service else { return refused(&Status::unavailable("the server is stopping")) };
            let request = match request_of(call.input.as_ref(), &call.namespace) {
                Ok(request) => request.unwrap_or_default(),
                Err(why) => return refused(&Status::invalid_argument(why)),
            };
            let request = SignalWithStartWorkflowExecutionRequest {
                namespace: call.namespace,
                request_id: call.request_id,
                links: vec![call.caller],
                ..request
            };
            match service.make(&request).await {
                Ok(response) => {
                    let SignalWithStartWorkflowExecutionResponse { run_id, started, signal_link, .. } = response;
                    let links = signal_link.iter().cloned().collect();
                    let result =
                        SignalWithStartWorkflowExecutionResponse { run_id, started, signal_link, ..Default::default() };
                    StartAnswer::Ended(OperationEnd::Completed(Some(message_payload(RESPONSE, &result))), links)
                }
                Err(status) => refused(&status),
            }
        })
    }
}

/// The request that the input of an operation is, if there is one.
fn request_of(
    input: Option<&Payload>,
    namespace: &str,
) -> Result<Option<SignalWithStartWorkflowExecutionRequest>, String> {
    let Some(input) = input else { return Ok(None) };
    read_message(REQUEST, input).map_err(|why| {
        tracing::debug!(namespace, %why, "the input of an operation of the server is no request");
        format!("failed to decode input payload: payload item 0: {why}")
    })
}

/// A call that was refused; what may pass is tried again.
fn refused(status: &Status) -> StartAnswer {
    let retryable = matches!(
        status.code(),
        Code::Unavailable | Code::ResourceExhausted | Code::DeadlineExceeded | Code::Aborted | Code::Internal
    );
    let kind = match status.code() {
        Code::AlreadyExists => "WorkflowExecutionAlreadyStarted".to_owned(),
        code => format!("{code:?}"),
    };
    let failure = Failure {
        message: format!("{kind}: {}", status.message()),
        failure_info: Some(FailureInfo::ServerFailureInfo(ServerFailureInfo { non_retryable: !retryable })),
        ..Default::default()
    };
    StartAnswer::Error { failure, retryable }
}
